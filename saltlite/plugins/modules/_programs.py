"""Runs system programs for modules: as a list of words, in the C locale, without a shell.

Also converts failures to errors, and rejects arguments that a program could misread as options.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError
from saltlite.plugins.modules._command import OUTPUT_BYTES_MAX, CommandContext, Output, run_to_end

REASON_LINES_MAX = 3
"""Lines of a program's output that an error quotes."""

_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "LANGUAGE": "", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
"""Surrogates cannot be passed to a program."""


class Ended(NamedTuple):
    """An ended program; `retcode` is negative for a signal."""

    program: str
    retcode: int
    stdout: str
    stderr: str

    def reason(self) -> str:
        """Return the first lines of a failed program's messages, as one line."""
        lines = [line.strip() for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        silent = f"signal {-self.retcode} ended it" if self.retcode < 0 else "it gave no reason"
        return ("; ".join(lines[:REASON_LINES_MAX]) or silent).removeprefix(f"{self.program}: ")

    def failure(self) -> CommandExecutionError:
        """Return the error for a failed program."""
        return CommandExecutionError(f"{self.program} failed (return code {self.retcode}): {self.reason()}")


def run(argv: Sequence[Any], *, stdin: str | None = None, timeout_s: float | None = None, exact: bool = False) -> Ended:
    """Run a program in `/`, with the system administration folders in its PATH. `stdin` is never logged or quoted.

    Bytes that are not UTF-8 are replaced; with `exact` they become surrogates, which `stdin` converts back.

    Raises CommandNotFoundError; CommandExecutionError when it cannot be started, exceeds `timeout_s`, or prints more
    than OUTPUT_BYTES_MAX.
    """
    words = [str(part) for part in argv]
    context = CommandContext(
        cwd="/",
        env={**os.environ, **_ENVIRONMENT, "PATH": _path()},
        stdin=None if stdin is None else stdin.encode(errors="surrogateescape"),
        redirect_stderr=False,
        timeout_s=timeout_s,
        identity={},
    )
    try:
        done = run_to_end(words, context)
    except CommandExecutionError as error:
        # An unreadable folder of PATH causes PermissionError even if the program is in none.
        if isinstance(error.__cause__, PermissionError) and "/" not in words[0] and find(words[0]) is None:
            raise CommandNotFoundError(f"{words[0]} (there is no such program on this minion)") from error
        raise
    if done.timed_out:
        raise CommandExecutionError(f"{words[0]} did not end within {timeout_s:g} s, and was killed.")
    if done.stdout.dropped:
        raise CommandExecutionError(f"{words[0]} printed more than {OUTPUT_BYTES_MAX} bytes, and not all was read.")
    errors = "surrogateescape" if exact else "replace"
    return Ended(os.path.basename(words[0]), done.retcode, _text(done.stdout, errors), _text(done.stderr))


def checked(argv: Sequence[Any], *, stdin: str | None = None, timeout_s: float | None = None) -> Ended:
    """Like `run`; raises CommandExecutionError with the program's message when it fails."""
    done = run(argv, stdin=stdin, timeout_s=timeout_s)
    if done.retcode:
        raise done.failure()
    return done


def output(argv: Sequence[Any], *, timeout_s: float | None = None) -> str:
    """Return the output of a program that succeeds. Raises like `checked`."""
    return checked(argv, timeout_s=timeout_s).stdout


def find(program: str) -> str | None:
    """Return the path of a program, or None; also searches the system administration folders."""
    import shutil

    return shutil.which(program, path=_path())


def word(given: Any, what: str) -> str:
    """Return the value as an argument of a program. Raises SaltInvocationError if it cannot be a `what` (a noun, such
    as "host"): when it is empty, begins with a hyphen, or contains control characters.
    """
    text = str(given)
    if _is_no_word(text):
        raise SaltInvocationError(f"{text!r} cannot be a {what}.")
    return text


def name(given: Any, what: str, *, without: str = "/:") -> str:
    """Return a name as an argument of a program. Raises like `word`, and for the characters in `without`."""
    text = str(given)
    if _is_no_word(text) or any(one in text for one in without):
        raise SaltInvocationError(f"{text!r} is not the name of a {what}.")
    return text


def value(given: Any, what: str, *, without: str = ":") -> str:
    """Return the value of an option. Raises SaltInvocationError for control characters and those in `without`."""
    text = "" if given is None else str(given)
    if _CONTROL.search(text) or any(one in text for one in without):
        shown = f" or one of {without}" if without else ""
        raise SaltInvocationError(f"{text!r} cannot be a {what}: it has a line break, a control character{shown}.")
    return text


def number(given: Any, what: str) -> int:
    """Return a number from 0 up. Raises SaltInvocationError."""
    text = str(given)
    if isinstance(given, bool) or not re.fullmatch(r"[0-9]+", text, re.ASCII):
        raise SaltInvocationError(f"{what} is a number from 0 up, not {given!r}.")
    return int(text)


def folder(root: Any) -> str | None:
    """Return the absolute folder `root` of another system; None for this one. Raises SaltInvocationError."""
    if root in (None, "", "/"):
        return None
    path = str(root)
    if not os.path.isabs(path) or _CONTROL.search(path) or not os.path.isdir(path):
        raise SaltInvocationError(f"root must be the absolute path of a folder on this minion, not {path!r}.")
    return path


def _is_no_word(text: str) -> bool:
    return not text or text.startswith("-") or bool(_CONTROL.search(text))


def _path() -> str:
    known = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([*known, *(folder for folder in _FOLDERS if folder not in known)])


def _text(output: Output, errors: str = "replace") -> str:
    return bytes(output.data).decode("utf-8", errors)
