"""Grains, found in a process of their own, so that a grain function cannot break the job server.

The process reports its findings piece by piece: if one function hangs, only later ones are lost. Custom grains come
after the shipped ones, which they see as `__grains__` (and as the argument `grains`), and override them. A file or
function that fails or hangs loses its own grains only, and is logged. The files of Salt and its extensions come last
and only add grains.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import os
import signal
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from types import FrameType
from typing import Any

import msgpack  # type: ignore[import-untyped]  # msgpack ships no types

from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import GRAINS, SHIPPED, search_layers
from saltlite.platform import logs
from saltlite.platform.process import Child, keep_only, set_parent_death_signal
from saltlite.platform.reactor import Reactor
from saltlite.plugins.grains.collect import collect, static_grains, static_grains_version

# -- Custom grains: each function of a file in `_grains` or a grains folder returns a dict of grains


log = logging.getLogger(__name__)

FUNCTION_S = 10.0
"""Seconds that one function may take."""
AGAIN_S = 1.0
"""Seconds between two alarms for a function that swallows them."""


class LateError(BaseException):
    """The function did not end in time. Not an Exception, so that `except Exception` in it does not swallow it."""


def custom_grains(opts: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The grains of each function, in the order of their names; `known` are those found before. Main thread only."""
    layers = [layer for layer in search_layers(opts, GRAINS) if layer.name != SHIPPED]
    grains = dict(known)
    loader = Loader(build_index([layer for layer in layers if not layer.salt]), opts, grains, {})
    names = sorted(loader)
    for name in names:
        found = _found(loader, name, grains)
        grains.update(found)
        loader.refresh(grains, {})
        yield found
    for file, sentence in loader.not_loaded().items():
        log.warning("grains of %s are missing: %s", file, sentence)
    if any(layer.salt for layer in layers):
        yield from _of_salt(Loader(build_index(layers), opts, grains, {}), names, grains)


def _of_salt(loader: Loader, others: Collection[str], grains: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Grains of Salt's functions that no other function has found."""
    for name in sorted(set(loader).difference(others)):
        # Salt's own functions return None for no grains.
        given = _found(loader, name, grains, of_none=logging.DEBUG)
        found = {grain: value for grain, value in given.items() if grain not in grains}
        grains.update(found)
        loader.refresh(grains, {})
        yield found


def _found(loader: Loader, name: str, grains: Mapping[str, Any], *, of_none: int = logging.WARNING) -> dict[str, Any]:
    """The result of the function; `of_none` is the log level for a function that returned nothing."""
    try:
        function = loader[name]
        wants = "grains" in inspect.signature(function).parameters
        with _at_most(FUNCTION_S):
            found = function(grains=dict(grains)) if wants else function()
    except LateError:
        log.warning("grains of %s are missing: it did not end within %g s", name, FUNCTION_S)
    except BaseException as error:  # noqa: BLE001 - supervision point: one bad grain, SystemExit included, costs its own
        *_, last = traceback.extract_tb(error.__traceback__)
        kind = type(error).__name__
        log.warning("grains of %s are missing: %s: %s (%s:%s)", name, kind, error, last.filename, last.lineno)
    else:
        if isinstance(found, dict):
            return found
        level = of_none if found is None else logging.WARNING
        log.log(level, "grains of %s are missing: it returned %s, and not a dict", name, type(found).__name__)
    return {}


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise LateError inside the block when it takes longer."""
    before = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ring(_signum: int, _frame: FrameType | None) -> None:
    raise LateError


DEADLINE_S = 30.0
"""Seconds for all grains; then jobs start with those found so far."""

_READ_BYTES = 65_536


class GrainFinder:
    """Finds grains. `found` gets all of them each time; those of the configuration, and the id, take precedence."""

    def __init__(self, reactor: Reactor, opts: Mapping[str, Any], found: Callable[[dict[str, Any]], None]) -> None:
        self._reactor = reactor
        self._opts = opts
        self._found = found
        self._looking = False
        self._next: list[Callable[[], None]] = []
        self._kept: tuple[int, ...] = ()

    def find(self, done: Callable[[], None] = lambda: None) -> None:
        """Find the grains; `done` is called after `found`. If a search is running, another one follows it."""
        self._next.append(done)
        if not self._looking:
            self._look()

    def find_if_somebody_set_some(self) -> None:
        """Find them if the file of set grains has changed since the last time."""
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
    """The grains in what the process has reported so far."""
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
    """The available bytes, b"" at the end, None for none yet."""
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return None
