"""Decorators about the arguments of a call."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from saltlite.errors import SaltInvocationError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def ignores_kwargs(*names: str) -> Callable[[Decorated], Decorated]:
    """The function may be called with these keyword arguments, and never sees them."""

    def decorate(function: Decorated) -> Decorated:
        @functools.wraps(function)
        def without(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **{name: value for name, value in kwargs.items() if name not in names})

        without.__signature__ = _accepting(inspect.signature(function), names)  # type: ignore[attr-defined] # read by inspect
        return cast(Decorated, without)

    return decorate


def _accepting(signature: inspect.Signature, names: tuple[str, ...]) -> inspect.Signature:
    """The signature with the names as keyword arguments too, so that who checks a call lets them pass."""
    parameters = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    rest = [one for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in names
        if name not in signature.parameters
    ]
    return signature.replace(parameters=[*parameters, *more, *rest])


def allow_one_of(*names: str) -> Callable[[Decorated], Decorated]:
    """A call may give one of these arguments; SaltInvocationError when it gives more."""
    return _counting(names, required=False)


def require_one_of(*names: str) -> Callable[[Decorated], Decorated]:
    """A call must give exactly one of these arguments; SaltInvocationError when it gives none or more."""
    return _counting(names, required=True)


def _counting(names: tuple[str, ...], *, required: bool) -> Callable[[Decorated], Decorated]:
    def decorate(function: Decorated) -> Decorated:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind_partial(*args, **kwargs).arguments
            by_name = {**given, **kwargs}  # names that only `**kwargs` takes count too
            count = sum(1 for name in names if by_name.get(name))
            if count > 1:
                raise SaltInvocationError(f"Only one of the following is allowed: {', '.join(names)}")
            if required and count == 0:
                raise SaltInvocationError(f"One of the following is required: {', '.join(names)}")
            return function(*args, **kwargs)

        return cast(Decorated, counted)

    return decorate


def ensure_unicode_args(function: Decorated) -> Decorated:
    """Text arguments reach the function as `str`: bytes that are UTF-8 are decoded, others stay as they are."""

    @functools.wraps(function)
    def decoded(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_text, args), **{name: _text(value) for name, value in kwargs.items()})

    return cast(Decorated, decoded)


def _text(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
