"""Decorators for the functions of plug-in files, under the names that authors know from `salt.utils.decorators`.

A plug-in file imports this module and `saltlite.errors`, and nothing above them. `note` adds a sentence for the caller
that is not part of the return.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar, cast

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.model.dataclass import dataclass

# --- Notes: sentences for the caller that are not part of the return ---

log = logging.getLogger(__name__)

NOTES_MAX = 20
"""Notes of one call; further ones, as from a loop, are dropped."""

_notes: ContextVar[dict[str, None]] = ContextVar("notes")


@contextlib.contextmanager
def collecting() -> Iterator[dict[str, None]]:
    """Collect the notes of the block: sentences in order, each once."""
    token = _notes.set({})
    try:
        yield _notes.get()
    finally:
        _notes.reset(token)


def note(sentence: str) -> None:
    """Add a note for the caller; outside a call, as in a thread of a function, log it instead."""
    notes = _notes.get(None)
    if notes is None:
        log.warning("%s", sentence)
    elif len(notes) < NOTES_MAX:
        notes[sentence] = None


# --- depends ---


Decorated = TypeVar("Decorated", bound=Callable[..., Any])

COMMAND_SECONDS = 10.0
"""A command of `depends` that takes longer counts as failed."""

MARK = "__saltlite_depends__"
"""The attribute of a decorated function that holds its Requirement objects."""

_OUT_OF_TIME = object()


@dataclass(frozen=True, slots=True)
class Requirement:
    """The arguments of one use of `depends`; `local` holds the named locals at the place of use."""

    dependencies: tuple[Any, ...]
    fallback: Callable[..., Any] | None
    version: str | None
    retcode: int | None
    nonzero: bool | None
    local: Mapping[str, Any]

    def missing(self, space: Mapping[str, Any]) -> str:
        """The unmet dependency, to follow "needs"; "" if all hold. `space` holds the module's globals."""
        if self.retcode is not None or self.nonzero is not None:
            return self._failed_command()
        for dependency in self.dependencies:
            if isinstance(dependency, str):
                missing = self._missing_name(dependency, space)
            else:
                # As in Salt, a function is no condition: it is not called.
                holds = dependency and not inspect.isroutine(dependency)
                missing = "" if holds else "a condition that does not hold here"
            if missing:
                return missing
        return ""

    def _missing_name(self, name: str, space: Mapping[str, Any]) -> str:
        found = space.get(name) or self.local.get(name)
        wanted = f"{name} >= {self.version}" if self.version else name
        if not found:
            return wanted
        if self.version is None:
            return ""
        installed = getattr(found, "__version__", None)
        if installed is None:
            return f"{wanted}, and {name} does not say its version"
        return "" if _release(str(installed)) >= _release(self.version) else f"{wanted}, here is {installed}"

    def _failed_command(self) -> str:
        for command in self.dependencies:
            code = _run(str(command))
            if code is _OUT_OF_TIME:
                return f"{command!r} to end within {COMMAND_SECONDS:g} s"
            if self.retcode is not None and code != self.retcode:
                return f"{command!r} to return {self.retcode}, it returns {_spelled(code)}"
            if self.nonzero is not None and self.nonzero == (code == 0):
                return f"{command!r} to {'fail' if self.nonzero else 'succeed'}, it returns {_spelled(code)}"
        return ""


def depends(
    *dependencies: Any,
    fallback_function: Callable[..., Any] | None = None,
    version: str | float | None = None,
    retcode: int | None = None,
    nonzero_retcode: bool | None = None,
) -> Callable[[Decorated], Decorated]:
    """Offer the function only where its dependencies hold. Contract: Salt's `depends`.

    depends("name")                        that global (or local where it is decorated) exists and is truthy
    depends("a", "b")                      both of them
    depends(True), depends(HAS_LIB)        the value is truthy, and no function
    depends("lib", version="1.2")          … and lib.__version__ is at least 1.2
    depends("/bin/x -v", retcode=0)        the command ends with that return code
    depends("/bin/x", nonzero_retcode=True)  the command fails; False: it succeeds
    fallback_function=f                    f is offered instead, where the dependency does not hold

    The decorator only stores the requirement on the function. The loader checks it at the first access to the function,
    after the module's body has run, so names set further down count. Commands run then, and never in a shell.

    Raises TypeError without dependencies, and for an object that cannot carry the mark.
    """
    if not dependencies:
        raise TypeError("depends() needs at least one name, condition or command")
    frame = sys._getframe(1)
    local = frame.f_locals if frame.f_locals is not frame.f_globals else {}
    requirement = Requirement(
        dependencies=dependencies,
        fallback=fallback_function,
        version=None if version is None else str(version),
        retcode=retcode,
        nonzero=nonzero_retcode,
        local={name: local[name] for name in dependencies if isinstance(name, str) and name in local},
    )

    def mark(function: Decorated) -> Decorated:
        try:
            setattr(function, MARK, (requirement, *requirements_of(function)))
        except AttributeError as error:
            raise TypeError(f"depends() cannot decorate a {type(function).__name__}") from error
        return function

    return mark


