"""What processes of jobs ask of the minion while they run: files of the master, and a new look at modules and grains.

A process has no network. It asks the job server over its socket; what is about files goes on to the master, under a
number of this minion's own, and the answer comes back the same way. Questions that a session took with it are asked
again in the next one, so whoever asked only waits longer.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from saltlite.adapters.packing import Inside, pack, unpack
from saltlite.adapters.reactor import Reactor
from saltlite.errors import ProtocolError
from saltlite.minion import inside
from saltlite.minion.jobprocess import JobProcess
from saltlite.wire.limits import FILE_ASKS_MAX
from saltlite.wire.messages import Message, Sender, check

log = logging.getLogger(__name__)

NUMBERS = 2**31
"""Numbers of questions go round here."""

Refresh = Callable[[str, Callable[[], None]], None]
"""Look at "modules" or "grains" anew, and call back when that is done."""


@dataclass(slots=True)
class _Ask:
    """One question: its process, None when that has ended, the number that it has there, and what the master gets."""

    process: JobProcess | None
    own: int
    message: dict[str, Any]


class Asks:
    """`tell` hands a message to the network process."""

    def __init__(self, reactor: Reactor, tell: Callable[[Inside], None], refresh: Refresh) -> None:
        self._reactor = reactor
        self._tell = tell
        self._refresh = refresh
        self._open: dict[int, _Ask] = {}
        self._waiting: deque[_Ask] = deque()
        self._unsent: dict[JobProcess, bytearray] = {}
        self._numbers = 0

    def heard(self, process: JobProcess, raw: bytes) -> None:
        """A process asks. What it must not ask is not answered: it is its own fault, and waits in vain."""
        try:
            asked = unpack(raw)
            own = int(asked["n"])
            if asked["t"] == "refresh":
                self._refresh(str(asked["what"]), lambda: self._answer(process, {"t": "refreshed", "n": own}))
                return
            message = dict(check(asked, Sender.MINION, accepted=True))
        except (ProtocolError, ValueError, KeyError, TypeError) as error:
            log.error("a job's process asked what makes no sense (%s); its function writes to strange files", error)  # noqa: TRY400 - a sentence
            return
        if message["t"] in ("file_ask", "file_put"):
            self._waiting.append(_Ask(process, own, message))
            self._ask()

    def said(self, message: Message) -> None:
        """The master answered."""
        ask = self._open.pop(message["n"], None)
        if ask is not None and ask.process is not None:
            self._answer(ask.process, {**message, "n": ask.own})
        self._ask()

    def connected(self) -> None:
        """A new session: the master knows nothing of what it was asked before."""
        again = [ask for ask in self._open.values() if ask.process is not None]
        self._open.clear()
        self._waiting.extendleft(reversed(again))
        self._ask()

    def ended(self, process: JobProcess) -> None:
        """That process asks nothing more. What the master was asked for it keeps its place until it is answered."""
        self._waiting = deque(ask for ask in self._waiting if ask.process is not process)
        for ask in self._open.values():
            if ask.process is process:
                ask.process = None
        if self._unsent.pop(process, None) is not None:
            self._reactor.remove_writer(process.socket.fileno())

    def _ask(self) -> None:
        while self._waiting and len(self._open) < FILE_ASKS_MAX:
            ask = self._waiting.popleft()
            self._numbers = (self._numbers + 1) % NUMBERS
            self._open[self._numbers] = ask
            self._tell(inside.ask({**ask.message, "n": self._numbers}))

    def _answer(self, process: JobProcess, message: Inside) -> None:
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
