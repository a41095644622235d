"""The job server: carries out what the jobs machine decides, with journal, spool and processes.

It is the minion's first process and its only lasting one with rights. It runs no module code: modules are
imported in the process of a job, where a broken one ends nothing else.
"""

from __future__ import annotations

import json
import logging
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from saltlite.adapters.children import how
from saltlite.adapters.packing import Inside, pack, unpack
from saltlite.adapters.process import Child, start_ticks
from saltlite.adapters.reactor import Reactor, Timer
from saltlite.adapters.stream import Channel
from saltlite.core.job_effects import (
    Effect,
    Forget,
    Fork,
    Go,
    Keep,
    Kill,
    Offer,
    Parcel,
    Remembered,
    Tell,
    Write,
)
from saltlite.core.jobs import Jobs
from saltlite.core.minion_ports import Journal, JournalEntry, Record, Spool, SpoolEntry, Step
from saltlite.core.ports import Clock
from saltlite.errors import JournalError, ProtocolError
from saltlite.minion import inside
from saltlite.minion.jobprocess import DONE, JobCall, JobProcess, Surroundings, fork_waiting
from saltlite.model.job import TargetState
from saltlite.wire.certificate import BUILD_DATE_S, MasterCertificate
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import Message, Sender, check

log = logging.getLogger(__name__)

SPARES_MAX = 8
"""Processes made in advance at once while jobs come fast: after each fork the job server has to copy every page
that it writes to, and several forks in a row share that cost."""
SPARES_SOON_S = 0.5
"""Spares that were used up sooner than this are replaced by twice as many."""
SPARES_IDLE_S = 5.0
"""After so long without a new one, all spares but one are let go."""
STATUS_S = 1.0
"""Heartbeats are seconds apart: what they report need not be fresher."""
RUNNING_S = 0.03
"""That a job runs is told, and noted for `saltutil.running`, after so long; most jobs have returned by then, and their
return says it all."""
OFFERS_OPEN = 32
"""Results handed to the network process and not acknowledged; the rest wait in the spool."""


@dataclass(frozen=True, slots=True)
class Disk:
    """What the job server keeps on disk. `running_dir` has one file a running job, for `saltutil.running`."""

    journal: Journal
    spool: Spool
    running_dir: str


