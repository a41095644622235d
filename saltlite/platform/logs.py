"""Logging: the format and the destinations of lines, repeated lines, the log of unprivileged children, and defects.

    2026-11-21T03:30:01.123Z WARNING saltlite.master.processes.link [jid=20261121033001000000 id=web1] text

With `log_format: json` each line is an object with `time`, `level`, `logger`, `message`, the names in brackets above,
and `traceback`. The journal gets the same as fields: PRIORITY, SALTLITE_LOGGER, SALTLITE_JID, SALTLITE_ID …

Everything logs through the standard `logging`; only the composition roots call `configure`, after the process has
become the owner of the log file. Control characters in a message are escaped, so that no input can forge a line.

A defect of saltlite is an exception that no code expected. It costs the request that met it, and not the process: a
supervision point catches it, calls `log_defect`, answers DEFECT and goes on. The exception has rolled back the
transaction of the store.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import signal
import socket
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
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

TEXT, JSON = "text", "json"
FORMATS: Final = (TEXT, JSON)
"""Of a log file, and of stderr where that is not the journal."""

_FIELDS: Final = ("id", "jid", "srn")
"""Names of the context that a child may send."""
_context: contextvars.ContextVar[tuple[tuple[str, str], ...]] = contextvars.ContextVar("log_context", default=())
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0), 0x2028, 0x2029)}
_ESCAPED.update({ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\t"})


@contextlib.contextmanager
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


def configure(level: str, *, log_file: str = "", stderr_fd: int | None = 2, form: str = TEXT) -> None:
    """Send the log to `log_file`, unless "", and to `stderr_fd`, unless None. Replaces earlier settings.

    Raises StartupError for a level that is not in LEVELS, and when the file cannot be written.
    """
    if level not in LEVELS:
        raise StartupError(f"log_level {level!r} is not known: use one of {', '.join(LEVELS)}")
    sinks: list[Sink] = []
    if log_file:
        sinks.append(FileSink(log_file, form))
    if stderr_fd is not None:
        sinks.append(JournalSink(stderr_fd) if _is_journal(stderr_fd) else Sink(stderr_fd, form))
    _install(level, sinks)


def configure_sink(level: str, sink: Sink) -> None:
    """Send the log to this sink only. Replaces earlier settings, and closes their files."""
    _install(level, [sink])


class LogLine:
    """One record. `fields` are names and values of its context; `trace` are the lines of a traceback.

    Nothing in it has control characters, so that no text can forge a line.
    """

    __slots__ = ("fields", "level", "logger", "message", "trace")

    def __init__(
        self,
        level: int,
        logger: str,
        message: str,
        fields: Iterable[tuple[str, str]] = (),
        trace: Iterable[str] = (),
    ) -> None:
        self.level = level
        self.logger = logger.translate(_ESCAPED)
        self.message = message.translate(_ESCAPED)
        self.fields = tuple((name, value.translate(_ESCAPED)) for name, value in fields)
        self.trace = tuple(line.translate(_ESCAPED) for line in trace)

    def text(self) -> str:
        """The line without its time; a traceback is indented below it."""
        context = " ".join(f"{name}={value}" for name, value in self.fields)
        first = f"{self.level_name()} {self.logger} {f'[{context}] ' if context else ''}{self.message}"
        return "\n".join([first, *(f"  {line}" for line in self.trace)])

    def level_name(self) -> str:
        """`WARNING`."""
        return logging.getLevelName(self.level)

    def json(self, stamp: str) -> str:
        """The line as one JSON object."""
        whole = {"time": stamp, "level": self.level_name().lower(), "logger": self.logger}
        for name, value in (*self.fields, ("message", self.message)):
            whole.setdefault(name, value)
        if self.trace:
            whole["traceback"] = "\n".join(self.trace)
        import json  # noqa: PLC0415 - for `log_format: json`, and lines of other processes

        return json.dumps(whole, ensure_ascii=False)

    def journal(self) -> bytes:
        """The line as fields of journald's native protocol."""
        fields = {
            "PRIORITY": str(_priority(self.level)), "SYSLOG_IDENTIFIER": _program(), "SALTLITE_LOGGER": self.logger,
            **{f"SALTLITE_{name.upper()}": value for name, value in self.fields},
            "MESSAGE": "\n".join([self.message, *self.trace]),
        }  # fmt: skip
        return b"".join(_journal_field(name, value) for name, value in fields.items())

    def packed(self) -> bytes:
        """The line for `unpacked` in another process, in LINE_MAX bytes at most."""
        import json  # noqa: PLC0415 - as above

        trace = list(self.trace)
        message = self.message
        while True:
            data = json.dumps([self.level, self.logger, message, self.fields, trace]).encode()
            if len(data) <= LINE_MAX or (not trace and not message):
                return data
            if trace:
                trace = trace[: len(trace) // 2]
            else:
                message = message[: len(message) // 2]


def _unpacked(data: bytes) -> LogLine | None:
    """The line of another process, which may send anything; None for what is none."""
    import json  # noqa: PLC0415 - as above

    try:
        match json.loads(data):
            case [int(level), str(logger), str(message), list(fields), list(trace)] if 0 < level <= logging.CRITICAL:
                names = [(str(name), str(value)) for name, value in fields if str(name) in _FIELDS]
                return LogLine(level, logger, message, names, map(str, trace))
    except (ValueError, TypeError, RecursionError):
        pass
    return None


def _journal_field(name: str, value: str) -> bytes:
    data = value.encode(errors="backslashreplace")
    if b"\n" not in data:
        return b"%s=%s\n" % (name.encode(), data)
    return b"%s\n%s%s\n" % (name.encode(), len(data).to_bytes(8, "little"), data)


def _program() -> str:
    return os.path.basename(sys.argv[0]) or "saltlite"


def write_line(line: LogLine) -> None:
    """Write a record of another process."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineHandler):
            handler.write_line(line)


def _install(level: str, sinks: list[Sink]) -> None:
    logging.addLevelName(LEVELS["profile"], "PROFILE")
    logging.addLevelName(LEVELS["trace"], "TRACE")
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if isinstance(handler, LineHandler)]:
        root.removeHandler(old)
        old.close()
    root.addHandler(LineHandler(sinks))
    root.setLevel(LEVELS[level])
    with contextlib.suppress(ValueError):  # only the main thread of a process may do this
        signal.signal(signal.SIGUSR1, _write_stacks)


def _write_stacks(_signum: int, _frame: object) -> None:
    """Write where each thread is, as Salt's daemons do on SIGUSR1. The process goes on."""
    import threading  # noqa: PLC0415 - few processes get the signal
    import traceback  # noqa: PLC0415 - as above

    names = {thread.ident: thread.name for thread in threading.enumerate()}
    trace: list[str] = []
    for ident, frame in sys._current_frames().items():
        trace.append(f"Thread {names.get(ident, ident)}:")
        trace += [line for entry in traceback.format_stack(frame) for line in entry.rstrip().split("\n")]
    write_line(LogLine(logging.WARNING, __name__, f"SIGUSR1: the stacks of process {os.getpid()}", (), trace))


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
        self._seen: OrderedDict[str, tuple[float, int, LogLine]] = OrderedDict()

    def see(self, line: LogLine, now: float) -> tuple[bool, list[tuple[LogLine, int]]]:
        """Whether to write this line, and which earlier lines were suppressed, how often."""
        due = self._expired(now)
        key = line.text()
        seen = self._seen.get(key)
        if seen is not None:
            self._seen[key] = (seen[0], seen[1] + 1, line)
            return False, due
        self._seen[key] = (now, 0, line)
        return True, due

    def drain(self) -> list[tuple[LogLine, int]]:
        """All counts that were not reported yet."""
        counted = [(line, count) for _, count, line in self._seen.values() if count]
        self._seen.clear()
        return counted

    def _expired(self, now: float) -> list[tuple[LogLine, int]]:
        due = []
        while self._seen:
            key, (first, count, line) = next(iter(self._seen.items()))
            if now - first < REPEAT_WINDOW_S and len(self._seen) < REPEATS_KEPT:
                break
            del self._seen[key]
            if count:
                due.append((line, count))
        return due


class Sink:
    """Writes lines to a descriptor. A line that cannot be written is counted, and the daemon goes on."""

    def __init__(self, fd: int, form: str = TEXT) -> None:
        self.fd = fd
        self._form = form
        self._dropped = 0

    def shown(self, stamp: str, line: LogLine) -> bytes:
        """The line as this sink shows it, newline included."""
        text = line.json(stamp) if self._form == JSON else f"{stamp} {line.text()}"
        return f"{text}\n".encode(errors="backslashreplace")

    def write(self, stamp: str, line: LogLine) -> None:
        if self._dropped:
            lost = f"{self._dropped} log lines could not be written before this one"
            if not self._put(self.shown(stamp, LogLine(logging.ERROR, __name__, lost))):
                self._dropped += 1
                return
            self._dropped = 0
        if not self._put(self.shown(stamp, line)):
            self._dropped += 1

    def close(self) -> None:
        """Close what the sink itself opened."""

    def _put(self, data: bytes) -> bool:
        try:
            # One write per line: with O_APPEND, lines of several processes do not mix.
            return os.write(self.fd, data) == len(data)
        except OSError:
            return False


JOURNAL_SOCKET = "/run/systemd/journal/socket"


class JournalSink(Sink):
    """The journal behind stderr: fields through its socket. What that does not take goes to stderr, where each line has
    a priority (sd-daemon(3)), and no time, which the journal adds."""

    def shown(self, stamp: str, line: LogLine) -> bytes:  # noqa: ARG002 - the journal has its own time
        prefix = f"<{_priority(line.level)}>"
        return "".join(f"{prefix}{part}\n" for part in line.text().split("\n")).encode(errors="backslashreplace")

    def write(self, stamp: str, line: LogLine) -> None:
        # A socket for each line: a forked process that closes all other descriptors needs none of the sink's.
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto(line.journal(), JOURNAL_SOCKET)
        except OSError:
            super().write(stamp, line)


class FileSink(Sink):
    """A file that may be rotated by renaming: the next line goes to a new file with the old name."""

    def __init__(self, path: str, form: str = TEXT) -> None:
        self._path = path
        super().__init__(self._open_first(), form)
        self._identity = self._identify(os.fstat(self.fd))

    def write(self, stamp: str, line: LogLine) -> None:
        self._follow_rotation()
        super().write(stamp, line)

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
            line = self._line(record)
        except (TypeError, ValueError, KeyError) as error:
            # A wrong format string is a defect of the caller, and must not end the daemon.
            place = f"{record.pathname}:{record.lineno}"
            line = LogLine(logging.ERROR, __name__, f"a log line of {place} has a bad format: {error}")
        write, swallowed = self._repeats.see(line, self._monotonic())
        stamp = _stamp(record.created)
        self._report(stamp, swallowed)
        if write:
            self._put(stamp, line)

    def write_line(self, line: LogLine) -> None:
        """Write a line as it is, with the current time."""
        self._put(_stamp(time.time()), line)

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

    def _line(self, record: logging.LogRecord) -> LogLine:
        # `exc_text` first: a filter may have removed secrets from it.
        trace = record.exc_text or (self._formatter.formatException(record.exc_info) if record.exc_info else "")
        lines = trace.split("\n") if trace else ()
        return LogLine(record.levelno, record.name, record.getMessage(), _context.get(), lines)

    def _report(self, stamp: str, swallowed: list[tuple[LogLine, int]]) -> None:
        for line, count in swallowed:
            times = "1 time" if count == 1 else f"{count} times"
            message = f"{line.message} (repeated {times})"
            self._put(stamp, LogLine(line.level, line.logger, message, line.fields))

    def _put(self, stamp: str, line: LogLine) -> None:
        for sink in self._sinks:
            sink.write(stamp, line)


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
                write_line(LogLine(logging.ERROR, __name__, f"{dropped} lines of {self._name} were too many"))
        self._lines += 1
        if self._lines > LINES_PER_S:
            self._dropped += 1
            return
        # What is no record comes from the interpreter, which writes to stderr when it ends.
        text, *trace = line.decode("utf-8", "backslashreplace").rstrip().split("\n")
        write_line(_unpacked(line) or LogLine(logging.ERROR, self._name, text, (), trace))


class RelaySink(Sink):
    """The child's end: one message per line. A line that the parent is too slow for is counted."""

    def shown(self, stamp: str, line: LogLine) -> bytes:  # noqa: ARG002 - the parent has its own time
        return line.packed()


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


def supervised(where: str, work: Callable[..., None], *args: object) -> bool:
    """Do the work with these arguments; False if it met a defect, which is then logged."""
    try:
        work(*args)
    except Exception:  # noqa: BLE001 - named supervision point: the caller goes on with its next piece of work
        log_defect(where)
        return False
    return True
