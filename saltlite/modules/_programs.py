"""Programs that modules run for what no file tells: as a list of words, in the C locale, without a shell.

What belongs here: running one, its failure as a sentence, and refusing a word that a program would take for an option.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Any

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError

REASON_LINES_MAX = 3
"""Lines of a program's own words that an error repeats."""
_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def run(argv: Sequence[str], timeout_s: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program to its end. Raises CommandNotFoundError, and CommandExecutionError when the time is over."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "LANGUAGE": "", "PATH": _path()}
    try:
        return subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise CommandNotFoundError(argv[0]) from error
    except subprocess.TimeoutExpired as error:
        raise CommandExecutionError(f"{argv[0]} did not end within {timeout_s:g} s, and was killed.") from error
    except OSError as error:
        # A folder of PATH that may not be looked into hides that the program is in none.
        if "/" not in argv[0] and find(argv[0]) is None:
            raise CommandNotFoundError(argv[0]) from error
        raise CommandExecutionError(f"{argv[0]} cannot be run: {error.strerror}.") from error
    except ValueError as error:
        raise CommandExecutionError(f"{argv[0]} cannot be run: an argument is no text of UTF-8 without NUL.") from error


def output(argv: Sequence[str], timeout_s: float | None = None) -> str:
    """What a program that succeeds prints. Raises as `run`, and CommandExecutionError when it fails."""
    done = run(argv, timeout_s)
    if done.returncode:
        raise CommandExecutionError(f"{argv[0]} failed (return code {done.returncode}): {reason(done)}")
    return done.stdout


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """The first lines of what a failed program says, in one line."""
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    return "; ".join(lines[:REASON_LINES_MAX]) or "it gave no reason"


def find(name: str) -> str | None:
    """The path of a program, or None; the folders of the administrator's programs are searched too."""
    import shutil

    return shutil.which(name, path=_path())


def word(value: Any, what: str) -> str:
    """A value as a word for a program. Raises SaltInvocationError for what would be no `what` (a noun, such as "host").

    Refused: nothing at all, a hyphen at the beginning, line ends and NUL.
    """
    text = str(value)
    if not text or text.startswith("-") or any(bad in text for bad in "\n\r\0"):
        raise SaltInvocationError(f"{text!r} cannot be a {what}.")
    return text


def _path() -> str:
    known = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([*known, *(folder for folder in _FOLDERS if folder not in known)])
