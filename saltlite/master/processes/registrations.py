"""What each minion registered last, apart from the rows of the registry: the functions and reports of its resource
types, its claims on resources of others, and the resources that it misses.

The bank `resource_types` holds one row per minion that has registered or was refused; all processes share it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from weakref import WeakValueDictionary

from saltlite.model.ids import MinionId, TargetId
from saltlite.model.resourcelook import TypeReport, read_report
from saltlite.model.signature import by_name
from saltlite.resources.registry.admission import Missing
from saltlite.targeting.banks import RESOURCE_TYPES, Bank, Banks

CLAIMS_MAX = 1000
"""Resources of others that are remembered as claimed by one minion: when one of them becomes free, the minion is asked.
Claims beyond these are seen when the minion tells the next time what it holds."""


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
    claims: frozenset[TargetId] = frozenset()
    """Resources that it registered and that others kept, CLAIMS_MAX at most."""
    missing: Mapping[str, Missing] = field(default_factory=dict)
    """Type -> resources that are its own although it did not find them the last time."""
    reports: Mapping[str, TypeReport] = field(default_factory=dict)
    """What it tells of its types."""

    def missing_since(self, srn: TargetId) -> float | None:
        """Since when the resource is missed, wall-clock seconds since 1970; None when it is not."""
        kind, _, bare_id = srn.partition(":")
        missing = self.missing.get(kind)
        return missing.since.get(bare_id) if missing is not None else None

    def without_missing(self, srns: Set[TargetId]) -> Mapping[str, Missing]:
        """`missing` without these resources."""
        left = {}
        for kind, one in self.missing.items():
            rest = one.without({srn.partition(":")[2] for srn in srns if srn.startswith(f"{kind}:")})
            if rest is not None:
                left[kind] = rest
        return left


class _FunctionSet(dict[str, str]):
    """Functions of a type by name. The minions of a fleet share a few sets; one that no row has is forgotten."""

    __slots__ = ("__weakref__",)


class Registrations:
    """All rows, kept up to date from the bank's changes."""

    def __init__(self, banks: Banks) -> None:
        self._bank: Bank = banks.bank(RESOURCE_TYPES)
        self._rows: dict[MinionId, Registered] = {}
        self._sets: WeakValueDictionary[tuple[str, ...], _FunctionSet] = WeakValueDictionary()
        self._claimants: dict[TargetId, set[MinionId]] = {}
        self._cursor = ""

    def of(self, minion: MinionId) -> Registered | None:
        """What this minion registered, None when it never did."""
        self._follow()
        return self._rows.get(minion)

    def rows(self) -> Iterator[tuple[MinionId, Registered]]:
        """Every row, in no order."""
        self._follow()
        return iter(self._rows.items())

    def claimants(self, srns: Iterable[TargetId]) -> set[MinionId]:
        """The minions that registered any of these while another one had it."""
        self._follow()
        return {minion for srn in srns for minion in self._claimants.get(srn, ())}

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
            "claims": sorted(row.claims)[:CLAIMS_MAX],
            "missing": {kind: [dict(one.since), one.looks, one.look] for kind, one in row.missing.items()},
            "reports": {kind: one.to_map() for kind, one in row.reports.items()},
        }
        self._bank.put(minion, value, digest)

    def lose(self, minion: MinionId, srns: Iterable[TargetId]) -> None:
        """Another minion has these resources from now on, also those that this one missed. Raises StoreError.

        That they are missing is no disagreement then. Its digest goes: asked in its next session, it gets back what
        nobody has by then.
        """
        row = self.of(minion)
        if row is not None:
            gone = row.lost.union(srns)
            count = row.count - len(gone) + len(row.lost)
            self.put(minion, replace(row, count=count, lost=gone, missing=row.without_missing(gone)), "")

    def forget(self, minion: MinionId) -> None:
        """The minion is gone."""
        self._bank.delete(minion)

    def _follow(self) -> None:
        changes = self._bank.changes(self._cursor)
        if changes.whole:
            self._rows.clear()
            self._claimants.clear()
        for minion in changes.keys:
            self._set(MinionId(minion), self._bank.get(minion))
        self._cursor = changes.cursor

    def _set(self, minion: MinionId, value: Mapping[str, Any] | None) -> None:
        before = self._rows.pop(minion, None)
        for srn in _wanted(before):
            claimants = self._claimants[srn]
            claimants.discard(minion)
            if not claimants:
                del self._claimants[srn]
        if value is not None:
            row = self._rows[minion] = self._row(value)
            for srn in _wanted(row):
                self._claimants.setdefault(srn, set()).add(minion)

    def _row(self, value: Mapping[str, Any]) -> Registered:
        return Registered(
            functions={kind: self._functions(tuple(texts)) for kind, texts in value["functions"].items()},
            count=value["count"],
            refusals=value["refusals"],
            reasons=tuple(value["reasons"]),
            lost=frozenset(value["lost"]),
            # What follows is not in rows that an earlier version wrote.
            claims=frozenset(value.get("claims", ())),
            missing={kind: Missing(*one) for kind, one in value.get("missing", {}).items()},
            reports={kind: read_report(one) for kind, one in value.get("reports", {}).items()},
        )

    def _functions(self, texts: tuple[str, ...]) -> Mapping[str, str]:
        known = self._sets.get(texts)
        if known is None:
            known = self._sets[texts] = _FunctionSet(by_name(texts))
        return known


def _wanted(row: Registered | None) -> frozenset[TargetId]:
    return row.lost | row.claims if row is not None else frozenset()


ASKED_MAX = 100
"""Minions that are asked at once: each sends all that it manages, and one of them gets the resource. The others tell
anyway, within minutes, what they hold."""


class Asking(Protocol):
    """The way to the link process."""

    def fetch(self, minion: str, what: str) -> None: ...


def ask_claimants(registrations: Registrations, link: Asking, free: Collection[TargetId], *, but: MinionId) -> None:
    """Have minions register again whose claims on these resources were refused; not the one that gave them up."""
    if free:
        for minion in sorted(registrations.claimants(free) - {but})[:ASKED_MAX]:
            link.fetch(minion, "resources")
