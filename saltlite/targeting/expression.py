"""What a target says, taken apart: terms, and how `and`, `or` and `not` join them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Engine(StrEnum):
    """What the pattern of a term is compared with: the letter in front of its `@`, "" for a plain word."""

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
class Place:
    """Where a word stands, for messages."""

    word: str
    number: int
    """From 1; 0 for a target that is not compound, and so is one word."""
    column: int = 0
    """From 1, in characters; 0 where words are given one by one."""
    group: str = ""
    """The nodegroup whose definition has the word; "" for the target itself."""

    def __str__(self) -> str:
        """As in `nodegroup 'web', word 3 ('and'), column 9`; of a target that is one word, the word."""
        if not self.number:
            return repr(self.word[:80])
        group = f"nodegroup {self.group!r}, " if self.group else ""
        column = f", column {self.column}" if self.column else ""
        return f"{group}word {self.number} ({self.word[:80]!r}){column}"


@dataclass(frozen=True, slots=True)
class Term:
    """One word that something can be asked about."""

    engine: Engine
    pattern: str
    place: Place
    delimiter: str = ":"


@dataclass(frozen=True, slots=True)
class Not:
    """True where the other is not."""

    one: Expression


@dataclass(frozen=True, slots=True)
class And:
    """True where all are."""

    all: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True where one is."""

    any: tuple[Expression, ...]


Expression: TypeAlias = Term | Not | And | Or


def terms_of(expression: Expression, *, positive: bool = True) -> Iterator[tuple[Term, bool]]:
    """Each term from left to right, and whether it stands under an even number of `not`."""
    match expression:
        case Term():
            yield expression, positive
        case Not(one):
            yield from terms_of(one, positive=not positive)
        case And(parts) | Or(parts):
            for part in parts:
                yield from terms_of(part, positive=positive)


def written(expression: Expression) -> str:
    """The expression as a compound target: what a parser reads as the same expression again."""
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
