"""`salt.utils.data`: dicts, lists and what is in them."""

from __future__ import annotations

import copy
import datetime
import fnmatch
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from saltlite.errors import SaltliteError as SaltException
from saltlite.salt.defaults import DEFAULT_TARGET_DELIM
from saltlite.salt.utils import stringutils
from saltlite.salt.utils.decorators.jinja import jinja_filter

log = logging.getLogger(__name__)


class CaseInsensitiveDict(MutableMapping[Any, Any]):
    """A dict whose keys are equal if they differ in case only; it keeps the case of the last one set."""

    def __init__(self, init: Any = None, **kwargs: Any) -> None:
        self._data: dict[Any, tuple[Any, Any]] = {}
        self.update(init or {}, **kwargs)

    def __len__(self) -> int:
        return len(self._data)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._data[to_lowercase(key)] = key, value

    def __delitem__(self, key: Any) -> None:
        del self._data[to_lowercase(key)]

    def __getitem__(self, key: Any) -> Any:
        return self._data[to_lowercase(key)][1]

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._data.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and dict(self.items_lower()) == dict(CaseInsensitiveDict(other).items_lower())

    __hash__ = None  # type: ignore[assignment] # as every mapping that can change

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def items_lower(self) -> Iterator[tuple[Any, Any]]:
        """The items, with keys in lower case."""
        return ((key, value) for key, (_, value) in self._data.items())

    def copy(self) -> CaseInsensitiveDict:
        return CaseInsensitiveDict(dict(self.items()))


def to_lowercase(data: Any, preserve_dict_class: bool = False) -> Any:
    """The data with every text in it in lower case."""
    return _cased(data, "lower", preserve_dict_class)


def to_uppercase(data: Any, preserve_dict_class: bool = False) -> Any:
    """The data with every text in it in upper case."""
    return _cased(data, "upper", preserve_dict_class)


def _cased(data: Any, method: str, keep_class: bool) -> Any:
    if hasattr(data, method):
        return getattr(data, method)()
    again = partial(_cased, method=method, keep_class=keep_class)
    if isinstance(data, Mapping):
        return (type(data) if keep_class else dict)((again(key), again(value)) for key, value in data.items())  # type: ignore[call-arg] # a mapping that is made of items
    return type(data)(map(again, data)) if isinstance(data, Sequence) else data  # type: ignore[call-arg] # as above


@jinja_filter("compare_dicts")
def compare_dicts(old: Mapping[Any, Any] | None = None, new: Mapping[Any, Any] | None = None) -> dict[Any, Any]:
    """Key -> `{"old": …, "new": …}` for what differs; "" for what is missing."""
    before, after = old or {}, new or {}
    return {
        key: {"old": before.get(key, ""), "new": after.get(key, "")}
        for key in {**before, **after}
        if key not in before or key not in after or before[key] != after[key]
    }


@jinja_filter("compare_lists")
def compare_lists(old: Sequence[Any], new: Sequence[Any]) -> dict[str, list[Any]]:
    """The items of only one list, under `old` or `new`."""
    found = {"new": [one for one in new if one not in old], "old": [one for one in old if one not in new]}
    return {name: items for name, items in found.items() if items}


