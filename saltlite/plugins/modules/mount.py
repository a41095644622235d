"""Mount file systems, list mounts, and edit fstab and automounter tables.

Mounts are read from `/proc/self/mountinfo`. Tables are replaced atomically. White space in paths is escaped in the
tables and unescaped when they are read.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       mount, umount, swapon, swapoff
:platform:      Linux
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _programs
from saltlite.plugins.modules._commands import run_needed
from saltlite.plugins.modules._safe_files import held

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __opts__, __salt__


# --- Automounter tables: `/..NAME  -fstype=TYPE,OPTIONS  TYPE:DEVICE`, as Salt writes them ---

_MASTER = "/etc/auto_master"
_PREFIX = "/.."


def automaster(config: str = "/etc/auto_salt") -> dict[str, dict[str, Any]]:
    """Return the entries of the automounter's table: ``{name: {device, fstype, opts}}``.

    CLI Example: ``saltlite '*' mount.automaster``
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
    name: str, device: str, fstype: str, opts: str | Sequence[str] = "", config: str = "/etc/auto_salt",
    test: bool = False, not_change: bool = False,
) -> str:  # fmt: skip
    """Set an entry in the automounter's table: ``new``, ``change`` or ``present``; ``test=True`` only reports.

    CLI Example: ``saltlite '*' mount.set_automaster /srv/foo /dev/sdz1 ext4``
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
    """Remove an entry from the automounter's table, and reload the automounter.

    CLI Example: ``saltlite '*' mount.rm_automaster /srv/foo /dev/sdg``
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


# --- Cached mount options ---


def read_mount_cache(name: str) -> dict[str, Any]:
    """Return the cached options of a mount point: ``{device, fstype, mkmnt, opts}``, or an empty dict.

    CLI Example: ``saltlite '*' mount.read_mount_cache /srv/share``
    """
    row: dict[str, Any] = _remembered().get(str(name), {})
    return row


def write_mount_cache(real_name: str, device: str, mkmnt: bool, fstype: str, mount_opts: str | Sequence[str]) -> bool:
    """Cache the options of a mount point.

    CLI Example: ``saltlite '*' mount.write_mount_cache /srv/share /dev/sda1 False ext4 defaults,nosuid``
    """
    known = _remembered()
    known[str(real_name)] = {"device": device, "fstype": fstype, "mkmnt": mkmnt, "opts": mount_opts}
    _remember(known)
    return True


def delete_mount_cache(real_name: str) -> bool:
    """Delete a mount point from the cache.

    CLI Example: ``saltlite '*' mount.delete_mount_cache /srv/share``
    """
    known = _remembered()
    if known.pop(str(real_name), None) is not None:
        _remember(known)
    return True


def _remember(known: dict[str, Any]) -> None:
    import json

    _machinefiles.replace(_place(), json.dumps({"mounts": known}), mode=0o600)


def _remembered() -> dict[str, Any]:
    import json

    text = _machinefiles.read_if_there(_place())
    try:
        found: dict[str, Any] = json.loads(text)["mounts"] if text else {}
    except (ValueError, KeyError, TypeError) as error:
        raise CommandExecutionError(f"{_place()} is damaged; remove it, and nothing is remembered.") from error
    return found


def _place() -> str:
    folder = __opts__.get("cachedir")
    if not folder:
        raise CommandExecutionError("This minion has no folder for caches (option cachedir).")
    return os.path.join(str(folder), "mounts")


# --- Mounted file systems and swap ---

__risk__ = {"swapoff": "swapoff", "umount": "umount"}


