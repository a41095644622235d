"""Functions that need a program: `which` and `which_bin`, and the look-up that plug-ins know as `salt.utils.path`."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from saltlite.errors import CommandNotFoundError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


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
