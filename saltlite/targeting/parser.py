"""Reads compound targets: `G@os:Debian and ( web* or L@db1,db2 ) and not E@.*-test`.

    or_expr  = and_expr { "or" and_expr }
    and_expr = not_expr { "and" not_expr | "not" atom }
    not_expr = [ "not" ] atom
    atom     = "(" or_expr ")" | term
    term     = [ engine [ delimiter ] "@" ] pattern

Words are divided by white space, parentheses are words of their own, and the words of operators are lower case. The
delimiter is one character, and only G, P, I and J have one. Every error names the word and its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from saltlite.errors import UsageError
from saltlite.targeting.expression import And, Engine, Expression, Not, Or, Place, Term

TARGET_MAX = 64 * 1024
"""Characters of one target, and of one nodegroup; only a plain list of names may be longer."""

DEPTH_MAX = 32
"""Parentheses and nodegroups inside each other."""

WORDS_MAX = 4096
"""Words of one target, with those of the nodegroups that it names."""

OPERATORS = frozenset({"and", "or", "not", "(", ")"})

_WORD = re.compile(r"\S+")
_TERM = re.compile(r"(?P<engine>[A-Z])(?P<delimiter>(?<=[GPIJ]).)?@(?P<pattern>.*)", re.DOTALL)

Expand = Callable[[Term, int], Expression]
"""What the term of a nodegroup stands for, at that depth."""


def words_of(text: str, group: str = "") -> list[Place]:
    """The words of a target, or of the definition of that nodegroup. Raises UsageError for a long target."""
    if len(text) > TARGET_MAX:
        whose = f"nodegroup {group!r}" if group else "the target"
        raise UsageError(f"{whose} is too long: at most {TARGET_MAX} characters; name many minions with -L")
    found = enumerate(_WORD.finditer(text), 1)
    return [Place(match.group(), number, match.start() + 1, group) for number, match in found]


def parse_term(place: Place) -> Term:
    """The term that this word is. Raises UsageError for one whose engine is none, or which asks nothing."""
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
    """Reads the words of one definition; nodegroups in it are expanded by what it was given."""

    def __init__(self, words: Sequence[Place], expand: Expand, depth: int = 0) -> None:
        self._words = words
        self._next = 0
        self._depth = depth
        self._expand = expand

    def parse(self) -> Expression:
        """The expression that all the words are. Raises UsageError, with the word and its place."""
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

    def _take(self) -> Place:
        if self._next < len(self._words):
            self._next += 1
            return self._words[self._next - 1]
        if not self._words:
            raise UsageError("the target says nothing: write a condition, such as web* or G@os:Debian")
        raise UsageError(f"{self._words[-1]}: a condition is missing after it, such as web* or G@os:Debian")

    def _close(self, opened: Place) -> None:
        if self._is(")"):
            return
        if self._next < len(self._words):
            raise _no_operator(self._words[self._next])
        raise UsageError(f"{opened}: this parenthesis is never closed; parentheses are words of their own")


def _no_operator(place: Place) -> UsageError:
    return UsageError(f"{place}: an operator is missing before it; write `and` or `or`")


def _refuse_parenthesis(place: Place) -> None:
    word = place.word
    if word.startswith("(") or (word.endswith(")") and "(" not in word):
        raise UsageError(f"{place}: parentheses are words of their own; put a space on both sides")


_ENGINES = frozenset(engine.value for engine in Engine if engine.value)
_KNOWN = " ".join(f"{letter}@" for letter in "GPIJLNSETM")
