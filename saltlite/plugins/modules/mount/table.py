"""The table of file systems that are mounted at a start: fstab(5)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _mounts

_KEYS = ("device", "name", "fstype", "opts", "dump", "pass_num")
_WITHOUT_A_DEVICE = {
    "none", "tmpfs", "sysfs", "proc", "fusectl", "debugfs", "securityfs", "devtmpfs", "cgroup", "nfs", "nfs4",
    "glusterfs", "btrfs", "ceph",
}  # fmt: skip
"""Several entries may name the same device of these: the mount point tells which is meant."""


class _Entry(NamedTuple):
    """One entry, its columns without escapes."""

    device: str
    name: str
    fstype: str
    opts: str
    dump: str
    pass_num: str

    def line(self) -> str:
        columns = [_mounts.written(text) for text in (self.device, self.name, self.fstype, self.opts)]
        return "{}\t\t{}\t{}\t{}\t{} {}\n".format(*columns, self.dump, self.pass_num)

    def same(self, other: _Entry) -> bool:
        """Whether both say the same; the order of options does not count."""
        mine, theirs = sorted(self.opts.split(",")), sorted(other.opts.split(","))
        return mine == theirs and all(getattr(self, key) == getattr(other, key) for key in _KEYS if key != "opts")


def fstab(config: str = "/etc/fstab") -> dict[str, dict[str, Any]]:
    """
    The entries of the table: ``{mount point: {device, fstype, opts, dump, pass}}``.

    A mount point that is there twice has underscores at the end of its name.

    CLI Example::

        saltlite '*' mount.fstab
    """
    found: dict[str, dict[str, Any]] = {}
    for line in _machinefiles.read_if_there(config).splitlines():
        entry = _entry(line)
        if entry is None:
            continue
        name = entry.name
        while name in found:
            name += "_"
        found[name] = {
            "device": entry.device,
            "fstype": entry.fstype,
            "opts": entry.opts.split(","),
            "dump": entry.dump,
            "pass": entry.pass_num,
        }
    return found


def rm_fstab(name: str, device: str | None = None, config: str = "/etc/fstab", test: bool = False) -> bool:
    """
    Take a mount point out of the table; ``device`` takes out only its entry. True when it is not there any more.

    CLI Example::

        saltlite '*' mount.rm_fstab /srv/foo /dev/sdg
    """
    kept = []
    lines = _machinefiles.read(config).splitlines(keepends=True)
    for line in lines:
        entry = _entry(line)
        if entry and entry.name == _mounts.plain(name) and (device is None or entry.device == _mounts.plain(device)):
            continue
        kept.append(line)
    if kept != lines and not test:
        _machinefiles.replace(config, "".join(kept))
    return True


def set_fstab(  # noqa: PLR0913, PLR0917 - Salt's signature
    name: str,
    device: str,
    fstype: str,
    opts: str | Sequence[str] = "defaults",
    dump: int = 0,
    pass_num: int = 0,
    config: str = "/etc/fstab",
    test: bool = False,
    match_on: str | Sequence[str] = "auto",
    not_change: bool = False,
) -> str:
    """
    Have an entry in the table: ``new``, ``change`` or ``present`` tells what was, or with ``test=True`` would be, done.

    ``match_on`` names the columns that tell which entry is meant, of ``device``, ``name``, ``fstype``, ``opts``,
    ``dump`` and ``pass_num``; ``auto`` means the device, or the mount point for file systems that have none.
    ``not_change`` leaves an entry that is there as it is.

    CLI Example::

        saltlite '*' mount.set_fstab /srv/foo /dev/sdz1 ext4
    """
    texts = (device, name, fstype, opts if isinstance(opts, str) else ",".join(opts), dump, pass_num)
    wanted = _checked(_Entry(*(_mounts.plain(str(text).replace("\\ ", " ")) for text in texts)))
    keys = _matching_on(match_on, wanted.fstype)
    if not os.path.isfile(_machinefiles.place(config)):
        raise CommandExecutionError(f'Bad config file "{config}": there is no such file.')
    lines, done = [], ""
    for line in _machinefiles.read(config).splitlines(keepends=True):
        entry = _entry(line)
        if entry is None or any(getattr(entry, key) != getattr(wanted, key) for key in keys):
            lines.append(line)
        elif not_change or entry.same(wanted):
            done = done or "present"
            lines.append(line)
        else:
            done = "change"
            lines.append(wanted.line())
    if not done:
        done = "new"
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += "\n"
        lines.append(wanted.line())
    if done != "present" and not test:
        _machinefiles.replace(config, "".join(lines))
    return done


def _entry(line: str) -> _Entry | None:
    columns = line.split()
    if line.lstrip().startswith("#") or not 4 <= len(columns) <= 6:
        return None
    return _Entry(*(_mounts.plain(column) for column in [*columns, "0", "0"][:6]))


def _checked(entry: _Entry) -> _Entry:
    for key in ("fstype", "opts", "dump", "pass_num"):
        if not re.fullmatch(r"\S+", getattr(entry, key)) and key != "opts":
            raise SaltInvocationError(f"{getattr(entry, key)!r} cannot be the {key} of an entry.")
    for text in (entry.device, entry.name, entry.opts):
        if not text or "\0" in text or "\n" in text:
            raise SaltInvocationError(f"{text!r} cannot stand in a table of file systems.")
    if entry.device.startswith("#"):
        raise SaltInvocationError(f"{entry.device!r} would be a comment in a table of file systems.")
    return entry


def _matching_on(match_on: str | Sequence[str], fstype: str) -> list[str]:
    if match_on == "auto":
        return ["name"] if fstype in _WITHOUT_A_DEVICE else ["device"]
    keys = [match_on] if isinstance(match_on, str) else list(match_on)
    unknown = [key for key in keys if key not in _KEYS]
    if unknown or not keys:
        raise CommandExecutionError(f"Unrecognized keys in match_on: {', '.join(map(str, unknown)) or 'none given'}")
    return keys
