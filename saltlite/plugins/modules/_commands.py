"""Runs the programs that a function needs with `cmd.run_all`, which users may replace by a module of their own.

Apart from `_programs`, because its imports are slow and `file` rarely runs a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from saltlite.errors import CommandExecutionError, CommandNotFoundError


def run_needed(run_all: Callable[..., dict[str, Any]], argv: Sequence[str], **options: Any) -> dict[str, Any]:
    """Run a program with `cmd.run_all`, without a shell, and return its answer.

    Raises CommandNotFoundError if there is no such program; `cmd.run_all` itself raises CommandExecutionError then.
    """
    try:
        return run_all(argv, python_shell=False, **options)
    except CommandExecutionError as error:
        if isinstance(error.__cause__, CommandNotFoundError):
            raise error.__cause__ from error
        raise
