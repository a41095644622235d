"""Logging: the format and the destinations of lines, repeated lines, the log of unprivileged children, and defects.

    2026-11-21T03:30:01.123Z WARNING saltlite.master.processes.link [jid=20261121033001000000 id=web1] text

Everything logs through the standard `logging`; only the composition roots call `configure`, after the process has
become the owner of the log file. Control characters in a message are escaped, so that no input can forge a line.

A defect of saltlite is an exception that no code expected. It costs the request that met it, and not the process: a
supervision point catches it, calls `log_defect`, answers DEFECT and goes on. The exception has rolled back the
transaction of the store.
"""

from __future__ import annotations

import contextvars
import logging
import os
import socket
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from saltlite.errors import StartupError
from saltlite.platform.reactor import Reactor

LEVELS: Final = {
    "quiet": 1000,
    "critical": logging.CRITICAL,
    "error": logging.ERROR,
    "warning": logging.WARNING,
    "info": logging.INFO,
    "profile": 15,
    "debug": logging.DEBUG,
    "trace": 5,
    "garbage": 1,
    "all": 1,
}
"""Salt's names of levels."""

REPEAT_WINDOW_S: Final = 30.0
"""Seconds after a line was written in which the same line is only counted."""

REPEATS_KEPT: Final = 256
"""Different lines that are counted; the oldest is reported and dropped first."""

LOG_FILE_MODE: Final = 0o640

_context: contextvars.ContextVar[tuple[tuple[str, str], ...]] = contextvars.ContextVar("log_context", default=())
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0), 0x2028, 0x2029)}
_ESCAPED.update({ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\t"})


@contextmanager
def log_context(**fields: str) -> Iterator[None]:
    """Add `jid=… id=…` to every line logged inside the block; inner blocks add to outer ones."""
    merged = dict(_context.get()) | fields
    token = _context.set(tuple(merged.items()))
    try:
        yield
    finally:
        _context.reset(token)


def set_log_context(**fields: str) -> None:
    """Add these to every line of this process and of its future children."""
    _context.set(tuple((dict(_context.get()) | fields).items()))


def configure(level: str, *, log_file: str = "", stderr_fd: int | None = 2) -> None:
    """Send the log to `log_file`, unless "", and to `stderr_fd`, unless None. Replaces earlier settings.

    Raises StartupError for a level that is not in LEVELS, and when the file cannot be written.
    """
    if level not in LEVELS:
        raise StartupError(f"log_level {level!r} is not known: use one of {', '.join(LEVELS)}")
    sinks: list[Sink] = []
    if log_file:
        sinks.append(FileSink(log_file))
    if stderr_fd is not None:
        sinks.append(JournalSink(stderr_fd) if _is_journal(stderr_fd) else Sink(stderr_fd))
    _install(level, sinks)


def configure_sink(level: str, sink: Sink) -> None:
    """Send the log to this sink only. Replaces earlier settings, and closes their files."""
    _install(level, [sink])


def write_line(level: int, text: str) -> None:
    """Write a record of another process, as `2026-11-21T… <text>`. Control characters are escaped and further lines
    indented, so that the text cannot forge another record."""
    first, *rest = text.split("\n")
    lines = [first.translate(_ESCAPED), *(f"  {line.removeprefix('  ').translate(_ESCAPED)}" for line in rest)]
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineHandler):
            handler.write_line(level, "\n".join(lines))


def _install(level: str, sinks: list[Sink]) -> None:
    logging.addLevelName(LEVELS["profile"], "PROFILE")
    logging.addLevelName(LEVELS["trace"], "TRACE")
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, LineHandler)]:
        root.removeHandler(old)
        old.close()
    root.addHandler(LineHandler(sinks))
    root.setLevel(LEVELS[level])


def descriptors() -> list[int]:
    """The descriptors of the log, for a forked process that closes all others of its parent."""
    handlers = [handler for handler in logging.getLogger().handlers if isinstance(handler, LineHandler)]
    return [fd for handler in handlers for fd in handler.descriptors()]


