"""Local clients of one MWorker that are not operators: their number, their groups, and the order of their requests.

Requests of operators run when they arrive. All others are queued by user, and the user who has used the least CPU time
of this process comes next. A connection is read again only when all requests from it have run, so neither many
requests nor slow ones of one user delay others by more than one request.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from saltlite.auth.acl import Principal
from saltlite.limits import RateLimiter
from saltlite.platform.accounts import groups_of, name_of
from saltlite.platform.reactor import Reactor, Timer
from saltlite.platform.stream import CONNECTIONS_MAX

GROUPS_S = 30.0
"""How long the groups of a local user are believed: they may come from another machine."""
SHARE = 0.25
"""The part of one CPU that one MWorker spends on one user who is no operator, on average."""
BURST_S = 1.0
"""CPU seconds that such a user may use at once after a quiet time."""
USER_CONNECTIONS_MAX = CONNECTIONS_MAX - 64
"""Connections to one MWorker that all users together may have who are no operators: the others are for operators."""


class LocalClients:
    """Counts connections by uid, and makes principals of uids."""

    def __init__(self) -> None:
        self._connections: Counter[int] = Counter()
        self._groups: dict[int, tuple[float, frozenset[str]]] = {}
        """Of local users, by uid: until when, and which."""

    def is_full(self, uid: int) -> bool:
        """Whether this user has as many connections as one may have: as many as are free.

        So one who takes all that he gets has a half of them, two have a third each, and there are always some left.
        """
        return self._connections[uid] >= USER_CONNECTIONS_MAX - self._connections.total()

    def came(self, uid: int, now: float, *, is_user: bool) -> Principal:
        """One more connection of that user; `now` is monotonic seconds. Those of operators are not counted."""
        if is_user:
            self._connections[uid] += 1
        name = name_of(uid)
        known = self._groups.get(uid)
        if known is None or now >= known[0]:
            known = self._groups[uid] = (now + GROUPS_S, groups_of(name))
        return Principal(name, uid, groups=known[1])

    def went(self, uid: int) -> None:
        """One of them is over."""
        self._connections[uid] -= 1
        if not self._connections[uid]:
            del self._connections[uid]


class Reading(Protocol):
    """A connection whose reading can rest."""

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@dataclass(eq=False, slots=True)
class ClientQueue:
    """One connection of a user, and what it has sent that was not carried out yet."""

    channel: Reading
    user: Hashable
    """Whose time its next request takes: that of the uid, or of the token that the last request had."""
    carry_out: Callable[[bytes], None]
    waiting: deque[bytes] = field(default_factory=deque)


class RequestScheduler:
    """The queues of one MWorker."""

    def __init__(self, reactor: Reactor, cpu_s: Callable[[], float] = time.process_time) -> None:
        """`cpu_s` says how many seconds of a processor this process has used so far."""
        self._reactor = reactor
        self._cpu_s = cpu_s
        self._shares = RateLimiter(SHARE, BURST_S)
        self._queues: dict[Hashable, deque[ClientQueue]] = {}
        """Of each user those that wait, in the order of their turns."""
        self._timer: Timer | None = None

    def arrived(self, queue: ClientQueue, batch: list[bytes]) -> None:
        """These came; nothing more is read from the connection until they are carried out."""
        queue.channel.pause_reading()
        is_new = not queue.waiting
        queue.waiting.extend(batch)
        if is_new:
            self._queues.setdefault(queue.user, deque()).append(queue)
        self._next(0.0)

    def left(self, queue: ClientQueue) -> None:
        """The connection is over: what it has sent is not carried out any more."""
        queue.waiting.clear()

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
        if not self._queues:
            return
        user = min(self._queues, key=lambda one: self._shares.debt_s(one, now))
        wait_s = self._shares.wait_s(user, now, 0.0)
        if wait_s > 0:
            self._next(wait_s)
            return
        queues = self._queues[user]
        queue = queues.popleft()
        if not queues:
            del self._queues[user]
        if queue.waiting:
            began = self._cpu_s()
            queue.carry_out(queue.waiting.popleft())
            self._shares.spend(queue.user, now, self._cpu_s() - began)
            if queue.waiting:
                self._queues.setdefault(queue.user, deque()).append(queue)
            else:
                queue.channel.resume_reading()
        if self._queues and self._timer is None:
            self._next(0.0)
