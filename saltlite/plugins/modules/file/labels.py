"""SELinux labels of files.

A label is an extended attribute, so reading and setting one needs no program. Only ``persist`` and ``restorecon`` call
those of SELinux.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING

from saltlite.decorators import note
from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._commands import run_needed
from saltlite.plugins.modules._safe_files import checked_path, hold, pinned, sentence, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from saltlite.loader.hints import __context__, __salt__

_ATTRIBUTE = "security.selinux"
_NO_LABEL = frozenset({errno.ENODATA, errno.EOPNOTSUPP})
_PARTS = ("user", "role", "type", "range")


def get_selinux_context(path: str) -> str:
    """Return the SELinux label of a file, or a message that there is none.

    CLI Example: ``saltlite '*' file.get_selinux_context /etc/hosts``
    """
    name = checked_path(path)
    try:
        return _label(name)
    except OSError:
        return f"No selinux context information is available for {name}"


def set_selinux_context(
    path: str, user: str | None = None, role: str | None = None, type: str | None = None, range: str | None = None,
    persist: bool = False,
) -> str:  # fmt: skip
    """Set parts of the SELinux label of a file, and return the label.

    Parts that are not given stay. A file without a label needs ``user``, ``role`` and ``type``. ``persist`` also sets
    them in the policy with ``semanage``, so that ``restorecon`` sets the same.

    CLI Example::

        saltlite '*' file.set_selinux_context /srv/www type=httpd_sys_content_t
        saltlite '*' file.set_selinux_context /etc/yum.repos.d/epel.repo system_u object_r system_conf_t s0
    """
    name = checked_path(path)
    wanted = label_parts(user, role, type, range)
    if not wanted:
        raise SaltInvocationError("Say which part of the label to set: user, role, type or range.")
    if persist:
        _persist(name, wanted)
    try:
        with pinned(name) as place, hold(place, follow_symlinks=True) as same:
            label = _changed(same, name, wanted)
            os.setxattr(same, _ATTRIBUTE, label.encode() + b"\0")
    except OSError as error:
        raise sentence(name, "labelled", error) from error
    return label


def restorecon(path: str, recursive: bool = False) -> bool:
    """Set the SELinux label that the policy has for a path, with ``recursive`` also below it.

    CLI Example::

        saltlite '*' file.restorecon /etc/ssh/sshd_config
        saltlite '*' file.restorecon /srv/www recursive=True
    """
    argv = ["restorecon", "-FR" if recursive else "-F", "--", checked_path(path)]
    done = run_needed(__salt__["cmd.run_all"], argv, ignore_retcode=True)
    if done["retcode"]:
        note(f"restorecon failed: {done['stderr'] or done['stdout'] or done['retcode']}")
        __context__["retcode"] = 1
    return not done["retcode"]


def label_parts(user: str | None, role: str | None, type: str | None, range: str | None) -> dict[str, str]:
    """The given parts by name. Raises SaltInvocationError for an invalid one."""
    given = zip(_PARTS, (user, role, type, range), strict=True)
    return {part: _part(part, text) for part, text in given if text}


def differing_parts(path: str, wanted: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The wanted parts that the label of a file has not, and what it has in their place."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        found = dict(zip(_PARTS, _label(path).split(":", 3), strict=False))
    differing = {part: text for part, text in wanted.items() if found.get(part) != text}
    return differing, {part: found[part] for part in differing if part in found}


def _label(path: str) -> str:
    return os.getxattr(path, _ATTRIBUTE).rstrip(b"\0").decode(errors="replace")


def _part(name: str, text: str) -> str:
    found = str(text)
    # Categories, which only a range has, contain colons.
    if not found.isprintable() or " " in found or (":" in found and name != "range"):
        raise SaltInvocationError(f"{found!r} is not the {name} of an SELinux label.")
    return found


def _changed(same: str, name: str, wanted: dict[str, str]) -> str:
    """The label with these parts. Raises OSError, and SaltInvocationError if there is none to change."""
    try:
        parts = _label(same).split(":", 3)
    except OSError as error:
        if error.errno not in _NO_LABEL:
            raise
        if not {"user", "role", "type"} <= set(wanted):
            text = f"{shown(name)} has no SELinux label: give user, role and type."
            raise SaltInvocationError(text) from error
        parts = []
    found = {**dict(zip(_PARTS, parts, strict=False)), **wanted}
    return ":".join(found[part] for part in _PARTS if part in found)


def _persist(name: str, wanted: dict[str, str]) -> None:
    flags = {"user": "-s", "type": "-t", "range": "-r"}  # the policy has no role for a path
    options = [word for part, flag in flags.items() if part in wanted for word in (flag, wanted[part])]
    for verb in ("-a", "-m"):  # a path that the policy has already is modified
        done = run_needed(
            __salt__["cmd.run_all"], ["semanage", "fcontext", verb, *options, "--", name], ignore_retcode=True
        )
        if not done["retcode"]:
            return
    raise CommandExecutionError(f"semanage failed: {done['stderr'] or done['stdout'] or done['retcode']}")