def report_repeats() -> None:
    """Write the counts of repeated lines now, for a process that ends without closing its log."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineHandler):
            handler.report_repeats()


def forget_repeats() -> None:
    """Drop the counts in a forked process: the parent reports what was counted before the fork."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineHandler):
            handler.forget_repeats()


class Repeats:
    """Counts lines that come again within REPEAT_WINDOW_S. The time is passed in."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[int, str], tuple[float, int]] = OrderedDict()

    def see(self, key: tuple[int, str], now: float) -> tuple[bool, list[tuple[tuple[int, str], int]]]:
        """Whether to write this line, and which earlier lines were suppressed, how often."""
        due = self._expired(now)
        seen = self._seen.get(key)
        if seen is not None:
            self._seen[key] = (seen[0], seen[1] + 1)
            return False, due
        self._seen[key] = (now, 0)
        return True, due

    def drain(self) -> list[tuple[tuple[int, str], int]]:
        """All counts that were not reported yet."""
        counted = [(key, count) for key, (_, count) in self._seen.items() if count]
        self._seen.clear()
        return counted

    def _expired(self, now: float) -> list[tuple[tuple[int, str], int]]:
        due = []
        while self._seen:
            key, (first, count) = next(iter(self._seen.items()))
            if now - first < REPEAT_WINDOW_S and len(self._seen) < REPEATS_KEPT:
                break
            del self._seen[key]
            if count:
                due.append((key, count))
        return due


class Sink:
    """Writes lines to a descriptor. A line that cannot be written is counted, and the daemon goes on."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._dropped = 0

    def line(self, stamp: str, level: int, text: str) -> str:  # noqa: ARG002 - JournalSink shows the level
        """The line as this sink shows it, newline included."""
        return f"{stamp} {text}\n"

    def write(self, stamp: str, level: int, text: str) -> None:
        if self._dropped:
            lost = f"ERROR {__name__} {self._dropped} log lines could not be written before this one"
            if not self._put(self.line(stamp, logging.ERROR, lost)):
                self._dropped += 1
                return
            self._dropped = 0
        if not self._put(self.line(stamp, level, text)):
            self._dropped += 1

    def close(self) -> None:
        """Close what the sink itself opened."""

    def _put(self, text: str) -> bool:
        data = text.encode(errors="backslashreplace")
        try:
            # One write per line: with O_APPEND, lines of several processes do not mix.
            return os.write(self.fd, data) == len(data)
        except OSError:
            return False


class JournalSink(Sink):
    """The journal behind stderr (sd-daemon(3)): each line has a priority, and no time, which the journal adds."""

    def line(self, stamp: str, level: int, text: str) -> str:  # noqa: ARG002 - the journal has its own time
        prefix = f"<{_priority(level)}>"
        return "".join(f"{prefix}{part}\n" for part in text.split("\n"))


class FileSink(Sink):
    """A file that may be rotated by renaming: the next line goes to a new file with the old name."""

    def __init__(self, path: str) -> None:
        self._path = path
        super().__init__(self._open_first())
        self._identity = self._identify(os.fstat(self.fd))

    def write(self, stamp: str, level: int, text: str) -> None:
        self._follow_rotation()
        super().write(stamp, level, text)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._path, flags, LOG_FILE_MODE)

    def _open_first(self) -> int:
        try:
            folder = os.path.dirname(self._path)
            if folder:
                os.makedirs(folder, mode=0o750, exist_ok=True)
            return self._open()
        except OSError as error:
            raise StartupError(
                f"the log file {self._path} cannot be written ({error.strerror}): "
                'set `log_file` to a place that can, or to "" for none'
            ) from error

    def _follow_rotation(self) -> None:
        try:
            if self._identify(os.stat(self._path)) == self._identity:
                return
        except FileNotFoundError:
            pass
        except OSError:
            return
        try:
            fd = self._open()
        except OSError:
            return
        os.close(self.fd)
        self.fd = fd
        self._identity = self._identify(os.fstat(fd))

    @staticmethod
    def _identify(found: os.stat_result) -> tuple[int, int]:
        return found.st_dev, found.st_ino


