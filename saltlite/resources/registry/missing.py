"""Resources that a minion does not find any more: whether they go at once, or stay until that is sure.

A device file that is read half-way, an inventory that answers with an empty list, a pillar with a typing error: all of
them look as if the resources were gone. So a type that has nothing left, or much less than before, keeps its rows until
several looks agree, or an operator says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

LOOKS = 3
"""Looks that have to miss the same resources before these go."""

MANY = 20
"""A type that had so many resources, or more, may not lose more than half of them at once."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Resources of one type that stay although their minion did not find them."""

    since: Mapping[str, float]
    """Bare id -> since when it is missed, wall-clock seconds since 1970."""
    looks: int
    """Looks in a row that missed exactly these."""
    look: str
    """The name of the last of those looks."""

    def without(self, bare_ids: Set[str]) -> Missing | None:
        """The same without these ids; None when none is left."""
        since = {bare_id: at for bare_id, at in self.since.items() if bare_id not in bare_ids}
        return Missing(since, self.looks, self.look) if since else None


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at one type found. `look` is its name, "" when the look failed: then nothing is known."""

    ids: Set[str]
    look: str


def still_missing(held: Set[str], seen: Seen, before: Missing | None, now: float) -> Missing | None:
    """What of `held`, the resources that the minion manages, stays although it was not seen; None: nothing does.

    `now`: wall-clock seconds since 1970.
    """
    gone = held - seen.ids
    if not gone or (seen.look and not is_suspicious(len(held), len(seen.ids))):
        return None
    same = before is not None and before.since.keys() == gone
    known = before.since if before is not None else {}
    since = {bare_id: known.get(bare_id, now) for bare_id in gone}
    looks, look = (before.looks, before.look) if same and before is not None else (0, "")
    if seen.look and seen.look != look:
        looks, look = looks + 1, seen.look
    return Missing(since, looks, look) if looks < LOOKS else None


def is_suspicious(was: int, found: int) -> bool:
    """Whether so few of a type are believed only after several looks."""
    return (found == 0 and was > 0) or (was >= MANY and found < was / 2)
