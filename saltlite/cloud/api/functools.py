"""`salt.utils.functools`, as far as drivers need it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any


def namespaced_function(
    function: Callable[..., Any],
    global_dict: dict[str, Any],
    defaults: Any = None,
    preserve_context: Any = None,  # noqa: ARG001 - Salt's signature; the context is always kept
) -> FunctionType:
    """A copy of the function whose global names are those of `global_dict`, a plug-in file's `globals()`.

    What the function needs of its own file and the plug-in file has not is put there; what both have is the plug-in's.
    `defaults` replace those of the function.
    """
    original: Any = function
    _lend(original.__globals__, global_dict)
    copied = FunctionType(
        original.__code__, global_dict, name=original.__name__, argdefs=defaults or original.__defaults__,
        closure=original.__closure__,
    )  # fmt: skip
    copied.__kwdefaults__ = original.__kwdefaults__
    copied.__doc__ = original.__doc__
    copied.__dict__.update(original.__dict__)
    copied.__module__ = str(global_dict.get("__name__", original.__module__))
    return copied


def _lend(names: Mapping[str, Any], to: dict[str, Any]) -> None:
    for name, value in names.items():
        if not (name.startswith("__") and name.endswith("__")):
            to.setdefault(name, value)
