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
from collections.abc import Callable, Mapping
from typing import Any

from saltlite.core.matching.fleet import Query
from saltlite.core.matching.patterns import check_length, glob_matcher, regex_matcher
from saltlite.errors import UsageError

PIECES_MAX = 64
"""Pieces that an expression is cut into; delimiters after those belong to the last of them."""

VALUE_MAX = 4096
"""Characters of a value up to which it is compared with patterns: a regular expression can take a time that grows with
the square of the text, and worse, and minions say of themselves what they want."""

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

    def __init__(self, query: Query) -> None:
        """Raises UsageError for a regular expression that can be read in no way, and for a long question."""
        check_length(query.expression, "question to grains or pillar")
        self._pieces = pieces = query.expression.split(query.delimiter, PIECES_MAX - 1)
        count = len(pieces)
        self.tails = [query.delimiter.join(pieces[place:]) for place in range(count)]
        """By place: what is the pattern when the pieces before that place are keys."""
        self.keys = [
            [(end, query.delimiter.join(pieces[place:end])) for end in range(place + 1, count)]
            for place in range(count)
        ]
        """By place: the keys that may begin there, each with the place after it."""
        self.tests = _tests(self.tails, regex=query.regex)
        """By place: the test of a value for that tail; never of the first, since a key comes before the pattern."""

    def match(self, data: Mapping[str, object]) -> bool:
        """Whether the question holds for this data: maps, lists and plain values, without cycles."""
        walk = _Walk(self)
        walk.maps[0].append(data)
        for place in range(len(self._pieces) - 1):
            for found in walk.maps[place]:
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
            elif self._subdict.tests[place](value):
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


def _tests(tails: list[str], *, regex: bool) -> list[ValueTest]:
    """Raises the UsageError of the first tail when no tail at all is a regular expression."""
    tests: list[ValueTest] = [_never]
    refusals: list[UsageError] = []
    for tail in tails[1:]:
        try:
            tests.append(_regex_test(tail) if regex else _glob_test(tail))
        except UsageError as refusal:
            refusals.append(refusal)
            tests.append(_never)
    if refusals and len(refusals) == len(tails) - 1:
        raise refusals[-1]
    return tests


def _never(_value: object) -> bool:
    return False


def _always(_value: object) -> bool:
    return True


def _regex_test(tail: str) -> ValueTest:
    if tail == "*":
        return _always
    matches = regex_matcher(tail, re.IGNORECASE)
    return lambda value: len(text := value_text(value)) <= VALUE_MAX and bool(matches(text))


def _glob_test(tail: str) -> ValueTest:
    if tail == "*":
        return _always
    matches = glob_matcher(tail.lower())
    return lambda value: len(text := value_text(value)) <= VALUE_MAX and bool(matches(text.lower()))