class LineHandler(logging.Handler):
    """Formats each record once, suppresses repeats and passes the line to every sink."""

    def __init__(self, sinks: list[Sink], monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._sinks = sinks
        self._monotonic = monotonic
        self._repeats = Repeats()
        self._formatter = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = self._text(record)
        except (TypeError, ValueError, KeyError) as error:
            # A wrong format string is a defect of the caller, and must not end the daemon.
            text = f"ERROR {__name__} a log line of {record.pathname}:{record.lineno} has a bad format: {error}"
        write, swallowed = self._repeats.see((record.levelno, text), self._monotonic())
        stamp = _stamp(record.created)
        self._report(stamp, swallowed)
        if write:
            self._put(stamp, record.levelno, text)

    def write_line(self, level: int, text: str) -> None:
        """Write a line as it is, with the current time."""
        self._put(_stamp(time.time()), level, text)

    def descriptors(self) -> list[int]:
        """The descriptors of all sinks."""
        return [sink.fd for sink in self._sinks]

    def report_repeats(self) -> None:
        """Write the counts of repeated lines, and start again."""
        self._report(_stamp(time.time()), self._repeats.drain())

    def forget_repeats(self) -> None:
        """Drop the counts of repeated lines."""
        self._repeats.drain()

    def close(self) -> None:
        """Report the counts, and close the files."""
        self.report_repeats()
        for sink in self._sinks:
            sink.close()
        self._sinks = []
        super().close()

    def _text(self, record: logging.LogRecord) -> str:
        context = " ".join(f"{name}={value.translate(_ESCAPED)}" for name, value in _context.get())
        message = record.getMessage().translate(_ESCAPED)
        text = f"{record.levelname} {record.name} {f'[{context}] ' if context else ''}{message}"
        # `exc_text` first: a filter may have removed secrets from it.
        trace = record.exc_text or (self._formatter.formatException(record.exc_info) if record.exc_info else "")
        if trace:
            text += "".join(f"\n  {line.translate(_ESCAPED)}" for line in trace.split("\n"))
        return text

    def _report(self, stamp: str, swallowed: list[tuple[tuple[int, str], int]]) -> None:
        for (level, text), count in swallowed:
            first, *_ = text.split("\n", 1)
            times = "1 time" if count == 1 else f"{count} times"
            self._put(stamp, level, f"{first} (repeated {times})")

    def _put(self, stamp: str, level: int, text: str) -> None:
        for sink in self._sinks:
            sink.write(stamp, level, text)


def _stamp(created: float) -> str:
    seconds = int(created)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int((created - seconds) * 1000):03d}Z"


def _priority(level: int) -> int:
    """syslog(3) priorities: 2 critical, 3 error, 4 warning, 6 informational, 7 debug."""
    for at_least, priority in ((50, 2), (40, 3), (30, 4), (20, 6)):
        if level >= at_least:
            return priority
    return 7


def _is_journal(fd: int) -> bool:
    try:
        found = os.fstat(fd)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


LINE_MAX = 16 * 1024
"""Bytes of one line, a traceback included; a longer one is cut."""
LINES_A_TURN = 64
"""Lines that the parent reads in one turn."""
LINES_PER_S = 500
"""Lines written per second; further ones are counted and reported in the next second."""


