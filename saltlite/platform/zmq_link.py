"""The network link over ZeroMQ: one ROUTER on the master, one DEALER on each minion, one TCP port.

There is no ZAP handler: the session manager limits connections by address at their first frame, and a ZAP thread costs
0.2 ms per connection. ZeroMQ cannot disconnect a peer, but the kernel can: `hang_up` shuts down its TCP connection.

A ROUTER generates names of connections by a counter that starts at the C library's `rand()`, and libzmq 4.3.5 aborts
the process if a stranger has chosen the next name in advance. The counter is therefore seeded from the kernel's
entropy, a peer that chooses a name is disconnected at its first message, and a silent one after FIRST_FRAME_S, so that
names cannot be hoarded.

ZeroMQ may be used only after the last fork of the process: its IO thread does not survive a fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import socket
import struct
from collections.abc import Callable
from typing import Final

import zmq

from saltlite.errors import LinkError, LocalProtocolError
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
from saltlite.platform.reactor import Reactor, Timer

DRAIN_BUDGET: Final = 256
"""Messages read in one turn, before other callbacks of the reactor run."""

# As plain integers, because an operation on flags of an enum costs as much as the send itself.
_AT_ONCE: Final = int(zmq.DONTWAIT)
_MORE_AT_ONCE: Final = int(zmq.SNDMORE | zmq.DONTWAIT)
_SEND: Final = zmq.backend.Socket.send
"""Without pyzmq's wrapper, which takes longer than the send itself."""

PARTS_KEPT: Final = 3
"""Parts of a message that are passed on. Our messages have fewer, so further parts are dropped."""

OnMessage = Callable[[list[zmq.Frame]], None]


class DrainReader:
    """Passes every message of `socket` to `on_message` as a list of parts (at most PARTS_KEPT)."""

    def __init__(
        self,
        reactor: Reactor,
        socket: zmq.Socket[bytes],
        on_message: OnMessage,
        *,
        budget: int = DRAIN_BUDGET,
    ) -> None:
        self._reactor = reactor
        self._socket = socket
        self._on_message = on_message
        self._budget = budget
        self._kicked = False
        self._closed = False
        self._rest: Timer | None = None
        self._fd = socket.FD
        reactor.add_reader(self._fd, self.drain)
        # Earlier calls may have consumed the signals from before the descriptor was watched.
        self.kick()

    def kick(self) -> None:
        """Check for messages in the next turn of the reactor. Call it after each send on the socket."""
        if self._rest is not None:
            self._rest.cancel()
            self._look_again()
        if not self._kicked and not self._closed:
            self._kicked = True
            self._reactor.call_soon(self._drain_kicked)

    def rest(self, seconds: float) -> None:
        """Read nothing for so long, or until the next `kick`: the messages of that time are then read together."""
        if self._rest is None and not self._closed:
            self._reactor.remove_reader(self._fd)
            self._rest = self._reactor.call_later(seconds, self._rested)

    def _rested(self) -> None:
        self._look_again()
        self.drain()

    def _look_again(self) -> None:
        self._rest = None
        self._reactor.add_reader(self._fd, self.drain)

    def drain(self) -> None:
        """Pass on the available messages, up to the budget."""
        recv, on_message = self._socket.recv, self._on_message
        for _ in range(self._budget):
            if self._closed:
                return
            try:
                part = recv(_AT_ONCE, copy=False)
            except zmq.Again:
                return
            parts = [part]
            while part.more:
                # The parts of one message arrive together, so this never has to wait.
                part = recv(_AT_ONCE, copy=False)
                if len(parts) < PARTS_KEPT:
                    parts.append(part)
            on_message(parts)
        self.kick()

    def close(self) -> None:
        """Stop reading. Call it before the owner closes the socket."""
        if not self._closed:
            self._closed = True
            if self._rest is not None:
                self._rest.cancel()
                self._rest = None
            self._reactor.remove_reader(self._fd)

    def _drain_kicked(self) -> None:
        self._kicked = False
        self.drain()


HANDSHAKE_MS: Final = 5_000
"""Milliseconds after which a TCP peer without a ZeroMQ greeting is disconnected."""

