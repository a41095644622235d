"""A fleet in memory, for a minion that matches alone, and for tests of the master's."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field

from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId, TargetId, parse_srn
from saltlite.targeting.fleet import Budget, DataQuery, Fleet
from saltlite.targeting.matchers import has_address, parse_network
from saltlite.targeting.subdict import Subdict


@dataclass(frozen=True, slots=True)
class Member:
    """The data of one minion."""

    grains: Mapping[str, object] = field(default_factory=dict)
    pillar: Mapping[str, object] = field(default_factory=dict)
    resources: Mapping[TargetId, Mapping[str, object]] = field(default_factory=dict)
    """The SRNs that it manages, each with its grains."""


class MemoryFleet(Fleet):
    """A fixed set of minions. An SRN that several have belongs to the first of them."""

    def __init__(
        self,
        minions: Mapping[MinionId, Member],
        nodegroups: Mapping[str, str | list[str]] | None = None,
    ) -> None:
        self._budget = Budget()
        self._minions = dict(minions)
        self._nodegroups = dict(nodegroups or {})
        self._owners: dict[TargetId, MinionId] = {}
        for minion, member in self._minions.items():
            for srn in member.resources:
                self._owners.setdefault(srn, minion)

    @property
    def budget(self) -> Budget:
        return self._budget

    def minions(self) -> Collection[MinionId]:
        return self._minions.keys()

    def owner(self, srn: TargetId) -> MinionId | None:
        return self._owners.get(srn)

    def resources_of(self, minion: MinionId) -> Iterable[TargetId]:
        member = self._minions.get(minion)
        return [srn for srn in member.resources if self._owners[srn] == minion] if member is not None else []

    def resources_of_type(self, resource_type: str) -> Iterable[tuple[TargetId, MinionId]]:
        return [row for row in self._owners.items() if parse_srn(row[0]).type == resource_type]

    def resources(self) -> Iterable[tuple[TargetId, MinionId]]:
        return self._owners.items()

    def with_bare_id(self, bare_id: str) -> Iterable[tuple[TargetId, MinionId]]:
        return [row for row in self._owners.items() if parse_srn(row[0]).id == bare_id]

    def grains(self, query: DataQuery) -> tuple[Collection[MinionId], Collection[TargetId]]:
        asked = Subdict(query, self._budget)
        minions = {minion for minion, member in self._minions.items() if asked.match(member.grains)}
        return minions, {srn for srn, grains in self._resource_grains() if asked.match(grains)}

    def pillar(self, query: DataQuery) -> Collection[MinionId]:
        asked = Subdict(query, self._budget)
        return {minion for minion, member in self._minions.items() if asked.match(member.pillar)}

    def addresses(self, network: str) -> Collection[MinionId]:
        parsed = parse_network(network)
        return {minion for minion, member in self._minions.items() if has_address(member.grains, parsed)}

    def nodegroups(self) -> Mapping[str, str | list[str]]:
        return self._nodegroups

    def _resource_grains(self) -> Iterator[tuple[TargetId, Mapping[str, object]]]:
        for srn, minion in self._owners.items():
            yield srn, self._minions[minion].resources[srn]
