"""Ids as shell-style globs: `*`, `?`, `[abc]`, `[!abc]`; the whole id must match, with regard to case.

A glob is compared with minion ids only. It is true of a resource whose minion matches: as a target of its own it takes
those along, and as a word of a compound target, like `M@`, it narrows what others select.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from saltlite.model.ids import MinionId, TargetId
from saltlite.targeting.fleet import Fleet
from saltlite.targeting.matcher import GUESS_OF_OWNER, ID_LENGTH, Named, Row, as_set
from saltlite.targeting.patterns import glob_pattern, has_wildcard


class GlobMatcher:
    """A plain word with wildcards, and `M@` with or without."""

    def __init__(self, fleet: Fleet, pattern: str, *, takes_resources: bool) -> None:
        """`takes_resources`: it selects the resources of the minions that match. Raises UsageError for a long glob."""
        self._fleet = fleet
        self._pattern = pattern
        self._asked = glob_pattern(pattern, fleet.budget)
        self._matches = self._asked.over(fleet.budget)
        self._takes = takes_resources
        self._owners: Set[MinionId] | None = None

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        if self._pattern == "*":
            return among
        if not has_wildcard(self._pattern):
            name = MinionId(self._pattern)
            return {name} if name in among else frozenset()
        self._asked.pay(self._fleet.budget, len(among), len(among) * ID_LENGTH)
        return {minion for minion in among if self._matches(minion)}

    def of_resource(self, _srn: TargetId, owner: MinionId) -> bool:
        return owner in self._matching()

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return self._takes and self.of_resource(srn, owner)

    def rows(self) -> Iterable[Row]:
        owners = self._matching()
        if len(owners) > 1 and len(owners) == len(self._fleet.minions()):
            return self._fleet.resources()
        return ((srn, owner) for owner in owners for srn in self._fleet.resources_of(owner))

    def naming_rows(self) -> Iterable[Row]:
        return self.rows() if self._takes else ()

    def guess(self) -> int:
        return len(self._matching()) * GUESS_OF_OWNER

    def named(self) -> Iterable[Named]:
        if has_wildcard(self._pattern):
            return ()
        name = MinionId(self._pattern)
        return [Named(name, name if name in self._fleet.minions() else None, [])]

    def asks(self, owner: MinionId | None) -> str:
        whose = "its id" if owner is None else f"the id of its minion {owner!r}"
        return f"{whose} {'matches' if has_wildcard(self._pattern) else 'is'} {self._pattern!r}"

    def _matching(self) -> Set[MinionId]:
        if self._owners is None:
            self._owners = self.minions(as_set(self._fleet.minions()))
        return self._owners
