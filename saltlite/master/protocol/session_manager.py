"""The session manager: the master's side of every minion connection, as a state machine without IO.

    state       leaves on                                            to
    ---------   --------------------------------------------------   -----------------------------------
    stranger    AUTH that proves a key (`saltlite.master.protocol.handshakes`)     deciding
    deciding    verdict accepted | pending                           READY | PENDING
                verdict rejected | revoked | conflict | busy         gone, after WELCOME says so
                accepted, while another machine with its key lives   gone, after WELCOME busy | duplicate_key
                a change of its key, DECISION_S                      gone, after WELCOME busy
    PENDING     key accepted                                         READY, in the same session
    READY and   key rejected | revoked | deleted, a newer session    gone, after STATE says so
    PENDING     bye                                                  gone
                a bad frame, one heartbeat and 22.5 s of silence     gone, connection closed
                60 s without a lease, or the master is fenced        gone, connection closed

Invariants: a peer's identity is that of its session (R2); a bad frame ends its own session only (R9); a key has at most
one session, and an id one key; a stranger occupies one row of a bounded table (R12); silence has no other effect than
that the minion is away. Reports are passed to an MWorker, and acknowledged only after its commit. A master that shares
its store takes, reports and sends nothing without a lease (`saltlite.master.protocol.sharing`).

The caller takes effects by `take()`, and gives back a Send that the link could not carry by `unsent()`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from saltlite.errors import ProtocolError, RemoteProtocolError
from saltlite.limits import RateLimiter
from saltlite.master.protocol.effects import (
    CloseConnection,
    ContestOver,
    Decide,
    Effect,
    MinionReport,
    Pull,
    Send,
    Suspect,
)
from saltlite.master.protocol.handshakes import AuthenticatedPeer, Handshakes, UnauthenticatedConnections
from saltlite.master.protocol.sessions import (
    Contest,
    Delivery,
    DuplicateKeys,
    Key,
    MinionSession,
    NewcomerElsewhere,
    RequestQueue,
    ReturnAssembly,
    Sessions,
    comes_whole,
)
from saltlite.model.clock import Clock
from saltlite.model.job import part_of_segment
from saltlite.model.keys import Fingerprint, KeyState, fingerprint
from saltlite.model.minion import SessionEnd, SessionOrder, end_with
from saltlite.wire import frames
from saltlite.wire.limits import OPEN_HANDSHAKES
from saltlite.wire.messages import JIDS_MAX, Message, functions_digest

if TYPE_CHECKING:
    from saltlite.master.protocol.sharing import Lease, Sharing

TICK_S = 1.0
BLOCKED_RETRY_S = 0.05
DECISION_S = 30.0
"""How long an MWorker may take for the verdict about a key, before the minion has to try again."""
DECIDING_MAX = OPEN_HANDSHAKES
"""Sessions that wait for their verdict. A further one has to try again later."""
PULL_AGAIN_S = 600.0
"""The interval of fresh pulls, so that a job whose messages were lost does not stay open."""
ACKNOWLEDGE_S = 0.05
"""How long acknowledgements wait for other messages: a minion syncs a result that is not acknowledged after 0.1 s."""
ACKNOWLEDGED_WHEN_BUSY = 16
ACKNOWLEDGED_PER_TURN = 256
"""Minions whose returns are acknowledged in one turn of the loop."""
UNANSWERED_S = 5.0
"""When an unanswered fresh pull is repeated: the store failed, or the MWorker died."""
_END_BY_KEY: dict[str, SessionEnd] = {
    KeyState.REJECTED: SessionEnd.REJECTED,
    KeyState.REVOKED: SessionEnd.REVOKED,
}


def _arrived(arrival: AuthenticatedPeer, route: bytes, now: float) -> MinionSession:
    """The session of a peer that has proved its key."""
    return MinionSession(
        session=arrival.session,
        route=route,
        connection=arrival.connection,
        address=arrival.address,
        fingerprint=fingerprint(arrival.session.peer),
        hello=arrival.hello,
        since=now,
        last_seen=now,
    )


FUNCTIONS_EVERY_S = 2.0
"""The average time between function reports of one key. Minions look for changed modules every three seconds."""
FUNCTIONS_AT_ONCE = 8
"""Function reports that one key may send at once, in whatever sessions."""


class SessionManager:
    """The state machine. `handshakes` answers strangers, and uses the same clock. With `sharing`, which is for a master
    that shares its store with others, it acts only while it has a lease."""

    def __init__(self, handshakes: Handshakes, clock: Clock, sharing: Sharing | None = None) -> None:
        self._clock = clock
        self._handshakes = handshakes
        self._unauthenticated = UnauthenticatedConnections(handshakes.handshakes_per_network, handshakes.balancers)
        self.sessions = Sessions()
        self._sending: dict[int, MinionSession] = {}
        self._lost_connections: set[int] = set()
        self._assembly = ReturnAssembly()
        self.files = RequestQueue()
        self._acknowledged: dict[Fingerprint, list[str]] = {}
        """Stored returns that their minions do not know to be stored yet."""
        self._acknowledging_since = 0.0
        self._duplicate_keys = DuplicateKeys()
        self._function_reports = RateLimiter(1 / FUNCTIONS_EVERY_S, FUNCTIONS_AT_ONCE)
        self._check_due = clock.monotonic()
        self._heartbeats: dict[int, MinionSession] = {}
        """Sessions whose heartbeat is answered by the next tick. The answers wait for each other, because most of what
        an idle fleet costs its master is that threads wake up for each of them. No minion waits for its answer."""
        self._effects: list[Effect] = []
        self.refused_frames: dict[str, int] = {}
        self._handshakes_done = 0
        self.sharing = sharing

    # -- output

    def take(self) -> list[Effect]:
        """The effects since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects if self.sharing is None else self.sharing.lease.let_through(effects)

    @property
    def has_work(self) -> bool:
        """Whether there is anything to carry out before the next tick."""
        return bool(self._effects or self._acknowledged) or self.files.has_work

    def figures(self) -> dict[str, Any]:
        """Numbers of sessions, strangers, finished handshakes, unacknowledged deliveries and refused frames. `lease`:
        whether a master that shares its store may act now; only such a master has it."""
        return {
            **({} if self.sharing is None else {"lease": self.sharing.lease.is_held}),
            **self.sessions.figures(),
            "deliveries": sum(len(peer.outbox) for peer in self._sending.values()),
            "handshakes": self._handshakes_done,
            "handshakes_begun": self._handshakes.begun,
            "handshakes_postponed": self._handshakes.postponed,
            "unauthenticated": len(self._unauthenticated),
            "refused": dict(self.refused_frames),
        }

    # -- events of the link

    def frame(self, route: bytes, connection: int, address: str, raw: bytes) -> None:
        """A frame arrived; DATA has a negative connection. A bad one is counted, and ends session and connection."""
        if self.sharing is not None and not self.sharing.lease.is_held:
            self._unread(self.sharing.lease, route, connection, address, raw)
            return
        try:
            frame = frames.parse(raw)
            if isinstance(frame, frames.DataFrame):
                self._data(route, frame)
            else:
                self._greeting(route, connection, address, frame)
        except ProtocolError as error:
            reason = getattr(error, "reason", "local")
            self.refused_frames[reason] = self.refused_frames.get(reason, 0) + 1
            self._handshakes.failed(route)
            if connection >= 0:
                self._effects.append(CloseConnection(connection, address))

    def connected(self, connection: int, address: str) -> None:
        """The link accepted a connection. It is closed if strangers of its network have too many."""
        self._effects += self._unauthenticated.connected(connection, address, self._clock.monotonic())

    def hangup(self, connection: int) -> None:
        """The link lost a connection, perhaps before a send fails: probe its sessions, twice."""
        self._handshakes.hung_up(connection)
        self._unauthenticated.closed(connection)
        self._probe(connection)
        self._lost_connections.add(connection)

    def unsent(self, send: Send, *, gone: bool) -> None:
        """The link could not send this: the peer is gone, or its queue is full."""
        peer = self.sessions.by_number.get(send.session)
        if peer is None:
            return
        if gone:
            self._drop(peer, SessionEnd.LOST)
        elif send.jid:
            peer.outbox.blocked(send.jid, self._clock.monotonic() + BLOCKED_RETRY_S)
        elif send.message is not None and send.message["t"] == "response":
            self.files.unsent(send.session, send.message)
        elif send.message is not None:
            self._hold(peer, send.message)

    def tick(self) -> None:
        """Handle timeouts. Called every TICK_S, and BLOCKED_RETRY_S after the link was full."""
        if self.sharing is not None and not self.sharing.lease.is_held:
            if self.sharing.lease.is_lost:
                self.end_lease()
            return
        now = self._clock.monotonic()
        self._effects += [CloseConnection(*origin) for origin in self._handshakes.overdue()]
        self._effects += self._unauthenticated.overdue(now)
        self.files.retry()
        self._end_overdue_contests(now)
        heartbeats, self._heartbeats = self._heartbeats, {}
        for peer in heartbeats.values():
            if peer in self.sessions:
                self._send(peer, {"t": "heartbeat_ack"})
        if now >= self._check_due:
            self._check_due = now + TICK_S
            while self._lost_connections:
                self._probe(self._lost_connections.pop())
            # Of ten thousand sessions few are due, so the others do not cost a call each.
            due = [
                peer
                for peer in self.sessions.by_number.values()
                if peer.state is None or now >= peer.pull_at or now - peer.last_seen >= peer.silence_s
            ]
            for peer in due:
                self._check(peer, now)
            if self.sharing is not None:
                self._send_all(self.sharing.placement.due(self.sessions.by_number, len(self.sessions.by_id), now))
            self._grant(self._assembly.expire(now))
        for number, peer in list(self._sending.items()):
            if peer.outbox or peer.held:
                self._effects += peer.due(now, len(self._sending))
            else:
                del self._sending[number]

    # -- messages of MWorkers

    def decided(self, session: int, state: str, minion: str, gone: Iterable[Fingerprint] = ()) -> None:
        """The verdict about a key, a KeyState or "busy". The pending keys `gone` were deleted to make room for it."""
        for key in gone:
            self.key_changed(key, "deleted", "")
        peer = self.sessions.by_number.get(session)
        if peer is None or peer.state is not None:
            return
        self._handshakes.admission.finished()
        older = self.sessions.by_key.get(peer.fingerprint)
        is_up = older is not None and older.state is KeyState.ACCEPTED
        if state == KeyState.ACCEPTED and is_up and older is not None and not self._is_next(older, peer.order):
            # The newcomer stays undecided, so that a change of the key still ends it (S5).
            self._begin_contest(older, peer)
            return
        del self.sessions.deciding[peer.fingerprint]
        if state == KeyState.ACCEPTED:
            self._welcome(peer, state)
            self._accept(peer, minion)
        elif state == KeyState.PENDING and self.sessions.has_room_for_pending(peer):
            self._welcome(peer, state)
            peer.state = KeyState.PENDING
            self._unauthenticated.session_began(peer.connection)
            self._replace(older, peer)
            self.sessions.by_key[peer.fingerprint] = peer
        else:
            self._welcome(peer, "busy" if state == KeyState.PENDING else state)
            self._drop(peer, SessionEnd.REJECTED)

    def contested(self, key: Fingerprint, newcomer: NewcomerElsewhere) -> None:
        """A session of this key that is not a later one of the same start has come to another master, which is told by
        ContestOver whether the session here is alive. One that is silent ends."""
        older = self.sessions.by_key.get(key)
        # Another disk is not asked about.
        if (
            older is None
            or older.state is not KeyState.ACCEPTED
            or self._is_next(older, SessionOrder(newcomer.boot, older.order.incarnation, *newcomer.order))
        ):
            self._effects.append(ContestOver(newcomer.question, KeyState.ACCEPTED))
        else:
            self._begin_contest(older, newcomer)

    def contest_over(self, key: Fingerprint, boot: str, order: list[int], state: str) -> None:
        """The verdict about a newcomer that has waited for the answer of another master."""
        peer = self.sessions.deciding.get(key)
        if peer is not None and (peer.hello["boot"], peer.hello["order"]) == (boot, order):
            self.decided(peer.session.id, state, peer.hello["id"])

    def key_changed(self, key: Fingerprint, state: str, minion: str) -> None:
        """A key was accepted, rejected, revoked or "deleted". Takes effect before the operator gets an answer (S5)."""
        undecided = self.sessions.deciding.get(key)
        if undecided is not None:
            # Its verdict may predate the change. When it connects again it gets a new one.
            self._refuse_for_now(undecided)
        peer = self.sessions.by_key.get(key)
        if peer is None:
            return
        if state != KeyState.ACCEPTED:
            self._send(peer, {"t": "state", "state": state})
            self._drop(peer, _END_BY_KEY.get(state, SessionEnd.DELETED))
        elif peer.state is KeyState.PENDING:
            self._send(peer, {"t": "state", "state": state})
            self._accept(peer, minion)

    def key_changed_elsewhere(self, key: Fingerprint, state: str, minion: str) -> None:
        """The state of a key whose change was committed, by this master or another one: as `key_changed`. An accepted
        session ends if its key has another id now, or waits for its acceptance again. One that waits for the verdict
        of this acceptance goes on."""
        peer = self.sessions.by_key.get(key)
        undecided = self.sessions.deciding.get(key)
        if state == KeyState.ACCEPTED and undecided is not None and undecided.hello["id"] == minion:
            if peer is None:
                self.decided(undecided.session.id, state, minion)
                return
            if peer.state is KeyState.ACCEPTED and peer.id == minion:
                return
        is_accepted = peer is not None and peer.state is KeyState.ACCEPTED
        if is_accepted and peer is not None and (state == KeyState.PENDING or peer.id != minion):
            self.key_changed(key, "deleted", minion)
        elif state != KeyState.PENDING:
            self.key_changed(key, state, minion)

    def deliver(
        self, minion: str, deliveries: Iterable[Delivery], *, starved: bool = False, rest: str | None = None
    ) -> None:
        """Deliver pulled jobs to one minion. If it is away, they stay in the store.

        `starved`: the store has more, to be pulled when these are acknowledged. `rest`: the first job that the answer
        to a fresh pull did not contain, "" for none; None for any other answer.
        """
        peer = self.sessions.by_id.get(minion)
        if peer is None:
            return
        peer.known = True
        now = self._clock.monotonic()
        if self.sharing is not None:
            deliveries = self.sharing.issuers.named(deliveries)
        peer.outbox.refill(deliveries, starved=starved, rest=rest)
        if rest is not None:
            peer.pull_at = now + PULL_AGAIN_S
            if peer.has_missed:
                peer.has_missed = False
                self._effects.append(Pull(peer.id, fresh=False))
        self._sending[peer.session.id] = peer
        self._effects += peer.due(now, len(self._sending))

    def push(self, minion: str, deliveries: Iterable[Delivery]) -> None:
        """Deliver a new job. A session that the store does not know yet pulls it: else it might run, yet be EXPIRED.
        It pulls again if the answer to its first pull was already on its way."""
        peer = self.sessions.by_id.get(minion)
        if peer is not None and peer.known:
            self.deliver(minion, deliveries)
        elif peer is not None:
            peer.has_missed = True

    def cancel(self, parts: Iterable[tuple[str, str]]) -> None:
        """Have minions end parts of jobs, by (minion, part). Each answers with a state or a return."""
        for minion, part in parts:
            self._send_to(minion, {"t": "cancel", "jid": part})

    def fetch(self, minion: str, what: str) -> None:
        """Ask a minion for its functions, grains or resources, which the master does not have."""
        self._send_to(minion, {"t": "fetch", "what": what})

    def replaced(self, minion: str, run: int, handshake: int) -> None:
        """The store has a newer session of this minion, with another master: end the one with this order, or an older
        one."""
        peer = self.sessions.by_id.get(minion)
        if peer is not None and peer.hello["order"] <= [run, handshake]:
            self._end_replaced(peer)

    def replaced_elsewhere(self, minion: str, boot: str, run: int, handshake: int) -> None:
        """The store has this session of the minion with another master: end one of another start, or an older one."""
        peer = self.sessions.by_id.get(minion)
        if peer is not None and (peer.hello["boot"] != boot or peer.hello["order"] <= [run, handshake]):
            self._end_replaced(peer)

    def masters_are(self, content: bytes, signature: bytes) -> None:
        """This is the signed directory of the masters (`saltlite.wire.directory`)."""
        if self.sharing is not None:
            self.sharing.placement.directory_is(content, signature, self.sessions.by_id.values())

    def drain(self, *, wanted: bool) -> None:
        """Whether this master takes no new sessions, and sends its minions to other masters."""
        if self.sharing is not None:
            self._handshakes.is_closed = wanted
            self._send_all(self.sharing.placement.drain(self.sessions.by_id.values(), wanted=wanted))

    def lease(self, until: float) -> None:
        """This master may act until then (`Clock.boottime`)."""
        if self.sharing is None:
            return
        self._effects, waiting = self.sharing.lease.renew(until, self._effects, self.sessions.by_number)
        for frame in waiting:
            self.frame(frame.route, frame.connection, frame.address, frame.raw)

    def end_lease(self) -> None:
        """Another master has ended the sessions of this one, or it has been without a lease for too long."""
        if self.sharing is not None:
            self.sharing.lease.end()
        for peer in list(self.sessions.by_number.values()):
            self._disconnect(peer, SessionEnd.FENCED)

    def pull(self, minions: Iterable[str]) -> None:
        """The store holds jobs for these minions: pull them for those that are up."""
        for minion in minions:
            peer = self.sessions.by_id.get(minion)
            if peer is not None and not peer.outbox:
                self._effects.append(Pull(peer.id, fresh=not peer.known))

    def committed(self, key: Fingerprint, jids: Sequence[str]) -> None:
        """These returns of that key are stored: `acknowledge` sends what its minion waits for."""
        peer = self.sessions.by_key.get(key)
        if peer is None:
            return
        now = self._clock.monotonic()
        if not self._acknowledged:
            self._acknowledging_since = now
        self._acknowledged.setdefault(key, []).extend(jids)
        for jid in jids:
            self._grant(self._assembly.release(peer.session.id, jid, now))

    def acknowledge(self, *, busy: bool) -> bool:
        """Acknowledge stored returns, those first that have waited longest; whether more wait. Called once per turn of
        the loop. While the link is `busy` with frames of minions, these come first for ACKNOWLEDGE_S: an
        acknowledgement costs as much as a return, and nothing waits for it.
        """
        if busy and self._clock.monotonic() - self._acknowledging_since < ACKNOWLEDGE_S:
            return bool(self._acknowledged)
        for key in list(islice(self._acknowledged, ACKNOWLEDGED_WHEN_BUSY if busy else ACKNOWLEDGED_PER_TURN)):
            jids = self._acknowledged.pop(key)
            peer = self.sessions.by_key.get(key)
            if peer is not None:
                for start in range(0, len(jids), JIDS_MAX):
                    self._send(peer, {"t": "return_ack", "jids": jids[start : start + JIDS_MAX]})
        return bool(self._acknowledged)

    def send_files(self) -> None:
        """Send some responses, after all other messages. Called once per turn of the loop."""
        for session, message in self.files.to_send():
            self._effects.append(self.sessions.by_number[session].sealed(message))

    def leave(self, spread_ms: int) -> None:
        """Planned stop: tell every minion to reconnect within `spread_ms`. Jobs keep running."""
        for peer in list(self.sessions.by_number.values()):
            self._send(peer, {"t": "reconnect", "spread_ms": spread_ms})

    # -- frames

    def _unread(self, lease: Lease, route: bytes, connection: int, address: str, raw: bytes) -> None:
        """There is no lease: a frame of a session waits, and a stranger has to come again."""
        if connection >= 0:
            self._handshakes.give_up(route)
            self._effects.append(CloseConnection(connection, address))
            return
        try:
            frame = frames.parse(raw)
        except ProtocolError:
            return
        if not isinstance(frame, frames.DataFrame):
            return
        peer = self.sessions.by_number.get(frame.session)
        if peer is None or peer.route != route:
            # Frames of strangers take none of the memory for those of sessions (S6).
            self.refused_frames["no-session"] = self.refused_frames.get("no-session", 0) + 1
        elif not lease.wait(frame, route, connection, address):
            # A frame that is missing would end the session anyway; its minion repeats what was not acknowledged.
            self._disconnect(peer, SessionEnd.FENCED)

    def _greeting(self, route: bytes, connection: int, address: str, frame: frames.Frame) -> None:
        if isinstance(frame, frames.HelloFrame):
            if any(peer.route == route for peer in self.sessions.on(connection)):
                raise RemoteProtocolError("second-hello", "this connection has a session")
            answer = self._handshakes.hello(route, connection, address, frame, len(self.sessions.deciding))
            self._effects.append(Send(route, answer))
        elif isinstance(frame, frames.AuthFrame):
            self._auth(route, frame)
        elif isinstance(frame, frames.QueryFrame):
            self._effects.append(Send(route, self._handshakes.query(address)))
        else:
            raise RemoteProtocolError("unexpected-frame", type(frame).__name__)

    def _auth(self, route: bytes, frame: frames.AuthFrame) -> None:
        arrival = self._handshakes.auth(route, frame)
        self._handshakes_done += 1
        session = arrival.session
        if session.id in self.sessions.by_number:
            raise RemoteProtocolError("session-taken")
        now = self._clock.monotonic()
        peer = _arrived(arrival, route, now)
        self.sessions.add(peer)
        if len(self.sessions.deciding) >= DECIDING_MAX:
            self._refuse_for_now(peer)
            return
        older = self.sessions.deciding.get(peer.fingerprint)
        if older is not None:
            self._refuse_for_now(older)
        self.sessions.deciding[peer.fingerprint] = peer
        self._effects.append(Decide(session.id, session.peer, peer.address, peer.hello))

    def _data(self, route: bytes, frame: frames.DataFrame) -> None:
        peer = self.sessions.by_number.get(frame.session)
        if peer is None or peer.route != route:
            raise RemoteProtocolError("no-session")
        now = self._clock.monotonic()
        try:
            self._handle(peer, peer.read(frame.raw, self._function_reports, now))
        except ProtocolError:
            self._disconnect(peer, SessionEnd.BROKEN)
            raise
        peer.last_seen = now
        if peer in self.sessions:
            self._refuse_duplicates(peer, now)

    def _handle(self, peer: MinionSession, message: Message) -> None:
        match message["t"]:
            case "heartbeat":
                self._heartbeats[peer.session.id] = peer
            case "functions":
                # Minions share digests: a false one would misrepresent the functions of others.
                if functions_digest(message["functions"], whole=message["whole"]) != message["digest"]:
                    raise RemoteProtocolError("bad-message", "digest")
                peer.hello = {**peer.hello, "functions": message["digest"]}
                self._effects.append(MinionReport(peer.id, peer.fingerprint, message))
            case "digest" | "job_state":
                self._settle(peer, message.get("jid", ""))
                self._effects.append(MinionReport(peer.id, peer.fingerprint, message))
            case "return":
                self._return(peer, message)
            case "return_chunk":
                whole = self._assembly.part(peer.session.id, message, self._clock.monotonic())
                if whole is not None:
                    self._effects.append(MinionReport(peer.id, peer.fingerprint, *whole))
            case "file_request" | "file_put" | "doc_put" | "doc_get":
                self.files.put(peer.session.id, peer.id, message)
            case "event" | "ask":
                self.files.event(peer.session.id, peer.id, message, self._clock.monotonic())
            case "bye":
                self._drop(peer, SessionEnd.STOPPED)

    def _return(self, peer: MinionSession, message: Message) -> None:
        if comes_whole(message):
            self._effects.append(MinionReport(peer.id, peer.fingerprint, message, message["body"]))
        else:
            self._grant(self._assembly.announce(peer.session.id, message, self._clock.monotonic()))
        self._settle(peer, message["jid"])

    def _settle(self, peer: MinionSession, result: str) -> None:
        if peer.outbox.settle(part_of_segment(result)):
            pull = peer.next_pull()
            if pull.fresh:
                peer.pull_at = self._clock.monotonic() + UNANSWERED_S
            self._effects.append(pull)

    # -- sessions

    def _accept(self, peer: MinionSession, minion: str) -> None:
        peer.state, peer.id = KeyState.ACCEPTED, minion
        self._unauthenticated.session_began(peer.connection)
        same_id = self.sessions.by_id.get(minion)
        # In the table first, so that the id stays up while its older session ends.
        self.sessions.by_id[minion] = peer
        self._replace(same_id, peer)
        self._replace(self.sessions.by_key.get(peer.fingerprint), peer)
        self.sessions.by_key[peer.fingerprint] = peer
        self._effects.append(peer.presence())
        self._pull_fresh(peer, self._clock.monotonic())
        if self.sharing is not None:
            self.sharing.placement.came(peer)

    def _is_next(self, older: MinionSession, order: SessionOrder) -> bool:
        """Whether a session of that order takes the place of the older one without a question."""
        # A copy that was refused goes on in the order, too.
        is_suspect = self._duplicate_keys.is_suspect(older.fingerprint, self._clock.monotonic())
        return older.order.precedes(order) and not is_suspect

    def _begin_contest(self, older: MinionSession, newcomer: MinionSession | NewcomerElsewhere) -> None:
        minion = newcomer.hello["id"] if isinstance(newcomer, MinionSession) else older.id
        self._duplicate_keys.begin(older, newcomer, minion, self._clock.monotonic())
        self._send(older, {"t": "probe"})

    def _end_overdue_contests(self, now: float) -> None:
        for number, contests in self._duplicate_keys.overdue(now).items():
            older = self.sessions.by_number.get(number)
            if older is not None and any(isinstance(one.newcomer, NewcomerElsewhere) for one in contests):
                self._end_replaced(older)
            self._admit(contests)

    def _admit(self, contests: Iterable[Contest]) -> None:
        """The older session of these contests has ended or is silent: accept the newcomers."""
        for contest in contests:
            newcomer = contest.newcomer
            if isinstance(newcomer, NewcomerElsewhere):
                self._effects.append(ContestOver(newcomer.question, KeyState.ACCEPTED))
            elif newcomer in self.sessions:
                self.sessions.deciding.pop(newcomer.fingerprint, None)
                self._welcome(newcomer, KeyState.ACCEPTED)
                self._accept(newcomer, contest.minion)

    def _refuse_duplicates(self, stays: MinionSession, now: float) -> None:
        """That session is alive: end its contests."""
        for contest in self._duplicate_keys.settle(stays):
            newcomer = contest.newcomer
            if isinstance(newcomer, MinionSession) and newcomer not in self.sessions:
                continue
            is_duplicate = self._duplicate_keys.proved(stays, newcomer, now)
            if is_duplicate and self._duplicate_keys.is_news(stays.fingerprint, now):
                self._effects.append(Suspect(stays.id, stays.fingerprint, newcomer.address, stays.address))
            state = "duplicate_key" if is_duplicate else "busy"
            if isinstance(newcomer, NewcomerElsewhere):
                self._effects.append(ContestOver(newcomer.question, state))
            else:
                self._welcome(newcomer, state)
                self._drop(newcomer, SessionEnd.REPLACED)

    def _replace(self, older: MinionSession | None, newer: MinionSession) -> None:
        if older is not None and older is not newer and older in self.sessions:
            if older.order.precedes(newer.order):
                # The same machine has connected again.
                self._refuse_duplicates(older, self._clock.monotonic())
            self._end_replaced(older)

    def _end_replaced(self, peer: MinionSession) -> None:
        self._send(peer, {"t": "state", "state": "replaced"})
        self._drop(peer, SessionEnd.REPLACED)

    def _refuse_for_now(self, peer: MinionSession) -> None:
        """End a session without a verdict; its minion tries again a little later."""
        self._welcome(peer, "busy")
        self._drop(peer, SessionEnd.REPLACED)

    def _pull_fresh(self, peer: MinionSession, now: float) -> None:
        peer.pull_at = now + (PULL_AGAIN_S if peer.known else UNANSWERED_S)
        self._effects.append(Pull(peer.id, fresh=True))

    def _probe(self, connection: int) -> None:
        for peer in self.sessions.on(connection):
            self._effects.append(peer.sealed({"t": "heartbeat_ack"}))

    def _check(self, peer: MinionSession, now: float) -> None:
        if peer.state is None:
            if now - peer.since >= DECISION_S:
                self._refuse_for_now(peer)
        elif now - peer.last_seen >= peer.silence_s:
            self._disconnect(peer, end_with(SessionEnd.SILENT, int(now - peer.last_seen)))
        elif peer.state is KeyState.ACCEPTED and now >= peer.pull_at and not peer.outbox:
            self._pull_fresh(peer, now)

    def _disconnect(self, peer: MinionSession, end: str) -> None:
        """End a session and close its connection; `end` as for `_drop`."""
        self._drop(peer, end)
        self._effects.append(CloseConnection(peer.connection, peer.address))

    def _drop(self, peer: MinionSession, end: str) -> None:
        """End a session. If its minion was up, `end` says why it is not any more (`SessionEnd`)."""
        if peer not in self.sessions:
            return
        number = peer.session.id
        if self.sessions.is_up(peer):
            self._effects.append(peer.presence(end))
        self.sessions.remove(peer)
        if not self.sessions.on(peer.connection):
            self._effects += self._unauthenticated.session_ended(peer.connection, self._clock.monotonic())
        self._sending.pop(number, None)
        self.files.forget(number)
        self._grant(self._assembly.forget(number, self._clock.monotonic()))
        self._admit(self._duplicate_keys.settle(peer))

    # -- sending

    def _welcome(self, peer: MinionSession, state: str) -> None:
        peer.heartbeat_s, peer.silence_s = self.sessions.heartbeat_s, self.sessions.silence_s
        self._send(peer, {"t": "welcome", "state": state, "heartbeat_ms": int(peer.heartbeat_s * 1000)})

    def _grant(self, keys: Iterable[Key]) -> None:
        for session, jid in keys:
            peer = self.sessions.by_number.get(session)
            if peer is not None:
                self._send(peer, {"t": "grant", "jid": jid})

    def _send_all(self, messages: Iterable[tuple[MinionSession, Message]]) -> None:
        for peer, message in messages:
            self._send(peer, message)

    def _send_to(self, minion: str, message: Message) -> None:
        if peer := self.sessions.by_id.get(minion):
            self._send(peer, message)

    def _send(self, peer: MinionSession, message: Message) -> None:
        if peer.held:
            self._hold(peer, message)
        else:
            self._effects.append(peer.sealed(message))

    def _hold(self, peer: MinionSession, message: Message) -> None:
        if peer in self.sessions and not peer.hold(message):
            self._disconnect(peer, SessionEnd.CONGESTED)
        elif peer.held:
            self._sending[peer.session.id] = peer
