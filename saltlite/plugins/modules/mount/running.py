"""What is mounted and what is swapped to, and changing both.

A mount that fails returns the program's own words, as Salt's module does, and sets the return code.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _mounts, _programs
from saltlite.plugins.modules._safe_files import held

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __salt__

__risk__ = {"swapoff": "swapoff", "umount": "umount"}


def active(extended: bool = False) -> dict[str, dict[str, Any]]:
    """
    What is mounted: ``{mount point: {device, alt_device, fstype, opts}}``; ``extended`` shows more of each.

    CLI Example::

        saltlite '*' mount.active
        saltlite '*' mount.active extended=True
    """
    found: dict[str, dict[str, Any]] = {}
    uuids = _devices_by("uuid") if extended else {}
    labels = _devices_by("label") if extended else {}
    for point, mount in _mounts.by_point().items():
        found[point] = {
            "device": mount.device,
            "alt_device": _real_device(mount),
            "fstype": mount.fstype,
            "opts": mount.options if extended else _mounts.options_of(mount),
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
    name: str,
    device: str | bool = False,
    mkmnt: bool = False,
    fstype: str = "",
    opts: str | Sequence[str] = "defaults",
    user: str | None = None,
    util: str = "mount",
) -> bool | str:
    """
    Mount a device on a folder: True, or what the program says when it fails.

    Without a device the table of file systems tells which. ``mkmnt`` makes the folder; ``user`` mounts as that user.

    CLI Example::

        saltlite '*' mount.mount /srv/foo /dev/sdz1 mkmnt=True
    """
    if util != "mount":
        raise SaltInvocationError(f"There is no way of mounting {util!r} here; `mount` is the only one.")
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
    name: str,
    device: str | bool,
    mkmnt: bool = False,
    fstype: str = "",
    opts: str | Sequence[str] = "defaults",
    user: str | None = None,
) -> bool | str:
    """
    Mount something again with other options; what is not mounted is mounted. Returns what ``mount`` does.

    CLI Example::

        saltlite '*' mount.remount /srv/foo /dev/sdz1 opts=ro
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
    """
    Unmount: True, or what the program says when it fails, or that it is not mounted.

    ``device`` unmounts it only if it is mounted there; ``lazy`` at once, and cleans up when it is not in use.

    CLI Example::

        saltlite '*' mount.umount /srv/foo
        saltlite '*' mount.umount /srv/foo /dev/sdz1 lazy=True
    """
    if util != "mount":
        raise SaltInvocationError(f"There is no way of unmounting {util!r} here; `mount` is the only one.")
    point = _point(name)
    stacked = [each for each in _mounts.mounts() if each.point == point]
    if not stacked:
        __context__["retcode"] = 1
        return f"{name} does not have anything mounted"
    if device and device not in {text for each in stacked for text in (each.device, _real_device(each))}:
        __context__["retcode"] = 1
        return f"{device} is not mounted on {name}"
    return _done(["umount", *(["-l"] if lazy else []), "--", point], user)


def is_fuse_exec(cmd: str) -> bool:
    """
    Whether a program is there and makes file systems in user space.

    CLI Example::

        saltlite '*' mount.is_fuse_exec sshfs
    """
    path = _programs.find(_programs.word(cmd, "name of a program"))
    if path is None:
        return False
    # The library's name stands in the program itself, where the linker finds it too.
    with open(path, "rb") as stream:
        return b"libfuse" in stream.read()


def swaps() -> dict[str, dict[str, str]]:
    """
    Where is swapped to: ``{path: {type, size, used, priority}}``, sizes in KiB.

    CLI Example::

        saltlite '*' mount.swaps
    """
    found = {}
    for line in _machinefiles.read_if_there("/proc/swaps").splitlines()[1:]:
        columns = line.split()
        if len(columns) >= 5:
            keys = ("type", "size", "used", "priority")
            found[_mounts.plain(columns[0])] = dict(zip(keys, columns[1:5], strict=True))
    return found


def swapon(name: str, priority: int | None = None) -> dict[str, Any]:
    """
    Swap to a device or file: ``{"stats": row of swaps, "new": whether it was not in use before}``.

    CLI Example::

        saltlite '*' mount.swapon /var/swapfile
    """
    path = _programs.word(name, "device or file")
    before = swaps()
    if path not in before:
        order = ["-p", str(int(priority))] if priority is not None else []
        _programs.output(["swapon", *order, "--", path])
    now = swaps()
    return {"stats": now[path], "new": path not in before} if path in now else {}


def swapoff(name: str) -> bool | None:
    """
    Stop swapping to a device or file: True, False when it is still in use, None when it was not in use.

    CLI Example::

        saltlite '*' mount.swapoff /var/swapfile
    """
    path = _programs.word(name, "device or file")
    if path not in swaps():
        return None
    _programs.output(["swapoff", "--", path])
    return path not in swaps()


def is_mounted(name: str) -> bool:
    """
    Whether something is mounted on this path.

    CLI Example::

        saltlite '*' mount.is_mounted /srv/foo
    """
    return str(name) in _mounts.by_point()


def get_mount_from_path(path: str) -> str:
    """
    The mount point of the file system that a path is in.

    CLI Example::

        saltlite '*' mount.get_mount_from_path /opt/some/nested/path
    """
    place = os.path.realpath(str(path))
    points = _mounts.by_point()
    while place != "/" and place not in points:
        place = os.path.dirname(place)
    return place


def get_device_from_path(path: str) -> str | None:
    """
    The device of the file system that a path is in.

    CLI Example::

        saltlite '*' mount.get_device_from_path /
    """
    mounted = _mounts.by_point().get(get_mount_from_path(path))
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
    done = __salt__["cmd.run_all"](
        argv,
        runas=user,
        python_shell=False,
        ignore_retcode=True,
        output_loglevel="quiet",  # options of network file systems may be passwords
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
    """Number of a device -> its UUID or label, as the links below /dev/disk tell."""
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


def _real_device(mount: _mounts.Mount) -> str:
    """The device under the name that it has in /dev, where the kernel says only that it was the first one."""
    if mount.device != "/dev/root":
        return mount.device
    try:
        link = os.readlink(_machinefiles.place(f"/sys/dev/block/{mount.major}:{mount.minor}"))
    except OSError:
        return mount.device
    return f"/dev/{os.path.basename(link)}"
