"""Transfers with minions that take memory: requests for files and documents, and returns too large for one frame.

Requests: a session has at most FILE_ASKS_MAX open, from the request until its response is sent. MWorkers get at most
FILE_ASKS_AT_ONCE of all sessions; the others wait here, in round robin of sessions. Responses are sent after all other
messages, round robin and a few at a time, so that a thousand minions that fetch a file do not delay a job of another.
The bytes that minions upload are limited. A session that ends drops its requests, and its minion repeats them.

Returns: all returns that are being assembled take at most RETURN_MEMORY bytes, those of one minion at most
RETURN_CREDIT (or one return, if that is larger). A return that is announced while memory is short waits in the spool of
its minion. Sessions are granted memory in round robin. A grant that is not used expires. A part that was not granted or
is out of order ends its session.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from saltlite.errors import RemoteProtocolError
from saltlite.limits import RateLimiter
from saltlite.master.protocol.effects import MinionRequest
from saltlite.wire.limits import (
    CHUNK,
    EVENT_EVERY_S,
    EVENTS_AT_ONCE,
    FILE_ASKS_AT_ONCE,
    FILE_ASKS_MAX,
    FILE_PUT_MEMORY,
    KIB,
    RETURN_CREDIT,
    RETURN_MEMORY,
    SPOOL_BYTES,
)
from saltlite.wire.messages import Message, response_message

MINIONS_MAX = 20_000
"""Minions whose event rate is remembered, across sessions."""
RESPONSES_PER_TURN = 8
"""Responses sent per turn of the link process: half a MiB to encrypt, about a millisecond."""


@dataclass(slots=True)
class _SessionRequests:
    """The requests of one session: those that wait, the numbers of those that MWorkers have, responses to send."""

    id: str
    waiting: deque[Message] = field(default_factory=deque)
    asked: set[int] = field(default_factory=set)
    responses: deque[Message] = field(default_factory=deque)
    blocked: bool = False

    def open(self) -> int:
        return len(self.waiting) + len(self.asked) + len(self.responses)

    def numbers(self) -> set[int]:
        return {*self.asked, *(message["n"] for message in (*self.waiting, *self.responses))}


class RequestQueue:
    """The requests of all sessions, by session id."""

    def __init__(self) -> None:
        self._sessions: dict[int, _SessionRequests] = {}
        self._with_waiting: OrderedDict[int, None] = OrderedDict()
        self._responding: OrderedDict[int, None] = OrderedDict()
        self._asked = 0
        self._put_bytes = 0
        self._event_rate = RateLimiter(1 / EVENT_EVERY_S, EVENTS_AT_ONCE, keys_max=MINIONS_MAX)

    def put(self, session: int, minion: str, message: Message, *, busy: bool = False) -> None:
        """Add a request of that session. `busy`: respond that it is to be repeated later.

        Raises RemoteProtocolError("too-many-asks") when too many are open, or its number is.
        """
        requests = self._sessions.setdefault(session, _SessionRequests(minion))
        if requests.open() >= FILE_ASKS_MAX or message["n"] in requests.numbers():
            raise RemoteProtocolError("too-many-asks", f"{requests.open()} requests are open")
        size = len(message.get("data", b""))
        if busy or self._put_bytes + size > FILE_PUT_MEMORY:
            self._respond(session, requests, response_message(message["n"], "busy"))
            return
        self._put_bytes += size
        requests.waiting.append(message)
        self._with_waiting.setdefault(session)

    def event(self, session: int, minion: str, message: Message, now: float) -> None:
        """Add an event; above the rate of its minion the response is `busy`. Raises as `put` does."""
        self.put(session, minion, message, busy=self._event_rate.take(minion, now) > 0)

    def due(self) -> Iterator[MinionRequest]:
        """Requests to pass to an MWorker now."""
        while self._with_waiting and self._asked < FILE_ASKS_AT_ONCE:
            session, _ = self._with_waiting.popitem(last=False)
            requests = self._sessions[session]
            message = requests.waiting.popleft()
            self._put_bytes -= len(message.get("data", b""))
            requests.asked.add(message["n"])
            self._asked += 1
            if requests.waiting:
                self._with_waiting[session] = None
            yield MinionRequest(session, requests.id, message)

    def answered(self, session: int, message: Message) -> None:
        """An MWorker responded. The response to a session that ended is dropped."""
        requests = self._sessions.get(session)
        if requests is not None and message["n"] in requests.asked:
            requests.asked.discard(message["n"])
            self._asked -= 1
            self._respond(session, requests, message)

    def to_send(self) -> Iterator[tuple[int, Message]]:
        """Responses to send in this turn, round robin."""
        for _ in range(RESPONSES_PER_TURN):
            if not self._responding:
                return
            session, _none = self._responding.popitem(last=False)
            requests = self._sessions[session]
            message = requests.responses.popleft()
            if requests.responses:
                self._responding[session] = None
            yield session, message

    @property
    def has_responses(self) -> bool:
        """Whether responses could be sent in the next turn."""
        return bool(self._responding)

    def unsent(self, session: int, message: Message) -> None:
        """The link had no room for that response: it and those behind it wait for `retry`."""
        requests = self._sessions.get(session)
        if requests is not None:
            requests.responses.appendleft(message)
            requests.blocked = True
            self._responding.pop(session, None)

    def retry(self) -> None:
        """Links that were full may have room again."""
        for session, requests in self._sessions.items():
            if requests.blocked:
                requests.blocked = False
                self._responding.setdefault(session)

    def forget(self, session: int) -> None:
        """The session ended."""
        requests = self._sessions.pop(session, None)
        if requests is None:
            return
        self._asked -= len(requests.asked)
        self._put_bytes -= sum(len(message.get("data", b"")) for message in requests.waiting)
        self._with_waiting.pop(session, None)
        self._responding.pop(session, None)

    def _respond(self, session: int, requests: _SessionRequests, message: Message) -> None:
        requests.responses.append(message)
        if not requests.blocked:
            self._responding.setdefault(session)


Key = tuple[int, str]
"""(session id, jid)."""

ANNOUNCED_MAX = 2 * SPOOL_BYTES // CHUNK
"""Announced returns that one session may have: twice what fits into a spool. One more ends the session."""
GRANT_S = 30.0
"""How long a grant is good until the first part arrives."""
PART_BYTES_PER_S = 32 * KIB
"""The least average rate of parts: 16 MiB in nine minutes."""
COMMIT_S = 60.0
"""How long a complete return keeps its memory until it is committed. Then the store has failed, and its minion sends it
again."""


@dataclass(slots=True)
class Partial:
    """A return whose body is arriving. `deadline` is monotonic seconds, `cost` the bytes of memory granted."""

    message: Message
    cost: int
    deadline: float
    body: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class _SessionReturns:
    """The returns of one session: those that wait in order, those with a grant, and the bytes granted."""

    waiting: OrderedDict[str, Message] = field(default_factory=OrderedDict)
    granted: dict[str, Partial] = field(default_factory=dict)
    reserved: int = 0


class ReturnAssembly:
    """Grants memory for large returns, and joins their parts. `now` is monotonic seconds."""

    def __init__(self) -> None:
        self._sessions: dict[int, _SessionReturns] = {}
        self._queue: OrderedDict[int, None] = OrderedDict()
        self._reserved = 0

    def announce(self, session: int, message: Message, now: float) -> list[Key]:
        """A `return` without a body but with a size asks for memory. Returns the keys to grant now."""
        jid = message["jid"]
        returns = self._sessions.setdefault(session, _SessionReturns())
        known = returns.granted.get(jid)
        if known is not None and known.message["size"] == message["size"]:
            if len(known.body) == message["size"]:
                # It is complete and waits for its commit, which is acknowledged.
                return []
            # The minion starts again, after a full link lost a frame.
            returns.granted[jid] = Partial(message, known.cost, now + GRANT_S)
            return [(session, jid)]
        if known is not None:
            self._revoke(returns, jid)
        if jid not in returns.waiting and len(returns.waiting) >= ANNOUNCED_MAX:
            raise RemoteProtocolError("too-many-returns", f"{ANNOUNCED_MAX} wait already")
        returns.waiting[jid] = message
        self._enqueue(session, returns)
        return self._grant(now)

    def part(self, session: int, message: Message, now: float) -> tuple[Message, bytes] | None:
        """Add a part. Returns the announcement and the body once the return is complete."""
        returns = self._sessions.get(session)
        partial = returns.granted.get(message["jid"]) if returns is not None else None
        if partial is None or message["offset"] != len(partial.body):
            raise RemoteProtocolError("bad-part", "not granted, or out of order")
        size, data = partial.message["size"], message["data"]
        if len(partial.body) + len(data) > size:
            raise RemoteProtocolError("bad-part", "more than was announced")
        partial.body += data
        if len(partial.body) < size:
            partial.deadline += len(data) / PART_BYTES_PER_S
            return None
        partial.deadline = now + COMMIT_S
        return partial.message, bytes(partial.body)

    def release(self, session: int, jid: str, now: float) -> list[Key]:
        """The return was committed. Returns the keys to grant now."""
        returns = self._sessions.get(session)
        if returns is None:
            return []
        returns.waiting.pop(jid, None)
        self._revoke(returns, jid)
        self._enqueue(session, returns)
        return self._grant(now)

    def forget(self, session: int, now: float) -> list[Key]:
        """The session ended. Returns the keys to grant now."""
        returns = self._sessions.pop(session, None)
        if returns is None:
            return []
        self._queue.pop(session, None)
        self._reserved -= returns.reserved
        return self._grant(now)

    def expire(self, now: float) -> list[Key]:
        """Revoke grants that were not used in time. Returns the keys to grant now.

        A return without any part waits for another grant, because its minion may have missed the first one.
        """
        for session, returns in list(self._sessions.items()):
            late = {jid: partial for jid, partial in returns.granted.items() if now >= partial.deadline}
            for jid, partial in late.items():
                self._revoke(returns, jid)
                if not partial.body:
                    returns.waiting[jid] = partial.message
            if late:
                self._enqueue(session, returns)
        return self._grant(now)

    def _revoke(self, returns: _SessionReturns, jid: str) -> None:
        partial = returns.granted.pop(jid, None)
        if partial is not None:
            returns.reserved -= partial.cost
            self._reserved -= partial.cost

    def _enqueue(self, session: int, returns: _SessionReturns) -> None:
        """Put the session at the end of the queue if it has a return that waits, and credit for it."""
        if returns.waiting:
            cost = _cost(next(iter(returns.waiting.values())))
            if not returns.granted or returns.reserved + cost <= RETURN_CREDIT:
                self._queue.setdefault(session)
                return
        self._queue.pop(session, None)
        if not returns.waiting and not returns.granted:
            del self._sessions[session]

    def _grant(self, now: float) -> list[Key]:
        granted: list[Key] = []
        while self._queue:
            session = next(iter(self._queue))
            returns = self._sessions[session]
            jid, message = next(iter(returns.waiting.items()))
            cost = _cost(message)
            if self._reserved + cost > RETURN_MEMORY:
                break
            del returns.waiting[jid]
            returns.granted[jid] = Partial(message, cost, now + GRANT_S)
            returns.reserved += cost
            self._reserved += cost
            del self._queue[session]
            self._enqueue(session, returns)
            granted.append((session, jid))
        return granted


def _cost(message: Message) -> int:
    """Bytes of memory of a return: at least a chunk, so that the number of grants is limited as well."""
    return max(CHUNK, int(message["size"]))
