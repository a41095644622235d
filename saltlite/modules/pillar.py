"""Show the pillar: what the master gives this minion of its own.

It is fetched when the minion connects, and by ``saltutil.refresh_pillar``. Where the master could not make all of it,
``_errors`` lists why.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError

if TYPE_CHECKING:
    from saltlite.loader.hints import __pillar__

_MISSING: Any = object()


def get(key: str, default: Any = "", merge: bool = False, *, delimiter: str = ":") -> Any:  # noqa: FBT001, FBT002, RUF100 - Salt's signature
    """
    A value of the pillar: the parts of the key are separated by ``delimiter``, numbers count the items of a list.

    A key that does not exist gives ``default``. With ``merge`` a default that is a map is completed by the pillar, and
    one that is a list is continued by it.

    CLI Example::

        saltlite '*' pillar.get pkg:apache
        saltlite '*' pillar.get users:0:name default=nobody
        saltlite '*' pillar.get settings default='{port: 80}' merge=True
    """
    value = _find(key, delimiter)
    if merge and isinstance(default, Mapping) and isinstance(value, Mapping):
        return _merged(default, value)
    if merge and isinstance(default, list) and isinstance(value, list):
        return [*default, *value]
    return default if value is _MISSING else value


def items() -> dict[str, Any]:
    """
    All of the pillar.

    CLI Example::

        saltlite '*' pillar.items
    """
    return dict(__pillar__)


def data() -> dict[str, Any]:
    """
    The same as ``items``.

    CLI Example::

        saltlite '*' pillar.data
    """
    return items()


def fetch(key: str, default: Any = "", merge: bool = False, *, delimiter: str = ":") -> Any:  # noqa: FBT001, FBT002, RUF100 - Salt's signature
    """
    The same as ``get``.

    CLI Example::

        saltlite '*' pillar.fetch pkg:apache
    """
    return get(key, default, merge, delimiter=delimiter)


def obfuscate() -> Any:
    """
    All of the pillar with the type of each value in its place, such as ``<str>``.

    CLI Example::

        saltlite '*' pillar.obfuscate
    """
    return _types(dict(__pillar__))


def raw(key: str | None = None) -> Any:
    """
    All of the pillar, or one key of it as it is; ``{}`` for a key that does not exist.

    CLI Example::

        saltlite '*' pillar.raw
        saltlite '*' pillar.raw key=roles
    """
    return __pillar__.get(key, {}) if key else dict(__pillar__)


def item(*args: str, default: Any = "", delimiter: str = ":") -> dict[str, Any]:
    """
    The named values; one that does not exist has the value of ``default``.

    CLI Example::

        saltlite '*' pillar.item roles
        saltlite '*' pillar.item roles users:0 default=none
    """
    return {name: get(name, default, delimiter=delimiter) for name in args}


def ls() -> list[str]:
    """
    The keys of the pillar, sorted; no value is shown.

    CLI Example::

        saltlite '*' pillar.ls
    """
    return sorted(map(str, __pillar__))


def keys(key: str, delimiter: str = ":") -> list[Any]:
    """
    The keys of a map inside the pillar.

    CLI Example::

        saltlite '*' pillar.keys users
    """
    value = _find(key, delimiter)
    if value is _MISSING:
        raise CommandExecutionError(f"The pillar has no {key!r}.")
    if not isinstance(value, Mapping):
        raise CommandExecutionError(f"The value of {key!r} in the pillar is no map: it has no keys.")
    return list(value)


def _types(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _types(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_types(each) for each in value]
    return f"<{type(value).__name__}>"


def _find(key: Any, delimiter: str) -> Any:
    if key in __pillar__:
        return __pillar__[key]
    value: Any = __pillar__
    for part in str(key).split(delimiter):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif part.isdecimal() and _has(value, int(part)):
            value = value[int(part)]
        else:
            return _MISSING
    return value


def _has(value: Any, number: int) -> bool:
    return number in value if isinstance(value, Mapping) else isinstance(value, list | tuple) and number < len(value)


def _merged(first: Mapping[Any, Any], later: Mapping[Any, Any]) -> dict[Any, Any]:
    both = dict(first)
    for key, value in later.items():
        before = both.get(key)
        maps = isinstance(before, Mapping) and isinstance(value, Mapping)
        both[key] = _merged(before, value) if maps else value  # type: ignore[arg-type]  # a map, as `maps` says
    return both
