"""One daemon a folder: a lock that the kernel gives back when its holder is dead, however it died."""

from __future__ import annotations

import fcntl
import os

from saltlite.errors import StartupError


class InstanceLock:
    """Holds an exclusive flock on `path` from construction until every process that inherited it has let go.

    A forked child that may outlive the daemon calls `close` at once; that does not unlock the parent's.
    `program` (for instance "saltlite-master") and `root_dir` are for the sentence that the second one gets.
    """

    def __init__(self, path: str, *, program: str, root_dir: str) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise StartupError(
                f"the lock file {path} cannot be opened ({error.strerror}): run as root or set `root_dir`"
            ) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(self._fd, 20, 0).decode(errors="replace").strip() or "unknown"
            self.close()
            raise StartupError(
                f"another {program} (pid {holder}) already runs on root_dir {root_dir}: "
                "stop it, or set another `root_dir`"
            ) from error
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def fileno(self) -> int:
        """The descriptor that holds the lock; -1 when closed."""
        return self._fd

    def close(self) -> None:
        """Let go of this process's share of the lock."""
        if self._fd >= 0:
            # Closing, never LOCK_UN: that would take the lock from every process that shares it.
            os.close(self._fd)
            self._fd = -1