def active(extended: bool = False) -> dict[str, dict[str, Any]]:
    """Return the mounts: ``{mount point: {device, alt_device, fstype, opts}}``; ``extended`` adds details.

    CLI Example::

        saltlite '*' mount.active
        saltlite '*' mount.active extended=True
    """
    found: dict[str, dict[str, Any]] = {}
    uuids = _devices_by("uuid") if extended else {}
    labels = _devices_by("label") if extended else {}
    for point, mount in _machinefiles.by_point().items():
        found[point] = {
            "device": mount.device,
            "alt_device": _real_device(mount),
            "fstype": mount.fstype,
            "opts": mount.options if extended else _machinefiles.options_of(mount),
        }
        if extended:
            number = f"{mount.major}:{mount.minor}"
            found[point] |= {
                "mountid": mount.mountid,
                "parentid": mount.parentid,
                "major": mount.major,
                "minor": mount.minor,
                "root": mount.root,
                "superopts": mount.superoptions,
                "device_uuid": uuids.get(number),
                "device_label": labels.get(number),
            }
    return found


def mount(
    name: str, device: str | bool = False, mkmnt: bool = False, fstype: str = "",
    opts: str | Sequence[str] = "defaults", user: str | None = None, util: str = "mount",
) -> bool | str:  # fmt: skip
    """Mount a device on a folder. Return True, or the program's message on failure.

    Without a device, fstab is used. ``mkmnt`` creates the folder; ``user`` mounts as that user.

    CLI Example: ``saltlite '*' mount.mount /srv/foo /dev/sdz1 mkmnt=True``
    """
    if util != "mount":
        raise SaltInvocationError(f"util={util!r} is not supported; `mount` is the only one.")
    point = _point(name)
    if mkmnt and not os.path.exists(point):
        _make_folder(point, user)
    argv = ["mount"]
    if device:
        argv += [*_options(opts, fstype), "--", _programs.word(device, "device")]
    else:
        argv.append("--")
    return _done([*argv, point], user)


def remount(
    name: str, device: str | bool, mkmnt: bool = False, fstype: str = "", opts: str | Sequence[str] = "defaults",
    user: str | None = None,
) -> bool | str:  # fmt: skip
    """Remount with other options, or mount what is not mounted. Return what ``mount`` returns.

    CLI Example: ``saltlite '*' mount.remount /srv/foo /dev/sdz1 opts=ro``
    """
    if not is_mounted(name):
        return mount(name, device, mkmnt, fstype, opts, user)
    wanted = _listed(opts)
    if "remount" not in wanted:
        wanted.append("remount")
    argv = ["mount", *_options(wanted, fstype), "--", _programs.word(device, "device"), _point(name)]
    return _done(argv, user)


def umount(
    name: str, device: str | None = None, user: str | None = None, util: str = "mount", lazy: bool = False
) -> bool | str:
    """Unmount. Return True, or the program's message on failure, or that it is not mounted.

    ``device`` unmounts only if it is mounted there. ``lazy`` detaches at once and cleans up later.

    CLI Example::

        saltlite '*' mount.umount /srv/foo
        saltlite '*' mount.umount /srv/foo /dev/sdz1 lazy=True
    """
    if util != "mount":
        raise SaltInvocationError(f"util={util!r} is not supported; `mount` is the only one.")
    point = _point(name)
    stacked = [each for each in _machinefiles.mounts() if each.point == point]
    if not stacked:
        __context__["retcode"] = 1
        return f"{name} does not have anything mounted"
    if device and device not in {text for each in stacked for text in (each.device, _real_device(each))}:
        __context__["retcode"] = 1
        return f"{device} is not mounted on {name}"
    return _done(["umount", *(["-l"] if lazy else []), "--", point], user)


def is_fuse_exec(cmd: str) -> bool:
    """Return whether a program exists and is linked to libfuse.

    CLI Example: ``saltlite '*' mount.is_fuse_exec sshfs``
    """
    path = _programs.find(_programs.word(cmd, "name of a program"))
    if path is None:
        return False
    # The program's file contains the name of the library for the dynamic linker.
    with open(path, "rb") as stream:
        return b"libfuse" in stream.read()


