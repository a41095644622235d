"""The grains of resources in their bank: a row a minion, with what it manages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from saltlite.core.cache.ports import RESOURCE_GRAINS, RESOURCE_GRAINS_MAX, Bank
from saltlite.core.cache.values import encoded
from saltlite.core.resources.admission import Registering
from saltlite.errors import UsageError
from saltlite.master.context import Master
from saltlite.model.ids import MinionId, TargetId
from saltlite.wire.codec import encode
from saltlite.wire.document import DOCUMENT

Grains = Mapping[TargetId, Mapping[str, Any]]


def checked_grains(registering: Registering) -> tuple[Grains, list[str]]:
    """The grains of a registration that can be kept, and a sentence for each that cannot."""
    ours = frozenset(registering.srns())
    good: dict[TargetId, Mapping[str, Any]] = {}
    reasons: list[str] = []
    for srn, grains in registering.grains.items():
        problem = _misfit(srn, grains) if srn in ours else f"{str(srn)[:80]!r} has grains and is not registered"
        if problem:
            reasons.append(problem)
        else:
            good[srn] = grains
    return good, reasons


def keep_grains(master: Master, minion: MinionId, fresh: Grains, stale: frozenset[TargetId]) -> list[str]:
    """Store the grains of what the minion manages now, in place of those before: `fresh`, and for `stale` ones the old
    ones, marked so. A sentence when they cannot be kept. Raises StoreError."""
    bank = master.banks.bank(RESOURCE_GRAINS)
    before = bank.get(minion) or {}
    kept: dict[TargetId, Mapping[str, Any]] = {}
    for kind, holding in master.registry.views().by_minion.get(minion, {}).items():
        for bare_id in holding.ids:
            srn = f"{kind}:{bare_id}"
            if srn in stale:
                if srn in before:
                    old = before[srn]
                    kept[srn] = {**old, "stale_since": old["stale_since"] or master.clock.wall()}
            elif srn in fresh:
                kept[srn] = {"grains": fresh[srn], "stale_since": None}
    if kept == before:
        return []
    bad: dict[TargetId, str] = {}
    try:
        try:
            _put(bank, minion, kept)
        except UsageError:
            # Too deep, and it is not said whose: what cannot be kept alone is left out, and the rest can.
            bad = {srn: problem for srn, row in kept.items() if (problem := _problem(srn, row["grains"]))}
            _put(bank, minion, {srn: row for srn, row in kept.items() if srn not in bad})
    except UsageError as error:
        return [*bad.values(), f"no grains of the resources were kept: {error}"]
    return list(bad.values())


def drop_grains(master: Master, moved: Iterable[tuple[TargetId, str]]) -> None:
    """Drop the grains of resources (SRN, the minion that had it): another minion has them now. Raises StoreError."""
    by_minion: dict[str, set[TargetId]] = {}
    for srn, minion in moved:
        by_minion.setdefault(minion, set()).add(srn)
    bank = master.banks.bank(RESOURCE_GRAINS)
    for minion, srns in by_minion.items():
        rows = bank.get(minion)
        if rows is not None and not srns.isdisjoint(rows):
            _put(bank, minion, {srn: row for srn, row in rows.items() if srn not in srns})


def _put(bank: Bank, minion: str, rows: Mapping[TargetId, Mapping[str, Any]]) -> None:
    if rows:
        bank.put(minion, rows)
    else:
        bank.delete(minion)


def _misfit(srn: TargetId, grains: Mapping[Any, Any]) -> str:
    """What is wrong with these at first sight, "" for nothing."""
    if not all(isinstance(name, str) for name in grains):
        return f"the grains of {srn} have names that are no text"
    if len(encode(grains, DOCUMENT)) > RESOURCE_GRAINS_MAX:
        return f"the grains of {srn} were not kept: they have more than {RESOURCE_GRAINS_MAX} bytes"
    return ""


def _problem(srn: TargetId, grains: Mapping[str, Any]) -> str:
    """Why these cannot be kept, "" when they can."""
    try:
        encoded(grains, RESOURCE_GRAINS_MAX)
    except UsageError as error:
        return f"the grains of {srn} were not kept: {error}"
    return ""
