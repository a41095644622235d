"""A master in the simulation: the real link process, MWorkers and maintenance on a store that survives like a disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from saltlite.errors import StoreError
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes import link_channel as linkchannel
from saltlite.master.processes import mworker
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity
from saltlite.master.processes.link import LinkProcess
from saltlite.master.processes.maintenance import Maintenance
from saltlite.master.processes.master_rows import MasterRows
from saltlite.master.processes.membership import DirectorySigner, Membership
from saltlite.master.protocol.effects import Effect, MinionReport, Send
from saltlite.master.protocol.handshakes import Handshakes
from saltlite.master.protocol.session_manager import SessionManager
from saltlite.master.protocol.sharing import sharing
from saltlite.master.store.database_clock import DatabaseClock
from saltlite.master.store.ports import ReturnCommit, Stored
from saltlite.master.store.sharing import MasterRow, MasterState, SharedWriter
from saltlite.model.clock import Clock
from saltlite.model.keys import Fingerprint, KeyState, fingerprint
from saltlite.platform.stream import Peer
from saltlite.resources.registry.registry import MemoryRows
from saltlite.testing import memory_store
from saltlite.testing.banks import MemoryCache
from saltlite.testing.link import MemoryServerLink
from saltlite.testing.memory_tables import Tables
from saltlite.wire.certificates import CertificateContent, MasterCertificate, issue
from saltlite.wire.framing import unpack
from saltlite.wire.noise import public_of
from tests.simulation.universe import Died, End, Process, SimChannel, SimClock, SimReactor
from tests.support.files import no_files
from tests.support.guarantees import OPEN
from tests.support.inventory import inventory
from tests.support.keys import DAY, FLEET, FLEET_PRIVATE, FLEET_PUBLIC, NOW, ed25519_public, seed

if TYPE_CHECKING:
    from tests.simulation.fleet import Fleet

ROOT = Peer(pid=1, uid=0, gid=0)
TERMS = HandlerConfig(timeout_s=5.0, deliver_s=60.0, operators=frozenset({0}))
KEEP_S = 30.0 * DAY


@cache
def certificate_of(name: str) -> MasterCertificate:
    """The certificate of the master of that name: good for the days around NOW that clocks can jump."""
    return issue(
        FLEET_PRIVATE,
        CertificateContent(
            static_public=public_of(seed(name)),
            job_public=ed25519_public(seed(f"jobs of {name}")),
            name=name,
            serial=1,
            epoch=1,
            not_before=int(NOW) - 10 * DAY,
            not_after=int(NOW) + 70 * DAY,
        ),
    )


class SimStore(memory_store.MemoryStore):
    """The store of one process: notes what is committed, and is where its disk or database fails and its process
    dies."""

    def __init__(self, owner: SimMaster, reactor: SimReactor) -> None:
        super().__init__(owner.disk)
        self._owner = owner
        self._reactor = reactor

    @property
    def _tables(self) -> Tables:
        if self._owner.is_cut_off:
            raise StoreError("the database cannot be reached")
        return super()._tables

    def clock(self) -> float:
        if self._owner.is_cut_off:
            raise StoreError("the database cannot be reached")
        return NOW + self._owner.fleet.universe.now - 1_000.0

    def listen(self) -> SimCommitSignal:
        """A signal that may be late, and may miss a commit."""
        signal = SimCommitSignal(self._reactor)
        self._owner.disk.signals.append(signal)
        return signal

    @contextmanager
    def write(self, *, appends_only: bool = False) -> Iterator[SharedWriter]:
        """One transaction, with the faults that its master has planned."""
        owner = self._owner
        if owner.store_fails:
            raise StoreError("the store cannot be written: No space left on device")
        before = owner.disk.tables
        commits: list[tuple[ReturnCommit, Stored]] = []
        with super().write(appends_only=appends_only) as writer:
            yield _recording(writer, commits)
            owner.crash("before commit")
            if commits:
                owner.crash("before returns")
        owner.note_commit(before, commits)
        owner.crash("after commit")
        if commits:
            owner.crash("after returns")
        if owner.loses_answer():
            raise StoreError("the connection to the database was lost during the commit")


class SimCommitSignal(memory_store.MemoryCommitSignal):
    """The notifications of a database to one process."""

    def __init__(self, reactor: SimReactor) -> None:
        self._reactor = reactor
        self._number = reactor.process.universe.descriptor()

    def fileno(self) -> int:
        return self._number

    def send(self) -> None:
        process = self._reactor.process
        random = process.universe.random
        heard = self._reactor.readers.get(self._number)
        if heard is not None and process.alive and random.random() < 0.9:
            process.universe.after(random.choice((0.001, 0.001, 0.01, 0.1)), heard, process)

    def clear(self) -> None:
        """It was noticed."""

    def close(self) -> None:
        """Nobody listens."""


class SimSessions(SessionManager):
    """The session manager, with a note of what it sends or reports of a key after a command has revoked it (S5)."""

    def __init__(self, owner: SimMaster, handshakes: Handshakes) -> None:
        mine = sharing(owner.clock, handshakes.certificate) if owner.shares else None
        super().__init__(handshakes, owner.clock, mine)
        self._owner = owner

    def take(self) -> list[Effect]:
        effects = super().take()
        for effect in effects:
            peer = self.sessions.by_number.get(effect.session) if isinstance(effect, Send) else None
            if peer is not None and peer.state is KeyState.ACCEPTED:
                self._owner.note_action(peer.fingerprint, "sent a frame to")
            elif isinstance(effect, MinionReport):
                self._owner.note_action(effect.fingerprint, "took a report of")
        return effects


def _recording(writer: SharedWriter, commits: list[tuple[ReturnCommit, Stored]]) -> SharedWriter:
    put = writer.put_returns

    def put_returns(asked: Sequence[ReturnCommit], now: float) -> list[Stored]:
        outcomes = put(asked, now)
        commits.extend(zip(asked, outcomes, strict=True))
        return outcomes

    setattr(writer, "put_returns", put_returns)  # noqa: B010 - a method of one object, which mypy does not allow
    return writer


class Listener:
    """The clients' socket that all MWorkers of a master share. The supervisor holds it: who comes early waits."""

    def __init__(self, owner: SimMaster) -> None:
        self._accepting: dict[Process, Callable[[End, Peer], None]] = {}
        self._backlog: list[End] = []
        self._owner = owner

    def accept(self, client: End) -> None:
        """A client connects; some MWorker takes it."""
        self._backlog.append(client)
        self._take()

    def serve(self, process: Process, on_accept: Callable[[End, Peer], None]) -> None:
        """That MWorker takes clients from here on."""
        self._accepting[process] = on_accept
        process.on_death.append(lambda: self._accepting.pop(process, None) and None)
        self._take()

    def close(self) -> None:
        """The master is off."""
        backlog, self._backlog = self._backlog, []
        for client in backlog:
            client.arrive([None])

    def _take(self) -> None:
        universe = self._owner.fleet.universe
        while self._backlog and self._accepting:
            client = self._backlog.pop(0)
            free = [process for process in self._accepting if process.stopped_until <= universe.now]
            process = universe.random.choice(free or list(self._accepting))
            end = End(universe, process)
            end.join(client)
            on_accept = self._accepting[process]
            universe.at(universe.now, partial(on_accept, end, ROOT), process)


