"""Globs and regular expressions, compiled under limits: the only place that does, and so the only place that refuses.

Python's own engine runs a pattern on a text when it takes few steps for it whatever the text says, as nearly all
patterns do on nearly all texts. For the others there is an automaton, which no pattern can keep busy. What neither can
do (a backreference behind repeats) is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from saltlite.errors import UsageError
from saltlite.targeting import regex as tree
from saltlite.targeting.fleet import Budget, BudgetError
from saltlite.targeting.regex import Automaton, steps_bound

PATTERN_MAX = 1024
"""Characters of one glob, one regular expression or one question to grains or pillar."""

TEXT_MAX = 4096
"""Characters of a text that a pattern is put to; longer ones match no pattern, for minions send what they want."""

CHEAP_PER_CHARACTER = 64
"""Python's engine runs a pattern on every text when it takes at most so many steps for each character of it."""

BACKTRACKING_MAX = 4096
"""Other patterns it runs on texts for which it takes so many steps at most, some 30 us; longer ones get an automaton.
A pattern that no automaton can match is refused when it takes more than CHEAP_PER_CHARACTER * TEXT_MAX steps."""

_LENGTHS = (16, 32, 64, 128, 255, 512, 1024, 2048)
"""Lengths for which the steps are looked at, until they are too many."""

_STEPS_OF_A_CHARACTER = 60
"""Steps of the budget for a character of a pattern that Python parses and compiles."""

_STEPS_OF_AN_ANALYSIS = 20
"""Steps of the budget for an item that an analysis looks at."""

_STEPS_OF_RE = 1 / 16
"""Steps of the budget for a step of Python's engine at worst: most are a look at one character."""

_STEPS_OF_A_POSITION = 25
"""Steps of the budget for a position of an automaton that is made."""

_WILDCARD = re.compile(r"[*?\[]")

Matches: TypeAlias = Callable[[str], object]


def has_wildcard(text: str) -> bool:
    """Whether the text is a glob, and not one name."""
    return _WILDCARD.search(text) is not None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A glob or a regular expression.

    `matches` pays for one text. For many there is `over`, which often is Python's engine itself, and `pay`.
    """

    source: str
    flags: int = 0
    whole: bool = False
    native: Matches = field(default=bool, compare=False)
    """Python's engine."""
    native_length: int = field(default=TEXT_MAX, compare=False)
    """Characters of a text up to which that is asked."""
    rate: float = field(default=0.0, compare=False)
    """Steps of the budget for a character of such a text."""
    automaton: Automaton | None = field(default=None, compare=False)
    """For longer texts."""

    def matches(self, text: str, budget: Budget) -> bool:
        """Whether the text matches. Raises BudgetError when that would cost more than is left."""
        size = len(text)
        if self.automaton is None:
            if size > self.native_length:
                raise BudgetError(f"the pattern {self.source[:80]!r} takes too long on a text of {size} characters")
            budget.spend(2 + size * self.rate)
            return bool(self.native(text))
        if size <= self.native_length and budget.credit > 0:
            budget.spend(2)
            budget.credit -= size * self.rate
            return bool(self.native(text))
        return self.automaton.matches(text, budget)

    def over(self, budget: Budget) -> Matches:
        """For texts of TEXT_MAX characters at most, after `pay`. It raises BudgetError that says of how many."""
        if self.automaton is None:
            return self.native
        count = 0

        def matches(text: str) -> bool:
            nonlocal count
            count += 1
            try:
                return self.matches(text, budget)
            except BudgetError:
                raise self._too_long(count) from None

        return matches

    def pay(self, budget: Budget, count: int, characters: int) -> None:
        """For so many texts that are put to what `over` gave, with so many characters in all. Raises BudgetError."""
        try:
            budget.spend(count if self.automaton is not None else count + characters * self.rate)
        except BudgetError:
            raise self._too_long(count) from None

    def _too_long(self, count: int) -> BudgetError:
        texts = "1 text" if count == 1 else f"{count} texts"
        return BudgetError(f"the pattern {self.source[:80]!r} takes too long on {texts}: make it simpler")


