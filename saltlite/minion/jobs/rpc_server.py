"""The job server's side of requests by processes of jobs: files of the master, events, a refresh of modules and grains.

A process of a job has no network. It sends its request over its socket to the job server, which passes requests about
files, events and those of `MasterRequests` on to the master, with a number of its own, and returns the answer.
Requests of a session that ended are sent again in the next one. The minion's documents (`saltlite.minion.sync`) go the
same way, because a session has one limit for all requests. `saltlite call` sends events and requests of
`MasterRequests`, and asks for refreshes, through a Unix socket in the minion's folder.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from saltlite.errors import ProtocolError, StartupError, UsageError
from saltlite.minion.jobs.job_process import JobProcess
from saltlite.minion.processes import ipc_messages as ipc
from saltlite.minion.processes.ipc_messages import FORGED
from saltlite.model.dataclass import dataclass
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Acceptor, Channel, Peer, listen_unix
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.limits import CHUNK, FILE_ASKS_MAX
from saltlite.wire.messages import Message, Sender, check, response_message
from saltlite.wire.signatures import is_believed, with_nonce

# -- Verification of answers
#
# The network process of the minion and the link process of the master are the most exposed ones. Neither can make a
# minion load a plug-in, a file or a pillar that no MWorker signed (`saltlite.wire.signatures`): such an answer becomes
# FORGED.


log = logging.getLogger(__name__)


class AnswerCheck:
    """Adds nonces to requests and verifies answers. `keys` returns the trusted job keys, `entropy` random bytes;
    `alarm` is called with the number of refused answers since the start."""

    def __init__(
        self,
        minion: str,
        keys: Callable[[], Iterable[bytes]],
        entropy: Callable[[int], bytes],
        alarm: Callable[[int], None] = lambda _refused: None,
    ) -> None:
        self._minion = minion
        self._keys = keys
        self._entropy = entropy
        self._alarm = alarm
        self._refused = 0

    def outgoing(self, question: Message) -> Message:
        """The request to send, with a nonce where its answer has to be signed."""
        return with_nonce(question, self._entropy)

    def incoming(self, question: Message, answer: Message) -> Message:
        """The answer to that request, or one with the state FORGED if it is not signed by a trusted master."""
        if is_believed(self._keys(), self._minion, question, answer):
            return answer
        self._refused += 1
        log.error(
            "an answer about %s was not signed by a master that this minion trusts, and was not used (%d so far): "
            "somebody may have taken over the link process of the master or the network process of this minion. Look "
            "into both machines, and restart both daemons",
            question.get("path") or question.get("kind") or question.get("operation") or question.get("what"),
            self._refused,
        )
        self._alarm(self._refused)
        return response_message(answer["n"], FORGED)


NUMBERS = 2**31
"""Request numbers wrap around here."""

Refresh = Callable[[str, Callable[[IpcMessage], None]], None]
"""Refreshes "modules", "grains" …, and calls back with a report."""
Timers = Callable[[str, str, dict[str, Any]], IpcMessage]
"""Answers a request about "schedule" or "beacons": an operation and its fields. Raises UsageError."""
Answered = Callable[[Message], None]


def no_timers(about: str, _operation: str, _fields: dict[str, Any]) -> IpcMessage:
    """Before the minion has its schedule and beacons."""
    raise UsageError(f"the minion has no {about} yet: try again in a moment")


@dataclass(slots=True)
class _Request:
    """One request to the master: of a process (None after its exit), which knows it as number `own`, or of the minion
    itself, which gets the answer through `answered`."""

    message: Message
    process: JobProcess | None = None
    own: int = 0
    answered: Answered | None = None
    again: bool = False
    """Whether it is sent again in the next session, like those of processes."""
    whose: object = None
    """The owner, for `forget`."""
    sent: Message = field(default_factory=dict)
    """The message as it was last sent, with its number and nonce."""


class RpcServer:
    """Requests of processes and of the minion to the master. `tell` sends a message to the network process; `check`
    verifies answers."""

    def __init__(
        self, reactor: Reactor, tell: Callable[[IpcMessage], None], refresh: Refresh, check: AnswerCheck
    ) -> None:
        self.refresh = refresh
        self.timers: Timers = no_timers
        """Answers requests about the schedule and the beacons."""
        self._reactor = reactor
        self._tell = tell
        self._check = check
        self._open: dict[int, _Request] = {}
        self._waiting: deque[_Request] = deque()
        self._unsent: dict[JobProcess, bytearray] = {}
        self._refreshing: list[tuple[JobProcess, int]] = []
        self._numbers = 0

    def ask(self, message: Message, answered: Answered, *, again: bool = False, whose: object = None) -> None:
        """Send a request of the minion itself. It is dropped, unanswered, when the session ends, unless `again` is set.
        `whose` names its owner for `forget`."""
        self._waiting.append(_Request(dict(message), answered=answered, again=again, whose=whose))
        self._ask()

    def forget(self, whose: object) -> None:
        """Drop the requests of this owner that were not sent yet."""
        self._waiting = deque(ask for ask in self._waiting if ask.whose is not whose)
        for ask in self._open.values():
            ask.again = ask.again and ask.whose is not whose

    def on_request(self, process: JobProcess, raw: bytes) -> None:
        """Handle a request of a process. An invalid one is logged and not answered."""
        try:
            asked = unpack(raw)
            own = int(asked["n"])
            if asked["t"] == "refresh":
                self._refreshing.append((process, own))
                self.refresh(str(asked["what"]), lambda answer: self._refreshed(process, own, answer))
                return
            if asked["t"] == "timers":
                self._answer(process, self.timers_answer(asked))
                return
            message = dict(check(asked, Sender.MINION, accepted=True))
        except (ProtocolError, ValueError, KeyError, TypeError) as error:
            log.error("a job's process sent a malformed request (%s); its function writes to strange files", error)  # noqa: TRY400 - a sentence
            return
        if message["t"] in ("file_request", "file_put", "event", "ask"):
            self._waiting.append(_Request(message, process, own))
            self._ask()

    def timers_answer(self, asked: IpcMessage) -> IpcMessage:
        """The answer to a request about the schedule or the beacons. Raises KeyError, TypeError and ValueError."""
        operation, fields = str(asked["operation"]), dict(asked["fields"])
        try:
            answer = self.timers(str(asked["about"]), operation, fields)
        except UsageError as error:
            answer = {"error": str(error)}
        return {"t": "timers", "n": int(asked["n"]), "answer": answer}

    def on_response(self, message: Message) -> None:
        """Handle an answer of the master."""
        ask = self._open.pop(message["n"], None)
        if ask is not None:
            message = self._check.incoming(ask.sent, message)
            if ask.answered is not None:
                ask.answered(message)
            elif ask.process is not None:
                self._answer(ask.process, {**message, "n": ask.own})
        self._ask()

    def connected(self) -> None:
        """Start a session: send the open requests again, because the new master does not have them."""
        asked = [*self._open.values(), *self._waiting]
        self._open.clear()
        self._waiting = deque(ask for ask in asked if ask.process is not None or ask.again)
        self._ask()

    def ended(self, process: JobProcess) -> None:
        """Drop the requests of a process that ended. Those already sent keep their place until the answer arrives."""
        self._waiting = deque(ask for ask in self._waiting if ask.process is not process)
        self._refreshing = [one for one in self._refreshing if one[0] is not process]
        for ask in self._open.values():
            if ask.process is process:
                ask.process = None
        if self._unsent.pop(process, None) is not None:
            self._reactor.remove_writer(process.socket.fileno())

    def _refreshed(self, process: JobProcess, own: int, answer: IpcMessage) -> None:
        if (process, own) in self._refreshing:
            self._refreshing.remove((process, own))
            self._answer(process, {"t": "refreshed", "n": own, "answer": answer})

    def _ask(self) -> None:
        while self._waiting and len(self._open) < FILE_ASKS_MAX:
            ask = self._waiting.popleft()
            self._numbers = (self._numbers + 1) % NUMBERS
            self._open[self._numbers] = ask
            ask.sent = self._check.outgoing({**ask.message, "n": self._numbers})
            self._tell(ipc.ask(ask.sent))

    def _answer(self, process: JobProcess, message: IpcMessage) -> None:
        unsent = self._unsent.get(process)
        if unsent is not None:
            unsent += process.framed(pack(message))
            return
        rest = process.put(process.framed(pack(message)))
        if rest:
            self._unsent[process] = bytearray(rest)
            self._reactor.add_writer(process.socket.fileno(), lambda: self._writable(process))

    def _writable(self, process: JobProcess) -> None:
        rest = process.put(bytes(self._unsent[process]))
        if rest:
            self._unsent[process] = bytearray(rest)
        else:
            del self._unsent[process]
            self._reactor.remove_writer(process.socket.fileno())


# -- Events, requests to the master and refreshes of `saltlite call`, from a Unix socket that takes nothing else


SOCKET_NAME = "events.ipc"
SOCKET_MODE = 0o600
CALLERS_MAX = 64
"""Processes served at once; others wait in the kernel."""
_MESSAGE_MAX = CHUNK + 4096
_REFRESHED = ("modules", "grains", "pillar", "resources")


class LocalCallers:
    """Takes events, requests to the master and refreshes from processes of this minion's own user (and of root)."""

    def __init__(self, reactor: Reactor, rpc_server: RpcServer, data_dir: str) -> None:
        self._reactor = reactor
        self._rpc_server = rpc_server
        self._path = os.path.join(data_dir, SOCKET_NAME)
        self._listener: socket.socket | None = None
        self._acceptor: Acceptor | None = None

    def start(self) -> None:
        """Listen. If the socket cannot be created, `saltlite call` does not reach the minion, and the log says why."""
        try:
            self._listener = listen_unix(self._path, SOCKET_MODE)
        except StartupError as error:
            log.warning("event.send and saltutil.refresh_* do not work in `saltlite call` here: %s", error)
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
            asked = unpack(data)
            if isinstance(asked, dict) and asked.get("t") == "refresh":
                self._refresh(channel, int(asked["n"]), asked["what"])
                return
            if isinstance(asked, dict) and asked.get("t") == "timers":
                channel.send(pack(self._rpc_server.timers_answer(asked)))
                return
            message = dict(check(asked, Sender.MINION, accepted=True))
        except (ProtocolError, ValueError, KeyError, TypeError) as error:
            log.error("a process sent a malformed request at %s: %s", self._path, error)  # noqa: TRY400 - a sentence
            return
        if message["t"] not in ("event", "ask"):
            return
        own = message["n"]

        def answered(response: Message) -> None:
            channel.send(pack({**response, "n": own}))

        self._rpc_server.ask(message, answered, again=True, whose=channel)

    def _refresh(self, channel: Channel, own: int, what: str) -> None:
        if what not in _REFRESHED:
            raise ValueError(f"there is no refresh of {what!r:.40}")

        def refreshed(found: IpcMessage) -> None:
            answer = pack({"t": "refreshed", "n": own, "answer": found})
            if len(answer) > _MESSAGE_MAX:
                text = (
                    f"it is done, and its report is too long for `saltlite call`: run saltutil.refresh_{what} as a job"
                )
                answer = pack({"t": "refreshed", "n": own, "answer": {"error": text}})
            channel.send(answer)

        self._rpc_server.refresh(what, refreshed)

    def _gone(self, channel: Channel) -> None:
        # The function has failed already; without this, the request would stay while the master is away.
        self._rpc_server.forget(channel)
        self._released()

    def _released(self) -> None:
        if self._acceptor is not None:
            # In a later turn, because the acceptor may be the caller.
            self._reactor.call_soon(self._acceptor.released)
