"""What processes of jobs ask of the minion while they run: files of the master, and a new look at modules and grains.

A process has no network. It asks the job server over its socket; what is about files goes on to the master, under a
number of this minion's own, and the answer comes back the same way. Questions that a session took with it are asked
again in the next one, so whoever asked only waits longer. The minion's own documents
(`saltlite.minion.sync.documents`) go
the same way, because a session has one limit for all questions. An answer that is to be signed by a master and is not
reaches nobody (`saltlite.minion.jobs.answer_check`).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from saltlite.errors import ProtocolError
from saltlite.minion.jobs.answer_check import AnswerCheck
from saltlite.minion.jobs.job_process import JobProcess
from saltlite.minion.processes import ipc_messages as inside
from saltlite.platform.reactor import Reactor
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.limits import FILE_ASKS_MAX
from saltlite.wire.messages import Message, Sender, check

log = logging.getLogger(__name__)

NUMBERS = 2**31
"""Numbers of questions go round here."""

Refresh = Callable[[str, Callable[[IpcMessage], None]], None]
"""Look at "modules", "grains" … anew, and call back when that is done, with what there is to tell."""
Answered = Callable[[Message], None]


@dataclass(slots=True)
class _Ask:
    """One question and what the master gets. Either of a process (None when that has ended) under the number that it
    has there, or of the minion itself, which wants it `answered`."""

    message: Message
    process: JobProcess | None = None
    own: int = 0
    answered: Answered | None = None
    again: bool = False
    """Whether it is asked again in the next session, as those of processes are."""
    whose: object = None
    """Somebody who may go away before it was asked."""
    sent: Message = field(default_factory=dict)
    """The message as it was asked last, under a number and with a nonce of its own."""


class RpcServer:
    """`tell` hands a message to the network process; `check` says which answers are believed."""

    def __init__(
        self, reactor: Reactor, tell: Callable[[IpcMessage], None], refresh: Refresh, check: AnswerCheck
    ) -> None:
        self._reactor = reactor
        self._tell = tell
        self._refresh = refresh
        self._check = check
        self._open: dict[int, _Ask] = {}
        self._waiting: deque[_Ask] = deque()
        self._unsent: dict[JobProcess, bytearray] = {}
        self._refreshing: list[tuple[JobProcess, int]] = []
        self._numbers = 0

    def ask(self, message: Message, answered: Answered, *, again: bool = False, whose: object = None) -> None:
        """The minion itself asks. A session that ends takes the question with it: it is not answered then, unless it
        is to be asked `again`. `whose` it is may be told to `forget`."""
        self._waiting.append(_Ask(dict(message), answered=answered, again=again, whose=whose))
        self._ask()

    def forget(self, whose: object) -> None:
        """Nobody waits for answers to these any more: those that have not been asked are not."""
        self._waiting = deque(ask for ask in self._waiting if ask.whose is not whose)
        for ask in self._open.values():
            ask.again = ask.again and ask.whose is not whose

    def heard(self, process: JobProcess, raw: bytes) -> None:
        """A process asks. What it must not ask is not answered: it is its own fault, and waits in vain."""
        try:
            asked = unpack(raw)
            own = int(asked["n"])
            if asked["t"] == "refresh":
                self._refreshing.append((process, own))
                self._refresh(str(asked["what"]), lambda told: self._refreshed(process, own, told))
                return
            message = dict(check(asked, Sender.MINION, accepted=True))
        except (ProtocolError, ValueError, KeyError, TypeError) as error:
            log.error("a job's process asked what makes no sense (%s); its function writes to strange files", error)  # noqa: TRY400 - a sentence
            return
        if message["t"] in ("file_request", "file_put", "event"):
            self._waiting.append(_Ask(message, process, own))
            self._ask()

    def said(self, message: Message) -> None:
        """The master answered."""
        ask = self._open.pop(message["n"], None)
        if ask is not None:
            message = self._check.incoming(ask.sent, message)
            if ask.answered is not None:
                ask.answered(message)
            elif ask.process is not None:
                self._answer(ask.process, {**message, "n": ask.own})
        self._ask()

    def connected(self) -> None:
        """A new session: the master knows nothing of what it was asked before."""
        asked = [*self._open.values(), *self._waiting]
        self._open.clear()
        self._waiting = deque(ask for ask in asked if ask.process is not None or ask.again)
        self._ask()

    def ended(self, process: JobProcess) -> None:
        """That process asks nothing more. What the master was asked for it keeps its place until it is answered."""
        self._waiting = deque(ask for ask in self._waiting if ask.process is not process)
        self._refreshing = [one for one in self._refreshing if one[0] is not process]
        for ask in self._open.values():
            if ask.process is process:
                ask.process = None
        if self._unsent.pop(process, None) is not None:
            self._reactor.remove_writer(process.socket.fileno())

    def _refreshed(self, process: JobProcess, own: int, told: IpcMessage) -> None:
        if (process, own) in self._refreshing:
            self._refreshing.remove((process, own))
            self._answer(process, {"t": "refreshed", "n": own, "told": told})

    def _ask(self) -> None:
        while self._waiting and len(self._open) < FILE_ASKS_MAX:
            ask = self._waiting.popleft()
            self._numbers = (self._numbers + 1) % NUMBERS
            self._open[self._numbers] = ask
            ask.sent = self._check.outgoing({**ask.message, "n": self._numbers})
            self._tell(inside.ask(ask.sent))

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
