"""Returns that are too large for one frame: granted a place, then put together part by part.

Policy: all returns being put together take at most RETURN_MEMORY bytes, those of one minion at most
RETURN_CREDIT (or one return, if that is larger); who asks while the memory is spoken for waits with the
result safe in the spool. Minions take turns, so that one with a thousand results does not keep the others
waiting. A place that is not used is taken back. A part that was not granted or is out of order costs the
sender its session.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from saltlite.errors import RemoteProtocolError
from saltlite.wire.limits import CHUNK, KIB, RETURN_CREDIT, RETURN_MEMORY, SPOOL_BYTES
from saltlite.wire.messages import Message

Key = tuple[int, str]
"""(session id, jid)."""

ANNOUNCED_MAX = 2 * SPOOL_BYTES // CHUNK
"""Returns of one session that may wait: twice what fits into a spool. One more ends the session."""
GRANT_S = 30.0
"""How long a granted place waits for the first part."""
PART_BYTES_PER_S = 32 * KIB
"""How fast the parts must come at least, on average: 16 MiB in nine minutes."""
COMMIT_S = 60.0
"""How long a whole return keeps its place until it is committed; then the store has failed, and it comes
again."""


@dataclass(slots=True)
class Partial:
    """A return whose body is arriving. `deadline` is monotonic seconds, `cost` the bytes it is counted as."""

    message: Message
    cost: int
    deadline: float
    body: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class _SessionReturns:
    """One session: what waits for a place, in order, what has one, and the sum of the latter."""

    waiting: OrderedDict[str, Message] = field(default_factory=OrderedDict)
    granted: dict[str, Partial] = field(default_factory=dict)
    reserved: int = 0


class Assembly:
    """Grants memory for large returns and joins their parts. `now` is monotonic seconds."""

    def __init__(self) -> None:
        self._sessions: dict[int, _SessionReturns] = {}
        self._turns: OrderedDict[int, None] = OrderedDict()
        self._reserved = 0

    def announce(self, session: int, message: Message, now: float) -> list[Key]:
        """A `ret` without a body but with a size: it asks for a place. The keys to grant now."""
        jid = message["jid"]
        returns = self._sessions.setdefault(session, _SessionReturns())
        known = returns.granted.get(jid)
        if known is not None and known.message["size"] == message["size"]:
            if len(known.body) == message["size"]:
                # It is whole and waits for its commit, which is answered by the acknowledgement.
                return []
            # The minion starts over, after a frame was lost to a full link.
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
        """One part; the announcement and the whole body once it is complete."""
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
        """The return was committed; the keys that may be granted in its place."""
        returns = self._sessions.get(session)
        if returns is None:
            return []
        returns.waiting.pop(jid, None)
        self._revoke(returns, jid)
        self._enqueue(session, returns)
        return self._grant(now)

    def forget(self, session: int, now: float) -> list[Key]:
        """The session is over; the keys that may be granted in its place."""
        returns = self._sessions.pop(session, None)
        if returns is None:
            return []
        self._turns.pop(session, None)
        self._reserved -= returns.reserved
        return self._grant(now)

    def expire(self, now: float) -> list[Key]:
        """Take back the places that were not used in time; the keys that may be granted instead.

        Who has not begun may not have heard that it has a place: it waits for another one, behind the others.
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
        """Give the session a turn, at the end, if it has something to be granted and credit for it."""
        if returns.waiting:
            cost = _cost(next(iter(returns.waiting.values())))
            if not returns.granted or returns.reserved + cost <= RETURN_CREDIT:
                self._turns.setdefault(session)
                return
        self._turns.pop(session, None)
        if not returns.waiting and not returns.granted:
            del self._sessions[session]

    def _grant(self, now: float) -> list[Key]:
        granted: list[Key] = []
        while self._turns:
            session = next(iter(self._turns))
            returns = self._sessions[session]
            jid, message = next(iter(returns.waiting.items()))
            cost = _cost(message)
            if self._reserved + cost > RETURN_MEMORY:
                break
            del returns.waiting[jid]
            returns.granted[jid] = Partial(message, cost, now + GRANT_S)
            returns.reserved += cost
            self._reserved += cost
            del self._turns[session]
            self._enqueue(session, returns)
            granted.append((session, jid))
        return granted


def _cost(message: Message) -> int:
    """Never less than a chunk, so that the number of places is bounded as well."""
    return max(CHUNK, int(message["size"]))
