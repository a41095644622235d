"""`salt.utils.immutabletypes`: views of dicts, lists and sets that cannot be changed."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import Any


class _Frozen:
    """What the three views share; `copy` is a deep one that can be changed."""

    def __init__(self, obj: Collection[Any]) -> None:
        self._obj: Any = obj

    def __len__(self) -> int:
        return len(self._obj)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._obj)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._obj!r}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self._obj)

    def copy(self) -> Any:
        return copy.deepcopy(self._obj)


class ImmutableDict(_Frozen, Mapping[Any, Any]):
    def __getitem__(self, key: Any) -> Any:
        return freeze(self._obj[key])


class ImmutableList(_Frozen, Sequence[Any]):
    def __getitem__(self, key: Any) -> Any:
        return freeze(self._obj[key])

    def __add__(self, other: list[Any]) -> Any:
        return self._obj + other

    def __radd__(self, other: list[Any]) -> Any:
        return other + self._obj


class ImmutableSet(_Frozen, Set[Any]):
    def __contains__(self, key: object) -> bool:
        return key in self._obj


def freeze(obj: Any) -> Any:
    """A view of a dict, list or set; anything else as it is."""
    for kind, view in ((dict, ImmutableDict), (list, ImmutableList), (set, ImmutableSet)):
        if isinstance(obj, kind):
            return view(obj)
    return obj
