"""The job server: carries out the decisions of the job state machine, with journal, spool and processes.

It is the minion's first process, and the only long-lived one with rights. It runs no module code: modules are imported
in the process of a job. Functions of resources run in the processes of their types (`saltlite.minion.resources`).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from saltlite.errors import JournalError, ProtocolError, UnwrittenError
from saltlite.loader.module_builder import read_shipped
from saltlite.minion.jobs.job_process import (
    AGAIN,
    DONE,
    WRITTEN,
    JobContext,
    JobProcess,
    JobSpec,
    is_shipped,
    read_report,
)
from saltlite.minion.jobs.process_pool import ForkServer, PreforkPool
from saltlite.minion.jobs.results import DelayedSync, DiskQuota, ResultQueue, ResultStore
from saltlite.minion.jobs.rpc_server import AnswerCheck, RpcServer
from saltlite.minion.processes import ipc_messages as ipc
from saltlite.minion.protocol.effects import (
    SIGKILL,
    Effect,
    EndPart,
    Forget,
    Fork,
    Go,
    Journal,
    JournalEntry,
    JournalStep,
    KeepResult,
    Kill,
    Offer,
    ReceivedPart,
    Record,
    RecoveredJob,
    Spool,
    SpoolEntry,
    Tell,
    Write,
)
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.minion.resources.server import ResourceRuns, RunCallbacks
from saltlite.minion.sync import DocumentSync
from saltlite.model.clock import Clock
from saltlite.model.execution import is_direct
from saltlite.model.ids import PartId, TargetId
from saltlite.model.job import CLAIMED, TargetState, is_resource_part
from saltlite.platform.logs import log_context, log_defect
from saltlite.platform.process import Child, ProcessTree, start_ticks
from saltlite.platform.reactor import Reactor, Timer
from saltlite.platform.stream import Channel
from saltlite.platform.supervision import how
from saltlite.wire.certificates import BUILD_DATE_S, MasterCertificate
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.messages import Message, Sender, check

# -- Signals to processes of jobs


log = logging.getLogger(__name__)


class JobSignals:
    """Signals to the processes of jobs. It remembers the descendants of a process until that process is reaped."""

    def __init__(self) -> None:
        self._trees: dict[int, ProcessTree] = {}

    def signal(self, jid: str, pid: int, signum: int) -> None:
        """Signal the process of the job, its group, and every descendant."""
        with log_context(jid=jid):
            log.info("signal %d to its processes", signum)
            try:
                self._trees.setdefault(pid, ProcessTree(pid)).signal(signum)
            except PermissionError as error:
                log.warning("its process group cannot be signalled: %s; run the minion as that user", error.strerror)

    def over(self, pid: int) -> None:
        """Forget a process that was reaped."""
        self._trees.pop(pid, None)


# -- Notes for `saltutil.running`: one JSON file for each running job


class RunningNotes:
    """Writes and deletes the notes. An error is only logged, because it must not fail a job."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._noted: set[str] = set()

    def only(self, jids: Collection[str]) -> None:
        """After a restart: remove the notes of all other jobs."""
        for name in set(os.listdir(self._folder)) - set(jids):
            os.unlink(os.path.join(self._folder, name))

    def note(self, call: JobSpec, pid: int, started: float) -> None:
        """Write the note of a running job once; `started` is wall-clock seconds."""
        if call.jid in self._noted:
            return
        self._noted.add(call.jid)
        path = os.path.join(self._folder, call.jid)
        row = {"jid": call.jid, "fun": call.fun, "user": call.user, "pid": pid, "started": started}
        try:
            # Hidden until it is complete; readers skip names that are not jids.
            with open(path + ".new", "w", encoding="utf-8") as file:
                json.dump(row, file)
            os.rename(path + ".new", path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(path + ".new")
            log.warning("saltutil.running will not list it: %s; make room in %s", error.strerror, self._folder)

    def forget(self, jid: str) -> bool:
        """Delete the note of a job that ended. False if `saltutil` is signalling its process at this moment."""
        path = os.path.join(self._folder, jid)
        was_noted = jid in self._noted
        self._noted.discard(jid)
        with suppress(FileNotFoundError):
            os.unlink(path)
            return True
        with suppress(FileNotFoundError):
            os.unlink(path + CLAIMED)
        return not was_noted


# -- Coalescing of states


RUNNING_S = 0.03
"""RUNNING is reported, and noted for `saltutil.running`, after this delay. Most jobs have returned by then, and the
return makes the report unnecessary."""


class StateCoalescer:
    """Delays RUNNING. `tell` sends a message to the network process; `note` is called with the jid when RUNNING is
    reported."""

    def __init__(self, reactor: Reactor, tell: Callable[[IpcMessage], None], note: Callable[[str], None]) -> None:
        self._reactor = reactor
        self._tell = tell
        self._note = note
        self._starting: dict[str, IpcMessage] = {}

    def state(self, jid: str, state: TargetState, reason: str) -> None:
        """Report a state; RUNNING is delayed."""
        message = ipc.state(jid, str(state), reason)
        if state is not TargetState.RUNNING:
            self.overtaken(jid)
            self._tell(message)
            return
        if not self._starting:
            self._reactor.call_later(RUNNING_S, self._tell_running)
        self._starting[jid] = message

    def overtaken(self, jid: str) -> None:
        """Drop a delayed RUNNING, because a later state of the job is about to be reported."""
        self._starting.pop(jid, None)

    def _tell_running(self) -> None:
        starting, self._starting = self._starting, {}
        for jid, message in starting.items():
            self._tell(message)
            self._note(jid)


# -- Parts for resources
#
# The processes of resource types end with the job server. A new job server first ends what an earlier one left, and
# only then reports the end of its parts. Results that are in the spool by then count.


NO_RESOURCES = "this minion manages no resources"
RESTARTED = "the minion was restarted while it ran"
"""The reason of a part whose process belonged to an earlier job server."""

MakeRuns = Callable[[RunCallbacks], ResourceRuns]


class PartRuns:
    """Parts for resources. It accepts none before `use`. `changed` is called when the job state machine has new
    effects, `fail` when the disk fails."""

    def __init__(
        self,
        reactor: Reactor,
        jobs: JobMachine,
        results: ResultStore,
        *,
        changed: Callable[[], None],
        fail: Callable[[str], None],
    ) -> None:
        self._jobs = jobs
        self._results = results
        self._changed = changed
        self._fail = fail
        self._reactor = reactor
        self._runs: ResourceRuns | None = None
        self._begun: set[PartId] = set()

    def use(self, make: MakeRuns) -> None:
        """Manage resources: `make` creates what runs functions on them."""
        # In a later turn: the job state machine may still be handing out effects.
        call_soon = self._reactor.call_soon
        runs = RunCallbacks(
            segment=lambda segment: call_soon(lambda: self._produced(segment)),
            done=lambda part, how: call_soon(lambda: self.ended(part, how)),
        )
        self._runs = make(runs)

    def begin(self, call: JobSpec, srns: Sequence[TargetId]) -> None:
        """Reserve a process for the part, or report why there is none."""
        if self._runs is None:
            self._jobs.not_forked(call.jid, NO_RESOURCES)
            return
        try:
            pid, ticks = self._runs.begin(call, srns)
        except OSError as error:
            self._jobs.not_forked(call.jid, f"the minion cannot start another process: {error.strerror}")
            return
        self._begun.add(call.jid)
        self._jobs.forked(call.jid, pid, ticks)

    def go(self, part: PartId) -> None:
        """Start the part."""
        if self._runs is not None:
            self._runs.go(part)

    def end(self, effect: EndPart) -> None:
        """End the part early. A part of an earlier job server has ended already."""
        if self._runs is not None and effect.jid in self._begun:
            self._runs.cancel(effect.jid, late=effect.late)

    def ended(self, part: PartId, how: str) -> None:
        """Handle the end of a part: all resources answered, or `how` says why not."""
        try:
            if how:
                # Its process may have died between writing a segment and reporting it.
                for segment in self._results.segments_of(part):
                    self._notice(segment)
        except JournalError as error:
            self._fail(str(error))
            return
        self._begun.discard(part)
        self._jobs.part_ended(part, how)
        self._changed()

    def _produced(self, segment: str) -> None:
        try:
            self._notice(segment)
        except JournalError as error:
            self._fail(str(error))
            return
        self._changed()

    def _notice(self, segment: str) -> None:
        if self._results.noticed(segment):
            self._jobs.produced(segment)


# -- Recovery from the journal


def recovered_job(entry: JournalEntry) -> RecoveredJob:
    """The journal's entry for the job state machine, with the information whether the process of the job is alive."""
    alive = entry.step is JournalStep.STARTED and entry.ticks != 0 and start_ticks(entry.pid) == entry.ticks
    return RecoveredJob(
        jid=entry.jid,
        step=entry.step,
        body=entry.body,
        issuer=entry.issuer,
        received_wall_ms=entry.received_wall_ms,
        deliver_ms=entry.deliver_ms,
        pid=entry.pid,
        started_wall_ms=entry.started_wall_ms,
        reason=entry.reason,
        srns=entry.srns,
        alive=alive,
    )


Believe = Callable[[MasterCertificate, bytes, int], None]
"""Takes a certificate, its encoded successions and the time in seconds since 1970. It pins their fleet, or raises
RemoteProtocolError."""

STATUS_S = 1.0
"""Heartbeats are seconds apart, so the reported status need not be newer."""


@dataclass(frozen=True, slots=True)
class JobStorage:
    """The job server's files. `running_dir` has one file for each running job, for `saltutil.running`."""

    journal: Journal
    spool: Spool
    running_dir: str
    path: str
    """The folder that contains all of it, for messages."""


class JobServer:
    """Joins the job state machine, the disk, the processes of jobs and the network process.

    `believe` verifies the certificate of a master. `fail` is called when the disk fails, and ends the daemon: a job
    that cannot be recorded must not run. A full disk only makes it refuse new jobs until there is space.
    """

    def __init__(
        self,
        reactor: Reactor,
        jobs: JobMachine,
        disk: JobStorage,
        clock: Clock,
        context: JobContext,
        *,
        believe: Believe,
        fail: Callable[[str], None],
    ) -> None:
        self._reactor = reactor
        self._jobs = jobs
        self._disk = disk
        self._clock = clock
        self._context = context
        self._believe = believe
        self._fail = fail
        self._channel: Channel | None = None
        self._session = 0
        self._results = ResultStore(disk.spool)
        self._quota = DiskQuota(reactor, jobs, disk.journal, self._results, disk.path)
        self._delayed_sync = DelayedSync(reactor, self._results, synced=self._quota.write_later, fail=fail)
        check = AnswerCheck(jobs.minion, jobs.job_keys, clock.entropy, context.alarm)
        self.rpc_server = RpcServer(reactor, self._tell, context.refresh, check)
        self.documents = DocumentSync(
            reactor, self.rpc_server.ask, lambda message: self._tell(ipc.ask(message)), context.hooks
        )
        self._pool = PreforkPool(reactor, context, self._watch, self._watch_fork_server)
        self._signals = JobSignals()
        self._finishing: set[JobProcess] = set()
        """Processes whose job has ended and that have not reported yet whether they can run another."""
        self._recorded = True
        """Whether the end of every job is in the journal. If one is not, no process runs a second job:
        after a restart its pid would belong to two running jobs."""
        self._running: dict[str, tuple[JobProcess, JobSpec]] = {}
        self._children: dict[int, Child] = {}
        self._result_queue = ResultQueue(self._results, self._tell, self._unreadable)
        self._parts = PartRuns(reactor, jobs, self._results, changed=self._something_ended, fail=fail)
        self._timer: Timer | None = None
        self._status_due = False
        self._states = StateCoalescer(reactor, self._tell, self._note)
        self._notes = RunningNotes(disk.running_dir)

    # -- start

    def replay(self) -> None:
        """Read journal and spool, and continue where the earlier job server stopped. Raises JournalError."""
        journal, spool = self._disk.journal, self._disk.spool
        remembered = [recovered_job(entry) for entry in journal.open()]
        spool.open()
        if journal.repaired:
            log.warning("%s", journal.repaired)
        alive = [job for job in remembered if job.alive]
        for pid in {job.pid for job in alive if job.srns}:
            self._end_leftover(pid, [job.jid for job in alive if job.pid == pid])
        for job in alive:
            if not job.srns:
                self._adopt(job.jid, job.pid)
        self._notes.only([job.jid for job in alive])
        self._jobs.replay(remembered, spool.jids(), journal.floor)
        self._something_ended()

    def grains_are(self, grains: dict[str, Any]) -> None:
        """Use these grains from the next job on."""
        self._context.grains = grains
        self._pool.let_go(keep=0)

    def pillar_is(self, pillar: dict[str, Any]) -> None:
        """Use this pillar from the next job on."""
        if pillar != self._context.pillar:
            self._context.pillar = pillar
            self._pool.let_go(keep=0)

    def open(self) -> None:
        """Start jobs: grains and pillar are available."""
        self._jobs.open()
        self._carry_out()

    def manage_resources(self, make: MakeRuns) -> None:
        """Accept parts for resources: `make` creates what runs them. Call it before `replay`."""
        self._parts.use(make)

    def attach(self, channel: Channel) -> None:
        """Connect to a new network process through `channel`."""
        self._channel = channel
        self._session = 0
        self._tell_status()

    def functions_are(self, message: Message) -> None:
        """Report the functions of the minion, after modules changed."""
        self._tell(ipc.functions(message))

    # -- the network process

    def on_batch(self, batch: list[bytes]) -> None:
        """Handle messages of the network process. An invalid one ends the connection, and the network process is
        restarted."""
        for data in batch:
            try:
                self._from_network(unpack(data))
            except (ProtocolError, KeyError, TypeError, ValueError) as error:
                log.error("the network process sent what it must not (%r): it is cut off", error)  # noqa: TRY400 - a sentence
                if self._channel is not None:
                    self._channel.close()
                break
            except JournalError as error:
                self._fail(str(error))
                return
            except Exception:  # noqa: BLE001 - named supervision point: jobs that run need this process
                log_defect("a message of the network process")
        self._carry_out()

    def _from_network(self, message: IpcMessage) -> None:
        match message["t"]:
            case "trust":
                self._trust(message["cert"], message["chain"])
            case "ready":
                self._session = message["session"]
                self._result_queue.connected()
                self._jobs.connected(self._results.jids())
                self.rpc_server.connected()
                self.documents.connected()
            case "phase":
                self._context.phase_is(str(message["phase"]), str(message["reason"]))
            case _:
                self._from_master(check(message, Sender.MASTER, accepted=True))

    def _from_master(self, message: Message) -> None:
        jid = message.get("jid", "")
        match message["t"]:
            case "job":
                self._quota.look()
                self._jobs.received(_received_part(message))
            case "cancel":
                self._jobs.cancel(jid)
            case "return_ack":
                for acknowledged in message["jids"]:
                    self._result_queue.acknowledged(acknowledged)
                    self._jobs.acknowledged(acknowledged)
            case "grant":
                self._result_queue.grant(jid)
            case "response":
                self.rpc_server.on_response(message)
            case "fetch":
                self.documents.wanted(message["what"])

    def _trust(self, raw: bytes, chain: bytes) -> None:
        certificate = _believed(raw, chain, self._believe, int(max(self._clock.wall(), BUILD_DATE_S)))
        if certificate is not None:
            self._jobs.trust(certificate.job_public, certificate.not_after)

    # -- effects

    def _carry_out(self) -> None:
        try:
            while effects := self._jobs.take():
                self._in_order(effects)
            self._result_queue.hand_over()
        except JournalError as error:
            self._fail(str(error))
            return
        if not self._status_due:
            self._status_due = True
            self._reactor.call_later(STATUS_S, self._tell_status)
        self._arm()

    def _in_order(self, effects: list[Effect]) -> None:
        """Carry out effects: the forks, which only create waiting processes, then all records with one sync, then the
        rest in order. So every effect comes after the records before it, and jobs that start together share a sync."""
        writes: list[Write] = []
        others: list[Effect] = []
        for effect in effects:
            found = [effect]
            if isinstance(effect, Fork):
                self._one(effect)
                # What the job state machine does about the new process, at the place of the fork.
                found = self._jobs.take()
            for one in found:
                if isinstance(one, Write):
                    writes.append(one)
                else:
                    others.append(one)
        self._write(writes)
        for effect in others:
            self._one(effect)

    def _write(self, writes: list[Write]) -> None:
        if not writes:
            return
        try:
            self._disk.journal.append([Record(write.step, write.jid, write.fields) for write in writes])
        except UnwrittenError as error:
            self._not_written(writes, error.why)
        if not all(write.lazy for write in writes):
            self._disk.journal.sync()

    def _not_written(self, writes: list[Write], why: str) -> None:
        """Handle a full disk: refuse new jobs, and write those remaining records that fit."""
        self._recorded = False
        for write in writes:
            if write.step in (JournalStep.RECEIVED, JournalStep.STARTED):
                self._jobs.unwritten(write.step, write.jid, why)
                continue
            # What these record stays in memory for the life of this process, and the next process finds it out again.
            with suppress(UnwrittenError):
                self._disk.journal.append([Record(write.step, write.jid, write.fields)])

    def _one(self, effect: Effect) -> None:
        match effect:
            case Fork(jid) | Go(jid) | Tell(jid, TargetState.RECEIVED | TargetState.RUNNING) if self._jobs.refused(jid):
                # The record before it could not be written.
                pass
            case Fork(jid, body, srns):
                self._fork(JobSpec.of(jid, body), srns)
            case Go(jid):
                self._go(jid)
            case EndPart():
                self._parts.end(effect)
            case Tell(jid, state, reason):
                self._states.state(jid, state, reason)
            case Offer(jid):
                self._states.overtaken(jid)
                self._result_queue.offer(jid)
            case Kill(jid, pid, signum):
                self._kill(jid, pid, signum)
            case KeepResult(jid, state, code, reason, start_ms, dur_ms):
                self._results.keep(jid, SpoolEntry(state, code, b"", start_ms, dur_ms, reason))
                self._quota.write_later()
            case Forget(jid):
                self._result_queue.forget(jid)
                self._delayed_sync.drop(jid)
                self._results.remove(jid)
                self._quota.look()
            case Write():
                raise AssertionError("records are written by _write")

    def _fork(self, call: JobSpec, srns: Sequence[str]) -> None:
        if srns:
            self._parts.begin(call, srns)
            return
        try:
            process = self._pool.take(reusable=self._is_reusable(call))
        except OSError as error:
            self._jobs.not_forked(call.jid, f"the minion cannot start another process: {error.strerror}")
            return
        self._running[call.jid] = process, call
        self._reactor.add_reader(process.socket.fileno(), lambda: self._says(call.jid, process))
        self._jobs.forked(call.jid, process.pid, process.ticks)

    def _is_reusable(self, call: JobSpec) -> bool:
        """Whether the process of that job may run another one: the job calls shipped functions only, and directly."""
        opts = self._context.opts
        if opts.get("job_processes") != "reuse" or not self._recorded or not is_direct(opts, call.execution):
            return False
        index = self._context.last_loader().index
        return all(is_shipped(index, fun) for fun, _args, _kwargs in call.calls)

    def _go(self, jid: str) -> None:
        if is_resource_part(jid):
            self._parts.go(jid)
            return
        process, call = self._running[jid]
        process.go(call)
        module = call.calls[0][0].partition(".")[0]
        self._pool.began(process, module)
        # Most minions use a few modules: processes that are forked from now on find the code of this one in memory.
        read_shipped(self._context.last_loader().index, module)

    def _watch(self, process: JobProcess) -> None:
        process.on_ask = lambda raw: self.rpc_server.on_request(process, raw)
        self._children[process.pid] = Child(
            self._reactor, process.pid, lambda status: self._process_ended(process, status)
        )

    def _watch_fork_server(self, server: ForkServer) -> None:
        def ready() -> None:
            self._reactor.remove_reader(server.socket.fileno())
            if not server.hear():
                self._pool.server_ended(server)

        def ended(_status: int | None) -> None:
            del self._children[server.pid]
            self._pool.server_ended(server)

        self._reactor.add_reader(server.socket.fileno(), ready)
        self._children[server.pid] = Child(self._reactor, server.pid, ended)

    def _adopt(self, jid: str, pid: int) -> None:
        def ended(status: int | None) -> None:
            del self._children[pid]
            self._job_ended(jid, how(status))
            self._signals.over(pid)

        self._children[pid] = Child(self._reactor, pid, ended)

    def _end_leftover(self, pid: int, parts: list[str]) -> None:
        """End a process of resources that belonged to an earlier job server: it has no connection to this one."""

        def ended(_status: int | None) -> None:
            del self._children[pid]
            for part in parts:
                self._parts.ended(part, RESTARTED)
            self._signals.over(pid)

        self._children[pid] = Child(self._reactor, pid, ended)
        self._kill(parts[0], pid, SIGKILL)

    def _says(self, jid: str, process: JobProcess) -> None:
        """Handle a report of a job's process: the result is in the spool, or could not be written, or the process is
        about to exit."""
        report = process.receive()
        if report is None:
            return
        self._reactor.remove_reader(process.socket.fileno())
        if report:
            # Before the process can run another job, which a signal for this one would hit.
            process.reusable &= self._notes.forget(jid)
            self._let_go(jid, process)
            self._job_ended(jid, "exit status 0", report)
        if report in (DONE, WRITTEN) and process.reusable:
            self._finishing.add(process)
            self._reactor.add_reader(process.socket.fileno(), lambda: self._finished(process))
            self._finished(process)
        elif report:
            process.close()

    def _finished(self, process: JobProcess) -> None:
        """Handle the report of a process whose job has ended: whether it can run another."""
        report = process.receive()
        if report is None:
            return
        self._finishing.discard(process)
        self._reactor.remove_reader(process.socket.fileno())
        if report == AGAIN and self._recorded:
            self._pool.give_back(process)
        else:
            process.close()

    def _process_ended(self, process: JobProcess, status: int | None) -> None:
        del self._children[process.pid]
        self._pool.ended(process)
        if process in self._finishing:
            self._finishing.discard(process)
            self._reactor.remove_reader(process.socket.fileno())
            process.close()
        for jid, (one, _call) in list(self._running.items()):
            if one is process:
                report = process.receive() or b""
                self._let_go(jid, process)
                process.close()
                self._job_ended(jid, how(process.exit_status() if status is None else status), report)
        self._signals.over(process.pid)

    def _let_go(self, jid: str, process: JobProcess) -> None:
        del self._running[jid]
        self.rpc_server.ended(process)
        self._reactor.remove_reader(process.socket.fileno())

    def _job_ended(self, jid: str, how_it_ended: str, report: bytes = b"") -> None:
        self._notes.forget(jid)
        with log_context(jid=jid):
            unwritten = "" if report in (b"", DONE, WRITTEN) else self._take_over(jid, report)
        try:
            left_result = self._results.noticed(jid, reported=report in (DONE, WRITTEN))
        except JournalError as error:
            self._fail(str(error))
            return
        is_synced = self._results.is_synced(jid)
        if not is_synced:
            self._delayed_sync.later(jid)
        self._jobs.exited(jid, left_result=left_result, how=how_it_ended, unwritten=unwritten, is_synced=is_synced)
        self._something_ended()

    def _take_over(self, jid: str, report: bytes) -> str:
        """Hold the result that a job's process could not write; returns why it could not."""
        try:
            why, entry = read_report(jid, report)
        except (ValueError, JournalError) as error:
            log.error("a job's process said what makes no sense (%s); its function writes to strange files", error)  # noqa: TRY400 - a sentence
            return ""
        if entry is None or not self._results.hold(jid, entry, why):
            log.error("its result is lost, because the disk did not take it: %s; make room there", why)
        self._quota.write_later()
        return why

    def _kill(self, jid: str, pid: int, signum: int) -> None:
        self._signals.signal(jid, pid, signum)
        if jid in self._running:
            self._running[jid][0].reusable = False
        if signum == SIGKILL and pid in self._children:
            # A process that was just created may not lead a group yet.
            self._children[pid].signal(signum)

    # -- results

    def _unreadable(self, result: str) -> None:
        self._jobs.unreadable(result)
        self._reactor.call_soon(self._carry_out)

    def _something_ended(self) -> None:
        self._quota.look()
        self._carry_out()
        if self._disk.journal.should_compact():
            self._compact()

    def _tell(self, message: IpcMessage) -> None:
        if self._channel is not None:
            self._channel.send(pack({**message, "session": self._session}))

    def _note(self, jid: str) -> None:
        if jid in self._running:
            process, call = self._running[jid]
            with log_context(jid=jid):
                self._notes.note(call, process.pid, self._clock.wall())

    def _tell_status(self) -> None:
        self._status_due = False
        self._tell(ipc.status(self._jobs.running, self._results.count()))

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
            log.warning("%s; make room in %s", error, self._disk.path)
            return
        self._jobs.forgotten(self._disk.journal.floor)


def _believed(raw: bytes, chain: bytes, believe: Believe, now: int) -> MasterCertificate | None:
    """The certificate in `raw`, if its fleet has signed it and it is valid; None otherwise."""
    try:
        certificate = MasterCertificate.decode(raw)
        believe(certificate, chain, now)
    except ProtocolError as error:
        log.error("a certificate that the network process passed on was refused: %s", error)  # noqa: TRY400 - a sentence
        return None
    return certificate


def _received_part(message: Message) -> ReceivedPart:
    proof, resources = message["proof"], message["resources"]
    return ReceivedPart(message["jid"], message["body"], message["sig"], proof, message["deliver_ms"], resources)
