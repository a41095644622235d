"""Parses targets into expressions: terms joined by `and`, `or` and `not`.

    G@os:Debian and ( web* or L@db1,db2 ) and not E@.*-test

    or_expr  = and_expr { "or" and_expr }
    and_expr = not_expr { "and" not_expr | "not" atom }
    not_expr = [ "not" ] atom
    atom     = "(" or_expr ")" | term
    term     = [ engine [ delimiter ] "@" ] pattern

White space separates words, parentheses are separate words, and operators are lower case. The delimiter is one
character, for G, P, I and J only. Every error names the word and its position.

A nodegroup of the master's configuration stands for a target. Its definition is a text, or a list of words, which may
contain spaces: a compound target, or a list of names alone, or of regular expressions. Groups may name groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeAlias

from saltlite.errors import UsageError
from saltlite.model.dataclass import dataclass


class Engine(StrEnum):
    """The kind of a term: the letter before its `@`, "" for a plain word."""

    WORD = ""
    GRAIN = "G"
    GRAIN_PCRE = "P"
    PILLAR = "I"
    PILLAR_PCRE = "J"
    LIST = "L"
    NODEGROUP = "N"
    IPCIDR = "S"
    PCRE = "E"
    RANGE = "R"
    TYPE = "T"
    MANAGER = "M"


@dataclass(frozen=True, slots=True)
class WordPosition:
    """The position of a word, for messages."""

    word: str
    number: int
    """From 1; 0 for a target that is not compound."""
    column: int = 0
    """From 1, in characters; 0 for a list of words."""
    group: str = ""
    """The nodegroup that contains the word; "" for the target itself."""

    def __str__(self) -> str:
        """Such as `nodegroup 'web', word 3 ('and'), column 9`; only the word if the target is not compound."""
        if not self.number:
            return repr(self.word[:80])
        group = f"nodegroup {self.group!r}, " if self.group else ""
        column = f", column {self.column}" if self.column else ""
        return f"{group}word {self.number} ({self.word[:80]!r}){column}"


@dataclass(frozen=True, slots=True)
class Term:
    """One condition."""

    engine: Engine
    pattern: str
    place: WordPosition
    delimiter: str = ":"


@dataclass(frozen=True, slots=True)
class Not:
    """Negation."""

    one: Expression


@dataclass(frozen=True, slots=True)
class And:
    """Conjunction."""

    all: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Disjunction."""

    any: tuple[Expression, ...]


Expression: TypeAlias = Term | Not | And | Or


def terms_of(expression: Expression, *, positive: bool = True) -> Iterator[tuple[Term, bool]]:
    """Each term from left to right, with True under an even number of `not`."""
    match expression:
        case Term():
            yield expression, positive
        case Not(one):
            yield from terms_of(one, positive=not positive)
        case And(parts) | Or(parts):
            for part in parts:
                yield from terms_of(part, positive=positive)


def written(expression: Expression) -> str:
    """The expression as a compound target, which parses to the same expression."""
    match expression:
        case Term():
            return expression.place.word
        case Not(Term() as one):
            return f"not {written(one)}"
        case Not(one):
            return f"not ( {written(one)} )"
        case And(parts):
            return " and ".join(
                f"( {written(part)} )" if isinstance(part, And | Or) else written(part) for part in parts
            )
        case Or(parts):
            return " or ".join(f"( {written(part)} )" if isinstance(part, Or) else written(part) for part in parts)


TARGET_MAX = 64 * 1024
"""Characters of one target or nodegroup; only a plain list of names may be longer."""

DEPTH_MAX = 32
"""Nested parentheses and nodegroups."""

WORDS_MAX = 4096
"""Words of one target, including those of its nodegroups."""

OPERATORS = frozenset({"and", "or", "not", "(", ")"})

_WORD = re.compile(r"\S+")
_TERM = re.compile(r"(?P<engine>[A-Z])(?P<delimiter>(?<=[GPIJ]).)?@(?P<pattern>.*)", re.DOTALL)

Expand = Callable[[Term, int], Expression]
"""Expands the term of a nodegroup at a depth."""


def words_of(text: str, group: str = "") -> list[WordPosition]:
    """The words of a target, or of the definition of that nodegroup. Raises UsageError for a long target."""
    if len(text) > TARGET_MAX:
        whose = f"nodegroup {group!r}" if group else "the target"
        raise UsageError(f"{whose} is too long: at most {TARGET_MAX} characters; name many minions with -L")
    found = enumerate(_WORD.finditer(text), 1)
    return [WordPosition(match.group(), number, match.start() + 1, group) for number, match in found]


def parse_term(place: WordPosition) -> Term:
    """The word as a term. Raises UsageError for an unknown engine or an empty pattern."""
    found = _TERM.fullmatch(place.word)
    if found is None:
        _refuse_parenthesis(place)
        return Term(Engine.WORD, place.word, place)
    letter, delimiter, pattern = found.group("engine", "delimiter", "pattern")
    if letter not in _ENGINES:
        raise UsageError(f"{place}: there is no kind of target {letter}@; there are {_KNOWN}")
    if letter == Engine.RANGE:
        raise UsageError(f"{place}: ranges of names (R@) are not supported; list the names with L@, or use E@")
    if not pattern:
        raise UsageError(f"{place}: nothing stands after the @")
    return Term(Engine(letter), pattern, place, delimiter or ":")


