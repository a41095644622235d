"""Sessions with minions: the state of one, the table of all, and the detection of duplicate keys.

The session manager owns one `Sessions` table. A key has at most one session, an id at most one accepted key; one
connection can carry any number of sessions.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from saltlite.errors import RemoteProtocolError
from saltlite.limits import RateLimiter
from saltlite.master.protocol.effects import Presence, Pull, Send
from saltlite.model.job import is_resource_part, split_part
from saltlite.model.keys import Fingerprint, KeyState
from saltlite.wire import codec
from saltlite.wire.frames import SecureSession
from saltlite.wire.limits import HEARTBEAT_MIN_S, HEARTBEATS_PER_S, PENDING_KEYS, SEND_WINDOW
from saltlite.wire.messages import Message, Sender, check

# -- The outbox of a session: deliveries are sent, and sent again until they are acknowledged. This is the whole resend
# policy. At most SEND_WINDOW bytes and DELIVERIES_MAX deliveries are in an outbox; what does not fit stays QUEUED in
# the store, and is pulled again when there is room (`starved`)


DELIVERIES_MAX = 64
"""As many as the link takes at once for one peer."""
RESEND_MIN_S = 2.0
RESEND_MAX_S = 60.0


@dataclass(slots=True)
class Delivery:
    """One part of a job for one minion; `jid` is the id of the part. Times are monotonic seconds."""

    jid: str
    body: bytes
    signature: bytes
    proof: Sequence[bytes]
    deliver_until: float
    srns: Sequence[str] = ()
    resend_at: float = 0.0
    tries: int = 0

    @property
    def size(self) -> int:
        """Bytes in the send window."""
        return len(self.body) + sum(map(len, self.srns))

    def message(self, now: float) -> Message:
        """The `job` message. An expired job is sent with 0 ms, and the answer settles whether it ever arrived."""
        remaining_ms = max(0, int((self.deliver_until - now) * 1000))
        return {
            "t": "job",
            "jid": self.jid,
            "resources": self.srns,
            "body": self.body,
            "sig": self.signature,
            "proof": self.proof,
            "deliver_ms": remaining_ms,
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

    def due(self, now: float) -> Iterator[Delivery]:
        """Deliveries to send now; each is due again after 2, 4, 8 … 60 s unless it is acknowledged."""
        for delivery in self._deliveries.values():
            if now >= delivery.resend_at:
                delivery.resend_at = now + min(RESEND_MAX_S, RESEND_MIN_S * 2 ** min(delivery.tries, 10))
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
    outbox: Outbox = field(default_factory=Outbox)
    pull_at: float = 0.0
    """When the next fresh pull is due."""
    known: bool = False
    """Whether an MWorker has answered the first pull, so that the store knows of this session."""
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

    def due(self, now: float) -> list[Send]:
        """Held messages in order, then the deliveries that are due."""
        held, self.held = self.held, []
        # Sealed in the order of sending: each frame has the next number of its session.
        frames = [self.sealed(message) for message in held]
        return frames + [self.sealed(delivery.message(now), delivery.jid) for delivery in self.outbox.due(now)]

    def presence(self, *, up: bool) -> Presence:
        """The effect that this minion came up or went away."""
        hello = self.hello
        return Presence(
            id=self.id,
            fingerprint=self.fingerprint,
            up=up,
            address=self.address,
            version=hello["version"],
            boot=hello["boot"],
            incarnation=hello["incarnation"],
            functions=hello["functions"],
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
"""Sessions of pending keys. A further one is told to try again."""


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
        return [peer.presence(up=True) for peer in self.by_id.values()]

    def presence(self, minion: str) -> Presence | None:
        """The presence of that minion; None when it is not up."""
        return self.by_id[minion].presence(up=True) if minion in self.by_id else None

    def silent_s(self, minions: Iterable[str], now: float) -> dict[str, float]:
        """Seconds since the last frame of each of these minions that is up."""
        return {minion: now - self.by_id[minion].last_seen for minion in minions if minion in self.by_id}

    @property
    def heartbeat_s(self) -> float:
        """The heartbeat interval: it grows with the number of sessions."""
        return max(HEARTBEAT_MIN_S, len(self) / HEARTBEATS_PER_S)


# Two machines with one key: usually a copied image, sometimes a stolen key.
#
# A restarted daemon has a new boot id, and its old session is over or will be soon. So when a session with another boot
# id begins while one is up, the older one is probed and the newcomer waits. If the older one answers, there are two
# machines, and the newcomer is refused: a job must not run on both (G4).

PROBE_S = 1.0
"""How long the older session has to answer the probe."""
PROOFS = 3
"""How often both must be alive within WINDOW_S to be reported: one of them may be a daemon that dies slowly."""
WINDOW_S = 600.0
KEYS_MAX = 10_000
"""Keys that are remembered; the least recently seen one is forgotten first."""


@dataclass(frozen=True, slots=True)
class Contest:
    """A newcomer that waits until the older session of its key has answered a probe."""

    newcomer: MinionSession
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
        self._contests: dict[int, Contest] = {}
        self._seen: OrderedDict[Fingerprint, _Seen] = OrderedDict()

    def begin(self, older: MinionSession, newcomer: MinionSession, minion: str, now: float) -> None:
        """`older` was sent a probe."""
        self._contests[older.session.id] = Contest(newcomer, minion, now + PROBE_S)

    def settle(self, older: MinionSession) -> Contest | None:
        """`older` has answered or ended; the contest that this settles, if any."""
        return self._contests.pop(older.session.id, None)

    def overdue(self, now: float) -> list[Contest]:
        """Remove and return the contests whose older session has not answered in time."""
        late = [number for number, contest in self._contests.items() if now >= contest.until]
        return [self._contests.pop(number) for number in late]

    def proved(self, key: Fingerprint, now: float) -> bool:
        """Note that both machines are alive; whether that happened often enough to be a duplicate key."""
        seen = self._seen.setdefault(key, _Seen())
        self._seen.move_to_end(key)
        if len(self._seen) > KEYS_MAX:
            self._seen.popitem(last=False)
        seen.at = [*(at for at in seen.at if now - at < WINDOW_S), now][-PROOFS:]
        return len(seen.at) >= PROOFS

    def is_news(self, key: Fingerprint, now: float) -> bool:
        """Whether this duplicate was not reported within WINDOW_S. Counts as reported from now on."""
        seen = self._seen.setdefault(key, _Seen())
        if now - seen.reported_at < WINDOW_S:
            return False
        seen.reported_at = now
        return True
