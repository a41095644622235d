"""`depends`: offers a function only where its dependencies hold.

    depends("name")                        that global (or local where it is decorated) is there and truthy
    depends("a", "b")                      both of them
    depends(True), depends(HAS_LIB)        the value is truthy
    depends("lib", version="1.2")          … and lib.__version__ is at least 1.2
    depends("/bin/x -v", retcode=0)        the command ends with that return code
    depends("/bin/x", nonzero_retcode=True)  the command fails; False: it succeeds
    fallback_function=f                    f is offered instead, where the dependency does not hold

The decorator only stores the requirement on the function object, whatever the names of module and function. The loader
checks it at the first access to the function, after the module's body has run, so names set further down count.
Commands run then, and never in a shell.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

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
                missing = "" if dependency else "a condition that does not hold here"
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
    """Offer the function only where its dependencies hold (forms: see the module). Contract: Salt's `depends`.

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
