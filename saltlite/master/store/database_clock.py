"""The wall clock of masters that share a database: that of the database.

Times that one master writes are compared by others: when a job was made, when it expires, what is old enough to be
deleted. A master whose own clock is wrong by years must not lose its jobs to the prune of another one, or delete
theirs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from saltlite.errors import StoreError

if TYPE_CHECKING:
    from saltlite.master.store.sharing import SharedStore
    from saltlite.model.clock import Clock

LEARN_S = 10.0
"""How often a process asks the database for the time, when it needs it; in between, its own clock counts seconds."""
EXACT_S = 1.0
"""An answer that takes longer says too little; the one before stays, if there is one."""


class DatabaseClock:
    """`saltlite.model.clock.Clock` of a process of a master, whose wall clock is the database's.

    While the database does not answer, it goes on from the last answer; before the first one `wall` raises StoreError.
    """

    def __init__(self, own: Clock, store: SharedStore) -> None:
        self.own = own
        self._store = store
        self._offset: float | None = None
        """What is added to `boottime`, which does not jump, and goes on while the machine is suspended."""
        self._learn_at = 0.0
        with suppress(StoreError):
            self._offset = self._learnt(own.boottime())

    def wall(self) -> float:
        now = self.own.boottime()
        if self._offset is None:
            # The machine's clock will not do: what is old by it would be deleted for all masters.
            self._offset = self._learnt(now)
        elif now >= self._learn_at:
            with suppress(StoreError):
                self._offset = self._learnt(now)
        return self.own.boottime() + self._offset

    def _learnt(self, asked_at: float) -> float:
        """Ask the database; the offset from now on. Raises StoreError."""
        self._learn_at = asked_at + LEARN_S
        there = self._store.clock()
        answered_at = self.own.boottime()
        if self._offset is not None and answered_at - asked_at >= EXACT_S:
            return self._offset
        return there - (asked_at + answered_at) / 2

    def monotonic(self) -> float:
        return self.own.monotonic()

    def boottime(self) -> float:
        return self.own.boottime()

    def entropy(self, size: int) -> bytes:
        return self.own.entropy(size)

    def uniform(self, low: float, high: float) -> float:
        return self.own.uniform(low, high)


def certain_wall(clock: Clock) -> float:
    """The wall clock for what deletes: the earlier one of the database's and the machine's, where there are two. A
    server of the database that was promoted may be wrong as well as this machine."""
    return min(clock.wall(), clock.own.wall()) if isinstance(clock, DatabaseClock) else clock.wall()
