"""The maintenance process: what happens to the store because time passes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from saltlite.errors import SaltliteError
from saltlite.master.handlers.delivery import release_due
from saltlite.master.processes.context import RecentProofs
from saltlite.master.processes.link_channel import LinkChannel
from saltlite.master.store.ports import Store
from saltlite.model.clock import Clock
from saltlite.platform.defects import log_defect
from saltlite.platform.reactor import Reactor

log = logging.getLogger(__name__)

EXPIRE_S = 2.0
BATCH_S = 0.5
"""A batch goes on when a return is stored; this is for what no return tells: places that wait, minions that come."""
SWEEP_S = 15.0
PRUNE_S = 600.0
CLEAN_S = 86_400.0
"""How long files of a `saltlite cp` stay whose end nobody saw."""
ROOM_S = 3.0
ROOM_FROM = 0.9
"""The oldest ended jobs go when the store has filled so much of its limit ..."""
ROOM_TO = 0.8
"""... until it fills no more than this, so that it is not done again at once."""
ROOM_JOBS = 200
"""Jobs of one transaction: writers wait for it."""
ROOM_EVENTS = 10_000
"""Events of one, when there are no ended jobs to drop: a minion that comes and goes all day fills a store as well."""


class Maintenance:
    """Expires what could not be delivered, has the link look again at what nobody acknowledged, drops old jobs."""

    def __init__(
        self,
        reactor: Reactor,
        store: Store,
        clock: Clock,
        *,
        keep_s: float,
        store_max: int = 0,
        link: LinkChannel,
        clean: Sequence[Callable[[float], None]] = (),
    ) -> None:
        """`keep_s`: how long ended jobs are kept; `store_max`: bytes that the store may fill, 0 for no limit; `clean`
        are called now and then with the time before which what nobody uses any more is to be removed."""
        self._reactor = reactor
        self._store = store
        self._clock = clock
        self._keep_s = keep_s
        self._store_max = store_max
        self._link = link
        self._clean = clean
        self._proofs = RecentProofs()
        works = [(EXPIRE_S, self._expire), (BATCH_S, self._batches), (SWEEP_S, self._sweep), (PRUNE_S, self._prune)]
        works.append((PRUNE_S, self._clean_up))
        if store_max:
            works.append((ROOM_S, self._make_room))
        for every_s, work in works:
            self.repeat(every_s, work)

    def repeat(self, every_s: float, work: Callable[[], None]) -> None:
        """Have this done every so many seconds, first after as many. A SaltliteError of it is logged."""

        def run() -> None:
            try:
                work()
            except SaltliteError as error:
                log.error("maintenance could not be done, and is tried again: %s", error)  # noqa: TRY400 - a sentence
            except Exception:  # noqa: BLE001 - named supervision point: other maintenance still has to be done
                log_defect("maintenance")
            self._reactor.call_later(every_s, run)

        self._reactor.call_later(every_s, run)

    def _expire(self) -> None:
        if self._store.expire_due(self._clock.wall()):
            with self._store.write() as store:
                moved = store.expire(self._clock.wall())
            if moved:
                self._link.bell()

    def _batches(self) -> None:
        if release_due(self._store, self._clock, self._link, self._proofs):
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

    def _clean_up(self) -> None:
        for clean in self._clean:
            clean(self._clock.wall() - CLEAN_S)

    def _make_room(self) -> None:
        if self._store.size() < ROOM_FROM * self._store_max:
            return
        deleted = 0
        while self._store.size() > ROOM_TO * self._store_max:
            with self._store.write() as store:
                gone = store.prune_oldest(ROOM_JOBS)
                dropped = gone or store.prune_events(ROOM_EVENTS)
            deleted += gone
            if not dropped:
                log.warning("the store fills %d%% of store_max with what cannot be dropped yet", self._filled())
                break
        if deleted:
            log.warning("the oldest %d jobs made room in the store, before keep_jobs: raise store_max", deleted)

    def _filled(self) -> int:
        return round(100 * self._store.size() / self._store_max)
