"""Which functions a loaded module offers, under which names, and which of them what they need lets through.

plain functions and lambdas of the module        offered, if their name has no `_` in front
what `__load__` (else `__all__`) lists           nothing else is offered; a partial or another callable is, too
classes, data, functions imported from elsewhere never, unless listed (classes never)
`__parts__ = {"lines": ["line"]}` of a package   offered; the file is loaded when one of them is asked for
`__func_alias__ = {"list_": "list"}`             offered as `list` only
`@depends(…)` that does not hold                 not offered, or its fallback in its place
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from saltlite.decorators.dependency import requirements_of
from saltlite.loader.deadline import load_deadline

Function = Callable[..., Any]


class Offer(Mapping[str, Function]):
    """The functions of one module by the name that callers type.

    What a function depends on is looked at when it is asked for, and once: it may mean running a command.
    """

    def __init__(
        self, module: ModuleType, own_names: frozenset[str], bridge: Callable[[Function], Function] | None = None
    ) -> None:
        """`own_names` are the values of `__module__` that functions of this module have; `bridge` makes of each what
        others call."""
        self._space = module.__dict__
        self._bridge = bridge
        self._judged: dict[str, Function | str] = {}
        alias = self._space.get("__func_alias__")
        shown = alias if isinstance(alias, dict) else {}
        self._parts = dict(parted_names(self._space.get("__parts__")))
        names = [*_offered_names(self._space, own_names), *self._parts]
        self.shown_names = {name: str(shown.get(name, name)) for name in names}
        """Name in the file -> name that callers type."""
        self._names = {shown: name for name, shown in self.shown_names.items()}

    def constant(self, name: str) -> Any:
        """What the module holds at its top under that name; None for nothing."""
        return self._space.get(name)

    def lacking(self, name: str) -> str:
        """What the function needs and does not have here, to be read behind "needs"; empty when nothing."""
        judged = self._judge(name)
        return judged if isinstance(judged, str) else ""

    def listed(self) -> list[str]:
        """The names, as iterating gives them, but no part is loaded for it: what is not loaded yet is trusted."""
        unread = {shown for shown, name in self._names.items() if name in self._parts and shown not in self._judged}
        return [name for name in self._names if name in unread or name in self]

    def __getitem__(self, name: str) -> Function:
        judged = self._judge(name)
        if judged is None or isinstance(judged, str):
            raise KeyError(name)
        return judged

    def __contains__(self, name: object) -> bool:
        return callable(self._judge(name))

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _judge(self, name: object) -> Function | str | None:
        if not isinstance(name, str) or name not in self._names:
            return None
        if name not in self._judged:
            judged = self._verdict(self._names[name])
            bridge = self._bridge if callable(judged) else None
            self._judged[name] = judged if bridge is None or isinstance(judged, str) else bridge(judged)
        return self._judged[name]

    def _verdict(self, name: str) -> Function | str:
        space = self._space
        if name in self._parts:
            part = f"{self._parts[name]}.py"
            try:
                with load_deadline():
                    space = space["__loader__"].part(self._parts[name]).__dict__
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - supervision point: the body is anybody's code
                return f"{part}, which could not be loaded: {type(error).__name__}: {error}"
            if not _may_be_listed(space.get(name)):
                return f"a function of that name in {part}"
        function: Function = space[name]
        for requirement in requirements_of(function):
            lacking = requirement.lacking(space)
            if lacking:
                return requirement.fallback or lacking
        return function


def parted_names(declared: object) -> Iterator[tuple[str, str]]:
    """(function, part) for all that the `__parts__` of a package names."""
    if isinstance(declared, Mapping):
        for part, names in declared.items():
            if isinstance(names, list | tuple):
                yield from ((name, str(part)) for name in map(str, names) if not name.startswith("_"))


def _offered_names(space: Mapping[str, Any], own_names: frozenset[str]) -> list[str]:
    listed = space.get("__load__", space.get("__all__"))
    if isinstance(listed, list | tuple | set | frozenset):
        names = [str(name) for name in listed]
        return [name for name in names if not name.startswith("_") and _may_be_listed(space.get(name))]
    return [name for name, value in list(space.items()) if not name.startswith("_") and _is_own(value, own_names)]


def _is_own(value: Any, own_names: frozenset[str]) -> bool:
    # Of machine code `isfunction` says no: Cython's functions are of a type of their own.
    machine_code = inspect.isroutine(value) and not inspect.ismethod(value)
    return (inspect.isfunction(value) or machine_code) and getattr(value, "__module__", None) in own_names


def _may_be_listed(value: Any) -> bool:
    return callable(value) and not inspect.isclass(value)
