"""Questions to grains and pillar, `key:sub:value`, as Salt's subdict match reads them.

The expression is cut at its delimiters. Any of the pieces in front may form a key, also several together, so keys may
hold the delimiter; what is left when the keys end is the pattern, and it may hold the delimiter too. The question holds
when one such reading does:

* a pattern compares with the text of a value, without regard to case: as a glob, or with `regex` from its start;
  to a text of more than VALUE_MAX characters no pattern is put, and only `*`, which asks for any value, matches it;
* a list is matched by each of its members, and a number as a key is also a place in a list;
* a map is matched by the pattern that is one of its keys, so `a:b` asks whether `a` has a `b`;
* `*` as a key is any key, and `*` as the pattern means that the keys in front of it exist.

Keys compare with regard to case. A question without a delimiter has no answer, and matches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from saltlite.errors import UsageError
from saltlite.targeting.fleet import Budget, BudgetError, DataQuery
from saltlite.targeting.patterns import TEXT_MAX, Pattern, check_length, glob_pattern, regex_pattern

PIECES_MAX = 64
"""Pieces that an expression is cut into; delimiters after those belong to the last of them."""

VALUE_MAX = TEXT_MAX
"""Characters of a value up to which it is compared with patterns."""

STEPS_OF_A_VALUE = 4
"""Steps of the budget for a value, a map or a list that is looked at on the way through nested data."""

STEPS_OF_A_DOCUMENT = 100
"""Steps of the budget for a document that a question is put to, whatever is in it."""

ValueTest = Callable[[object], bool]


def value_text(value: object) -> str:
    """The text that patterns are compared with."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    try:
        return str(value)
    except ValueError:  # a number of more digits than Python turns into text
        return ""


class Subdict:
    """A question, ready to be put to many."""

    def __init__(self, query: DataQuery, budget: Budget | None = None) -> None:
        """Whoever compares values pays from `budget`; without one it has its own.

        Raises UsageError for a regular expression that can be read in no way, and for a long question.
        """
        check_length(query.expression, "question to grains or pillar")
        self.budget = budget = budget or Budget()
        self._regex = query.regex
        budget.spend(len(query.expression) + query.expression.count(query.delimiter) * STEPS_OF_A_VALUE)
        self._pieces = pieces = query.expression.split(query.delimiter, PIECES_MAX - 1)
        count = len(pieces)
        self.tails = [query.delimiter.join(pieces[place:]) for place in range(count)]
        """By place: what is the pattern when the pieces before that place are keys."""
        self.keys = [
            [(end, query.delimiter.join(pieces[place:end])) for end in range(place + 1, count)]
            for place in range(count)
        ]
        """By place: the keys that may begin there, each with the place after it."""
        self._patterns = _patterns(self.tails, budget, regex=query.regex)
        self.tests = [_test(pattern, budget, lower=not query.regex) for pattern in self._patterns]
        """By place: the test of a value for that tail; never of the first, since a key comes before the pattern."""

    def pay(self, place: int, count: int, characters: int) -> None:
        """For so many values, with so many characters, that are put to the test of that place. Raises BudgetError."""
        pattern = self._patterns[place]
        if pattern is not None:
            pattern.pay(self.budget, count, characters)

    def verdicts(self, place: int, texts: Collection[str], characters: int, longest: int) -> Iterator[object]:
        """For each text, whether it passes the test of that place, paid for at once. Raises BudgetError.

        `characters` is the sum of their lengths, and `longest` an upper bound of each.
        """
        self.pay(place, len(texts), characters)
        pattern = self._patterns[place]
        if pattern is None or pattern is _ANYTHING or longest > VALUE_MAX:
            return map(self.tests[place], texts)
        # Many times 10,000 texts: without a Python frame for each of them this takes half the time.
        return map(pattern.over(self.budget), texts if self._regex else map(str.lower, texts))

    def holds(self, value: object, place: int) -> bool:
        """Whether a plain value passes the test of that place, paid for."""
        if isinstance(value, str | bytes):
            self.pay(place, 1, len(value))
        return self.tests[place](value)

    def match(self, data: Mapping[str, object]) -> bool:
        """Whether the question holds for this data: maps, lists and plain values, without cycles."""
        self.budget.spend(STEPS_OF_A_DOCUMENT)
        walk = _Walk(self)
        walk.maps[0].append(data)
        for place in range(len(self._pieces) - 1):
            for found in walk.maps[place]:
                self.budget.spend(len(self.keys[place]) * STEPS_OF_A_VALUE)
                if any(walk.reaches(value, end) for end, key in self.keys[place] for value in _under(found, key)):
                    return True
        return False

    def position(self, place: int) -> int | None:
        """The piece at that place as a number, where a further piece follows it."""
        piece = self._pieces[place]
        return int(piece) if place + 1 < len(self._pieces) and _NUMBER.fullmatch(piece) else None


