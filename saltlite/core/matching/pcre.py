"""Regular expressions over ids of minions and bare ids of resources: they match from the start, not to the end."""

from __future__ import annotations

from collections.abc import Iterable, Set

from saltlite.core.matching.fleet import Fleet
from saltlite.core.matching.matcher import GUESS_OF_ALL, Named, Row, bare_id
from saltlite.core.matching.patterns import regex_matcher
from saltlite.model.ids import MinionId, TargetId


class RegexMatcher:
    """Minions whose id matches, and resources whose bare id does."""

    def __init__(self, fleet: Fleet, pattern: str) -> None:
        """Raises UsageError, with the position, for what is no regular expression."""
        self._fleet = fleet
        self._pattern = pattern
        self._matches = regex_matcher(pattern)

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        return {minion for minion in among if self._matches(minion)}

    def of_resource(self, srn: TargetId, _owner: MinionId) -> bool:
        return bool(self._matches(bare_id(srn)))

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return self.of_resource(srn, owner)

    def rows(self) -> Iterable[Row]:
        return (row for row in self._fleet.resources() if self._matches(bare_id(row[0])))

    def naming_rows(self) -> Iterable[Row]:
        return self.rows()

    def guess(self) -> int:
        return GUESS_OF_ALL

    def named(self) -> Iterable[Named]:
        return ()

    def asks(self, owner: MinionId | None) -> str:
        return f"its {'id' if owner is None else 'bare id'} matches {self._pattern!r} from its start"
