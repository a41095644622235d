"""Show the pillar that the master gives this minion.

It is fetched when the minion connects, and by ``saltutil.refresh_pillar``. ``_errors`` lists what the master could not
compile; functions that show the whole pillar, or miss a key, then have the return code 5.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.decorators import note
from saltlite.errors import CommandExecutionError
from saltlite.plugins.modules import _nested

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __master__, __opts__, __pillar__

_MASK = "**********"
"""Salt's mask of hidden values."""
_ERRORS = "_errors"
_EX_PILLAR = 5
"""Salt's return code for a pillar that could not be compiled."""
_UNSET = "__unset__"
"""Salt's word for a default that was not given."""


class _PillarKeyError(CommandExecutionError, KeyError):
    """The pillar does not have the key. It is a KeyError, too, because that is what Salt's function raises."""

    def __str__(self) -> str:
        return Exception.__str__(self)


def get(
    key: str,
    default: Any = _UNSET,
    merge: bool = False,  # noqa: FBT001, FBT002, RUF100 - Salt's signature
    merge_nested_lists: bool = False,  # noqa: FBT001, FBT002, RUF100 - as above
    *,
    delimiter: str = ":",
    unmask: bool = True,
) -> Any:
    """Return a value of the pillar; ``delimiter`` separates the parts of the key, and a number is an index into a list.

    A missing key gives ``default``. Without a default it gives an empty text, or is an error if the minion's option
    ``pillar_raise_on_missing`` is true. ``merge`` merges the pillar over a default that is a map, or appends it to a
    list; ``merge_nested_lists`` also joins nested lists. ``unmask=False`` replaces values by asterisks.

    CLI Example::

        saltlite '*' pillar.get pkg:apache
        saltlite '*' pillar.get users:0:name default=nobody
        saltlite '*' pillar.get settings default='{port: 80}' merge=True
        saltlite '*' pillar.fetch pkg:apache
    """
    value = _find(key, delimiter)
    if value is _nested.MISSING:
        _report_errors()
        if default == _UNSET and __opts__.get("pillar_raise_on_missing"):
            raise _PillarKeyError(f"Pillar key not found: {key}")
        found = "" if default == _UNSET else default
    elif merge and isinstance(default, Mapping) and isinstance(value, Mapping):
        found = _nested.laid_over(default, value, lists=merge_nested_lists)
    elif merge and isinstance(default, list) and isinstance(value, list):
        found = [*default, *value]
    else:
        found = value
    return _shown(found, unmask=unmask)


def items(*args: str, unmask: bool = True) -> dict[str, Any]:
    """Return the whole pillar, or the named values like ``item``. ``unmask=False`` replaces values by asterisks.

    CLI Example::

        saltlite '*' pillar.items
        saltlite '*' pillar.items unmask=False
        saltlite '*' pillar.data
    """
    return item(*args, unmask=unmask) if args else _shown(_whole(), unmask=unmask)


data = items


fetch = get


def filter_by(
    lookup_dict: dict[Any, Any],
    pillar: str,
    merge: dict[Any, Any] | None = None,
    default: str = "default",
    base: str | None = None,
) -> Any:
    """Return the value of the first key, a glob, that matches the pillar's value, or one of its values if it is a list.

    Without a match, the value of the key ``default``, or ``None``. A map is merged over that of the key ``base``, and
    ``merge`` over the result.

    CLI Example: ``saltlite '*' pillar.filter_by '{web: Serve it up, db: I query, default: x_x}' role``
    """
    return _nested.chosen(lookup_dict, get(pillar, []), merge, default, base)


def obfuscate(*args: str) -> Any:
    """Return the pillar, or the named values, with values replaced by their types, such as ``<str>``.

    CLI Example: ``saltlite '*' pillar.obfuscate``
    """
    return _types(items(*args))


def raw(key: str | None = None, *, unmask: bool = True) -> Any:
    """Return the whole pillar, or one key without splitting it; ``{}`` for a missing key.

    CLI Example::

        saltlite '*' pillar.raw
        saltlite '*' pillar.raw key=roles
    """
    if not key:
        return _shown(_whole(), unmask=unmask)
    if key not in __pillar__:
        _report_errors()
    return _shown(__pillar__.get(key, {}), unmask=unmask)


def item(*args: str, default: Any = "", delimiter: str = ":", unmask: bool = True) -> dict[str, Any]:
    """Return the named values; a missing one has the value of ``default``.

    CLI Example::

        saltlite '*' pillar.item roles
        saltlite '*' pillar.item roles users:0 default=none
    """
    return {name: get(name, default, delimiter=delimiter, unmask=unmask) for name in args}


def ls() -> list[str]:
    """Return the keys of the pillar, sorted.

    CLI Example: ``saltlite '*' pillar.ls``
    """
    return sorted(map(str, _whole()))


def keys(key: str, delimiter: str = ":") -> list[Any]:
    """Return the keys of a map inside the pillar.

    CLI Example: ``saltlite '*' pillar.keys users``
    """
    value = _find(key, delimiter)
    if value is _nested.MISSING:
        raise CommandExecutionError(f"The pillar has no {key!r}.")
    if not isinstance(value, Mapping):
        raise CommandExecutionError(f"The value of {key!r} in the pillar is not a map: it has no keys.")
    return list(value)


def _whole() -> dict[str, Any]:
    _report_errors()
    return dict(__pillar__)


def _report_errors() -> None:
    """Let the call fail, with a note, if the pillar is incomplete: what is missing may be in a file that failed."""
    errors = __pillar__.get(_ERRORS)
    if isinstance(errors, list) and errors:
        __context__["retcode"] = _EX_PILLAR
        note(f"The pillar is incomplete: {errors[0]}" + (f" (and {len(errors) - 1} more)" if errors[1:] else ""))


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


def ext(external: dict[str, Any], pillarenv: str | None = None) -> dict[str, Any]:  # noqa: ARG001 - Salt's argument
    """Return the pillar of this minion with one more external pillar of the master.

    ``external`` is a map from its name to its argument, list or map of arguments; ``on_demand_ext_pillar`` of the
    master must have the name. The result is not stored. ``pillarenv`` has no effect.

    CLI Example::

        saltlite web1 pillar.ext '{inventory: {site: b}}'
    """
    if not hasattr(__master__, "ask"):
        raise CommandExecutionError("This call has no master, which has the external pillars.")
    found: dict[str, Any] = __master__.ask("ext_pillar", {"external": external})["pillar"]
    return found
