"""Finding the grains, in a process of their own: whatever a grain does, the job server lives.

The process says what it finds piece by piece, so that one that hangs at the end costs what comes after it, and no more.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

import msgpack  # type: ignore[import-untyped]  # msgpack ships no types

from saltlite.minion.sync.custom_grains import custom_grains
from saltlite.platform import logs
from saltlite.platform.process import Child, keep_only, set_parent_death_signal
from saltlite.platform.reactor import Reactor
from saltlite.plugins.grains.collect import collect, static_grains, static_grains_version

log = logging.getLogger(__name__)

DEADLINE_S = 30.0
"""How long finding the grains may take; then jobs start with those that were found."""

_READ_BYTES = 65_536


class GrainFinder:
    """`found` gets all grains, each time that they were looked for; those of the configuration, and the id, win."""

    def __init__(self, reactor: Reactor, opts: Mapping[str, Any], found: Callable[[dict[str, Any]], None]) -> None:
        self._reactor = reactor
        self._opts = opts
        self._found = found
        self._looking = False
        self._next: list[Callable[[], None]] = []
        self._kept: tuple[int, ...] = ()

    def find(self, done: Callable[[], None] = lambda: None) -> None:
        """Look for them; `done` is called when `found` has them. While a look is under way, another follows it."""
        self._next.append(done)
        if not self._looking:
            self._look()

    def find_if_somebody_set_some(self) -> None:
        """Look for them if the file of those that are set has changed since the last look."""
        if self._kept != static_grains_version(self._opts):
            self.find()

    def _look(self) -> None:
        self._looking = True
        self._kept = static_grains_version(self._opts)
        waiting, self._next = self._next, []
        reading, writing = os.pipe2(os.O_CLOEXEC)
        pid = _fork_finder(self._opts, writing)
        os.close(writing)
        os.set_blocking(reading, False)
        raw = bytearray()

        def finish() -> None:
            self._reactor.remove_reader(reading)
            os.close(reading)
            deadline.cancel()
            child.signal(signal.SIGKILL)
            self._found({**_grains_in(bytes(raw)), **self._opts.get("grains", {}), "id": self._opts["id"]})
            for done in waiting:
                done()
            self._looking = False
            if self._next:
                self._look()

        def readable() -> None:
            while chunk := _read(reading):
                raw.extend(chunk)
            if chunk == b"":
                finish()

        child = Child(self._reactor, pid, lambda _status: None)
        deadline = self._reactor.call_later(DEADLINE_S, finish)
        self._reactor.add_reader(reading, readable)


def _fork_finder(opts: Mapping[str, Any], writing: int) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            # A grain that hangs must not outlive the minion, nor hold its lock.
            set_parent_death_signal(signal.SIGKILL, parent)
            keep_only([writing, *logs.descriptors()])
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            with os.fdopen(writing, "wb", buffering=0) as pipe:
                shipped = collect(opts)
                pipe.write(msgpack.packb(shipped, default=str))
                for piece in custom_grains(opts, shipped):
                    pipe.write(msgpack.packb(piece, default=str))
                pipe.write(msgpack.packb(static_grains(opts), default=str))
            logs.report_repeats()
            status = 0
        finally:
            os._exit(status)
    return pid


def _grains_in(raw: bytes) -> dict[str, Any]:
    """What the process said, as far as it came."""
    grains: dict[str, Any] = {}
    pieces = msgpack.Unpacker(strict_map_key=False, max_buffer_size=0)
    pieces.feed(raw)
    try:
        for piece in pieces:
            grains.update(piece)
    except ValueError as error:
        log.error("grains were found that cannot be read: %s", error)  # noqa: TRY400 - a sentence
    if not grains:
        log.error("the grains could not be found; only those of the configuration are there")
    return grains


def _read(fd: int) -> bytes | None:
    """What is there to read, b"" at the end, None for nothing yet."""
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return None
