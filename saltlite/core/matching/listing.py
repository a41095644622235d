"""A list of minion ids, separated by commas or white space."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from saltlite.model.ids import MinionId


def listed(expression: str) -> list[str]:
    """The names in a list expression, in the order in which they were typed, each once."""
    return list(dict.fromkeys(expression.replace(",", " ").split()))


def match_list(expression: str, ids: Sequence[MinionId]) -> Iterable[MinionId]:
    """The ids that are named; names that are no accepted id select nothing."""
    names = set(listed(expression))
    return [minion for minion in ids if minion in names]
