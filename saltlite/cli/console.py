"""Where output goes: data on stdout, everything else on stderr; and questions to whoever sits there."""

from __future__ import annotations

import io
import os
import sys
import time

from saltlite.errors import SaltliteError

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

# Whatever could move the cursor, set a title or recolour a terminal, shown as `?`, as Salt does with ESC.
_UNPRINTABLE = dict.fromkeys([*range(0x09), *range(0x0A, 0x20), *range(0x7F, 0xA0)], "?")


def printable(text: str) -> str:
    """One line of foreign text without control characters (a tab stays)."""
    return text.translate(_UNPRINTABLE)


class Console:
    """The streams of one command. `now` gives wall-clock seconds since 1970."""

    def __init__(
        self,
        stdin: TextIO | None,
        stdout: TextIO | None,
        stderr: TextIO | None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self._stderr = stderr
        self.now = now
        self.quiet = False
        """Whether notes are left out; errors and data are not."""

    @classmethod
    def of_process(cls) -> Console:
        """The streams that the process was started with; one that was closed is None."""
        return cls(sys.stdin, sys.stdout, sys.stderr)

    def use_utf8(self) -> None:
        """For formats that programs read: UTF-8 whatever the locale says."""
        if isinstance(self._stdout, io.TextIOWrapper):
            self._stdout.reconfigure(encoding="utf-8")

    def wants_colors(self) -> bool:
        """Whether stdout is a terminal whose owner did not ask for plain text (no-color.org, TERM=dumb)."""
        on_terminal = self._stdout is not None and self._stdout.isatty()
        return on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def data(self, text: str) -> None:
        """Write to stdout, and have it there when this returns.

        Raises BrokenPipeError when its reader is gone, SaltliteError when it cannot be written.
        """
        if self._stdout is None:
            raise SaltliteError("the output cannot be written: stdout is closed")
        if isinstance(self._stdout, io.TextIOWrapper) and self._stdout.errors != "backslashreplace":
            self._stdout.reconfigure(errors="backslashreplace")
        try:
            self._stdout.write(text)
            self._stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise SaltliteError(f"the output cannot be written: {error.strerror}") from error

    def note(self, line: str) -> None:
        """A line for a person, on stderr; left out with --quiet."""
        if not self.quiet:
            self.error(line)

    def error(self, text: str) -> None:
        """Lines on stderr. A stderr that cannot be written is not worth an error of its own."""
        if self._stderr is not None:
            try:
                self._stderr.write("\n".join(printable(line) for line in text.split("\n")) + "\n")
                self._stderr.flush()
            except OSError:
                return

    def can_ask(self) -> bool:
        """Whether a person is there to answer: stdin and stderr are terminals."""
        return all(stream is not None and stream.isatty() for stream in (self._stdin, self._stderr))

    def ask(self, question: str) -> bool:
        """Ask on stderr; only `y` and `yes` agree."""
        if self._stdin is None or self._stderr is None:
            return False
        self._stderr.write(f"{question} [y/N] ")
        self._stderr.flush()
        return self._stdin.readline().strip().lower() in ("y", "yes")

    def abandon_output(self) -> None:
        """Point stdout at nothing, so that the interpreter's last flush does not fail on a closed pipe."""
        if self._stdout is sys.stdout and isinstance(self._stdout, io.TextIOWrapper):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stdout.fileno())
            os.close(null)
