"""Sessions with minions: the state of one with its outbox, the table of all, duplicate keys, and large transfers.

The session manager owns one `Sessions` table. A key has at most one session, an id at most one accepted key; one
connection can carry any number of sessions.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from saltlite.errors import RemoteProtocolError
from saltlite.limits import RateLimiter
from saltlite.master.protocol.effects import MinionRequest, Presence, Pull, Send
from saltlite.model.dataclass import dataclass
from saltlite.model.job import is_resource_part, split_part
from saltlite.model.keys import Fingerprint, KeyState
from saltlite.model.minion import SessionOrder
from saltlite.wire import codec
from saltlite.wire.frames import SecureSession
from saltlite.wire.limits import (
    CHUNK,
    EVENT_EVERY_S,
    EVENTS_AT_ONCE,
    FILE_ASKS_AT_ONCE,
    FILE_ASKS_MAX,
    FILE_PUT_MEMORY,
    HEARTBEAT_MIN_S,
    HEARTBEATS_PER_S,
    KIB,
    PENDING_KEYS,
    RETURN_CREDIT,
    RETURN_MEMORY,
    SEND_WINDOW,
    SPOOL_BYTES,
)
from saltlite.wire.messages import Message, Sender, check, response_message

# -- The outbox of a session: deliveries are sent, and sent again until they are acknowledged. This is the whole resend
# policy. At most SEND_WINDOW bytes and DELIVERIES_MAX deliveries are in an outbox; what does not fit stays QUEUED in
# the store, and is pulled again when there is room (`starved`)


DELIVERIES_MAX = 64
"""As many as the link takes at once for one peer."""
RESEND_MIN_S = 2.0
RESEND_MAX_S = 60.0
DELIVERIES_PER_S = 1_000
"""Deliveries that a fleet is given a second to answer. While more are under way, each is sent again later: to send them
twice would make a slow answer slower.
"""


@dataclass(slots=True)
class Delivery:
    """One part of a job for one minion; `jid` is the id of the part. Times are monotonic seconds."""

    jid: str
    body: bytes
    signature: bytes
    proof: Sequence[bytes]
    deliver_until: float
    srns: Sequence[str] = ()
    certificate: bytes = b""
    """Of the master that signed it, if that is another one."""
    resend_at: float = 0.0
    tries: int = 0

    @property
    def size(self) -> int:
        """Bytes in the send window."""
        return len(self.body) + (sum(map(len, self.srns)) if self.srns else 0)

    def message(self, now: float) -> Message:
        """The `job` message. An expired job is sent with 0 ms, and the answer settles whether it ever arrived."""
        remaining_ms = max(0, int((self.deliver_until - now) * 1000))
        more = {"cert": self.certificate} if self.certificate else {}
        return {
            "t": "job",
            "jid": self.jid,
            "resources": self.srns,
            "body": self.body,
            "sig": self.signature,
            "proof": self.proof,
            "deliver_ms": remaining_ms,
            **more,
        }


class Outbox:
    """The deliveries of one session."""

    __slots__ = ("_bytes", "_deliveries", "rest", "starved")

    def __init__(self) -> None:
        self._deliveries: dict[str, Delivery] = {}
        self._bytes = 0
        self.starved = False
        self.rest = ""
        """The first job that a fresh pull did not return, "" for none."""

    def __len__(self) -> int:
        return len(self._deliveries)

    def put(self, delivery: Delivery) -> bool:
        """Add a delivery; False when it is there already, or does not fit (then `starved` is set).

        A delivery larger than the window is sent alone.
        """
        if delivery.jid in self._deliveries:
            return False
        full = len(self._deliveries) >= DELIVERIES_MAX or self._bytes + delivery.size > SEND_WINDOW
        if self._deliveries and full:
            self.starved = True
            return False
        self._deliveries[delivery.jid] = delivery
        self._bytes += delivery.size
        return True

    def refill(self, deliveries: Iterable[Delivery], *, starved: bool, rest: str | None) -> None:
        """Add what was pulled. `starved`: the store has more. `rest`: the first job that a fresh pull did not return,
        "" for none; None when the pull was not fresh."""
        for delivery in deliveries:
            if not self.put(delivery) and delivery.jid not in self._deliveries and rest is not None:
                rest = min(rest or delivery.jid, delivery.jid, key=split_part)
        self.starved = self.starved or starved
        if rest is not None:
            self.rest = rest

    def settle(self, jid: str) -> bool:
        """The minion acknowledged the job. True when that made room for jobs in the store."""
        delivery = self._deliveries.pop(jid, None)
        if delivery is None:
            return False
        self._bytes -= delivery.size
        room = len(self._deliveries) <= DELIVERIES_MAX // 2 and self._bytes <= SEND_WINDOW // 2
        if self.starved and room:
            self.starved = False
            return True
        return False

    def due(self, now: float, under_way: int) -> Iterator[Delivery]:
        """Deliveries to send now; each is due again after 2, 4, 8 … 60 s unless it is acknowledged, and later while so
        many sessions have deliveries under way that they take longer."""
        first_s = max(RESEND_MIN_S, under_way / DELIVERIES_PER_S)
        for delivery in self._deliveries.values():
            if now >= delivery.resend_at:
                delivery.resend_at = now + min(RESEND_MAX_S, first_s * 2 ** min(delivery.tries, 10))
                delivery.tries += 1
                yield delivery
            elif delivery.tries == 0:
                # The link had no room for it. Those behind it wait too, because jobs are sent in order.
                return

    def blocked(self, jid: str, until: float) -> None:
        """The link had no room for that delivery: send it at `until`."""
        delivery = self._deliveries.get(jid)
        if delivery is not None:
            delivery.resend_at = until
            delivery.tries = max(0, delivery.tries - 1)


SILENCE_HEARTBEATS = 2.5
"""Heartbeats without a frame after which a minion is away, at the shortest interval. At a longer one, the time beyond
the first heartbeat stays the same: the delays that it allows for do not grow with the number of minions."""
HELD_MAX = 256
"""Messages held for a minion whose link is full; one more ends its session."""


@dataclass(slots=True)
class MinionSession:
    """One authenticated session of a minion. `state` is None until its verdict. Times are monotonic seconds."""

    session: SecureSession
    route: bytes
    connection: int
    address: str
    fingerprint: Fingerprint
    hello: Message
    since: float
    last_seen: float
    state: KeyState | None = None
    id: str = ""
    heartbeat_s: float = HEARTBEAT_MIN_S
    """The interval that the minion was given."""
    silence_s: float = SILENCE_HEARTBEATS * HEARTBEAT_MIN_S
    """After how long without a frame it is away."""
    outbox: Outbox = field(default_factory=Outbox)
    pull_at: float = 0.0
    """When the next fresh pull is due."""
    known: bool = False
    """Whether an MWorker has answered the first pull, so that the store knows of this session."""
    has_missed: bool = False
    """Whether a new job came before that answer, which may have been read before the job was stored."""
    held: list[Message] = field(default_factory=list)
    """Messages that the link had no room for, in order."""

    def read(self, frame: bytes, function_reports: RateLimiter, now: float) -> Message:
        """The message in a DATA frame of this session. Raises RemoteProtocolError, which ends the session."""
        plaintext = self.session.open(frame)
        if self.session.missed:
            # A minion skips no frame. In a new session it repeats everything that is not settled.
            raise RemoteProtocolError("gap", f"{self.session.missed} frames of the minion did not arrive")
        message = codec.decode(plaintext)
        is_report = isinstance(message, dict) and message.get("t") == "functions"
        # Limited before it is checked, which takes up to 40 ms.
        if is_report and function_reports.take(self.fingerprint, now):
            raise RemoteProtocolError("too-often", "reports of functions")
        return check(message, Sender.MINION, accepted=self.state is KeyState.ACCEPTED)

    @property
    def order(self) -> SessionOrder:
        """Its place among the sessions of the minion."""
        return SessionOrder.of(self.hello)

    def next_pull(self) -> Pull:
        """The pull to make when there is room again: the rest of a fresh pull comes first."""
        rest, self.outbox.rest = self.outbox.rest, ""
        return Pull(self.id, fresh=bool(rest), since=rest)

    def sealed(self, message: Message, jid: str = "") -> Send:
        """A message, or the delivery `jid`, as a frame of this session."""
        frame = self.session.seal(codec.encode(message))
        return Send(self.route, frame, self.session.id, jid, None if jid else message)

    def hold(self, message: Message) -> bool:
        """Hold a message that the link has no room for; False above HELD_MAX. Heartbeats are dropped."""
        if message["t"] != "heartbeat_ack":
            self.held.append(message)
        return len(self.held) <= HELD_MAX

    def due(self, now: float, under_way: int) -> list[Send]:
        """Held messages in order, then the deliveries that are due; `under_way` as for the outbox."""
        held, self.held = self.held, []
        # Sealed in the order of sending: each frame has the next number of its session.
        frames = [self.sealed(message) for message in held]
        due = self.outbox.due(now, under_way)
        return frames + [self.sealed(delivery.message(now), delivery.jid) for delivery in due]

    def presence(self, end: str = "") -> Presence:
        """The effect that this minion came up, or went away: then `end` says why."""
        hello = self.hello
        return Presence(
            id=self.id,
            fingerprint=self.fingerprint,
            up=not end,
            address=self.address,
            version=hello["version"],
            boot=hello["boot"],
            incarnation=hello["incarnation"],
            functions=hello["functions"],
            run=hello["order"][0],
            handshake=hello["order"][1],
            end=end,
        )


def comes_whole(message: Message) -> bool:
    """Whether a `return` contains its body; False if it only announces it. Raises RemoteProtocolError for neither."""
    if message["size"] and is_resource_part(message["jid"]):
        # Its body would be stored once per resource that has not answered.
        raise RemoteProtocolError("bad-message", "how a part for resources ended has no body: segments have")
    if message["body"] and message["size"] != len(message["body"]):
        raise RemoteProtocolError("bad-message", "a return comes whole, or is announced by its size alone")
    return bool(message["size"] == len(message["body"]))


PENDING_SESSIONS = PENDING_KEYS
"""Sessions of pending keys. A further one has to try again later."""


class Sessions:
    """All sessions, by number, by key, by id of the minion, and by connection."""

    def __init__(self) -> None:
        self.by_number: dict[int, MinionSession] = {}
        self.by_key: dict[Fingerprint, MinionSession] = {}
        """Of pending and accepted keys."""
        self.by_id: dict[str, MinionSession] = {}
        """Of accepted keys: the minions that are up."""
        self.deciding: dict[Fingerprint, MinionSession] = {}
        """Of keys that are being decided about."""
        self.accepted_keys = 0
        """How many there are in the store: after a start of the master so many minions may connect at once."""
        self._by_connection: dict[int, set[int]] = {}

    def __len__(self) -> int:
        return len(self.by_number)

    def __contains__(self, peer: MinionSession) -> bool:
        return peer.session.id in self.by_number

    def add(self, peer: MinionSession) -> None:
        """Add a session that has just proved its key."""
        self.by_number[peer.session.id] = peer
        self._by_connection.setdefault(peer.connection, set()).add(peer.session.id)

    def remove(self, peer: MinionSession) -> None:
        """Remove a session that ended. A newer session of the same key or id stays."""
        del self.by_number[peer.session.id]
        on_connection = self._by_connection[peer.connection]
        on_connection.discard(peer.session.id)
        if not on_connection:
            del self._by_connection[peer.connection]
        for table in (self.deciding, self.by_key):
            if table.get(peer.fingerprint) is peer:
                del table[peer.fingerprint]
        if self.by_id.get(peer.id) is peer:
            del self.by_id[peer.id]

    def on(self, connection: int) -> list[MinionSession]:
        """The sessions on one connection."""
        return [self.by_number[number] for number in self._by_connection.get(connection, ())]

    def is_up(self, peer: MinionSession) -> bool:
        """Whether this is its minion's current session."""
        return self.by_id.get(peer.id) is peer

    def has_room_for_pending(self, peer: MinionSession) -> bool:
        """Whether this session may wait for its key to be accepted."""
        return peer.fingerprint in self.by_key or len(self.by_key) - len(self.by_id) < PENDING_SESSIONS

    def figures(self) -> dict[str, int]:
        """The number of sessions, of minions that are up, and of pending keys."""
        ready = len(self.by_id)
        return {"sessions": len(self), "ready": ready, "pending": len(self.by_key) - ready}

    def present(self) -> list[Presence]:
        """Every minion that is up, for an MWorker that just connected."""
        return [peer.presence() for peer in self.by_id.values()]

    def presence(self, minion: str) -> Presence | None:
        """The presence of that minion; None when it is not up."""
        return self.by_id[minion].presence() if minion in self.by_id else None

    def silent_s(self, minions: Iterable[str], now: float) -> dict[str, float]:
        """Seconds since the last frame of each of these minions that is up."""
        return {minion: now - self.by_id[minion].last_seen for minion in minions if minion in self.by_id}

    @property
    def heartbeat_s(self) -> float:
        """The heartbeat interval of a new session: it grows with the number of minions, connected or about to be."""
        return max(HEARTBEAT_MIN_S, max(len(self), self.accepted_keys) / HEARTBEATS_PER_S)

    @property
    def silence_s(self) -> float:
        """How long a minion with that interval may be silent."""
        return self.heartbeat_s + (SILENCE_HEARTBEATS - 1) * HEARTBEAT_MIN_S