class LogRelay:
    """The log of a child that must not open the log file. The parent creates the relay before the fork.

    `name` marks lines that the interpreter writes to stderr, as they do not name their origin.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self._second = 0
        self._lines = 0
        self._dropped = 0

    def fileno(self) -> int:
        """The child's descriptor."""
        return self._theirs.fileno()

    def listen(self, reactor: Reactor) -> None:
        """In the parent: log the lines of the child."""
        reactor.add_reader(self._ours.fileno(), self._readable)

    def close(self) -> None:
        """In the parent: stop listening."""
        self._ours.close()
        self._theirs.close()

    def become_child(self, level: str) -> None:
        """In the child: log through the parent from now on, and close stdin, stdout, stderr and the log file."""
        configure_sink(level, RelaySink(self._theirs.fileno()))
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for descriptor in (0, 1):
            os.dup2(null, descriptor)
        os.dup2(self._theirs.fileno(), 2)
        os.close(null)

    def _readable(self) -> None:
        for _ in range(LINES_A_TURN):
            try:
                line = self._ours.recv(LINE_MAX)
            except OSError:
                return
            self._take(line)

    def _take(self, line: bytes) -> None:
        if not line.strip():
            return  # the end of a line that the interpreter wrote in pieces
        second = int(monotonic())
        if second != self._second:
            dropped, self._dropped = self._dropped, 0
            self._second, self._lines = second, 0
            if dropped:
                write_line(logging.ERROR, f"ERROR {__name__} {dropped} lines of {self._name} were too many")
        self._lines += 1
        if self._lines > LINES_PER_S:
            self._dropped += 1
            return
        head, _, text = line.decode("utf-8", "backslashreplace").partition(" ")
        if head.isascii() and head.isdigit() and len(head) <= len(str(logging.CRITICAL)):
            write_line(int(head), text)
        else:
            # Not from its logging: the interpreter writes to stderr when it ends.
            write_line(logging.ERROR, f"ERROR {self._name} {head} {text}".rstrip())


class RelaySink(Sink):
    """The child's end: one message per line, after its level. A line that the parent is too slow for is counted."""

    def line(self, stamp: str, level: int, text: str) -> str:  # noqa: ARG002 - the parent has its own time
        return f"{level} {text}"

    def _put(self, text: str) -> bool:
        data = text.encode(errors="backslashreplace")[:LINE_MAX]
        try:
            return os.write(self.fd, data) == len(data)
        except OSError:
            return False


log = logging.getLogger(__name__)

DEFECT: Final = "this is a defect of saltlite; its log has the details"
"""The caller's error. It does not have the text of the exception, which may contain values of other users."""
TRACEBACK_EVERY_S: Final = 60.0
"""Seconds between two tracebacks from the same line of code; a client may cause thousands of them."""
PLACES_MAX: Final = 256
"""Lines of code in `_logged`."""

_logged: dict[tuple[str, str, int], tuple[float, int]] = {}
"""(type of the exception, file, line) -> when it was logged, and how often it was not logged since."""


def log_defect(where: str) -> None:
    """Log the current exception. `where` names the request that met it, without its values."""
    kind, error, trace = sys.exc_info()
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = (
        kind.__name__ if kind is not None else "",
        trace.tb_frame.f_code.co_filename if trace is not None else "",
        trace.tb_lineno if trace is not None else 0,
    )
    now = time.monotonic()
    logged_at, suppressed = _logged.get(place, (-TRACEBACK_EVERY_S, 0))
    if now - logged_at < TRACEBACK_EVERY_S:
        _logged[place] = logged_at, suppressed + 1
        return
    if len(_logged) >= PLACES_MAX:
        _logged.clear()
    _logged[place] = now, 0
    again = f" (and {suppressed} times more since it was last logged)" if suppressed else ""
    log.error("%s met a defect of saltlite: please report this%s", where, again, exc_info=error)


def supervised(where: str, work: Callable[[], None]) -> bool:
    """Do the work; False if it met a defect, which is then logged."""
    try:
        work()
    except Exception:  # noqa: BLE001 - named supervision point: the caller goes on with its next piece of work
        log_defect(where)
        return False
    return True
