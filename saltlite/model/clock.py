"""Time and entropy as a port, so that tests and the simulator control both."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time and chance, so that a simulator can own both."""

    def wall(self) -> float:
        """Seconds since 1970; it may jump, so nothing waits by it."""
        ...

    def monotonic(self) -> float:
        """Seconds that only go forward: every deadline is one of these."""
        ...

    def boottime(self) -> float:
        """As `monotonic`, and it goes on while the machine is suspended: leases are counted by it."""
        ...

    def entropy(self, size: int) -> bytes:
        """Unpredictable bytes."""
        ...

    def uniform(self, low: float, high: float) -> float:
        """Jitter; not for secrets."""
        ...
