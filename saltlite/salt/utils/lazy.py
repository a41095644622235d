"""`salt.utils.lazy`: dicts that find their values when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError


def verify_fun(lazy_obj: Any, fun: str) -> None:
    """Raises SaltInvocationError without a name, CommandExecutionError for an unknown one."""
    if not fun:
        raise SaltInvocationError("Must specify a function to run!\nex: manage.up")
    if fun not in lazy_obj:
        raise CommandExecutionError(lazy_obj.missing_fun_string(fun))


class LazyDict(MutableMapping[Any, Any]):
    """A subclass has `_load(key)`, which sets the value and returns whether it did, and `_load_all()`, which sets
    `loaded`."""

    mod_dict_class: type[dict[Any, Any]] = dict

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._dict = self.mod_dict_class()
        self.loaded = False

    def _load(self, key: Any) -> bool:
        raise NotImplementedError

    def _load_all(self) -> None:
        raise NotImplementedError

    def _missing(self, _key: Any) -> bool:
        return False

    def missing_fun_string(self, function_name: str) -> str:
        return f"'{function_name}' is not available."

    def __bool__(self) -> bool:
        return bool(self._dict) or not self.loaded

    def __setitem__(self, key: Any, value: Any) -> None:
        self._dict[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._dict[key]

    def __getitem__(self, key: Any) -> Any:
        if self._missing(key) or (key not in self._dict and not self.loaded and not self._load(key)):
            raise KeyError(key)
        return self._dict[key]

    def __len__(self) -> int:
        return len(self._whole())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._whole())

    def _whole(self) -> dict[Any, Any]:
        if not self.loaded:
            self._load_all()
        return self._dict
