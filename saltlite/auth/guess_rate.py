"""How often somebody may be wrong, in a password or in a value of pillar that he may not see: guessing must not pay."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol, TypeAlias

WRONG_AT_ONCE = 10
"""So many wrong guesses of one name may come at once ..."""
WRONG_EVERY_S = 6.0
"""... and after these one in so many seconds."""
NAMES_MAX = 10_000
"""Names that are remembered; the one that was wrong longest ago is forgotten first."""

Name: TypeAlias = tuple[str, str]
"""What is guessed at, such as a backend; and the name under which it is."""


class Debts(Protocol):
    """Until when, in monotonic seconds, the wrong guesses of each name last."""

    def get(self, name: Name) -> float:
        """0.0 for a name that is not known, or not any more."""
        ...

    def put(self, name: Name, until: float) -> None: ...


class OwnDebts:
    """Those that one process counts."""

    def __init__(self) -> None:
        self._until: OrderedDict[Name, float] = OrderedDict()

    def get(self, name: Name) -> float:
        return self._until.get(name, 0.0)

    def put(self, name: Name, until: float) -> None:
        self._until.pop(name, None)
        self._until[name] = until
        if len(self._until) > NAMES_MAX:
            self._until.popitem(last=False)


class GuessRateLimiter:
    """Wrong guesses by name. `now` is monotonic seconds.

    The right guess is refused as well while there were too many wrong ones: an answer would tell which it is.
    """

    def __init__(self, debts: Debts | None = None) -> None:
        self._debts = debts or OwnDebts()

    def wait_s(self, what: str, name: str, now: float) -> float:
        """How long this name has to wait before a guess is looked at; 0.0 for not at all."""
        spent_until = max(now, self._debts.get((what, name)))
        return max(0.0, spent_until + WRONG_EVERY_S - now - WRONG_AT_ONCE * WRONG_EVERY_S)

    def wrong(self, what: str, name: str, now: float, times: int = 1) -> None:
        """So many more wrong guesses of this name."""
        self._debts.put((what, name), max(now, self._debts.get((what, name))) + times * WRONG_EVERY_S)
