"""Values inside of values: what `grains`, `config` and `match` have in common.

What belongs here: finding by a path of keys, and laying one map over another. It knows nothing of where they come from.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from saltlite.errors import SaltInvocationError

MISSING: Any = object()
"""What `find` gives for what is not there."""


def find(source: Any, key: Any, delimiter: str = ":") -> Any:
    """The value under a path of keys, or MISSING: a key that is there as a whole goes first.

    A number counts the items of a list; another word is looked for in the maps of a list, and the first that has it
    is taken, as Salt's `traverse_dict_and_list` does.
    """
    if isinstance(source, Mapping) and _hashable(key) and key in source:
        return source[key]
    if not delimiter:
        raise SaltInvocationError("A delimiter is at least one character.")
    value = source
    for part in str(key).split(delimiter):
        value = _step(value, part)
        if value is MISSING:
            break
    return value


def _step(value: Any, part: str) -> Any:
    if isinstance(value, Mapping):
        if part in value:
            return value[part]
        return value.get(int(part), MISSING) if _number(part) else MISSING
    if not isinstance(value, list | tuple):
        return MISSING
    if _number(part):
        return value[int(part)] if int(part) < len(value) else MISSING
    return next((inner[part] for inner in value if isinstance(inner, Mapping) and part in inner), MISSING)


def _number(part: str) -> bool:
    return part.isascii() and part.isdecimal() and len(part) < 10


def _hashable(key: Any) -> bool:
    return isinstance(key, str | int | float | bool | None)


def laid_over(under: Mapping[Any, Any], over: Mapping[Any, Any], *, lists: bool = False) -> dict[Any, Any]:
    """A new map: that of `over`, completed by `under`; maps in both are so too. `lists` in both are joined."""
    both = copy.deepcopy(dict(under))
    for key, value in over.items():
        before = both.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            both[key] = laid_over(before, value, lists=lists)
        elif lists and isinstance(before, list) and isinstance(value, list):
            both[key] = [*before, *(copy.deepcopy(each) for each in value if each not in before)]
        else:
            both[key] = copy.deepcopy(value)
    return both
