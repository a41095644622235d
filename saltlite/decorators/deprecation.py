"""`is_deprecated` and `with_deprecated`: the caller is told, in the job's return."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from saltlite.decorators.notes import note
from saltlite.errors import CommandExecutionError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def is_deprecated(
    module: Mapping[str, Any], version: str, with_successor: str | None = None
) -> Callable[[Decorated], Decorated]:
    """Every call tells that the function goes away. `module` is `globals()`; Salt's decorator of that name."""

    def decorate(function: Decorated) -> Decorated:
        @functools.wraps(function)
        def warned(*args: Any, **kwargs: Any) -> Any:
            name = _full_name(module, function.__name__)
            note(f'The function "{name}" is deprecated and will expire in version "{version}".' + _use(with_successor))
            return function(*args, **kwargs)

        return cast(Decorated, warned)

    return decorate


class with_deprecated:  # noqa: N801 - Salt's name: authors write `with_deprecated.OPT_IN`
    """A function that has replaced another one, which the configuration may ask for.

    The old one is `with_name`, or the function's name behind an underscore. With OPT_OUT the new one is called unless
    option `use_deprecated` lists `module.function`; with OPT_IN the old one unless `use_superseded` lists it. Calling
    the old one tells the caller. Raises CommandExecutionError when the module does not have it.
    """

    OPT_OUT = 1
    OPT_IN = 2

    def __init__(
        self, module: Mapping[str, Any], version: str, with_name: str | None = None, policy: int = OPT_OUT
    ) -> None:
        self._module = module
        self._version = version
        self._old_name = with_name
        self._policy = policy

    def __call__(self, function: Decorated) -> Decorated:
        @functools.wraps(function)
        def chosen(*args: Any, **kwargs: Any) -> Any:
            name = _full_name(self._module, function.__name__)
            if not self._wants_old(name):
                return function(*args, **kwargs)
            old = self._module.get(self._old_name or f"_{function.__name__}")
            if old is None:
                raise CommandExecutionError(f'The configuration asks for the old "{name}", and its module has none.')
            note(
                f'The configuration asks for the old "{name}", which is deprecated and will expire in version '
                f'"{self._version}".'
            )
            return old(*args, **kwargs)

        return cast(Decorated, chosen)

    def _wants_old(self, name: str) -> bool:
        opts = self._module.get("__opts__") or {}
        pillar = self._module.get("__pillar__") or {}
        option = "use_deprecated" if self._policy == self.OPT_OUT else "use_superseded"
        listed = name in (opts.get(option) or ()) or name in (pillar.get(option) or ())
        return listed == (self._policy == self.OPT_OUT)


def _full_name(module: Mapping[str, Any], function: str) -> str:
    alias = module.get("__func_alias__") or {}
    declared = module.get("__virtualname__")
    name = declared if isinstance(declared, str) else str(module.get("__name__", "")).rpartition(".")[2]
    return f"{name}.{alias.get(function, function)}"


def _use(successor: str | None) -> str:
    return f' Use successor "{successor}" instead.' if successor else ""