_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


class _Walk:
    """One question on its way through one document. Nothing is looked at twice for a place: data may be hostile."""

    def __init__(self, subdict: Subdict) -> None:
        self._subdict = subdict
        self._seen: set[tuple[int, int]] = set()
        self.maps: list[list[Mapping[Any, object]]] = [[] for _ in subdict.tails]

    def reaches(self, value: object, place: int) -> bool:
        """Note that keys up to `place` lead to this value; whether the rest of the expression is a pattern of it."""
        if self._subdict.tails[place] == "*":
            return True
        ahead = [(value, place)]
        while ahead:
            value, place = ahead.pop()
            self._subdict.budget.spend(STEPS_OF_A_VALUE)
            if isinstance(value, Mapping | list | tuple):
                if (id(value), place) in self._seen:
                    continue
                self._seen.add((id(value), place))
            if isinstance(value, Mapping):
                if _has(value, self._subdict.tails[place]):
                    return True
                self.maps[place].append(value)
            elif isinstance(value, list | tuple):
                ahead += [(member, place) for member in value]
                at = self._subdict.position(place)
                if at is not None and at < len(value):
                    if self._subdict.tails[place + 1] == "*":
                        return True
                    ahead.append((value[at], place + 1))
            elif self._subdict.holds(value, place):
                return True
        return False


def _under(found: Mapping[Any, object], key: str) -> list[object]:
    if key == "*":
        return list(found.values())
    if key in found:
        return [found[key]]
    number = _number(key)
    return [found[number]] if number in found else []


def _has(found: Mapping[Any, object], key: str) -> bool:
    return key in found or _number(key) in found


def _number(key: str) -> int | None:
    return int(key) if _NUMBER.fullmatch(key) else None


def _patterns(tails: list[str], budget: Budget, *, regex: bool) -> list[Pattern | None]:
    """By place, None where there is none. Raises the UsageError of the last tail when no tail at all is one."""
    patterns: list[Pattern | None] = [None]
    refusal: UsageError | None = None
    for tail in tails[1:]:
        try:
            patterns.append(_pattern(tail, budget, regex=regex))
        except BudgetError:
            raise
        except UsageError as error:
            refusal = error
            patterns.append(None)
    if refusal is not None and not any(patterns):
        raise refusal
    return patterns


def _pattern(tail: str, budget: Budget, *, regex: bool) -> Pattern:
    if tail == "*":
        return _ANYTHING
    return regex_pattern(tail, budget, flags=re.IGNORECASE) if regex else glob_pattern(tail.lower(), budget)


_ANYTHING = Pattern("*")


def _test(pattern: Pattern | None, budget: Budget, *, lower: bool) -> ValueTest:
    if pattern is None:
        return _never
    if pattern is _ANYTHING:
        return _always
    matches = pattern.over(budget)
    if lower:
        return lambda value: len(text := value_text(value)) <= VALUE_MAX and bool(matches(text.lower()))
    return lambda value: len(text := value_text(value)) <= VALUE_MAX and bool(matches(text))


def _never(_value: object) -> bool:
    return False


def _always(_value: object) -> bool:
    return True
