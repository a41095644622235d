"""A minion in the simulation: the real job server and network process, on a disk that forgets what was not synced.

The process of a job is a row here: it is entered, returns or dies as chance has it, writes its result with the real
spool, and outlives its job server. The names that `saltlite.minion.jobs.job_server` gets its processes by are
replaced by
those at the end of this file (`stage` puts them there).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import JournalError, UnwrittenError
from saltlite.loader.index import Index, ModuleFile
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import SHIPPED, Form
from saltlite.minion.jobs.job_process import (
    AGAIN,
    DONE,
    HELD_RESULT_MAX,
    LAST,
    UNHEARD_S,
    WRITTEN,
    JobContext,
    JobSpec,
    _report,
)
from saltlite.minion.jobs.job_server import JobServer, JobStorage
from saltlite.minion.jobs.journal import DiskJournal, RunCounter
from saltlite.minion.jobs.results import SYNC_S
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.jobs.spool import DiskSpool
from saltlite.minion.processes.network import MasterConnection, NetworkProcess
from saltlite.minion.protocol.connection import ConnectionMachine, MinionIdentity, Phase
from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.minion.protocol.jobs import JobMachine, MasterTrust
from saltlite.model.job import TargetState, is_resource_part, is_segment_id, part_of_segment, split_part
from saltlite.model.keys import fingerprint, fingerprint_bytes
from saltlite.testing.disk import JOURNAL_FOLDER, SPOOL_FOLDER, MemoryDisk, nothing_landed
from saltlite.wire.directory import NOWHERE, Directory
from saltlite.wire.framing import unpack
from saltlite.wire.limits import CHUNK, RETURN_MAX
from saltlite.wire.messages import decode_segment
from saltlite.wire.noise import public_of
from tests.simulation.resources import SimRuns, TypeProcess, managed_by, registration
from tests.simulation.universe import Died, End, Process, SimChannel, SimClock, SimReactor
from tests.support.keys import FLEET_PUBLIC, FUNCTIONS, NOW, good_token, seed

if TYPE_CHECKING:
    from tests.simulation.fleet import Fleet

SIGKILL = 9
LATE_S = 0.05
"""How long the job server may be busy when a sync is due."""
START_S = 0.02
"""From the start of the daemon to its grains."""


class SimSpool(DiskSpool):
    """The spool, with a note in the history when a result is in it (G6 counts from there)."""

    def __init__(self, owner: SimMinion) -> None:
        super().__init__(owner.disk.folder(SPOOL_FOLDER))
        self._owner = owner

    def write(self, jid: str, result: SpoolEntry, *, sync: bool = True) -> bool:
        kept = super().write(jid, result, sync=sync)
        if kept and not sync:
            self._owner.unsynced[jid] = self._owner.universe.now
        if kept and is_segment_id(jid):
            job = split_part(part_of_segment(jid))[0]
            for row in decode_segment(result.body):
                if row.state is not TargetState.REFUSED:
                    digest = row.body.hex()[:64]
                    self._owner.note("spooled", jid=job, minion=row.srn, digest=digest, on=self._owner.name)
        elif kept and not is_resource_part(jid):
            self._owner.note("spooled", jid=jid, digest=result.body.hex()[:64])
        return kept

    def remove(self, jid: str) -> None:
        super().remove(jid)
        self._owner.unsynced.pop(jid, None)

    def _promote(self, jid: str) -> None:
        super()._promote(jid)
        self._owner.synced.append(jid)

    def sync(self, jids: Iterable[str]) -> dict[str, str]:
        failed = super().sync(jids)
        self._owner.all_synced()
        return failed

    def sync_in_place(self, jid: str) -> None:
        super().sync_in_place(jid)
        self._owner.unsynced.pop(jid, None)

    def open(self) -> None:
        super().open()
        self._owner.all_synced()


class SimMinion:
    """One minion machine."""

    def __init__(
        self, fleet: Fleet, name: str, masters: tuple[str, ...], number: int, copy_of: SimMinion | None = None
    ) -> None:
        """`copy_of`: its disk is a copy of the disk of that machine, with its key and its journal."""
        self.fleet = fleet
        self.universe = fleet.universe
        self.name = name
        self.clock = SimClock(fleet.universe, NOW + fleet.universe.random.random())
        self.disk: MemoryDisk = (
            MemoryDisk(before=self._before) if copy_of is None else copy_of.disk.copied(self._before)
        )
        self.disk_error = 0
        self.unsynced: dict[str, float] = {}
        """Results that a power failure takes, and when each was written."""
        self.synced: list[str] = []
        """Those of them that are synced, under a name that is not."""
        self.jobs_running: dict[int, JobRow | TypeProcess] = {}
        self.managed = managed_by(name, fleet.resources_each())
        self.reactor: SimReactor | None = None
        self.server: JobServer | None = None
        self.network: NetworkProcess | None = None
        self.daemon: Process | None = None
        self.link: Process | None = None
        self.key = seed(f"key of {name}")
        self.large = fleet.universe.random.random() < 0.15
        self.patient = True
        """Whether functions may take long, or for ever."""
        self._masters = masters
        self.directory = NOWHERE
        """The masters that it keeps on its disk."""
        self.ip = f"10.0.{number // 250}.{number % 250 + 1}"
        self._crash_in = -1
        self._crash_power = False
        self._pids = 4000 if copy_of is None else 9000
        self._on = False
        self._serves_since = 0.0
        self.boot()

    # -- life

    def boot(self) -> None:
        """Power on, or systemd starts the daemon again."""
        self._on = True
        self.daemon = Process(self.universe, f"{self.name} job server", self._daemon_died, self)
        process = self.daemon
        process.run(lambda: self._serve(process))

    def _serve(self, process: Process) -> None:
        reactor: Any = SimReactor(process)
        self.reactor = reactor
        journal = DiskJournal(self.disk.folder(JOURNAL_FOLDER), entropy=self.clock.entropy)
        surroundings = JobContext(
            opts={"minion": self, "job_processes": "reuse"},
            grains={},
            index=lambda: _NO_MODULES,
            spool_dir="spool",
            returns=Returns(self.name, RETURN_MAX, "kept", 0),
            phase_is=lambda _phase, _reason, _master: None,
        )
        server = JobServer(
            reactor,
            JobMachine(self.name, self.clock, limit=4, longest_s=0.0),
            JobStorage(journal, SimSpool(self), "running", "the disk"),
            self.clock,
            surroundings,
            trust=MasterTrust(
                lambda certificate, _chain, now_s: certificate.verify(fingerprint_bytes(FLEET_PUBLIC), now_s),
                self._keep_masters,
            ),
            fail=lambda sentence: self._fail(process, sentence),
        )
        server.manage_resources(lambda runs: SimRuns(self, reactor, runs))
        try:
            server.replay()
        except JournalError as error:
            self._fail(process, str(error))
            return
        self.server = server
        self._serves_since = self.universe.now
        boot = self.clock.entropy(16).hex()
        reactor.call_later(START_S, server.open)
        reactor.call_later(START_S, lambda: server.documents.resources_are(registration(self.managed)))
        runs = RunCounter(self.disk.folder(JOURNAL_FOLDER))
        reactor.call_later(START_S, lambda: self._start_network(process, journal.incarnation, boot, runs))

    @property
    def connection(self) -> ConnectionMachine | None:
        """Its connection to a master, as long as it has a network process."""
        return self.network._connection if self.network is not None else None

    def _keep_masters(self, known: Directory) -> bool:
        kept = known.after(self.directory, self.clock.wall())
        self.directory = kept or self.directory
        return kept is not None

    def _fail(self, process: Process, sentence: str) -> None:
        self.fleet.say(process.name, f"stops: {sentence}")
        self.universe.at(self.universe.now, process.die, process)

    def _daemon_died(self, process: Process, power: bool) -> None:
        self.fleet.say(process.name, "dies with its machine" if power else "dies")
        if power:
            self.power_off(self.universe.random.choice((0.5, 5.0, 60.0)))
            return
        if self.link is not None and self.link.alive:
            self.link.end()
        # As systemd does it: at once after a kill, and every five seconds when it does not want to start.
        pause = 5.0 if self.disk_error else 0.1
        self.universe.after(pause, lambda: self.boot() if self._on and self.daemon is process else None)

    def power_off(self, seconds: float) -> None:
        """Everything stops, the disk forgets what was not synced; back after so long."""
        if not self._on:
            return
        self._on = False
        self._excuse()
        for process in (self.daemon, self.link, *(row.process for row in self.jobs_running.values())):
            if process is not None and process.alive:
                process.end()
        self.jobs_running.clear()
        random = self.universe.random
        landed = random.choice(("nothing", "all", "some"))

        def tear(unsynced: bytes) -> bytes:
            if landed == "some":
                return unsynced[: random.randrange(len(unsynced) + 1)]
            return unsynced if landed == "all" else nothing_landed(unsynced)

        self.disk.crash(tear=tear, names_landed=random.random() < 0.5)
        self.universe.after(seconds, lambda: None if self._on else self.boot())

    def _excuse(self) -> None:
        """Results that the job server did not have to sync yet may be gone with the power."""
        daemon = self.daemon
        serves = daemon is not None and daemon.alive and self.server is not None
        for jid, written in self.unsynced.items():
            waited_s = self.universe.now - max(written, self._serves_since)
            was_stopped = daemon is not None and daemon.stopped_until > written
            due_s = UNHEARD_S if was_stopped else SYNC_S
            if not serves or waited_s <= due_s + LATE_S or self.disk_error:
                self.note("unsynced", jid=jid)
        self.unsynced.clear()
        self.synced.clear()

    def all_synced(self) -> None:
        """The names of those in `synced` are on disk."""
        for jid in self.synced:
            self.unsynced.pop(jid, None)
        self.synced.clear()

    def new_disk(self) -> None:
        """The disk dies, and the machine comes back with an empty one; the key was elsewhere."""
        self.power_off(2.0)
        self.disk = MemoryDisk(before=self._before)
        self.note("lost_disk")

    def plan_crash(self, operations: int, *, power: bool) -> None:
        """Die before that many further operations of the disk."""
        self._crash_in, self._crash_power = operations, power

    def calm(self) -> None:
        """Nothing of it breaks any more."""
        self._crash_in = -1
        self.disk_error = 0

    def _before(self, operation: str) -> None:
        if self._crash_in >= 0:
            self._crash_in -= 1
            if self._crash_in < 0 and self.universe.current is not None:
                raise Died(power=self._crash_power)
        if self.disk_error and operation in ("write", "sync", "create", "sync folder", "rename"):
            raise OSError(self.disk_error, os.strerror(self.disk_error))

    # -- the network process

    def _start_network(self, daemon: Process, incarnation: str, boot: str, runs: RunCounter) -> None:
        server = self.server
        if not daemon.alive or server is None:
            return

        def died(_process: Process, power: bool) -> None:
            if power:
                self.power_off(5.0)
            else:
                self.universe.after(0.05, lambda: self._start_network(daemon, incarnation, boot, runs), daemon)

        process = self.link = Process(self.universe, f"{self.name} link", died, self)
        ours, theirs = End(self.universe, daemon), End(self.universe, process)
        ours.join(theirs)
        own: Any = self.reactor
        channel: Any = SimChannel(own, ours, lambda batch: self._to_server(server, batch), lambda _r: None)
        server.attach(channel)
        run = runs.next()
        process.run(lambda: self._network(process, theirs, incarnation, boot, run))

    def _to_server(self, server: JobServer, batch: list[bytes]) -> None:
        for data in batch:
            message = unpack(data)
            if message["t"] == "job":
                jid, _number = split_part(message["jid"])
                for target in message["resources"] or [self.name]:
                    self.note("received", jid=jid, minion=target, on=self.name)
        server.on_batch(batch)

    def _network(self, process: Process, end: End, incarnation: str, boot: str, run: int) -> None:
        reactor: Any = SimReactor(process)
        me = MinionIdentity(
            id=self.name,
            private=self.key,
            boot=boot,
            incarnation=incarnation,
            run=run,
            version="1.0",
            functions=FUNCTIONS["digest"],
            token=good_token(self.name),
        )
        fleet = fingerprint_bytes(FLEET_PUBLIC)
        connection = ConnectionMachine(me, self._masters, fleet, self.clock, self.directory)

        def make_link(owner: MasterConnection) -> Any:
            return self.fleet.network.client(
                lambda: process.soon(owner.on_up),
                lambda frame: process.soon(lambda: owner.on_frame(frame)),
                lambda reason: process.soon(lambda: owner.on_down(reason)),
                ip=self.ip,
            )

        network = NetworkProcess(reactor, connection, make_link, FUNCTIONS, key=fingerprint(public_of(self.key)))
        channel: Any = SimChannel(reactor, end, network.on_batch, network.on_closed)
        self.network = network
        process.on_death.append(network.close)
        network.start(channel)

    def lie(self, result: str, body: bytes) -> None:
        """Its network process was taken over, and reports a result that no job of it made."""
        process, network, connection = self.link, self.network, self.connection
        if process is None or network is None or connection is None or not process.alive:
            return
        message = {"t": "return", "jid": result, "state": "returned", "code": 0, "body": body, "size": len(body)}
        message |= {"start_ms": 0, "dur_ms": 0, "reason": ""}

        def tell() -> None:
            connection.send(message)
            network.carry_out()

        process.soon(tell)

    # -- jobs' processes

    def next_pid(self) -> int:
        self._pids += 1
        return self._pids

    def note(self, kind: str, **fields: Any) -> None:
        """Into the history, under this minion's name if no other target is meant."""
        self.fleet.history.note(kind, **{"minion": self.name, **fields})

    def spool(self) -> SimSpool:
        """The spool, for a process that writes into it."""
        return SimSpool(self)

    def is_ready(self) -> bool:
        """Whether it has an accepted session now."""
        lives = self.link is not None and self.link.alive
        return lives and self.connection is not None and self.connection.phase is Phase.READY

    def living(self) -> list[Process]:
        """Its processes that can be killed: the job server, the network process, and those that run something."""
        jobs = [row.process for row in self.jobs_running.values() if row.works]
        return [p for p in (self.daemon, self.link, *jobs) if p is not None and p.alive]

    def let_functions_return(self, within_s: float) -> None:
        """No function runs longer from here on."""
        self.patient = False
        for row in list(self.jobs_running.values()):
            row.hurry(within_s)


