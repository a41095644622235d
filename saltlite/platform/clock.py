"""Time and entropy, as values that everything else is handed.

The port is `saltlite.master.store.ports.Clock`. `SystemClock` asks the kernel, `ManualClock` is the twin that a test
or the simulator turns by hand.
"""

from __future__ import annotations

import os
import random
import time


class SystemClock:
    """The kernel's clocks and its random number generator; safe after a fork because it keeps no state."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def entropy(self, size: int) -> bytes:
        return os.urandom(size)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)


class ManualClock:
    """Stands still until it is told to move. Its entropy follows from `seed`: a run can be repeated."""

    def __init__(self, *, seed: int = 0, wall: float = 1_700_000_000.0, monotonic: float = 1_000.0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable on purpose, never used by a daemon
        self._wall = wall
        self._monotonic = monotonic

    def wall(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def entropy(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass on both clocks. Raises ValueError for a negative number."""
        if seconds < 0:
            raise ValueError("time does not go back; use jump_wall for a wall clock that is set back")
        self._wall += seconds
        self._monotonic += seconds

    def jump_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or NTP does; no time passes."""
        self._wall += seconds
