"""Simulated minions: one process with thousands of connections that speak the real wire.

`python -m tests.bench.swarm PORT FLEET COUNT [FIRST]` connects those from number FIRST (0) on, writes `ready` to stdout
once all of them are, and answers every job at once until SIGTERM. Connection machine, sessions and sealing are those of
a real minion; the socket is a bare DEALER without the monitor of the real link, because thousands of those would cost
more than what is measured. Keys are made from the number, so that the benchmark can accept them beforehand.
"""

from __future__ import annotations

import hashlib
import signal
import sys
import time

import zmq

from saltlite.loader.encode import encode_return
from saltlite.minion.protocol.connection import (
    Changed,
    Close,
    ConnectionMachine,
    Deliver,
    MinionIdentity,
    OpenLink,
    Phase,
    SendFrame,
)
from saltlite.model.keys import parse_fingerprint, unspell_fingerprint
from saltlite.platform.daemon import SystemClock
from saltlite.platform.process import raise_open_files
from saltlite.platform.reactor import Reactor
from saltlite.platform.zmq_link import context, new_socket
from saltlite.wire.messages import functions_message

HANDSHAKES_OPEN = 24
"""At once; the master takes 32 unfinished ones from one address."""
TICK_S = 0.5
# As plain numbers and without pyzmq's wrapper, as the link of the product: minions and master share the processors.
_AT_ONCE = int(zmq.DONTWAIT)
_READABLE = int(zmq.POLLIN)
_SEND = zmq.backend.Socket.send
FUNCTIONS = functions_message(["test.ping()"], whole=True)
TRUE = encode_return(True)
"""The encoded return value of test.ping."""


def minion_name(number: int) -> str:
    """The id of a simulated minion."""
    return f"sim-{number:05d}"


def private_key(number: int) -> bytes:
    """Its X25519 key."""
    return hashlib.sha256(b"a minion that does not exist %d" % number).digest()


class Simulated:
    """One minion: a connection machine, and a socket that is made anew at each `OpenLink`."""

    def __init__(self, swarm: Swarm, number: int) -> None:
        self._swarm = swarm
        self._socket: zmq.Socket[bytes] | None = None
        self._fd = -1
        me = MinionIdentity(
            id=minion_name(number),
            private=private_key(number),
            boot=hashlib.md5(b"boot %d" % number, usedforsecurity=False).hexdigest(),
            incarnation=hashlib.md5(b"disk %d" % number, usedforsecurity=False).hexdigest(),
            version="0",
            run=1,
            functions=FUNCTIONS["digest"],
        )
        self.connection = ConnectionMachine(me, (swarm.address,), swarm.fleet, swarm.clock)

    def start(self) -> None:
        """Connect."""
        self.connection.start()
        self.carry_out()

    def carry_out(self) -> None:
        """Do what the connection machine asks for."""
        while effects := self.connection.take():
            for effect in effects:
                match effect:
                    case SendFrame(frame) if self._socket is not None:
                        _SEND(self._socket, frame, _AT_ONCE)
                    case Deliver(message):
                        self._answer(dict(message))
                    case OpenLink(address):
                        self._open(address)
                    case Close():
                        self._close()
                    case Changed(phase, reason):
                        self._swarm.changed(self, phase, reason)
                    case _:
                        pass

    def _answer(self, message: dict[str, object]) -> None:
        if message["t"] == "fetch" and message["what"] == "functions":
            self.connection.send(FUNCTIONS)
        elif message["t"] == "job":
            self.connection.send(
                {
                    "t": "return",
                    "jid": message["jid"],
                    "state": "returned",
                    "code": 0,
                    "body": TRUE,
                    "size": len(TRUE),
                    "start_ms": int(time.time() * 1000),
                    "dur_ms": 0,
                    "reason": "",
                }
            )

    def _open(self, address: str) -> None:
        self._close()
        self._socket = new_socket(zmq.DEALER, ipv6=0)
        # Frames wait for the connection, so that it need not be watched.
        self._socket.setsockopt(zmq.IMMEDIATE, 0)
        self._socket.connect(f"tcp://{address}")
        self._fd = int(self._socket.getsockopt(zmq.FD))
        self._swarm.reactor.add_reader(self._fd, self.look)
        self._swarm.reactor.call_soon(self._is_up)

    def _is_up(self) -> None:
        self.connection.link_up()
        self.carry_out()
        self.look()

    def _close(self) -> None:
        if self._socket is not None:
            self._swarm.reactor.remove_reader(self._fd)
            self._socket.close()
        self._socket = None

    def look(self) -> None:
        """Take what has arrived. To be called after each send, too, which may use up the wake-up of a frame."""
        # Asked, because a `recv` in vain costs more than all else that the arrival of a frame does.
        while self._socket is not None and self._socket.getsockopt(zmq.EVENTS) & _READABLE:  # type: ignore[operator]  # a number
            self.connection.frame(self._socket.recv(_AT_ONCE))
            self.carry_out()


class Swarm:
    """All of them, connected a few at a time."""

    def __init__(self, port: int, fleet: bytes, numbers: range) -> None:
        self.reactor = Reactor()
        self.clock = SystemClock()
        self.address = f"127.0.0.1:{port}"
        self.fleet = fleet
        self._minions = [Simulated(self, number) for number in numbers]
        self._waiting = list(reversed(self._minions))
        self._started: list[Simulated] = []
        self._ready: set[Simulated] = set()
        self._said_ready = False

    def run(self) -> None:
        """Stay until SIGTERM."""
        raise_open_files(3 * len(self._minions) + 500)
        context().set(zmq.MAX_SOCKETS, len(self._minions) + 100)
        self.reactor.on_signal(signal.SIGTERM, self.reactor.stop)
        for _ in range(HANDSHAKES_OPEN):
            self._next()
        self._tick()
        self.reactor.run()
        context().destroy(0)

    def changed(self, minion: Simulated, phase: Phase, reason: str) -> None:
        """A minion's connection is in another phase."""
        if phase is Phase.READY:
            self._ready.add(minion)
            self._next()
            if len(self._ready) == len(self._minions) and not self._said_ready:
                self._said_ready = True
                print("ready", flush=True)
        elif reason:
            self._ready.discard(minion)
            print(f"{phase}: {reason}", file=sys.stderr, flush=True)

    def _next(self) -> None:
        if self._waiting:
            self._started.append(self._waiting.pop())
            self.reactor.call_soon(self._started[-1].start)

    def _tick(self) -> None:
        now = self.clock.monotonic()
        for minion in self._started:
            if minion.connection.deadline() <= now:
                minion.connection.tick()
                minion.carry_out()
                minion.look()
        self.reactor.call_later(TICK_S, self._tick)


if __name__ == "__main__":
    port_text, fleet_text, count_text, *first_text = sys.argv[1:]
    first = int(first_text[0]) if first_text else 0
    its_fleet = unspell_fingerprint(parse_fingerprint(fleet_text))
    Swarm(int(port_text), its_fleet, range(first, first + int(count_text))).run()
