"""Terminals for tests: a stream that says it is one, and a command line at a real one."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.fleet import WAIT_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
_NONE: Mapping[str, str] = {}


class Terminal(io.StringIO):
    """A stream that says it is a terminal which can show everything."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class AtTerminal:
    """`saltlite` with stdin, stdout and stderr on a terminal of its own that a test types at. Use it as a context."""

    def __init__(
        self, *words: str, columns: int = 80, stdout: int | None = None, environ: Mapping[str, str] = _NONE
    ) -> None:
        """`stdout` is a file that takes the place of the terminal there; `environ` is added to what it inherits."""
        self._ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        self._process = subprocess.Popen(
            ["setsid", "--ctty", sys.executable, "-m", "saltlite", *words],
            stdin=theirs,
            stdout=theirs if stdout is None else stdout,
            stderr=theirs,
            cwd=ROOT,
            env=kept | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8", **environ},
        )
        os.close(theirs)
        self.shown = ""
        """All that came out of it, escape sequences and all."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait(WAIT_S)
        os.close(self._ours)

    def type(self, keys: str) -> None:
        """Press keys; `\\x03` is Ctrl-C."""
        os.write(self._ours, keys.encode())

    def signal(self, number: int) -> None:
        """Send a signal to the command."""
        self._process.send_signal(number)

    def modes(self) -> list[object]:
        """How the terminal works now."""
        return list(termios.tcgetattr(self._ours))

    def wait_for(self, text: str, times: int = 1) -> None:
        """Until the terminal has shown this text so many times."""
        deadline = time.monotonic() + WAIT_S
        while self.shown.count(text) < times:
            assert self._read(deadline), f"{text!r} is not in {self.shown!r}"

    def wait_until(self, look: Callable[[], bool]) -> None:
        """Until the condition holds."""
        wait_until(look, "the condition of the test")

    def ended(self) -> int:
        """The exit code, once it has ended and everything is shown."""
        deadline = time.monotonic() + WAIT_S
        while self._read(deadline):
            continue
        return self._process.wait(WAIT_S)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(OSError):  # EIO: nobody has the other end open any more
            if ready and (chunk := os.read(self._ours, 65536)):
                self.shown += chunk.decode()
                return True
        return False
