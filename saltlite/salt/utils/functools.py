"""`salt.utils.functools`: functions made of functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

from saltlite.errors import SaltInvocationError
from saltlite.salt.utils.args import get_function_argspec


def namespaced_function(
    function: Callable[..., Any],
    global_dict: dict[str, Any],
    defaults: Any = None,
    preserve_context: Any = None,
) -> FunctionType:
    """A copy of the function whose global names are those of `global_dict`, a plug-in file's `globals()`.

    Names of the function's own file that the plug-in file lacks are added there. `defaults` replace those of the
    function.
    """
    original: Any = function
    for name, value in original.__globals__.items():
        if not (name.startswith("__") and name.endswith("__")):
            global_dict.setdefault(name, value)
    copied = _copy(original, global_dict, original.__name__, defaults or original.__defaults__)
    copied.__module__ = str(global_dict.get("__name__", original.__module__))
    return copied


def alias_function(fun: Callable[..., Any], name: str, doc: str | None = None) -> FunctionType:
    """A copy of the function with another name and the docstring `doc`, or its own after a sentence about the alias."""
    original: Any = fun
    copied = _copy(original, original.__globals__, str(name), original.__defaults__)
    own = f"\nThis function is an alias of ``{original.__name__}``.\n{original.__doc__ or ''}"
    copied.__doc__ = doc if doc and isinstance(doc, str) else own
    return copied


def _copy(original: Any, global_dict: dict[str, Any], name: str, defaults: Any) -> FunctionType:
    copied = FunctionType(original.__code__, global_dict, name, defaults, original.__closure__)
    copied.__kwdefaults__ = original.__kwdefaults__
    copied.__doc__ = original.__doc__
    copied.__dict__.update(original.__dict__)
    return copied


def parse_function(function_arguments: Iterable[Any]) -> dict[str, Any]:
    """`{"args": …, "kwargs": …}` of a list of values and dicts of keywords."""
    items = list(function_arguments)
    keywords: dict[str, Any] = {}
    for item in items:
        if isinstance(item, dict):
            keywords.update(item)
    return {"args": [item for item in items if not isinstance(item, dict)], "kwargs": keywords}


def call_function(salt_function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function with values, dicts of keywords and keywords. Raises SaltInvocationError for missing arguments."""
    spec = get_function_argspec(salt_function)
    count = len(spec.args) - len(spec.defaults or ())
    positional = [arg for arg in args if not isinstance(arg, dict)]
    given: dict[str, Any] = {}
    for one in reversed([arg for arg in args if isinstance(arg, dict)]):
        given.update(one)
    required = spec.args[:count]
    keywords = dict(zip(spec.args[count:], spec.defaults or (), strict=True))
    keywords.update(_optional(given, required))
    keywords.update(kwargs)
    positional += [given[name] for name in required if name in given]
    missing = [name for name in required[len(positional) :] if name not in keywords]
    if missing:
        raise SaltInvocationError(f"Missing arguments: {', '.join(missing)}")
    return salt_function(*positional, **keywords)


def _optional(given: Mapping[str, Any], required: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in required}
