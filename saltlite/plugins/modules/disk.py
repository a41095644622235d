"""File systems and block devices: usage, content, formatting, resizing.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       df, blkid, blockdev; wipefs, resize2fs, mkfs and iostat for the functions that need them
:platform:      Linux
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _programs

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

__func_alias__ = {"format_": "format"}
__risk__ = {"format": "format", "wipe": "wipe"}

_DF_FLAGS = frozenset("aBhHiklPtTxv")
_FIGURE = r"\s+(-|-?[\d.,]+[A-Za-z]*)"
_DF_ROW = re.compile(rf"(.+?){_FIGURE}{_FIGURE}{_FIGURE}\s+(-|\d+%)\s+(/.*)")
_BLKID_PAIR = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_DUMP = (
    "getro", "getsz", "getss", "getpbsz", "getiomin", "getioopt", "getalignoff", "getmaxsect", "getsize", "getsize64",
    "getra", "getfra",
)  # fmt: skip
_TUNE = {
    "read-ahead": ("setra", "getra"),
    "filesystem-read-ahead": ("setfra", "getfra"),
    "read-only": ("setro", "getro"),
    "read-write": ("setrw", "getro"),
}
"""Attribute -> the options of blockdev that set and show it."""


def usage(args: str | None = None) -> dict[str, dict[str, str]]:
    """Return the usage of mounted file systems: ``{mount point: {filesystem, 1K-blocks, used, available, capacity}}``.

    ``args`` are option letters of df, such as ``h`` for human-readable sizes.

    CLI Example::

        saltlite '*' disk.usage
        saltlite '*' disk.usage h
    """
    keys = ("filesystem", "1K-blocks", "used", "available", "capacity")
    found = _rows(keys, _df("P", args))
    if "T" in (args or ""):
        # The type column is padded to the longest name.
        for row in found.values():
            row["filesystem"] = " ".join(row["filesystem"].rsplit(maxsplit=1))
    return found


def inodeusage(args: str | None = None) -> dict[str, dict[str, str]]:
    """Return the inode usage: ``{mount point: {filesystem, inodes, used, free, use}}``.

    CLI Example: ``saltlite '*' disk.inodeusage``
    """
    return _rows(("filesystem", "inodes", "used", "free", "use"), _df("iP", args))


def percent(args: str | None = None) -> str | dict[str, str]:
    """Return the usage of mounted file systems in percent: ``{mount point: "12%"}``, or a text for one mount point.

    A missing mount point gives an empty dict.

    CLI Example::

        saltlite '*' disk.percent
        saltlite '*' disk.percent /var
    """
    found = {place: row["capacity"] for place, row in usage().items()}
    return found.get(str(args), {}) if args else found


def blkid(device: str | None = None, token: str | None = None) -> dict[str, dict[str, str]]:
    """Return the content of block devices: ``{device: {"UUID": text, "TYPE": text, "LABEL": text}}``, and more.

    ``device`` selects one, ``token`` those that have it.

    CLI Example::

        saltlite '*' disk.blkid
        saltlite '*' disk.blkid /dev/sda
        saltlite '*' disk.blkid token='TYPE=ext4'
    """
    argv = ["blkid"]
    if device:
        argv.append(_device(device))
    elif token:
        argv += ["-t", _programs.word(token, "token, such as TYPE=ext4")]
    done = _programs.run(argv)
    found = {}
    for line in done.stdout.splitlines():
        name, colon, rest = line.partition(": ")
        if colon:
            found[name] = {key: re.sub(r"\\(.)", r"\1", value) for key, value in _BLKID_PAIR.findall(rest)}
    return {} if done.retcode else found


def tune(device: str, **kwargs: Any) -> dict[str, str]:
    """Set attributes of a block device and return them: ``read_ahead``, ``filesystem_read_ahead``, ``read_only=True``,
    ``read_write=True``. Hyphens may replace underscores.

    CLI Example: ``saltlite '*' disk.tune /dev/sda1 read_ahead=1024 read_write=True``
    """
    options, shown = [], []
    for name, value in kwargs.items():
        if name.startswith("__"):
            continue
        key = name.replace("_", "-")
        plain = key in {"read-only", "read-write"}
        if key not in _TUNE or (plain and str(value) != "True"):
            raise SaltInvocationError(f"Invalid keyword arguments: {key}={value}; valid are: {', '.join(_TUNE)}.")
        setter, getter = _TUNE[key]
        options += [f"--{setter}"] if plain else [f"--{setter}", _count(value)]
        shown.append(getter)
    if not options:
        raise SaltInvocationError(f"Say what to set: {', '.join(_TUNE)}.")
    _programs.output(["blockdev", *options, _device(device)])
    return _dumped(device, shown)


def wipe(device: str, test: bool = False) -> bool:
    """Remove the signatures of file systems from a device; ``test=True`` only checks whether that is possible.

    CLI Example: ``saltlite '*' disk.wipe /dev/sda1``
    """
    _programs.output(["wipefs", *(["--no-act"] if test else []), "--all", "--", _device(device)])
    return True


def dump(device: str, args: Sequence[str] | None = None) -> dict[str, str] | bool:
    """Return the attributes of a device that blockdev knows, or those in ``args``; False if it is no device.

    CLI Example::

        saltlite '*' disk.dump /dev/sda1
        saltlite '*' disk.dump /dev/sda1 args='[getsize64, getra]'
    """
    wanted = [args] if isinstance(args, str) else list(args or _DUMP)
    unknown = [name for name in wanted if name not in _DUMP]
    if unknown:
        raise SaltInvocationError(f"blockdev shows no {', '.join(unknown)}; it shows: {', '.join(_DUMP)}.")
    try:
        return _dumped(device, wanted)
    except CommandNotFoundError:
        raise
    except CommandExecutionError:
        return False


def resize2fs(device: str) -> bool:
    """Grow an ext2, ext3 or ext4 file system to the size of its device.

    CLI Example: ``saltlite '*' disk.resize2fs /dev/sda1``
    """
    _programs.output(["resize2fs", _device(device)])
    return True


def format_(
    device: str, fs_type: str = "ext4", inode_size: int | None = None, lazy_itable_init: int | None = None,
    fat: int | None = None, force: bool = False,
) -> bool:  # fmt: skip
    """Create a file system on a device, which destroys its content.

    ``inode_size`` is for ext and xfs, ``lazy_itable_init`` for ext, ``fat`` (12, 16 or 32) for vfat. ``force`` makes
    ext and xfs overwrite existing data.

    CLI Example::

        saltlite '*' disk.format /dev/sdX1
        saltlite '*' disk.format /dev/sdX1 fs_type=xfs force=True
    """
    kind = str(fs_type)
    if not re.fullmatch(r"[a-z0-9][a-z0-9_.-]*", kind):
        raise SaltInvocationError(f"{kind!r} cannot be a type of a file system.")
    ext, xfs = kind.startswith("ext"), kind == "xfs"
    options: list[str] = []
    if inode_size is not None and (ext or xfs):
        options += ["-I", _count(inode_size)] if ext else ["-i", f"size={_count(inode_size)}"]
    if lazy_itable_init is not None and ext:
        options += ["-E", f"lazy_itable_init={_count(lazy_itable_init)}"]
    if fat is not None and kind.endswith("fat"):
        if str(fat) not in {"12", "16", "32"}:
            raise SaltInvocationError(f"{fat!r} is not a FAT size: use 12, 16 or 32.")
        options += ["-F", str(fat)]
    if force and (ext or xfs):
        options.append("-F" if ext else "-f")
    _programs.output(["mkfs", "-t", kind, *options, _device(device)])
    return True


def fstype(device: str) -> str:
    """Return the type of the file system on a device or at a mount point, or an empty text.

    CLI Example::

        saltlite '*' disk.fstype /dev/sdX1
        saltlite '*' disk.fstype /srv
    """
    name = _device(device)
    if _programs.find("lsblk"):
        done = _programs.run(["lsblk", "--nodeps", "--noheadings", "--output", "FSTYPE", "--", name])
        if done.stdout.strip():
            return done.stdout.split()[0]
    mounted = [mount.fstype for mount in _machinefiles.mounts() if name in (mount.device, mount.point)]
    return mounted[-1] if mounted else ""


def iostat(interval: int = 1, count: int = 5, disks: str | list[str] | None = None) -> dict[str, dict[str, float]]:
    """Return the averages of ``count`` readings of iostat: ``{"sys": {column: value}, device: {column: value}}``.

    CLI Example: ``saltlite '*' disk.iostat 1 5 disks=sda``
    """
    names = disks.split(",") if isinstance(disks, str) else list(disks or [])
    argv = ["iostat", "-xd" if names else "-x", *(_programs.word(name, "name of a disk") for name in names)]
    return _averages(_programs.output([*argv, _count(interval), _count(count)]))


def get_fstype_from_path(path: str) -> str:
    """Return the type of the file system of a path.

    CLI Example: ``saltlite '*' disk.get_fstype_from_path /root``
    """
    point = __salt__["mount.get_mount_from_path"](path)
    mount = _machinefiles.by_point().get(point)
    return mount.fstype if mount else ""


def _df(flags: str, args: str | None) -> str:
    given = "".join(args or "")
    wrong = "".join(sorted(set(given) - _DF_FLAGS))
    if wrong:
        raise CommandExecutionError(f"Invalid flag passed to df: {wrong}")
    done = _programs.run(["df", f"-{flags}{given}"])
    # df fails if one file system is inaccessible, but lists the others.
    if done.retcode and not done.stdout.strip():
        raise done.failure()
    return done.stdout


def _rows(keys: Sequence[str], text: str) -> dict[str, dict[str, str]]:
    found = {}
    for line in text.splitlines()[1:]:
        match = _DF_ROW.fullmatch(line)
        if match:
            found[match[6]] = dict(zip(keys, match.groups()[:5], strict=True))
    return found


def _dumped(device: str, wanted: Sequence[str]) -> dict[str, str]:
    lines = _programs.output(["blockdev", *(f"--{name}" for name in wanted), _device(device)]).split()
    return dict(zip(wanted, lines, strict=False))


def _averages(text: str) -> dict[str, dict[str, float]]:
    columns: list[str] = []
    readings: dict[str, list[Mapping[str, float]]] = {}
    name = ""
    for line in text.splitlines():
        words = line.split()
        if line.startswith("avg-cpu:"):
            columns, name = words[1:], "sys"
        elif line.startswith("Device"):
            columns, name = words[1:], ""
        elif words and columns and not line.startswith("Linux "):
            key, values = (name, words) if name else (words[0], words[1:])
            numbers = [float(value.replace(",", ".")) for value in values]
            readings.setdefault(key, []).append(dict(zip(columns, numbers, strict=False)))
    return {
        key: {column: round(sum(row[column] for row in rows) / len(rows), 2) for column in rows[0]}
        for key, rows in readings.items()
    }


def _device(value: Any) -> str:
    return _programs.word(value, "device")


def _count(value: Any) -> str:
    if not re.fullmatch(r"[0-9]{1,12}", str(value)):
        raise SaltInvocationError(f"{value!r} is not a valid number; write digits.")
    return str(value)
