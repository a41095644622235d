"""`__salt__` and `__utils__` as modules see them: mappings of functions, and `__salt__.test.ping` for templates.

What `saltlite.loader.hints.Functions` names goes before a module of that name; by its key every function is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Function = Callable[..., Any]
Functions = Mapping[str, Function]

ASKED = (
    "candidates", "conformance", "describe", "functions", "interface", "interfaces", "module_doc", "modules",
    "not_loaded", "of_type", "stubs",
)  # fmt: skip
"""What modules may ask beside the functions themselves."""


class CrossCalls(Mapping[str, Function]):
    """The functions of a loader, which is made when it is first asked for one."""

    def __init__(self, make: Callable[[], Functions]) -> None:
        self._make = make
        self._made: Functions | None = None

    def value(self) -> CrossCalls:
        """Itself: modules that were written for Salt ask so for the plain object."""
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
