"""One run of the ssh command: what goes in, what comes out with a bound, and the end of its time."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO

from saltlite.errors import CommandExecutionError, CommandNotFoundError

OUTPUT_BYTES_MAX = 8 * 1024 * 1024
"""Bytes kept of each output stream; the rest is read and dropped, so that the other side never blocks."""

END_GRACE_S = 1.0
"""How long an ssh that was asked to end may take to tell the other side."""

_BLOCK = 65_536


@dataclass(frozen=True, slots=True)
class Finished:
    """An ssh that ended. `late`: it was ended, because its time was up. `dropped` counts bytes."""

    retcode: int
    stdout: bytes
    stderr: bytes
    dropped: int
    late: bool


def run_to_end(argv: Sequence[str], env: Mapping[str, str], stdin: bytes | None, timeout_s: float) -> Finished:
    """Run a command until it ended and closed its output, or until its time is up.

    Raises CommandNotFoundError when there is no such program, CommandExecutionError when it cannot be started.
    """
    try:
        process = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError as error:
        raise CommandNotFoundError(
            f"There is no program {argv[0]} on this minion: install its OpenSSH client."
        ) from error
    except OSError as error:
        raise CommandExecutionError(f"{argv[0]} cannot be started: {error.strerror}.") from error
    with process:
        try:
            return _Run(process, stdin or b"").until(time.monotonic() + timeout_s)
        except BaseException:
            # Somebody interrupts: nobody would end it later.
            process.kill()
            raise


class _Run:
    """A started command, its streams, and what has passed through them."""

    def __init__(self, process: subprocess.Popen[bytes], given: bytes) -> None:
        self._process = process
        self._left = memoryview(given)
        self._kept: dict[IO[bytes], bytearray] = {}
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                self._kept[stream] = bytearray()
        self._dropped = 0

    def until(self, deadline: float) -> Finished:
        """Pass data until the end, or until the deadline (monotonic seconds) and the end that then is made."""
        in_time = self._pass_data(deadline) and self._wait(deadline)
        if not in_time:
            self._process.terminate()
            if not self._wait(time.monotonic() + END_GRACE_S):
                self._process.kill()
                self._process.wait()
        stdout, stderr = (bytes(data) for data in self._kept.values())
        return Finished(self._process.returncode, stdout, stderr, self._dropped, late=not in_time)

    def _pass_data(self, deadline: float) -> bool:
        """Until all streams are closed; False when the deadline came first."""
        with selectors.DefaultSelector() as selector:
            for stream in self._kept:
                selector.register(stream, selectors.EVENT_READ, partial(self._read, stream))
            source = self._process.stdin
            if source is not None:
                os.set_blocking(source.fileno(), False)
                selector.register(source, selectors.EVENT_WRITE, partial(self._write, source))
            while selector.get_map():
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return False
                for key, _ in selector.select(left_s):
                    if not key.data():
                        selector.unregister(key.fileobj)
                        if source is not None and key.fileobj is source:
                            source.close()
        return True

    def _write(self, source: IO[bytes]) -> bool:
        """Write what fits; False when there is no more to write, or nobody who reads."""
        try:
            while self._left:
                self._left = self._left[os.write(source.fileno(), self._left[:_BLOCK]) :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            self._left = self._left[:0]
        return False

    def _read(self, stream: IO[bytes]) -> bool:
        """Take what is there; False at the end."""
        block = os.read(stream.fileno(), _BLOCK)
        kept = self._kept[stream]
        room = OUTPUT_BYTES_MAX - len(kept)
        kept += block[:room]
        self._dropped += max(len(block) - room, 0)
        return bool(block)

    def _wait(self, deadline: float) -> bool:
        try:
            self._process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            return False
        return True