RESOLVER_OPTIONS: Final = "timeout:2 attempts:2"
"""glibc's options, unless the environment sets them, so that a dead name server costs only seconds."""

_MONITOR_EVENT = struct.Struct("=Hi")
_monitor_numbers = itertools.count(1)
_contexts: dict[int, zmq.Context[zmq.Socket[bytes]]] = {}


def context() -> zmq.Context[zmq.Socket[bytes]]:
    """The context of this process. Raises LocalProtocolError if the parent used one before the fork."""
    pid = os.getpid()
    if pid not in _contexts:
        if _contexts:
            raise LocalProtocolError("ZeroMQ was used before this process was forked: fork first, then link")
        # The names that a ROUTER generates start at rand(), and must not be predictable; see the module's docstring.
        ctypes.CDLL(None).srand(ctypes.c_uint(int.from_bytes(os.urandom(4), "big")))
        _contexts[pid] = zmq.Context(io_threads=1)
    return _contexts[pid]


def new_socket(kind: int, *, ipv6: int) -> zmq.Socket[bytes]:
    """A socket with the options of both ends. Raises LinkError if it cannot be created.

    Heartbeats of ZeroMQ (`HEARTBEAT_IVL`) are off: for each received message the IO thread visits the timers of all
    connections, which takes half a core with 10,000 minions. Heartbeats of the session detect a dead peer, and TCP's
    keepalive a connection without a session.
    """
    try:
        made = context().socket(kind)
    except zmq.ZMQError as error:
        raise LinkError(f"ZeroMQ cannot open a socket: {error}") from error
    made.setsockopt(zmq.LINGER, 0)
    made.setsockopt(zmq.MAXMSGSIZE, LINK_FRAME_MAX)
    made.setsockopt(zmq.SNDHWM, QUEUE_FRAMES)
    made.setsockopt(zmq.RCVHWM, QUEUE_FRAMES)
    made.setsockopt(zmq.IMMEDIATE, 1)
    made.setsockopt(zmq.HANDSHAKE_IVL, HANDSHAKE_MS)
    made.setsockopt(zmq.TCP_KEEPALIVE, 1)
    made.setsockopt(zmq.TCP_KEEPALIVE_IDLE, 120)
    made.setsockopt(zmq.TCP_KEEPALIVE_INTVL, 30)
    made.setsockopt(zmq.TCP_KEEPALIVE_CNT, 4)
    made.setsockopt(zmq.IPV6, ipv6)
    return made


class Monitor:
    """Events of one socket's connections, as `on_event(event, value)`."""

    def __init__(
        self, reactor: Reactor, watched: zmq.Socket[bytes], events: int, on_event: Callable[[int, int], None]
    ) -> None:
        self._watched = watched
        self._on_event = on_event
        address = f"inproc://saltlite-monitor-{next(_monitor_numbers)}"
        watched.monitor(address, events)
        self._socket = context().socket(zmq.PAIR)
        self._socket.setsockopt(zmq.LINGER, 0)
        # Unlimited, because libzmq's IO thread blocks when this queue is full, and then closing never ends.
        # It holds one event of some 60 bytes for each connection that ended since the last turn.
        self._socket.setsockopt(zmq.RCVHWM, 0)
        self._socket.connect(address)
        self._reader = DrainReader(reactor, self._socket, self._receive)

    def drain(self) -> None:
        """Report now what has happened so far."""
        self._reader.drain()

    def close(self) -> None:
        """To be called before the watched socket is closed."""
        self._reader.close()
        self._watched.disable_monitor()
        self._socket.close()

    def _receive(self, parts: list[zmq.Frame]) -> None:
        event, value = _MONITOR_EVENT.unpack(parts[0].bytes)
        self._on_event(event, value)


