"""The content of a configuration file with the position of each value; independent of the YAML library.

Plain scalars follow the core schema of YAML 1.2, made stricter: `yes`, `no`, `on`, `off`, dates and `12:30:45` are
text. So is a number with a leading zero (YAML 1.1 and 1.2 disagree about `0644`), and one that exceeds 64 bits or a
finite float. Keys of maps are always text, exactly as written.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from saltlite.errors import ConfigError
from saltlite.model.dataclass import dataclass

_SHOWN_CHARS = 60

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,19})", re.ASCII)
_BASED_INT = re.compile(r"0o[0-7]{1,22}|0x[0-9a-fA-F]{1,16}", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class Where(NamedTuple):
    """A position in a file; both count from 1, columns in characters."""

    line: int
    column: int


class PlacedError(ConfigError):
    """A problem at one position of a file."""

    def __init__(self, where: Where, sentence: str) -> None:
        super().__init__(sentence)
        self.where = where


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value as it was written; `quoted` also for block scalars (`|` and `>`)."""

    where: Where
    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list of values."""

    where: Where
    items: tuple[Written, ...]


@dataclass(frozen=True, slots=True)
class Map:
    """A map; no key occurs twice."""

    where: Where
    pairs: tuple[tuple[Scalar, Written], ...]


Written = Scalar | Sequence | Map


def resolve(text: str) -> str | int | float | bool | None:
    """The value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text) or _BASED_INT.fullmatch(text):
        number = int(text, 0)
        return number if -(2**63) <= number < 2**64 else text
    if _FLOAT.fullmatch(text):
        real = float(text)
        return real if math.isfinite(real) else text
    return text


def value_of(written: Written) -> Any:
    """The Python value of what was written: None, bool, int, float, str, list and dict with text keys."""
    match written:
        case Scalar():
            return written.text if written.quoted else resolve(written.text)
        case Sequence():
            return [value_of(item) for item in written.items]
        case Map():
            return {key.text: value_of(value) for key, value in written.pairs}


def is_empty(written: Written) -> bool:
    """Whether nothing was written (or null, which is the same)."""
    return isinstance(written, Scalar) and not written.quoted and resolve(written.text) is None


def describe(written: Written) -> str:
    """What was written, for a message; long text is cut."""
    match written:
        case Scalar():
            shown = written.text if len(written.text) <= _SHOWN_CHARS else f"{written.text[:_SHOWN_CHARS]}..."
            return f"the quoted text {shown!r}" if written.quoted else repr(shown)
        case Sequence():
            return "a list" if written.items else "an empty list"
        case Map():
            return "a map" if written.pairs else "an empty map"
