"""What each minion registered last, apart from the rows of the registry: functions of its types, and what was refused.

The bank `resource_types` has it for all processes. A row is there once a minion has registered, or was refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

from saltlite.core.cache.ports import RESOURCE_TYPES, Bank, Banks
from saltlite.model.ids import MinionId, TargetId
from saltlite.model.signature import by_name


@dataclass(frozen=True, slots=True)
class Registered:
    """One row."""

    functions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Type -> function -> its text of `saltlite.model.signature`; a type is absent when nothing is known of it."""
    count: int = 0
    """Resources that became the minion's."""
    refusals: int = 0
    """Registrations that were refused, wholly or in part, since the last one of which all counted."""
    reasons: Sequence[str] = ()
    """What was refused last, in sentences; also what was kept back of a registration that counted."""
    lost: frozenset[TargetId] = frozenset()
    """Resources that it registered and that went to another minion: they stay there when it registers them again."""


class _FunctionSet(dict[str, str]):
    """Functions of a type by name. The minions of a fleet share a few sets; one that no row has is forgotten."""

    __slots__ = ("__weakref__",)


class Registrations:
    """All rows, kept up to date from the bank's changes."""

    def __init__(self, banks: Banks) -> None:
        self._bank: Bank = banks.bank(RESOURCE_TYPES)
        self._rows: dict[MinionId, Registered] = {}
        self._sets: WeakValueDictionary[tuple[str, ...], _FunctionSet] = WeakValueDictionary()
        self._cursor = ""

    def of(self, minion: MinionId) -> Registered | None:
        """What this minion registered, None when it never did."""
        self._follow()
        return self._rows.get(minion)

    def rows(self) -> Iterator[tuple[MinionId, Registered]]:
        """Every row, in no order."""
        self._follow()
        return iter(self._rows.items())

    def digest(self, minion: MinionId) -> str:
        """The digest of the registration that counts, "" when there is none, or not all of it counts."""
        return self._bank.digest(minion)

    def put(self, minion: MinionId, row: Registered, digest: str) -> None:
        """Store the row of a minion. Raises StoreError."""
        value = {
            "functions": {kind: list(functions.values()) for kind, functions in row.functions.items()},
            "count": row.count,
            "refusals": row.refusals,
            "reasons": list(row.reasons),
            "lost": sorted(row.lost),
        }
        self._bank.put(minion, value, digest)

    def lose(self, minion: MinionId, srns: Iterable[TargetId]) -> None:
        """Another minion has these resources from now on. Raises StoreError.

        That they are missing is no disagreement then. Its digest goes: asked in its next session, it gets back what
        nobody has by then.
        """
        row = self.of(minion)
        if row is not None:
            gone = row.lost.union(srns)
            self.put(minion, replace(row, count=row.count - len(gone) + len(row.lost), lost=gone), "")

    def forget(self, minion: MinionId) -> None:
        """The minion is gone."""
        self._bank.delete(minion)

    def _follow(self) -> None:
        changes = self._bank.changes(self._cursor)
        if changes.whole:
            self._rows.clear()
        for minion in changes.keys:
            value = self._bank.get(minion)
            if value is None:
                self._rows.pop(MinionId(minion), None)
            else:
                self._rows[MinionId(minion)] = self._row(value)
        self._cursor = changes.cursor

    def _row(self, value: Mapping[str, Any]) -> Registered:
        return Registered(
            functions={kind: self._functions(tuple(texts)) for kind, texts in value["functions"].items()},
            count=value["count"],
            refusals=value["refusals"],
            reasons=tuple(value["reasons"]),
            lost=frozenset(value["lost"]),
        )

    def _functions(self, texts: tuple[str, ...]) -> Mapping[str, str]:
        known = self._sets.get(texts)
        if known is None:
            known = self._sets[texts] = _FunctionSet(by_name(texts))
        return known
