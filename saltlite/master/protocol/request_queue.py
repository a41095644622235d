"""Questions of minions about files: how many are under way, and in which order their answers leave.

Policy: a session has at most FILE_ASKS_MAX questions open, from the moment it asks until the answer is on its link. Of
all of them MWorkers are given at most FILE_ASKS_AT_ONCE; the others wait here, and sessions take turns. Answers wait
behind everything else that is said to the minion, and leave in turns as well, a few at a time, so that a thousand
minions that fetch a file do not keep a job of another one waiting. What minions send up is bounded in bytes.

Nothing here is remembered for long: a session that ends takes its questions with it, and its minion asks again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from saltlite.errors import RemoteProtocolError
from saltlite.limits import RateLimiter
from saltlite.master.protocol.effects import MinionRequest
from saltlite.wire.limits import EVENT_EVERY_S, EVENTS_AT_ONCE, FILE_ASKS_AT_ONCE, FILE_ASKS_MAX, FILE_PUT_MEMORY
from saltlite.wire.messages import Message, response_message

MINIONS_MAX = 20_000
"""Minions whose rate of events is remembered, whatever sessions they have."""
ANSWERS_A_TURN = 8
"""Answers that leave in one turn of the link process: half a MiB to seal, which takes about a millisecond."""


@dataclass(slots=True)
class _SessionRequests:
    """One session: what it asked and no MWorker has, the numbers that MWorkers have, answers that wait to leave."""

    id: str
    waiting: deque[Message] = field(default_factory=deque)
    asked: set[int] = field(default_factory=set)
    answers: deque[Message] = field(default_factory=deque)
    blocked: bool = False

    def open(self) -> int:
        return len(self.waiting) + len(self.asked) + len(self.answers)

    def numbers(self) -> set[int]:
        return {*self.asked, *(message["n"] for message in (*self.waiting, *self.answers))}


class RequestQueue:
    """The questions of all sessions, by session id."""

    def __init__(self) -> None:
        self._sessions: dict[int, _SessionRequests] = {}
        self._asking: OrderedDict[int, None] = OrderedDict()
        self._answering: OrderedDict[int, None] = OrderedDict()
        self._asked = 0
        self._put_bytes = 0
        self._event_rate = RateLimiter(1 / EVENT_EVERY_S, EVENTS_AT_ONCE, keys_max=MINIONS_MAX)

    def ask(self, session: int, minion: str, message: Message, *, busy: bool = False) -> None:
        """The minion of that session asks, or sends a piece; `busy`: it is told to come again.

        RemoteProtocolError("too-many-asks") when it has too many open, or asks under a number that is open.
        """
        requests = self._sessions.setdefault(session, _SessionRequests(minion))
        if requests.open() >= FILE_ASKS_MAX or message["n"] in requests.numbers():
            raise RemoteProtocolError("too-many-asks", f"{requests.open()} questions about files are open")
        size = len(message.get("data", b""))
        if busy or self._put_bytes + size > FILE_PUT_MEMORY:
            self._answer(session, requests, response_message(message["n"], "busy"))
            return
        self._put_bytes += size
        requests.waiting.append(message)
        self._asking.setdefault(session)

    def event(self, session: int, minion: str, message: Message, now: float) -> None:
        """The minion of that session sends an event; above its rate it is told to come again. Raises as `ask` does."""
        self.ask(session, minion, message, busy=self._event_rate.take(minion, now) > 0)

    def due(self) -> Iterator[MinionRequest]:
        """Questions that an MWorker is to be given now."""
        while self._asking and self._asked < FILE_ASKS_AT_ONCE:
            session, _ = self._asking.popitem(last=False)
            requests = self._sessions[session]
            message = requests.waiting.popleft()
            self._put_bytes -= len(message.get("data", b""))
            requests.asked.add(message["n"])
            self._asked += 1
            if requests.waiting:
                self._asking[session] = None
            yield MinionRequest(session, requests.id, message)

    def answered(self, session: int, message: Message) -> None:
        """An MWorker answered; an answer that nobody waits for any more is dropped."""
        requests = self._sessions.get(session)
        if requests is not None and message["n"] in requests.asked:
            requests.asked.discard(message["n"])
            self._asked -= 1
            self._answer(session, requests, message)

    def leaving(self) -> Iterator[tuple[int, Message]]:
        """The answers that leave in this turn, one a session at a time."""
        for _ in range(ANSWERS_A_TURN):
            if not self._answering:
                return
            session, _none = self._answering.popitem(last=False)
            requests = self._sessions[session]
            message = requests.answers.popleft()
            if requests.answers:
                self._answering[session] = None
            yield session, message

    @property
    def laden(self) -> bool:
        """Whether answers could leave in the next turn."""
        return bool(self._answering)

    def unsent(self, session: int, message: Message) -> None:
        """The link had no room for that answer: the session's answers wait for `retry`, this one in front."""
        requests = self._sessions.get(session)
        if requests is not None:
            requests.answers.appendleft(message)
            requests.blocked = True
            self._answering.pop(session, None)

    def retry(self) -> None:
        """Time has passed: links that were full may have room."""
        for session, requests in self._sessions.items():
            if requests.blocked:
                requests.blocked = False
                self._answering.setdefault(session)

    def forget(self, session: int) -> None:
        """The session is over."""
        requests = self._sessions.pop(session, None)
        if requests is None:
            return
        self._asked -= len(requests.asked)
        self._put_bytes -= sum(len(message.get("data", b"")) for message in requests.waiting)
        self._asking.pop(session, None)
        self._answering.pop(session, None)

    def _answer(self, session: int, requests: _SessionRequests, message: Message) -> None:
        requests.answers.append(message)
        if not requests.blocked:
            self._answering.setdefault(session)
