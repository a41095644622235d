"""A lock between processes: the kernel gives it back when its holder is dead, however it died."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


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