# Two machines with one key: usually a copied image, sometimes a stolen key.
#
# A restarted daemon has a new boot id, and its old session is over or will be soon. So when a session with another boot
# id begins while one is up, the older one is probed and the newcomer waits. If the older one answers, there are two
# machines, and the newcomer is refused: a job must not run on both (G4). The same holds for a session with the same
# boot id that is not later in the minion's order of its sessions: a copy of the machine's memory goes on with both.

PROBE_S = 1.0
"""How long the older session has to answer the probe."""
PROOFS = 3
"""How often both must be alive within WINDOW_S to be reported: one of them may be a daemon that dies slowly."""
WINDOW_S = 600.0
KEYS_MAX = 10_000
"""Keys that are remembered; the least recently seen one is forgotten first."""


@dataclass(frozen=True, slots=True)
class NewcomerElsewhere:
    """A session of this key that waits at another master, which asked by the question of that number."""

    question: int
    boot: str
    order: list[int]
    """Its run and handshake, as in `hello`."""
    address: str


@dataclass(frozen=True, slots=True)
class Contest:
    """A newcomer that waits until the older session of its key has answered a probe."""

    newcomer: MinionSession | NewcomerElsewhere
    minion: str
    until: float


@dataclass(slots=True)
class _Seen:
    """When both machines of a key were alive, and when that was last reported."""

    at: list[float] = field(default_factory=list)
    reported_at: float = float("-inf")