class Parser:
    """Parses the words of one target or nodegroup."""

    def __init__(self, words: Sequence[WordPosition], expand: Expand, depth: int = 0) -> None:
        self._words = words
        self._next = 0
        self._depth = depth
        self._expand = expand

    def parse(self) -> Expression:
        """The expression of all words. Raises UsageError, with the word and its position."""
        expression = self._or()
        if self._next < len(self._words):
            place = self._words[self._next]
            if place.word == ")":
                raise UsageError(f"{place}: no parenthesis is open here")
            raise _no_operator(place)
        return expression

    def _or(self) -> Expression:
        parts = [self._and()]
        while self._is("or"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _and(self) -> Expression:
        parts = [self._not()]
        while True:
            if self._is("and"):
                parts.append(self._not())
            elif self._is("not"):
                parts.append(Not(self._atom()))
            else:
                return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _not(self) -> Expression:
        return Not(self._atom()) if self._is("not") else self._atom()

    def _atom(self) -> Expression:
        place = self._take()
        if place.word == "(":
            self._depth += 1
            if self._depth > DEPTH_MAX:
                raise UsageError(f"{place}: more than {DEPTH_MAX} parentheses and nodegroups stand inside each other")
            inner = self._or()
            self._close(place)
            self._depth -= 1
            return inner
        if place.word == "not":
            raise UsageError(f"{place}: it follows another `not`; leave both out, or write `not ( not … )`")
        if place.word in OPERATORS:
            raise UsageError(f"{place}: a condition is missing before it, such as web* or G@os:Debian")
        term = parse_term(place)
        return self._expand(term, self._depth) if term.engine is Engine.NODEGROUP else term

    def _is(self, word: str) -> bool:
        if self._next < len(self._words) and self._words[self._next].word == word:
            self._next += 1
            return True
        return False

    def _take(self) -> WordPosition:
        if self._next < len(self._words):
            self._next += 1
            return self._words[self._next - 1]
        if not self._words:
            raise UsageError("the target is empty: write a condition, such as web* or G@os:Debian")
        raise UsageError(f"{self._words[-1]}: a condition is missing after it, such as web* or G@os:Debian")

    def _close(self, opened: WordPosition) -> None:
        if self._is(")"):
            return
        if self._next < len(self._words):
            raise _no_operator(self._words[self._next])
        raise UsageError(f"{opened}: this parenthesis is never closed; parentheses are words of their own")


def _no_operator(place: WordPosition) -> UsageError:
    return UsageError(f"{place}: an operator is missing before it; write `and` or `or`")


def _refuse_parenthesis(place: WordPosition) -> None:
    word = place.word
    if word.startswith("(") or (word.endswith(")") and "(" not in word):
        raise UsageError(f"{place}: parentheses are words of their own; put a space on both sides")


_ENGINES = frozenset(engine.value for engine in Engine if engine.value)
_KNOWN = " ".join(f"{letter}@" for letter in "GPIJLNSETM")


Groups = Mapping[str, str | list[str]]

_ENGINE = re.compile(r"[A-Z].?@", re.DOTALL)
_REGEX = re.compile(r"[(\[{\\?}\])]")


def parse_compound(text: str, groups: Groups) -> Expression:
    """The compound target with its nodegroups expanded. Raises UsageError, with the word and its position."""
    return _Reader(groups).read(words_of(text), (), 0)


def parse_nodegroup(name: str, groups: Groups) -> Expression:
    """The expression of a nodegroup. Raises UsageError, with the name of the group."""
    return _Reader(groups).group(Term(Engine.NODEGROUP, name, WordPosition(name, 0)), (), 0)


class _Reader:
    """Reads one target with its nodegroups, and counts all words."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._words = 0

    def read(self, words: Sequence[WordPosition], chain: tuple[str, ...], depth: int) -> Expression:
        """The expression of these words inside the groups of `chain`."""
        self._words += len(words)
        if self._words > WORDS_MAX:
            raise UsageError(f"the target has more than {WORDS_MAX} words, with those of its nodegroups: divide it")
        return Parser(words, lambda term, depth: self.group(term, chain, depth), depth).parse()

    def group(self, term: Term, chain: tuple[str, ...], depth: int) -> Expression:
        """The expression of the nodegroup that this term names."""
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


def located(place: WordPosition, text: str) -> str:
    """The text of an error with the position of its word, except for a target of one word."""
    return f"{place}: {text}" if place.number else text


def _words(name: str, definition: str | list[str]) -> list[WordPosition]:
    if isinstance(definition, str):
        return words_of(definition, name)
    return [WordPosition(str(word), number, 0, name) for number, word in enumerate(definition, 1)]


def _names(words: Sequence[WordPosition], *, several: bool) -> Term | None:
    """The words as one list or regular expression, if all are names; None otherwise, and for one plain name."""
    texts = [place.word for place in words]
    if any(text in OPERATORS or "*" in text or _ENGINE.match(text) for text in texts):
        return None
    if any(_REGEX.search(text) for text in texts):
        pattern = texts[0] if len(texts) == 1 else "|".join(f"(?:{text})" for text in texts)
        return Term(Engine.PCRE, pattern, WordPosition(f"E@{pattern}", 1, 0, words[0].group))
    if several or "," in texts[0]:
        pattern = ",".join(texts)
        return Term(Engine.LIST, pattern, WordPosition(f"L@{pattern}", 1, 0, words[0].group))
    return None


def _way_out(name: str, groups: Groups) -> str:
    if not groups:
        return ": the master's configuration defines none"
    near = get_close_matches(name[:80], groups, 1)
    known = ", ".join(sorted(groups)[:10])
    return f"; did you mean {near[0]!r}?" if near else f"; there are {known}{' …' if len(groups) > 10 else ''}"