class JobServer:
    """Joins the jobs machine, the disk, the processes of jobs and the network process.

    `fleet_of` answers the pinned fleet fingerprint (25 bytes) for a certificate that a master showed, or raises
    RemoteProtocolError. `stop` is called when the journal cannot be written: what cannot be remembered must not
    be run, so the daemon ends and says why.
    """

    def __init__(
        self,
        reactor: Reactor,
        jobs: Jobs,
        disk: Disk,
        clock: Clock,
        surroundings: Surroundings,
        *,
        fleet_of: Callable[[MasterCertificate], bytes],
        fail: Callable[[str], None],
    ) -> None:
        self._reactor = reactor
        self._jobs = jobs
        self._disk = disk
        self._clock = clock
        self._surroundings = surroundings
        self._fleet_of = fleet_of
        self._fail = fail
        self._channel: Channel | None = None
        self._spares: list[JobProcess] = []
        self._spares_at_once = 1
        self._spares_made = 0.0
        self._running: dict[str, tuple[JobProcess, JobCall]] = {}
        self._children: dict[int, Child] = {}
        self._waiting: OrderedDict[str, None] = OrderedDict()
        self._offered: set[str] = set()
        self._timer: Timer | None = None
        self._status_due = False
        self._starting: dict[str, Inside] = {}
        self._noted: set[str] = set()

    # -- start

    def replay(self) -> None:
        """Read journal and spool, and go on where an earlier job server was stopped. Raises JournalError."""
        journal, spool = self._disk.journal, self._disk.spool
        entries = journal.open()
        spool.open()
        if journal.repaired:
            log.warning("%s", journal.repaired)
        remembered = [_remembered(entry) for entry in entries]
        for job in remembered:
            if job.alive:
                self._adopt(job.jid, job.pid)
        for name in set(os.listdir(self._disk.running_dir)) - {job.jid for job in remembered if job.alive}:
            os.unlink(os.path.join(self._disk.running_dir, name))
        self._jobs.replay(remembered, spool.jids(), journal.floor)
        self._jobs.room(in_spool=spool.has_room())
        self._carry_out()
        if journal.should_compact():
            self._compact()

    def grains_are(self, grains: dict[str, Any]) -> None:
        """The grains were found: jobs may start."""
        self._surroundings.grains.update(grains)
        self._let_spares_go(keep=0)
        self._make_spares()
        self._jobs.open()
        self._carry_out()

    def attach(self, channel: Channel) -> None:
        """A network process was started; `channel` leads to it."""
        self._channel = channel
        self._tell_status()

    # -- the network process

    def on_batch(self, batch: list[bytes]) -> None:
        """Messages of the network process arrived. Nonsense from it costs it its life: it is started anew."""
        try:
            for data in batch:
                self._from_network(unpack(data))
        except (ProtocolError, KeyError, TypeError, ValueError) as error:
            log.error("the network process sent what it must not (%r): it is cut off", error)  # noqa: TRY400 - a sentence
            if self._channel is not None:
                self._channel.close()
        self._carry_out()

    def _from_network(self, message: Inside) -> None:
        match message["t"]:
            case "trust":
                self._trust(message["cert"])
            case "ready":
                self._offered.clear()
                self._waiting.clear()
                self._jobs.connected(self._disk.spool.jids())
            case "phase":
                self._surroundings.phase_is(str(message["phase"]), str(message["reason"]))
            case _:
                self._from_master(check(message, Sender.MASTER, accepted=True))

    def _from_master(self, message: Message) -> None:
        jid = message.get("jid", "")
        match message["t"]:
            case "job":
                self._jobs.received(
                    Parcel(jid, message["body"], message["sig"], message["proof"], message["deliver_ms"])
                )
            case "cancel":
                self._jobs.cancel(jid)
            case "ret_ack":
                for acknowledged in message["jids"]:
                    self._offered.discard(acknowledged)
                    self._jobs.acknowledged(acknowledged)
            case "grant":
                entry = self._read(jid)
                if entry is not None:
                    self._tell(inside.body(jid, entry.body))

    def _trust(self, raw: bytes) -> None:
        try:
            certificate = MasterCertificate.decode(raw)
            certificate.verify(self._fleet_of(certificate), int(max(self._clock.wall(), BUILD_DATE_S)))
        except ProtocolError as error:
            log.error("a certificate that the network process passed on was refused: %s", error)  # noqa: TRY400 - a sentence
            return
        self._jobs.trust(certificate.job_public, certificate.not_after)

    # -- effects

    def _carry_out(self) -> None:
        try:
            while effects := self._jobs.take():
                self._in_order(effects)
            self._hand_over()
        except JournalError as error:
            self._fail(str(error))
            return
        if not self._status_due:
            self._status_due = True
            self._reactor.call_later(STATUS_S, self._tell_status)
        self._arm()

    def _in_order(self, effects: list[Effect]) -> None:
        """Carry effects out in order; neighbouring records share a sync, and are on disk before what follows."""
        unwritten: list[Write] = []
        for effect in effects:
            if isinstance(effect, Write):
                unwritten.append(effect)
                continue
            # A fork only makes a process that waits: it may share the sync of the record that lets it go.
            if not isinstance(effect, Fork):
                self._write(unwritten)
                unwritten = []
            self._one(effect)
            if isinstance(effect, Fork):
                # Its answer belongs right behind it, before anything that follows it in this list.
                following = self._jobs.take()
                unwritten = self._after_fork(unwritten, following)
        self._write(unwritten)

    def _after_fork(self, unwritten: list[Write], following: list[Effect]) -> list[Write]:
        for effect in following:
            if isinstance(effect, Write):
                unwritten.append(effect)
            else:
                self._write(unwritten)
                unwritten = []
                self._one(effect)
        return unwritten

    def _write(self, writes: list[Write]) -> None:
        if not writes:
            return
        journal = self._disk.journal
        journal.append([Record(write.step, write.jid, write.fields) for write in writes])
        if not all(write.lazy for write in writes):
            journal.sync()

    def _one(self, effect: Effect) -> None:
        match effect:
            case Fork(jid, body):
                call = JobCall(jid, [(one.fun, one.args, one.kwargs) for one in body.calls], body.user)
                self._fork(call)
            case Go(jid):
                process, call = self._running[jid]
                process.go(call)
                # Made while the job runs, so that the next one does not wait for a fork.
                self._reactor.call_soon(self._make_spares)
            case Tell(jid, state, reason):
                self._tell_state(jid, state, reason)
            case Offer(jid):
                # Offered again: what was handed over before is taken as lost, and must not hold a place.
                self._offered.discard(jid)
                self._starting.pop(jid, None)
                self._waiting[jid] = None
            case Kill(jid, pid, signum):
                self._kill(jid, pid, signum)
            case Keep(jid, state, code, reason, start_ms, dur_ms):
                self._disk.spool.write(jid, SpoolEntry(state, code, b"", start_ms, dur_ms, reason))
            case Forget(jid):
                # It may have been offered anew just before the master confirmed it.
                self._waiting.pop(jid, None)
                self._disk.spool.remove(jid)
                self._jobs.room(in_spool=self._disk.spool.has_room())
            case Write():
                raise AssertionError("records are written by _write")

    def _fork(self, call: JobCall) -> None:
        try:
            process = self._spares.pop() if self._spares else self._make_process()
        except OSError as error:
            self._jobs.not_forked(call.jid, f"the minion cannot start another process: {error.strerror}")
            return
        self._running[call.jid] = process, call
        self._reactor.add_reader(process.socket.fileno(), lambda: self._says(call.jid, process))
        self._jobs.forked(call.jid, process.pid, process.ticks)

    def _make_process(self) -> JobProcess:
        process = fork_waiting(self._surroundings)
        self._children[process.pid] = Child(
            self._reactor, process.pid, lambda status: self._process_ended(process, status)
        )
        return process

    def _make_spares(self) -> None:
        if self._spares:
            return
        now = self._reactor.now()
        soon = now - self._spares_made < SPARES_SOON_S
        self._spares_at_once = min(SPARES_MAX, self._spares_at_once * 2) if soon else 1
        self._spares_made = now
        try:
            for _ in range(self._spares_at_once):
                self._spares.append(self._make_process())
        except OSError as error:
            log.warning("no process can be made in advance: %s", error)
        if self._spares_at_once > 1:
            self._reactor.call_later(SPARES_IDLE_S, lambda: self._trim_spares(now))

    def _trim_spares(self, made: float) -> None:
        if made == self._spares_made:
            self._let_spares_go(keep=1)

    def _let_spares_go(self, *, keep: int) -> None:
        for process in self._spares[keep:]:
            process.close()
        del self._spares[keep:]

    def _adopt(self, jid: str, pid: int) -> None:
        def ended(status: int | None) -> None:
            del self._children[pid]
            self._job_ended(jid, how(status))

        self._children[pid] = Child(self._reactor, pid, ended)

    def _says(self, jid: str, process: JobProcess) -> None:
        """The result is on disk, or the process is about to be reported as ended."""
        try:
            said = process.socket.recv(1)
        except ConnectionResetError:
            # It died before it had read its job; its exit tells the rest.
            said = b""
        self._reactor.remove_reader(process.socket.fileno())
        if said == DONE:
            self._let_go(jid, process)
            self._job_ended(jid, "exit status 0")

    def _process_ended(self, process: JobProcess, status: int | None) -> None:
        del self._children[process.pid]
        if process in self._spares:
            self._spares.remove(process)
            process.close()
        for jid, (one, _call) in list(self._running.items()):
            if one is process:
                self._let_go(jid, process)
                self._job_ended(jid, how(status))

    def _let_go(self, jid: str, process: JobProcess) -> None:
        del self._running[jid]
        self._reactor.remove_reader(process.socket.fileno())
        process.close()

    def _job_ended(self, jid: str, how_it_ended: str) -> None:
        self._forget_running(jid)
        try:
            left_result = self._disk.spool.noticed(jid)
        except JournalError as error:
            self._fail(str(error))
            return
        self._jobs.room(in_spool=self._disk.spool.has_room())
        self._jobs.exited(jid, left_result=left_result, how=how_it_ended)
        self._carry_out()
        if self._disk.journal.should_compact():
            self._compact()

    def _kill(self, jid: str, pid: int, signum: int) -> None:
        log.info("job %s: signal %d to its process group", jid, signum)
        try:
            os.killpg(pid, signum)
        except ProcessLookupError:
            pass
        except PermissionError as error:
            log.warning("job %s: its process group cannot be signalled: %s", jid, error)

    # -- results

    def _hand_over(self) -> None:
        while self._waiting and len(self._offered) < OFFERS_OPEN:
            jid, _ = self._waiting.popitem(last=False)
            entry = self._read(jid)
            if entry is not None:
                self._offered.add(jid)
                self._tell(inside.result(jid, entry, inline_max=CHUNK))

    def _read(self, jid: str) -> SpoolEntry | None:
        try:
            return self._disk.spool.read(jid)
        except JournalError as error:
            log.error("%s", error)  # noqa: TRY400 - the sentence says it all
            return None

    def _tell(self, message: Inside) -> None:
        if self._channel is not None:
            self._channel.send(pack(message))

    def _tell_state(self, jid: str, state: TargetState, reason: str) -> None:
        message = inside.state(jid, str(state), reason)
        if state is TargetState.RUNNING:
            if not self._starting:
                self._reactor.call_later(RUNNING_S, self._tell_running)
            self._starting[jid] = message
        else:
            self._starting.pop(jid, None)
            self._tell(message)

    def _tell_running(self) -> None:
        starting, self._starting = self._starting, {}
        for jid, message in starting.items():
            self._tell(message)
            if jid in self._running and jid not in self._noted:
                process, call = self._running[jid]
                self._note_running(call, process.pid)

    def _tell_status(self) -> None:
        self._status_due = False
        self._tell(inside.status(self._jobs.running, self._disk.spool.usage()[0]))

    # -- time

    def _arm(self) -> None:
        deadline = self._jobs.deadline()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline != float("inf"):
            self._timer = self._reactor.call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._jobs.tick()
        self._carry_out()

    def _compact(self) -> None:
        try:
            self._disk.journal.compact(int(self._clock.wall() * 1000))
        except JournalError as error:
            log.warning("the journal could not be made smaller, and is used as it is: %s", error)
            return
        self._jobs.forgotten(self._disk.journal.floor)

    # -- what `saltutil.running` reads

    def _note_running(self, call: JobCall, pid: int) -> None:
        note = {
            "jid": call.jid,
            "fun": call.fun,
            "user": call.user,
            "pid": pid,
            "started": self._clock.wall(),
        }
        path = os.path.join(self._disk.running_dir, call.jid)
        self._noted.add(call.jid)
        try:
            # Hidden until it is whole; readers skip names that are no jid.
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(note, file)
            os.rename(path + ".new", path)
        except OSError as error:
            log.warning("job %s will not be listed by saltutil.running: %s", call.jid, error)

    def _forget_running(self, jid: str) -> None:
        self._noted.discard(jid)
        try:
            os.unlink(os.path.join(self._disk.running_dir, jid))
        except FileNotFoundError:
            return


def _remembered(entry: JournalEntry) -> Remembered:
    alive = entry.step is Step.STARTED and entry.ticks != 0 and start_ticks(entry.pid) == entry.ticks
    return Remembered(
        jid=entry.jid,
        step=entry.step,
        body=entry.body,
        issuer=entry.issuer,
        received_wall_ms=entry.received_wall_ms,
        deliver_ms=entry.deliver_ms,
        pid=entry.pid,
        started_wall_ms=entry.started_wall_ms,
        reason=entry.reason,
        alive=alive,
    )
