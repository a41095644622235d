"""The streams of a command: data to stdout, everything else to stderr, and questions at the terminal."""

from __future__ import annotations

import io
import os
import stat
import sys
import time

from saltlite.errors import SaltliteError
from saltlite.model.plain import printable

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self, TextIO

END_OF_INPUT = "\x04"
"""What Ctrl-D sends when a terminal passes on every key."""


def _is_utf8(stream: TextIO | None) -> bool:
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


class Console:
    """The streams of one command, and what times are compared with: `own_now` gives wall-clock seconds since 1970 by
    this machine, and `now` those of the master's store, once a command has asked the master."""

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
        self.own_now = now
        self.now = now
        self.quiet = False
        """Whether notes and the status line are suppressed; errors and data are not."""
        self._status_shown = False

    @classmethod
    def of_process(cls) -> Console:
        """The streams of this process; a closed one is None."""
        return cls(sys.stdin, sys.stdout, sys.stderr)

    def use_utf8(self) -> None:
        """Write UTF-8 whatever the locale says, for formats that programs read."""
        if isinstance(self._stdout, io.TextIOWrapper):
            self._stdout.reconfigure(encoding="utf-8")

    def writing_to(self, stdout: TextIO) -> Console:
        """The same console with its data going to `stdout`."""
        other = Console(self._stdin, stdout, self._stderr, now=self.own_now)

        def now() -> float:
            return self.now()  # which a client may replace later

        other.now = now
        other.quiet = self.quiet
        return other

    def shows_data(self) -> bool:
        """Whether data goes to a terminal."""
        return self._stdout is not None and self._stdout.isatty()

    def feeds_pipe(self) -> bool:
        """Whether data goes to another program, which a Ctrl-C at the same terminal has ended as well."""
        try:
            return self._stdout is not None and stat.S_ISFIFO(os.fstat(self._stdout.fileno()).st_mode)
        except (OSError, ValueError):
            return False

    def has_symbols(self) -> bool:
        """Whether stdout can show characters such as a check mark."""
        return _is_utf8(self._stdout)

    def wants_colors(self) -> bool:
        """Whether stdout is a terminal and plain text was not requested (no-color.org, TERM=dumb)."""
        return self.shows_data() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def data(self, text: str) -> None:
        """Write to stdout and flush.

        Raises BrokenPipeError when the reader is gone, SaltliteError when writing fails.
        """
        if self._stdout is None:
            raise SaltliteError("the output cannot be written: stdout is closed")
        self.clear_status()
        if isinstance(self._stdout, io.TextIOWrapper) and self._stdout.errors != "backslashreplace":
            self._stdout.reconfigure(errors="backslashreplace")
        try:
            self._stdout.write(text)
            self._stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise SaltliteError(f"the output cannot be written: {error.strerror}") from error

    def paged(self, text: str, *, off: bool = False) -> None:
        """As `data`; at a terminal what is longer than the screen goes through the pager, unless it is `off`."""
        if not off and self.shows_data():
            from saltlite.cli import pager  # other output needs none

            if pager.is_longer(text) and pager.show(text, getattr(self._stdout, "encoding", None) or "utf-8"):
                return
        self.data(text)

    def note(self, line: str) -> None:
        """Write a line for a person to stderr, unless --quiet."""
        if not self.quiet:
            self.error(line)

    def error(self, text: str) -> None:
        """Write lines to stderr; a failure to write them is ignored."""
        self.clear_status()
        self._write_err("\n".join(printable(line) for line in text.split("\n")) + "\n")

    def wants_status(self) -> bool:
        """Whether stderr is a terminal on which a status line can be redrawn."""
        on_terminal = self._stderr is not None and self._stderr.isatty()
        return on_terminal and not self.quiet and os.environ.get("TERM") != "dumb"

    def status_width(self) -> int:
        """How many characters a status line may have: none in the last column, where some terminals wrap."""
        try:
            columns = os.get_terminal_size(self._stderr.fileno()).columns if self._stderr is not None else 0
        except (OSError, ValueError):
            columns = 0
        return (columns or 80) - 1

    def status(self, line: str) -> None:
        """Replace the status line at the bottom of stderr, until data or an error is written."""
        separator = " \u00b7 "
        shown = line if _is_utf8(self._stderr) else line.replace(separator, ", ")
        self._write_err(f"\r{printable(shown)}\x1b[K")
        self._status_shown = True

    def clear_status(self) -> None:
        """Erase the status line."""
        if self._status_shown:
            self._status_shown = False
            self._write_err("\r\x1b[K")

    def _write_err(self, text: str) -> None:
        if self._stderr is not None:
            try:
                self._stderr.write(text)
                self._stderr.flush()
            except OSError:
                return

    def can_ask(self) -> bool:
        """Whether stdin and stderr are terminals, so that a person can answer."""
        return all(stream is not None and stream.isatty() for stream in (self._stdin, self._stderr))

    def ask(self, question: str) -> bool:
        """Ask on stderr; only `y` and `yes` agree."""
        return self.answer(f"{question} [y/N]").lower() in ("y", "yes")

    def answer(self, question: str) -> str:
        """The line that a person types after the question; "" without a terminal."""
        if self._stdin is None or self._stderr is None:
            return ""
        self._stderr.write(f"{printable(question)} ")
        self._stderr.flush()
        return self._stdin.readline().strip()

    def ask_key(self, question: str, keys: str) -> str:
        """Ask on stderr; the first of `keys` that is pressed then, without Enter. "" at the end of the input.

        Input typed before the question is discarded. KeyboardInterrupt passes through, with the terminal restored.
        """
        if self._stdin is None:
            return ""
        with _EveryKey(self._stdin.fileno()) as terminal:
            self._write_err("" if self._status_shown else "\n")  # after the ^C that the terminal shows
            self.clear_status()
            self._write_err(f"{question} ")
            try:
                key = terminal.read(keys)
            except KeyboardInterrupt:
                self._write_err("\n")
                raise
        self._write_err(f"{key}\n")
        return key

    def abandon_output(self) -> None:
        """Redirect stdout to /dev/null, so that the interpreter's last flush does not fail on a closed pipe."""
        if self._stdout is sys.stdout and isinstance(self._stdout, io.TextIOWrapper):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stdout.fileno())
            os.close(null)


class _EveryKey:
    """A context in which a terminal passes on every key that is pressed; Ctrl-C stays a signal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> Self:
        import termios  # only needed here
        import tty

        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor, termios.TCSAFLUSH)
        return self

    def __exit__(self, *unused: object) -> None:
        import termios

        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def read(self, keys: str) -> str:
        """The first of `keys`, in lower case; "" at the end of the input."""
        while True:
            pressed = os.read(self._descriptor, 1).decode("ascii", "replace").lower()
            if pressed in ("", END_OF_INPUT):
                return ""
            if pressed in keys:
                return pressed
