"""The table of an automounter, in the form that Salt writes: `/..NAME  -fstype=TYPE,OPTIONS  TYPE:DEVICE`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from saltlite.errors import SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _programs

_MASTER = "/etc/auto_master"
_PREFIX = "/.."


def automaster(config: str = "/etc/auto_salt") -> dict[str, dict[str, Any]]:
    """
    The entries of the automounter's table: ``{name: {device, fstype, opts}}``.

    CLI Example::

        saltlite '*' mount.automaster
    """
    found = {}
    for line in _machinefiles.read_if_there(config).splitlines():
        columns = _columns(line)
        if columns:
            name, options, device = columns
            first, *others = options.split(",")
            found[name.removeprefix(_PREFIX)] = {
                "device": device.partition(":")[2],
                "fstype": first,
                "opts": [other for other in others if other],
            }
    return found


def set_automaster(
    name: str,
    device: str,
    fstype: str,
    opts: str | Sequence[str] = "",
    config: str = "/etc/auto_salt",
    test: bool = False,
    not_change: bool = False,
) -> str:
    """
    Have an entry in the automounter's table: ``new``, ``change`` or ``present``; ``test=True`` only tells which.

    CLI Example::

        saltlite '*' mount.set_automaster /srv/foo /dev/sdz1 ext4
    """
    kind = _column(fstype)
    options = f"-fstype={kind}," + (opts if isinstance(opts, str) else ",".join(opts))
    wanted = [_PREFIX + _column(name), _column(options), f"{'' if kind == 'smbfs' else kind}:{_column(device)}"]
    lines, done = [], ""
    for line in _machinefiles.read_if_there(config).splitlines(keepends=True):
        columns = _columns(line)
        if not columns or (columns[0] != wanted[0] and columns[2] != wanted[2]):
            lines.append(line)
        elif not_change or columns == wanted:
            done = done or "present"
            lines.append(line)
        else:
            done = "change"
            lines.append("\t".join(wanted) + "\n")
    if not done:
        done = "new"
        lines.append("\t".join(wanted) + "\n")
    if done != "present" and not test:
        _name_in_master(config)
        _machinefiles.replace(config, "".join(lines))
    return done


def rm_automaster(name: str, device: str | None, config: str = "/etc/auto_salt") -> bool:
    """
    Take an entry out of the automounter's table, and have the automounter read it again.

    CLI Example::

        saltlite '*' mount.rm_automaster /srv/foo /dev/sdg
    """
    lines = _machinefiles.read_if_there(config).splitlines(keepends=True)
    kept = []
    for line in lines:
        columns = _columns(line)
        named = bool(columns) and columns[0].removeprefix(_PREFIX) == str(name)
        if not named or (device and columns[2].partition(":")[2] != str(device)):
            kept.append(line)
    if kept != lines:
        _machinefiles.replace(config, "".join(kept))
        if _programs.find("automount"):
            _programs.run(["automount", "-cv"])
    return True


def _name_in_master(config: str) -> None:
    if os.path.exists(_machinefiles.place(config)):
        return
    text = _machinefiles.read_if_there(_MASTER)
    if config not in text.split():
        gap = "\n" if text and not text.endswith("\n") else ""
        _machinefiles.replace(_MASTER, f"{text}{gap}/-\t\t\t{config}\n")


def _columns(line: str) -> list[str]:
    columns = line.split()
    return columns if len(columns) == 3 and not line.lstrip().startswith("#") else []


def _column(text: Any) -> str:
    if not str(text) or str(text).split() != [str(text)] or "\0" in str(text):
        raise SaltInvocationError(f"{text!r} cannot stand in an automounter's table, which has no white space.")
    return str(text)