def regex_pattern(
    pattern: str, budget: Budget | None = None, *, flags: int = 0, whole: bool = False, longest: int = TEXT_MAX
) -> Pattern:
    """A regular expression for texts from their start, or with `whole` from end to end, of `longest` characters.

    Raises UsageError, with the position, for what is no regular expression, for a long one, and for one that cannot be
    run in bounded time; BudgetError when to find that out costs more than is left of `budget`.
    """
    check_length(pattern, "regular expression")
    budget = budget or Budget()
    budget.spend(len(pattern) * _STEPS_OF_A_CHARACTER)
    try:
        read = _read(pattern, flags, whole)
        budget.spend(read.looked_at * _STEPS_OF_AN_ANALYSIS)
        if read.hindrance and read.length < longest:
            raise UsageError(
                f"the regular expression {pattern[:80]!r} could take for ever: it has {read.hindrance} and repeats "
                "that multiply; leave out one of the two"
            )
        return _made(pattern, read, budget, whole=whole)
    except (OverflowError, RecursionError):
        raise tree.too_deep(pattern) from None


def glob_pattern(pattern: str, budget: Budget | None = None) -> Pattern:
    """A glob for whole texts, with regard to case. Raises UsageError for a glob that is too long."""
    check_length(pattern, "glob")
    if not has_wildcard(pattern):
        return Pattern(pattern, native=pattern.__eq__)
    stem = pattern.removesuffix("*")
    if not has_wildcard(stem):
        return Pattern(pattern, native=lambda text: text.startswith(stem))
    budget = budget or Budget()
    budget.spend(len(pattern) * _STEPS_OF_A_CHARACTER)
    # Its atomic groups change nothing: a star that ends where what follows is found first leaves most to the others.
    read = _read(translate(pattern), 0, whole=False)._replace(hindrance="")
    budget.spend(read.looked_at * _STEPS_OF_AN_ANALYSIS)
    return _made(pattern, read, budget, whole=False)


class _Read(NamedTuple):
    """What was found out of a pattern. `length`: for how long texts Python's engine takes few steps, `rate` of them."""

    items: tree.Items
    flags: int
    native: Matches
    hindrance: str
    length: int
    rate: float
    looked_at: int


@lru_cache(64)
def _read(pattern: str, flags: int, whole: bool) -> _Read:
    items, flags = tree.parsed(pattern, flags)
    native = tree.native(items, flags)
    hindrance = tree.not_regular(items)
    fit = _fit(items, flags, CHEAP_PER_CHARACTER * TEXT_MAX if hindrance else BACKTRACKING_MAX, whole=whole)
    return _Read(items, flags, native.fullmatch if whole else native.match, hindrance, *fit)


def _fit(items: tree.Items, flags: int, few: float, *, whole: bool) -> tuple[int, float, int]:
    """Up to which length Python's engine takes few steps, what a character of it costs, and how many items were looked
    at to find that out."""
    cheap = CHEAP_PER_CHARACTER * TEXT_MAX
    steps, looked_at = steps_bound(items, TEXT_MAX, cheap, flags, whole=whole)
    if steps <= cheap:
        return TEXT_MAX, steps / TEXT_MAX * _STEPS_OF_RE, looked_at
    length, rate = 0, 0.0
    for size in _LENGTHS:
        steps, also_looked_at = steps_bound(items, size, few, flags, whole=whole)
        looked_at += also_looked_at
        if steps > few:
            break
        length, rate = size, steps / size * _STEPS_OF_RE
    return length, rate, looked_at


def _made(pattern: str, read: _Read, budget: Budget, *, whole: bool) -> Pattern:
    automaton = None
    if read.length < TEXT_MAX and not read.hindrance:
        automaton = Automaton(pattern, read.items, read.flags, whole=whole)
        budget.spend(automaton.size * _STEPS_OF_A_POSITION)
    return Pattern(pattern, read.flags, whole, read.native, read.length, read.rate, automaton)


def check_length(pattern: str, what: str) -> None:
    """Raises UsageError for a pattern of more than PATTERN_MAX characters."""
    if len(pattern) > PATTERN_MAX:
        raise UsageError(f"{pattern[:20]!r}… is too long: a {what} has at most {PATTERN_MAX} characters")
