"""`salt.utils.timed_subprocess`: a program that may run for a limited time."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from typing import Any

from saltlite.salt.exceptions import TimedProcTimeoutError


class TimedProc:
    """A started program; the keywords are those of `subprocess.Popen` and

    bg                   it is not waited for, and its output is not read
    stdin                a text for it, in which `\\n` is the end of a line unless `stdin_raw_newlines`
    with_communicate     its output is read, into `stdout` and `stderr`
    timeout              seconds

    Raises TimedProcTimeoutError for a limit that is no number, and OSError.
    """

    def __init__(self, args: Any, **kwargs: Any) -> None:
        self.wait = not kwargs.pop("bg", False)
        given = kwargs.pop("stdin", None)
        self.with_communicate = kwargs.pop("with_communicate", self.wait) and self.wait
        self.timeout = kwargs.pop("timeout", None)
        raw = kwargs.pop("stdin_raw_newlines", False)
        self.stdin: bytes | None = None
        self.stdout: Any = None
        self.stderr: Any = None
        if self.timeout and not isinstance(self.timeout, int | float):
            raise TimedProcTimeoutError(f"Error: timeout {self.timeout} must be a number")
        if self.wait and given is not None:
            self.stdin = (given if raw else given.replace("\\n", "\n")).encode()
            kwargs["stdin"] = subprocess.PIPE
        if not self.with_communicate:
            kwargs["stdout"] = kwargs["stderr"] = None
        self.command = _words(args, kwargs.get("shell", False))
        self.process: subprocess.Popen[Any] = subprocess.Popen(self.command, **kwargs)

    def run(self) -> int | None:
        """Wait for the program, and return its code. Raises TimedProcTimeoutError; it is killed then."""
        limit = self.timeout or None
        try:
            if self.with_communicate:
                self.stdout, self.stderr = self.process.communicate(input=self.stdin, timeout=limit)
            elif self.wait:
                self.process.wait(limit)
        except subprocess.TimeoutExpired as error:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
            raise TimedProcTimeoutError(f"{self.command} : Timed out after {self.timeout} seconds") from error
        return self.process.returncode


def _words(args: Any, shell: bool) -> Any:
    if shell:
        return args if isinstance(args, str | list | tuple) else str(args)
    return [str(word) for word in (args if isinstance(args, list | tuple) else shlex.split(str(args)))]
