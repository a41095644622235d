"""`salt.utils.datastructures`: ordered dicts with one more property."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any


class DefaultOrderedDict(OrderedDict[Any, Any]):
    """An ordered dict that makes missing values with `default_factory`. Raises TypeError if that cannot be called."""

    def __init__(self, default_factory: Callable[[], Any] | None = None, *args: Any, **kwargs: Any) -> None:
        if default_factory is not None and not callable(default_factory):
            raise TypeError("first argument must be callable")
        super().__init__(*args, **kwargs)
        self.default_factory = default_factory

    def __missing__(self, key: Any) -> Any:
        if self.default_factory is None:
            raise KeyError(key)
        self[key] = value = self.default_factory()
        return value

    def __reduce__(self) -> Any:
        return type(self), (self.default_factory,), None, None, iter(self.items())

    def copy(self) -> DefaultOrderedDict:
        return self.__copy__()

    def __copy__(self) -> DefaultOrderedDict:
        return type(self)(self.default_factory, self)

    def __repr__(self) -> str:
        return f"DefaultOrderedDict({self.default_factory}, {OrderedDict.__repr__(self)})"


class HashableOrderedDict(OrderedDict[Any, Any]):
    """An ordered dict that is equal to itself only as a key."""

    def __hash__(self) -> int:  # type: ignore[override] # what the class is for
        return id(self)
