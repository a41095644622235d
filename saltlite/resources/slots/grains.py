"""Show the grains of a resource, as they were collected at its registration.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__


def items() -> dict[str, Any]:
    """
    All grains.

    CLI Example: ``saltlite -C 'T@ssh' grains.items``
    """
    return dict(__grains__)


def item(*args: str, default: Any = "", delimiter: str = ":") -> dict[str, Any]:
    """
    The named grains; a grain that does not exist has the value of ``default``.

    CLI Example: ``saltlite -C 'T@ssh' grains.item os osrelease``
    """
    return {name: get(name, default, delimiter) for name in args}


def get(key: str, default: Any = "", delimiter: str = ":") -> Any:
    """
    One grain, or a value inside it: the parts of the key are separated by ``delimiter``.

    Numbers count the items of a list. A key that does not exist gives ``default``.

    CLI Example: ``saltlite -C 'T@ssh' grains.get os``
    """
    if key in __grains__:
        return __grains__[key]
    value: Any = __grains__
    for part in str(key).split(delimiter):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return default
    return value


def ls() -> list[str]:
    """
    The names of all grains, sorted.

    CLI Example: ``saltlite -C 'T@ssh' grains.ls``
    """
    return sorted(__grains__)
