"""The network process of a minion: connects the connection state machines, their links and the job server.

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
    CloseSecond,
    ConnectionMachine,
    Deliver,
    OpenLink,
    OpenSecond,
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
LINGER_S = 5.0
"""How long a session stays open after the minion has moved: longer than it takes the new master to store that, and to
tell the old one."""


@dataclass(slots=True)
class Transfer:
    """A large result in transfer, chunk by chunk."""

    jid: str
    body: bytes
    offset: int = 0


class MasterConnection:
    """A connection with its link, and the frames that its link had no room for, in order."""

    def __init__(
        self,
        process: NetworkProcess,
        connection: ConnectionMachine,
        make_link: Callable[[MasterConnection], ClientLink],
    ) -> None:
        self.connection = connection
        self.link = make_link(self)
        self.backlog: deque[bytes] = deque()
        self.trust: Trust | None = None
        """What to tell the job server once this connection is the one of the minion."""
        self._process = process

    def on_up(self) -> None:
        self._input(self.connection.link_up)

    def on_frame(self, frame: bytes) -> None:
        self._input(lambda: self.connection.frame(frame))

    def on_down(self, reason: str) -> None:
        """Handle the loss of the link, or a failed connection."""
        self._input(lambda: self.connection.link_down(reason))

    def close(self) -> None:
        """Drop the link and what waits for it."""
        self.backlog.clear()
        self.link.close()

    def _input(self, give: Callable[[], None]) -> None:
        if self._process.uses(self):
            give()
            self._process.carry_out()


class NetworkProcess:
    """`functions` is the message with the functions of this minion, `key` the fingerprint of its key.

    A second connection, to another master, may be tried beside the session (`saltlite.minion.protocol.connection`).
    """

    def __init__(
        self,
        reactor: Reactor,
        connection: ConnectionMachine,
        make_link: Callable[[MasterConnection], ClientLink],
        functions: Message,
        *,
        key: Fingerprint,
    ) -> None:
        self._reactor = reactor
        self._functions = functions
        self._refusal = ""
        """Why the master refuses this minion; "" if it does not."""
        self._untold = False
        self._key = key
        self._make_link = make_link
        self._line = MasterConnection(self, connection, make_link)
        self._second: MasterConnection | None = None
        self._left: MasterConnection | None = None
        """The connection that the present one took the place of, for LINGER_S."""
        self._channel: Channel | None = None
        self._transfers: deque[Transfer] = deque()
        self._retry_due = False
        self._sessions = 0
        self._timer: Timer | None = None

    def start(self, channel: Channel) -> None:
        """Connect; `channel` leads to the job server."""
        self._channel = channel
        self._connection.start()
        self.carry_out()

    @property
    def _connection(self) -> ConnectionMachine:
        return self._line.connection

    def uses(self, line: MasterConnection) -> bool:
        """Whether what comes by that connection counts."""
        return line is self._line or line is self._second

    def stop(self) -> None:
        self._connection.close("the minion is stopping")
        self.carry_out()
        self._reactor.call_later(0.05, self._reactor.stop)

    def close(self) -> None:
        """Drop all connections."""
        for line in (self._line, self._second, self._left):
            if line is not None:
                line.close()

    # -- the job server

    def on_batch(self, batch: list[bytes]) -> None:
        """Handle messages of the job server."""
        for data in batch:
            self._from_job_server(unpack(data))
        self.carry_out()

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
                for line in self._lines():
                    line.connection.running, line.connection.spooled = message["running"], message["spooled"]
            case "functions":
                self._functions = message["message"]
                for line in self._lines():
                    line.connection.functions_are(self._functions["digest"])
                self._untold = not self._connection.send(self._functions)
            case "ask":
                self._connection.send(message["message"])

    def _lines(self) -> list[MasterConnection]:
        return [self._line] if self._second is None else [self._line, self._second]

    # -- effects

    def carry_out(self) -> None:
        """Carry out the effects of the connections, in order. Call it after each event."""
        while effects := self._connection.take():
            for effect in effects:
                match effect:
                    case SendFrame(frame):
                        self._send(self._line, frame)
                    case Deliver(message):
                        self._deliver(message)
                    case OpenLink(address):
                        self._open(self._line, address)
                    case OpenSecond(address):
                        self._begin_second(address)
                    case CloseSecond():
                        self._drop_second()
                    case Close():
                        self._transfers.clear()
                        self._line.close()
                    case Changed(phase, reason):
                        self._changed(phase, reason)
                    case Trust(_, certificate, chain):
                        self._tell(ipc.trust(certificate.encode(), chain))
        self._carry_out_second()
        self._arm()

    def _open(self, line: MasterConnection, address: str) -> None:
        line.backlog.clear()
        try:
            line.link.open(address)
        except LinkError as error:
            reason = str(error)
            self._reactor.call_soon(lambda: line.on_down(reason))

    # -- a second connection

    def _begin_second(self, address: str) -> None:
        self._drop_second()
        self._second = MasterConnection(self, self._connection.beside(address), self._make_link)
        self._second.connection.start()

    def _drop_second(self) -> None:
        if self._second is not None:
            self._second.close()
            self._second = None

    def _carry_out_second(self) -> None:
        while self._second is not None and (effects := self._second.connection.take()):
            for effect in effects:
                match effect:
                    case SendFrame(frame):
                        self._send(self._second, frame)
                    case OpenLink(address):
                        self._open(self._second, address)
                    case Trust():
                        self._second.trust = effect
                    case Changed(Phase.READY):
                        self._take_second(self._second)
                        return
                    case Changed(Phase.PENDING | Phase.REFUSED | Phase.BACKOFF as phase, reason):
                        second = self._second.connection
                        log.info("%s was tried beside the session: %s", second.master, reason)
                        self._drop_second()
                        # A busy master has said when to come again.
                        self._connection.second_failed(second.deadline() if phase is Phase.BACKOFF else 0.0)
                        self.carry_out()
                        return
                    case _:
                        pass

    def _take_second(self, second: MasterConnection) -> None:
        """The second connection is the one of this minion from now on."""
        # The old session stays open while the new master takes the minion over in the store, which tells the old one:
        # else the minion would count as away in between. What still comes by it, the new session brings again.
        self._left, self._line, self._second = self._line, second, None
        self._reactor.call_later(LINGER_S, self._left.close)
        self._transfers.clear()
        if second.trust is not None:
            self._tell(ipc.trust(second.trust.certificate.encode(), second.trust.chain))
        self._changed(Phase.READY, f"moved to {second.connection.master}")
        self.carry_out()

    def _changed(self, phase: Phase, reason: str) -> None:
        if phase is Phase.PENDING:
            # The operator who accepts the key has to compare the fingerprint.
            reason += f"; its fingerprint is {self._key}, in Salt's form {hex_fingerprint(self._key)}"
        # A refused minion asks about once a minute, and says once why it was refused.
        is_trouble = reason not in ("", self._refusal) and phase is not Phase.READY
        level = logging.WARNING if is_trouble else logging.INFO
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

    def _send(self, line: MasterConnection, frame: bytes) -> None:
        # Sealed frames are numbered, so they must be sent in order.
        if line.backlog or line.link.send(frame) is SendResult.FULL:
            line.backlog.append(frame)
            self._retry_later()

    def _retry_later(self) -> None:
        if not self._retry_due:
            self._retry_due = True
            self._reactor.call_later(FULL_RETRY_S, self._retry)

    def _retry(self) -> None:
        self._retry_due = False
        for line in self._lines():
            while line.backlog:
                if line.link.send(line.backlog[0]) is SendResult.FULL:
                    self._retry_later()
                    return
                line.backlog.popleft()
        self._pump()
        self.carry_out()

    def _pump(self) -> None:
        """Send chunks of large results as long as the link takes them."""
        while self._transfers and not self._line.backlog:
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
                    self._send(self._line, effect.frame)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = min(line.connection.deadline() for line in self._lines())
        self._timer = self._reactor.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer = None
        for line in self._lines():
            line.connection.tick()
        self.carry_out()
