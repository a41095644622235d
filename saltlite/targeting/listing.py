"""Names one by one: a list of ids, separated by commas or white space, and one name as a plain word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from functools import cached_property

from saltlite.model.ids import MinionId, TargetId
from saltlite.targeting.fleet import Fleet
from saltlite.targeting.matcher import GUESS_OF_OWNER, Named, Row, bare_id, look_up, registered

STEPS_OF_A_NAME = 30
"""Steps of the budget for a name that is looked up."""


def listed(expression: str) -> list[str]:
    """The names in a list expression, in the order in which they were typed, each once."""
    return list(dict.fromkeys(expression.replace(",", " ").split()))


class ListMatcher:
    """Minions with these ids, and resources that have one of them as SRN, or as bare id where it is no SRN."""

    def __init__(self, fleet: Fleet, expression: str) -> None:
        self._fleet = fleet
        self._names = dict.fromkeys(listed(expression))
        fleet.budget.spend(len(self._names) * STEPS_OF_A_NAME)

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        return {minion for name in self._names if (minion := MinionId(name)) in among}

    def of_resource(self, srn: TargetId, _owner: MinionId) -> bool:
        return srn in self._names or bare_id(srn) in self._bare_ids

    @cached_property
    def _bare_ids(self) -> Set[str]:
        """The names that are bare ids, where any resource has them."""
        return {name for name in self._names if registered(self._fleet, name) is None}

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return self.of_resource(srn, owner)

    def rows(self) -> Iterable[Row]:
        return (row for name in self._names for row in look_up(self._fleet, name))

    def naming_rows(self) -> Iterable[Row]:
        return self.rows()

    def guess(self) -> int:
        return len(self._names)

    def named(self) -> Iterator[Named]:
        minions = self._fleet.minions()
        for name in self._names:
            minion = MinionId(name)
            yield Named(name, minion if minion in minions else None, look_up(self._fleet, name))

    def asks(self, owner: MinionId | None) -> str:
        return "its id is in the list" if owner is None else "its id or its SRN is in the list"


class WordMatcher(ListMatcher):
    """One name as a plain word. That a resource's minion has the name is true as well, but only narrows."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        super().__init__(fleet, "")
        self._name = name
        self._names = {name: None} if name else {}

    def of_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return owner == self._name or super().of_resource(srn, owner)

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return super().of_resource(srn, owner)

    def rows(self) -> Iterable[Row]:
        yield from super().rows()
        owner = MinionId(self._name)
        if owner in self._fleet.minions():
            yield from ((srn, owner) for srn in self._fleet.resources_of(owner))

    def naming_rows(self) -> Iterable[Row]:
        return super().rows()

    def guess(self) -> int:
        return GUESS_OF_OWNER

    def asks(self, owner: MinionId | None) -> str:
        whose = "its id" if owner is None else f"its id, its SRN or its minion {owner!r}"
        return f"{whose} is {self._name!r}"
