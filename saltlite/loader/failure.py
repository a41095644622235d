"""Why a file offers no functions, the error for unavailable functions, and the time limit while modules load.

`'m.f' is not available.` and the prefix `'m' __virtual__ returned False` are Salt's texts and part of the contract with
callers and tools. Salt also uses the second one for a file that could not be imported, which has its own text here.
"""

from __future__ import annotations

import contextlib
import opcode
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from types import FrameType, TracebackType

from saltlite.errors import CommandExecutionError
from saltlite.loader.formats import ArchiveError, CompileError
from saltlite.model.dataclass import dataclass

LOAD_SECONDS = 30.0
"""Time limit for each of a module's body, `__init__` and `__virtual__`."""

_REPEAT_SECONDS = 1.0
"""Interval of further alarms, for modules that swallow the first one."""


class DeadlineError(BaseException):
    """The code did not end in time. It is not an Exception, so a module's `except Exception` does not swallow it."""

    def __init__(self) -> None:
        super().__init__(f"it did not end within {LOAD_SECONDS:g} s")


@contextlib.contextmanager
def load_deadline() -> Iterator[None]:
    """Raises DeadlineError inside the block after LOAD_SECONDS.

    An alarm interrupts the main thread. Other threads, and loops inside C libraries, are subject to the job's time
    limit only. A file that another file's body loads has its own time, and suspends the outer limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    outer_handler = signal.signal(signal.SIGALRM, _expire)
    outer_left, outer_interval = signal.setitimer(signal.ITIMER_REAL, LOAD_SECONDS, _REPEAT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # None stands for a handler that is not a Python function and cannot be restored.
        signal.signal(signal.SIGALRM, signal.SIG_DFL if outer_handler is None else outer_handler)
        if outer_left or outer_interval:
            signal.setitimer(signal.ITIMER_REAL, outer_left or outer_interval, outer_interval)


def _expire(_signum: int, _frame: FrameType | None) -> None:
    raise DeadlineError


_RAISE = opcode.opmap["RAISE_VARARGS"]


def is_interruption(error: BaseException) -> bool:
    """Whether it is a KeyboardInterrupt that a user caused with Ctrl-C, and not a `raise` in the code of a file."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    # The handler of the signal is no Python code: it interrupts another instruction.
    return last is None or last.tb_frame.f_code.co_code[last.tb_lasti] != _RAISE


class FailureKind(StrEnum):
    """The step at which a file failed."""

    REFUSED = "refused"  # its `__virtual__` returned False, or raised
    NOT_IMPORTED = "not imported"  # its syntax, an import or its body failed
    NOT_LOADED = "not loaded"  # its `__init__` raised


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one file offers nothing. `line` is 0 if unknown."""

    kind: FailureKind
    reason: str
    path: str
    line: int = 0

    def sentence(self, name: str) -> str:
        """The failure for a caller of `name`."""
        if self.kind is FailureKind.REFUSED:
            return f"'{name}' __virtual__ returned False" + (f": {self.reason}" if self.reason else "")
        verb = "could not be imported" if self.kind is FailureKind.NOT_IMPORTED else "was not loaded"
        return f"'{name}' {verb}: {self.reason}"


class FunctionUnavailable(CommandExecutionError, KeyError):  # noqa: N818 - a KeyError too: `__salt__` is a mapping
    """No loaded module offers the function.

    It is also a KeyError, for `__salt__.get` and for modules with `except KeyError`. `suggestions` are similar names,
    which are not part of the text.
    """

    def __init__(self, text: str, suggestions: Sequence[str] = ()) -> None:
        super().__init__(text)
        self.text = text
        self.suggestions = tuple(suggestions)

    def __str__(self) -> str:
        return self.text


def failure_of(kind: FailureKind, error: BaseException, path: str, prefix: str = "") -> Failure:
    """The failure for an `error` that the code of the file at `path` raised."""
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
    """One text for all files that could have provided `name`."""
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
    """File and line of the innermost frame of the module; line 0 if there is none."""
    file, line = root, 0
    while trace is not None:
        if _is_inside(trace.tb_frame.f_code.co_filename, root):
            file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return file, line


def _is_inside(file: str, root: str) -> bool:
    """Whether the file is the module at `root`, or inside it."""
    return file == root or file.startswith(root + os.sep)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the exception class is foreign code, and the report must survive it
        return "(its text cannot be made)"
