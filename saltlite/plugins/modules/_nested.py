"""Access to nested values for `grains`, `pillar`, `config` and `match`: find by path, choose, merge."""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Mapping
from typing import Any

from saltlite.errors import SaltInvocationError

MISSING: Any = object()
"""Returned by `find` for a missing value."""


def find(source: Any, key: Any, delimiter: str = ":") -> Any:
    """Return the value at a path of keys, or MISSING. A key that exists as a whole has precedence.

    A number is an index into a list. Another word selects the first map in a list that has it, as Salt's
    `traverse_dict_and_list` does.
    """
    if isinstance(source, Mapping) and isinstance(key, str | int | float | bool | None) and key in source:
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


def laid_over(under: Mapping[Any, Any], over: Mapping[Any, Any], *, lists: bool = False) -> dict[Any, Any]:
    """Merge `over` over `under`, recursively; with `lists`, lists in both are joined."""
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


def chosen(
    lookup_dict: Mapping[Any, Any], value: Any, merge: Mapping[Any, Any] | None, default: str, base: str | None
) -> Any:
    """Implement `filter_by`: return the value whose key, a glob, matches one of the values.

    Raises SaltInvocationError if a value to merge is no map.
    """
    if merge and not isinstance(merge, Mapping):
        raise SaltInvocationError("What is merged is a map, as in '{pkg: httpd}'.")
    if not isinstance(lookup_dict, Mapping):
        raise SaltInvocationError("The values to choose from are a map, as in '{Debian: apache2, RedHat: httpd}'.")
    found = _matching(lookup_dict, value if isinstance(value, list | tuple) else [value])
    if found is None:
        found = lookup_dict.get(default)
    under = lookup_dict.get(base) if base else None
    if under is not None and found is None:
        found = under
    elif isinstance(under, Mapping):
        if not isinstance(found, Mapping):
            raise SaltInvocationError("Where base is a map, what is chosen is a map, too.")
        found = laid_over(under, found)
    if not merge:
        return found
    if not isinstance(found, Mapping | None):
        raise SaltInvocationError("Only a map can have something merged into it.")
    return laid_over(found or {}, merge)


def _matching(lookup: Mapping[Any, Any], values: list[Any] | tuple[Any, ...]) -> Any:
    for value in values:
        for pattern, found in lookup.items():
            if fnmatch.fnmatchcase(str(value), str(pattern)):
                if found is not None:
                    return found
                break
    return None
