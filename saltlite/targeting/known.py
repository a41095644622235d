"""What is known of targets: grains of minions and resources, pillar and addresses of minions.

Resources have neither pillar nor addresses of their own, and those of their minion are not theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Set
from functools import cached_property

from saltlite.model.ids import MinionId, TargetId
from saltlite.targeting.fleet import Fleet, Query
from saltlite.targeting.matcher import Named, Row, as_set


class GrainMatcher:
    """Minions and resources whose grains answer the question. The fleet is asked once, when it is needed first."""

    def __init__(self, fleet: Fleet, query: Query) -> None:
        self._fleet = fleet
        self._query = query

    @cached_property
    def _found(self) -> tuple[Set[MinionId], Collection[TargetId]]:
        minions, resources = self._fleet.grains(self._query)
        return as_set(minions), resources if isinstance(resources, Set) else frozenset(resources)

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        return self._found[0] & among

    def of_resource(self, srn: TargetId, _owner: MinionId) -> bool:
        return srn in self._found[1]

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return self.of_resource(srn, owner)

    def rows(self) -> Iterator[Row]:
        for srn in self._found[1]:
            owner = self._fleet.owner(srn)
            if owner is not None:
                yield srn, owner

    def naming_rows(self) -> Iterable[Row]:
        return self.rows()

    def guess(self) -> int:
        return len(self._found[1])

    def named(self) -> Iterable[Named]:
        return ()

    def asks(self, owner: MinionId | None) -> str:
        return f"{'its' if owner is None else 'its own'} grains match {_question(self._query)}"


class MinionMatcher:
    """Minions of whom something is known that resources do not have."""

    def __init__(self, found: Callable[[], Collection[MinionId]], what: str) -> None:
        """`what` is true of them, in words; `found` is called once, when it is needed first."""
        self._find = found
        self._what = what

    @cached_property
    def _found(self) -> Set[MinionId]:
        return as_set(self._find())

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        return self._found & among

    def of_resource(self, _srn: TargetId, _owner: MinionId) -> bool:
        return False

    def names_resource(self, _srn: TargetId, _owner: MinionId) -> bool:
        return False

    def rows(self) -> Iterable[Row]:
        return ()

    def naming_rows(self) -> Iterable[Row]:
        return ()

    def guess(self) -> int:
        return 0

    def named(self) -> Iterable[Named]:
        return ()

    def asks(self, owner: MinionId | None) -> str:
        return self._what if owner is None else f"{self._what}, and resources have none of their own"


def pillar_matcher(fleet: Fleet, query: Query) -> MinionMatcher:
    """Minions whose pillar answers the question."""
    return MinionMatcher(lambda: fleet.pillar(query), f"its pillar matches {_question(query)}")


def address_matcher(fleet: Fleet, network: str) -> MinionMatcher:
    """Minions with an address in that network, or with that address."""
    return MinionMatcher(lambda: fleet.addresses(network), f"an address of it is in {network}")


def _question(query: Query) -> str:
    return f"{query.expression!r}{', a regular expression' if query.regex else ''}"
