"""How often a minion may say what costs the master much: by its key, so that a new session is no new allowance."""

from __future__ import annotations

from collections import OrderedDict

from saltlite.errors import RemoteProtocolError
from saltlite.model.keys import Fingerprint

FUNCTIONS_EVERY_S = 2.0
"""Between two reports of functions, on average. Minions look for changed modules every three seconds."""
FUNCTIONS_AT_ONCE = 8
"""So many may come at once: one for each of a few sessions, and changes that were not told yet."""
KEYS_MAX = 10_000
"""Keys that are remembered; the one that reported longest ago is forgotten first."""


class KeyRateLimiter:
    """Reports of functions. Reading one takes the link process 40 ms at worst, and the store keeps it."""

    def __init__(self) -> None:
        self._spent_until: OrderedDict[Fingerprint, float] = OrderedDict()

    def report(self, key: Fingerprint, now: float) -> None:
        """One more report; `now` is monotonic seconds. Raises RemoteProtocolError("too-often")."""
        spent_until = max(now, self._spent_until.pop(key, now)) + FUNCTIONS_EVERY_S
        if spent_until - now > FUNCTIONS_AT_ONCE * FUNCTIONS_EVERY_S:
            self._spent_until[key] = spent_until - FUNCTIONS_EVERY_S
            raise RemoteProtocolError("too-often", "reports of functions")
        self._spent_until[key] = spent_until
        if len(self._spent_until) > KEYS_MAX:
            self._spent_until.popitem(last=False)