class SimAcceptor:
    """`saltlite.platform.stream.Acceptor`."""

    def __init__(self, reactor: SimReactor, listener: Listener, on_accept: Callable[[End, Peer], None]) -> None:
        listener.serve(reactor.process, on_accept)

    def released(self) -> None:
        """A client is gone; nobody counts here."""


class SimMaster:
    """One master machine."""

    def __init__(self, fleet: Fleet, name: str, *, mworkers: int, shared: SimMaster | None, shares: bool) -> None:
        """`shares`: it shares its store with other masters, of which `shared` is the first."""
        self.fleet = fleet
        self.name = name
        self.address = f"{name}:4515"
        self.clock = SimClock(fleet.universe, NOW + fleet.universe.random.random())
        self.shares = shares
        self.disk: memory_store.MemoryStoreDisk = (
            shared.disk if shared else memory_store.MemoryStoreDisk(store_id=seed(name).hex()[:32])
        )
        # Every master has all that is registered, as if each followed the tables of the others at once.
        self.rows: MemoryRows = shared.rows if shared else MemoryRows()
        self.cache: MemoryCache = shared.cache if shared else MemoryCache(self.clock.wall)
        self.revoked: set[Fingerprint] = shared.revoked if shared else set()
        """Keys that a command has revoked, and has said so."""
        self.store_fails = False
        self.is_cut_off = False
        """Whether it cannot reach the database."""
        self._answers_lost = 0
        self.on = False
        self.processes: dict[str, Process] = {}
        self.server: MemoryServerLink | None = None
        self._mworkers = mworkers
        self._crash_at = ""
        self._crash_in = 0
        self._crash_power = False
        self._clients = Listener(self)
        self.start()

    # -- life

    def start(self) -> None:
        """Power on."""
        self.on = True
        self.fleet.universe.listeners[f"{self.name}/clients"] = self._clients.accept
        self._number = self.fleet.universe.random.getrandbits(31)
        kinds = ("link", *(f"mworker-{number}" for number in range(self._mworkers)), "maintenance")
        for kind in (*kinds, *(("membership",) if self.shares else ())):
            self._start(kind)

    def _start(self, kind: str) -> None:
        if not self.on:
            return
        process = self.processes[kind] = Process(self.fleet.universe, f"{self.name} {kind}", self._died)
        process.suspended_s = self.clock.suspended_s
        others = {"link": self._link, "maintenance": self._maintenance, "membership": self._membership}
        begin = others.get(kind, self._mworker)
        process.run(lambda: begin(process))

    def _died(self, process: Process, power: bool) -> None:
        self.fleet.say(process.name, "dies" if not power else "dies with its machine")
        if power:
            self.power_off(self.fleet.universe.random.choice((0.3, 3.0, 30.0)))
            return
        kind = process.name.removeprefix(f"{self.name} ")
        pause = self.fleet.universe.random.choice((0.05, 0.05, 1.0, 5.0))
        self.fleet.universe.after(pause, lambda: self._start(kind) if not self.processes[kind].alive else None)

    def power_off(self, seconds: float) -> None:
        """Everything of it stops at once, and it comes back after so long."""
        if self.on:
            self.on = False
            del self.fleet.universe.listeners[f"{self.name}/clients"]
            self._clients.close()
            for process in self.processes.values():
                if process.alive:
                    process.end()
            self.fleet.universe.after(seconds, lambda: None if self.on else self.start())

    def suspend(self, seconds: float) -> None:
        """The machine is suspended, as a virtual machine is paused: it stands still, and its monotonic clock does."""
        self.clock.suspended_s += seconds
        for process in self.living():
            process.stopped_until = self.fleet.universe.now + seconds
            process.suspended_s += seconds

    def plan_crash(self, where: str, later: int, *, power: bool) -> None:
        """Die at the transaction (or the one with returns) after so many others, before or after its commit."""
        self._crash_at, self._crash_in, self._crash_power = where, later, power

    def crash(self, where: str) -> None:
        """A crash point."""
        if self._crash_at == where:
            self._crash_in -= 1
            if self._crash_in >= 0:
                return
            self._crash_at = ""
            raise Died(power=self._crash_power)

    def living(self) -> list[Process]:
        """Its processes that can be stopped or killed."""
        return [process for process in self.processes.values() if process.alive]

    def calm(self) -> None:
        """Nothing of it breaks any more."""
        self._crash_at = ""
        self.store_fails = self.is_cut_off = False
        self._answers_lost = 0

    def lose_answers(self, count: int) -> None:
        """The connection to the database is lost during so many commits, which happen."""
        self._answers_lost = count

    def loses_answer(self) -> bool:
        """Whether the answer to this commit is lost."""
        self._answers_lost -= self._answers_lost > 0 and self.fleet.universe.random.random() < 0.5
        return self._answers_lost > 0

    # -- processes

    def _link(self, process: Process) -> None:
        reactor: Any = SimReactor(process)
        manager = SimSessions(
            self,
            Handshakes(
                fleet_public=FLEET_PUBLIC,
                certificate=certificate_of(self.name).encode(),
                private=seed(self.name),
                handshakes_per_address=1000.0,
                clock=self.clock,
            ),
        )

        def make_link(owner: LinkProcess) -> MemoryServerLink:
            def on_frame(route: bytes, connection: int, address: str, frame: bytes) -> None:
                process.soon(lambda: owner.on_frame(route, connection, address, frame))

            def on_hangup(connection: int) -> None:
                process.soon(lambda: owner.on_hangup(connection))

            return self.fleet.network.server(on_frame, on_hangup, address=self.address)

        link = LinkProcess(reactor, manager, make_link)
        universe, path = self.fleet.universe, f"{self.name}/link"

        def accept(client: End) -> None:
            end = End(universe, process)
            end.join(client)

            def make_channel(on_batch: Callable[[list[bytes]], None], on_close: Callable[[str], None]) -> Any:
                return SimChannel(reactor, end, on_batch, on_close)

            link.add_mworker(make_channel, lambda: None)

        universe.listeners[path] = accept

        def gone() -> None:
            universe.listeners.pop(path, None)
            link.close()

        process.on_death.append(gone)

    def _mworker(self, process: Process) -> None:
        reactor: Any = SimReactor(process)
        certificate = certificate_of(self.name)
        who = MasterIdentity(fingerprint(certificate.fleet_public), certificate, seed(f"jobs of {self.name}"))
        store = SimStore(self, reactor)
        listener: Any = self._clients

        def make_master(link: linkchannel.LinkChannel) -> Master:
            shared = store if self.shares else None
            return Master(
                store, self._clock_of(store), who, TERMS, link, *inventory(self.rows, self.cache), shared=shared
            )

        serving = mworker.MWorker(reactor, make_master, no_files(reactor), self._link_place())
        serving.serve(listener)

    def _link_place(self) -> linkchannel.LinkAddress:
        return linkchannel.LinkAddress(f"{self.name}/link", 0)

    def _clock_of(self, store: SimStore) -> Clock:
        """The clock by which a process of it writes times into the store."""
        return DatabaseClock(self.clock, store) if self.shares else self.clock

    def _maintenance(self, process: Process) -> None:
        reactor: Any = SimReactor(process)
        link = linkchannel.LinkChannel(reactor, self._link_place(), ipc.MAINTENANCE, lambda _batch: None)
        me = self.name if self.shares else ""
        store = SimStore(self, reactor)
        Maintenance(reactor, store, self._clock_of(store), keep_s=KEEP_S, link=link, me=me)

    def _membership(self, process: Process) -> None:
        reactor: Any = SimReactor(process)
        certificate = certificate_of(self.name)

        def answered(batch: list[bytes]) -> None:
            for message in map(unpack, batch):
                link.answered(message["n"], message)

        link = linkchannel.LinkChannel(reactor, self._link_place(), ipc.MEMBERSHIP, answered)
        me = MasterRow(
            name=self.name,
            start=self._number,
            certificate=certificate.encode(),
            address=self.address,
            version="1.0",
            state=MasterState.JOINING,
            applied=0,
        )
        signer = DirectorySigner(
            seed(f"jobs of {self.name}"),
            certificate.job_public,
            MasterRows([FLEET]),
            lists_masters=self.fleet.lists_masters,
        )
        store = SimStore(self, reactor)
        Membership(reactor, store, self._clock_of(store), link, me, signer)

    # -- what the history is told

    def note_action(self, key: Fingerprint, what: str) -> None:
        """It acted on a session of that key, which must not be after a command has revoked it (S5)."""
        record = self.disk.tables.keys.get(key)
        if key in self.revoked and record is not None and record.state is KeyState.REVOKED:
            self.fleet.history.note("acted", who=self.name, what=what, minion=self.fleet.owner_of(key))

    def note_commit(self, before: Any, commits: Sequence[tuple[ReturnCommit, Stored]]) -> None:
        """A transaction was committed: which targets ended, and which returns are stored now."""
        after = self.disk.tables
        told: set[tuple[str, str]] = set()
        for commit, outcome in commits:
            jid, minion = commit.ret.jid, commit.ret.id
            if outcome is Stored.NEW:
                row = after.targets.get(jid, {}).get(minion)
                state = str(row.state if row is not None else commit.ret.state)
                told.add((jid, minion))
                sender = self.fleet.owner_of(commit.fingerprint)
                self.note_action(commit.fingerprint, "stored a return of")
                self.fleet.history.note("stored", jid=jid, minion=minion, sender=sender, state=state, ret=True)
        for jid, rows in after.targets.items():
            if rows is before.targets.get(jid):
                continue
            for minion, row in rows.items():
                old = before.targets.get(jid, {}).get(minion)
                if row.state not in OPEN and old is not row and (jid, minion) not in told:
                    state = str(row.state)
                    self.fleet.history.note("stored", jid=jid, minion=minion, sender="", state=state)

    def note_final(self) -> None:
        """What the store holds at the end."""
        tables = self.disk.tables
        for jid, job in tables.jobs.items():
            returns = tables.returns.get(jid, {})
            self.fleet.history.note(
                "final",
                jid=jid,
                request=job.request_id,
                targets={minion: str(row.state) for minion, row in tables.targets[jid].items()},
                owners={srn: owner for owner, srns in job.resources.items() for srn in srns},
                returns=dict.fromkeys(returns, 1),
                digests={minion: ret.body.hex()[:64] for minion, ret in returns.items()},
            )

    def open_rows(self) -> list[str]:
        """Every target that has not come to an end, in words."""
        tables = self.disk.tables.targets.items()
        return [f"{jid} {row.id} {row.state}" for jid, rows in tables for row in rows.values() if row.state in OPEN]
