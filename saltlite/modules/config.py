"""Read the minion's configuration, and what grains and pillar say under the same name.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.hints import __grains__, __opts__, __pillar__

_MISSING = object()


def get(key: str, default: Any = "", delimiter: str = ":") -> Any:
    """
    The value of a key in the minion's configuration, else in its grains, else in its pillar.

    The parts of the key are separated by ``delimiter``. A key that none of them has gives ``default``.

    CLI Example::

        saltlite '*' config.get run_timeout
        saltlite '*' config.get apache:port default=80
    """
    for source in (__opts__, __grains__, __pillar__):
        value = _find(source, str(key), delimiter)
        if value is not _MISSING:
            return value
    return default


def option(value: str, default: Any = "") -> Any:
    """
    The value of one option, looked up as ``get`` does but without splitting the name.

    CLI Example::

        saltlite '*' config.option test.foo
    """
    for source in (__opts__, __grains__, __pillar__):
        if value in source:
            return source[value]
    return default


def _find(source: dict[str, Any], key: str, delimiter: str) -> Any:
    if key in source:
        return source[key]
    found: Any = source
    for part in key.split(delimiter):
        if not isinstance(found, dict) or part not in found:
            return _MISSING
        found = found[part]
    return found
