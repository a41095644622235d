"""One program run to its end, for what changes users and services: argument lists, C locale, failures as sentences.

What belongs here: running programs without a shell, and what may be a name in an argument list. It knows nothing of
results.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.modules._command import Output, Surroundings, run_to_end

REASON_LINES = 3
"""Lines of a program's last words that an error quotes."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Surrogates are the halves of characters: no program can be given one."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A program that ran to its end; output is text without white space at its end."""

    program: str
    retcode: int
    stdout: str
    stderr: str

    def reason(self) -> str:
        """What the program said of its failure, in one line."""
        lines = [line.strip() for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        silent = f"signal {-self.retcode} ended it" if self.retcode < 0 else "it gave no reason"
        text = "; ".join(lines[-REASON_LINES:]) or silent
        return text.removeprefix(f"{self.program}: ")


def run(argv: Sequence[Any], stdin: str | None = None, *, exact: bool = False) -> Ended:
    """Run one program in `/`, with its output in the C locale. `stdin` is never logged or quoted.

    Bytes that are no UTF-8 are replaced, or with `exact` are surrogates: as such `stdin` gives them back.

    Raises CommandNotFoundError and CommandExecutionError when it cannot be started.
    """
    surroundings = Surroundings(
        cwd="/",
        env={**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"},
        stdin=None if stdin is None else stdin.encode(errors="surrogateescape"),
        redirect_stderr=False,
        timeout_s=None,
        identity={},
    )
    done = run_to_end([str(part) for part in argv], surroundings)
    errors = "surrogateescape" if exact else "replace"
    return Ended(os.path.basename(str(argv[0])), done.retcode, _text(done.stdout, errors), _text(done.stderr))


def checked(argv: Sequence[Any], stdin: str | None = None) -> Ended:
    """As `run`; raises CommandExecutionError with the program's own words when it fails."""
    done = run(argv, stdin)
    if done.retcode:
        raise CommandExecutionError(f"{done.program} failed (return code {done.retcode}): {done.reason()}")
    return done


def name(text: Any, what: str, *, without: str = "/:") -> str:
    """The name as text. Raises SaltInvocationError for what no `what` is called and an argument list must not hold:
    nothing, a leading hyphen, control characters, or one of the characters `without`."""
    found = str(text)
    if not found or found.startswith("-") or _CONTROL.search(found) or any(one in found for one in without):
        raise SaltInvocationError(f"{found!r} is not the name of a {what}.")
    return found


def value(text: Any, what: str, *, without: str = ":") -> str:
    """A value of an option as text. Raises SaltInvocationError for control characters and the characters `without`."""
    found = "" if text is None else str(text)
    if _CONTROL.search(found) or any(one in found for one in without):
        shown = f" or one of {without}" if without else ""
        raise SaltInvocationError(f"{found!r} cannot be a {what}: it has a line break, a control character{shown}.")
    return found


def number(given: Any, what: str) -> int:
    """A number from 0 up. Raises SaltInvocationError."""
    text = str(given)
    if isinstance(given, bool) or not re.fullmatch(r"[0-9]+", text, re.ASCII):
        raise SaltInvocationError(f"{what} is a number from 0 up, not {given!r}.")
    return int(text)


def folder(root: Any) -> str | None:
    """The folder `root` of another system, None for this one. Raises SaltInvocationError."""
    if root in (None, "", "/"):
        return None
    path = str(root)
    if not os.path.isabs(path) or _CONTROL.search(path) or not os.path.isdir(path):
        raise SaltInvocationError(f"root is the absolute path of a folder, and {path!r} is none on this minion.")
    return path


def _text(output: Output, errors: str = "replace") -> str:
    return bytes(output.data).decode("utf-8", errors).rstrip()
