"""The objects that plug-in files see under dunder names.

`Injected` holds `__opts__`, `__grains__` and `__pillar__`; `Context` is `__context__`; `LazyFunctions` is `__salt__`
and `__utils__`; `LocalMatcher` is `__matches__`. Modules written for Salt call `.value()` on injected objects to get
the plain one; here each returns itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from saltlite.errors import UsageError
from saltlite.model.ids import MinionId
from saltlite.model.job import Target, TargetKind

_RETCODE = "retcode"

_NOTHING: Mapping[str, Any] = {}

_slot: ContextVar[dict[str, Any]] = ContextVar("retcode")


class Injected(dict[str, Any]):
    """A dict that modules see under a dunder name."""

    def value(self) -> Injected:
        """The dict itself."""
        return self

    def refresh(self, now: Mapping[str, Any]) -> None:
        """Replace the content in place, so that every reference sees it."""
        for gone in self.keys() - now.keys():
            del self[gone]
        self.update(now)


class PerCall(Mapping[str, Any]):
    """A mapping whose content is set for each call with `during`; empty outside of calls.

    It is not a dict, because Python reads a dict without calling its methods.
    """

    def __init__(self, name: str) -> None:
        self._now: ContextVar[Mapping[str, Any]] = ContextVar(name, default=_NOTHING)

    @contextlib.contextmanager
    def during(self, values: Mapping[str, Any]) -> Iterator[None]:
        """The mapping is `values` inside the block, in this thread only."""
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
    """`__context__`: shared by the modules of a loader, except for `retcode`, which belongs to the running call.

    Concurrent and nested calls therefore never see each other's return code. Iterating does not show it.
    """

    @contextlib.contextmanager
    def own_retcode(self) -> Iterator[Mapping[str, Any]]:
        """`retcode` belongs to this call inside the block; yields the mapping that receives it."""
        token = _slot.set({})
        try:
            yield _slot.get()
        finally:
            _slot.reset(token)

    def _place(self, key: object) -> dict[str, Any] | None:
        """The mapping of the call, for a key that belongs to the call."""
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


Function = Callable[..., Any]
Functions = Mapping[str, Function]

ASKED = (
    "candidates", "conformance", "describe", "functions", "interface", "interfaces", "module_doc", "modules",
    "not_loaded", "of_type", "stubs",
)  # fmt: skip
"""Methods of `saltlite.loader.hints.Functions`; they take precedence over modules of the same name."""


class LazyFunctions(Mapping[str, Function]):
    """The functions of a loader that is made at the first access; `functions.test.ping` works for templates."""

    def __init__(self, make: Callable[[], Functions]) -> None:
        self._make = make
        self._made: Functions | None = None

    def value(self) -> LazyFunctions:
        """The mapping itself."""
        return self

    def __getitem__(self, name: str) -> Function:
        return self._loader()[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loader()

    def __iter__(self) -> Iterator[str]:
        return iter(self._loader())

    def __len__(self) -> int:
        return len(self._loader())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        loader = self._loader()
        if name in ASKED:
            return getattr(loader, name)
        return ModuleView(loader, name)

    def _loader(self) -> Functions:
        if self._made is None:
            self._made = self._make()
        return self._made


class ModuleView:
    """The functions of one module as attributes."""

    def __init__(self, loader: Functions, module: str) -> None:
        self._loader = loader
        self._module = module

    def __getattr__(self, function: str) -> Function:
        try:
            return self._loader[f"{self._module}.{function}"]
        except KeyError as error:
            raise AttributeError(str(error)) from error


class LocalMatcher:
    """`__matches__`: whether a target selects this minion, by the master's evaluator over a fleet of one."""

    def __init__(self, opts: Mapping[str, Any], grains: Mapping[str, Any], pillar: Mapping[str, Any]) -> None:
        self._opts = opts
        self._grains = grains
        self._pillar = pillar

    def __call__(self, expression: str, kind: str, *, minion_id: str | None = None, delimiter: str = ":") -> bool:
        """Whether the target selects the minion, with `minion_id` as if it had that id. Raises UsageError.

        The delimiter applies to targets of grains and pillar. Nodegroups are defined on the master only.
        """
        from saltlite.targeting import selects_alone  # noqa: PLC0415 - few jobs use it
        from saltlite.targeting.memory_fleet import Member, MemoryFleet  # noqa: PLC0415 - as above

        if kind not in TargetKind.__members__.values():
            raise UsageError(f"there is no kind of target {kind!r}: there are {', '.join(TargetKind)}")
        me = MinionId(minion_id or str(self._opts.get("id") or self._grains.get("id") or ""))
        fleet = MemoryFleet({me: Member(self._grains, self._pillar)})
        return selects_alone(Target(expression, TargetKind(kind)), fleet, me, delimiter)