class JobRow:
    """The process of a job: `saltlite.minion.jobs.job_process.JobProcess`, and what goes on in it."""

    def __init__(self, minion: SimMinion, reactor: SimReactor, loader: Loader) -> None:
        self.minion = minion
        self.loader = loader
        self.pid = minion.next_pid()
        self.ticks = self.pid * 7
        self.socket = self
        self.call: JobSpec | None = None
        self.process = Process(minion.universe, f"{minion.name} job {self.pid}", self._died)
        self._number = minion.universe.descriptor()
        self._server: SimReactor | None = reactor
        self._watchers: list[tuple[SimReactor, Callable[[int | None], None]]] = []
        self.reusable = False
        self._words: list[bytes] = []
        self._returned = False
        self._is_leaving = False
        self._deaf = False
        minion.jobs_running[self.pid] = self

    @property
    def works(self) -> bool:
        """Whether it is worth killing."""
        return self.call is not None

    def hurry(self, within_s: float) -> None:
        """Its function runs no longer."""
        if self.call is not None:
            self.minion.universe.after(self.minion.universe.random.random() * within_s, self.finish, self.process)

    # -- what the job server sees

    def fileno(self) -> int:
        return self._number

    def receive(self) -> bytes | None:
        """Its next report: DONE, AGAIN, or that the disk did not take the result; b"" when it ended without one."""
        if self._words:
            return self._words.pop(0)
        return None if self.process.alive else b""

    def close(self) -> None:
        self._server = None
        if self.call is None or self._is_leaving:
            self.minion.universe.at(self.minion.universe.now, self.process.die, self.process)

    def load_ahead(self, _module: str) -> None:
        """There are no modules here."""

    def go(self, call: JobSpec) -> None:
        """The job arrives: enter the function."""
        self.call, self._returned = call, False
        self.minion.universe.after(0.0001, lambda: self._enter(call), self.process)

    def watch(self, reactor: SimReactor, callback: Callable[[int | None], None]) -> None:
        """Tell that process when this one has ended."""
        self._watchers.append((reactor, callback))

    def server_died(self) -> None:
        """Nobody holds the other end of its socket: without a job it goes."""
        self._server = None
        if self.call is None and self.process.alive:
            self.process.die()

    def signal(self, signum: int) -> None:
        """killpg."""
        if signum == SIGKILL or not self._deaf:
            self.minion.universe.after(0.001, self.process.die, self.process)

    # -- what goes on in it

    def _enter(self, call: JobSpec) -> None:
        minion, random = self.minion, self.minion.universe.random
        minion.note("entered", jid=call.jid, run=f"{minion.name}/{self.pid}")
        fate = random.choices(("quick", "slow", "hang", "crash"), (70, 20, 4, 6))[0]
        self._deaf = random.random() < 0.2
        seconds = {"quick": random.random() * 0.02, "slow": random.random() * 20.0, "hang": 100_000.0}.get(fate, 0.01)
        if not minion.patient:
            seconds = min(seconds, 1.0)
        minion.universe.after(seconds, self.process.die if fate == "crash" else self.finish, self.process)

    def finish(self) -> None:
        """The function returns."""
        call = self.call
        if call is None or self._returned:
            return
        self._returned = True
        self.minion.note("left", jid=call.jid, run=f"{self.minion.name}/{self.pid}")
        value = f"{call.jid} on {self.minion.name} by {self.pid}".encode()
        if self.minion.large:
            value += bytes(2 * CHUNK)
        entry = SpoolEntry(TargetState.RETURNED, 0, msgpack.packb(value), int(self.minion.clock.wall() * 1000), 1)
        try:
            is_large = len(entry.body) > HELD_RESULT_MAX
            spool = SimSpool(self.minion)
            spool.write(call.jid, entry, sync=is_large)
            if self._server is None:
                spool.sync_in_place(call.jid)
            else:
                self.minion.universe.after(UNHEARD_S, lambda: spool.sync_in_place(call.jid), self.process)
        except UnwrittenError as error:
            self._say(_report(call.jid, entry, error.why))
        except JournalError:
            self.process.die()
            return
        else:
            self._say(DONE if is_large else WRITTEN)
        self.minion.universe.after(0.001, self._go_on, self.process)

    def _go_on(self) -> None:
        """The job is over: most processes are as they were before and take another one, where that is allowed."""
        if self.reusable and self._server is not None and self.minion.universe.random.random() < 0.8:
            self.call = None
            self._say(AGAIN)
            return
        if self.reusable:
            self._say(LAST)
        # It ends when the job server has heard it, or in time.
        self._is_leaving = True
        wait_s = 0.0 if self._server is None else UNHEARD_S + 0.001
        self.minion.universe.after(wait_s, self.process.die, self.process)

    def _say(self, said: bytes) -> None:
        self._words.append(said)
        server = self._server
        if server is not None:
            callback = server.readers.get(self._number)
            if callback is not None:
                self.minion.universe.after(0.0001, self._heard(server), server.process)

    def _heard(self, server: SimReactor) -> Callable[[], None]:
        def heard() -> None:
            callback = server.readers.get(self._number)
            if callback is not None:
                callback()

        return heard

    def _died(self, _process: Process, power: bool) -> None:
        if power:
            self.minion.power_off(5.0)
            return
        self.minion.jobs_running.pop(self.pid, None)
        for reactor, callback in self._watchers:
            self.minion.universe.after(0.0001, _call(callback), reactor.process)