class DuplicateKeys:
    """Contests between sessions of one key, by the number of the older one. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._contests: dict[int, list[Contest]] = {}
        self._seen: OrderedDict[Fingerprint, _Seen] = OrderedDict()

    def begin(self, older: MinionSession, newcomer: MinionSession | NewcomerElsewhere, minion: str, now: float) -> None:
        """`older` was sent a probe."""
        self._contests.setdefault(older.session.id, []).append(Contest(newcomer, minion, now + PROBE_S))

    def settle(self, older: MinionSession) -> list[Contest]:
        """`older` has answered or ended; the contests that this settles."""
        return self._contests.pop(older.session.id, [])

    def overdue(self, now: float) -> dict[int, list[Contest]]:
        """Remove and return the contests whose older session has not answered in time, by its number."""
        late = [number for number, every in self._contests.items() if now >= every[0].until]
        return {number: self._contests.pop(number) for number in late}

    def proved(self, stays: MinionSession, newcomer: MinionSession | NewcomerElsewhere, now: float) -> bool:
        """Note that both machines are alive; whether that shows that two machines have this key: it happened often
        enough, or both are at the same place of the order that one minion gives its sessions, as after a copy of its
        disk."""
        own = stays.hello["order"]
        other = newcomer.order if isinstance(newcomer, NewcomerElsewhere) else newcomer.hello["order"]
        is_copy = own[0] > 0 and own == other and stays.address != newcomer.address
        return self._often(stays.fingerprint, now) or is_copy

    def _often(self, key: Fingerprint, now: float) -> bool:
        seen = self._seen.setdefault(key, _Seen())
        self._seen.move_to_end(key)
        if len(self._seen) > KEYS_MAX:
            self._seen.popitem(last=False)
        seen.at = [*(at for at in seen.at if now - at < WINDOW_S), now][-PROOFS:]
        return len(seen.at) >= PROOFS

    def is_suspect(self, key: Fingerprint, now: float) -> bool:
        """Whether two machines with this key were alive within WINDOW_S."""
        seen = self._seen.get(key)
        return seen is not None and bool(seen.at) and now - seen.at[-1] < WINDOW_S

    def is_news(self, key: Fingerprint, now: float) -> bool:
        """Whether this duplicate was not reported within WINDOW_S. Counts as reported from now on."""
        seen = self._seen.setdefault(key, _Seen())
        if now - seen.reported_at < WINDOW_S:
            return False
        seen.reported_at = now
        return True


# -- Transfers that take memory: requests for files and documents, and returns too large for one frame
#
# Requests: a session has at most FILE_ASKS_MAX open, from the request until its response is sent. MWorkers get at most
# FILE_ASKS_AT_ONCE of all sessions; the others wait here, in round robin of sessions. Responses are sent after all
# other messages, round robin and a few at a time, so that a thousand minions that fetch a file do not delay a job of
# another. The bytes that minions upload are limited. A session that ends drops its requests; its minion repeats them.
#
# Returns: all returns that are being assembled take at most RETURN_MEMORY bytes, those of one minion at most
# RETURN_CREDIT (or one return, if that is larger). A return that is announced while memory is short waits in the spool
# of its minion. Sessions are granted memory in round robin. A grant that is not used expires. A part that was not
# granted or is out of order ends its session.


MINIONS_MAX = 65_536
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
        """Add an event or an `ask`; above the rate of its minion the response is `busy`. Raises as `put` does."""
        # The later pieces of an answer cost nothing more.
        counts = not message.get("sha256")
        self.put(session, minion, message, busy=counts and self._event_rate.take(minion, now) > 0)

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
    def has_work(self) -> bool:
        """Whether there are responses to send, or requests that an MWorker has not got."""
        return bool(self._responding or self._with_waiting)

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
