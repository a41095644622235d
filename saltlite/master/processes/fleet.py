"""The fleet as targets see it: accepted keys from the store, resources from the registry, the rest from the banks."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

from saltlite.errors import StoreError, UsageError
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.events import MasterEvent, tag_master
from saltlite.model.ids import MinionId, TargetId, parse_srn, resource_index_srn_key
from saltlite.model.resourcelook import TypeReport, read_report
from saltlite.model.signature import by_name
from saltlite.resources.registry.admission import MissingResources
from saltlite.resources.registry.registry import Registry, Views
from saltlite.targeting.banks import GRAINS, MINE, PILLAR, RESOURCE_GRAINS, RESOURCE_TYPES, Bank, Banks
from saltlite.targeting.fleet import Budget, DataQuery, Fleet
from saltlite.targeting.grain_index import BankIndex, of_resources
from saltlite.targeting.matchers import ADDRESS_GRAINS, address_test, parse_network
from saltlite.wire.limits import MIB

if TYPE_CHECKING:
    from saltlite.master.store.sharing import SharedStore
    from saltlite.platform.reactor import Reactor

log = logging.getLogger(__name__)

Nodegroups = Mapping[str, str | list[str]]


@dataclass(frozen=True, slots=True)
class Indexes:
    """Indexes of the banks' content, one set per process. Each follows the changes of its bank."""

    grains: BankIndex
    pillar: BankIndex | None
    """None if the master caches no pillar."""
    resource_grains: BankIndex


def indexes_of(banks: Banks, *, pillar: bool = True) -> Indexes:
    """The indexes of one process; they load at their first query. `pillar`: whether pillar is cached."""
    resources = BankIndex(banks.bank(RESOURCE_GRAINS), of_resources)
    return Indexes(BankIndex(banks.bank(GRAINS)), BankIndex(banks.bank(PILLAR)) if pillar else None, resources)


class MasterFleet(Fleet):
    """A snapshot of the fleet that resolves one target; it reads the accepted keys once."""

    def __init__(
        self,
        accepted: Callable[[], Collection[MinionId]],
        registry: Registry,
        indexes: Indexes,
        nodegroups: Nodegroups,
        budget: Budget | None = None,
    ) -> None:
        """`accepted` returns the ids of accepted keys; `budget` is that of the whole request."""
        self._budget = budget or Budget()
        self._ask_accepted = accepted
        self._accepted: frozenset[MinionId] | None = None
        self._seen: Views | None = None
        self._registry = registry
        self._indexes = indexes
        self._nodegroups = nodegroups

    @property
    def budget(self) -> Budget:
        return self._budget

    def minions(self) -> Collection[MinionId]:
        return self._minions()

    def owner(self, srn: TargetId) -> MinionId | None:
        kind, bare_id = parse_srn(srn)
        held = self._views().owner(kind, bare_id) if kind and bare_id else None
        return self._accepted_owner(held.minion) if held is not None else None

    def resources_of(self, minion: MinionId) -> Iterable[TargetId]:
        if minion not in self._minions():
            return
        for kind, held in self._views().by_minion.get(minion, {}).items():
            for bare_id in held.ids:
                yield resource_index_srn_key(kind, bare_id)

    def resources_of_type(self, resource_type: str) -> Iterable[tuple[TargetId, MinionId]]:
        for minion, held in self._views().by_type.get(resource_type, {}).items():
            owner = self._accepted_owner(minion)
            if owner is not None:
                for bare_id in held.ids:
                    yield resource_index_srn_key(resource_type, bare_id), owner

    def resources(self) -> Iterable[tuple[TargetId, MinionId]]:
        for resource_type in self._views().by_type:
            yield from self.resources_of_type(resource_type)

    def with_bare_id(self, bare_id: str) -> Iterator[tuple[TargetId, MinionId]]:
        for held in self._views().holdings(bare_id):
            owner = self._accepted_owner(held.minion)
            if owner is not None:
                yield resource_index_srn_key(held.type, bare_id), owner

    def grains(self, query: DataQuery) -> tuple[Collection[MinionId], Collection[TargetId]]:
        minions = self._minions() & self._indexes.grains.select(query, self._budget)
        return minions, self._indexes.resource_grains.select(query, self._budget)

    def grain_names(self) -> list[str]:
        """The names of the grains that minions have."""
        return self._indexes.grains.keys()

    def pillar(self, query: DataQuery) -> Collection[MinionId]:
        if self._indexes.pillar is None:
            raise UsageError(
                "this master keeps no pillar to select by: minion_data_cache is false in its configuration. Target by "
                "id or grains instead, or set it to true"
            )
        return self._minions() & self._indexes.pillar.select(query, self._budget)

    def addresses(self, network: str) -> Collection[MinionId]:
        passes, grains = address_test(parse_network(network)), self._indexes.grains
        found = (grains.with_texts(grain, passes, self._budget) for grain in ADDRESS_GRAINS)
        return self._minions().intersection(chain(*found))

    def nodegroups(self) -> Nodegroups:
        return self._nodegroups

    def _minions(self) -> frozenset[MinionId]:
        if self._accepted is None:
            self._accepted = frozenset(self._ask_accepted())
        return self._accepted

    def _views(self) -> Views:
        # Read once: the views must not change during an iteration.
        if self._seen is None:
            self._seen = self._registry.views()
        return self._seen

    def _accepted_owner(self, minion: str) -> MinionId | None:
        """The owner if its key is accepted; rows of deleted keys are about to be removed."""
        owner = MinionId(minion)
        return owner if owner in self._minions() else None