def requirements_of(function: Callable[..., Any]) -> tuple[Requirement, ...]:
    """The requirements stored on the function, the outermost first."""
    found: tuple[Requirement, ...] = getattr(function, MARK, ())
    return found


def _run(command: str) -> object:
    """The return code, None if the command cannot be started, or _OUT_OF_TIME."""
    import shlex  # noqa: PLC0415 - few functions depend on a command, and `saltlite call` starts for one function
    import subprocess  # noqa: PLC0415 - as above

    try:
        done = subprocess.run(
            shlex.split(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _OUT_OF_TIME
    except (OSError, ValueError, IndexError):
        return None
    return done.returncode


def _spelled(code: object) -> str:
    return "nothing, because it cannot be run" if code is None else str(code)


def _release(version: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key of versions: numbers by value, `1.2rc1` before `1.2`, `1.2.post1` after it."""
    parts: list[tuple[int, int, str]] = []
    for number, word in re.findall(r"(\d+)|([a-z]+)", version.partition("+")[0].lower()):
        if number:
            parts.append((2, int(number), ""))
        else:
            parts.append((3, 0, word) if word in {"post", "rev", "r"} else (0, 0, word))
    while parts and parts[-1] == (2, 0, ""):
        parts.pop()  # 1.2 and 1.2.0 are the same release
    return (*parts, (1, 0, ""))


def ignores_kwargs(*names: str) -> Callable[[Decorated], Decorated]:
    """Accept these keyword arguments, and do not pass them to the function."""

    def decorate(function: Decorated) -> Decorated:
        @functools.wraps(function)
        def without(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **{name: value for name, value in kwargs.items() if name not in names})

        without.__signature__ = _accepting(inspect.signature(function), names)  # type: ignore[attr-defined] # read by inspect
        return cast(Decorated, without)

    return decorate


def _accepting(signature: inspect.Signature, names: tuple[str, ...]) -> inspect.Signature:
    """The signature with the names added as keyword arguments, so that checks of calls accept them."""
    parameters = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    rest = [one for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in names
        if name not in signature.parameters
    ]
    return signature.replace(parameters=[*parameters, *more, *rest])


Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def same_parameters(
    model: Callable[Parameters, Any],
) -> Callable[[Callable[..., Returned]], Callable[Parameters, Returned]]:
    """The function, written with `*args, **kwargs`, has the parameters of `model`, a function above it in its file.

    Calls are checked against them, and `sys.argspec` shows them; neither needs the file to be loaded.
    """

    def decorate(function: Callable[..., Returned]) -> Callable[Parameters, Returned]:
        function.__wrapped__ = model  # type: ignore[attr-defined] # read by inspect
        return function

    return decorate


def allow_one_of(*names: str) -> Callable[[Decorated], Decorated]:
    """Accept at most one of these arguments; more raise SaltInvocationError."""
    return _counting(names, required=False)


def require_one_of(*names: str) -> Callable[[Decorated], Decorated]:
    """Require exactly one of these arguments; none or more raise SaltInvocationError."""
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
    """Decode arguments that are bytes in UTF-8 to `str`; other bytes stay."""

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


def memoize(function: Decorated) -> Decorated:
    """Cache the returns by arguments while the module is loaded, which is one job.

    Arguments are the same if they are equal and of the same type. With an unhashable one nothing is cached.
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
    """Log the duration of each call at level debug."""

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
    """Note with every call that the function is deprecated. `module` is `globals()`. Contract: Salt's decorator."""

    def decorate(function: Decorated) -> Decorated:
        @functools.wraps(function)
        def warned(*args: Any, **kwargs: Any) -> Any:
            name = _full_name(module, function.__name__)
            note(f'The function "{name}" is deprecated and will expire in version "{version}".' + _use(with_successor))
            return function(*args, **kwargs)

        return cast(Decorated, warned)

    return decorate


class with_deprecated:  # noqa: N801 - Salt's name: authors write `with_deprecated.OPT_IN`
    """A function that replaces an old one, which the configuration can still choose.

    The old one is `with_name`, or the function's name after an underscore. With OPT_OUT the new one is called unless
    option `use_deprecated` lists `module.function`; with OPT_IN the old one unless `use_superseded` lists it. A call of
    the old one adds a note. Raises CommandExecutionError if the module does not have it.
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


def which(exe: str) -> Callable[[Decorated], Decorated]:
    """Raise CommandNotFoundError when the function is called and the program is not in PATH."""
    return _needing([exe], f"The '{exe}' binary was not found in $PATH.")


def which_bin(exes: Iterable[str]) -> Callable[[Decorated], Decorated]:
    """Raise CommandNotFoundError when the function is called and none of the programs is in PATH."""
    names = list(exes)
    return _needing(names, f"None of provided binaries({', '.join(names)}) was found in $PATH.")


def _needing(exes: list[str], sentence: str) -> Callable[[Decorated], Decorated]:
    def decorate(function: Decorated) -> Decorated:
        @functools.wraps(function)
        def checked(*args: Any, **kwargs: Any) -> Any:
            import shutil  # noqa: PLC0415 - slow to import, and few functions need it

            if not any(map(shutil.which, exes)):
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
    "same_parameters",
    "timing",
    "which",
    "which_bin",
    "with_deprecated",
]
