"""Devices and named pipes."""

from __future__ import annotations

import os
import stat
from typing import Any

from saltlite.errors import SaltInvocationError
from saltlite.plugins.modules._safe_files import checked_path, pinned, shown

from ._paths import failed, octal
from .owning import check_perms
from .placing import makedirs

_KINDS = {
    "c": (stat.S_IFCHR, "Character device"),
    "b": (stat.S_IFBLK, "Block device"),
    "p": (stat.S_IFIFO, "Fifo pipe"),
}


def mknod_chrdev(
    name: str,
    major: int,
    minor: int,
    user: str | int | None = None,
    group: str | int | None = None,
    mode: str | int = "0660",
    *,
    test: bool = False,
) -> dict[str, Any]:
    """
    Make a character device.

    CLI Example::

        saltlite '*' file.mknod_chrdev /dev/chr 180 31
    """
    return _make(name, "c", (major, minor), (user, group, mode), test=test)


def mknod_blkdev(
    name: str,
    major: int,
    minor: int,
    user: str | int | None = None,
    group: str | int | None = None,
    mode: str | int = "0660",
    *,
    test: bool = False,
) -> dict[str, Any]:
    """
    Make a block device.

    CLI Example::

        saltlite '*' file.mknod_blkdev /dev/blk 8 999
    """
    return _make(name, "b", (major, minor), (user, group, mode), test=test)


def mknod_fifo(
    name: str,
    user: str | int | None = None,
    group: str | int | None = None,
    mode: str | int = "0660",
    *,
    test: bool = False,
) -> dict[str, Any]:
    """
    Make a named pipe.

    CLI Example::

        saltlite '*' file.mknod_fifo /run/pipe
    """
    return _make(name, "p", (0, 0), (user, group, mode), test=test)


def mknod(  # noqa: PLR0913 - Salt's arguments
    name: str,
    ntype: str,
    major: int = 0,
    minor: int = 0,
    user: str | int | None = None,
    group: str | int | None = None,
    mode: str | int = "0600",
    *,
    test: bool = False,
) -> dict[str, Any]:
    """
    Make a character device (``c``), a block device (``b``) or a named pipe (``p``), and the folders above it.

    CLI Example::

        saltlite '*' file.mknod /dev/chr c 180 31
        saltlite '*' file.mknod /dev/blk b 8 999
        saltlite '*' file.mknod /run/pipe p
    """
    if ntype not in _KINDS:
        raise SaltInvocationError(
            f"Node type unavailable: '{ntype}'. Available node types are character ('c'), block ('b'), and pipe ('p')."
        )
    makedirs(name, user, group, test=test)
    return _make(name, ntype, (major, minor), (user, group, mode), test=test)


def _make(
    name: str, kind: str, numbers: tuple[int, int], access: tuple[Any, Any, Any], *, test: bool
) -> dict[str, Any]:
    path = checked_path(name)
    bits, word = _KINDS[kind]
    told: dict[str, Any] = {"name": name, "changes": {}, "comment": "", "result": False}
    mode = octal(access[2])
    try:
        device = os.makedev(int(numbers[0]), int(numbers[1]))
    except (TypeError, ValueError, OverflowError) as error:
        raise SaltInvocationError(f"{numbers[0]} and {numbers[1]} are no numbers of a device.") from error
    if os.path.lexists(path):
        told["comment"] = f"File {shown(path)} exists and cannot be overwritten"
        return told
    told["changes"] = {"new": f"{word} {shown(path)} created."}
    if test:
        told["result"] = None
        return told
    try:
        with pinned(path, follow_symlinks=False) as place:
            os.mknod(place.name, bits | mode, device, dir_fd=place.folder)
    except OSError as error:
        raise failed(f"{shown(path)} cannot be made", error) from error
    done, _ = check_perms(path, None, access[0], access[1], mode=f"{mode:04o}")
    told["result"], told["comment"] = done["result"], done["comment"]
    return told
