"""How many steps Python's own engine takes at most for a pattern: that engine tries one way after the other.

The bound counts each way that can be tried, so it is too high for most texts, and never too low. Where ways multiply
(`(a+)+`) it has no bound worth the name. A repeat that is followed by a character which it cannot take itself, as in
`[a-z]+-`, leads on from one place only: everywhere else that character is missing.

What stands behind an item is its continuation, with two costs: of all visits that fail, each, and of the one visit at
the end that succeeds. The second counts once, however often the item is tried again.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from saltlite.targeting import regex_tree as tree

EVALUATIONS_MAX = 1_000
"""Items that one analysis looks at, those of repeated groups each time. Who has more has no bound."""


class _Cost(NamedTuple):
    """Steps of a visit that fails (0: none can), and of one that succeeds."""

    failing: float
    succeeding: float


_NO_BOUND = _Cost(math.inf, math.inf)
_DONE = _Cost(0, 1)
_DONE_AT_END = _Cost(1, 1)
"""Behind the last item when the whole text is to match: there the way may turn out to be wrong."""


def steps_bound(items: tree.Items, length: int, limit: float, flags: int = 0, *, whole: bool) -> tuple[float, int]:
    """Steps for a text of that many characters, `math.inf` for more than `limit`; and how many items were looked at.

    `whole`: the text is to match to its end, and not from its start only.
    """
    bound = _Bound(length, limit, flags)
    cost = bound.sequence(items, _DONE_AT_END if whole else _DONE)
    steps = _steps(cost)
    return steps if steps <= limit else math.inf, bound.evaluations


class _Bound:
    def __init__(self, length: int, limit: float, flags: int) -> None:
        self._length = length
        self._limit = limit
        self._flags = flags
        self.evaluations = 0

    def sequence(self, items: tree.Items, after: _Cost) -> _Cost:
        following: tree.Item | None = None
        for item in tree.backwards(items):
            self.evaluations += 1
            if self.evaluations > EVALUATIONS_MAX or after.succeeding > self._limit:
                return _NO_BOUND
            after = self._item(item, following, after)
            following = item
        return after

    def _item(self, item: tree.Item, following: tree.Item | None, after: _Cost) -> _Cost:
        operation, argument = item
        if operation is tree.SUBPATTERN:
            outside = self._flags
            self._flags = tree.combined_flags(outside, argument[1], argument[2])
            cost = self.sequence(argument[3], after)
            self._flags = outside
            return cost
        if operation is tree.BRANCH:
            return _either([self.sequence(part, after) for part in argument[1]])
        if operation is tree.MAX_REPEAT or operation is tree.MIN_REPEAT:
            return self._repeat(argument, following, after)
        if operation is tree.CONDITION:
            parts = [part for part in argument[1:] if part is not None]
            return _either([after, *(self.sequence(part, after) for part in parts)])
        steps = self._once(operation, argument)
        return _Cost(steps + after.failing, steps + after.succeeding)

    def _once(self, operation: Any, argument: Any) -> float:
        """The steps of something that can fail, and is left for good when it does not."""
        if operation in tree.CHARACTERS or operation is tree.AT or operation is tree.FAILURE:
            return 1
        if operation is tree.BACKREFERENCE:
            return self._length + 1
        if operation is tree.ATOMIC:
            return _steps(self.sequence(argument, _DONE))
        if operation is tree.POSSESSIVE:
            return _steps(self._repeat(argument, None, _DONE))
        if operation in tree.ASSERTIONS:
            return _steps(self.sequence(argument[1], _DONE)) + 1
        return math.inf

    def _repeat(self, repeat: tree.Repeat, following: tree.Item | None, after: _Cost) -> _Cost:
        least, most, body = repeat
        if len(body) == 1 and body[0][0] in tree.CHARACTERS:
            leads_on_once = following is not None and tree.excludes(body[0], following, self._flags)
            return self._repeat_character(least, most, after, leads_on_once=leads_on_once)
        width = tree.least_width(body)
        # A round that takes nothing is the last one.
        rounds = min(most, self._length // width + 1 if width else self._length + least + 1)
        cost = after
        for round_ in range(rounds - 1, -1, -1):
            entered = self.sequence(body, cost)
            cost = _either([entered, after]) if round_ >= least else _Cost(1 + entered.failing, 1 + entered.succeeding)
            if cost.succeeding > self._limit:
                return _NO_BOUND
        return cost

    def _repeat_character(self, least: int, most: int, after: _Cost, *, leads_on_once: bool) -> _Cost:
        span = min(most, self._length)
        ways = max(span - least, 0) + 1
        if not after.failing:
            retried: float = span + 1
        elif leads_on_once:
            retried = span + 2 * ways + after.failing
        else:
            retried = span + ways * (after.failing + 1)
        if after.failing or least == 0:
            return _Cost(retried if after.failing else 0, retried + after.succeeding)
        return _Cost(min(least, span) + 1, retried + after.succeeding)


def _steps(cost: _Cost) -> float:
    return cost.failing + cost.succeeding


def _either(parts: list[_Cost]) -> _Cost:
    failing = sum(part.failing for part in parts) + 1
    succeeding = failing + max(part.succeeding for part in parts)
    return _Cost(0 if any(part.failing == 0 for part in parts) else failing, succeeding)