def swaps() -> dict[str, dict[str, str]]:
    """Return the active swap areas: ``{path: {type, size, used, priority}}``, sizes in KiB.

    CLI Example: ``saltlite '*' mount.swaps``
    """
    found = {}
    for line in _machinefiles.read_if_there("/proc/swaps").splitlines()[1:]:
        columns = line.split()
        if len(columns) >= 5:
            keys = ("type", "size", "used", "priority")
            found[_machinefiles.plain(columns[0])] = dict(zip(keys, columns[1:5], strict=True))
    return found


def swapon(name: str, priority: int | None = None) -> dict[str, Any]:
    """Activate a swap area: ``{"stats": row of swaps, "new": whether it was inactive before}``.

    CLI Example: ``saltlite '*' mount.swapon /var/swapfile``
    """
    path = _programs.word(name, "device or file")
    before = swaps()
    if path not in before:
        order = ["-p", str(int(priority))] if priority is not None else []
        _programs.output(["swapon", *order, "--", path])
    now = swaps()
    return {"stats": now[path], "new": path not in before} if path in now else {}


def swapoff(name: str) -> bool | None:
    """Deactivate a swap area: True, False if it is still in use, None if it was not active.

    CLI Example: ``saltlite '*' mount.swapoff /var/swapfile``
    """
    path = _programs.word(name, "device or file")
    if path not in swaps():
        return None
    _programs.output(["swapoff", "--", path])
    return path not in swaps()


def is_mounted(name: str) -> bool:
    """Return whether something is mounted on this path.

    CLI Example: ``saltlite '*' mount.is_mounted /srv/foo``
    """
    return str(name) in _machinefiles.by_point()


def get_mount_from_path(path: str) -> str:
    """Return the mount point of the file system of a path.

    CLI Example: ``saltlite '*' mount.get_mount_from_path /opt/some/nested/path``
    """
    place = os.path.realpath(str(path))
    points = _machinefiles.by_point()
    while place != "/" and place not in points:
        place = os.path.dirname(place)
    return place


def get_device_from_path(path: str) -> str | None:
    """Return the device of the file system of a path.

    CLI Example: ``saltlite '*' mount.get_device_from_path /``
    """
    mounted = _machinefiles.by_point().get(get_mount_from_path(path))
    return mounted.device if mounted else None


def _make_folder(point: str, user: str | None) -> None:
    import shutil

    try:
        os.makedirs(point, exist_ok=True)
        if user:
            with held(point, follow_symlinks=False) as same:
                shutil.chown(same, user)
    except LookupError as error:
        raise SaltInvocationError(f"There is no user {user!r}.") from error
    except OSError as error:
        raise CommandExecutionError(f"The mount point {point} cannot be made: {error.strerror}.") from error


def _done(argv: list[str], user: str | None) -> bool | str:
    done = run_needed(
        __salt__["cmd.run_all"],
        argv,
        runas=user,
        ignore_retcode=True,
        output_loglevel="quiet",  # options of network file systems may contain passwords
    )
    if done["retcode"] == 0:
        return True
    __context__["retcode"] = 1
    words: str = done["stderr"] or done["stdout"]
    return words or f"{argv[0]} failed (return code {done['retcode']})"


def _options(opts: str | Sequence[str], fstype: str) -> list[str]:
    texts = _listed(opts)
    options = ["-o", _programs.word(",".join(texts), "list of mount options")] if texts else []
    return [*options, "-t", _programs.word(fstype, "type of a file system")] if fstype else options


def _listed(opts: str | Sequence[str]) -> list[str]:
    texts = opts.split(",") if isinstance(opts, str) else list(opts or [])
    return [str(text) for text in texts if str(text)]


def _point(name: Any) -> str:
    text = str(name)
    if not text.startswith("/") or "\0" in text:
        raise SaltInvocationError(f"{text!r} cannot be a mount point: write an absolute path.")
    return text.rstrip("/") or "/"


