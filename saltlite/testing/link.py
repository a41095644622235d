"""The network link in memory: deterministic, for tests and the simulator.

`send`, `open` and `close` add to one queue; `deliver` processes the queue and calls the owners. It implements
`saltlite.platform.link`, so that tests on it are valid for ZeroMQ. For each frame, the callable `fate` decides about
faults that TCP does not have but an attacker can cause (lost, duplicated, reordered frames).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Final

from saltlite.errors import LinkError
from saltlite.platform.link import (
    DATA_PREFIX,
    LINK_FRAME_MAX,
    NO_CONNECTION,
    QUEUE_FRAMES,
    OnConnect,
    OnServerFrame,
    SendResult,
    no_limit,
    split_address,
)

DEFAULT_ADDRESS: Final = "master:4515"
"""Where a server is found that was given no address."""


class Fate(Enum):
    """What becomes of one frame in flight."""

    DELIVER = "deliver"
    DROP = "drop"
    DUPLICATE = "duplicate"
    """Delivered now, and once more in the next turn."""
    DELAY = "delay"
    """Put off to the next turn, where it is asked about again: later frames overtake it."""
    CUT = "cut"
    """Lost with the connection: both ends are notified in the next turn."""


@dataclass(frozen=True, slots=True)
class Flight:
    """One frame under way."""

    connection: int
    to_server: bool
    frame: bytes


class _Pipe:
    """One connection of a client to a server."""

    def __init__(self, number: int, client: MemoryClientLink, server: MemoryServerLink) -> None:
        self.number = number
        self.client = client
        self.server = server
        self.route = b"\0" + number.to_bytes(4, "big")
        self.up = False
        self.client_ended = False
        self.server_ended = False
        self.waiting = {True: 0, False: 0}


class MemoryNetwork:
    """All links of one simulated network. Numbers of connections are never used again."""

    def __init__(self, fate: Callable[[Flight], Fate] = lambda _flight: Fate.DELIVER) -> None:
        self._fate = fate
        self._servers: dict[str, MemoryServerLink] = {}
        self._queue: deque[Callable[[], None]] = deque()
        self._opened = 0

    def server(
        self,
        on_frame: OnServerFrame,
        on_hangup: Callable[[int], None],
        on_connect: OnConnect = no_limit,
        *,
        address: str = DEFAULT_ADDRESS,
    ) -> MemoryServerLink:
        """A server that clients find at `address`. Raises LinkError if another one has it."""
        if address in self._servers:
            raise LinkError(f"{address} is in use by another server of this network")
        server = MemoryServerLink(self, address, on_frame, on_hangup, on_connect)
        self._servers[address] = server
        return server

    def client(
        self,
        on_up: Callable[[], None],
        on_frame: Callable[[bytes], None],
        on_down: Callable[[str], None],
        *,
        ip: str = "10.0.0.1",
    ) -> MemoryClientLink:
        """A client that servers see at the address `ip`."""
        return MemoryClientLink(self, ip, on_up, on_frame, on_down)

    def deliver(self) -> int:
        """Move what was queued when this was called; the number of moves, 0 when the network is quiet."""
        moves = len(self._queue)
        for _ in range(moves):
            self._queue.popleft()()
        return moves

    # The rest is for the two link classes of this file.

    def dial(self, client: MemoryClientLink, address: str) -> _Pipe | None:
        """A new connection, up in the next turn; None if no server has that address."""
        server = self._servers.get(address)
        if server is None:
            return None
        self._opened += 1
        pipe = _Pipe(self._opened, client, server)
        server.pipes[pipe.route] = pipe
        self.later(lambda: self._rise(pipe))
        return pipe

    def later(self, move: Callable[[], None]) -> None:
        """Do that in the next turn."""
        self._queue.append(move)

    def send(self, pipe: _Pipe, *, to_server: bool, frame: bytes) -> SendResult:
        if pipe.waiting[to_server] >= QUEUE_FRAMES:
            return SendResult.FULL
        pipe.waiting[to_server] += 1
        flight = Flight(pipe.number, to_server, frame)
        self.later(lambda: self._fly(pipe, flight))
        return SendResult.OK

    def end_client(self, pipe: _Pipe, reason: str) -> None:
        """The client learns that the connection is gone, unless it ended it itself."""
        if not pipe.client_ended:
            pipe.client_ended = True
            pipe.client.lost(pipe, reason)

    def end_server(self, pipe: _Pipe) -> None:
        """The server learns that the connection is gone, unless it ended it itself."""
        if not pipe.server_ended:
            pipe.server_ended = True
            pipe.server.lost(pipe)

    def forget(self, address: str) -> None:
        """That server is gone."""
        self._servers.pop(address, None)

    def _rise(self, pipe: _Pipe) -> None:
        if not pipe.client_ended and not pipe.server_ended:
            pipe.up = True
            pipe.server.risen(pipe)
            pipe.client.risen()

    def _fly(self, pipe: _Pipe, flight: Flight) -> None:
        if pipe.client_ended if not flight.to_server else pipe.server_ended:
            return
        fate = self._fate(flight)
        if fate is Fate.DELAY:
            self.later(lambda: self._fly(pipe, flight))
            return
        pipe.waiting[flight.to_server] -= 1
        if fate is Fate.CUT or len(flight.frame) > LINK_FRAME_MAX:
            self.later(lambda: self.end_server(pipe))
            self.later(lambda: self.end_client(pipe, "the connection was cut"))
        elif fate is not Fate.DROP:
            self._land(pipe, flight)
            if fate is Fate.DUPLICATE:
                self.later(lambda: self._land(pipe, flight))

    def _land(self, pipe: _Pipe, flight: Flight) -> None:
        if flight.to_server:
            if not pipe.server_ended:
                pipe.server.arrived(pipe, flight.frame)
        elif not pipe.client_ended:
            pipe.client.arrived(flight.frame)


class MemoryServerLink:
    """The master's end (`ServerLink`)."""

    def __init__(
        self,
        network: MemoryNetwork,
        address: str,
        on_frame: OnServerFrame,
        on_hangup: Callable[[int], None],
        on_connect: OnConnect,
    ) -> None:
        self.bad_shape = 0
        self._on_connect = on_connect
        self.pipes: dict[bytes, _Pipe] = {}
        self._network = network
        self._address = address
        self._on_frame = on_frame
        self._on_hangup = on_hangup
        self._closed = False

    def send(self, route: bytes, frame: bytes) -> SendResult:
        """Queue one frame for the peer of that route."""
        pipe = self.pipes.get(route)
        if pipe is None:
            return SendResult.GONE
        return self._network.send(pipe, to_server=False, frame=frame)

    def rest(self) -> None:
        """Frames are never late here."""

    def hang_up(self, connection: int, address: str) -> None:
        """Close the connection; both ends are notified in the next turn."""
        pipe = next((pipe for pipe in self.pipes.values() if pipe.number == connection), None)
        if pipe is not None and pipe.client.ip == address:
            self._network.later(partial(self._network.end_server, pipe))
            self._network.later(partial(self._network.end_client, pipe, f"{self._address} hung up"))

    def close(self) -> None:
        """Disconnect all clients, which are notified in the next turn, and release the address."""
        if self._closed:
            return
        self._closed = True
        self._network.forget(self._address)
        for pipe in self.pipes.values():
            pipe.server_ended = True
            self._network.later(partial(self._network.end_client, pipe, f"{self._address} closed the connection"))
        self.pipes.clear()

    def risen(self, pipe: _Pipe) -> None:
        """Called by the network."""
        self._on_connect(pipe.number, pipe.client.ip)

    def arrived(self, pipe: _Pipe, frame: bytes) -> None:
        """Called by the network."""
        if frame.startswith(DATA_PREFIX):
            self._on_frame(pipe.route, NO_CONNECTION, "", frame)
        else:
            self._on_frame(pipe.route, pipe.number, pipe.client.ip, frame)

    def lost(self, pipe: _Pipe) -> None:
        """Called by the network."""
        self.pipes.pop(pipe.route, None)
        if not self._closed:
            self._on_hangup(pipe.number)


