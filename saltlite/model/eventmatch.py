"""Which events are meant: a glob for the tag, and globs for what is in the data.

A field of the data is written with dots, `data.version` or `body.ref`; a number counts the items of a list. It matches
when its value is plain (text, number, true, false, none) and its text matches the glob; a field that is not there, and
one that is a list or a map, matches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

MISSING: Any = object()
"""What `field_of` answers for a field that is not there."""
FIELD_MAX = 256
"""Characters of the name of a field."""

DIGITS_MAX = 20
"""Characters of the longest integer that a key may be."""


def field_of(data: Any, path: str) -> Any:
    """The value of a field, MISSING when there is none. A key with dots in its name is found by its whole rest."""
    here = data
    parts = path.split(".")
    for number, part in enumerate(parts):
        if isinstance(here, Mapping):
            whole = ".".join(parts[number:])
            if part not in here and whole in here:
                return here[whole]
            here = here[part] if part in here else _under_number(here, part)
        elif isinstance(here, Sequence) and not isinstance(here, str | bytes) and part.isascii() and part.isdigit():
            here = here[int(part)] if len(part) < 10 and int(part) < len(here) else MISSING
        else:
            return MISSING
        if here is MISSING:
            return MISSING
    return here


def _under_number(here: Mapping[Any, Any], part: str) -> Any:
    """The value under a key that is an integer: a path has text only, as JSON has."""
    if len(part) <= DIGITS_MAX and part.removeprefix("-").isascii() and part.removeprefix("-").isdigit():
        return here.get(int(part), MISSING)
    return MISSING


def text_of(value: Any) -> str | None:
    """The one text of a plain value, as YAML writes it; None for anything else."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else None


def matches(data: Any, wanted: Mapping[str, str]) -> bool:
    """Whether each of these fields is there and matches its glob."""
    for path, glob in wanted.items():
        value = field_of(data, path)
        text = None if value is MISSING else text_of(value)
        if text is None or not fnmatchcase(text, glob):
            return False
    return True
