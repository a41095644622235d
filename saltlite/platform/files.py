"""One private folder on a disk, with the few operations whose order makes journal and spool durable.

What belongs here: the port `Folder` and its implementation over file descriptors (Linux). Names are made by
the caller from validated values and looked up in the open folder only, never by path; links are not followed.
What does not: any meaning of the bytes. Failures stay OSError here: only the caller knows what they cost.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

from saltlite.errors import JournalError, StoreError

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


def digest_of(path: str) -> bytes:
    """The SHA-256 of a file, b"" when there is no such file. Raises OSError when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return b""


class WriteLock:
    """An exclusive flock on the file `path`, as a context that may be entered again by the one who holds it.

    Raises OSError.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._pid = 0
        self._depth = 0

    def __enter__(self) -> None:
        if self._depth == 0:
            fcntl.flock(self._opened(), fcntl.LOCK_EX)
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    @contextmanager
    def unless_taken(self) -> Iterator[bool]:
        """Whether the lock was free: it is held within the context then, and nobody waited for it."""
        try:
            yield self._taken()
        finally:
            self.close()

    def close(self) -> None:
        """Give the file back, and with it the lock."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _taken(self) -> bool:
        try:
            fcntl.flock(self._opened(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _opened(self) -> int:
        # A descriptor that came through a fork shares its lock with the parent: both would hold it at once.
        if self._fd < 0 or self._pid != os.getpid():
            self.close()
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            self._pid, self._depth = os.getpid(), 0
        return self._fd


LINKS_MAX = 40
"""Links followed in one path: as many as Linux itself allows."""

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_beneath(root: str, path: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of `path` (relative, "" for the root itself) below `root`, opened with `flags`; never waits.

    Raises OSError: as open(2) does, ELOOP after LINKS_MAX links, EXDEV when the path leads out of the root.
    """
    walk = _Walk(root, path)
    try:
        return walk.open(flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    finally:
        walk.close()


class _Walk:
    """The folders from the root down to where the walk is, and the components still ahead."""

    def __init__(self, root: str, path: str) -> None:
        self._root = root
        self._folders = [os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
        self._ahead = deque(part for part in path.split("/") if part not in ("", "."))
        self._links = 0

    def open(self, flags: int) -> int:
        while self._ahead:
            name = self._ahead.popleft()
            if name == "..":
                self._up()
                continue
            if target := self._link(name):
                self._follow(target)
            elif self._ahead:
                self._folders.append(os.open(name, _FOLDER, dir_fd=self._folders[-1]))
            else:
                return os.open(name, flags, dir_fd=self._folders[-1])
        return os.open(".", flags & ~os.O_NOFOLLOW, dir_fd=self._folders[-1])

    def close(self) -> None:
        for fd in self._folders:
            os.close(fd)

    def _up(self) -> None:
        if len(self._folders) == 1:
            raise OSError(errno.EXDEV, "the path leads out of its folder")
        os.close(self._folders.pop())

    def _link(self, name: str) -> str:
        """Where the link of that name leads; "" for anything that is no link."""
        try:
            return os.readlink(name, dir_fd=self._folders[-1])
        except OSError as error:
            if error.errno == errno.EINVAL:
                return ""
            raise

    def _follow(self, target: str) -> None:
        self._links += 1
        if self._links > LINKS_MAX:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.startswith("/"):
            root = self._root.rstrip("/") + "/"
            if not target.startswith(root):
                raise OSError(errno.EXDEV, "a link leads out of its folder")
            target = target.removeprefix(root)
            while len(self._folders) > 1:
                os.close(self._folders.pop())
        self._ahead.extendleft(reversed([part for part in target.split("/") if part not in ("", ".")]))


class CursorFile:
    """One file; `read` of what is missing or damaged is empty, which means to begin anew."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> dict[str, Any]:
        """What was written last."""
        try:
            with open(self._path, "rb") as file:
                found = json.loads(file.read())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, what: dict[str, Any]) -> None:
        """Replace it. Raises StoreError."""
        fresh = f"{self._path}.new"
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fresh)
            fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(json.dumps(what).encode())
                file.flush()
                os.fsync(file.fileno())
            os.replace(fresh, self._path)
        except OSError as error:
            raise StoreError(f"{self._path} cannot be written: {error.strerror}") from error
