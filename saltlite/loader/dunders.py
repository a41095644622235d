"""The objects behind the dunder names: dicts that modules hold on to, and `__context__` with its return code.

Modules written for Salt call `.value()` on injected dicts to get at the plain object; here that is the dict itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

_RETCODE = "retcode"

_NOTHING: Mapping[str, Any] = {}

_slot: ContextVar[dict[str, Any]] = ContextVar("retcode")


class Injected(dict[str, Any]):
    """A dict that modules see under a dunder name."""

    def value(self) -> Injected:
        """The dict itself."""
        return self

    def refresh(self, now: Mapping[str, Any]) -> None:
        """Hold `now`, in place: whoever kept a reference sees it."""
        for gone in self.keys() - now.keys():
            del self[gone]
        self.update(now)


class PerCall(Mapping[str, Any]):
    """A mapping that modules see under a dunder name, and that is another one in each call: `during` says which.

    Outside of a call it is empty. It is no dict, because Python reads a dict behind its back: `dict(x)` and `{**x}`
    work, `isinstance(x, dict)` says no.
    """

    def __init__(self, name: str) -> None:
        self._now: ContextVar[Mapping[str, Any]] = ContextVar(name, default=_NOTHING)

    @contextlib.contextmanager
    def during(self, values: Mapping[str, Any]) -> Iterator[None]:
        """Until the end of the block, and in this thread only, the mapping is `values`."""
        token = self._now.set(values)
        try:
            yield
        finally:
            self._now.reset(token)

    def value(self) -> PerCall:
        """The mapping itself."""
        return self

    def copy(self) -> dict[str, Any]:
        """A dict of what it is now."""
        return dict(self._now.get())

    def __getitem__(self, key: str) -> Any:
        return self._now.get()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._now.get())

    def __len__(self) -> int:
        return len(self._now.get())

    def __repr__(self) -> str:
        return repr(dict(self._now.get()))


class Context(Injected):
    """`__context__`: shared by the modules of a loader, but for `retcode`, which belongs to the call that runs.

    Two calls at once, or one inside another, so never get each other's return code. It is there by its name only:
    going through the dict does not meet it.
    """

    @contextlib.contextmanager
    def own_retcode(self) -> Iterator[Mapping[str, Any]]:
        """Until the end of the block `retcode` is this call's; what is yielded has it when the function set it."""
        token = _slot.set({})
        try:
            yield _slot.get()
        finally:
            _slot.reset(token)

    def _place(self, key: object) -> dict[str, Any] | None:
        """Where the key is kept, when that is not here."""
        return _slot.get(None) if key == _RETCODE else None

    def __getitem__(self, key: str) -> Any:
        place = self._place(key)
        return super().__getitem__(key) if place is None else place[key]

    def __setitem__(self, key: str, value: Any) -> None:
        place = self._place(key)
        if place is None:
            super().__setitem__(key, value)
        else:
            place[key] = value

    def __delitem__(self, key: str) -> None:
        place = self._place(key)
        if place is None:
            super().__delitem__(key)
        else:
            del place[key]

    def __contains__(self, key: object) -> bool:
        place = self._place(key)
        return super().__contains__(key) if place is None else key in place

    def get(self, key: str, default: Any = None) -> Any:
        place = self._place(key)
        return super().get(key, default) if place is None else place.get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        place = self._place(key)
        return super().setdefault(key, default) if place is None else place.setdefault(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        place = self._place(key)
        return super().pop(key, *default) if place is None else place.pop(key, *default)

    def update(self, *others: Any, **named: Any) -> None:
        for key, value in dict(*others, **named).items():
            self[key] = value