def _devices_by(kind: str) -> dict[str, str]:
    """Device number -> UUID or label, from the links below /dev/disk."""
    folder = f"/dev/disk/by-{kind}"
    found = {}
    for name in _machinefiles.names_in(folder):
        try:
            number = os.stat(_machinefiles.place(f"{folder}/{name}")).st_rdev
        except OSError:
            continue
        text = name.encode().decode("unicode_escape") if "\\x" in name else name
        found[f"{os.major(number)}:{os.minor(number)}"] = text.lower() if kind == "uuid" else text
    return found


def _real_device(mount: _machinefiles.Mount) -> str:
    """Return the name in /dev of a device that the kernel calls `/dev/root`."""
    if mount.device != "/dev/root":
        return mount.device
    try:
        link = os.readlink(_machinefiles.place(f"/sys/dev/block/{mount.major}:{mount.minor}"))
    except OSError:
        return mount.device
    return f"/dev/{os.path.basename(link)}"


# --- fstab(5) ---

_KEYS = ("device", "name", "fstype", "opts", "dump", "pass_num")
_WITHOUT_A_DEVICE = {
    "none", "tmpfs", "sysfs", "proc", "fusectl", "debugfs", "securityfs", "devtmpfs", "cgroup", "nfs", "nfs4",
    "glusterfs", "btrfs", "ceph",
}  # fmt: skip
"""Devices that several entries may name; the mount point identifies these entries."""


class _Entry(NamedTuple):
    """An entry with unescaped columns."""

    device: str
    name: str
    fstype: str
    opts: str
    dump: str
    pass_num: str

    def line(self) -> str:
        columns = [_machinefiles.written(text) for text in (self.device, self.name, self.fstype, self.opts)]
        return "{}\t\t{}\t{}\t{}\t{} {}\n".format(*columns, self.dump, self.pass_num)

    def same(self, other: _Entry) -> bool:
        """Whether two entries are equal, regardless of the order of options."""
        mine, theirs = sorted(self.opts.split(",")), sorted(other.opts.split(","))
        return mine == theirs and all(getattr(self, key) == getattr(other, key) for key in _KEYS if key != "opts")


def fstab(config: str = "/etc/fstab") -> dict[str, dict[str, Any]]:
    """Return the entries of fstab: ``{mount point: {device, fstype, opts, dump, pass}}``.

    Repeated mount points get underscores at the end of their names.

    CLI Example: ``saltlite '*' mount.fstab``
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
    """Remove a mount point from fstab, or only its entry with this ``device``. True when it is gone.

    CLI Example: ``saltlite '*' mount.rm_fstab /srv/foo /dev/sdg``
    """
    kept = []
    lines = _machinefiles.read(config).splitlines(keepends=True)
    for line in lines:
        entry = _entry(line)
        if (
            entry
            and entry.name == _machinefiles.plain(name)
            and (device is None or entry.device == _machinefiles.plain(device))
        ):
            continue
        kept.append(line)
    if kept != lines and not test:
        _machinefiles.replace(config, "".join(kept))
    return True


def set_fstab(  # noqa: PLR0913, PLR0917 - Salt's signature
    name: str, device: str, fstype: str, opts: str | Sequence[str] = "defaults", dump: int = 0, pass_num: int = 0,
    config: str = "/etc/fstab", test: bool = False, match_on: str | Sequence[str] = "auto", not_change: bool = False,
) -> str:  # fmt: skip
    """Set an entry in fstab. Return ``new``, ``change`` or ``present``; ``test=True`` only reports.

    ``match_on`` names the columns that identify the entry: ``device``, ``name``, ``fstype``, ``opts``, ``dump`` and
    ``pass_num``; ``auto`` means the device, or the mount point for file systems without one. ``not_change`` keeps an
    existing entry.

    CLI Example: ``saltlite '*' mount.set_fstab /srv/foo /dev/sdz1 ext4``
    """
    texts = (device, name, fstype, opts if isinstance(opts, str) else ",".join(opts), dump, pass_num)
    wanted = _checked(_Entry(*(_machinefiles.plain(str(text).replace("\\ ", " ")) for text in texts)))
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
    return _Entry(*(_machinefiles.plain(column) for column in [*columns, "0", "0"][:6]))


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
