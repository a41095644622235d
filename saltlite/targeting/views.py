"""What a path of keys leads to, turned round: text -> ids, key -> ids.

A path is the part of a question between its top-level key and its pattern. It is read as
`saltlite.targeting.subdict` reads it, which defines what a question means.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from saltlite.targeting.fleet import Query
from saltlite.targeting.patterns import has_wildcard
from saltlite.targeting.subdict import Subdict, value_text

OWN_COST = 2_000
"""What a view costs that holds nothing: whoever asks for keys that nobody has makes no end of these."""

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_Key = TypeVar("_Key", str, str | int)


class Path(NamedTuple):
    """Pieces of a question, after the top-level key and before the pattern, and what joins them."""

    pieces: tuple[str, ...]
    delimiter: str

    @classmethod
    def of(cls, pieces: tuple[str, ...], delimiter: str) -> Path:
        """One path whatever the delimiter, where there is nothing to join."""
        return cls(pieces, delimiter if pieces else "")


@dataclass(slots=True)
class Ends:
    """Where a path ends in one value."""

    texts: set[str] = field(default_factory=set)
    """Of plain values, also those in lists."""
    keys: set[str | int] = field(default_factory=set)
    """Of maps."""
    reached: bool = False
    """Whether it ends anywhere: empty maps and lists have neither."""
    steps: int = 1
    """Values that were looked at on the way."""


class Steps:
    """The ways along a path."""

    def __init__(self, path: Path) -> None:
        self.length = len(path.pieces)
        self.keys: list[list[tuple[int, str]]] = []
        self.positions: list[int | None] = []
        if path.pieces:
            # Whatever the pattern is that follows: its place is all that counts here.
            asked = Subdict(Query(path.delimiter.join((*path.pieces, "")), path.delimiter))
            self.keys = asked.keys[: self.length]
            self.positions = [asked.position(place) for place in range(self.length)]

    def ends(self, value: object) -> Ends:
        """Where the path ends when it begins at this value."""
        if type(value) is str:
            return Ends() if self.length else Ends({value}, reached=True)
        ends = Ends()
        seen: set[tuple[int, int]] = set()
        ahead: list[tuple[object, int]] = [(value, 0)]
        while ahead:
            found, place = ahead.pop()
            ends.steps += 1
            ended = place == self.length
            ends.reached = ends.reached or ended
            if not isinstance(found, Mapping | list | tuple):
                if ended:
                    ends.texts.add(value_text(found))
            elif (id(found), place) not in seen:
                seen.add((id(found), place))
                if ended and isinstance(found, Mapping):
                    ends.keys.update(found)
                else:
                    ahead += self._further(found, place)
        return ends

    def _further(self, found: object, place: int) -> Iterator[tuple[object, int]]:
        if isinstance(found, Mapping):
            for end, key in self.keys[place]:
                for value in found.values() if key == "*" else _under(found, key):
                    yield value, end
        elif isinstance(found, list | tuple):
            yield from ((member, place) for member in found)
            at = self.positions[place] if place < self.length else None
            if at is not None and at < len(found):
                yield found[at], place + 1


def as_number(key: str) -> int | None:
    """The number that a key may be as well."""
    return int(key) if _NUMBER.fullmatch(key) else None


def _under(found: Mapping[object, object], key: str) -> list[object]:
    if key in found:
        return [found[key]]
    number = as_number(key)
    return [found[number]] if number in found else []


class View:
    """Ids by what a path leads to in their values. Alone under a text or a key, an id is not put into a set."""

    def __init__(self, path: Path) -> None:
        self._steps = Steps(path)
        self._texts: dict[str, str | set[str]] = {}
        self._spelled: dict[str, set[str]] = {}
        """Lower case -> those texts that are written otherwise."""
        self._keys: dict[str | int, str | set[str]] = {}
        self._empty: set[str] = set()
        """Ids where the path ends, but at nothing that has a text or a key."""
        self.size = 0
        """Ids that are held, each as often as it is."""
        self._characters = 0
        """Of all texts."""

    def cost(self) -> int:
        """What the view costs in memory, in units of an id in a set."""
        return OWN_COST + self.size + 4 * (len(self._texts) + len(self._keys))

    def ends(self, value: object) -> Ends:
        """Where the view's path ends in that value."""
        return self._steps.ends(value)

    def add(self, name: str, ends: Ends) -> None:
        """Take up what `name` has."""
        for text in ends.texts:
            if text not in self._texts:
                self._characters += len(text)
                if (lower := text.lower()) != text:
                    self._spelled.setdefault(lower, set()).add(text)
            _put(self._texts, text, name)
        for key in ends.keys:
            _put(self._keys, key, name)
        self.size += len(ends.texts) + len(ends.keys)
        if ends.reached and not ends.texts and not ends.keys:
            self._empty.add(name)

    def remove(self, name: str, ends: Ends) -> None:
        """Forget what `name` had, which is this."""
        for text in ends.texts:
            _take(self._texts, text, name)
            if text not in self._texts:
                self._characters -= len(text)
                if (lower := text.lower()) != text:
                    self._forget_spelling(lower, text)
        for key in ends.keys:
            _take(self._keys, key, name)
        self.size -= len(ends.texts) + len(ends.keys)
        self._empty.discard(name)

    def collect(self, found: set[str], question: Subdict, place: int, *, regex: bool) -> None:
        """Add to `found` the ids for which the rest of the question, from `place` on, holds here."""
        tail = question.tails[place]
        if tail == "*":
            found |= self._empty
            _gather(found, self._texts.values())
            _gather(found, self._keys.values())
            return
        number = as_number(tail)
        _gather(found, [self._keys.get(tail, ()), () if number is None else self._keys.get(number, ())])
        if regex or has_wildcard(tail):
            question.pay(place, len(self._texts), self._characters)
            test = question.tests[place]
            _gather(found, (ids for text, ids in self._texts.items() if test(text)))
        else:
            lower = tail.lower()
            _gather(found, (self._texts.get(text, ()) for text in (lower, *self._spelled.get(lower, ()))))

    def texts(self) -> Iterator[tuple[str, frozenset[str]]]:
        """Each text with its ids."""
        for text, ids in self._texts.items():
            yield text, frozenset((ids,) if isinstance(ids, str) else ids)

    def _forget_spelling(self, lower: str, text: str) -> None:
        spelled = self._spelled[lower]
        spelled.discard(text)
        if not spelled:
            del self._spelled[lower]


def _put(table: dict[_Key, str | set[str]], key: _Key, name: str) -> None:
    ids = table.get(key)
    if ids is None:
        table[key] = name
    elif isinstance(ids, str):
        if ids != name:
            table[key] = {ids, name}
    else:
        ids.add(name)


def _take(table: dict[_Key, str | set[str]], key: _Key, name: str) -> None:
    ids = table.get(key)
    if isinstance(ids, set):
        ids.discard(name)
        if not ids:
            del table[key]
    elif ids == name:
        del table[key]


def _gather(found: set[str], many: Iterable[str | Collection[str]]) -> None:
    for ids in many:
        if isinstance(ids, str):
            found.add(ids)
        else:
            found.update(ids)