class MemoryClientLink:
    """The minion's end (`ClientLink`)."""

    def __init__(
        self,
        network: MemoryNetwork,
        ip: str,
        on_up: Callable[[], None],
        on_frame: Callable[[bytes], None],
        on_down: Callable[[str], None],
    ) -> None:
        self.ip = ip
        self._network = network
        self._on_up = on_up
        self._on_frame = on_frame
        self._on_down = on_down
        self._pipe: _Pipe | None = None
        self._opened = 0

    def open(self, address: str) -> None:
        """Connect anew; `on_up` or `on_down` comes in the next turn."""
        split_address(address)
        self.close()
        self._opened += 1
        number = self._opened
        self._pipe = self._network.dial(self, address)
        if self._pipe is None:
            self._network.later(lambda: self._refused(number, address))

    def send(self, frame: bytes) -> SendResult:
        """Queue one frame; GONE when the connection is not up."""
        if self._pipe is None or not self._pipe.up:
            return SendResult.GONE
        return self._network.send(self._pipe, to_server=True, frame=frame)

    def close(self) -> None:
        """Disconnect; the server is notified in the next turn. May be called twice."""
        self._opened += 1
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.client_ended = True
            self._network.later(lambda: self._network.end_server(pipe))

    def risen(self) -> None:
        """Called by the network."""
        self._on_up()

    def arrived(self, frame: bytes) -> None:
        """Called by the network."""
        self._on_frame(frame)

    def lost(self, pipe: _Pipe, reason: str) -> None:
        """Called by the network."""
        if self._pipe is pipe:
            self._pipe = None
            self._on_down(reason)

    def _refused(self, number: int, address: str) -> None:
        if number == self._opened:
            self._on_down(f"{address} refused the connection or has no route: is saltlite-master running there?")
