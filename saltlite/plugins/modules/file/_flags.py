"""Attributes that file systems such as ext4, XFS and Btrfs keep for a file, as `chattr` writes them.

Bits and letters are those of linux/fs.h (FS_IOC_GETFLAGS) and chattr(1).
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules._safe_files import pinned, sentence, shown

LETTERS = {
    "s": 0x1, "u": 0x2, "c": 0x4, "S": 0x8, "i": 0x10, "a": 0x20, "d": 0x40, "A": 0x80, "E": 0x800, "I": 0x1000,
    "j": 0x4000, "t": 0x8000, "D": 0x10000, "T": 0x20000, "e": 0x80000, "C": 0x800000, "P": 0x20000000,
}  # fmt: skip
"""Letter -> bit."""

_GET = 0x80086601
_SET = 0x40086602

_NONE = {errno.ENOTTY, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


def read_flags(path: str) -> list[str] | None:
    """The letters of a file or folder; None for what has none: links, pipes, and file systems without attributes."""
    fd = _open(path)
    if fd is None:
        return None
    try:
        bits = _bits(fd)
    finally:
        os.close(fd)
    return None if bits is None else [letter for letter, bit in LETTERS.items() if bits & bit]


def changed_flags(path: str, add: str, remove: str) -> None:
    """Add and remove attributes. Raises CommandExecutionError when that cannot be."""
    fd = _open(path)
    bits = None if fd is None else _bits(fd)
    try:
        if fd is None or bits is None:
            raise CommandExecutionError(f"The file system of {shown(path)} keeps no attributes.")
        for letter in add:
            bits |= LETTERS[letter]
        for letter in remove:
            bits &= ~LETTERS[letter]
        fcntl.ioctl(fd, _SET, struct.pack("l", bits))
    except OSError as error:
        reason = error.strerror or str(error)
        raise CommandExecutionError(f"The attributes of {shown(path)} cannot be set: {reason}.") from error
    finally:
        if fd is not None:
            os.close(fd)


def _open(path: str) -> int | None:
    try:
        # Not to follow a link, and not to wait for the other end of a pipe.
        with pinned(path, follow_symlinks=False) as place:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(place.name, flags, dir_fd=place.folder)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.ENODEV}:
            return None
        raise sentence(path, "read", error) from error


def _bits(fd: int) -> int | None:
    try:
        answer = fcntl.ioctl(fd, _GET, struct.pack("l", 0))
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise
    return int(struct.unpack("l", answer)[0])
