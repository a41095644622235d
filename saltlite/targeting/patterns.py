"""Globs and regular expressions with bounded run time. All patterns of users are compiled here.

Python's engine runs a pattern on texts for which it takes few steps in the worst case, which holds for nearly all
patterns and texts. An automaton, whose run time is linear, runs the others. Patterns that neither can run (a
backreference after repeats) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field
from fnmatch import translate
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from saltlite.errors import UsageError
from saltlite.model.dataclass import dataclass
from saltlite.targeting import regex as tree
from saltlite.targeting.fleet import Budget, BudgetError
from saltlite.targeting.regex import Automaton, steps_bound

PATTERN_MAX = 1024
"""Characters of one glob, one regular expression, or one query of grains or pillar."""

TEXT_MAX = 4096
"""Characters of the longest text that is matched; longer ones match no pattern, because minions may send any text."""

CHEAP_PER_CHARACTER = 64
"""Python's engine runs a pattern on every text if it needs at most so many steps per character."""

BACKTRACKING_MAX = 4096
"""Python's engine runs other patterns on texts for which it needs at most so many steps (about 30 us); the automaton
runs them on longer texts. A pattern without an automaton is refused beyond CHEAP_PER_CHARACTER * TEXT_MAX steps."""

_LENGTHS = (16, 32, 64, 128, 255, 512, 1024, 2048)
"""Lengths of texts for which the steps are calculated, until they are too many."""

_STEPS_OF_A_CHARACTER = 60
"""Budget steps per character of a pattern that Python parses and compiles."""

_STEPS_OF_AN_ANALYSIS = 20
"""Budget steps per item that an analysis visits."""

_STEPS_OF_RE = 1 / 16
"""Budget steps per worst-case step of Python's engine, most of which compare one character."""

_STEPS_OF_A_POSITION = 25
"""Budget steps per position of a new automaton."""

_WILDCARD = re.compile(r"[*?\[]")

Matches: TypeAlias = Callable[[str], object]


def has_wildcard(text: str) -> bool:
    """Whether the text has wildcards of a glob."""
    return _WILDCARD.search(text) is not None


@dataclass(frozen=True, slots=True)
class Pattern:
    """A glob or a regular expression.

    `matches` charges for one text. For many texts use `over`, which is often Python's engine itself, and `pay`.
    """

    source: str
    flags: int = 0
    whole: bool = False
    native: Matches = field(default=bool, compare=False)
    """The matcher of Python's engine."""
    native_length: int = field(default=TEXT_MAX, compare=False)
    """Characters of the longest text that `native` runs on."""
    rate: float = field(default=0.0, compare=False)
    """Budget steps per character of such a text."""
    automaton: Automaton | None = field(default=None, compare=False)
    """For longer texts."""

    def matches(self, text: str, budget: Budget) -> bool:
        """Whether the text matches. Raises BudgetError if that would exceed the budget."""
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
        """A matcher for many texts of at most TEXT_MAX characters, to be used after `pay`.

        It raises BudgetError with the number of texts.
        """
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
        """Charge for `count` texts with `characters` in total, before `over` runs on them. Raises BudgetError."""
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
    """A regular expression for texts of up to `longest` characters, anchored at the start; with `whole` at both ends.

    Raises UsageError, with the position, if it is invalid, too long, or cannot run in bounded time; BudgetError if the
    analysis exceeds the budget.
    """
    check_length(pattern, "regular expression")
    budget = budget or Budget()
    budget.spend(len(pattern) * _STEPS_OF_A_CHARACTER)
    try:
        read = _read(pattern, flags, whole)
        budget.spend(read.looked_at * _STEPS_OF_AN_ANALYSIS)
        if read.hindrance and read.length < longest:
            raise UsageError(
                f"the regular expression {pattern[:80]!r} could run forever: it has {read.hindrance} and repeats "
                "that multiply; remove one of the two"
            )
        return _made(pattern, pattern, read, budget, whole=whole)
    except (OverflowError, RecursionError):
        raise tree.too_deep(pattern) from None


def glob_pattern(pattern: str, budget: Budget | None = None) -> Pattern:
    """A case-sensitive glob for complete texts. Raises UsageError for a glob that is too long."""
    check_length(pattern, "glob")
    if not has_wildcard(pattern):
        return Pattern(pattern, native=pattern.__eq__)
    # Globs with stars at their ends only are the most frequent ones, and Python's engine takes ten times as long.
    stem = pattern.removesuffix("*")
    if not has_wildcard(stem):
        return Pattern(pattern, native=lambda text: text.startswith(stem))
    middle = stem.removeprefix("*")
    if not has_wildcard(middle):
        return Pattern(pattern, native=lambda text: middle in text if stem != pattern else text.endswith(middle))
    budget = budget or Budget()
    budget.spend(len(pattern) * _STEPS_OF_A_CHARACTER)
    # Its atomic groups do not matter: a star that ends at the first match of what follows leaves most to later stars.
    text = translate(pattern)
    read = _read(text, 0, whole=False)._replace(hindrance="")
    budget.spend(read.looked_at * _STEPS_OF_AN_ANALYSIS)
    return _made(pattern, text, read, budget, whole=False)


class _Read(NamedTuple):
    """The analysis of a pattern. Python's engine runs on texts of up to `length` characters, at `rate` steps each."""

    flags: int
    native: Matches
    hindrance: str
    length: int
    rate: float
    looked_at: int


@lru_cache(64)
def _read(pattern: str, flags: int, whole: bool) -> _Read:
    # The cache does not keep the tree, which takes fifty times the memory of the compiled pattern.
    items, flags = tree.parsed(pattern, flags)
    native = tree.native(items, flags)
    hindrance = tree.not_regular(items)
    fit = _fit(items, flags, CHEAP_PER_CHARACTER * TEXT_MAX if hindrance else BACKTRACKING_MAX, whole=whole)
    return _Read(flags, native.fullmatch if whole else native.match, hindrance, *fit)


def _fit(items: tree.Items, flags: int, few: float, *, whole: bool) -> tuple[int, float, int]:
    """The longest text on which Python's engine is cheap, the budget steps per character, and the visited items."""
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


def _made(pattern: str, text: str, read: _Read, budget: Budget, *, whole: bool) -> Pattern:
    automaton = None
    if read.length < TEXT_MAX and not read.hindrance:
        budget.spend(len(text) * _STEPS_OF_A_CHARACTER)
        items, _flags = tree.parsed(text, read.flags)
        automaton = Automaton(pattern, items, read.flags, whole=whole)
        budget.spend(automaton.size * _STEPS_OF_A_POSITION)
    return Pattern(pattern, read.flags, whole, read.native, read.length, read.rate, automaton)


def check_length(pattern: str, what: str) -> None:
    """Raises UsageError for a pattern of more than PATTERN_MAX characters."""
    if len(pattern) > PATTERN_MAX:
        raise UsageError(f"{pattern[:20]!r}… is too long: a {what} has at most {PATTERN_MAX} characters")
