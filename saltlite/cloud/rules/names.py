"""Names of machines: they become minion ids, parts of event tags and names of files."""

from __future__ import annotations

import re

from saltlite.errors import UsageError

NAME_MAX = 63
"""Characters: the longest label of a host's name (RFC 1035)."""
IN_TAG_MAX = 200

_MACHINE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?", re.ASCII)


def check_machine_name(name: str) -> None:
    """Raises UsageError for what no new machine may be called. Machines that are there may have other names."""
    if len(name) > NAME_MAX or not _MACHINE.fullmatch(name):
        raise UsageError(
            f"{name[:80]!r} is no name for a machine: up to {NAME_MAX} letters, digits, dots, hyphens and underscores, "
            "with a letter or digit first and no dot or hyphen last"
        )


def name_in_tag(machine: str) -> str:
    """The name as a part of an event's tag, whatever its provider lets a machine be called."""
    shown = "".join(one if one.isprintable() and one not in "/ " else "_" for one in machine)
    return shown[:IN_TAG_MAX] or "_"
