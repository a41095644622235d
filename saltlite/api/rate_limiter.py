"""How fast somebody may ask: token buckets. Pure: the time comes in as a value, in seconds of a steady clock."""

from __future__ import annotations

from collections import OrderedDict

KNOWN_MAX = 10_000
"""Addresses that are remembered; of more the one that was quiet for longest is forgotten, and begins anew."""


class RateLimiter:
    """Lets `per_s` a second through for each key, and `burst` at once."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = max(1.0, burst)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str, now: float) -> float:
        """0.0 when this one may pass; else how many seconds it would have to wait."""
        left, then = self._left.pop(key, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - then) * self._per_s)
        wait_s = 0.0
        if left >= 1.0:
            left -= 1.0
        else:
            wait_s = (1.0 - left) / self._per_s
        self._left[key] = (left, now)
        if len(self._left) > KNOWN_MAX:
            self._left.popitem(last=False)
        return wait_s

    def give_back(self, key: str) -> None:
        """One that was let through counts no longer: it was refused behind this."""
        left, then = self._left.get(key, (self._burst, 0.0))
        self._left[key] = (min(self._burst, left + 1.0), then)