def resolve(host: str, port: int, turn: int) -> tuple[str, int]:
    """One of the host's addresses with its family, another one at each turn."""
    os.environ.setdefault("RES_OPTIONS", RESOLVER_OPTIONS)
    try:
        # As bytes: Python has no IDNA to load and to fail with (a minion's process may not read its folders any more).
        found = socket.getaddrinfo(host.encode(), port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LinkError(f"the name {host} cannot be resolved: {error.strerror or error}") from error
    family, _, _, _, where = found[turn % len(found)]
    return str(where[0]), family


CONNECT_TIMEOUT_MS: Final = 10_000
"""How long a TCP connect may take, milliseconds."""

FIRST_FRAME_S: Final = 30.0
"""How long a connection may stay without a first frame other than DATA; then it is ended, seconds."""

REST_S: Final = 0.02
"""How long frames wait for each other at a master that has nothing to do, seconds."""

_GENERATED_ROUTE_LENGTH = 5
_GENERATED_ROUTE_BEGIN = 0
_HANDSHAKE_FAILURES = (
    zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)
_SERVER_EVENTS = zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED
_CLIENT_EVENTS = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_CONNECTED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_CLOSED
    | _HANDSHAKE_FAILURES
)


class RouterLink:
    """The master's end (`ServerLink`) on a listening TCP socket that the caller bound, perhaps as root.

    The link works on a duplicate of `listener`, which stays the caller's to close. An established session
    costs no look-up: connection and address are found only for frames that are not DATA.
    """

    def __init__(
        self,
        reactor: Reactor,
        listener: socket.socket,
        on_frame: OnServerFrame,
        on_hangup: Callable[[int], None],
        on_connect: OnConnect = no_limit,
    ) -> None:
        self.bad_shape = 0
        self._on_frame = on_frame
        self._on_hangup = on_hangup
        self._on_connect = on_connect
        ipv6 = listener.family == socket.AF_INET6
        self._socket = new_socket(zmq.ROUTER, ipv6=int(ipv6))
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 0)
        fd = os.dup(listener.fileno())
        # A blocking accept would stop libzmq's IO thread when a client has given up before it.
        os.set_blocking(fd, False)
        self._socket.setsockopt(zmq.USE_FD, fd)
        self._silent = _SilentPeers(reactor)
        self._monitor = Monitor(reactor, self._socket, _SERVER_EVENTS, self._event)
        host, port = listener.getsockname()[:2]
        try:
            self._socket.bind(f"tcp://[{host}]:{port}" if ipv6 else f"tcp://{host}:{port}")
        except zmq.ZMQError as error:
            raise LinkError(f"ZeroMQ cannot listen on port {port}: {error}") from error
        self._reader = DrainReader(reactor, self._socket, self._receive)

    def send(self, route: bytes, frame: bytes) -> SendResult:
        """Queue one frame for the peer. Raises LinkError if the socket itself is broken or closed."""
        try:
            _SEND(self._socket, route, _MORE_AT_ONCE)
            _SEND(self._socket, frame, _AT_ONCE)
        except zmq.Again:
            return SendResult.FULL
        except zmq.ZMQError as error:
            if error.errno == errno.EHOSTUNREACH:
                return SendResult.GONE
            raise LinkError(f"the network link cannot send: {error}") from error
        finally:
            self._reader.kick()
        return SendResult.OK

    def rest(self) -> None:
        """Frames may wait for REST_S, unless there is something to send before."""
        self._reader.rest(REST_S)

    def hang_up(self, connection: int, address: str) -> None:
        """Shut the TCP connection down; nothing happens if the number no longer belongs to that address."""
        _shut_down(connection, address)

    def close(self) -> None:
        """Disconnect everybody; frames that wait are dropped. May be called twice."""
        if not self._socket.closed:
            self._reader.close()
            self._monitor.close()
            self._silent.close()
            self._socket.close()

    def _receive(self, parts: list[zmq.Frame]) -> None:
        route, payload = parts[0].bytes, parts[-1]
        generated = len(route) == _GENERATED_ROUTE_LENGTH and route[0] == _GENERATED_ROUTE_BEGIN
        if len(parts) != 2 or not generated:
            self._refuse(payload)
            return
        frame = payload.bytes
        if frame.startswith(DATA_PREFIX):
            self._on_frame(route, NO_CONNECTION, "", frame)
            return
        origin = _origin(payload)
        if origin is None:
            self.bad_shape += 1
            return
        # libzmq reports a connection before its frames, but by another queue: catch up, then strike it off.
        self._monitor.drain()
        self._silent.remove(origin[0])
        self._on_frame(route, *origin, frame)

    def _refuse(self, payload: zmq.Frame) -> None:
        self.bad_shape += 1
        origin = _origin(payload)
        if origin is not None:
            _shut_down(*origin)

    def _event(self, event: int, connection: int) -> None:
        if event == zmq.EVENT_ACCEPTED:
            self._silent.add(connection)
            address = _address_of(connection)
            if address:
                self._on_connect(connection, address)
        else:
            self._silent.remove(connection)
            self._on_hangup(connection)


