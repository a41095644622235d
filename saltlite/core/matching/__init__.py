"""Targeting: which minions an expression means.

What belongs here: one file a matcher, pure functions from an expression and the accepted ids to the ids it
selects, and `resolve`, the only way in. What does not: where ids come from, and what is then done with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from saltlite.core.matching.glob import match_glob
from saltlite.core.matching.listing import match_list
from saltlite.core.matching.pcre import match_pcre
from saltlite.model.ids import MinionId
from saltlite.model.target import Target, TargetKind

Matcher = Callable[[str, Sequence[MinionId]], Iterable[MinionId]]

_MATCHERS: dict[TargetKind, Matcher] = {
    TargetKind.GLOB: match_glob,
    TargetKind.LIST: match_list,
    TargetKind.PCRE: match_pcre,
}


def resolve(target: Target, ids: Sequence[MinionId]) -> list[MinionId]:
    """The ids that the target selects, sorted, each once. Raises UsageError for what is no expression."""
    return sorted(set(_MATCHERS[target.kind](target.expression, ids)))
