"""Decorators for the functions of plug-in files, under the names that authors know from `salt.utils.decorators`.

What belongs here: decorators, and what they need to decide. What does not: loading files, injected names, anything
that a plug-in does not import. A plug-in file imports this package and `saltlite.errors`, and nothing above them.
"""

from __future__ import annotations

import functools
import inspect
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from saltlite.decorators.dependency import depends
from saltlite.decorators.notes import note
from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError

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


log = logging.getLogger(__name__)


def memoize(function: Decorated) -> Decorated:
    """Remember what the function returned for the same arguments, for as long as its module is loaded: one job.

    Arguments are the same when they are equal and of the same type; with one that cannot be hashed the function is
    called.
    """
    known: dict[Any, Any] = {}

    @functools.wraps(function)
    def remembered(*args: Any, **kwargs: Any) -> Any:
        key = (
            tuple((type(value), value) for value in args),
            tuple((name, type(kwargs[name]), kwargs[name]) for name in sorted(kwargs)),
        )
        try:
            if key not in known:
                known[key] = function(*args, **kwargs)
        except TypeError:
            if _hashable(key):
                raise  # the function's own
            return function(*args, **kwargs)
        return known[key]

    return cast(Decorated, remembered)


def _hashable(key: object) -> bool:
    try:
        hash(key)
    except TypeError:
        return False
    return True


def timing(function: Decorated) -> Decorated:
    """Log, for debugging, how long each call takes."""

    @functools.wraps(function)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = time.monotonic()
        try:
            return function(*args, **kwargs)
        finally:
            log.debug("Function %s took %.6f seconds to execute", function.__name__, time.monotonic() - began)

    return cast(Decorated, timed)


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


def find_program(exe: str | None = None) -> str | None:
    """The path of the program, or None when PATH does not have it. Contract: `salt.utils.path.which`."""
    return shutil.which(exe) if exe else None


def find_first_program(exes: Iterable[str]) -> str | None:
    """The path of the first of the programs that PATH has. Contract: `salt.utils.path.which_bin`."""
    return next((path for exe in exes if (path := find_program(exe))), None)


def which(exe: str) -> Callable[[Decorated], Decorated]:
    """Calling the function raises CommandNotFoundError where PATH does not have the program."""
    return _needing([exe], f"The '{exe}' binary was not found in $PATH.")


def which_bin(exes: Iterable[str]) -> Callable[[Decorated], Decorated]:
    """Calling the function raises CommandNotFoundError where PATH has none of the programs."""
    names = list(exes)
    return _needing(names, f"None of provided binaries({', '.join(names)}) was found in $PATH.")


def _needing(exes: list[str], sentence: str) -> Callable[[Decorated], Decorated]:
    def decorate(function: Decorated) -> Decorated:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            if find_first_program(exes) is None:
                raise CommandNotFoundError(sentence)
            return function(*args, **kwargs)

        return cast(Decorated, checked)

    return decorate


__all__ = [
    "allow_one_of",
    "depends",
    "ensure_unicode_args",
    "ignores_kwargs",
    "is_deprecated",
    "memoize",
    "require_one_of",
    "timing",
    "which",
    "which_bin",
    "with_deprecated",
]
