"""How many events a minion may send: a store that one minion can fill is no place for those of the others."""

from __future__ import annotations

from collections import OrderedDict

from saltlite.wire.limits import EVENT_EVERY_S, EVENTS_AT_ONCE

MINIONS_MAX = 20_000
"""Minions that are remembered; the one that was quiet for longest is forgotten first."""
_ROUNDING_S = 0.001


class EventRateLimiter:
    """Events by minion id, whatever session they come in. `now` is monotonic seconds."""

    def __init__(self) -> None:
        self._spent_until: OrderedDict[str, float] = OrderedDict()

    def take(self, minion: str, now: float) -> bool:
        """Whether one more event of that minion is taken now; it counts only then."""
        spent_until = max(now, self._spent_until.get(minion, now))
        if spent_until - now > (EVENTS_AT_ONCE - 1) * EVENT_EVERY_S + _ROUNDING_S:
            return False
        self._spent_until.pop(minion, None)
        self._spent_until[minion] = spent_until + EVENT_EVERY_S
        if len(self._spent_until) > MINIONS_MAX:
            self._spent_until.popitem(last=False)
        return True
