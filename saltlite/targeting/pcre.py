"""Regular expressions over ids of minions and bare ids of resources: they match from the start, not to the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from saltlite.model.ids import MinionId, TargetId
from saltlite.model.srn import RESOURCE_ID_MAX
from saltlite.targeting.fleet import Fleet
from saltlite.targeting.matcher import GUESS_OF_ALL, ID_LENGTH, ROWS_PAID_AT_ONCE, Named, Row, bare_id
from saltlite.targeting.patterns import regex_pattern


class RegexMatcher:
    """Minions whose id matches, and resources whose bare id does."""

    def __init__(self, fleet: Fleet, pattern: str) -> None:
        """Raises UsageError, with the position, for what is no regular expression, and for one that cannot be run."""
        self._fleet = fleet
        self._pattern = pattern
        self._asked = regex_pattern(pattern, fleet.budget, longest=RESOURCE_ID_MAX)
        self._matches = self._asked.over(fleet.budget)

    def minions(self, among: Set[MinionId]) -> Set[MinionId]:
        self._asked.pay(self._fleet.budget, len(among), len(among) * ID_LENGTH)
        return {minion for minion in among if self._matches(minion)}

    def of_resource(self, srn: TargetId, _owner: MinionId) -> bool:
        return bool(self._matches(bare_id(srn)))

    def names_resource(self, srn: TargetId, owner: MinionId) -> bool:
        return self.of_resource(srn, owner)

    def rows(self) -> Iterable[Row]:
        return self._paid(self._fleet.resources())

    def _paid(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Those of the rows that match, paid for by their real length: who registers them chooses it."""
        matches, budget, count, characters = self._matches, self._fleet.budget, 0, 0
        for row in rows:
            count += 1
            characters += len(row[0])
            if count == ROWS_PAID_AT_ONCE:
                self._asked.pay(budget, count, characters)
                count = characters = 0
            if matches(bare_id(row[0])):
                yield row

    def naming_rows(self) -> Iterable[Row]:
        return self.rows()

    def guess(self) -> int:
        return GUESS_OF_ALL

    def named(self) -> Iterable[Named]:
        return ()

    def asks(self, owner: MinionId | None) -> str:
        return f"its {'id' if owner is None else 'bare id'} matches {self._pattern!r} from its start"
