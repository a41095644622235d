"""The configuration of the master.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.hints import __config__

_NOTHING = object()


def get(key: str, default: Any = "", delimiter: str = ":") -> Any:
    """Return the value of an option of the master, or a value inside it. Secrets are hidden.

    Keys are split at the delimiter. In a list, a number is an index.

    CLI Example::

        saltlite-run config.get timeout
        saltlite-run config.get file_roots:base
        saltlite-run config.get file_roots,base delimiter=','
    """
    found: Any = __config__
    for part in key.split(delimiter) if delimiter else [key]:
        found = _inside(found, part)
        if found is _NOTHING:
            return default
    return found


def _inside(value: Any, part: str) -> Any:
    if isinstance(value, dict):
        return value.get(part, _NOTHING)
    if isinstance(value, list):
        if part.isdecimal():
            return value[int(part)] if int(part) < len(value) else _NOTHING
        # Salt searches lists of maps this way.
        return next((one[part] for one in value if isinstance(one, dict) and part in one), _NOTHING)
    return _NOTHING
