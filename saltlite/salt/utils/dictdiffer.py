"""`salt.utils.dictdiffer`: what differs between two dicts."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from typing import Any


def diff(current_dict: Mapping[Any, Any], past_dict: Mapping[Any, Any]) -> DictDiffer:
    return DictDiffer(current_dict, past_dict)


class DictDiffer:
    """The keys that were added, removed or changed between two dicts."""

    def __init__(self, current_dict: Mapping[Any, Any], past_dict: Mapping[Any, Any]) -> None:
        self.current_dict, self.past_dict = current_dict, past_dict
        self.set_current, self.set_past = set(current_dict), set(past_dict)
        self.intersect = self.set_current & self.set_past

    def added(self) -> Any:
        return self.set_current - self.intersect

    def removed(self) -> Any:
        return self.set_past - self.intersect

    def changed(self) -> Any:
        return {key for key in self.intersect if self.past_dict[key] != self.current_dict[key]}

    def unchanged(self) -> Any:
        return self.intersect - DictDiffer.changed(self)


def deep_diff(old: Any, new: Any, ignore: Collection[Any] | None = None) -> dict[str, Any]:
    """`{"old": …, "new": …}` with the keys that differ, also in dicts of dicts; a side without any is missing."""
    before, after = _differing(old, new, ignore or ())
    return {name: side for name, side in (("old", before), ("new", after)) if side}


def _differing(old: Any, new: Any, ignore: Collection[Any]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    before, after = {}, {}
    for key in {**old, **new}:
        if key in ignore or (key in old and key in new and old[key] == new[key]):
            continue
        if key in old and key in new and isinstance(old[key], Mapping) and isinstance(new[key], Mapping):
            inner = _differing(old[key], new[key], ignore)
            if inner[0] == inner[1]:
                continue
            before[key], after[key] = inner
            continue
        if key in old:
            before[key] = copy.deepcopy(old[key])
        if key in new:
            after[key] = copy.deepcopy(new[key])
    return before, after


def recursive_diff(
    past_dict: Mapping[Any, Any],
    current_dict: Mapping[Any, Any],
    ignore_missing_keys: bool = True,
    list_dict_matchers: list[Any] | None = None,
) -> RecursiveDictDiffer:
    """The differences of two dicts of dicts; with `ignore_missing_keys`, keys that only the past has do not count."""
    return RecursiveDictDiffer(past_dict, current_dict, ignore_missing_keys, list_dict_matchers or [])


class RecursiveDictDiffer(DictDiffer):
    """`diffs` has `{"old": …, "new": …}` at the place of each difference; NONE_VALUE stands for what is missing.

    `list_dict_matchers` names keys by which the dicts of two lists are compared one by one.
    """

    NONE_VALUE = "<_null_>"

    def __init__(
        self,
        past_dict: Mapping[Any, Any],
        current_dict: Mapping[Any, Any],
        ignore_missing_keys: bool,
        list_dict_matchers: list[Any] | None = None,
    ) -> None:
        super().__init__(current_dict, past_dict)
        self.ignore_unset_values = True
        self._matchers = list_dict_matchers or []
        self._diffs = self._between(current_dict, past_dict, ignore_missing_keys)

    @property
    def diffs(self) -> dict[Any, Any]:
        return self._diffs

    def _between(self, current: Any, past: Any, ignore_missing: bool) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in current.items():
            if key not in past:
                found[key] = {"new": value, "old": self.NONE_VALUE}
            elif value != past[key]:
                inner = self._inside(value, past[key], ignore_missing)
                if inner is None:
                    found[key] = {"new": value, "old": past[key]}
                elif inner:
                    found[key] = inner
        if not ignore_missing:
            found |= {key: {"new": self.NONE_VALUE, "old": past[key]} for key in past if key not in current}
        return found

    def _inside(self, new: Any, old: Any, ignore_missing: bool) -> dict[Any, Any] | None:
        """The differences below two values, or None if they have no parts to compare."""
        if isinstance(new, dict) and isinstance(old, dict):
            return self._between(new, old, ignore_missing)
        rows = [*new, *old] if isinstance(new, list) and isinstance(old, list) and new and old else []
        name = next(
            (one for one in self._matchers if rows and all(isinstance(row, dict) and one in row for row in rows)), None
        )
        if name is None:
            return None
        known = {row[name]: row for row in old}
        both = {row[name]: self._between(row, known[row[name]], ignore_missing) for row in new if row[name] in known}
        return {identity: inner for identity, inner in both.items() if inner}

    @property
    def new_values(self) -> dict[Any, Any]:
        return self._values(self._diffs, "new")

    @property
    def old_values(self) -> dict[Any, Any]:
        return self._values(self._diffs, "old")

    def _values(self, diffs: Any, side: str) -> dict[Any, Any]:
        return {key: one[side] if side in one else self._values(one, side) for key, one in diffs.items()}

    @property
    def changes_str(self) -> str:
        """A line for each difference: `key from 'a' to 'b'`."""
        return "\n".join(self._lines(self._diffs))

    def _lines(self, diffs: Any) -> Iterator[str]:
        for key in sorted(diffs):
            one = diffs[key]
            if set(one) == {"new", "old"}:
                yield f"{key} from {self._shown(one['old'])} to {self._shown(one['new'])}"
            elif one:
                yield f"{key}:"
                yield from (f"  {line}" for line in self._lines(one))

    def _shown(self, value: Any) -> Any:
        if value == self.NONE_VALUE:
            return "nothing"
        if isinstance(value, list):
            return f"'{', '.join(value)}'"
        return f"'{value}'" if isinstance(value, str) else value

    def added(self, include_nested: bool = False, separator: str = ".") -> list[str]:
        """The paths of keys that are new; with `include_nested` those below them, too."""
        return sorted(self._only_in("new", "old", self._diffs, include_nested, separator))

    def removed(self, include_nested: bool = False, separator: str = ".") -> list[str]:
        """The paths of keys that are gone; with `include_nested` those below them, too."""
        return sorted(self._only_in("old", "new", self._diffs, include_nested, separator))

    def _only_in(
        self, here: str, there: str, diffs: Any, nested: bool, separator: str, prefix: str = ""
    ) -> Iterator[str]:
        for key, one in diffs.items():
            below = f"{prefix}{key}{separator}"
            if not isinstance(one, dict):
                continue
            if "old" not in one:
                yield from self._only_in(here, there, one, nested, separator, below)
            elif one[there] == self.NONE_VALUE:
                yield f"{prefix}{key}"
                if nested:
                    yield from _paths(one[here], below, separator, nested)
            elif isinstance(one[here], dict) and not isinstance(one[there], dict):
                yield from _paths(one[here], below, separator, nested)

    def changed(self, separator: str = ".") -> list[str]:
        """The paths of keys with another value; unless `ignore_unset_values` is off, not those added or removed."""
        return sorted(self._changed(self._diffs, "", separator))

    def _changed(self, diffs: Any, prefix: str, separator: str) -> Iterator[str]:
        for key, one in diffs.items():
            below = f"{prefix}{key}{separator}"
            if not isinstance(one, dict):
                continue
            if "old" not in one:
                yield from self._changed(one, below, separator)
            elif not self.ignore_unset_values or self.NONE_VALUE not in (one["old"], one["new"]):
                if isinstance(one["new"], dict):
                    yield from self._changed(one["new"], below, separator)
                else:
                    yield f"{prefix}{key}"

    def unchanged(self, separator: str = ".") -> list[str]:
        """The paths of keys of the present with the same value."""
        return sorted(self._unchanged(self.current_dict, self._diffs, "", separator))

    def _unchanged(self, current: Any, diffs: Any, prefix: str, separator: str) -> Iterator[str]:
        for key, value in current.items():
            if key not in diffs:
                yield f"{prefix}{key}"
            elif isinstance(value, dict) and "new" not in diffs[key]:
                yield from self._unchanged(value, diffs[key], f"{prefix}{key}{separator}", separator)


def _paths(value: Any, prefix: str, separator: str, nested: bool) -> Iterator[str]:
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield f"{prefix}{key}"
        if nested:
            yield from _paths(inner, f"{prefix}{key}{separator}", separator, nested)
