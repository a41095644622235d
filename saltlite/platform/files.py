"""Files: private folders with durable writes (journal, spool), locks, paths below a root, and cursors.

Callers make names from validated values; they are resolved in the open folder only, and links are not followed. Errors
of `Folder` stay OSErrors, because only the caller knows their consequences.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

from saltlite.errors import JournalError, StoreError, UsageError

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a full disk or quota, which do no damage."""

READ_BYTES = 64 * 1024

_KEEP_SIZE = 1
"""FALLOC_FL_KEEP_SIZE of fallocate(2)."""

_libc = ctypes.CDLL(None, use_errno=True)
_fallocate = getattr(_libc, "fallocate64", None) or _libc.fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def write_new(path: str, text: str) -> str:
    """Write a file that did not exist, for its owner only, and make its folder if that is missing; its absolute path.
    Raises UsageError."""
    where = os.path.abspath(path)
    try:
        os.makedirs(os.path.dirname(where), exist_ok=True)
        descriptor = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"{where} exists already: move it away, or name another place") from error
    except OSError as error:
        raise UsageError(f"{where} cannot be written: {error.strerror}") from error
    return where


class Handle(Protocol):
    """A file that is only appended to."""

    def write(self, data: bytes) -> None:
        """Append `data`. Raises OSError; a part may then have been written."""
        ...

    def sync(self) -> None:
        """Return when the content is on disk. Raises OSError; the content is then undefined."""
        ...

    def reserve(self, length: int) -> None:
        """Reserve space for a file of `length` bytes without changing its size. `truncate` releases the space.

        Raises OSError: one of FULL if there is no space, another one if the file system does not support it.
        """
        ...

    def size(self) -> int: ...

    def truncate(self, length: int) -> None: ...

    def close(self) -> None: ...


class Folder(Protocol):
    """A folder of plain files. Created, renamed and removed names are on disk only after `sync()`."""

    path: str
    """For messages only."""

    def names(self) -> list[str]: ...

    def size(self, name: str) -> int:
        """The size of a file in bytes. Raises FileNotFoundError, as the other calls do."""
        ...

    def read(self, name: str) -> bytes: ...

    def create(self, name: str) -> Handle:
        """Create an empty file that only its owner may read. Raises FileExistsError."""
        ...

    def reopen(self, name: str) -> Handle: ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file atomically, replacing an existing one."""
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
    """An open folder of the file system, created with mode 0700 if it is missing.

    Raises JournalError if it cannot be created or opened, or if others may write there: they could then control what
    the process runs.
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
        fd = self._open(name, os.O_RDONLY)
        try:
            # `open` asks the kernel four times more.
            data = os.read(fd, os.fstat(fd).st_size)
            while part := os.read(fd, READ_BYTES):
                data += part
            return data
        finally:
            os.close(fd)

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

    def close(self) -> None:
        os.close(self._fd)

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._fd)


def _make(path: str) -> None:
    """Create the folder and its missing parents, each on disk before the next is created in it."""
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
    """The SHA-256 of a file; b"" if it does not exist. Raises OSError if it cannot be read."""
    import hashlib  # noqa: PLC0415 - it loads OpenSSL, 4 MiB that few processes need

    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return b""


class WriteLock:
    """An exclusive flock on the file `path`, as a reentrant context manager. Raises OSError."""

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
        """Try to lock without waiting, for the duration of the context; whether the lock was free."""
        try:
            yield self._taken()
        finally:
            self.close()

    def close(self) -> None:
        """Close the file, which releases the lock."""
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
        # A descriptor that was inherited through a fork shares its lock with the parent: both would hold it.
        if self._fd < 0 or self._pid != os.getpid():
            self.close()
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            self._pid, self._depth = os.getpid(), 0
        return self._fd


LINKS_MAX = 40
"""Links that are followed in one path, as in Linux."""

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def open_beneath(root: str, path: str, flags: int = os.O_RDONLY) -> int:
    """Open `path` (relative, "" for the root itself) below `root`, without blocking; the descriptor.

    Raises OSError: as open(2) does, ELOOP after LINKS_MAX links, EXDEV if the path leads out of the root.
    """
    walk = _Walk(root, path)
    try:
        return walk.open(flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    finally:
        walk.close()


class _Walk:
    """The open folders from the root to the current one, and the remaining components."""

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
        """The target of the link with that name; "" if it is not a link."""
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


class EventLogCursor(Protocol):
    """Where a process that follows the event log keeps how far it is."""

    def read(self) -> dict[str, Any] | None:
        """The content, which is empty at first; None while another master does the work of this process. Raises
        StoreError."""
        ...

    def write(self, what: dict[str, Any]) -> None:
        """Replace the content. Raises StoreError, and CursorLostError when another master does the work now."""
        ...


class CursorFile:
    """A file with a cursor. A missing or damaged file is read as empty, which means to start from the beginning."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> dict[str, Any]:
        """The content."""
        try:
            with open(self._path, "rb") as file:
                found = json.loads(file.read())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write(self, what: dict[str, Any]) -> None:
        """Replace the content. Raises StoreError."""
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
