"""The maintenance process: periodic work on the store and on the resource registry.

It expires undelivered jobs, continues batches, prunes old jobs, frees space, removes the arguments of ended jobs, and
compacts and repairs the resource registry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, cast

from saltlite.errors import RemoteProtocolError, SaltliteError
from saltlite.files.server import CopyAreas
from saltlite.master.handlers.delivery import release_due
from saltlite.master.processes.context import RecentProofs
from saltlite.master.processes.fleet import Asking, AskingEverywhere, Registrations, ask_claimants
from saltlite.master.processes.identity import name_of
from saltlite.master.processes.link_channel import LinkChannel
from saltlite.master.processes.store_opening import clock_of
from saltlite.master.processes.supervisor import MAINTENANCE
from saltlite.master.store.database_clock import certain_wall
from saltlite.master.store.ports import Store
from saltlite.model.clock import Clock
from saltlite.model.events import tag_resource_registry
from saltlite.model.ids import Jid, MinionId, resource_index_srn_key
from saltlite.platform.logs import log_defect
from saltlite.platform.reactor import Reactor
from saltlite.resources.registry.registry import Views
from saltlite.targeting.banks import NAMES, PILLAR, Banks
from saltlite.wire.job_body import reduced
from saltlite.wire.limits import MIB

if TYPE_CHECKING:
    from saltlite.config.master import MasterConfig
    from saltlite.master.store.sharing import SharedStore

log = logging.getLogger(__name__)

EXPIRE_S = 2.0
BATCH_S = 0.5
"""Batches continue with each return; this is for what no return triggers: expired slots, minions that connect."""
SWEEP_S = 15.0
PRUNE_S = 600.0
FIRST_S = 30.0
"""Work is done for the first time so long after the start, or earlier: a master that is restarted often prunes too."""
CLEAN_S = 86_400.0
"""How long files of an unfinished `saltlite cp` are kept."""
SPACE_S = 3.0
SPACE_FROM = 0.9
"""The oldest ended jobs are deleted when the store has filled this part of its limit ..."""
SPACE_TO = 0.8
"""... until it fills no more than this."""
SPACE_JOBS = 200
"""Jobs per transaction at most, because writers wait for it."""
SPACE_EVENTS = 1_000
"""Events per transaction, if there are no ended jobs: a minion that reconnects all day fills a store as well."""
PAUSE_S = 0.02
"""Between two transactions that delete: the writers that waited for the first one go on."""


class Maintenance:
    """Periodic work on the store: expiry, batches, repeated deliveries, deletion of old jobs."""

    def __init__(
        self,
        reactor: Reactor,
        store: Store,
        clock: Clock,
        *,
        keep_s: float,
        store_max: int = 0,
        link: LinkChannel,
        me: str = "",
    ) -> None:
        """`keep_s`: how long ended jobs are kept. `store_max`: the limit of the store in bytes, 0 for none. `me`: the
        name of this master if others share its store, which is a SharedStore then."""
        self._reactor = reactor
        self._store = store
        self._clock = clock
        self._keep_s = keep_s
        self._store_max = store_max
        self._link = link
        self._me = me
        self._is_alone = _maintains(store, clock, me)
        self._proofs = RecentProofs()
        self._pruned = 0
        self._freed = 0
        self._frees_space = False
        self.repeat(SWEEP_S, self._sweep)
        works: list[tuple[float, Callable[[], bool | None]]]
        works = [(EXPIRE_S, self._expire), (BATCH_S, self._batches), (PRUNE_S, self._prune)]
        if store_max:
            works.append((SPACE_S, self._free_space))
        for every_s, work in works:
            self.repeat_alone(every_s, work)

    def repeat_alone(self, every_s: float, work: Callable[[], bool | None]) -> None:
        """As `repeat`, for work that only one of the masters that share the store does."""
        self.repeat(every_s, lambda: work() if self._is_alone() else None)

    def repeat(self, every_s: float, work: Callable[[], bool | None], *, first_s: float = FIRST_S) -> None:
        """Call `work` every `every_s` seconds, for the first time after at most `first_s`, and log its exceptions.
        While it returns true, call it again after PAUSE_S.
        """

        def run() -> None:
            wait_s = every_s
            try:
                wait_s = PAUSE_S if work() else every_s
            except SaltliteError as error:
                log.error("maintenance could not be done, and is tried again: %s", error)  # noqa: TRY400 - a sentence
            except Exception:  # noqa: BLE001 - named supervision point: other maintenance still has to be done
                log_defect("maintenance")
            self._reactor.call_later(wait_s, run)

        self._reactor.call_later(min(every_s, first_s), run)

    def _expire(self) -> None:
        if self._store.expire_due(self._clock.wall()):
            with self._store.write() as store:
                moved = store.expire(self._clock.wall())
            if moved:
                self._link.wake_up()

    def _batches(self) -> None:
        if release_due(self._store, self._clock, self._link, self._proofs, me=self._me):
            self._link.wake_up()

    def _sweep(self) -> None:
        waiting = self._store.minions_with_open_jobs()
        if waiting:
            self._link.sweep(waiting)

    def _prune(self) -> bool:
        """Delete some of what is old; whether there may be more."""
        before = certain_wall(self._clock) - self._keep_s
        if self._store.prune_due(before):
            with self._store.write() as store:
                self._pruned += store.prune(before)
            return True
        if self._pruned:
            log.info("%d jobs were older than keep_jobs and are gone", self._pruned)
            self._pruned = 0
        return False

    def _free_space(self) -> bool:
        """Delete some of what is oldest, if there is too little room; whether there may be more to delete."""
        share = SPACE_TO if self._frees_space else SPACE_FROM
        self._frees_space = self._store.size() > share * self._store_max
        if self._frees_space:
            with self._store.write() as store:
                gone = store.prune_oldest(SPACE_JOBS)
                self._frees_space = bool(gone or store.prune_events(SPACE_EVENTS))
            self._freed += gone
            if self._frees_space:
                return True
            log.warning("the store fills %d%% of store_max with what cannot be deleted yet", self._filled())
        if self._freed:
            if self._prune():  # the rest of a job of which a part was deleted
                return True
            log.warning("the oldest %d jobs made room in the store, before keep_jobs: raise store_max", self._freed)
            self._freed = 0
        return False

    def _filled(self) -> int:
        return round(100 * self._store.size() / self._store_max)


DROP_ARGUMENTS_S = 2.0
"""The interval of the search for ended jobs."""
JOBS = 50
"""Jobs per transaction."""
ROUNDS = 20
"""Transactions in a row, because other maintenance waits for them."""
SHARE = 0.05
"""The part of the time that this may use: finding the few ended jobs may take a look at many open ones."""


def _maintains(store: Store, clock: Clock, me: str) -> Callable[[], bool]:
    """Whether this process maintains the store. If several masters share the store, one of them does."""
    if not me:
        return lambda: True
    from saltlite.master.store.readers import SharedCursor  # noqa: PLC0415 - for a shared store only

    return SharedCursor(cast("SharedStore", store), clock, MAINTENANCE, me).is_held


class EndedArguments:
    """Removes the arguments of ended jobs: secrets always, others unless `keep_job_args` is on.

    A job has ended when every target is terminal, because then its body is not sent again. One whose minion is away,
    whose batch continues, or whose kill is unconfirmed has not ended. Transactions are short, because writers wait.
    """

    def __init__(self, store: Store, clock: Clock, *, keep: bool) -> None:
        self._store = store
        self._clock = clock
        self._keep = keep
        self._all_are_marked = keep
        self._log_is_empty = False  # a killed master may have left arguments in it
        self._not_before = 0.0

    def drop(self) -> None:
        """Remove arguments from the store, then from its log. Raises StoreError."""
        began = self._clock.monotonic()
        if began < self._not_before:
            return
        if not self._all_are_marked:
            # For jobs that were published while the option was on.
            with self._store.write() as store:
                store.mark_reducible(None)
            self._all_are_marked = True
        for _ in range(ROUNDS):
            if not self._drop_some():
                break
        if not self._log_is_empty:
            self._log_is_empty = self._store.empty_log()
        now = self._clock.monotonic()
        self._not_before = now + (now - began) / SHARE

    def _drop_some(self) -> bool:
        """Remove some; whether there may be more."""
        if not self._store.reducible(1):
            return False
        with self._store.write() as store:
            rows = store.reducible(JOBS)
            kept = [(jid, self._reduced(jid, body)) for jid, body in rows]
            store.put_reduced(kept)
        if kept != rows:
            self._log_is_empty = False
        return len(rows) == JOBS

    def _reduced(self, jid: Jid, body: bytes) -> bytes:
        try:
            return reduced(body, keep_arguments=self._keep)
        except RemoteProtocolError as error:
            log.error("job %s in the store cannot be read and is not changed: %s", jid, error)  # noqa: TRY400 - a sentence
            return body


REGISTRY_LOOK_S = 15.0
FOLLOW_S = 1.0
"""How often a master copies what minions reported to other masters, so that requests have little to copy."""
ORPHANS_S = 600.0
ASK_AGAIN_S = 600.0
"""A minion that does not register is asked again after REGISTRY_LOOK_S, then after twice that, up to this: its
registration may be large, and rejected each time."""


class KeptRegistry(Protocol):
    """The part of `saltlite.resources.registry.mmap.ResourceRegistry` that is used here."""

    def maybe_compact(self, *, force_check: bool = False) -> tuple[bool, dict[str, Any]]: ...

    def views(self) -> Views: ...

    def unregister_minion(self, minion: str) -> int: ...

    def declare_complete(self) -> None: ...


Opened = AbstractContextManager[tuple[KeptRegistry, Banks]]


class RegistryMaintenance:
    """Compacts the resource registry, and repairs it from the minions.

    Registry and banks are opened for each look and closed after it, because a million resources take a third of a
    gigabyte of memory.
    """

    def __init__(self, store: Store, clock: Clock, link: Asking, opened: Callable[[], Opened]) -> None:
        self._store = store
        self._clock = clock
        self._link = link
        self._opened = opened
        self._reported = False
        self._asked: dict[MinionId, tuple[float, float]] = {}
        """By minion: when to ask again (monotonic seconds), and the pause before that."""

    def follow(self) -> None:
        """Copy what minions reported to other masters, from the shared store. Raises StoreError."""
        with self._opened():
            pass  # opened with all of it

    def drop_pillars(self) -> None:
        """Delete all cached pillars. Raises StoreError."""
        with self._opened() as (_registry, banks):
            bank = banks.bank(PILLAR)
            for minion in bank.keys():  # noqa: SIM118 - a bank is not a dict
                bank.delete(minion)

    def look(self) -> None:
        """Compact the registry when due, and ask minions for rows that damage destroyed. Raises StoreError."""
        with self._opened() as (registry, banks):
            done, stats = registry.maybe_compact(force_check=True)
            if done:
                log.info("the resource registry was compacted: %d rows", stats["primary"]["rows"])
            if stats["primary"]["incomplete"]:
                self._restore(registry, Registrations(banks))

    def drop_orphans(self) -> None:
        """Release resources of minions without an accepted key: the disk was full when it was deleted. Raises
        StoreError."""
        with self._opened() as (registry, banks):
            registrations = Registrations(banks)
            known = {*registry.views().by_minion, *(key for name in NAMES for key in banks.bank(name).keys())}  # noqa: SIM118 - a bank is not a dict
            for minion in known.difference(self._store.accepted_ids()):
                # Checked again in a transaction, so that no key is accepted meanwhile.
                with self._store.write() as store:
                    if store.holder(MinionId(minion)) is not None:
                        continue
                    banks.look_again()
                    held = registry.views().by_minion.get(minion, {})
                    free = [resource_index_srn_key(kind, one) for kind in held for one in held[kind].ids]
                    registry.unregister_minion(minion)
                    for name in NAMES:
                        banks.bank(name).delete(minion)
                ask_claimants(registrations, self._link, free, but=MinionId(minion))

    def _restore(self, registry: KeptRegistry, registrations: Registrations) -> None:
        """Ask each minion that has fewer resources than it registered, until there is none."""
        accepted = frozenset(self._store.accepted_ids())
        waiting = sorted(_incomplete_minions(registry.views(), registrations, accepted))
        up = {row.id for row in self._store.minions() if row.up}
        if not self._reported:
            self._reported = True
            self._record_event({"state": "incomplete", "waiting_for": len(waiting)})
            log.error(
                "the resource registry was damaged and lost rows: %d minions are asked to register their resources "
                "anew. Targets miss these resources until then; `saltlite-run resource.stats` says when all is back",
                len(waiting),
            )
        if not waiting:
            registry.declare_complete()
            self._reported = False
            self._record_event({"state": "complete", "waiting_for": 0})
            log.warning("the resource registry is complete again")
        # A minion without a row may have had resources: the banks can be lost as well.
        never = {minion for minion in up & accepted if registrations.of(minion) is None}
        incomplete = up.intersection(waiting) | never
        self._asked = {minion: asked for minion, asked in self._asked.items() if minion in incomplete}
        for minion in incomplete:
            self._ask(minion)

    def _ask(self, minion: MinionId) -> None:
        now = self._clock.monotonic()
        again_at, pause_s = self._asked.get(minion, (now, 0.0))
        if now >= again_at:
            pause_s = min(max(REGISTRY_LOOK_S, 2 * pause_s), ASK_AGAIN_S)
            self._asked[minion] = (now + pause_s, pause_s)
            self._link.fetch(minion, "resources")

    def _record_event(self, data: Mapping[str, Any]) -> None:
        with self._store.write() as store:
            store.put_event(tag_resource_registry(), data, self._clock.wall())


def _incomplete_minions(
    views: Views, registrations: Registrations, accepted: frozenset[MinionId]
) -> Iterator[MinionId]:
    for minion, row in registrations.rows():
        held = sum(len(one.ids) for one in views.by_minion.get(minion, {}).values())
        if minion in accepted and held < row.count:
            yield minion


def begin_maintenance(
    config: MasterConfig,
    reactor: Reactor,
    store: Store,
    clock: Clock,
    link: LinkChannel,
    opened: Callable[[], Opened],
    copies: str,
) -> Maintenance:
    """Do all maintenance of a master from now on. `copies` is the folder of files in transit."""
    areas = CopyAreas(copies)
    # The times of files are those of this machine's clock.
    files_clock = clock
    shared = cast("SharedStore", store) if config.several_masters else None
    clock = clock_of(config, store)
    kept = Maintenance(
        reactor,
        store,
        clock,
        keep_s=config.keep_jobs,
        store_max=config.store_max * MIB,
        link=link,
        me=name_of(config) if config.several_masters else "",
    )
    kept.repeat(PRUNE_S, lambda: areas.expire(files_clock.wall() - CLEAN_S))
    kept.repeat_alone(DROP_ARGUMENTS_S, EndedArguments(store, clock, keep=config.keep_job_args).drop)
    asking: Asking = link
    if shared is not None:
        asking = AskingEverywhere(reactor, link, shared, clock, name_of(config))
        inventory = shared.inventory()
        kept.repeat(PRUNE_S, lambda: inventory.expire_pieces(clock.wall() - CLEAN_S))
    upkeep = RegistryMaintenance(store, clock, asking, opened)
    if shared is not None:
        kept.repeat(FOLLOW_S, upkeep.follow)
    if not config.minion_data_cache:
        upkeep.drop_pillars()
    kept.repeat(REGISTRY_LOOK_S, upkeep.look)
    kept.repeat_alone(ORPHANS_S, upkeep.drop_orphans)
    return kept
