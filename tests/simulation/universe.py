"""Time, processes and the pipes between them: the part of the simulation that stands in for the kernel.

The daemons' own classes run on it unchanged. They are handed a `SimReactor` for their reactor and `SimChannel` for
their channels, and everything they ask for becomes an entry in one queue of moments. Whatever is a matter of chance
is drawn from one generator, so that a seed repeats its run to the last event.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random
from typing import Any

from saltlite.errors import UnreachableError

Callback = Callable[[], None]

PIPE_S = 0.0002
"""How long a message takes from one process of a machine to another."""


class Died(BaseException):
    """The process that runs now dies at this very instruction; `power`: its whole machine does.

    No Exception, because no code of a daemon may be able to catch it.
    """

    def __init__(self, *, power: bool) -> None:
        super().__init__("power" if power else "kill -9")
        self.power = power


class Universe:
    """The queue of moments. `now` is the monotonic clock of every machine that was never suspended."""

    def __init__(self, seed: int) -> None:
        self.now = 1_000.0
        self.steps = 0
        self.random = Random(seed)
        self.current: Process | None = None
        self.listeners: dict[str, Callable[[End], None]] = {}
        self._queue: list[tuple[float, int, Process | None, Callback]] = []
        self._numbers = 0
        self._descriptors = 100

    def at(self, when: float, callback: Callback, process: Process | None = None) -> None:
        """Run that at this time, if the process it belongs to lives then."""
        self._numbers += 1
        heapq.heappush(self._queue, (max(when, self.now), self._numbers, process, callback))

    def after(self, seconds: float, callback: Callback, process: Process | None = None) -> None:
        """Run that so much later."""
        self.at(self.now + seconds, callback, process)

    def run(self, seconds: float) -> None:
        """Let time pass, from one moment to the next."""
        until = self.now + seconds
        while self._queue and self._queue[0][0] <= until:
            when, number, process, callback = heapq.heappop(self._queue)
            self.now = when
            if process is None:
                self.steps += 1
                callback()
            elif process.alive:
                if process.stopped_until > when:
                    # Under its old number: what came first is done first, however often the process was stopped.
                    heapq.heappush(self._queue, (process.stopped_until, number, process, callback))
                else:
                    self.steps += 1
                    process.run(callback)
        self.now = until

    def descriptor(self) -> int:
        """A number that no other file has."""
        self._descriptors += 1
        return self._descriptors

    def connect(self, path: str, *, made_by: int | None = None) -> End:
        """What `connect_unix` does, for the process that runs now. Raises UnreachableError."""
        accept = self.listeners.get(path)
        if accept is None or self.current is None:
            raise UnreachableError(f"no process answers on {path}")
        end = End(self, self.current)
        accept(end)
        return end


class Process:
    """Something that can be killed or stopped. What it had not sent before it died was never sent."""

    def __init__(self, universe: Universe, name: str, died: Callable[[Process, bool], None], owner: Any = None) -> None:
        self.universe = universe
        self.name = name
        self.owner = owner
        self.alive = True
        self.stopped_until = 0.0
        self.suspended_s = 0.0
        """For how long its machine was suspended: its monotonic clock stood still, and its timers with it."""
        self.ends: list[End] = []
        self.on_death: list[Callback] = []
        self._died = died

    def run(self, callback: Callback) -> None:
        """Run a piece of this process now; it may die on the way."""
        before, self.universe.current = self.universe.current, self
        try:
            callback()
        except Died as death:
            self.die(power=death.power)
        finally:
            self.universe.current = before

    def soon(self, callback: Callback) -> None:
        """Run a piece of it now, or when it goes on; in the order in which this was called."""
        if self.stopped_until >= self.universe.now:
            self.universe.at(self.stopped_until, callback, self)
        elif self.alive:
            self.run(callback)

    def die(self, *, power: bool = False) -> None:
        """kill -9, or the end that power makes of it. Whoever looks after it is told."""
        if self.alive:
            self.end()
            self._died(self, power)

    def end(self) -> None:
        """Gone, and nobody is told but those it was connected to."""
        self.alive = False
        for end in self.ends:
            end.hang_up()
        for callback in self.on_death:
            callback()


class SimTimer:
    """`saltlite.platform.reactor.Timer`."""

    def __init__(self, callback: Callback) -> None:
        self._callback: Callback | None = callback

    def cancel(self) -> None:
        """Never run it."""
        self._callback = None

    def fire(self) -> None:
        """Run it, unless it was cancelled."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class SimReactor:
    """`saltlite.platform.reactor.Reactor` of one process."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.readers: dict[int, Callback] = {}
        self._universe = process.universe

    def now(self) -> float:
        return self._universe.now - self.process.suspended_s

    def call_soon(self, callback: Callback) -> None:
        self._universe.at(self._universe.now, callback, self.process)

    def call_later(self, seconds: float, callback: Callback) -> SimTimer:
        return self.call_at(self.now() + seconds, callback)

    def call_at(self, when: float, callback: Callback) -> SimTimer:
        timer = SimTimer(callback)
        if when != float("inf"):
            self._wait(when, timer)
        return timer

    def _wait(self, when: float, timer: SimTimer) -> None:
        def due() -> None:
            if self.now() < when - 1e-6:
                # The machine was suspended meanwhile.
                self._wait(when, timer)
            else:
                timer.fire()

        self._universe.at(when + self.process.suspended_s, due, self.process)

    def add_reader(self, fd: int, callback: Callback) -> None:
        self.readers[fd] = callback

    def remove_reader(self, fd: int) -> None:
        self.readers.pop(fd, None)

    def stop(self) -> None:
        """The loop ends after this turn, and the process with it."""
        self._universe.at(self._universe.now, self.process.die, self.process)


class End:
    """One end of a connected pair of sockets: what a `SimChannel` is made on."""

    def __init__(self, universe: Universe, process: Process) -> None:
        self.universe = universe
        self.process = process
        self.peer: End | None = None
        self.channel: SimChannel | None = None
        self.unsent: list[bytes | None] = []
        self.delay_s = PIPE_S * universe.random.choice((1, 1, 1, 3, 10))
        self.number = universe.descriptor()
        self._inbox: list[bytes | None] = []
        self._due = False
        self._hung_up = False
        process.ends.append(self)

    def join(self, other: End) -> None:
        """Connect the two: what this one or the other has sent already arrives."""
        self.peer, other.peer = other, self
        for end in (self, other):
            unsent, end.unsent = end.unsent, []
            if unsent:
                end.put(unsent)

    def fileno(self) -> int:
        return self.number

    def put(self, items: list[bytes | None]) -> None:
        """Send to the other side; None is the end of the stream."""
        peer = self.peer
        if peer is None:
            self.unsent += items
        else:
            self.universe.after(self.delay_s, lambda: peer.arrive(items), peer.process)

    def hang_up(self) -> None:
        """This side is gone."""
        if not self._hung_up:
            self._hung_up = True
            self.put([None])

    def arrive(self, items: list[bytes | None]) -> None:
        """The other side sent this."""
        self._inbox += items
        if not self._due:
            self._due = True
            self.universe.at(self.universe.now, self._read, self.process)

    def take_up(self, channel: SimChannel) -> None:
        """Somebody reads here from now on."""
        self.channel = channel
        self.arrive([])

    def _read(self) -> None:
        self._due = False
        if self.channel is not None:
            inbox, self._inbox = self._inbox, []
            self.channel.take(inbox)


class SimChannel:
    """`saltlite.platform.stream.Channel` on an End."""

    def __init__(
        self,
        reactor: SimReactor,
        sock: End,
        on_batch: Callable[[list[bytes]], None],
        on_close: Callable[[str], None],
        **limits: Any,
    ) -> None:
        del limits  # how much waits is a matter of memory, and of tests of the real channel
        self.on_batch = on_batch
        self._reactor = reactor
        self._end = sock
        self._on_close = on_close
        self._outgoing: list[bytes | None] = []
        self._closed = False
        sock.take_up(self)

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def buffered(self) -> int:
        """Bytes that the other side was not sent yet: it always reads."""
        return sum(len(payload) for payload in self._outgoing if payload is not None)

    def send(self, payload: bytes) -> None:
        """Sent at the end of this turn, as the real one does: a process that dies before has said nothing."""
        if self._closed:
            return
        if not self._outgoing:
            self._reactor.call_soon(self._flush)
        self._outgoing.append(payload)

    def flush(self) -> None:
        if not self._closed:
            self._flush()

    def close(self) -> None:
        if not self._closed:
            self._flush()
            self._closed = True
            self._end.hang_up()

    def take(self, inbox: list[bytes | None]) -> None:
        """What arrived, in one batch."""
        if self._closed:
            return
        batch = [data for data in inbox if data is not None]
        if batch:
            self.on_batch(batch)
        if len(batch) < len(inbox) and not self._closed:
            self._closed = True
            self._on_close("the other side closed the connection")

    def _flush(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if outgoing:
            self._end.put(outgoing)


class SimClock:
    """`saltlite.master.store.ports.Clock` of one machine: its wall clock goes wrong on its own."""

    def __init__(self, universe: Universe, wall: float) -> None:
        self._universe = universe
        self._random = Random(universe.random.getrandbits(64))
        self._offset = wall - universe.now
        self.suspended_s = 0.0
        """For how long the machine was suspended: its monotonic clock stood still, and the others did not."""

    def wall(self) -> float:
        return self._universe.now + self._offset

    def monotonic(self) -> float:
        return self._universe.now - self.suspended_s

    def boottime(self) -> float:
        return self._universe.now

    def entropy(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self._offset += seconds

    def off_by(self, right: float) -> float:
        """By how many seconds it differs from a clock that is right now."""
        return self.wall() - right
