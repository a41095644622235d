"""The maintenance process: what happens to the store because time passes."""

from __future__ import annotations

import logging
from collections.abc import Callable

from saltlite.adapters.reactor import Reactor
from saltlite.core.ports import Clock, Store
from saltlite.errors import StoreError
from saltlite.master.mworker import LinkChannel

log = logging.getLogger(__name__)

EXPIRE_S = 2.0
SWEEP_S = 15.0
PRUNE_S = 600.0


class Maintenance:
    """Expires what could not be delivered, has the link look again at what nobody acknowledged, drops old jobs."""

    def __init__(
        self,
        reactor: Reactor,
        store: Store,
        clock: Clock,
        *,
        keep_s: float,
        link: LinkChannel,
    ) -> None:
        self._reactor = reactor
        self._store = store
        self._clock = clock
        self._keep_s = keep_s
        self._link = link
        for every_s, work in ((EXPIRE_S, self._expire), (SWEEP_S, self._sweep), (PRUNE_S, self._prune)):
            self._repeat(every_s, work)

    def _repeat(self, every_s: float, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except StoreError as error:
                log.error("maintenance could not be done, and is tried again: %s", error)  # noqa: TRY400 - a sentence
            self._reactor.call_later(every_s, run)

        self._reactor.call_later(every_s, run)

    def _expire(self) -> None:
        if self._store.expire_due(self._clock.wall()):
            with self._store.write() as store:
                moved = store.expire(self._clock.wall())
            if moved:
                self._link.bell()

    def _sweep(self) -> None:
        waiting = self._store.minions_with_open_jobs()
        if waiting:
            self._link.sweep(waiting)

    def _prune(self) -> None:
        with self._store.write() as store:
            deleted = store.prune(self._clock.wall() - self._keep_s)
        if deleted:
            log.info("%d jobs were older than keep_jobs and are gone", deleted)
