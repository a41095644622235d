"""Runs programs for modules as a list of words, without a shell, with bounded output and a time limit.

`run_to_end` runs a command of a user, `run` a program of the system: in the C locale, with failures as errors, and
with arguments that a program could misread as options rejected. The child stays in the process group of its parent, so
that killing a job ends it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import selectors
import signal
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from saltlite.errors import CommandExecutionError, CommandNotFoundError, SaltInvocationError

OUTPUT_BYTES_MAX = 15 * 1024 * 1024
"""Bytes that are kept of each output stream; the rest is read and dropped, so that the command never blocks.

Smaller than the maximum return, so that the note about dropped bytes fits.
"""

KILL_GRACE_S = 2.0
"""Seconds to read on after the time limit, from processes that left the tree and hold the pipe."""


TERMINAL_SIZE = (24, 80)
"""Rows and columns of a pseudoterminal."""


class Output:
    """The kept bytes of one output stream, and the number of dropped ones."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.dropped = 0

    def add(self, block: bytes) -> None:
        """Keep as much of the block as fits."""
        room = OUTPUT_BYTES_MAX - len(self.data)
        self.data += block[:room]
        self.dropped += max(len(block) - room, 0)


class CommandContext(NamedTuple):
    """The environment of a command; `identity` is user, group, extra_groups and umask, as for `subprocess`."""

    cwd: str
    env: Mapping[str, str]
    stdin: bytes | None
    redirect_stderr: bool
    timeout_s: float | None
    identity: Mapping[str, Any]
    terminal: bool = False
    """Whether its output streams are pseudoterminals, for programs that look at that."""


class Finished(NamedTuple):
    """An ended or killed command; `retcode` is negative for a signal, and 1 after the time limit."""

    pid: int
    retcode: int
    stdout: Output
    stderr: Output
    timed_out: bool


def run_to_end(argv: Sequence[str], context: CommandContext) -> Finished:
    """Run a command until it has ended and closed its output, or until its time limit.

    Raises CommandNotFoundError and CommandExecutionError when it cannot be started.
    """
    with contextlib.ExitStack() as stack:
        source: Any = subprocess.DEVNULL
        if context.stdin is not None:
            source = stack.enter_context(tempfile.TemporaryFile())
            source.write(context.stdin)
            source.seek(0)
        if context.terminal:
            return _watch(*_started_in_terminal(argv, context, source, stack), context.timeout_s)
        stderr = subprocess.STDOUT if context.redirect_stderr else subprocess.PIPE
        process = stack.enter_context(_started(argv, context, stdin=source, stdout=subprocess.PIPE, stderr=stderr))
        return _watch(process, process.stdout, process.stderr, context.timeout_s)


def start(argv: Sequence[str], context: CommandContext) -> int:
    """Start a command without input or output in its own session; return its pid.

    Raises CommandNotFoundError and CommandExecutionError when it cannot be started.
    """
    nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = _started(argv, context, **nothing, start_new_session=True)
    # No one waits for it, and Python warns about running children that are garbage-collected.
    process.returncode = 0
    return process.pid


def _started_in_terminal(
    argv: Sequence[str], context: CommandContext, source: Any, stack: contextlib.ExitStack
) -> tuple[subprocess.Popen[bytes], Any, Any]:
    """The process, and our ends of its output and error output; None for error output that is redirected."""
    with contextlib.ExitStack() as started:
        stdout, theirs = _terminal(stack, started)
        stderr, errors = (None, subprocess.STDOUT) if context.redirect_stderr else _terminal(stack, started)
        process = stack.enter_context(_started(argv, context, stdin=source, stdout=theirs, stderr=errors))
    return process, stdout, stderr


def _terminal(stack: contextlib.ExitStack, started: contextlib.ExitStack) -> tuple[Any, int]:
    """Our end of a new pseudoterminal, and the descriptor of the other end, which `started` closes. Line breaks pass
    unchanged."""
    ours, theirs = os.openpty()
    started.callback(os.close, theirs)
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    termios.tcsetwinsize(theirs, TERMINAL_SIZE)
    return stack.enter_context(open(ours, "rb", buffering=0)), theirs


def _started(argv: Sequence[str], context: CommandContext, **streams: Any) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(list(argv), cwd=context.cwd, env=context.env, **streams, **context.identity)
    except FileNotFoundError as error:
        raise CommandNotFoundError(f"{argv[0]} (there is no such program on this minion)") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "an argument is not UTF-8 text, or contains a NUL"
        raise CommandExecutionError(f"{argv[0]} cannot be started: {reason}.") from error


def _watch(process: subprocess.Popen[bytes], stdout: Any, stderr: Any, limit_s: float | None) -> Finished:
    outputs = {stream: Output() for stream in (stdout, stderr) if stream}
    deadline = None if limit_s is None else time.monotonic() + limit_s
    try:
        in_time = _read(outputs, deadline) and _wait(process, deadline)
    except BaseException:
        # Ctrl-C or the executor timeout ended the function, so the command must end too.
        _kill_tree(process.pid)
        raise
    if not in_time:
        _kill_tree(process.pid)
        _read(outputs, time.monotonic() + KILL_GRACE_S)
        process.wait()
    return Finished(
        pid=process.pid,
        retcode=process.returncode if in_time else 1,
        stdout=outputs[stdout],
        stderr=outputs[stderr] if stderr else Output(),
        timed_out=not in_time,
    )


def _read(outputs: Mapping[Any, Output], deadline: float | None) -> bool:
    """Read all streams to their end; return False if the deadline (monotonic seconds) came first."""
    with selectors.DefaultSelector() as selector:
        for stream in outputs:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            left_s = None if deadline is None else deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                return False
            for key, _ in selector.select(left_s):
                block = _block(key.fd)
                if block:
                    outputs[key.fileobj].add(block)
                else:
                    selector.unregister(key.fileobj)
    return True


def _block(descriptor: int) -> bytes:
    """What can be read now; nothing at the end."""
    try:
        return os.read(descriptor, 65536)
    except OSError as error:
        if error.errno == errno.EIO:  # a terminal whose other end is closed
            return b""
        raise


def _wait(process: subprocess.Popen[bytes], deadline: float | None) -> bool:
    """Wait for a command that has closed its output; return False if the deadline came first."""
    try:
        process.wait(None if deadline is None else max(deadline - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill_tree(root: int) -> None:
    """Kill a process and its descendants. Each is stopped first, so that it cannot fork meanwhile."""
    pending, found = [root], []
    while pending:
        pid = pending.pop()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGSTOP)
        found.append(pid)
        pending.extend(_children(pid))
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _children(parent: int) -> Iterator[int]:
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as stream:
            # The name may contain spaces and brackets. The parent is the second field after its last bracket.
            if int(stream.read().rpartition(b")")[2].split()[1]) == parent:
                yield int(name)


REASON_LINES_MAX = 3
"""Lines of a program's output that an error quotes."""

_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "LANGUAGE": "", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")
_CONTROL = r"[\x00-\x1f\x7f\ud800-\udfff]"
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
    if re.search(_CONTROL, text) or any(one in text for one in without):
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
    if not os.path.isabs(path) or re.search(_CONTROL, path) or not os.path.isdir(path):
        raise SaltInvocationError(f"root must be the absolute path of a folder on this minion, not {path!r}.")
    return path


def _is_no_word(text: str) -> bool:
    return not text or text.startswith("-") or bool(re.search(_CONTROL, text))


def _path() -> str:
    known = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([*known, *(folder for folder in _FOLDERS if folder not in known)])


def _text(output: Output, errors: str = "replace") -> str:
    return bytes(output.data).decode("utf-8", errors)
