"""The objects behind the dunder names: dicts that modules hold on to, and `__context__` with its return code.

Modules written for Salt call `.value()` on injected dicts to get at the plain object; here that is the dict itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

_RETCODE = "retcode"

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
