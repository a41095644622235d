"""A master's manager and minions joined by the in-memory link, with a clock that stands still: for the core's tests.

The drivers in here do what the daemons do, as simply as possible: the master's store is a few dicts, a minion's
journal and spool are the real ones on a disk in memory, a job's process is a row in a dict that ends when the
test says so. `entered` counts how often a function was entered: the promise is once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from saltlite.master.protocol import effects, session_manager
from saltlite.master.protocol.effects import Effect, Send
from saltlite.master.protocol.session_manager import SessionManager
from saltlite.master.protocol.sessions import Delivery
from saltlite.master.store.ports import advance
from saltlite.minion.protocol import connection
from saltlite.minion.protocol import effects as job_effects
from saltlite.minion.protocol.connection import ConnectionMachine, Phase
from saltlite.minion.protocol.effects import Record, SpoolEntry
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.model.ids import jid_at
from saltlite.model.job import TERMINAL, TargetState
from saltlite.model.keys import Fingerprint, fingerprint
from saltlite.platform.daemon import ManualClock
from saltlite.platform.link import SendResult
from saltlite.testing.disk import MemoryDisk, memory_journal, memory_spool
from saltlite.testing.link import DEFAULT_ADDRESS, Fate, Flight, MemoryNetwork
from saltlite.wire import codec, frames, merkle
from saltlite.wire.frames import SecureSession
from saltlite.wire.limits import CHUNK
from saltlite.wire.noise import Handshake, Role, private_key, public_of
from saltlite.wire.signatures import proves, token_public
from tests.support.keys import FLEET, FUNCTIONS, NOW, TOKEN, good_token, identity, key_of, make_manager, seed, signed


class PowerCut(Exception):  # noqa: N818 - it is an event of the test, not an error of the product
    """The machine is off from this operation of its disk on."""


@dataclass(slots=True)
class StoredJob:
    """A job as the fake store has it."""

    body: bytes
    signature: bytes
    minions: list[str]
    created_at: float
    deliver_ms: int
    states: dict[str, TargetState]
    returns: dict[str, bytes] = field(default_factory=dict)


class Master:
    """The manager with its link and a store of dicts. `decide` is what an MWorker says about a key."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.clock = fleet.clock
        self.jobs: dict[str, StoredJob] = {}
        self.keys: dict[Fingerprint, str] = {}
        self.present: set[str] = set()
        self.came_and_went: list[tuple[str, bool]] = []
        self.undecided: list[effects.Decide] = []
        self.holds_decisions = False
        self.store_fails = False
        self.start()

    def start(self) -> None:
        """A link process begins: no session is known."""
        self.manager = make_manager(self.clock)
        self.link = self.fleet.network.server(self._frame, self.manager.hangup, self.manager.connected)
        self.present.clear()
        self._tick_at = self._sweep_at = self.clock.monotonic()

    def stop(self) -> None:
        """The link process dies."""
        self.link.close()

    def _frame(self, route: bytes, number: int, address: str, frame: bytes) -> None:
        self.manager.frame(route, number, address, frame)
        self.carry()

    def deadline(self) -> float:
        return min(self._tick_at, self._sweep_at)

    def tick(self) -> None:
        now = self.clock.monotonic()
        if now >= self._tick_at:
            self._tick_at = now + session_manager.TICK_S
            self.manager.tick()
        if now >= self._sweep_at:
            self._sweep_at = now + 15.0
            self.manager.pull(sorted({m for job in self.jobs.values() for m in job.minions}))
        self.carry()

    def carry(self) -> None:
        """Carry out what the manager wants."""
        while effects := self.manager.take():
            for effect in effects:
                self._one(effect)

    def _one(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Send():
                result = self.link.send(effect.route, effect.frame)
                if result is SendResult.FULL:
                    self._tick_at = min(self._tick_at, self.clock.monotonic() + session_manager.BLOCKED_RETRY_S)
                if result is not SendResult.OK:
                    self.manager.unsent(effect, gone=result is SendResult.GONE)
            case effects.CloseConnection():
                self.fleet.note("master", f"hangs up on {effect.address}")
                self.link.hang_up(effect.connection, effect.address)
            case effects.Decide():
                self.fleet.note("master", f"decides about {effect.hello['id']}")
                if self.holds_decisions:
                    self.undecided.append(effect)
                else:
                    self.decide(effect)
            case effects.Presence():
                self.fleet.note("master", f"{effect.id} is {'up' if effect.up else 'away'}")
                self.came_and_went.append((effect.id, effect.up))
                (self.present.add if effect.up else self.present.discard)(effect.id)
            case effects.MinionReport():
                self._report(effect)
            case effects.Pull():
                self._pull(effect)

    def decide(self, ask: effects.Decide) -> None:
        """Accept a key that proves TOKEN, else what was said of it before, else pending."""
        key = fingerprint(ask.public)
        if proves(token_public(TOKEN), ask.hello["token"], ask.hello["id"], ask.public):
            self.keys.setdefault(key, "accepted")
        self.manager.decided(ask.session, self.keys.setdefault(key, "pending"), ask.hello["id"])

    def change_key(self, name: str, state: str) -> None:
        """What `saltlite key` does."""
        self.fleet.note("operator", f"{name} becomes {state}")
        key = key_of(name)
        if state == "deleted":
            self.keys.pop(key, None)
        else:
            self.keys[key] = state
        if state != "accepted":
            for job in self.jobs.values():
                if name in job.states:
                    job.states[name] = advance(job.states[name], TargetState.REVOKED)
        self.manager.key_changed(key, state, name)
        self.carry()

    def publish(
        self, names: Iterable[str], fun: str = "test.ping", *, deliver_ms: int = 60_000, run_ms: int = 0
    ) -> str:
        """Commit a job and send it to those that are up; its jid."""
        minions = sorted(names)
        jid = jid_at(int(self.clock.wall() * 1_000_000) + len(self.jobs))
        body, signature = signed(jid, minions, fun, deliver_ms=deliver_ms, run_ms=run_ms)
        self.jobs[jid] = StoredJob(
            body=body,
            signature=signature,
            minions=minions,
            created_at=self.clock.wall(),
            deliver_ms=deliver_ms,
            states=dict.fromkeys(minions, TargetState.QUEUED),
        )
        self.fleet.note("operator", f"{fun} for {', '.join(minions)}")
        for name in minions:
            self.manager.deliver(name, [self._parcel(jid, name)])
        self.carry()
        return jid

    def cancel(self, jid: str) -> None:
        """What `saltlite job kill` does."""
        self.fleet.note("operator", "kills the job")
        self.manager.cancel((minion, jid) for minion in self.jobs[jid].minions)
        self.carry()

    def state(self, jid: str, name: str) -> TargetState:
        return self.jobs[jid].states[name]

    def unfinished(self) -> list[tuple[str, str, TargetState]]:
        """Every (jid, minion) that has no terminal state."""
        rows = [(jid, name, state) for jid, job in self.jobs.items() for name, state in job.states.items()]
        return [row for row in rows if row[2] not in TERMINAL]

    def _parcel(self, jid: str, name: str) -> Delivery:
        job = self.jobs[jid]
        left_s = job.created_at + job.deliver_ms / 1000 - self.clock.wall()
        proof = merkle.proofs(job.minions)[name]
        return Delivery(jid, job.body, job.signature, proof, self.clock.monotonic() + left_s)

    def _pull(self, ask: effects.Pull) -> None:
        wanted = [
            jid
            for jid, job in self.jobs.items()
            if (state := job.states.get(ask.id)) is not None
            and (state is TargetState.QUEUED or (ask.fresh and state not in TERMINAL))
            and jid >= ask.since
        ]
        deliveries = [self._parcel(jid, ask.id) for jid in wanted[:16]]
        rest = next(iter(wanted[16:]), "") if ask.fresh else None
        self.manager.deliver(ask.id, deliveries, starved=len(wanted) > 16, rest=rest)

    def _report(self, report: effects.MinionReport) -> None:
        message = report.message
        if self.store_fails or message["t"] == "functions":
            return
        job = self.jobs.get(message["jid"])
        if job is not None and report.id in job.states and self.keys[report.fingerprint] == "accepted":
            state = TargetState(message["state"])
            job.states[report.id] = advance(job.states[report.id], state)
            if message["t"] == "return":
                job.returns.setdefault(report.id, report.body or b"")
        self.fleet.note("master", f"stores {message['state']} of {report.id}")
        if message["t"] == "return":
            self.manager.committed(report.fingerprint, [message["jid"]])
            self.manager.acknowledge(busy=False)


class Minion:
    """A connection, its jobs, and what they stand on."""

    def __init__(self, fleet: Fleet, name: str, *, token: bytes = b"", fleet_key: bytes | None = FLEET) -> None:
        self.fleet = fleet
        self.name = name
        self.disk = MemoryDisk(before=self._before)
        self.cut_after: int | None = None
        self.processes: dict[str, int] = {}
        self.result = b"\xc3"
        self.limit = 4
        self.reasons: list[str] = []
        self._identity = identity(name, token)
        self._fleet_key = fleet_key
        self.link = fleet.network.client(self._up, self._frame, self._down, ip=f"10.0.0.{len(fleet.minions) + 1}")
        self.boot()

    # -- a life of the daemon

    def boot(self) -> None:
        """Start: replay the journal, connect."""
        try:
            self._replay()
        except PowerCut:
            self._restart()
            return
        self.jobs.open()
        self.connection.start()
        self.carry()

    def _replay(self) -> None:
        clock = self.fleet.clock
        self.journal = memory_journal(self.disk, entropy=clock.entropy)
        self.spool = memory_spool(self.disk)
        entries = self.journal.open()
        self.spool.open()
        self.jobs = JobMachine(self.name, clock, limit=self.limit, longest_s=0.0)
        self.connection = ConnectionMachine(self._identity, (DEFAULT_ADDRESS,), self._fleet_key, clock)
        remembered = [
            job_effects.RecoveredJob(
                jid=entry.jid,
                step=entry.step,
                body=entry.body,
                received_wall_ms=entry.received_wall_ms,
                deliver_ms=entry.deliver_ms,
                pid=entry.pid,
                started_wall_ms=entry.started_wall_ms,
                reason=entry.reason,
                alive=entry.jid in self.processes,
            )
            for entry in entries
        ]
        self.jobs.replay(remembered, self.spool.jids(), self.journal.floor)

    def kill(self, *, power: bool = False) -> None:
        """The daemon dies, or the whole machine loses its power; `boot()` follows."""
        self.link.close()
        if power:
            self.processes.clear()
            self.disk.crash()

    def phase(self) -> Phase:
        """Where the connection is."""
        return self.connection.phase

    def finish(self, jid: str) -> None:
        """The job's process returns."""
        if self.processes.pop(jid, None) is None:
            return
        started = int(self.fleet.clock.wall() * 1000)
        try:
            self.spool.write(jid, SpoolEntry(TargetState.RETURNED, 0, self.result, started, 0))
        except PowerCut:
            self._restart()
            return
        self.jobs.exited(jid, left_result=True, how="exit status 0")
        self.carry()

    def _before(self, _operation: str) -> None:
        if self.cut_after is not None:
            self.cut_after -= 1
            if self.cut_after < 0:
                raise PowerCut

    def _restart(self) -> None:
        self.cut_after = None
        self.kill(power=True)
        self.boot()

    # -- the link

    def _up(self) -> None:
        self.connection.link_up()
        self.carry()

    def _frame(self, frame: bytes) -> None:
        self.connection.frame(frame)
        self.carry()

    def _down(self, reason: str) -> None:
        self.connection.link_down(reason)
        self.carry()

    # -- time

    def deadline(self) -> float:
        return min(self.connection.deadline(), self.jobs.deadline())

    def tick(self) -> None:
        now = self.fleet.clock.monotonic()
        if now >= self.connection.deadline():
            self.connection.tick()
        if now >= self.jobs.deadline():
            self.jobs.tick()
        self.carry()

    # -- effects

    def carry(self) -> None:
        """Carry out what both machines want, until nothing is left or the power goes."""
        try:
            while effects := [*self.connection.take(), *self.jobs.take()]:
                for effect in effects:
                    if isinstance(effect, connection.Effect):
                        self._network(effect)
                    else:
                        self._work(effect)
        except PowerCut:
            self._restart()

    def _network(self, effect: connection.Effect) -> None:
        match effect:
            case connection.OpenLink():
                self.link.open(effect.address)
            case connection.Close():
                self.link.close()
            case connection.SendFrame():
                self.link.send(effect.frame)
            case connection.Deliver():
                self._told(effect.message)
            case connection.Trust():
                self.jobs.trust(effect.certificate.job_public, effect.certificate.not_after)
            case connection.Changed():
                self.fleet.note(self.name, f"[{effect.phase}] {effect.reason}".rstrip())
                self.reasons.append(effect.reason)
                if effect.phase is Phase.READY:
                    self.jobs.connected(self.spool.jids())

    def _told(self, message: Mapping[str, Any]) -> None:
        match message["t"]:
            case "job":
                delivery = job_effects.ReceivedPart(
                    message["jid"], message["body"], message["sig"], message["proof"], message["deliver_ms"]
                )
                self.jobs.received(delivery)
            case "cancel":
                self.jobs.cancel(message["jid"])
            case "return_ack":
                for jid in message["jids"]:
                    self.jobs.acknowledged(jid)
            case "grant":
                body = self.spool.read(message["jid"]).body
                for at in range(0, len(body), CHUNK):
                    part = {"t": "return_chunk", "jid": message["jid"], "offset": at, "data": body[at : at + CHUNK]}
                    self.connection.send(part)
            case "fetch":
                self.connection.send(FUNCTIONS)

    def _work(self, effect: job_effects.Effect) -> None:
        match effect:
            case job_effects.Write():
                self.journal.append([Record(effect.step, effect.jid, effect.fields)])
                if not effect.lazy:
                    self.journal.sync()
            case job_effects.Fork():
                self.processes[effect.jid] = 4000 + len(self.fleet.entered)
                self.jobs.forked(effect.jid, self.processes[effect.jid], 1)
            case job_effects.Go():
                self.fleet.note(self.name, "enters the function")
                self.fleet.entered[effect.jid, self.name] += 1
            case job_effects.Kill():
                if self.processes.pop(effect.jid, None) is not None:
                    self.jobs.exited(effect.jid, left_result=False, how="signal 15")
            case job_effects.KeepResult():
                result = SpoolEntry(effect.state, effect.code, b"", effect.start_ms, effect.dur_ms, effect.reason)
                self.spool.write(effect.jid, result)
            case job_effects.Forget():
                self.spool.remove(effect.jid)
            case job_effects.Tell():
                self.connection.send(
                    {"t": "job_state", "jid": effect.jid, "state": effect.state, "reason": effect.reason}
                )
            case job_effects.Offer():
                self._offer(effect.jid)

    def _offer(self, jid: str) -> None:
        if self.connection.phase is not Phase.READY:
            return
        entry = self.spool.read(jid)
        whole = len(entry.body) <= CHUNK
        self.connection.send(
            {
                "t": "return",
                "jid": jid,
                "state": entry.state,
                "code": entry.code,
                "body": entry.body if whole else b"",
                "size": len(entry.body),
                "start_ms": entry.start_ms,
                "dur_ms": entry.dur_ms,
                "reason": entry.reason,
            }
        )


class Fleet:
    """One master, any number of minions, one network, one clock."""

    def __init__(self, fate: Callable[[Flight], Fate] = lambda _flight: Fate.DELIVER) -> None:
        self.clock = ManualClock(seed=7, wall=NOW)
        self.network = MemoryNetwork(fate)
        self.entered: Counter[tuple[str, str]] = Counter()
        self.notes: list[tuple[str, str]] = []
        self.minions: dict[str, Minion] = {}
        self.master = Master(self)

    def note(self, who: str, what: str) -> None:
        """One line of the trace."""
        self.notes.append((who, what))

    def minion(self, name: str = "web1", *, token: bytes | None = None, fleet_key: bytes | None = FLEET) -> Minion:
        """A new minion, on its way to the master; without a word about its token, it proves that it has TOKEN."""
        proof = good_token(name) if token is None else token
        self.minions[name] = Minion(self, name, token=proof, fleet_key=fleet_key)
        return self.minions[name]

    def ready(self, name: str = "web1") -> Minion:
        """A new minion that has joined."""
        minion = self.minion(name)
        self.settle()
        assert minion.phase() is Phase.READY
        return minion

    def settle(self) -> None:
        """Move frames until the network is quiet; no time passes."""
        while self.network.deliver():
            pass

    def run(self, seconds: float) -> None:
        """Let time pass, from one deadline to the next."""
        self.settle()
        until = self.clock.monotonic() + seconds
        while True:
            machines: list[Master | Minion] = [self.master, *self.minions.values()]
            moment = min(machine.deadline() for machine in machines)
            if moment > until:
                break
            self.clock.advance(max(0.0, moment - self.clock.monotonic()) + 1e-6)
            for machine in machines:
                machine.tick()
            self.settle()
        self.clock.advance(max(0.0, until - self.clock.monotonic()))


# -- A manager, and minions that may say anything to it: for the tests of the master's side.


JID = "20270115080000000000"
JID2 = "20270115080000000001"


def jid(number: int) -> str:
    return f"{int(JID) + number:020d}"


class SessionRig:
    """A session manager, and the effects that it asked for."""

    def __init__(self, *, per_address: float = 100_000.0, leased: bool = False) -> None:
        self.clock = ManualClock(seed=5, wall=NOW)
        self.manager: SessionManager = make_manager(self.clock, per_address=per_address, leased=leased)
        self.done: list[Effect] = []
        self.peers = 0

    def take(self) -> list[Effect]:
        effects = self.manager.take()
        self.done += effects
        return effects

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.manager.tick()

    def refused(self) -> Mapping[str, int]:
        return self.manager.refused_frames

    def join(self, name: str, state: str = "accepted", *, boot: str = "b") -> Peer:
        """A peer whose key was decided about."""
        peer = Peer(self, name)
        peer.prove(boot=boot)
        peer.decided(state)
        return peer


class Peer:
    """The minion's end of one connection. It may send any frame."""

    def __init__(self, rig: SessionRig, name: str, *, address: str = "10.0.0.9") -> None:
        self.rig = rig
        self.name = name
        rig.peers += 1
        self.number = rig.peers
        self.route = b"\0" + self.number.to_bytes(4, "big")
        self.address = address
        self.private = seed(f"key of {name}")
        self.key = fingerprint(public_of(self.private))
        self.session: SecureSession | None = None

    def raw(self, frame: bytes) -> None:
        is_data = frame.startswith(b"\x02\x04")
        number, address = (-1, "") if is_data else (self.number, self.address)
        self.rig.manager.frame(self.route, number, address, frame)

    def hello(self) -> bytes:
        """Send HELLO; the frame that comes back, b"" for none."""
        entropy = self.rig.clock.entropy(32)
        self.handshake = Handshake(Role.INITIATOR, private_key(self.private), frames.prologue(FLEET), entropy)
        self.raw(frames.hello(self.handshake.write(b""), FLEET))
        return next((effect.frame for effect in self.mine()), b"")

    def auth(self, **changed: Any) -> bytes:
        """The AUTH frame, after a HELLO that was answered."""
        said = {
            "id": self.name,
            "boot": "b",
            "incarnation": "i",
            "version": "1",
            "functions": "",
            "token": b"",
            **changed,
        }
        return frames.auth(self.handshake.write(codec.encode(said)))

    def prove(self, **said: Any) -> None:
        answer = frames.parse(self.hello())
        assert isinstance(answer, frames.ReplyFrame)
        self.handshake.read(answer.message)
        self.raw(self.auth(**said))
        self.session = SecureSession(self.handshake)

    def decided(self, state: str) -> None:
        assert self.session is not None
        self.rig.manager.decided(self.session.id, state, self.name)

    def seal(self, message: Mapping[str, Any]) -> bytes:
        assert self.session is not None
        return self.session.seal(codec.encode(message))

    def say(self, message: Mapping[str, Any]) -> None:
        self.raw(self.seal(message))

    def mine(self) -> list[Send]:
        return [e for e in self.rig.take() if isinstance(e, Send) and e.route == self.route]

    def heard(self) -> list[Any]:
        """What the manager said to this peer since anything was taken last."""
        assert self.session is not None
        return [codec.decode(self.session.open(send.frame)) for send in self.mine()]

    @property
    def alive(self) -> bool:
        """Whether the manager still answers in this session."""
        self.rig.take()
        self.say({"t": "heartbeat", "running": [], "spool": 0})
        self.rig.manager.tick()
        return self.heard() == [{"t": "heartbeat_ack"}]


def of(kind: type[Any], effects: Sequence[object]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def delivery(number: int, rig: SessionRig, size: int = 10) -> Delivery:
    return Delivery(jid(number), b"b" * size, b"s" * 64, [], rig.clock.monotonic() + 60.0)


MESSAGES: dict[str, dict[str, Any]] = {
    "heartbeat": {"running": [JID], "spool": 3},
    "job_state": {"jid": JID, "state": "received", "reason": ""},
    "return": {
        "jid": JID,
        "state": "returned",
        "code": 0,
        "body": b"\xc0",
        "size": 1,
        "start_ms": 0,
        "dur_ms": 0,
        "reason": "",
    },
    "functions": {name: value for name, value in FUNCTIONS.items() if name != "t"},
    "return_chunk": {"jid": JID, "offset": 0, "data": b"x"},
    "digest": {"grains": "", "resources": ""},
    "doc_put": {"n": 1, "kind": "grains", "size": 1, "sha256": b"h" * 32, "offset": 0, "data": b"x"},
    "doc_get": {"n": 1, "kind": "pillar", "sha256": b"", "offset": 0, "nonce": b""},
    "file_request": {"n": 1, "operation": "read", "env": "base", "path": "a/b", "after": "", "offset": 0, "nonce": b""},
    "file_put": {"n": 1, "path": "a/b", "size": 1, "sha256": b"h" * 32, "offset": 0, "data": b"x"},
    "ask": {"n": 1, "what": "publish", "data": b"x", "sha256": b"", "offset": 0, "nonce": b""},
    "event": {"n": 1, "tag": "app/deployed", "data": b"\x80", "jid": JID},
    "bye": {"reason": ""},
    "welcome": {"state": "accepted", "heartbeat_ms": 15_000},
    "state": {"state": "accepted"},
    "heartbeat_ack": {},
    "probe": {},
    "job": {"jid": JID, "resources": [], "body": b"b", "sig": b"s" * 64, "proof": [], "deliver_ms": 1},
    "cancel": {"jid": JID},
    "return_ack": {"jids": [JID]},
    "grant": {"jid": JID},
    "fetch": {"what": "grains"},
    "response": {
        "n": 1,
        "state": "ok",
        "size": 1,
        "sha256": b"",
        "mode": 0,
        "mtime": 0,
        "data": b"x",
        "names": [],
        "more": False,
        "sig": b"",
    },
    "reconnect": {"spread_ms": 1},
    "directory": {"content": b"\x90", "sig": b"s" * 64},
    "move": {"to": "", "spread_ms": 1},
}
