"""How often a password may be wrong: guessing must not pay, whoever asks and through whichever process."""

from __future__ import annotations

from collections import OrderedDict

WRONG_AT_ONCE = 10
"""So many wrong passwords of one name may come at once ..."""
WRONG_EVERY_S = 6.0
"""... and after these one in so many seconds."""
NAMES_MAX = 10_000
"""Names that are remembered; the one that was wrong longest ago is forgotten first."""


class LoginPace:
    """Wrong passwords by backend and name. `now` is monotonic seconds.

    The right password is refused as well while there were too many wrong ones: an answer would tell which it is.
    """

    def __init__(self) -> None:
        self._spent_until: OrderedDict[tuple[str, str], float] = OrderedDict()

    def wait_s(self, backend: str, user: str, now: float) -> float:
        """How long this name has to wait before a password is looked at; 0.0 for not at all."""
        spent_until = self._spent_until.get((backend, user), now)
        return max(0.0, spent_until + WRONG_EVERY_S - now - WRONG_AT_ONCE * WRONG_EVERY_S)

    def wrong(self, backend: str, user: str, now: float) -> None:
        """One more wrong password of this name."""
        name = (backend, user)
        self._spent_until[name] = max(now, self._spent_until.pop(name, now)) + WRONG_EVERY_S
        if len(self._spent_until) > NAMES_MAX:
            self._spent_until.popitem(last=False)
