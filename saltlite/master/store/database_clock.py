"""The wall clock of masters that share a database: that of the database.

Times that one master writes are compared by others: when a job was made, when it expires, what is old enough to be
deleted. A master whose own clock is wrong by years must not lose its jobs to the prune of another one, or delete
theirs.
"""

from __future__ import annotations

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

    While the database does not answer, it goes on from the last answer; before the first one it is the machine's.
    """

    def __init__(self, own: Clock, store: SharedStore) -> None:
        self._own = own
        self._store = store
        self._offset: float | None = None
        """What is added to `boottime`, which does not jump, and goes on while the machine is suspended."""
        self._learn_at = own.boottime()

    def wall(self) -> float:
        now = self._own.boottime()
        if now >= self._learn_at:
            self._learn(now)
        return self._own.boottime() + self._offset if self._offset is not None else self._own.wall()

    def _learn(self, asked_at: float) -> None:
        self._learn_at = asked_at + LEARN_S
        try:
            there = self._store.clock()
        except StoreError:
            # Whatever needs the time needs the database as well, and fails there.
            return
        answered_at = self._own.boottime()
        if self._offset is None or answered_at - asked_at < EXACT_S:
            self._offset = there - (asked_at + answered_at) / 2

    def monotonic(self) -> float:
        return self._own.monotonic()

    def boottime(self) -> float:
        return self._own.boottime()

    def entropy(self, size: int) -> bytes:
        return self._own.entropy(size)

    def uniform(self, low: float, high: float) -> float:
        return self._own.uniform(low, high)
