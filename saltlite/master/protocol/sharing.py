"""The duties of a master that shares its store with others: it acts only while it has a lease, names the issuers of
jobs, and sends minions the directory of masters and the name of their home."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Container, Iterable, Iterator

from saltlite.master.protocol.effects import CloseConnection, Effect, Presence, Send
from saltlite.master.protocol.sessions import Delivery, MinionSession
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import JID_DIGITS, MinionId
from saltlite.wire import codec
from saltlite.wire.certificates import MasterCertificate
from saltlite.wire.directory import NOWHERE, Directory, from_rows
from saltlite.wire.frames import DataFrame
from saltlite.wire.job_body import is_signed
from saltlite.wire.limits import RETURN_MEMORY
from saltlite.wire.messages import SPREAD_MAX_MS, Message

# -- Who signed a job, where several masters share a store. Each minion verifies that; the certificate of another master
# travels with the job, because a message on its own may be lost.

ISSUERS_KEPT = 10_000
"""The most jobs whose issuer is cached."""


class Issuers:
    """The certificates of the other masters, and which of them signed which job. `own` is the certificate of this
    one."""

    def __init__(self, own: bytes) -> None:
        self._own = own
        self._others: dict[bytes, bytes] | None = None
        """By job key; None until the certificates are known."""
        self._known: OrderedDict[str, bytes] = OrderedDict()

    def others_are(self, certificates: Iterable[bytes]) -> None:
        """These are the certificates of the other masters."""
        others = {MasterCertificate.decode(raw).job_public: raw for raw in certificates}
        if others != self._others:
            self._others = others
            self._known.clear()

    def named(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """The deliveries. One that another master signed has the certificate of that master. Those of unknown masters
        are omitted, because minions would refuse them permanently, and such a master may come back."""
        if self._others is None:
            return list(deliveries)
        found = []
        for delivery in deliveries:
            certificate = self._of(delivery, self._others)
            if certificate is not None:
                delivery.certificate = certificate
                found.append(delivery)
        return found

    def _of(self, delivery: Delivery, others: dict[bytes, bytes]) -> bytes | None:
        """The certificate of the other master that signed it, b"" if this one did; None for an unknown one."""
        jid = delivery.jid[:JID_DIGITS]
        found = self._known.get(jid)
        if found is None:
            own = MasterCertificate.decode(self._own).job_public
            signed = (key for key in (own, *others) if is_signed(key, delivery.body, delivery.signature))
            signer = next(signed, None)
            if signer is None:
                return None
            found = self._known[jid] = others.get(signer, b"")
            if len(self._known) > ISSUERS_KEPT:
                self._known.popitem(last=False)
        return found


# -- The lease of a master that shares its store with others: how long it may act on frames of minions, and send any
#
# Without a lease, frames of minions wait unread and effects wait undone, for SUSPEND_S at most: then all sessions end.
# So a key that was revoked on another master has no effect here once that command has returned (S5): it waits until
# this master has applied the change, or until its lease must have ended (`saltlite.master.processes.membership`).


SUSPEND_S = 60.0
"""How long sessions last without a lease, for example while the database restarts. A minion whose heartbeat is not
answered keeps its session while it tries another master, and leaves when that one accepts it."""
FRAME_COST = 256
"""Memory of a waiting frame besides its content, in bytes."""
WAITING_OF_SESSION = RETURN_MEMORY // 4
"""The most bytes of waiting frames of one session, so that one minion does not use all memory. The largest return is
smaller."""


@dataclass(frozen=True, slots=True)
class WaitingFrame:
    """A frame that was not read yet, as `SessionManager.frame` takes it."""

    route: bytes
    connection: int
    address: str
    raw: bytes


class Lease:
    """Until when this master may act, by the clock that goes on while the machine is suspended; and what waits."""

    def __init__(self, clock: Clock, until: float) -> None:
        self._clock = clock
        self._until = until
        self._frames: list[WaitingFrame] = []
        self._bytes = 0
        self._bytes_by_session: Counter[int] = Counter()
        self._effects: list[Effect] = []

    @property
    def is_held(self) -> bool:
        """Whether this master may act now."""
        return self._clock.boottime() < self._until

    @property
    def is_lost(self) -> bool:
        """Whether the master has been without a lease for so long that its sessions end."""
        return self._clock.boottime() >= self._until + SUSPEND_S

    def renew(
        self, until: float, effects: list[Effect], sessions: Container[int]
    ) -> tuple[list[Effect], list[WaitingFrame]]:
        """Extend the lease. Returns the effects that waited, and these, without those of sessions that ended meanwhile;
        and the frames that waited, in order."""
        was_held, self._until = self.is_held, until
        if was_held or not self.is_held:
            return effects, []
        held, frames = self._take()
        return [one for one in (*held, *effects) if not isinstance(one, Send) or one.session in sessions], frames

    def end(self) -> None:
        """The sessions have ended: drop everything that waits."""
        self._until = float("-inf")
        self._take()

    def wait(self, frame: DataFrame, route: bytes, connection: int, address: str) -> bool:
        """Keep a frame of a session until there is a lease. Returns False if too much waits, of this session or in
        total."""
        size = len(frame.raw) + FRAME_COST
        of_session = self._bytes_by_session[frame.session] + size
        if self._bytes + size > RETURN_MEMORY or of_session > WAITING_OF_SESSION:
            return False
        self._bytes += size
        self._bytes_by_session[frame.session] = of_session
        self._frames.append(WaitingFrame(route, connection, address, frame.raw))
        return True

    def let_through(self, effects: list[Effect]) -> list[Effect]:
        """These effects; without a lease only those that end connections and sessions, while the others wait."""
        if self.is_held:
            return effects
        now: list[Effect] = []
        for effect in effects:
            (now if isinstance(effect, CloseConnection | Presence) else self._effects).append(effect)
        return now

    def _take(self) -> tuple[list[Effect], list[WaitingFrame]]:
        taken = self._effects, self._frames
        self._effects, self._frames, self._bytes = [], [], 0
        self._bytes_by_session.clear()
        return taken


# -- Which master a minion belongs to (`saltlite.wire.directory`)
#
# Every minion that knows the messages gets the directory after it is READY, and again when it changes. When the
# minions that belong to other masters are OVER of those that belong here, for OVER_S, this master sends them home, so
# that a master that comes back gets its share. A master that drains sends all of them to any other master.


TOLD_AT_ONCE = 1_000
"""Minions that are sent the directory in one tick. Each costs a frame."""
OVER = 0.1
OVER_S = 60.0
MOVES_AT_ONCE = 50
"""Minions that are sent home in one tick. Each costs another master a handshake and a claim in the store."""
DRAIN_PER_S = 200
"""Minions per second that leave a master that drains."""
NEVER = float("inf")


def move(to: str, spread_ms: int) -> Message:
    """Go to the master of that name, or to any other, within that time; the session stays until then."""
    return {"t": "move", "to": to, "spread_ms": spread_ms}


class Placement:
    """The directory, the sessions that do not have it yet, and those of minions that belong to another master."""

    def __init__(self, name: str) -> None:
        self.is_draining = False
        self._leaving: set[int] = set()
        """The sessions that were asked to leave since this master drains."""
        self._name = name
        self._message: Message | None = None
        self._directory: Directory = NOWHERE
        self._untold: deque[MinionSession] = deque()
        self._foreign: dict[int, MinionSession] = {}
        """By the number of the session; those that were asked to leave are not here."""
        self._over_since = NEVER

    def directory_is(self, content: bytes, signature: bytes, sessions: Iterable[MinionSession]) -> None:
        """Send a directory that has changed to these sessions."""
        if self._message is not None and self._message["content"] == content:
            return
        self._message = {"t": "directory", "content": content, "sig": signature}
        self._directory = from_rows(codec.decode(content))
        self._foreign.clear()
        self._untold = deque(peer for peer in sessions if peer.hello["moves"])

    def came(self, peer: MinionSession) -> None:
        """A session of an accepted key began."""
        if self._message is not None and peer.hello["moves"]:
            self._untold.append(peer)

    def drain(self, sessions: Iterable[MinionSession], *, wanted: bool) -> Iterator[tuple[MinionSession, Message]]:
        """Whether this master drains; the messages that send its minions away."""
        if wanted and not self.is_draining:
            leaving = list(sessions)
            self._leaving = {peer.session.id for peer in leaving}
            spread_ms = min(SPREAD_MAX_MS, len(leaving) * 1000 // DRAIN_PER_S)
            for peer in leaving:
                yield peer, move("", spread_ms) if peer.hello["moves"] else {"t": "reconnect", "spread_ms": spread_ms}
        self.is_draining = wanted

    def due(self, sessions: Container[int], count: int, now: float) -> Iterator[tuple[MinionSession, Message]]:
        """The messages of this tick; `count` is the number of minions that are up here."""
        if self._message is None:
            return
        for _ in range(min(TOLD_AT_ONCE, len(self._untold))):
            peer = self._untold.popleft()
            if peer.session.id in sessions:
                yield peer, self._message
                if self.is_draining:
                    # Each minion is asked once: if it is asked again, it drops the connection that it has begun to
                    # make.
                    if peer.session.id not in self._leaving:
                        # It was accepted just before.
                        yield peer, move("", 0)
                elif self._directory.home(MinionId(peer.id)) not in ("", self._name):
                    self._foreign[peer.session.id] = peer
        for number in [number for number in self._foreign if number not in sessions]:
            del self._foreign[number]
        is_over = len(self._foreign) > OVER * (count - len(self._foreign))
        if not self._foreign or (not is_over and now - self._over_since < OVER_S):
            self._over_since = NEVER
        elif is_over and self._over_since == NEVER:
            self._over_since = now
        elif now - self._over_since >= OVER_S:
            # Once this has begun, all are sent home. Each minion is asked once, and stays if it cannot reach its home.
            for number in list(self._foreign)[:MOVES_AT_ONCE]:
                peer = self._foreign.pop(number)
                yield peer, move(self._directory.home(MinionId(peer.id)), 1000)


@dataclass(frozen=True, slots=True)
class Sharing:
    """What a session manager needs besides its own state."""

    lease: Lease
    issuers: Issuers
    placement: Placement


def sharing(clock: Clock, certificate: bytes) -> Sharing:
    """For the master with that encoded certificate, which has no lease yet."""
    name = MasterCertificate.decode(certificate).name
    return Sharing(Lease(clock, float("-inf")), Issuers(certificate), Placement(name))