CLAIMS_MAX = 1000
"""Claims that are remembered per minion: when such a resource becomes free, the minion is asked to register. Further
claims take effect when the minion registers the next time."""


@dataclass(frozen=True, slots=True)
class Registered:
    """What one minion registered last."""

    functions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Type -> function -> its text of `saltlite.model.signature`."""
    count: int = 0
    """Resources that became the minion's."""
    refusals: int = 0
    """Registrations rejected in whole or in part since the last complete one."""
    reasons: Sequence[str] = ()
    """Why parts of the last registration were rejected or withheld, in sentences."""
    lost: frozenset[TargetId] = frozenset()
    """Resources that went from it to another minion, where they stay when it registers them again."""
    claims: frozenset[TargetId] = frozenset()
    """Resources that it registered while others own them, at most CLAIMS_MAX."""
    missing: Mapping[str, MissingResources] = field(default_factory=dict)
    """Type -> resources that it owns but did not find the last time."""
    reports: Mapping[str, TypeReport] = field(default_factory=dict)
    """By type: what it reports about it."""

    def missing_since(self, srn: TargetId) -> float | None:
        """Since when the resource is missing, in wall-clock seconds since 1970; None if it is not."""
        kind, _, bare_id = srn.partition(":")
        missing = self.missing.get(kind)
        return missing.since.get(bare_id) if missing is not None else None

    def without_missing(self, srns: Set[TargetId]) -> Mapping[str, MissingResources]:
        """`missing` without these resources."""
        left = {}
        for kind, one in self.missing.items():
            rest = one.without({srn.partition(":")[2] for srn in srns if srn.startswith(f"{kind}:")})
            if rest is not None:
                left[kind] = rest
        return left


class _FunctionSet(dict[str, str]):
    """Functions of a type by name. Minions share sets; one that no row uses is garbage-collected."""

    __slots__ = ("__weakref__",)


class Registrations:
    """All rows; follows the changes of the bank."""

    def __init__(self, banks: Banks) -> None:
        self._bank: Bank = banks.bank(RESOURCE_TYPES)
        self._rows: dict[MinionId, Registered] = {}
        self._sets: WeakValueDictionary[tuple[str, ...], _FunctionSet] = WeakValueDictionary()
        self._claimants: dict[TargetId, set[MinionId]] = {}
        self._cursor = ""

    def of(self, minion: MinionId) -> Registered | None:
        """The row of this minion, None if it never registered."""
        self._follow()
        return self._rows.get(minion)

    def rows(self) -> Iterator[tuple[MinionId, Registered]]:
        """All rows, in no order."""
        self._follow()
        return iter(self._rows.items())

    def claimants(self, srns: Iterable[TargetId]) -> set[MinionId]:
        """The minions that claim or lost any of these resources."""
        self._follow()
        return {minion for srn in srns for minion in self._claimants.get(srn, ())}

    def digest(self, minion: MinionId) -> str:
        """The digest of the current registration, "" if there is none or it was partly rejected."""
        return self._bank.digest(minion)

    def put(self, minion: MinionId, row: Registered, digest: str) -> None:
        """Store the row of a minion. Raises StoreError."""
        value = {
            "functions": {kind: list(functions.values()) for kind, functions in row.functions.items()},
            "count": row.count,
            "refusals": row.refusals,
            "reasons": list(row.reasons),
            "lost": sorted(row.lost),
            "claims": sorted(row.claims)[:CLAIMS_MAX],
            "missing": {kind: [dict(one.since), one.looks, one.look] for kind, one in row.missing.items()},
            "reports": {kind: one.to_map() for kind, one in row.reports.items()},
        }
        self._bank.put(minion, value, digest)

    def lose(self, minion: MinionId, srns: Iterable[TargetId]) -> None:
        """Another minion owns these resources from now on, including missing ones. Raises StoreError.

        The digest is cleared, so that the minion registers again in its next session, and regains what is free then.
        """
        row = self.of(minion)
        if row is not None:
            gone = row.lost.union(srns)
            count = row.count - len(gone) + len(row.lost)
            self.put(minion, replace(row, count=count, lost=gone, missing=row.without_missing(gone)), "")

    def forget(self, minion: MinionId) -> None:
        """Delete the row of this minion."""
        self._bank.delete(minion)

    def _follow(self) -> None:
        changes = self._bank.changes(self._cursor)
        if changes.whole:
            self._rows.clear()
            self._claimants.clear()
        for minion in changes.keys:
            self._set(MinionId(minion), self._bank.get(minion))
        self._cursor = changes.cursor

    def _set(self, minion: MinionId, value: Mapping[str, Any] | None) -> None:
        before = self._rows.pop(minion, None)
        for srn in _wanted(before):
            claimants = self._claimants[srn]
            claimants.discard(minion)
            if not claimants:
                del self._claimants[srn]
        if value is not None:
            row = self._rows[minion] = self._row(value)
            for srn in _wanted(row):
                self._claimants.setdefault(srn, set()).add(minion)

    def _row(self, value: Mapping[str, Any]) -> Registered:
        return Registered(
            functions={kind: self._functions(tuple(texts)) for kind, texts in value["functions"].items()},
            count=value["count"],
            refusals=value["refusals"],
            reasons=tuple(value["reasons"]),
            lost=frozenset(value["lost"]),
            # Rows of earlier versions lack the following.
            claims=frozenset(value.get("claims", ())),
            missing={kind: MissingResources(*one) for kind, one in value.get("missing", {}).items()},
            reports={kind: read_report(one) for kind, one in value.get("reports", {}).items()},
        )

    def _functions(self, texts: tuple[str, ...]) -> Mapping[str, str]:
        known = self._sets.get(texts)
        if known is None:
            known = self._sets[texts] = _FunctionSet(by_name(texts))
        return known


