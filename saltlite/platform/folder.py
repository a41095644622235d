"""One private folder on a disk, with the few operations whose order makes journal and spool durable.

What belongs here: the port `Folder` and its implementation over file descriptors (Linux). Names are made by
the caller from validated values and looked up in the open folder only, never by path; links are not followed.
What does not: any meaning of the bytes. Failures stay OSError here: only the caller knows what they cost.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from typing import Protocol

from saltlite.errors import JournalError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a disk that is full, for everybody, this user or this process: nothing was harmed by them."""

_KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE of fallocate(2)."""

_libc = ctypes.CDLL(None, use_errno=True)
_fallocate = getattr(_libc, "fallocate64", None) or _libc.fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


class Handle(Protocol):
    """A file that is only ever written at its end."""

    def write(self, data: bytes) -> None:
        """Append all of `data`. Raises OSError; part of it may then be in the file."""
        ...

    def sync(self) -> None:
        """Return when the content is on disk. Raises OSError, and then nothing is known of the content."""
        ...

    def reserve(self, length: int) -> None:
        """Set room aside for a file of `length` bytes; its size stays what it is. `truncate` gives the room back.

        Raises OSError: one of FULL when there is no room, another one where the file system cannot do it.
        """
        ...

    def size(self) -> int: ...

    def truncate(self, length: int) -> None: ...

    def close(self) -> None: ...


class Folder(Protocol):
    """A folder of plain files. Creating, renaming and removing is on disk only after `sync()`."""

    path: str
    """For messages only."""

    def names(self) -> list[str]: ...

    def size(self, name: str) -> int:
        """Bytes of that file. Raises FileNotFoundError, as the other calls do."""
        ...

    def read(self, name: str) -> bytes: ...

    def create(self, name: str) -> Handle:
        """A new, empty file that only its owner may read. Raises FileExistsError."""
        ...

    def reopen(self, name: str) -> Handle: ...

    def rename(self, old: str, new: str) -> None:
        """Give a file another name, in one step, in place of the file that had it."""
        ...

    def remove(self, name: str) -> None: ...

    def sync(self) -> None: ...


class PosixHandle:
    """A file descriptor in append mode. It stays usable when its file is renamed."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def reserve(self, length: int) -> None:
        if _fallocate(self._fd, _KEEP_SIZE, 0, length) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, length: int) -> None:
        os.ftruncate(self._fd, length)

    def close(self) -> None:
        os.close(self._fd)


class PosixFolder:
    """A folder of the file system, made with mode 0700 where it is missing, held by a descriptor.

    Raises JournalError when it cannot be made or opened, or when others may write there: whoever can change
    the journal of a process with rights decides what it runs.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            _make(path)
            self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise JournalError(f"the folder {path} cannot be used: {error.strerror}") from error
        found = os.fstat(self._fd)
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            os.close(self._fd)
            raise JournalError(
                f"others may write into the folder {path}: give it to the user with id {os.geteuid()} "
                "(chown), and take the right to write from all others (chmod go-w)"
            )

    def names(self) -> list[str]:
        return os.listdir(self._fd)

    def size(self, name: str) -> int:
        return os.stat(name, dir_fd=self._fd, follow_symlinks=False).st_size

    def read(self, name: str) -> bytes:
        with open(self._open(name, os.O_RDONLY), "rb") as file:
            return file.read()

    def create(self, name: str) -> PosixHandle:
        return PosixHandle(self._open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL))

    def reopen(self, name: str) -> PosixHandle:
        return PosixHandle(self._open(name, os.O_WRONLY | os.O_APPEND))

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new, src_dir_fd=self._fd, dst_dir_fd=self._fd)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._fd)

    def sync(self) -> None:
        os.fsync(self._fd)

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._fd)


def _make(path: str) -> None:
    """Make the folder and those above it that are missing, each one on disk before the next is made in it."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(os.path.abspath(path))
    _make(above)
    os.mkdir(path, 0o700)
    fd = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
