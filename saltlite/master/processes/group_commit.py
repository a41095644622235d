"""One transaction for all that an MWorker has to store in one turn of its loop: one commit, and one sync of the disk.

Nothing is answered, sent or acknowledged before that commit. If it fails, each part is stored alone, so an error costs
only the part that has it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import field
from typing import Any

from saltlite.master.store.ports import Store, StoreWriter
from saltlite.model.dataclass import dataclass
from saltlite.platform.reactor import Reactor

log = logging.getLogger(__name__)

PARTS_MAX = 32
"""Parts of one transaction: it holds the write lock of all MWorkers."""
WAIT_S = 0.005
"""How long a transaction waits for parts that are about to come."""


@dataclass(frozen=True, slots=True)
class GroupPart:
    """The changes that one request, or a batch of reports, stores.

    `store` changes nothing but the store; `stored` gets its result after the commit. `alone` does both, in a
    transaction of its own. `stored` and `alone` raise nothing. `appends_only`: see `Store.write`.
    """

    store: Callable[[StoreWriter], Any] = field(repr=False)
    stored: Callable[[Any], None] = field(repr=False)
    alone: Callable[[], None] = field(repr=False)
    appends_only: bool = False


class GroupCommit:
    """Collects parts, and commits them at the end of the turn."""

    def __init__(self, reactor: Reactor, store: Store, more_is_due: Callable[[], bool]) -> None:
        """`more_is_due`: whether requests wait that may add a part in the next turn."""
        self._reactor = reactor
        self._store = store
        self._more_is_due = more_is_due
        self._parts: list[GroupPart] = []
        self._since = 0.0

    def add(self, part: GroupPart) -> None:
        """Commit this part at the end of the turn, or a few turns later."""
        if not self._parts:
            self._since = self._reactor.now()
            self._reactor.call_soon(self._end_of_turn)
        self._parts.append(part)

    def commit(self) -> None:
        """Commit all parts now."""
        parts, self._parts = self._parts, []
        if len(parts) > 1 and self._commit_together(parts):
            return
        for part in parts:
            part.alone()

    def _end_of_turn(self) -> None:
        if not self._parts:
            return
        is_waiting = len(self._parts) < PARTS_MAX and self._reactor.now() - self._since < WAIT_S
        if is_waiting and self._more_is_due():
            self._reactor.call_soon(self._end_of_turn)
        else:
            self.commit()

    def _commit_together(self, parts: list[GroupPart]) -> bool:
        try:
            with self._store.write(appends_only=all(part.appends_only for part in parts)) as store:
                results = [part.store(store) for part in parts]
        except Exception:  # noqa: BLE001 - named supervision point: they are stored one by one, where each error is handled
            log.debug("%d parts of a transaction are stored one by one, because one of them failed", len(parts))
            return False
        for part, result in zip(parts, results, strict=True):
            part.stored(result)
        return True