def _call(callback: Callable[[int | None], None]) -> Callable[[], None]:
    return lambda: callback(0)


class _ShippedModules(Index):
    """Every module there is ships with saltlite."""

    def all_claimants(self, name: str) -> Iterator[ModuleFile]:
        return iter([ModuleFile(f"/{name}.py", name, SHIPPED, 0, Form.SOURCE, 0, 0)])


_NO_MODULES = _ShippedModules([], [])


# -- in place of what `saltlite.minion.jobs.job_server` imports


def fork_waiting(surroundings: JobContext) -> JobRow:
    """`saltlite.minion.jobs.job_process.fork_waiting`."""
    minion: SimMinion = surroundings.opts["minion"]
    assert minion.reactor is not None
    row = JobRow(minion, minion.reactor, surroundings.last_loader())
    minion.reactor.process.on_death.append(row.server_died)
    return row


def start_fork_server(_context: JobContext) -> NoReturn:
    """`saltlite.minion.jobs.process_pool.start_fork_server`: the machine has no room for one, and the minion forks."""
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


class SimChild:
    """`saltlite.platform.process.Child`."""

    def __init__(self, reactor: SimReactor, pid: int, on_exit: Callable[[int | None], None]) -> None:
        minion: SimMinion = reactor.process.owner
        self._row = minion.jobs_running[pid]
        self._row.watch(reactor, on_exit)

    def signal(self, signum: int) -> None:
        """To that process alone."""
        self._row.signal(signum)


