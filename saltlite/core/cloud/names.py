"""Names of machines: they become minion ids, parts of event tags and names of files."""

from __future__ import annotations

import re

from saltlite.errors import UsageError

NAME_MAX = 63
"""Characters: the longest label of a host's name (RFC 1035)."""

TAG_ROOT = "salt/cloud/"

_MACHINE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?", re.ASCII)


def check_machine_name(name: str) -> None:
    """Raises UsageError for what no new machine may be called. Machines that are there may have other names."""
    if len(name) > NAME_MAX or not _MACHINE.fullmatch(name):
        raise UsageError(
            f"{name[:80]!r} is no name for a machine: up to {NAME_MAX} letters, digits, dots, hyphens and underscores, "
            "with a letter or digit first and no dot or hyphen last"
        )


def tag_of(machine: str, what: str) -> str:
    """The tag of an event about a machine, whatever its provider calls it."""
    shown = "".join(one if one.isprintable() and one not in "/ " else "_" for one in machine)
    return f"{TAG_ROOT}{shown[:NAME_MAX] or '_'}/{what}"
