"""Which request an MWorker carries out next: one at a time, of the user who has spent least of the worker's time.

Requests of operators do not come here: they are carried out when they come. Everybody else waits in line, and reads
on only when what he has sent was carried out, so neither many requests nor slow ones of one user keep others waiting
for more than one request.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from saltlite.limits import RateLimiter
from saltlite.platform.reactor import Reactor, Timer

SHARE = 0.25
"""The part of one processor that one MWorker may use for one user who is no operator, on average."""
BURST_S = 1.0
"""Seconds of a processor that such a user may take at once after a quiet time."""


class Reading(Protocol):
    """A connection whose reading can rest."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@dataclass(eq=False, slots=True)
class Line:
    """One connection of a user, and what it has sent that was not carried out yet."""

    channel: Reading
    user: Hashable
    """Whose time its next request takes: that of the uid, or of the token that the last request had."""
    carry_out: Callable[[bytes], None]
    waiting: deque[bytes] = field(default_factory=deque)


class Turns:
    """The lines of one MWorker."""

    def __init__(self, reactor: Reactor, cpu_s: Callable[[], float] = time.process_time) -> None:
        """`cpu_s` says how many seconds of a processor this process has used so far."""
        self._reactor = reactor
        self._cpu_s = cpu_s
        self._shares = RateLimiter(SHARE, BURST_S)
        self._lines: dict[Hashable, deque[Line]] = {}
        """Of each user those that wait, in the order of their turns."""
        self._timer: Timer | None = None

    def arrived(self, line: Line, batch: list[bytes]) -> None:
        """These came; nothing more is read from the connection until they are carried out."""
        line.channel.pause_reading()
        is_new = not line.waiting
        line.waiting.extend(batch)
        if is_new:
            self._lines.setdefault(line.user, deque()).append(line)
        self._next(0.0)

    def left(self, line: Line) -> None:
        """The connection is over: what it has sent is not carried out any more."""
        line.waiting.clear()

    @contextmanager
    def spending(self, user: Hashable) -> Iterator[None]:
        """Something else is done for that user in this block, such as a message of a stream."""
        began = self._cpu_s()
        try:
            yield
        finally:
            self._shares.spend(user, self._reactor.now(), self._cpu_s() - began)

    def wait_s(self, user: Hashable) -> float:
        """How long that user has to wait for more of this worker's time."""
        return self._shares.wait_s(user, self._reactor.now(), 0.0)

    def _next(self, wait_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._reactor.call_later(wait_s, self._turn)

    def _turn(self) -> None:
        self._timer = None
        now = self._reactor.now()
        if not self._lines:
            return
        user = min(self._lines, key=lambda one: self._shares.debt_s(one, now))
        wait_s = self._shares.wait_s(user, now, 0.0)
        if wait_s > 0:
            self._next(wait_s)
            return
        lines = self._lines[user]
        line = lines.popleft()
        if not lines:
            del self._lines[user]
        if line.waiting:
            began = self._cpu_s()
            line.carry_out(line.waiting.popleft())
            self._shares.spend(line.user, now, self._cpu_s() - began)
            if line.waiting:
                self._lines.setdefault(line.user, deque()).append(line)
            else:
                line.channel.resume_reading()
        if self._lines and self._timer is None:
            self._next(0.0)
