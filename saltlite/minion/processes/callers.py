"""Events of `saltlite call`: a process beside the daemon hands them over at a Unix socket, and waits for the answer.

The socket stands in the minion's own folder, which nobody else can enter, and takes nothing but events.
"""

from __future__ import annotations

import logging
import os
import socket

from saltlite.errors import ProtocolError, StartupError
from saltlite.minion.jobs.rpc_server import RpcServer
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Acceptor, Channel, Peer, listen_unix
from saltlite.wire.framing import pack, unpack
from saltlite.wire.limits import EVENT_DATA_MAX
from saltlite.wire.messages import Message, Sender, check

log = logging.getLogger(__name__)

SOCKET_NAME = "events.ipc"
SOCKET_MODE = 0o600
CALLERS_MAX = 64
"""Processes that are served at once; others wait in the kernel."""
_MESSAGE_MAX = EVENT_DATA_MAX + 4096


class Callers:
    """Takes events from processes of this minion's own user (and of root)."""

    def __init__(self, reactor: Reactor, asks: RpcServer, data_dir: str) -> None:
        self._reactor = reactor
        self._asks = asks
        self._path = os.path.join(data_dir, SOCKET_NAME)
        self._listener: socket.socket | None = None
        self._acceptor: Acceptor | None = None

    def start(self) -> None:
        """Listen. Where no socket can be made, `saltlite call` sends no events, and the log says why."""
        try:
            self._listener = listen_unix(self._path, SOCKET_MODE)
        except StartupError as error:
            log.warning("event.send does not work in `saltlite call` here: %s", error)
            return
        self._acceptor = Acceptor(self._reactor, self._listener, self._accept, connections_max=CALLERS_MAX)

    def _accept(self, sock: socket.socket, peer: Peer) -> None:
        if peer.uid not in (0, os.geteuid()):
            sock.close()
            self._released()
            return
        channel: Channel

        def on_batch(batch: list[bytes]) -> None:
            for data in batch:
                self._ask(channel, data)

        channel = Channel(
            self._reactor,
            sock,
            on_batch,
            lambda _reason: self._gone(channel),
            message_max=_MESSAGE_MAX,
            send_buffer_max=16 * _MESSAGE_MAX,
        )

    def _ask(self, channel: Channel, data: bytes) -> None:
        try:
            message = dict(check(unpack(data), Sender.MINION, accepted=True))
        except (ProtocolError, ValueError) as error:
            log.error("a process asked at %s what makes no sense: %s", self._path, error)  # noqa: TRY400 - a sentence
            return
        if message["t"] != "event":
            return
        own = message["n"]

        def answered(said: Message) -> None:
            channel.send(pack({**said, "n": own}))

        self._asks.ask(message, answered, again=True, whose=channel)

    def _gone(self, channel: Channel) -> None:
        # It has told its user that the event was not sent, and while the master is away nothing would end this.
        self._asks.forget(channel)
        self._released()

    def _released(self) -> None:
        if self._acceptor is not None:
            # In a later turn: it may be the acceptor that calls.
            self._reactor.call_soon(self._acceptor.released)
