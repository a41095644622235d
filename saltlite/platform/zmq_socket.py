"""The sockets under the ZeroMQ link: one context a process, one set of options, their monitors, and names.

ZeroMQ may be used only after the last fork of the process: its IO thread does not survive one.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import socket
import struct
from collections.abc import Callable
from typing import Final

import zmq

from saltlite.errors import LinkError, LocalProtocolError
from saltlite.platform.link import LINK_FRAME_MAX, QUEUE_FRAMES
from saltlite.platform.reactor import Reactor
from saltlite.platform.zmq_drain import DrainReader

HANDSHAKE_MS: Final = 5_000
"""How long a TCP peer may take to greet as ZeroMQ does; then it is disconnected, milliseconds."""

RESOLVER_OPTIONS: Final = "timeout:2 attempts:2"
"""What glibc is told unless the environment says otherwise: a dead name server costs seconds only."""

_MONITOR_EVENT = struct.Struct("=Hi")
_monitor_numbers = itertools.count(1)
_contexts: dict[int, zmq.Context[zmq.Socket[bytes]]] = {}


def context() -> zmq.Context[zmq.Socket[bytes]]:
    """The one context of this process. Raises LocalProtocolError if a forked parent had one already."""
    pid = os.getpid()
    if pid not in _contexts:
        if _contexts:
            raise LocalProtocolError("ZeroMQ was used before this process was forked: fork first, then link")
        # The names that a ROUTER gives its peers start at rand(); zmq_link says why nobody may know them.
        ctypes.CDLL(None).srand(ctypes.c_uint(int.from_bytes(os.urandom(4), "big")))
        _contexts[pid] = zmq.Context(io_threads=1)
    return _contexts[pid]


def new_socket(kind: int, *, ipv6: int) -> zmq.Socket[bytes]:
    """A socket with the options that both ends have in common. Raises LinkError when there can be none.

    It has no heartbeats of ZeroMQ (`HEARTBEAT_IVL`): the IO thread walks through the timers of all connections whenever
    one of them hears something, which at 10,000 minions is half a core, and sessions are cut for silence. The session's
    own heartbeats find a peer that is gone, TCP's keepalive a connection that never had a session.
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