def decode(
    data: Any,
    encoding: Any = None,
    errors: str = "strict",
    keep: bool = False,
    normalize: bool = False,
    preserve_dict_class: bool = False,
    preserve_tuples: bool = False,
    to_str: bool = False,
) -> Any:
    """The data with all bytes decoded and dates as ISO text; tuples become lists.

    With `keep`, bytes that cannot be decoded stay. `normalize` makes texts NFC. Raises UnicodeDecodeError.
    """

    def text(value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return value.isoformat()
        if not isinstance(value, str | bytes | bytearray):
            return value
        try:
            return stringutils.to_str(value, encoding, errors, normalize)
        except UnicodeDecodeError:
            if keep:
                return value
            raise

    return _changed(data, text, preserve_dict_class, preserve_tuples)


def encode(
    data: Any,
    encoding: Any = None,
    errors: str = "strict",
    keep: bool = False,
    preserve_dict_class: bool = False,
    preserve_tuples: bool = False,
) -> Any:
    """The data with all texts encoded; tuples become lists. With `keep`, texts that cannot be encoded stay.

    Raises UnicodeEncodeError.
    """

    def raw(value: Any) -> Any:
        if not isinstance(value, str | bytes | bytearray):
            return value
        try:
            return stringutils.to_bytes(value, encoding, errors)
        except UnicodeEncodeError:
            if keep:
                return value
            raise

    return _changed(data, raw, preserve_dict_class, preserve_tuples)


def _changed(
    data: Any, change: Callable[[Any], Any], keep_class: bool, keep_tuples: bool, above: frozenset[int] = frozenset()
) -> Any:
    """The data with `change` applied to each key and value; None for what contains itself."""
    if not isinstance(data, Mapping | list | tuple):
        return change(data)
    if id(data) in above:
        log.error("A part of the data contains itself; None is in its place.")
        return None
    again = partial(_changed, change=change, keep_class=keep_class, keep_tuples=keep_tuples, above=above | {id(data)})
    if isinstance(data, Mapping):
        made: Any = data.__class__() if keep_class else {}
        for key, value in data.items():
            made[again(key)] = again(value)
        return made
    items = [again(item) for item in data]
    return tuple(items) if isinstance(data, tuple) and keep_tuples else items


def decode_dict(data: Mapping[Any, Any], *args: Any, **kwargs: Any) -> Any:
    """As `decode`."""
    return decode(data, *args, **kwargs)


def decode_list(data: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """As `decode`, for any iterable."""
    return decode(list(data), *args, **kwargs)


def decode_tuple(
    data: Iterable[Any],
    encoding: Any = None,
    errors: str = "strict",
    keep: bool = False,
    normalize: bool = False,
    preserve_dict_class: bool = False,
    to_str: bool = False,
) -> tuple[Any, ...]:
    """As `decode`, with tuples kept."""
    return tuple(decode(list(data), encoding, errors, keep, normalize, preserve_dict_class, True, to_str))


@jinja_filter("json_decode_dict")
@jinja_filter("json_encode_dict")
def encode_dict(data: Mapping[Any, Any], *args: Any, **kwargs: Any) -> Any:
    """As `encode`."""
    return encode(data, *args, **kwargs)


@jinja_filter("json_decode_list")
@jinja_filter("json_encode_list")
def encode_list(data: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """As `encode`, for any iterable."""
    return encode(list(data), *args, **kwargs)


def encode_tuple(
    data: Iterable[Any],
    encoding: Any = None,
    errors: str = "strict",
    keep: bool = False,
    preserve_dict_class: bool = False,
) -> tuple[Any, ...]:
    """As `encode`, with tuples kept."""
    return tuple(encode(list(data), encoding, errors, keep, preserve_dict_class, True))


@jinja_filter("exactly_n_true")
def exactly_n(iterable: Iterable[Any], amount: int = 1) -> bool:
    """Whether exactly `amount` items are true."""
    return sum(map(bool, iterable)) == amount


@jinja_filter("exactly_one_true")
def exactly_one(iterable: Iterable[Any]) -> bool:
    return exactly_n(iterable)


def filter_by(
    lookup_dict: Mapping[Any, Any],
    lookup: Any,
    traverse: Any,
    merge: Mapping[Any, Any] | None = None,
    default: Any = "default",
    base: Any = None,
) -> Any:
    """The value of `lookup_dict` whose key, a glob, matches the value at `lookup` in `traverse`.

    Without a match it is that of `default`. It is laid over that of `base`, and `merge` over both. Raises SaltException
    for parts that are no dicts and would have to be joined.
    """
    from saltlite.salt.utils import dictupdate

    wanted = traverse_dict_and_list(traverse, lookup, [])
    found = None
    for each in wanted if isinstance(wanted, list) else [wanted]:
        key = next((key for key in lookup_dict if fnmatch.fnmatchcase(str(each), str(key))), None)
        found = None if key is None else lookup_dict[key]
        if found is not None:
            break
    if found is None:
        found = lookup_dict.get(default)
    if base and base in lookup_dict:
        below = lookup_dict[base]
        if found is None:
            found = below
        elif isinstance(below, Mapping):
            if not isinstance(found, Mapping):
                raise SaltException("filter_by default and look-up values must both be dictionaries.")
            found = dictupdate.update(copy.deepcopy(below), found)
    if merge:
        if not isinstance(merge, Mapping):
            raise SaltException("filter_by merge argument must be a dictionary.")
        found = merge if found is None else dictupdate.update(found, copy.deepcopy(merge))
    return found


def traverse_dict(data: Any, key: str, default: Any = None, delimiter: str = DEFAULT_TARGET_DELIM) -> Any:
    """The value at `a:b:c` in dicts of dicts, or `default`."""
    place = data
    try:
        for each in key.split(delimiter):
            place = place[each]
    except (KeyError, IndexError, TypeError):
        return default
    return place


_NOT_THERE = object()


@jinja_filter("traverse")
def traverse_dict_and_list(data: Any, key: Any, default: Any = None, delimiter: str = DEFAULT_TARGET_DELIM) -> Any:
    """The value at `a:b:0` in dicts and lists, or `default`.

    In a list, a part is first looked for as a key of the dicts in it, then as an index. A part that is no key of a dict
    is looked for as what it means in YAML, such as a number.
    """
    parts = key.split(delimiter) if isinstance(key, str) else [key] if isinstance(key, int) else key
    place = data
    for each in parts:
        place = _in_list(place, each) if isinstance(place, list) else _in_dict(place, each)
        if place is _NOT_THERE:
            return default
    return place


def _in_list(place: list[Any], each: Any) -> Any:
    try:
        index: Any = int(each)
    except ValueError:
        index = None
    wanted = each if index is None else index
    for inner in place:
        if isinstance(inner, dict) and wanted in inner:
            return inner[wanted]
    if index is None or not -len(place) <= index < len(place):
        return _NOT_THERE
    return place[index]


def _in_dict(place: Any, each: Any) -> Any:
    from saltlite.salt.utils.args import yamlify_arg

    try:
        return place[each]
    except KeyError:
        meant = yamlify_arg(each)
        if meant == each:
            return _NOT_THERE
    except TypeError:
        return _NOT_THERE
    try:
        return place[meant]
    except (KeyError, TypeError):
        return _NOT_THERE


def subdict_match(
    data: Any,
    expr: str,
    delimiter: str = DEFAULT_TARGET_DELIM,
    regex_match: bool = False,
    exact_match: bool = False,
) -> bool:
    """Whether the value at `a:b` of `a:b:value` matches `value`, a glob, a regular expression or a text.

    The delimiter may be part of a key or of the value: longer keys are tried first. Case does not count.
    """
    matches = partial(_matches, regex_match=regex_match, exact_match=exact_match)
    in_dict = partial(_matches_in, regex_match=regex_match, exact_match=exact_match)
    parts = expr.split(delimiter)
    for index in range(len(parts) - 1, 0, -1):
        key = delimiter.join(parts[:index])
        pattern = expr if key == "*" else delimiter.join(parts[index:])
        found = data if key == "*" else traverse_dict_and_list(data, key, {}, delimiter=delimiter)
        if found == {}:
            continue
        if isinstance(found, dict):
            matched = in_dict(found, pattern)
        elif isinstance(found, list | tuple):
            matched = any((isinstance(one, dict) and in_dict(one, pattern)) or matches(one, pattern) for one in found)
        else:
            matched = matches(found, pattern)
        if matched:
            return True
    return False


def _matches(target: Any, pattern: Any, regex_match: bool, exact_match: bool) -> bool:
    text, wanted = str(target).lower(), str(pattern).lower()
    if not regex_match:
        return text == wanted if exact_match else fnmatch.fnmatch(text, wanted)
    try:
        return re.match(wanted, text) is not None
    except re.error:
        log.error("Invalid regex '%s' in match", wanted)
        return False


def _matches_in(target: dict[Any, Any], pattern: str, regex_match: bool, exact_match: bool) -> bool:
    """Whether a dict has a key, or what is below it, that matches; `*:` before the pattern looks into all values."""
    matches = partial(_matches, regex_match=regex_match, exact_match=exact_match)
    wanted = pattern.removeprefix("*:")
    if wanted == "*" or wanted in target or any(matches(key, wanted) for key in target):
        return True
    if subdict_match(target, wanted, regex_match=regex_match, exact_match=exact_match):
        return True
    if wanted == pattern:
        return False
    for value in target.values():
        if isinstance(value, dict):
            found = _matches_in(value, wanted, regex_match, exact_match)
        elif isinstance(value, list):
            found = any(matches(one, wanted) for one in value)
        else:
            found = matches(value, wanted)
        if found:
            return True
    return False


@jinja_filter("substring_in_list")
def substr_in_list(string_to_search_for: str, list_to_search: Iterable[str]) -> bool:
    return any(string_to_search_for in one for one in list_to_search)


def is_dictlist(data: Any) -> bool:
    """Whether it is a list of dicts of one key each."""
    return isinstance(data, list) and all(isinstance(one, dict) and len(one) == 1 for one in data)


def repack_dictlist(
    data: Any,
    strict: bool = False,
    recurse: bool = False,
    key_cb: Callable[[Any], Any] | None = None,
    val_cb: Callable[[Any, Any], Any] | None = None,
) -> dict[Any, Any]:
    """A list of dicts of one key each as one dict; a text or number in the list is a key with None.

    A text is read as YAML. What is no such list is logged, and {} returned.
    """
    from saltlite.salt.utils import yaml

    if isinstance(data, str):
        try:
            data = yaml.safe_load(data)
        except yaml.parser.ParserError as error:
            log.error("%s", error)
            return {}
    if not isinstance(data, list):
        log.error("Invalid input for repack_dictlist, data passed is not a list (%s)", data)
        return {}
    made: dict[Any, Any] = {}
    key_of = key_cb or (lambda key: key)
    value_of = val_cb or (lambda _key, value: value)
    for one in data:
        if isinstance(one, str | int | float):
            made[key_of(one)] = None
            continue
        if not (isinstance(one, dict) and len(one) == 1):
            log.error("Invalid input for repack_dictlist: %s is neither one key with its value nor a plain value.", one)
            return {}
        [(key, value)] = one.items()
        if is_dictlist(value) and recurse:
            made[key_of(key)] = repack_dictlist(value, recurse=recurse)
        elif is_dictlist(value) and strict:
            log.error("Invalid input for repack_dictlist: nested dictlist found, but recurse is set to False")
            return {}
        else:
            made[key_of(key)] = value_of(key, value)
    return made


@jinja_filter("is_list")
def is_list(value: Any) -> bool:
    return isinstance(value, list)


@jinja_filter("is_iter")
def is_iter(thing: Any, ignore: Any = (str,)) -> bool:
    """Whether it can be iterated over, and is of none of the types to ignore."""
    if ignore and isinstance(thing, ignore):
        return False
    try:
        iter(thing)
    except TypeError:
        return False
    return True


@jinja_filter("sorted_ignorecase")
def sorted_ignorecase(to_sort: Iterable[str]) -> list[str]:
    return sorted(to_sort, key=str.lower)


def is_true(value: Any = None) -> bool:
    """Whether it is a number above 0, also as text, the text "true", or another true object."""
    for kind in (int, float):
        try:
            value = kind(value)
        except (ValueError, TypeError):
            continue
    if isinstance(value, int | float):
        return value > 0
    return value.lower() == "true" if isinstance(value, str) else bool(value)


@jinja_filter("mysql_to_dict")
def mysql_to_dict(data: Iterable[str], key: str) -> dict[Any, dict[str, Any]]:
    """The table that MySQL's client prints: value of the column `key` -> its row."""
    rows = [[cell.strip() for cell in line.split("|")] for line in data if line and not line.startswith("+")]
    found = {}
    for row in rows[1:]:
        named = {name: stringutils.to_num(cell) for name, cell in zip(rows[0][1:-1], row[1:], strict=False)}
        found[named[key]] = named
    return found


def simple_types_filter(data: Any) -> Any:
    """The data with every object that is no text, number, bool, None, list or dict as its `repr`."""
    if isinstance(data, list | tuple):
        return [_simple(value) for value in data]
    if isinstance(data, dict):
        keys = {key: key if key is None or isinstance(key, str | int | float) else repr(key) for key in data}
        return {keys[key]: _simple(value) for key, value in data.items()}
    return data


def _simple(value: Any) -> Any:
    if isinstance(value, dict | list | tuple):
        return simple_types_filter(value)
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def stringify(data: Iterable[Any]) -> list[str]:
    """The items as texts."""
    return [one if isinstance(one, str) else str(one) for one in data]


@jinja_filter("json_query")
def json_query(data: Any, expr: str) -> Any:
    """What a JMESPath expression finds. Raises RuntimeError without the library jmespath."""
    try:
        jmespath: Any = import_module("jmespath")
    except ImportError as error:
        raise RuntimeError("json_query requires jmespath module installed") from error
    return jmespath.search(expr, data)


def filter_falsey(data: Any, recurse_depth: int | None = None, ignore_types: Sequence[type] = ()) -> Any:
    """The data without items that are false, but for bools and `ignore_types`; `recurse_depth` levels deep."""

    def inside(value: Any) -> Any:
        return filter_falsey(value, recurse_depth - 1, ignore_types) if recurse_depth else value

    def stays(value: Any) -> bool:
        return isinstance(value, bool) or type(value) in ignore_types or bool(value)

    if isinstance(data, dict):
        return type(data)(
            (key, value) for key, value in ((key, inside(value)) for key, value in data.items()) if stays(value)
        )
    if is_iter(data):
        return type(data)([value for value in map(inside, data) if stays(value)])
    return data


def recursive_diff(
    old: Any,
    new: Any,
    ignore_keys: Sequence[Any] | None = None,
    ignore_order: bool = False,
    ignore_missing_keys: bool = False,
) -> dict[str, Any]:
    """`{"old": …, "new": …}` with what differs, {} for equals.

    Two OrderedDicts are compared in order, other mappings by key, sets as sets, other iterables by position; with
    `ignore_order`, all without order. With `ignore_missing_keys`, keys that only `old` has do not count.
    """
    skipped = ignore_keys or []
    again = partial(
        recursive_diff, ignore_keys=ignore_keys, ignore_order=ignore_order, ignore_missing_keys=ignore_missing_keys
    )
    if isinstance(old, OrderedDict) and isinstance(new, OrderedDict) and not ignore_order:
        before, after = _ordered_difference(old, new, skipped, again)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        before, after = copy.deepcopy(old), copy.deepcopy(new)
        for key in {**old, **new}:
            if key in skipped:
                before.pop(key, None)  # type: ignore[attr-defined] # a copy that can be changed
                after.pop(key, None)  # type: ignore[attr-defined] # as above
            elif key in old and key in new:
                _keep_difference(before, after, key, key, again(old[key], new[key]))
            elif ignore_missing_keys and key in old:
                del before[key]  # type: ignore[attr-defined] # as above
    elif isinstance(old, set) and isinstance(new, set):
        before, after = old - new, new - old
    elif is_iter(old) and is_iter(new):
        before, after = (_unordered_rest if ignore_order else _rest_by_position)(list(old), list(new), again)
        before, after = type(old)(before), type(new)(after)
    else:
        return {} if old == new else {"old": copy.deepcopy(old), "new": copy.deepcopy(new)}
    return {"old": before, "new": after} if before or after else {}


def _ordered_difference(old: Any, new: Any, skipped: Sequence[Any], again: Callable[..., Any]) -> tuple[Any, Any]:
    before, after = copy.deepcopy(old), copy.deepcopy(new)
    for key_old, key_new in zip(old, new, strict=False):
        if key_old == key_new and key_old not in skipped:
            _keep_difference(before, after, key_old, key_new, again(old[key_old], new[key_new]))
        else:
            if key_old in skipped:
                del before[key_old]
            if key_new in skipped:
                del after[key_new]
    return before, after


def _keep_difference(before: Any, after: Any, key_old: Any, key_new: Any, difference: Mapping[str, Any]) -> None:
    if difference:
        before[key_old], after[key_new] = difference["old"], difference["new"]
    else:
        del before[key_old], after[key_new]


def _unordered_rest(old: list[Any], new: list[Any], again: Callable[..., Any]) -> tuple[list[Any], list[Any]]:
    before, after = list(old), list(new)
    for one in old:
        for other in new:
            if not again(one, other) and one in before and other in after:
                before.remove(one)
                after.remove(other)
    return before, after


def _rest_by_position(old: list[Any], new: list[Any], again: Callable[..., Any]) -> tuple[list[Any], list[Any]]:
    count = min(len(old), len(new))
    found = [again(one, other) for one, other in zip(old, new, strict=False)]
    before = [one["old"] for one in found if one] + copy.deepcopy(old[count:])
    after = [one["new"] for one in found if one] + copy.deepcopy(new[count:])
    return before, after


def get_value(obj: Any, path: str, default: Any = None) -> list[dict[str, Any]]:
    """The values at `a:{id}:b`, each as `{"value": …, "id": …}`; `{id}` stands for all keys or indexes."""
    if not path:
        return [{"value": obj}]
    key, _, rest = path.partition(":")
    if key.startswith("{") and key.endswith("}"):
        if obj is None:
            return [{"value": None}]
        items = obj.items() if isinstance(obj, dict) else enumerate(obj) if isinstance(obj, list) else ()
        return [{**found, key[1:-1]: each} for each, value in items for found in get_value(value, rest, default)]
    if isinstance(obj, dict):
        return get_value(obj[key], rest, default) if key in obj else [{"value": default}]
    return [{"value": None if obj is None else default}]


@jinja_filter("flatten")
def flatten(
    data: Iterable[Any], levels: int | None = None, preserve_nulls: bool = False, _ids: set[int] | None = None
) -> list[Any]:
    """The items of lists in lists, `levels` deep, without None, "None" and "null".

    Raises RecursionError for a list that contains itself.
    """
    seen = set() if _ids is None else _ids
    if id(data) in seen:
        raise RecursionError("Reference cycle detected. Check input list.")
    seen.add(id(data))
    found: list[Any] = []
    for one in data:
        if not preserve_nulls and one in (None, "None", "null"):
            continue
        if not is_iter(one) or (levels is not None and levels < 1):
            found.append(one)
        else:
            found += flatten(one, None if levels is None else int(levels) - 1, preserve_nulls, seen)
    return found


def hash(value: Any, algorithm: str = "sha512") -> str:
    """The hexadecimal digest of a text or bytes. Raises SaltException for an unknown algorithm."""
    import hashlib

    if algorithm not in hashlib.algorithms_available:
        raise SaltException("You must specify a valid algorithm.")
    return hashlib.new(algorithm, value.encode() if isinstance(value, str) else value).hexdigest()


@jinja_filter("random_sample")
def sample(value: Any, size: int, seed: Any = None) -> list[Any]:
    """`size` random items; the same ones for the same seed."""
    import random

    return random.sample(value, size) if seed is None else random.Random(hash(seed)).sample(value, size)  # noqa: S311 - the choice is no secret


@jinja_filter("random_shuffle")
def shuffle(value: Any, seed: Any = None) -> list[Any]:
    """The items in random order; in the same one for the same seed."""
    return sample(value, len(value), seed=seed)


@jinja_filter("to_entries")
def to_entries(data: Any) -> list[dict[str, Any]]:
    """A dict or list as a list of `{"key": …, "value": …}`. Raises SaltException for anything else."""
    if not isinstance(data, dict | list):
        raise SaltException("Input data must be a dict or list")
    items = data.items() if isinstance(data, dict) else enumerate(data)
    return [{"key": key, "value": value} for key, value in items]


@jinja_filter("from_entries")
def from_entries(entries: Iterable[Mapping[Any, Any]]) -> dict[Any, Any]:
    """The dict of a list of `{"key": …, "value": …}`, where `name` may stand for `key`, in any case."""
    found = {}
    for entry in map(CaseInsensitiveDict, entries):
        key = entry.get("key") or entry.get("name")
        if key:
            found[key] = entry.get("value")
    return found
