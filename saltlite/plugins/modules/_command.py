"""Runs one command as a child process, with bounded output and a time limit; the base of `cmd` and `_programs`.

The child stays in the process group of its parent, so that killing a job ends it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from saltlite.errors import CommandExecutionError, CommandNotFoundError

OUTPUT_BYTES_MAX = 15 * 1024 * 1024
"""Bytes that are kept of each output stream; the rest is read and dropped, so that the command never blocks.

Smaller than the maximum return, so that the note about dropped bytes fits.
"""

KILL_GRACE_S = 2.0
"""Seconds to read on after the time limit, from processes that left the tree and hold the pipe."""


@dataclass(slots=True)
class Output:
    """The kept bytes of one output stream, and the number of dropped ones."""

    data: bytearray = field(default_factory=bytearray)
    dropped: int = 0

    def add(self, block: bytes) -> None:
        """Keep as much of the block as fits."""
        room = OUTPUT_BYTES_MAX - len(self.data)
        self.data += block[:room]
        self.dropped += max(len(block) - room, 0)


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The environment of a command; `identity` is user, group, extra_groups and umask, as for `subprocess`."""

    cwd: str
    env: Mapping[str, str]
    stdin: bytes | None
    redirect_stderr: bool
    timeout_s: float | None
    identity: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finished:
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
        stderr = subprocess.STDOUT if context.redirect_stderr else subprocess.PIPE
        process = _started(argv, context, stdin=source, stdout=subprocess.PIPE, stderr=stderr)
        return _watch(stack.enter_context(process), context.timeout_s)


def start(argv: Sequence[str], context: CommandContext) -> int:
    """Start a command without input or output in its own session; return its pid.

    Raises CommandNotFoundError and CommandExecutionError when it cannot be started.
    """
    nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = _started(argv, context, **nothing, start_new_session=True)
    # No one waits for it, and Python warns about running children that are garbage-collected.
    process.returncode = 0
    return process.pid


def _started(argv: Sequence[str], context: CommandContext, **streams: Any) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(list(argv), cwd=context.cwd, env=context.env, **streams, **context.identity)
    except FileNotFoundError as error:
        raise CommandNotFoundError(f"{argv[0]} (there is no such program on this minion)") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "an argument is not UTF-8 text, or contains a NUL"
        raise CommandExecutionError(f"{argv[0]} cannot be started: {reason}.") from error


def _watch(process: subprocess.Popen[bytes], limit_s: float | None) -> Finished:
    outputs = {stream: Output() for stream in (process.stdout, process.stderr) if stream}
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
        stdout=outputs[process.stdout] if process.stdout else Output(),
        stderr=outputs[process.stderr] if process.stderr else Output(),
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
                block = os.read(key.fd, 65536)
                if block:
                    outputs[key.fileobj].add(block)
                else:
                    selector.unregister(key.fileobj)
    return True


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
