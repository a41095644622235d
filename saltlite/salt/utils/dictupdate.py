"""`salt.utils.dictupdate`: dicts laid over dicts."""

from __future__ import annotations

import copy
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from saltlite.errors import SaltInvocationError
from saltlite.salt.defaults import DEFAULT_TARGET_DELIM
from saltlite.salt.utils.decorators.jinja import jinja_filter

log = logging.getLogger(__name__)


def update(dest: Any, upd: Any, recursive_update: bool = True, merge_lists: bool = False, strict: bool = False) -> Any:
    """`dest` with the items of `upd`; dicts in both are joined, and lists with `merge_lists`.

    Raises TypeError for what is no dict and, if `strict`, for a list that a dict would have to be merged into.
    """
    if not isinstance(dest, Mapping) or not isinstance(upd, Mapping):
        raise TypeError("Cannot update using non-dict types in dictupdate.update()")
    made: Any = dest
    for key, value in list(upd.items()):
        before = made.get(key) if recursive_update else None
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            made[key] = update(before, value, merge_lists=merge_lists)
        elif isinstance(before, list) and isinstance(value, list) and merge_lists:
            made[key] = [*copy.deepcopy(before), *(one for one in value if one not in before)]
        elif isinstance(before, list) and isinstance(value, Mapping) and merge_lists and strict:
            raise TypeError(f"The list under {key!r} cannot be updated with a mapping of the keys {list(value)}.")
        else:
            made[key] = value
    return made


def merge_list(obj_a: Mapping[Any, Any], obj_b: Mapping[Any, Any]) -> dict[Any, Any]:
    """The items of the first dict; a key of both has both values in a list."""
    return {key: [value, obj_b[key]] if key in obj_b else value for key, value in obj_a.items()}


def merge_recurse(obj_a: Any, obj_b: Any, merge_lists: bool = False) -> Any:
    """A copy of the first dict, updated with the second."""
    return update(copy.deepcopy(obj_a), obj_b, merge_lists=merge_lists)


def merge_aggregate(obj_a: Any, obj_b: Any) -> Any:
    """The items of both dicts; the second one's go first."""
    return {**obj_a, **obj_b}


def merge_overwrite(obj_a: Any, obj_b: Any, merge_lists: bool = False) -> Any:
    """As `merge_recurse`, where values of the second dict replace those of the first."""
    for key in obj_b:
        if key in obj_a:
            obj_a[key] = obj_b[key]
    return merge_recurse(obj_a, obj_b, merge_lists=merge_lists)


def merge(obj_a: Any, obj_b: Any, strategy: str = "smart", renderer: str = "yaml", merge_lists: bool = False) -> Any:
    """Two dicts merged by a strategy: `smart`, `recurse`, `aggregate`, `overwrite`, `list` or `none`."""
    if strategy == "smart":
        aggregates = renderer.rsplit("|", maxsplit=1)[-1] == "yamlex" or renderer.startswith("yamlex_")
        strategy = "aggregate" if aggregates else "recurse"
    if strategy == "list":
        return merge_list(obj_a, obj_b)
    if strategy == "recurse":
        return merge_recurse(obj_a, obj_b, merge_lists)
    if strategy == "aggregate":
        return merge_aggregate(obj_a, obj_b)
    if strategy == "overwrite":
        return merge_overwrite(obj_a, obj_b, merge_lists)
    if strategy != "none":
        log.warning("Unknown merging strategy '%s', fallback to recurse", strategy)
    return merge_recurse(obj_a, obj_b)


def ensure_dict_key(
    in_dict: dict[Any, Any], keys: str, delimiter: str = DEFAULT_TARGET_DELIM, ordered_dict: bool = False
) -> dict[Any, Any]:
    """The dict, with a dict at `a:b:c`; what is none there is replaced."""
    place = in_dict
    for key in keys.split(delimiter):
        if not isinstance(place.get(key), dict):
            place[key] = OrderedDict() if ordered_dict else {}
        place = place[key]
    return in_dict


def _place(in_dict: dict[Any, Any], keys: str, delimiter: str, ordered_dict: bool) -> tuple[dict[Any, Any], str]:
    """The dict that holds the last key, and that key."""
    above, _, last = keys.rpartition(delimiter)
    place = in_dict
    if above:
        ensure_dict_key(in_dict, above, delimiter, ordered_dict)
        for key in above.split(delimiter):
            place = place[key]
    return place, last


@jinja_filter("set_dict_key_value")
def set_dict_key_value(
    in_dict: dict[Any, Any],
    keys: str,
    value: Any,
    delimiter: str = DEFAULT_TARGET_DELIM,
    ordered_dict: bool = False,
) -> dict[Any, Any]:
    """The dict, with `value` at `a:b:c`."""
    place, last = _place(in_dict, keys, delimiter, ordered_dict)
    place[last] = value
    return in_dict


def _calling(method: str, what: str) -> Callable[..., dict[Any, Any]]:
    """The function, and filter, that calls a method of the dict or list at a key."""

    def call(
        in_dict: dict[Any, Any],
        keys: str,
        value: Any,
        delimiter: str = DEFAULT_TARGET_DELIM,
        ordered_dict: bool = False,
    ) -> dict[Any, Any]:
        place, last = _place(in_dict, keys, delimiter, ordered_dict)
        if place.get(last) is None:
            place[last] = [] if method != "update" else OrderedDict() if ordered_dict else {}
        held = place[last]
        if not hasattr(held, method):
            raise SaltInvocationError(f"The last key contains a {type(held)}, which cannot {method}.")
        try:
            getattr(held, method)(value)
        except (ValueError, TypeError) as error:
            raise SaltInvocationError(f"Cannot {method} {type(held)} with a {type(value)}.") from error
        return in_dict

    call.__name__ = call.__qualname__ = f"{method}_dict_key_value"
    call.__doc__ = f"The dict, with {what}. Raises SaltInvocationError."
    return jinja_filter(call.__name__)(call)


update_dict_key_value = _calling("update", "the dict at `a:b:c` updated")
append_dict_key_value = _calling("append", "`value` at the end of the list at `a:b:c`")
extend_dict_key_value = _calling("extend", "the items of `value` at the end of the list at `a:b:c`")
