"""Why a file offers no functions, and the error of asking for a function that nobody offers.

The sentences are part of the contract with callers and tools: `'m.f' is not available.` and the prefix
`'m' __virtual__ returned False` are Salt's texts. Salt uses the second one also when a file could not even be
imported; here that has sentences of its own, because it is another fault with another remedy.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import FrameType, TracebackType

from saltlite.errors import CommandExecutionError
from saltlite.loader.formats import ArchiveError, CompileError

LOAD_SECONDS = 30.0
"""Each of body, `__init__` and `__virtual__` has this long."""

_AGAIN_SECONDS = 1.0
"""A module that swallows the alarm hears it again after this time."""


class DeadlineError(BaseException):
    """The code did not end in time. No Exception, so that a module's own `except Exception` does not swallow it."""

    def __init__(self) -> None:
        super().__init__(f"it did not end within {LOAD_SECONDS:g} s")


@contextlib.contextmanager
def load_deadline() -> Iterator[None]:
    """Raises DeadlineError inside the block after LOAD_SECONDS."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    outer_handler = signal.signal(signal.SIGALRM, _ring)
    outer_left, outer_interval = signal.setitimer(signal.ITIMER_REAL, LOAD_SECONDS, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # None: a handler that is no Python function, and cannot be set again from here.
        signal.signal(signal.SIGALRM, signal.SIG_DFL if outer_handler is None else outer_handler)
        if outer_left or outer_interval:
            signal.setitimer(signal.ITIMER_REAL, outer_left or outer_interval, outer_interval)


def _ring(_signum: int, _frame: FrameType | None) -> None:
    raise DeadlineError


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
    root = os.path.dirname(path) if os.path.basename(path) == "__init__.py" else path
    if isinstance(error, SyntaxError) and error.filename and _is_inside(error.filename, root):
        file, line, text = error.filename, error.lineno or 0, error.msg
    else:
        file, line = _place_in(error.__traceback__, root)
        text = error.msg if isinstance(error, SyntaxError) else _text_of(error)
    place = f" ({os.path.relpath(file, os.path.dirname(root))}, line {line})" if line else ""
    named = "" if isinstance(error, DeadlineError | ArchiveError | CompileError) else f"{type(error).__name__}: "
    return Failure(kind, f"{prefix}{named}{text}{place}", path, line)


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


def _place_in(trace: TracebackType | None, root: str) -> tuple[str, int]:
    """File and line of the innermost frame that is the module's own; line 0 when there is none."""
    file, line = root, 0
    while trace is not None:
        if _is_inside(trace.tb_frame.f_code.co_filename, root):
            file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return file, line


def _is_inside(file: str, root: str) -> bool:
    """Whether the file is the module at `root`, or a part of it, when it is a package or an archive."""
    return file == root or file.startswith(root + os.sep)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the exception class is foreign code too, and the report must survive it
        return "(its text cannot be made)"