class SimProcesses:
    """What the job server asks the kernel about processes, on the machine of the process that asks."""

    def __init__(self, current: Callable[[], Process | None]) -> None:
        self._current = current

    def start_ticks(self, pid: int) -> int | None:
        """`saltlite.platform.process.start_ticks`."""
        row = self._row(pid)
        return None if row is None else row.ticks

    def tree(self, leader: int) -> SimProcesses._Tree:
        """`saltlite.platform.process.ProcessTree`."""
        return self._Tree(self._row(leader))

    def _row(self, pid: int) -> JobRow | TypeProcess | None:
        process = self._current()
        minion: SimMinion | None = process.owner if process is not None else None
        return minion.jobs_running.get(pid) if minion is not None else None

    class _Tree:
        def __init__(self, row: JobRow | TypeProcess | None) -> None:
            self._row = row

        def signal(self, signum: int) -> None:
            if self._row is not None:
                self._row.signal(signum)


class NoNotes:
    """`saltlite.minion.jobs.job_process.RunningNotes`: nobody lists the running jobs here."""

    def __init__(self, _folder: str) -> None: ...

    def only(self, _jids: Collection[str]) -> None: ...

    def note(self, _call: JobSpec, _pid: int, _started: float) -> None: ...

    def forget(self, _jid: str) -> bool:
        return True
