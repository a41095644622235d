"""The fleet as targets see it: accepted keys from the store, resources from the registry, the rest from the banks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from saltlite.errors import UsageError
from saltlite.model.ids import MinionId, TargetId, parse_srn, resource_index_srn_key
from saltlite.resources.registry.primary import Views
from saltlite.resources.registry.registry import Registry
from saltlite.targeting.banks import GRAINS, PILLAR, RESOURCE_GRAINS, Banks
from saltlite.targeting.budget import Budget
from saltlite.targeting.fleet import Fleet, Query
from saltlite.targeting.grain_index import BankIndex, of_resources
from saltlite.targeting.matchers import ADDRESS_GRAINS, lies_in, parse_network

_STEPS_OF_AN_ADDRESS = 40
"""Steps of the budget for an address that is compared with a network."""

Nodegroups = Mapping[str, str | list[str]]


@dataclass(frozen=True, slots=True)
class Indexes:
    """What is asked by content. One set a process: each follows its bank's changes."""

    grains: BankIndex
    pillar: BankIndex | None
    """None: the master keeps no pillar, and no question has an answer."""
    resource_grains: BankIndex


def indexes_of(banks: Banks, *, pillar: bool = True) -> Indexes:
    """The indexes of one process; nothing is read before the first question. `pillar`: whether that is kept."""
    resources = BankIndex(banks.bank(RESOURCE_GRAINS), of_resources)
    return Indexes(BankIndex(banks.bank(GRAINS)), BankIndex(banks.bank(PILLAR)) if pillar else None, resources)


class MasterFleet(Fleet):
    """The fleet at one moment: one object resolves one target, for it looks at the accepted keys once."""

    def __init__(
        self,
        accepted: Callable[[], Sequence[MinionId]],
        registry: Registry,
        indexes: Indexes,
        nodegroups: Nodegroups,
        budget: Budget | None = None,
    ) -> None:
        """`accepted`: the ids of all accepted keys. `budget`: what the whole request may still cost."""
        self._budget = budget or Budget()
        self._ask_accepted = accepted
        self._accepted: dict[MinionId, None] | None = None
        self._seen: Views | None = None
        self._registry = registry
        self._indexes = indexes
        self._nodegroups = nodegroups

    @property
    def budget(self) -> Budget:
        return self._budget

    def minions(self) -> Collection[MinionId]:
        return self._minions().keys()

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

    def grains(self, query: Query) -> tuple[Collection[MinionId], Collection[TargetId]]:
        minions = self._minions().keys() & self._indexes.grains.select(query, self._budget)
        return minions, self._indexes.resource_grains.select(query, self._budget)

    def pillar(self, query: Query) -> Collection[MinionId]:
        if self._indexes.pillar is None:
            raise UsageError(
                "this master keeps no pillar to select by: minion_data_cache is false in its configuration. Target by "
                "id or grains instead, or set it to true"
            )
        return self._minions().keys() & self._indexes.pillar.select(query, self._budget)

    def addresses(self, network: str) -> Collection[MinionId]:
        wanted, found = parse_network(network), set[str]()
        for grain in ADDRESS_GRAINS:
            for text, minions in self._indexes.grains.texts(grain):
                self._budget.spend(_STEPS_OF_AN_ADDRESS)
                if lies_in(text, wanted):
                    found |= minions
        return self._minions().keys() & found

    def nodegroups(self) -> Nodegroups:
        return self._nodegroups

    def _minions(self) -> dict[MinionId, None]:
        if self._accepted is None:
            self._accepted = dict.fromkeys(self._ask_accepted())
        return self._accepted

    def _views(self) -> Views:
        # Looked up once: nothing may move in the views while somebody goes through them.
        if self._seen is None:
            self._seen = self._registry.views()
        return self._seen

    def _accepted_owner(self, minion: str) -> MinionId | None:
        """The owner, while its key is accepted: the rows of one whose key is gone are on their way out."""
        owner = MinionId(minion)
        return owner if owner in self._minions() else None
