"""Shell-style globs over minion ids: `*`, `?`, `[abc]`, `[!abc]`; the whole id must match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from saltlite.model.ids import MinionId


def match_glob(expression: str, ids: Sequence[MinionId]) -> Iterable[MinionId]:
    """The ids that match the glob."""
    if expression == "*":
        return ids
    return [minion for minion in ids if fnmatchcase(minion, expression)]
