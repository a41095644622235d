"""The grains of resources in their bank: a row a minion, with what it manages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from saltlite.errors import UsageError
from saltlite.master.processes.context import Master
from saltlite.model.ids import MinionId, TargetId
from saltlite.resources.registry.admission import Registering
from saltlite.targeting.bank_values import leaves_of
from saltlite.targeting.banks import (
    KEY_NAMES_MAX,
    LEAVES_MAX,
    RESOURCE_GRAINS,
    RESOURCE_GRAINS_MAX,
    RESOURCE_GRAINS_TOTAL_MAX,
    RESOURCE_KEYS_MAX,
    RESOURCE_LEAVES_MAX,
    Bank,
)
from saltlite.wire.codec import encode
from saltlite.wire.document import DOCUMENT

Grains = Mapping[TargetId, Mapping[str, Any]]
Row = Mapping[str, Any]
"""`grains` of one resource with `stale_since`."""


class _Room:
    """What the grains of one minion's resources may still fill. Those that do not fit change nothing."""

    def __init__(self) -> None:
        self._bytes = RESOURCE_GRAINS_TOTAL_MAX
        self._leaves = RESOURCE_LEAVES_MAX
        self._names: set[str] = set()

    def take(self, grains: Mapping[Any, Any]) -> str:
        """Why these grains cannot be kept beside the ones before, "" when they are taken."""
        if not all(isinstance(name, str) for name in grains):
            return "they have names that are no text"
        if len(grains) > RESOURCE_KEYS_MAX:
            return f"they have {len(grains)} names, and there may be {RESOURCE_KEYS_MAX}"
        size = len(encode(grains, DOCUMENT))
        if size > RESOURCE_GRAINS_MAX:
            return f"they have {size} bytes, and there may be {RESOURCE_GRAINS_MAX}"
        try:
            leaves = leaves_of(grains)
        except UsageError as error:
            return str(error)
        if leaves > LEAVES_MAX:
            return f"they have {leaves} values, and there may be {LEAVES_MAX}"
        if size > self._bytes:
            return f"those of all its resources have more than {RESOURCE_GRAINS_TOTAL_MAX} bytes"
        if leaves > self._leaves:
            return f"those of all its resources have more than {RESOURCE_LEAVES_MAX} values"
        names = self._names.union(grains) if not self._names.issuperset(grains) else self._names
        if len(names) > KEY_NAMES_MAX:
            return f"those of all its resources have more than {KEY_NAMES_MAX} different names"
        self._bytes -= size
        self._leaves -= leaves
        self._names = names
        return ""


def checked_grains(
    registering: Registering, before: Mapping[TargetId, Row], now: float
) -> tuple[dict[str, Row], list[str]]:
    """The rows of grains that a registration makes, and a sentence for each resource whose grains are not kept.

    `before`: the rows of the minion until now: those of stale resources stay, and so do those of resources whose new
    grains are refused, marked stale at `now`, wall-clock seconds since 1970.
    """
    ours = frozenset(registering.srns())
    room = _Room()
    rows: dict[TargetId, Row] = {}
    reasons: list[str] = []
    old: list[TargetId] = [srn for srn in registering.stale if srn in ours]
    for srn, grains in registering.grains.items():
        if srn not in ours:
            reasons.append(f"{str(srn)[:80]!r} has grains and is not registered")
        elif srn not in registering.stale:
            problem = room.take(grains)
            if problem:
                reasons.append(f"the grains of {srn} were not kept: {problem}")
                old.append(srn)
            else:
                rows[srn] = {"grains": grains, "stale_since": None}
    for srn in old:
        row = before.get(srn)
        if row is not None and not room.take(row["grains"]):
            rows[srn] = {**row, "stale_since": row["stale_since"] or now}
    return rows, reasons


def held_rows(master: Master, minion: MinionId, rows: Mapping[TargetId, Row]) -> dict[TargetId, Row]:
    """Those of the rows whose resources are the minion's."""
    held = master.registry.views().by_minion.get(minion, {})
    names = {f"{kind}:{bare_id}" for kind, holding in held.items() for bare_id in holding.ids}
    return {srn: row for srn, row in rows.items() if srn in names}


def put_rows(master: Master, minion: MinionId, rows: Mapping[TargetId, Row], digest: str) -> None:
    """Store the rows in place of those before. Raises StoreError."""
    _put(master.banks.bank(RESOURCE_GRAINS), minion, rows, digest)


def drop_grains(master: Master, moved: Iterable[tuple[TargetId, str]]) -> None:
    """Drop the grains of resources (SRN, the minion that had it): another minion has them now. Raises StoreError."""
    by_minion: dict[str, set[TargetId]] = {}
    for srn, minion in moved:
        by_minion.setdefault(minion, set()).add(srn)
    bank = master.banks.bank(RESOURCE_GRAINS)
    for minion, srns in by_minion.items():
        rows = bank.get(minion)
        if rows is not None and not srns.isdisjoint(rows):
            _put(bank, minion, {srn: row for srn, row in rows.items() if srn not in srns}, "")


def _put(bank: Bank, minion: str, rows: Mapping[TargetId, Row], digest: str) -> None:
    if rows:
        bank.put(minion, rows, digest)
    else:
        bank.delete(minion)