class _SilentPeers:
    """Connections that have sent nothing yet, oldest first. At most one entry for each open descriptor."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._since: dict[int, float] = {}
        self._timer: Timer | None = None

    def add(self, connection: int) -> None:
        self._since[connection] = self._reactor.now()
        self._arm()

    def remove(self, connection: int) -> None:
        self._since.pop(connection, None)

    def close(self) -> None:
        self._since.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        if self._timer is None and self._since:
            oldest = next(iter(self._since.values()))
            self._timer = self._reactor.call_at(oldest + FIRST_FRAME_S, self._expire)

    def _expire(self) -> None:
        self._timer = None
        due = self._reactor.now() - FIRST_FRAME_S
        for connection in [connection for connection, since in self._since.items() if since <= due]:
            del self._since[connection]
            _shut_down(connection, None)
        self._arm()


def _shut_down(connection: int, address: str | None) -> None:
    """End a TCP connection of this process by its descriptor, if it belongs to that address (None: to any).

    libzmq owns the descriptor and closes it afterwards; when it has done so already, nothing happens.
    """
    try:
        fd = os.dup(connection)
    except OSError:
        return
    try:
        peer = socket.socket(fileno=fd)
    except OSError:
        os.close(fd)
        return
    with peer, contextlib.suppress(OSError):
        is_tcp = peer.family in (socket.AF_INET, socket.AF_INET6)
        if is_tcp and address in (None, _plain_address(peer.getpeername()[0])):
            peer.shutdown(socket.SHUT_RDWR)


def _address_of(connection: int) -> str:
    """Whose TCP connection that descriptor is; "" when it is over already."""
    try:
        with socket.socket(fileno=os.dup(connection)) as peer:
            return _plain_address(str(peer.getpeername()[0]))
    except OSError:
        return ""


def _origin(frame: zmq.Frame) -> tuple[int, str] | None:
    """(connection, address) of a received frame; None when the peer was gone before that was known."""
    try:
        return int(frame.get(zmq.SRCFD)), _plain_address(str(frame.get("Peer-Address")))
    except zmq.ZMQError:
        return None


def _plain_address(address: str) -> str:
    """An IPv4 peer of an IPv6 socket under its IPv4 address, so that limits by address count it once."""
    return address.removeprefix("::ffff:") if "." in address else address


class DealerLink:
    """The minion's end (`ClientLink`).

    Names are resolved at each `open` and the addresses of a name are used in turn. Resolving blocks the
    process (numeric addresses never do), for at most some seconds per name server: RESOLVER_OPTIONS.
    """

    def __init__(
        self,
        reactor: Reactor,
        on_up: Callable[[], None],
        on_frame: Callable[[bytes], None],
        on_down: Callable[[str], None],
    ) -> None:
        self.bad_shape = 0
        self._reactor = reactor
        self._on_up = on_up
        self._on_frame = on_frame
        self._on_down = on_down
        self._connection: _Connection | None = None
        self._dialled = 0
        self._ended = 0

    def open(self, address: str) -> None:
        """Connect anew to `host:port` or `[IPv6]:port`. Raises LinkError for an address of another form."""
        host, port = split_address(address)
        self.close()
        number = self._ended
        self._dialled += 1
        try:
            numeric, family = resolve(host, port, self._dialled)
            self._connection = _Connection(self._reactor, self, address)
            self._connection.connect(numeric, port, family)
        except LinkError as error:
            self._connection = None
            reason = str(error)
            self._reactor.call_soon(lambda: self._not_begun(number, reason))

    def send(self, frame: bytes) -> SendResult:
        """Queue one frame; GONE when the connection is not up."""
        return SendResult.GONE if self._connection is None else self._connection.send(frame)

    def close(self) -> None:
        """Disconnect; frames that wait are dropped and nothing more is reported. May be called twice."""
        self._ended += 1
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _not_begun(self, number: int, reason: str) -> None:
        if number == self._ended:
            self._on_down(reason)

    def connection_up(self) -> None:
        """Called by the present connection only."""
        self._on_up()

    def connection_frame(self, parts: list[zmq.Frame]) -> None:
        """Called by the present connection only."""
        if len(parts) == 1:
            self._on_frame(parts[0].bytes)
        else:
            self.bad_shape += 1

    def connection_down(self, reason: str) -> None:
        """Called by the present connection only, which has closed itself."""
        self._connection = None
        self._on_down(reason)


class _Connection:
    """One DEALER socket from `open` to its end; a closed one never reports again."""

    def __init__(self, reactor: Reactor, link: DealerLink, address: str) -> None:
        self._link = link
        self._reactor = reactor
        self._address = address
        self._connected = False
        self._up = False
        self._began = reactor.now()

    def connect(self, host: str, port: int, family: int) -> None:
        ipv6 = family == socket.AF_INET6
        self._socket = new_socket(zmq.DEALER, ipv6=int(ipv6))
        self._socket.setsockopt(zmq.RECONNECT_IVL, -1)
        self._socket.setsockopt(zmq.CONNECT_TIMEOUT, CONNECT_TIMEOUT_MS)
        self._monitor = Monitor(self._reactor, self._socket, _CLIENT_EVENTS, self._event)
        self._reader = DrainReader(self._reactor, self._socket, self._receive)
        try:
            self._socket.connect(f"tcp://[{host}]:{port}" if ipv6 else f"tcp://{host}:{port}")
        except zmq.ZMQError as error:
            self.close()
            raise LinkError(f"{self._address} cannot be connected to: {error}") from error

    def send(self, frame: bytes) -> SendResult:
        if not self._up:
            return SendResult.GONE
        try:
            self._socket.send(frame, _AT_ONCE)
        except zmq.Again:
            return SendResult.FULL
        except zmq.ZMQError as error:
            raise LinkError(f"the network link cannot send: {error}") from error
        finally:
            self._reader.kick()
        return SendResult.OK

    def close(self) -> None:
        if not self._socket.closed:
            self._up = False
            self._reader.close()
            self._monitor.close()
            self._socket.close()

    def _receive(self, parts: list[zmq.Frame]) -> None:
        self._rise()
        if not self._socket.closed:
            self._link.connection_frame(parts)

    def _rise(self) -> None:
        # Frames and events come by different queues; whichever is first says that the connection is up.
        if not self._up:
            self._up = True
            self._link.connection_up()

    def _event(self, event: int, _value: int) -> None:
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._rise()
        elif event == zmq.EVENT_CONNECTED:
            self._connected = True
        elif event & _HANDSHAKE_FAILURES:
            self._end(self._why_disconnected())
        elif event == zmq.EVENT_DISCONNECTED:
            # What the master sent before it hung up, its reason perhaps, is still in the queue.
            self._reader.drain()
            self._end(self._why_disconnected())
        elif event == zmq.EVENT_CLOSED and not self._connected:
            self._end(self._why_not_connected())

    def _why_disconnected(self) -> str:
        if self._up:
            return f"{self._address} closed the connection"
        return f"{self._address} took the connection but did not greet as a master: check host and port"

    def _why_not_connected(self) -> str:
        if (self._reactor.now() - self._began) * 1000 < CONNECT_TIMEOUT_MS:
            return f"{self._address} refused the connection or has no route: is saltlite-master running there?"
        return f"{self._address} did not answer in {CONNECT_TIMEOUT_MS / 1000:g} s: check address and firewall"

    def _end(self, reason: str) -> None:
        if not self._socket.closed:
            self.close()
            self._link.connection_down(reason)
