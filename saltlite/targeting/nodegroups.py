"""Nodegroups: names in the master's configuration that stand for targets.

A definition is a text, or a list of words (which may then have spaces). It is a compound target; a list of names alone
is a list of names, and with characters of regular expressions in them a choice of those. Groups may name groups.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from saltlite.errors import UsageError
from saltlite.targeting.expression import Engine, Expression, Place, Term
from saltlite.targeting.parser import DEPTH_MAX, OPERATORS, WORDS_MAX, Parser, words_of

Groups = Mapping[str, str | list[str]]

_ENGINE = re.compile(r"[A-Z].?@", re.DOTALL)
_REGEX = re.compile(r"[(\[{\\?}\])]")


def parse_compound(text: str, groups: Groups) -> Expression:
    """The compound target, with nodegroups expanded. Raises UsageError that names the word and its place."""
    return _Reader(groups).read(words_of(text), (), 0)


def parse_nodegroup(name: str, groups: Groups) -> Expression:
    """What this nodegroup stands for. Raises UsageError that names the group."""
    return _Reader(groups).group(Term(Engine.NODEGROUP, name, Place(name, 0)), (), 0)


class _Reader:
    """Reads one target: counts its words wherever they come from."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._words = 0

    def read(self, words: Sequence[Place], chain: tuple[str, ...], depth: int) -> Expression:
        """The expression of these words, which stand inside of the groups of `chain`."""
        self._words += len(words)
        if self._words > WORDS_MAX:
            raise UsageError(f"the target has more than {WORDS_MAX} words, with those of its nodegroups: divide it")
        return Parser(words, lambda term, depth: self.group(term, chain, depth), depth).parse()

    def group(self, term: Term, chain: tuple[str, ...], depth: int) -> Expression:
        """What the nodegroup stands for that this term names."""
        name = term.pattern
        if name in chain:
            raise UsageError(located(term.place, f"nodegroup {name!r} contains itself: {' > '.join((*chain, name))}"))
        if name not in self._groups:
            raise UsageError(located(term.place, f"there is no nodegroup {name!r}{_way_out(name, self._groups)}"))
        if depth >= DEPTH_MAX:
            raise UsageError(located(term.place, f"more than {DEPTH_MAX} nodegroups stand inside each other"))
        definition = self._groups[name]
        words = _words(name, definition)
        if not words:
            raise UsageError(f"nodegroup {name!r} is empty: define it in the master's configuration, under nodegroups")
        several = not isinstance(definition, str) or len(words) > 1
        return _names(words, several=several) or self.read(words, (*chain, name), depth + 1)


def located(place: Place, text: str) -> str:
    """The text of an error about the word at that place; a target that is one word has no place to tell."""
    return f"{place}: {text}" if place.number else text


def _words(name: str, definition: str | list[str]) -> list[Place]:
    if isinstance(definition, str):
        return words_of(definition, name)
    return [Place(str(word), number, 0, name) for number, word in enumerate(definition, 1)]


def _names(words: Sequence[Place], *, several: bool) -> Term | None:
    """The list or the choice that these words are, if they are names alone. One name alone is the word that it is."""
    texts = [place.word for place in words]
    if any(text in OPERATORS or "*" in text or _ENGINE.match(text) for text in texts):
        return None
    if any(_REGEX.search(text) for text in texts):
        pattern = texts[0] if len(texts) == 1 else "|".join(f"(?:{text})" for text in texts)
        return Term(Engine.PCRE, pattern, Place(f"E@{pattern}", 1, 0, words[0].group))
    if several or "," in texts[0]:
        pattern = ",".join(texts)
        return Term(Engine.LIST, pattern, Place(f"L@{pattern}", 1, 0, words[0].group))
    return None


def _way_out(name: str, groups: Groups) -> str:
    if not groups:
        return ": the master's configuration defines none"
    near = get_close_matches(name[:80], groups, 1)
    known = ", ".join(sorted(groups)[:10])
    return f"; did you mean {near[0]!r}?" if near else f"; there are {known}{' …' if len(groups) > 10 else ''}"
