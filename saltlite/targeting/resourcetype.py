"""Types of resources: `T@ssh`, `T@ssh:web-01`, and `T@ssh:web*`, a glob of bare ids in that type. True of no minion."""

from __future__ import annotations

from collections.abc import Iterable, Set

from saltlite.model.ids import MinionId, TargetId
from saltlite.model.srn import parse_srn, resource_index_srn_key
from saltlite.targeting.fleet import Fleet
from saltlite.targeting.matcher import GUESS_OF_TYPE, Named, Row
from saltlite.targeting.patterns import glob_pattern, has_wildcard


class TypeMatcher:
    """Resources of one type: all, those with one id, or those whose bare id matches a glob."""

    def __init__(self, fleet: Fleet, pattern: str) -> None:
        """Raises UsageError for a long glob."""
        self._fleet = fleet
        self._pattern = pattern
        self._type, self._id = parse_srn(pattern)
        self._wide = self._id is None or has_wildcard(self._id)
        self._matches = glob_pattern(self._id, fleet.budget).over(fleet.budget) if self._id is not None else None

    def minions(self, _among: Set[MinionId]) -> Set[MinionId]:
        return frozenset()

    def of_resource(self, srn: TargetId, _owner: MinionId) -> bool:
        kind, _, bare = srn.partition(":")
        return kind == self._type and (self._matches is None or bool(self._matches(bare)))

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return self.of_resource(srn, owner)

    def rows(self) -> Iterable[Row]:
        if self._type is None:
            return ()
        if not self._wide:
            return [row for named in self.named() for row in named.rows]
        found = self._fleet.resources_of_type(self._type)
        return found if self._matches is None else (row for row in found if self.of_resource(*row))

    def naming_rows(self) -> Iterable[Row]:
        return self.rows()

    def guess(self) -> int:
        return GUESS_OF_TYPE if self._wide else 1

    def named(self) -> Iterable[Named]:
        if self._id is None or self._wide:
            return ()
        srn = resource_index_srn_key(self._type or "", self._id)
        owner = self._fleet.owner(srn)
        return [Named(srn, None, [(srn, owner)] if owner is not None else [])]

    def asks(self, owner: MinionId | None) -> str:
        if owner is None:
            return "it is a resource, and no minion"
        if self._id is None:
            return f"its type is {self._type!r}"
        return f"its type is {self._type!r}, and its bare id {'matches' if self._wide else 'is'} {self._id!r}"
