"""What happens to the resource registry because time passes: it is compacted, repaired from the minions, cleaned.

Registry and banks are opened for each look and closed after it: what this process would keep of a million resources
between two looks is a third of a gigabyte.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from saltlite.master.processes.claimants import Asking, ask_claimants
from saltlite.master.processes.registrations import Registrations
from saltlite.master.store.ports import Store
from saltlite.model.clock import Clock
from saltlite.model.events import tag_resource_registry
from saltlite.model.ids import MinionId
from saltlite.model.srn import resource_index_srn_key
from saltlite.resources.registry.views import Views
from saltlite.targeting.banks import NAMES, PILLAR, Banks

log = logging.getLogger(__name__)

LOOK_S = 15.0
ORPHANS_S = 600.0
ASK_AGAIN_S = 600.0
"""Who is asked to register and does not is asked again after LOOK_S, then after twice that, and so on up to this: what
it sends may be large, and refused each time."""


class KeptRegistry(Protocol):
    """What is needed of `saltlite.resources.registry.mmap.ResourceRegistry`."""

    def maybe_compact(self, *, force_check: bool = False) -> tuple[bool, dict[str, Any]]: ...

    def views(self) -> Views: ...

    def unregister_minion(self, minion: str) -> int: ...

    def declare_complete(self) -> None: ...


Opened = AbstractContextManager[tuple[KeptRegistry, Banks]]


class Upkeep:
    """One process of a master has it."""

    def __init__(self, store: Store, clock: Clock, link: Asking, opened: Callable[[], Opened]) -> None:
        self._store = store
        self._clock = clock
        self._link = link
        self._opened = opened
        self._told = False
        self._asked: dict[MinionId, tuple[float, float]] = {}
        """When a minion may be asked again, monotonic, and how long it was left alone until then."""

    def drop_pillars(self) -> None:
        """Forget every pillar that the master kept: it is to keep none. Raises StoreError."""
        with self._opened() as (_registry, banks):
            bank = banks.bank(PILLAR)
            for minion in bank.keys():  # noqa: SIM118 - a bank is no dict
                bank.delete(minion)

    def look(self) -> None:
        """Compact the registry when it is due. Where rows were lost to damage, ask their minions for them. Raises
        StoreError."""
        with self._opened() as (registry, banks):
            done, stats = registry.maybe_compact(force_check=True)
            if done:
                log.info("the resource registry was compacted: %d rows", stats["primary"]["rows"])
            if stats["primary"]["incomplete"]:
                self._restore(registry, Registrations(banks))

    def drop_orphans(self) -> None:
        """Release what belongs to minions without an accepted key: a disk was full when the key went. Raises
        StoreError."""
        with self._opened() as (registry, banks):
            registrations = Registrations(banks)
            known = {*registry.views().by_minion, *(key for name in NAMES for key in banks.bank(name).keys())}  # noqa: SIM118 - a bank is no dict
            for minion in known.difference(self._store.accepted_ids()):
                # Looked at again where no key can be accepted meanwhile: that one would have registered by now.
                with self._store.write() as store:
                    if store.holder(MinionId(minion)) is not None:
                        continue
                    held = registry.views().by_minion.get(minion, {})
                    free = [resource_index_srn_key(kind, one) for kind in held for one in held[kind].ids]
                    registry.unregister_minion(minion)
                    for name in NAMES:
                        banks.bank(name).delete(minion)
                ask_claimants(registrations, self._link, free, but=MinionId(minion))

    def _restore(self, registry: KeptRegistry, registrations: Registrations) -> None:
        """Ask every minion that has fewer resources than it registered, until there is none."""
        accepted = frozenset(self._store.accepted_ids())
        waiting = sorted(_lacking(registry.views(), registrations, accepted))
        up = {row.id for row in self._store.minions() if row.up}
        if not self._told:
            self._told = True
            self._say({"state": "incomplete", "waiting_for": len(waiting)})
            log.error(
                "the resource registry was damaged and lost rows: %d minions are asked to register their resources "
                "anew. Targets miss these resources until then; `saltlite-run resource.stats` says when all is back",
                len(waiting),
            )
        if not waiting:
            registry.declare_complete()
            self._told = False
            self._say({"state": "complete", "waiting_for": 0})
            log.warning("the resource registry is complete again")
        # One of whom nothing is known may have had some: the banks can be lost as well.
        never = {minion for minion in up & accepted if registrations.of(minion) is None}
        lacking = up.intersection(waiting) | never
        self._asked = {minion: asked for minion, asked in self._asked.items() if minion in lacking}
        for minion in lacking:
            self._ask(minion)

    def _ask(self, minion: MinionId) -> None:
        now = self._clock.monotonic()
        again_at, alone_s = self._asked.get(minion, (now, 0.0))
        if now >= again_at:
            alone_s = min(max(LOOK_S, 2 * alone_s), ASK_AGAIN_S)
            self._asked[minion] = (now + alone_s, alone_s)
            self._link.fetch(minion, "resources")

    def _say(self, data: Mapping[str, Any]) -> None:
        with self._store.write() as store:
            store.put_event(tag_resource_registry(), data, self._clock.wall())


def _lacking(views: Views, registrations: Registrations, accepted: frozenset[MinionId]) -> Iterator[MinionId]:
    for minion, row in registrations.rows():
        held = sum(len(one.ids) for one in views.by_minion.get(minion, {}).values())
        if minion in accepted and held < row.count:
            yield minion
