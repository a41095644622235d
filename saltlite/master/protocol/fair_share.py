"""How much processor time of a worker each user gets who is no operator: a share on average, and some of it at once.

It is a token bucket of seconds. A user who has spent more than his share waits; others do not wait for him.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

SHARE = 0.25
"""The part of one processor that one worker may use for one user, on average."""
BURST_S = 1.0
"""Seconds of a processor that one user who has asked nothing for a while may take of one worker at once."""
USERS_MAX = 10_000
"""Users that are remembered; the one that spent longest ago is forgotten first."""


class Shares:
    """What each user has spent. `now` is monotonic seconds."""

    def __init__(self) -> None:
        self._spent_until: OrderedDict[Hashable, float] = OrderedDict()

    def spend(self, user: Hashable, seconds: float, now: float) -> None:
        """That user's request took so many seconds of the processor."""
        self._spent_until[user] = max(now, self._spent_until.pop(user, now)) + seconds / SHARE
        if len(self._spent_until) > USERS_MAX:
            self._spent_until.popitem(last=False)

    def wait_s(self, user: Hashable, now: float) -> float:
        """How long the next request of that user has to wait; 0.0 for not at all."""
        return max(0.0, self._spent_until.get(user, now) - now - BURST_S / SHARE)

    def debt_s(self, user: Hashable, now: float) -> float:
        """How long that user's share would need for what he has spent: of two who wait the lesser one goes first."""
        return max(0.0, self._spent_until.get(user, now) - now)
