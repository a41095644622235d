"""The network process of a minion: connects the connection state machine, the link and the job server.

An attacker who controls this process can delay jobs and read its traffic, and no more: it has no rights, writes
nothing, and cannot make the job server run what no master signed for this minion.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from saltlite.errors import LinkError
from saltlite.minion.processes import ipc_messages as ipc
from saltlite.minion.protocol.connection import (
    Changed,
    Close,
    ConnectionMachine,
    Deliver,
    OpenLink,
    Phase,
    SendFrame,
    Trust,
)
from saltlite.model.dataclass import dataclass
from saltlite.model.keys import Fingerprint, hex_fingerprint
from saltlite.platform.link import ClientLink, SendResult
from saltlite.platform.reactor import Reactor, Timer
from saltlite.platform.stream import Channel
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message

log = logging.getLogger(__name__)

FULL_RETRY_S = 0.02
"""Seconds between two attempts when the link is full, because it does not report free space."""


@dataclass(slots=True)
class Transfer:
    """A large result in transfer, chunk by chunk."""

    jid: str
    body: bytes
    offset: int = 0


class NetworkProcess:
    """`functions` is the message with the functions of this minion, `key` the fingerprint of its key."""

    def __init__(
        self,
        reactor: Reactor,
        connection: ConnectionMachine,
        make_link: Callable[[NetworkProcess], ClientLink],
        functions: Message,
        *,
        key: Fingerprint,
    ) -> None:
        self._reactor = reactor
        self._connection = connection
        self._functions = functions
        self._refusal = ""
        """Why the master refuses this minion; "" if it does not."""
        self._untold = False
        self._key = key
        self._link = make_link(self)
        self._channel: Channel | None = None
        self._backlog: deque[bytes] = deque()
        self._transfers: deque[Transfer] = deque()
        self._retry_due = False
        self._sessions = 0
        self._timer: Timer | None = None

    def start(self, channel: Channel) -> None:
        """Connect; `channel` leads to the job server."""
        self._channel = channel
        self._connection.start()
        self._carry_out()

    # -- the link

    def on_up(self) -> None:
        self._connection.link_up()
        self._carry_out()

    def on_frame(self, frame: bytes) -> None:
        self._connection.frame(frame)
        self._carry_out()

    def on_down(self, reason: str) -> None:
        """Handle the loss of the link, or a failed connection."""
        self._connection.link_down(reason)
        self._carry_out()

    def stop(self) -> None:
        self._connection.close("the minion is stopping")
        self._carry_out()
        self._reactor.call_later(0.05, self._reactor.stop)

    # -- the job server

    def on_batch(self, batch: list[bytes]) -> None:
        """Handle messages of the job server."""
        for data in batch:
            self._from_job_server(unpack(data))
        self._carry_out()

    def on_closed(self, reason: str) -> None:
        """Stop: the job server is gone."""
        log.error("the job server is gone: %s", reason)
        self._reactor.stop()

    def _from_job_server(self, message: IpcMessage) -> None:
        kind, session = message.pop("t"), message.pop("session")
        if kind in ("state", "result", "body", "ask") and session != self._sessions:
            # From an earlier session; this master asks for what it needs.
            return
        match kind:
            case "state":
                self._connection.send({"t": "job_state", **message})
            case "result":
                self._connection.send({"t": "return", **message})
            case "body":
                self._transfers.append(Transfer(message["jid"], message["body"]))
                self._pump()
            case "status":
                self._connection.running = message["running"]
                self._connection.spooled = message["spooled"]
            case "functions":
                self._functions = message["message"]
                self._connection.functions_are(self._functions["digest"])
                self._untold = not self._connection.send(self._functions)
            case "ask":
                self._connection.send(message["message"])

    # -- effects

    def _carry_out(self) -> None:
        while effects := self._connection.take():
            for effect in effects:
                match effect:
                    case SendFrame(frame):
                        self._send(frame)
                    case Deliver(message):
                        self._deliver(message)
                    case OpenLink(address):
                        self._open(address)
                    case Close():
                        self._backlog.clear()
                        self._transfers.clear()
                        self._link.close()
                    case Changed(phase, reason):
                        self._changed(phase, reason)
                    case Trust(_, certificate, chain):
                        self._tell(ipc.trust(certificate.encode(), chain))
        self._arm()

    def _open(self, address: str) -> None:
        self._backlog.clear()
        try:
            self._link.open(address)
        except LinkError as error:
            reason = str(error)
            self._reactor.call_soon(lambda: self.on_down(reason))

    def _changed(self, phase: Phase, reason: str) -> None:
        if phase is Phase.PENDING:
            # The operator who accepts the key has to compare the fingerprint.
            reason += f"; its fingerprint is {self._key}, in Salt's form {hex_fingerprint(self._key)}"
        # A refused minion asks about once a minute, and says once why it was refused.
        level = logging.WARNING if reason and reason != self._refusal else logging.INFO
        if phase in (Phase.REFUSED, Phase.READY, Phase.PENDING):
            self._refusal = reason if phase is Phase.REFUSED else ""
        self._sessions += phase is Phase.READY
        # The number makes the message unique for each session, or the log would suppress it as a repeat and end with an
        # outdated state.
        session = f" [session {self._sessions}]" if self._sessions else ""
        log.log(level, "connection: %s%s%s", phase, f" ({reason})" if reason else "", session)
        self._tell(ipc.phase(phase, reason, self._connection.master))
        if phase is Phase.READY:
            self._tell(ipc.ready(self._sessions))
            if self._untold:
                # The handshake may have started before they changed.
                self._untold = not self._connection.send(self._functions)

    def _deliver(self, message: Message) -> None:
        if message["t"] == "fetch" and message["what"] == "functions":
            self._connection.send(self._functions)
        else:
            self._tell(dict(message))

    def _tell(self, message: IpcMessage) -> None:
        if self._channel is not None:
            self._channel.send(pack(message))

    # -- sending

    def _send(self, frame: bytes) -> None:
        # Sealed frames are numbered, so they must be sent in order.
        if self._backlog or self._link.send(frame) is SendResult.FULL:
            self._backlog.append(frame)
            self._retry_later()

    def _retry_later(self) -> None:
        if not self._retry_due:
            self._retry_due = True
            self._reactor.call_later(FULL_RETRY_S, self._retry)

    def _retry(self) -> None:
        self._retry_due = False
        while self._backlog:
            if self._link.send(self._backlog[0]) is SendResult.FULL:
                self._retry_later()
                return
            self._backlog.popleft()
        self._pump()
        self._carry_out()

    def _pump(self) -> None:
        """Send chunks of large results as long as the link takes them."""
        while self._transfers and not self._backlog:
            transfer = self._transfers[0]
            data = transfer.body[transfer.offset : transfer.offset + CHUNK]
            part = {"t": "return_chunk", "jid": transfer.jid, "offset": transfer.offset, "data": data}
            if not self._connection.send(part):
                self._transfers.clear()
                return
            transfer.offset += len(data)
            if transfer.offset >= len(transfer.body):
                self._transfers.popleft()
            for effect in self._connection.take():
                if isinstance(effect, SendFrame):
                    self._send(effect.frame)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._reactor.call_at(self._connection.deadline(), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._connection.tick()
        self._carry_out()
