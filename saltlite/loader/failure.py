"""Why a file offers no functions, and the error of asking for a function that nobody offers.

The sentences are part of the contract with callers and tools: `'m.f' is not available.` and the prefix
`'m' __virtual__ returned False` are Salt's texts. Salt uses the second one also when a file could not even be
imported; here that has sentences of its own, because it is another fault with another remedy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType

from saltlite.errors import CommandExecutionError


class FailureKind(StrEnum):
    """What went wrong with one file."""

    REFUSED = "refused"  # its `__virtual__` said no, or raised
    NOT_IMPORTED = "not imported"  # its syntax, an import or its body failed
    NOT_LOADED = "not loaded"  # its `__init__` raised


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one file offers nothing. `line` is 0 when the fault has no place in the file."""

    kind: FailureKind
    reason: str
    path: str
    line: int = 0

    def sentence(self, name: str) -> str:
        """The failure as a caller of `name` reads it."""
        if self.kind is FailureKind.REFUSED:
            return f"'{name}' __virtual__ returned False" + (f": {self.reason}" if self.reason else "")
        verb = "could not be imported" if self.kind is FailureKind.NOT_IMPORTED else "was not loaded"
        return f"'{name}' {verb}: {self.reason}"


class FunctionUnavailable(CommandExecutionError, KeyError):  # noqa: N818 - a KeyError too: `__salt__` is a mapping
    """No loaded module offers the function.

    It is a KeyError as well, so that `__salt__.get` and `except KeyError` of existing modules keep working.
    `suggestions` are near names for a person; they are never part of the text.
    """

    def __init__(self, text: str, suggestions: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.text = text
        self.suggestions = tuple(suggestions)

    def __str__(self) -> str:
        return self.text


def failure_of(kind: FailureKind, error: BaseException, path: str, prefix: str = "") -> Failure:
    """The failure that `error`, raised by the code of the file at `path`, stands for."""
    if isinstance(error, SyntaxError):
        line, text = (error.lineno or 0) if error.filename == path else 0, error.msg
    else:
        line, text = _line_in(error.__traceback__, path), _text_of(error)
    place = f" ({os.path.basename(path)}, line {line})" if line else ""
    return Failure(kind, f"{prefix}{type(error).__name__}: {text}{place}", path, line)


def join_failures(name: str, failures: Iterable[Failure]) -> str:
    """One text for all the files that could have provided `name` and did not."""
    refused: list[str] = []
    others: list[str] = []
    for failure in failures:
        if failure.kind is FailureKind.REFUSED:
            refused.append(failure.reason)
        else:
            others.append(failure.sentence(name))
    if refused:
        reasons = "; ".join(reason for reason in refused if reason)
        others.insert(0, Failure(FailureKind.REFUSED, reasons, "").sentence(name))
    return "; ".join(others)


def _line_in(trace: TracebackType | None, path: str) -> int:
    line = 0
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the exception class is foreign code too, and the report must survive it
        return "(its text cannot be made)"
