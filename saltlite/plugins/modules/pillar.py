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
from saltlite.plugins.modules import _nested

if TYPE_CHECKING:
    from saltlite.loader.hints import __pillar__

_MASK = "**********"
"""What Salt shows for a masked value."""


def get(
    key: str,
    default: Any = "",
    merge: bool = False,  # noqa: FBT001, FBT002, RUF100 - Salt's signature
    merge_nested_lists: bool = False,  # noqa: FBT001, FBT002, RUF100 - as above
    *,
    delimiter: str = ":",
    unmask: bool = True,
) -> Any:
    """A value of the pillar: the parts of the key are separated by ``delimiter``, numbers count the items of a list.

    A key that does not exist gives ``default``. With ``merge`` a default that is a map is completed by the pillar, and
    one that is a list is continued by it; ``merge_nested_lists`` joins lists in maps, too. With ``unmask=False`` there
    are asterisks in the place of each value.

    CLI Example::

        saltlite '*' pillar.get pkg:apache
        saltlite '*' pillar.get users:0:name default=nobody
        saltlite '*' pillar.get settings default='{port: 80}' merge=True
    """
    value = _find(key, delimiter)
    if value is _nested.MISSING:
        found = default
    elif merge and isinstance(default, Mapping) and isinstance(value, Mapping):
        found = _nested.laid_over(default, value, lists=merge_nested_lists)
    elif merge and isinstance(default, list) and isinstance(value, list):
        found = [*default, *value]
    else:
        found = value
    return _shown(found, unmask=unmask)


def items(*args: str, unmask: bool = True) -> dict[str, Any]:
    """All of the pillar; or the named values, as ``item`` shows them. ``unmask=False`` has asterisks in their place.

    CLI Example::

        saltlite '*' pillar.items
        saltlite '*' pillar.items unmask=False
    """
    return item(*args, unmask=unmask) if args else _shown(dict(__pillar__), unmask=unmask)


def data(*args: str, unmask: bool = True) -> dict[str, Any]:
    """The same as ``items``.

    CLI Example::

        saltlite '*' pillar.data
    """
    return items(*args, unmask=unmask)


def fetch(
    key: str,
    default: Any = "",
    merge: bool = False,  # noqa: FBT001, FBT002, RUF100 - Salt's signature
    merge_nested_lists: bool = False,  # noqa: FBT001, FBT002, RUF100 - as above
    *,
    delimiter: str = ":",
    unmask: bool = True,
) -> Any:
    """The same as ``get``.

    CLI Example::

        saltlite '*' pillar.fetch pkg:apache
    """
    return get(key, default, merge, merge_nested_lists, delimiter=delimiter, unmask=unmask)


def filter_by(
    lookup_dict: dict[Any, Any],
    pillar: str,
    merge: dict[Any, Any] | None = None,
    default: str = "default",
    base: str | None = None,
) -> Any:
    """The value whose key, a glob, matches what the pillar has under ``pillar``; of a list the first that any key
    matches.

    Without a match that of the key ``default``, or ``None``. A map is laid over that of the key ``base``, and ``merge``
    over what came of it.

    CLI Example::

        saltlite '*' pillar.filter_by '{web: Serve it up, db: I query, default: x_x}' role
    """
    return _nested.chosen(lookup_dict, get(pillar, []), merge, default, base)


def obfuscate(*args: str) -> Any:
    """All of the pillar, or the named values, with the type of each value in its place, such as ``<str>``.

    CLI Example::

        saltlite '*' pillar.obfuscate
    """
    return _types(items(*args))


def raw(key: str | None = None, *, unmask: bool = True) -> Any:
    """All of the pillar, or one key of it as it is; ``{}`` for a key that does not exist.

    CLI Example::

        saltlite '*' pillar.raw
        saltlite '*' pillar.raw key=roles
    """
    return _shown(__pillar__.get(key, {}) if key else dict(__pillar__), unmask=unmask)


def item(*args: str, default: Any = "", delimiter: str = ":", unmask: bool = True) -> dict[str, Any]:
    """The named values; one that does not exist has the value of ``default``.

    CLI Example::

        saltlite '*' pillar.item roles
        saltlite '*' pillar.item roles users:0 default=none
    """
    return {name: get(name, default, delimiter=delimiter, unmask=unmask) for name in args}


def ls() -> list[str]:
    """The keys of the pillar, sorted; no value is shown.

    CLI Example::

        saltlite '*' pillar.ls
    """
    return sorted(map(str, __pillar__))


def keys(key: str, delimiter: str = ":") -> list[Any]:
    """The keys of a map inside the pillar.

    CLI Example::

        saltlite '*' pillar.keys users
    """
    value = _find(key, delimiter)
    if value is _nested.MISSING:
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
    return _nested.find(__pillar__, key, delimiter)


def _shown(value: Any, *, unmask: bool) -> Any:
    if unmask or value is None or value == "":
        return value
    if isinstance(value, Mapping):
        return {key: _shown(each, unmask=False) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(each, unmask=False) for each in value]
    return _MASK
