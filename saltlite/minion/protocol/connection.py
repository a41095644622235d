"""The minion's connection to its masters, as a state machine without IO.

    state       leaves on                                             to
    ---------   ---------------------------------------------------   --------------------------------
    CONNECT     link up                                               HANDSHAKE
                link down, 10 s                                       BACKOFF
    HANDSHAKE   WELCOME accepted | pending                            READY | PENDING
                WELCOME rejected | revoked | conflict | duplicate_key REFUSED
                WELCOME busy, bad proof, link down, 10 s              BACKOFF
                BUSY n                                                BACKOFF (n, +- 25 %)
    PENDING     STATE accepted                                        READY, in the same session
    PENDING and STATE rejected | revoked | conflict                   REFUSED
    READY       STATE deleted | replaced, a bad frame, link down,
                2.5 heartbeats of silence, 4 where others are tried   BACKOFF
                session age                                           BACKOFF (0 .. 1 s), with the same master
                RECONNECT spread                                      BACKOFF (0 .. spread)
    REFUSED     min(60 s, uniform(2 s, 3 x the last one))             CONNECT
    BACKOFF     min(60 s, uniform(1 s, 3 x the last one))             CONNECT, with the next master

A master that shares its store with others sends a directory of them (`saltlite.wire.directory`). Each minion ranks
them: it tries its home first, and the masters of its configuration last. A READY minion tries another master beside
its session, by a second machine (`beside`), when its master sends MOVE, or does not answer a heartbeat for 10 to 20 s.
The session ends when the second connection is READY. So a move costs no time without a session, and a minion stays
where it is while no other master accepts it. A session that ends meanwhile (REPLACED, RECONNECT, link down) leads to
BACKOFF only if the second connection fails.

Rules: it never ends by itself. It sends nothing about the minion before the master has authenticated. A failed proof
changes only the time of the next attempt (R5). The back-off is reset after 60 s of READY, the wait in REFUSED by
another state of the key. Anything that the table does
not list for a state is a bad frame.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from saltlite.errors import ProtocolError, RemoteProtocolError
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import MinionId
from saltlite.model.keys import fingerprint_bytes
from saltlite.wire import codec, directory, frames
from saltlite.wire.certificates import BUILD_DATE_S, MasterCertificate, successors
from saltlite.wire.directory import NOWHERE, Directory
from saltlite.wire.frames import SecureSession
from saltlite.wire.limits import HANDSHAKE_TIMEOUT_S, SESSION_MAX_AGE_S
from saltlite.wire.messages import (
    JIDS_MAX,
    REASON_MAX,
    REPLY_FIELDS,
    Message,
    Sender,
    check,
    check_payload,
)
from saltlite.wire.noise import Handshake, Role, private_key

CONNECT_TIMEOUT_S = 10.0
BACKOFF_MIN_S = 1.0
BACKOFF_MAX_S = 60.0
REFUSED_MIN_S = 2.0
REFUSED_MAX_S = 60.0
"""A refused minion asks again after at most so long, because an operator may have decided otherwise."""
SETTLED_S = 60.0
"""After so long in READY the back-off starts from its minimum again."""
ELSEWHERE_MAX_S = 10.0
"""After a shorter session a minion that knows other masters waits at most so long before it goes to one of them,
however long it had waited before that session."""
SILENCE_BEATS = 2.5
SILENCE_BEATS_BESIDE = 4.0
"""The same for a minion that tries other masters meanwhile: when none accepts it, all of them may wait for a database
that hangs, and go on with their sessions afterwards."""
UNANSWERED_S = 10.0
"""A minion that knows other masters tries one of them when a heartbeat has not been answered for once to twice so
long: longer than a pause of a busy master, and shorter than what ends the session."""
SECOND_MIN_S = 2.0
SECOND_MAX_S = 10.0
"""Between two attempts to reach another master beside the session."""
NEVER = float("inf")


FOR_JOBS = frozenset({"job", "cancel", "return_ack", "grant", "fetch", "response", "directory"})
"""The messages of an accepted session that go to the job server; the others concern the session itself."""


_REFUSALS = {
    "conflict": "another key has this minion's id, or this key another id: `saltlite key list conflict` on the master "
    "says what to do, and a minion that was renamed there needs its new id in its configuration",
    "duplicate_key": "another machine uses this minion's key, as a copied image does, and keeps its place: "
    "stop this minion, remove its pki_dir and data_dir, and start it again",
}


class Phase(StrEnum):
    """The state of the connection; the names are shown in logs and in `systemctl status`."""

    CONNECT = "connect"
    HANDSHAKE = "handshake"
    PENDING = "pending"
    READY = "ready"
    REFUSED = "refused"
    BACKOFF = "backoff"


@dataclass(frozen=True, slots=True)
class OpenLink:
    """Open a new link to this `host:port`; any old link is gone."""

    address: str


@dataclass(frozen=True, slots=True)
class OpenSecond:
    """Try the master at this `host:port` with a second connection (`ConnectionMachine.beside`). Once that is READY, it
    takes the place of this one; when it fails, call `second_failed`."""

    address: str


@dataclass(frozen=True, slots=True)
class CloseSecond:
    """Give the second connection up, unless it is READY."""


@dataclass(frozen=True, slots=True)
class Close:
    """Drop the link."""


@dataclass(frozen=True, slots=True)
class SendFrame:
    """Send this frame."""

    frame: bytes


@dataclass(frozen=True, slots=True)
class Deliver:
    """A verified message of the master for the job server."""

    message: Message


@dataclass(frozen=True, slots=True)
class Changed:
    """The phase has changed. `reason` is a sentence for people, "" for none."""

    phase: Phase
    reason: str


@dataclass(frozen=True, slots=True)
class Trust:
    """The certificate of this fleet was verified: pass it to the job server, which pins the fleet.

    `fleet` is the 25-byte fingerprint of the key that signed the certificate, `chain` leads to it from the pinned one.
    """

    fleet: bytes
    certificate: MasterCertificate
    chain: bytes


Effect = OpenLink | OpenSecond | CloseSecond | Close | SendFrame | Deliver | Changed | Trust


@dataclass(slots=True)
class _Second:
    """Why and when another master is tried beside the session: the one named `to`, or any. `is_asked`: by MOVE; else
    because the present master does not answer."""

    at: float
    to: str = ""
    is_asked: bool = False
    tries: int = 0
    over: tuple[str, float | None] | None = None
    """Why the session ended while this connection was being made, and how long to wait if it fails."""

    @property
    def is_under_way(self) -> bool:
        """Whether there is a second connection now, which is not accepted yet."""
        return self.at == NEVER


@dataclass(frozen=True, slots=True)
class MinionIdentity:
    """What the minion reports about itself, and the private key (32 bytes, X25519) that proves its identity."""

    id: str
    private: bytes
    boot: str
    incarnation: str
    version: str
    run: int
    """How often the network process was started on this disk (`saltlite.minion.jobs.journal.RunCounter`)."""
    functions: str
    """`functions_digest` of its functions; the master requests those that it does not know."""
    token: bytes = b""
    """The proof of a join token (`saltlite.wire.signatures`); sent only after the master has authenticated."""


class ConnectionMachine:
    """The state machine: give it input, then carry out what `take()` returns, in order.

    `fleet` is the pinned fleet fingerprint (25 bytes), or None to trust the first fleet that answers, which needs an
    explicit option. `masters` are `host:port`, tried in turn, after those of the directory.
    """

    def __init__(
        self,
        identity: MinionIdentity,
        masters: tuple[str, ...],
        fleet: bytes | None,
        clock: Clock,
        known: Directory = NOWHERE,
    ) -> None:
        self.phase = Phase.BACKOFF
        self.running: list[str] = []
        self.spooled = 0
        self.master = ""
        """The `host:port` to which it is connected, or tried to connect last."""
        self._identity = identity
        self._configured = masters
        self._directory = NOWHERE
        self._masters: tuple[str, ...] = ()
        self._next_master = 0
        self._certificate: MasterCertificate | None = None
        self._use(known)
        self._second: _Second | None = None
        self._fleet = fleet
        self._claimed: bytes | None = None
        self._clock = clock
        self._handshake: Handshake | None = None
        self._session: SecureSession | None = None
        self._handshakes = itertools.count(1)
        self._epoch = 0
        self._deadline = 0.0
        self._phase_since = 0.0
        self._session_ends = 0.0
        self._last_heard = 0.0
        self._beat_due = 0.0
        self._beat_s = 0.0
        self._backoff_s = 0.0
        self._refused_s = 0.0
        self._effects: list[Effect] = []

    # -- what the driver asks

    def take(self) -> list[Effect]:
        """The effects since the last call, to be carried out in this order."""
        effects, self._effects = self._effects, []
        return effects

    def deadline(self) -> float:
        """Monotonic time at which `tick()` is due."""
        if self._is_over:
            return NEVER
        if self._session is not None and self.phase in (Phase.PENDING, Phase.READY):
            second = NEVER if self._second is None else self._second.at
            return min(self._beat_due, self._silent_at, self._session_ends, second)
        return self._deadline

    def beside(self, address: str) -> ConnectionMachine:
        """A machine for a second connection, to that master first; it takes the place of this one once it is READY."""
        other = ConnectionMachine(self._identity, self._configured, self._fleet, self._clock, self._directory)
        other.running, other.spooled = self.running, self.spooled
        other._handshakes = self._handshakes
        other._epoch = self._epoch
        other._next_master = other._masters.index(address)
        return other

    # -- what happens

    def start(self) -> None:
        """Connect to the first master."""
        self._connect(self._clock.monotonic())

    def link_up(self) -> None:
        """Start the handshake on a new link."""
        if self.phase is not Phase.CONNECT:
            return
        self._enter(Phase.HANDSHAKE, "")
        self._deadline = self._clock.monotonic() + HANDSHAKE_TIMEOUT_S
        if self._claimed is None:
            self._effects.append(SendFrame(frames.query()))
        else:
            self._hello(self._claimed)

    def link_down(self, reason: str) -> None:
        """Handle the loss of the link, or a failed connection."""
        if self.phase not in (Phase.BACKOFF, Phase.REFUSED):
            if self.phase is Phase.HANDSHAKE:
                reason += ", before it proved itself: `saltlite doctor` here says whether it is of another fleet"
            self._session_over(reason)

    def frame(self, raw: bytes) -> None:
        """Handle a frame. A bad one ends the session, never the process."""
        if self._is_over:
            return
        try:
            self._frame(frames.parse(raw))
        except ProtocolError as error:
            if self.phase not in (Phase.BACKOFF, Phase.REFUSED):
                self._back_off(f"the master's frame was refused ({error})")

    def tick(self) -> None:
        """Handle timeouts."""
        now = self._clock.monotonic()
        if self._is_over:
            return
        if self.phase in (Phase.BACKOFF, Phase.REFUSED):
            if now >= self._deadline:
                self._connect(now)
        elif self.phase in (Phase.CONNECT, Phase.HANDSHAKE):
            if now >= self._deadline:
                self._back_off("the master did not answer in time")
        elif now >= self._silent_at:
            self._back_off(f"the master has been silent for {self._silence_beats:g} heartbeats")
        elif now >= self._session_ends:
            self._next_master = max(0, self._next_master - 1)
            self._back_off("the session has reached its age", wait_s=self._clock.uniform(0.0, 1.0))
        else:
            if now >= self._beat_due:
                self._beat(now)
            if self._second is not None and now >= self._second.at:
                self._try_second(self._second)

    def second_failed(self, not_before: float = 0.0) -> None:
        """The second connection was not accepted: the session stays, and another master is tried later, at that
        monotonic time at the earliest."""
        second = self._second
        if second is not None and second.over is not None:
            self._back_off(*second.over)
        elif second is None or (second.is_asked and second.to):
            # This master sends MOVE again if it still wants the minion to go there.
            self._second = None
        else:
            second.at = max(not_before, self._clock.monotonic() + self._clock.uniform(SECOND_MIN_S, SECOND_MAX_S))

    def send(self, message: Mapping[str, Any]) -> bool:
        """Seal a message for the master; False, without effect, while not READY."""
        if self.phase is not Phase.READY or self._session is None or self._is_over:
            return False
        self._effects.append(SendFrame(self._session.seal(codec.encode(message))))
        return True

    def functions_are(self, digest: str) -> None:
        """Note a new digest of the functions, for the next handshake."""
        self._identity = replace(self._identity, functions=digest)

    def close(self, reason: str) -> None:
        """Send `bye`, for a planned stop."""
        if self._session is not None and self.phase in (Phase.READY, Phase.PENDING):
            bye = {"t": "bye", "reason": reason[:REASON_MAX]}
            self._effects.append(SendFrame(self._session.seal(codec.encode(bye))))
        self._effects.append(Close())

    # -- inside

    def _connect(self, now: float) -> None:
        self.master = self._masters[self._next_master % len(self._masters)]
        self._next_master += 1
        self._claimed = self._fleet
        self._enter(Phase.CONNECT, "")
        self._deadline = now + CONNECT_TIMEOUT_S
        self._effects.append(OpenLink(self.master))

    def _use(self, known: Directory) -> None:
        """Rank the masters of this directory, and go on after the present one when it is lost."""
        self._directory = known
        ranked = known.ranked(MinionId(self._identity.id))
        self._masters = tuple(dict.fromkeys((*(one.address for one in ranked), *self._configured)))
        # The configuration may have another address of the present master.
        name = "" if self._certificate is None else self._certificate.name
        here = next((one.address for one in ranked if one.name == name), self.master)
        self._next_master = self._masters.index(here) + 1 if here in self._masters else 0

    def _others(self) -> list[str]:
        """The masters that may be tried beside the session, best first."""
        if not self._directory.masters:
            # Behind one address there may be several masters.
            return [address for address in self._configured if address != self.master] or [self.master]
        here = "" if self._certificate is None else self._certificate.name
        ranked = self._directory.ranked(MinionId(self._identity.id))
        return [one.address for one in ranked if one.is_up and one.name != here]

    def _try_second(self, second: _Second) -> None:
        named = [one.address for one in self._directory.masters if one.name == second.to]
        addresses = named if second.to else self._others()
        if addresses:
            self._effects.append(OpenSecond(addresses[second.tries % len(addresses)]))
            second.tries += 1
        second.at = NEVER if addresses else self._clock.monotonic() + SECOND_MAX_S

    def _hello(self, fleet: bytes) -> None:
        self._handshake = Handshake(
            Role.INITIATOR, private_key(self._identity.private), frames.prologue(fleet), self._clock.entropy(32)
        )
        self._effects.append(SendFrame(frames.hello(self._handshake.write(b""), fleet)))

    def _frame(self, frame: frames.Frame) -> None:
        if isinstance(frame, frames.DataFrame):
            self._data(frame)
        elif self.phase is not Phase.HANDSHAKE:
            raise RemoteProtocolError("unexpected-frame", type(frame).__name__)
        elif isinstance(frame, frames.ReplyFrame) and self._handshake is not None and self._session is None:
            self._reply(frame, self._handshake)
        elif isinstance(frame, frames.BusyFrame) and self._session is None:
            wait_s = min(frame.retry_ms / 1000, BACKOFF_MAX_S)
            self._back_off("the master is busy", wait_s=wait_s * self._clock.uniform(0.75, 1.25))
        elif isinstance(frame, frames.FleetFrame) and self._claimed is None:
            # Not authenticated yet: used for this one handshake only.
            self._claimed = fingerprint_bytes(frame.public)
            self._hello(self._claimed)
        else:
            raise RemoteProtocolError("unexpected-frame", type(frame).__name__)

    def _reply(self, frame: frames.ReplyFrame, handshake: Handshake) -> None:
        payload = check_payload(codec.decode(handshake.read(frame.message)), REPLY_FIELDS)
        certificate = MasterCertificate.decode(payload["cert"])
        if self._claimed is None or handshake.remote_static != certificate.static_public:
            raise RemoteProtocolError("wrong-certificate", "it names another key than the handshake proved")
        fleet = (self._claimed, *successors(self._claimed, certificate.fleet_public, payload["chain"]))[-1]
        certificate.verify(fleet, int(max(self._clock.wall(), BUILD_DATE_S)), self._epoch)
        self._fleet = fleet
        self._epoch = certificate.epoch
        self._certificate = certificate
        me = self._identity
        hello = {
            "id": me.id,
            "boot": me.boot,
            "incarnation": me.incarnation,
            "version": me.version,
            "functions": me.functions,
            "token": me.token,
            "order": [me.run, next(self._handshakes)],
            "moves": True,
        }
        self._effects.append(Trust(fleet, certificate, payload["chain"]))
        self._effects.append(SendFrame(frames.auth(handshake.write(codec.encode(hello)))))
        self._session = SecureSession(handshake)

    def _data(self, frame: frames.DataFrame) -> None:
        if self._session is None or self.phase not in (Phase.HANDSHAKE, Phase.PENDING, Phase.READY):
            raise RemoteProtocolError("unexpected-frame", "DATA")
        accepted = self.phase is Phase.READY
        message = check(codec.decode(self._session.open(frame.raw)), Sender.MASTER, accepted=accepted)
        self._last_heard = self._clock.monotonic()
        if self._second is not None and not self._second.is_asked:
            self._second = None
            self._effects.append(CloseSecond())
        match message["t"]:
            case "welcome" if self.phase is Phase.HANDSHAKE:
                self._welcome(message)
            case "state" if self.phase is not Phase.HANDSHAKE:
                self._state_received(message["state"])
            case "heartbeat_ack":
                pass
            case "probe":
                self._beat(self._clock.monotonic())
            case "reconnect":
                wait_s = self._clock.uniform(0.0, message["spread_ms"] / 1000)
                self._session_over("the master is about to restart", wait_s)
            case "move":
                self._move(message["to"], message["spread_ms"])
            case verb if verb in FOR_JOBS:
                if verb == "directory":
                    self._directory_received(message)
                self._effects.append(Deliver(message))
            case _:
                raise RemoteProtocolError("unexpected-verb", message["t"])

    def _move(self, to: str, spread_ms: int) -> None:
        second = self._second
        if second is not None and second.is_under_way and to in ("", second.to):
            # It is on its way: the other master may have taken it over already.
            second.to = to
            return
        self._effects.append(CloseSecond())
        wait_s = self._clock.uniform(0.0, spread_ms / 1000)
        self._second = _Second(self._clock.monotonic() + wait_s, to, is_asked=True)

    def _directory_received(self, message: Message) -> None:
        keys = [] if self._certificate is None else [self._certificate.job_public]
        found = directory.read(message["content"], message["sig"], keys)
        # Another master may have signed a later one just before, so an earlier one does not end the session.
        known = found.after(self._directory, self._clock.wall())
        if known is not None:
            self._use(known)

    def _welcome(self, message: Message) -> None:
        now = self._clock.monotonic()
        self._beat_s = message["heartbeat_ms"] / 1000
        self._beat_due = now + self._beat_s * self._clock.uniform(0.2, 1.0)
        self._session_ends = now + SESSION_MAX_AGE_S * self._clock.uniform(0.75, 1.25)
        if message["state"] == "busy":
            self._back_off("the master is busy")
        else:
            self._state_received(message["state"])

    def _state_received(self, state: str) -> None:
        if state in ("accepted", "pending"):
            self._refused_s = 0.0
        if state == "accepted":
            if self.phase is not Phase.READY:
                self._enter(Phase.READY, "")
        elif state == "pending":
            if self.phase is Phase.READY:
                raise RemoteProtocolError("unexpected-state", state)
            self._enter(Phase.PENDING, "the key waits to be accepted: `saltlite key accept` on the master")
        elif state == "replaced":
            self._session_over("a newer connection of this minion's key took the place of this one")
        elif state == "deleted":
            self._back_off("the key was deleted on the master: it is presented anew")
        else:
            self._leave()
            longest = 3 * max(self._refused_s, REFUSED_MIN_S)
            self._refused_s = min(REFUSED_MAX_S, self._clock.uniform(REFUSED_MIN_S, longest))
            self._deadline = self._clock.monotonic() + self._refused_s
            self._enter(Phase.REFUSED, _REFUSALS.get(state, f"the master refuses this minion: its key is {state}"))

    def _beat(self, now: float) -> None:
        if self._session is None:
            return
        beat = {"t": "heartbeat", "running": self.running[:JIDS_MAX], "spool": self.spooled}
        self._effects.append(SendFrame(self._session.seal(codec.encode(beat))))
        self._beat_due = now + self._beat_s * self._clock.uniform(0.9, 1.0)
        if self._second is None and self.phase is Phase.READY and len(self._directory.masters) > 1:
            # Any message of the master takes this back.
            self._second = _Second(now + UNANSWERED_S * self._clock.uniform(1.0, 2.0))

    @property
    def _is_over(self) -> bool:
        """Whether the session has ended while a second connection is being made, which may take its place."""
        return self._second is not None and self._second.over is not None

    @property
    def _silence_beats(self) -> float:
        is_tried_beside = self.phase is Phase.READY and self._second is not None and self._second.tries > 0
        return SILENCE_BEATS_BESIDE if is_tried_beside else SILENCE_BEATS

    @property
    def _silent_at(self) -> float:
        """When the session ends unless the master says something before."""
        return self._last_heard + self._silence_beats * self._beat_s

    def _session_over(self, reason: str, wait_s: float | None = None) -> None:
        """The master or the link ended the session. A second connection that is being made goes on: the other master
        may have taken the minion over, which ends the session here before the minion has heard of it."""
        second = self._second
        if self.phase is not Phase.READY or second is None or not second.is_under_way:
            self._back_off(reason, wait_s)
        elif second.over is None:
            second.over = reason, wait_s
            second.is_asked = True

    def _back_off(self, reason: str, wait_s: float | None = None) -> None:
        now = self._clock.monotonic()
        if self.phase is Phase.READY and now - self._phase_since >= SETTLED_S:
            self._backoff_s = 0.0
        if wait_s is None:
            longest = 3 * max(self._backoff_s, BACKOFF_MIN_S)
            if self.phase is Phase.READY and len(self._directory.masters) > 1:
                longest = min(longest, ELSEWHERE_MAX_S)
            self._backoff_s = min(BACKOFF_MAX_S, self._clock.uniform(BACKOFF_MIN_S, longest))
            wait_s = self._backoff_s
        self._leave()
        self._deadline = now + wait_s
        self._enter(Phase.BACKOFF, reason)

    def _leave(self) -> None:
        self._handshake = None
        self._session = None
        if self._second is not None:
            self._second = None
            self._effects.append(CloseSecond())
        self._effects.append(Close())

    def _enter(self, phase: Phase, reason: str) -> None:
        self.phase = phase
        self._phase_since = self._clock.monotonic()
        self._effects.append(Changed(phase, reason))
