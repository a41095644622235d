"""An index that follows a bank: at each question it first takes up what any process has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from saltlite.targeting.banks import Bank, Value
from saltlite.targeting.budget import Budget
from saltlite.targeting.fleet import Query
from saltlite.targeting.index import Index

Rows = Callable[[str, Value], Mapping[str, Mapping[str, object]]]
"""What a value of a bank says: id -> data, under the key that it is stored with."""


def of_minion(key: str, value: Value) -> Mapping[str, Mapping[str, object]]:
    """The rows of `grains` and `pillar`: one, of the minion itself."""
    return {key: value}


def of_resources(_key: str, value: Value) -> Mapping[str, Mapping[str, object]]:
    """The rows of `resource_grains`: one a resource, under its SRN."""
    return {
        srn: row["grains"]
        for srn, row in value.items()
        if isinstance(srn, str) and isinstance(row, dict) and isinstance(row.get("grains"), dict)
    }


class BankIndex:
    """Answers questions about what is in `bank`. The first one reads all of it; later ones, what has changed.

    An id is to be in the value of one key only: where two have it, what was put last counts, and it stays until both
    have lost it.
    """

    def __init__(self, bank: Bank, rows: Rows = of_minion) -> None:
        self._bank = bank
        self._rows = rows
        self._index = Index()
        self._cursor = ""
        self._held: dict[str, frozenset[str]] = {}
        self._again: dict[str, int] = {}
        """Ids that more than one key has, with how many more."""

    def select(self, query: Query, budget: Budget | None = None) -> frozenset[str]:
        """The ids that the question holds for, as the bank is now. What that takes is paid from `budget`.

        Raises UsageError for a bad question, BudgetError, StoreError.
        """
        self.refresh()
        return self._index.select(query, budget)

    def texts(self, expression: str) -> Iterator[tuple[str, frozenset[str]]]:
        """Each text that the keys `a:b:c` lead to, with the ids where they do. Raises UsageError, StoreError."""
        self.refresh()
        return self._index.texts(expression)

    def refresh(self) -> None:
        """Take up what has changed in the bank. Raises StoreError; what was not taken up then comes the next time."""
        changes = self._bank.changes(self._cursor)
        if changes.whole:
            for key in self._held.keys() - changes.keys:
                self._apply(key, {})
        for key in changes.keys:
            value = self._bank.get(key)
            self._apply(key, {} if value is None else self._rows(key, value))
        self._cursor = changes.cursor

    def _apply(self, key: str, rows: Mapping[str, Mapping[str, object]]) -> None:
        before = self._held.get(key, frozenset())
        for target, data in rows.items():
            if target not in before and target in self._index:
                self._again[target] = self._again.get(target, 0) + 1
            self._index.put(target, data)
        for target in before.difference(rows):
            self._drop(target)
        if rows:
            self._held[key] = frozenset(rows)
        else:
            self._held.pop(key, None)

    def _drop(self, target: str) -> None:
        others = self._again.get(target, 0)
        if not others:
            self._index.delete(target)
        elif others == 1:
            del self._again[target]
        else:
            self._again[target] = others - 1