def _wanted(row: Registered | None) -> frozenset[TargetId]:
    return row.lost | row.claims if row is not None else frozenset()


ASKED_MAX = 100
"""Minions asked at once: each sends all its resources, and one of them gets the free one. The others register within
minutes anyway."""


class Asking(Protocol):
    """Sends questions to minions."""

    def fetch(self, minion: str, what: str) -> None:
        """Ask a minion for its `functions`, `grains` or `resources`."""
        ...


class AskingEverywhere:
    """Sends questions to minions of all masters that share a store. A lost question is repeated in the next session."""

    def __init__(self, reactor: Reactor, link: Asking, store: SharedStore, clock: Clock, me: str) -> None:
        """`me` is the name of this master."""
        self._reactor = reactor
        self._link = link
        self._store = store
        self._clock = clock
        self._me = me
        self._waiting: dict[str, set[MinionId]] = {}

    def fetch(self, minion: str, what: str) -> None:
        """As Asking.fetch. The event for other masters is stored later in this turn, because a transaction may be
        open."""
        self._link.fetch(minion, what)
        if not self._waiting:
            self._reactor.call_soon(self._tell)
        self._waiting.setdefault(what, set()).add(MinionId(minion))

    def _tell(self) -> None:
        waiting, self._waiting = self._waiting, {}
        try:
            for what, minions in waiting.items():
                rows = self._store.minions(minions)
                elsewhere = [row.id for row in rows if row.up and row.master not in ("", self._me)]
                if elsewhere:
                    with self._store.write() as store:
                        data = {"by": self._me, "minions": elsewhere, "what": what}
                        store.put_event(tag_master(self._me, MasterEvent.FETCH), data, self._clock.wall())
        except StoreError as error:
            log.error("minions of other masters are not asked for their %s: %s", ", ".join(waiting), error)  # noqa: TRY400 - a sentence


def ask_claimants(registrations: Registrations, link: Asking, free: Collection[TargetId], *, but: MinionId) -> None:
    """Ask the minions that claim these free resources to register again, but not the one that released them."""
    if free:
        for minion in sorted(registrations.claimants(free) - {but})[:ASKED_MAX]:
            link.fetch(minion, "resources")


# -- The mine


MINES_MEMORY = 32 * MIB
"""Bytes of mines that one MWorker caches for readers of the whole fleet's mine."""


class MineValue(NamedTuple):
    """One value: the digest of `data`, the encoded value, and the target of its readers ("" for all minions)."""

    digest: bytes
    data: bytes
    allow_tgt: str = ""
    allow_tgt_type: str = "glob"


class Mines:
    """A cache of mines, kept current with the changes of all processes. Raises StoreError."""

    def __init__(self, banks: Banks, memory: int = MINES_MEMORY) -> None:
        self._bank = banks.bank(MINE)
        self._memory = memory
        self._mines: OrderedDict[str, tuple[dict[str, MineValue], int]] = OrderedDict()
        self._held = 0
        self._cursor = ""

    def follow(self) -> None:
        """Drop changed values. Call this before a request reads."""
        changes = self._bank.changes(self._cursor)
        self._cursor = changes.cursor
        for minion in list(self._mines) if changes.whole else changes.keys:
            self._drop(minion)

    def of(self, minion: str) -> dict[str, MineValue]:
        """The values of a minion."""
        known = self._mines.get(minion)
        if known is not None:
            self._mines.move_to_end(minion)
            return known[0]
        found = {name: MineValue(*row) for name, row in (self._bank.get(minion) or {}).items()}
        size = sum(len(value.data) + len(name) for name, value in found.items()) + 256
        self._mines[minion] = found, size
        self._held += size
        while self._held > self._memory and len(self._mines) > 1:
            self._drop(next(iter(self._mines)))
        return found

    def _drop(self, minion: str) -> None:
        _mine, size = self._mines.pop(minion, ({}, 0))
        self._held -= size
