"""What only a composition root builds: the lock on a daemon's folder, and the clock."""

from __future__ import annotations

import fcntl
import os
import random
import time

from saltlite.errors import StartupError


class InstanceLock:
    """An exclusive flock on `path`, so that one daemon runs on a folder; the kernel releases it with the last holder.

    A forked child that may outlive the daemon calls `close` at once; the parent's lock stays. `program` (for instance
    "saltlite-master") and `root_dir` are for the error of a second daemon.
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
        """Release this process's share of the lock."""
        if self._fd >= 0:
            # Not LOCK_UN, which would unlock it for every process that shares it.
            os.close(self._fd)
            self._fd = -1


class SystemClock:
    """The kernel's clocks and random number generator: the port `saltlite.master.store.ports.Clock`."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def entropy(self, size: int) -> bytes:
        return os.urandom(size)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)


class ManualClock:
    """The clock of tests and of the simulator: it moves by hand, and its entropy follows from `seed`."""

    def __init__(self, *, seed: int = 0, wall: float = 1_700_000_000.0, monotonic: float = 1_000.0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose, never used by a daemon
        self._wall = wall
        self._monotonic = monotonic

    def wall(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def boottime(self) -> float:
        return self._monotonic

    def entropy(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def advance(self, seconds: float) -> None:
        """Advance both clocks. Raises ValueError for a negative number."""
        if seconds < 0:
            raise ValueError("time does not go back; jump_wall sets the wall clock back")
        self._wall += seconds
        self._monotonic += seconds

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or NTP does."""
        self._wall += seconds
