"""Local clients of one MWorker that are not operators: their number, their groups, and the order of their requests.

Requests of operators run when they arrive. All others are queued by user, and the user who has used the least CPU time
of this process comes next. A connection is read again only when all requests from it have run, so neither many
requests nor slow ones of one user delay others by more than one request.

What a user may fill of this process's memory is limited too: few of his large messages are held at once, and his
requests wait while their connection has answers that its client does not read.
"""

from __future__ import annotations

import functools
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Protocol

from saltlite.auth.acl import Principal
from saltlite.limits import FairSemaphore, RateLimiter
from saltlite.model.dataclass import dataclass
from saltlite.platform.privileges import groups_of, name_of
from saltlite.platform.reactor import Reactor, Timer
from saltlite.platform.stream import CONNECTIONS_MAX

GROUPS_S = 30.0
"""How long the groups of a local user are cached: looking them up may query another machine."""
SHARE = 0.25
"""The part of one CPU that one MWorker spends on one user who is not an operator, on average."""
BURST_S = 1.0
"""CPU seconds that such a user may use at once after a quiet time."""
USER_CONNECTIONS_MAX = CONNECTIONS_MAX - 64
"""Connections to one MWorker for all users together; the others are for operators."""
LARGE_PER_USER = 2
"""Connections of one user whose large messages one MWorker holds at once, until they are carried out; his other
connections wait for their turn."""
UNREAD_MAX = 1024 * 1024
"""Unsent bytes of a connection above which its requests wait, and its stream pauses."""
UNREAD_S = 0.05
"""How often such a connection is looked at."""


class LocalClients:
    """Counts connections of users by uid, and makes the principals of uids."""

    def __init__(self, realm: str = "") -> None:
        """`realm`: as in Principal, for users who are not operators."""
        self._realm = realm
        self._connections: Counter[int] = Counter()
        self._groups: dict[int, tuple[float, frozenset[str]]] = {}
        """Of local users, by uid: until when, and which."""

    def is_full(self, uid: int) -> bool:
        """Whether this user has as many connections as are free.

        So one greedy user gets half of them, two get a third each, and some are always left.
        """
        return self._connections[uid] >= USER_CONNECTIONS_MAX - self._connections.total()

    def came(self, uid: int, now: float, *, is_user: bool) -> Principal:
        """The principal of a new connection; `now` is monotonic seconds. Connections of operators are not counted."""
        if is_user:
            self._connections[uid] += 1
        name = name_of(uid)
        known = self._groups.get(uid)
        if known is None or now >= known[0]:
            known = self._groups[uid] = (now + GROUPS_S, groups_of(name))
        return Principal(name, uid, groups=known[1], realm=self._realm if is_user else "")

    def went(self, uid: int) -> None:
        """A connection of this user ended."""
        self._connections[uid] -= 1
        if not self._connections[uid]:
            del self._connections[uid]


class ClientChannel(Protocol):
    """A connection whose reading can be paused."""

    @property
    def buffered(self) -> int: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@dataclass(eq=False, slots=True)
class ClientQueue:
    """One connection of a user, and its requests that have not run yet."""

    channel: ClientChannel
    user: Hashable
    """Who pays for its next request: the uid of its last request's principal."""
    carry_out: Callable[[bytes], None]
    waiting: deque[bytes] = field(default_factory=deque)
    receives_large: bool = False
    """Whether a large message has begun and is not complete."""
    holds_large: bool = False
    """Whether it has one of the slots of LARGE_PER_USER."""
    awaits_large: bool = False
    """Whether its large message waits for a slot."""


class RequestScheduler:
    """Runs the requests of all queues of one MWorker, fairly by user."""

    def __init__(self, reactor: Reactor, cpu_s: Callable[[], float] = time.process_time) -> None:
        """`cpu_s` returns the CPU seconds of this process so far."""
        self._reactor = reactor
        self._cpu_s = cpu_s
        self._shares = RateLimiter(SHARE, BURST_S)
        self._queues: dict[Hashable, deque[ClientQueue]] = {}
        """By user: the queues with requests, in order."""
        self._large: FairSemaphore[ClientQueue] = FairSemaphore(sys.maxsize, LARGE_PER_USER)
        self._timer: Timer | None = None

    def large_began(self, queue: ClientQueue) -> None:
        """A large message of this connection begins; the rest is read when its user has a free slot."""
        queue.receives_large = True
        if queue.holds_large:
            return
        queue.holds_large = self._large.acquire(queue, str(queue.user))
        if not queue.holds_large:
            queue.awaits_large = True
            queue.channel.pause_reading()

    def arrived(self, queue: ClientQueue, batch: list[bytes]) -> None:
        """Add requests, a large one that began included; the connection is not read again until they have run."""
        queue.receives_large = False
        queue.channel.pause_reading()
        is_new = not queue.waiting
        queue.waiting.extend(batch)
        if is_new:
            self._queues.setdefault(queue.user, deque()).append(queue)
        self._next(0.0)

    def left(self, queue: ClientQueue) -> None:
        """The connection ended: drop its requests."""
        self._release_large(queue)
        queue.waiting.clear()

    @contextmanager
    def spending(self, user: Hashable) -> Iterator[None]:
        """Charge the CPU time of this block to that user."""
        began = self._cpu_s()
        try:
            yield
        finally:
            self._shares.spend(user, self._reactor.now(), self._cpu_s() - began)

    def wait_s(self, user: Hashable) -> float:
        """Seconds until that user may use more CPU time here."""
        return self._shares.wait_s(user, self._reactor.now(), 0.0)

    def is_due(self) -> bool:
        """Whether a request runs in the next turn."""
        return self._timer is not None and self._timer.when <= self._reactor.now()

    def _release_large(self, queue: ClientQueue) -> None:
        queue.holds_large = False
        for other in self._large.release(queue):
            other.holds_large, other.awaits_large = True, False
            self._read_on(other)

    @staticmethod
    def _read_on(queue: ClientQueue) -> None:
        if not queue.waiting and not queue.awaits_large:
            queue.channel.resume_reading()

    def _try_again(self, queue: ClientQueue) -> None:
        if queue.waiting:
            self._queues.setdefault(queue.user, deque()).append(queue)
            self._next(0.0)

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
        if queue.waiting and queue.channel.buffered > UNREAD_MAX:
            self._reactor.call_later(UNREAD_S, functools.partial(self._try_again, queue))
        elif queue.waiting:
            began = self._cpu_s()
            queue.carry_out(queue.waiting.popleft())
            self._shares.spend(queue.user, now, self._cpu_s() - began)
            if queue.waiting:
                self._queues.setdefault(queue.user, deque()).append(queue)
            else:
                if queue.holds_large and not queue.receives_large:
                    self._release_large(queue)
                self._read_on(queue)
        if self._queues and self._timer is None:
            self._next(0.0)
