"""The types of request fields: each checks the type, and the range or length, of a value.

The table of verbs (`saltlite.master.handlers.operator_verbs`) declares the fields of a verb with these; `publish`
declares its own beside `PublishRequest`. A request is checked before its handler runs. Values inside lists and maps
that are only passed on, such as the arguments of a job, are checked by the codec.
"""

from __future__ import annotations

import math
from typing import Final, Protocol

from saltlite.model.dataclass import dataclass

TEXT_MAX: Final = 1024 * 1024
"""Characters of a text that has no shorter limit, such as a target that lists thousands of names."""
LIST_MAX: Final = 100_000
"""Items of a list that has no smaller limit."""
KEYS_MAX: Final = 100_000
"""Keys of a map that has no smaller limit."""
INTEGER_MAX: Final = 2**63 - 1
"""The largest integer that the store can hold."""
MOMENT_MAX: Final = 253_402_300_799
"""The last second of the year 9999, since 1970: what a time may be."""


class Field(Protocol):
    """One type of value."""

    def problem(self, value: object) -> str:
        """What the value must be, if it is not; "" for a valid value."""
        ...


@dataclass(frozen=True, slots=True)
class TextField:
    """Text that can be written as UTF-8 and has no NUL character; `longest` counts characters."""

    longest: int = TEXT_MAX

    def problem(self, value: object) -> str:
        if not isinstance(value, str):
            return "it must be text"
        if len(value) > self.longest:
            return f"it may have {self.longest} characters, not {len(value)}"
        if "\0" in value:
            return "it has a NUL character"
        return "" if _is_unicode(value) else "it has a character that is not valid Unicode"


@dataclass(frozen=True, slots=True)
class OpaqueField:
    """Text of any characters, which is only compared with a pattern: an invalid token is refused as a failed login."""

    longest: int

    def problem(self, value: object) -> str:
        if not isinstance(value, str):
            return "it must be text"
        return "" if len(value) <= self.longest else f"it may have {self.longest} characters, not {len(value)}"


@dataclass(frozen=True, slots=True)
class IntegerField:
    """An integer from `least` to `most`."""

    least: int = 0
    most: int = INTEGER_MAX

    def problem(self, value: object) -> str:
        if isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most:
            return ""
        return f"it must be a whole number from {self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class NumberField:
    """A finite number from `least` to `most`."""

    least: float = 0
    most: float = MOMENT_MAX

    def problem(self, value: object) -> str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            # An integer that is too large for a float would make isfinite raise.
            in_range = self.least <= value <= self.most
            if in_range and math.isfinite(value):
                return ""
        return f"it must be a number from {self.least:g} to {self.most:.15g}"


@dataclass(frozen=True, slots=True)
class BooleanField:
    """True or False."""

    def problem(self, value: object) -> str:
        return "" if isinstance(value, bool) else "it must be true or false"


@dataclass(frozen=True, slots=True)
class BytesField:
    """Bytes."""

    longest: int

    def problem(self, value: object) -> str:
        if not isinstance(value, bytes):
            return "it must be bytes"
        return "" if len(value) <= self.longest else f"it may have {self.longest} bytes, not {len(value)}"


@dataclass(frozen=True, slots=True)
class ListField:
    """A list of items of one type, or of any."""

    item: Field | None = None
    most: int = LIST_MAX

    def problem(self, value: object) -> str:
        if not isinstance(value, list):
            return "it must be a list"
        if len(value) > self.most:
            return f"it may have {self.most} items, not {len(value)}"
        if self.item is not None:
            for number, item in enumerate(value, start=1):
                wrong = self.item.problem(item)
                if wrong:
                    return f"item {number} of it is wrong: {wrong}"
        return ""


@dataclass(frozen=True, slots=True)
class MapField:
    """A map from texts to any values."""

    most: int = KEYS_MAX

    def problem(self, value: object) -> str:
        if not isinstance(value, dict):
            return "it must be a map"
        if len(value) > self.most:
            return f"it may have {self.most} keys, not {len(value)}"
        for key in value:
            if not isinstance(key, str):
                return f"its key {key!r} must be text"
            if not _is_unicode(key):
                return "one of its keys has a character that is not valid Unicode"
        return ""


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value of one of these types."""

    kinds: tuple[Field, ...]

    def problem(self, value: object) -> str:
        wrong = [kind.problem(value) for kind in self.kinds]
        return "" if "" in wrong else " or ".join(dict.fromkeys(wrong))


@dataclass(frozen=True, slots=True)
class CallField:
    """One function of a job: [function, arguments, keyword arguments]."""

    def problem(self, value: object) -> str:
        match value:
            case [str() as fun, list(), dict() as kwargs]:
                wrong = TextField().problem(fun)
                return wrong or (f"keyword arguments: {wrong}" if (wrong := MapField().problem(kwargs)) else "")
        return "it must be a list of a function, its arguments and its keyword arguments"


Names: Final = ListField(TextField())
"""A list of texts."""
NamesOrText: Final = OneOf((TextField(), Names))
"""One name, several with commas, or a list of them."""


def _is_unicode(text: str) -> bool:
    # ASCII text, which is most of it, answers without being encoded.
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


NAME = TextField(8192)
"""A name, an id, a path or a word. This is longer than any limit of a handler, whose error names that limit."""
TOKEN = OpaqueField(8192)
