"""The job server: carries out the decisions of the job state machine, with journal, spool and processes.

It is the minion's first process, and keeps the rights with which the minion was started; the network process does not.
It runs no code of modules: they are imported in the processes of jobs. Functions of resources run in the processes of
resource types (`saltlite.minion.resources`). A part is the share of a job for the resources of one type.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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
    RunningNotes,
    is_shipped,
    read_report,
)
from saltlite.minion.jobs.own_jobs import OwnJobs
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
from saltlite.minion.protocol.jobs import JobMachine, MasterTrust
from saltlite.minion.resources.server import ResourceRuns, RunCallbacks
from saltlite.minion.sync import DocumentSync
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.execution import is_direct
from saltlite.model.ids import PartId, TargetId
from saltlite.model.job import TERMINAL, TargetState, is_resource_part
from saltlite.platform.logs import log_context, log_defect
from saltlite.platform.process import Child, ProcessTree, start_ticks
from saltlite.platform.reactor import Reactor, Timer
from saltlite.platform.stream import Channel
from saltlite.platform.supervision import how
from saltlite.wire import directory
from saltlite.wire.certificates import BUILD_DATE_S, MasterCertificate
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.job_body import FunctionCall
from saltlite.wire.limits import MASTERS_MAX
from saltlite.wire.messages import Message, Sender, check

log = logging.getLogger(__name__)

MakeRuns = Callable[[RunCallbacks], ResourceRuns]
"""Creates what runs functions on resources."""

STATUS_S = 1.0
"""Seconds between two reports of the status to the network process. Heartbeats carry it, and are seconds apart."""


@dataclass(frozen=True, slots=True)
class JobStorage:
    """The job server's files. `running_dir` has one file for each running job, for `saltutil.running`."""

    journal: Journal
    spool: Spool
    running_dir: str
    path: str
    """The folder that contains all of these, for messages."""


class JobServer:
    """Passes events of the network process, of processes and of the disk to the job state machine, which answers with
    effects, and carries these out.

    `fail` is called when the disk fails, and ends the daemon, because a job that cannot be recorded must not run. While
    the disk is only full, new jobs are refused.
    """

    def __init__(
        self,
        reactor: Reactor,
        jobs: JobMachine,
        disk: JobStorage,
        clock: Clock,
        context: JobContext,
        *,
        trust: MasterTrust,
        fail: Callable[[str], None],
    ) -> None:
        self._reactor = reactor
        self._jobs = jobs
        self._disk = disk
        self._clock = clock
        self._context = context
        self._masters = trust
        self._issuers: dict[str, MasterCertificate] = {}
        """Of the masters that were verified last, by name."""
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
        self.own_jobs = OwnJobs(reactor, jobs, self.rpc_server.ask, clock, disk.path)
        self._pool = PreforkPool(reactor, context, self._watch, self._watch_fork_server)
        self._signals = JobSignals()
        self._undecided: set[JobProcess] = set()
        """Processes that have reported the end of a job, but not yet whether they can run another."""
        self._all_recorded = True
        """Whether the disk has taken every record so far. If not, the journal may lack the end of a job. Then no
        process runs a second job: after a restart its pid would belong to two running jobs."""
        self._running: dict[str, tuple[JobProcess, JobSpec]] = {}
        self._children: dict[int, Child] = {}
        self._result_queue = ResultQueue(self._results, self._tell, self._unreadable)
        self._parts = PartRuns(reactor, jobs, self._results, changed=self._on_change, fail=fail)
        self._timer: Timer | None = None
        self._status_due = False
        self._states = StateReports(reactor, self._tell, self._note_running)
        self._notes = RunningNotes(disk.running_dir)

    # -- start

    def manage_resources(self, make: MakeRuns) -> None:
        """Accept parts for resources: `make` creates what runs them. Call it before `replay`."""
        self._parts.use(make)

    def replay(self) -> None:
        """Read journal and spool, and continue where the earlier job server stopped. Raises JournalError."""
        journal, spool = self._disk.journal, self._disk.spool
        remembered = [recovered_job(entry) for entry in journal.open()]
        spool.open()
        self.own_jobs.open()
        if journal.repaired:
            log.warning("%s", journal.repaired)
        alive = [job for job in remembered if job.alive]
        # One process of a resource type may run several parts.
        for pid in {job.pid for job in alive if job.srns}:
            self._end_leftover(pid, [job.jid for job in alive if job.pid == pid])
        for job in alive:
            if not job.srns:
                self._adopt(job.jid, job.pid)
        self._notes.only([job.jid for job in alive])
        self._jobs.replay(remembered, spool.jids(), journal.floor)
        self._on_change()

    def attach(self, channel: Channel) -> None:
        """Connect to a new network process through `channel`."""
        self._channel = channel
        self._session = 0
        self._tell_status()

    def open(self) -> None:
        """Start jobs from now on: grains and pillar are available."""
        self._jobs.open()
        self._carry_out()

    def grains_are(self, grains: dict[str, Any]) -> None:
        """Use these grains from the next job on."""
        self._context.grains = grains
        # The waiting processes were forked with the old grains.
        self._pool.let_go(keep=0)

    def pillar_is(self, pillar: dict[str, Any]) -> None:
        """Use this pillar from the next job on."""
        if pillar != self._context.pillar:
            self._context.pillar = pillar
            self._pool.let_go(keep=0)

    def begin(self, call: FunctionCall, *, origin: str, metadata: Mapping[str, Any], report: bool) -> str:
        """Begin a job of the minion itself (`OwnJobs.begin`)."""
        self._quota.look()
        jid = self.own_jobs.begin(call, origin=origin, metadata=metadata, report=report)
        # The job may be refused, and the caller must have its jid before that.
        self._reactor.call_soon(self._carry_out)
        return jid

    def runs_states(self) -> bool:
        """Whether a job applies states now."""
        return any(spec.fun.startswith("state.") for _process, spec in self._running.values())

    def functions_are(self, message: Message) -> None:
        """Report the functions of the minion after its modules have changed."""
        self._tell(ipc.functions(message))

    # -- messages of the network process

    def on_batch(self, batch: list[bytes]) -> None:
        """Handle messages of the network process. An invalid one closes the connection, which restarts that process."""
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
                self.own_jobs.connected()
                self.documents.connected()
            case "phase":
                self._context.phase_is(str(message["phase"]), str(message["reason"]), str(message["master"]))
            case _:
                self._from_master(check(message, Sender.MASTER, accepted=True))

    def _from_master(self, message: Message) -> None:
        message = self.own_jobs.incoming(message)
        jid = message.get("jid", "")
        match message["t"]:
            case "job":
                # The disk may have filled up since the last job.
                self._quota.look()
                if issuer := self._believed(message["cert"], b"") if "cert" in message else None:
                    self._jobs.share(issuer.job_public, issuer.not_after)
                self._jobs.received(_received_part(message))
            case "cancel":
                self._jobs.cancel(jid)
            case "return_ack":
                for acknowledged in message["jids"]:
                    self._result_queue.acknowledged(acknowledged)
                    self._jobs.acknowledged(acknowledged)
                    self.own_jobs.acknowledged(acknowledged)
            case "grant":
                self._result_queue.grant(jid)
            case "response":
                self.rpc_server.on_response(message)
            case "fetch":
                self.documents.wanted(message["what"])
            case "directory":
                known = directory.read(message["content"], message["sig"], self._jobs.job_keys())
                names = [one.name for one in known.masters] if self._masters.keep(known) else []
                for issuer in [self._issuers[name] for name in names if name in self._issuers]:
                    self._jobs.share(issuer.job_public, issuer.not_after)

    def _trust(self, raw: bytes, chain: bytes) -> None:
        if certificate := self._believed(raw, chain):
            self._jobs.trust(certificate.job_public, certificate.not_after)

    def _believed(self, raw: bytes, chain: bytes) -> MasterCertificate | None:
        """The certificate in `raw`; None if it is refused."""
        try:
            certificate = MasterCertificate.decode(raw)
            # With a clock that is far behind, every certificate would look as if it were not valid yet.
            self._masters.believe(certificate, chain, int(max(self._clock.wall(), BUILD_DATE_S)))
        except ProtocolError as error:
            log.error("a certificate that the network process passed on was refused: %s", error)  # noqa: TRY400 - a sentence
            return None
        self._issuers = {**self._issuers, certificate.name: certificate}
        if len(self._issuers) > MASTERS_MAX:
            del self._issuers[next(iter(self._issuers))]
        return certificate

    # -- effects

    def _carry_out(self) -> None:
        """Carry out the new effects of the job state machine. Call it after each event."""
        try:
            while effects := self._jobs.take():
                self._carry_out_all(effects)
            self._result_queue.hand_over()
        except JournalError as error:
            self._fail(str(error))
            return
        if not self._status_due:
            self._status_due = True
            self._reactor.call_later(STATUS_S, self._tell_status)
        self._arm_timer()

    def _carry_out_all(self, effects: list[Effect]) -> None:
        """Carry out these effects: first the forks, then all records with one sync, then the others in order.

        So jobs that start together share a sync. Every other effect still comes after the records before it. A fork may
        come earlier, because the new process only waits.
        """
        writes: list[Write] = []
        others: list[Effect] = []
        for effect in effects:
            resulting = [effect]
            if isinstance(effect, Fork):
                self._carry_out_one(effect)
                # The effects that follow from the new process take the place of the fork.
                resulting = self._jobs.take()
            for one in resulting:
                if isinstance(one, Write):
                    writes.append(one)
                else:
                    others.append(one)
        self._write_records(writes)
        for effect in others:
            self._carry_out_one(effect)

    def _write_records(self, writes: list[Write]) -> None:
        if not writes:
            return
        try:
            self._disk.journal.append([Record(write.step, write.jid, write.fields) for write in writes])
        except UnwrittenError as error:
            self._refuse_unwritten(writes, error.why)
        if not all(write.lazy for write in writes):
            self._disk.journal.sync()

    def _refuse_unwritten(self, writes: list[Write], why: str) -> None:
        """Handle records that a full disk did not take: refuse jobs that need one, and write the others singly."""
        self._all_recorded = False
        for write in writes:
            if write.step in (JournalStep.RECEIVED, JournalStep.STARTED):
                self._jobs.unwritten(write.step, write.jid, why)
                continue
            # These may be missing: this job server has their content in memory, and the next one finds it out again.
            with suppress(UnwrittenError):
                self._disk.journal.append([Record(write.step, write.jid, write.fields)])

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case Fork(jid) | Go(jid) | Tell(jid, TargetState.RECEIVED | TargetState.RUNNING) if self._jobs.refused(jid):
                pass  # the disk did not take the record that comes before this effect
            case Fork(jid, body, srns):
                self._fork(JobSpec.of(jid, body), srns)
            case Go(jid):
                self._go(jid)
            case EndPart():
                self._parts.end(effect)
            case Tell(jid, state, reason):
                self._report(jid, state, reason)
            case Offer(jid):
                self._offer(jid)
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
                raise AssertionError("records are written by _write_records")

    def _report(self, jid: str, state: TargetState, reason: str) -> None:
        self._states.report(jid, state, reason)
        if state in TERMINAL:
            self.own_jobs.refused(jid)

    def _offer(self, jid: str) -> None:
        self._states.drop_running(jid)
        if self.own_jobs.may_offer(jid):
            self._result_queue.offer(jid)

    def _fork(self, spec: JobSpec, srns: Sequence[str]) -> None:
        if srns:
            self._parts.begin(spec, srns)
            return
        try:
            process = self._pool.take(reusable=self._is_reusable(spec))
        except OSError as error:
            self._jobs.not_forked(spec.jid, f"the minion cannot start another process: {error.strerror}")
            return
        self._running[spec.jid] = process, spec
        self._reactor.add_reader(process.socket.fileno(), lambda: self._on_report(spec.jid, process))
        self._jobs.forked(spec.jid, process.pid, process.ticks)

    def _is_reusable(self, spec: JobSpec) -> bool:
        """Whether another job may follow in the process of this one: it calls shipped functions without executors."""
        opts = self._context.opts
        if opts.get("job_processes") != "reuse" or not self._all_recorded or not is_direct(opts, spec.execution):
            return False
        index = self._context.last_loader().index
        return all(is_shipped(index, fun) for fun, _args, _kwargs in spec.calls)

    def _go(self, jid: str) -> None:
        if is_resource_part(jid):
            self._parts.go(jid)
            return
        process, spec = self._running[jid]
        process.go(spec)
        module = spec.calls[0][0].partition(".")[0]
        self._pool.began(process, module)
        # Most minions use few modules. Processes that are forked later share the code that is read here.
        read_shipped(self._context.last_loader().index, module)

    def _kill(self, jid: str, pid: int, signum: int) -> None:
        self._signals.signal(jid, pid, signum)
        if jid in self._running:
            # A second signal may follow, and must not hit another job.
            self._running[jid][0].reusable = False
        if signum == SIGKILL and pid in self._children:
            # A new process may not lead its group yet, so that a signal to the group would miss it.
            self._children[pid].signal(signum)

    # -- processes

    def _watch(self, process: JobProcess) -> None:
        process.on_ask = lambda raw: self.rpc_server.on_request(process, raw)
        self._children[process.pid] = Child(self._reactor, process.pid, lambda code: self._process_ended(process, code))

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
        """Watch the process of a job that an earlier job server started: it still leaves its result in the spool."""

        def ended(status: int | None) -> None:
            del self._children[pid]
            self._job_ended(jid, how(status))
            self._signals.forget(pid)

        self._children[pid] = Child(self._reactor, pid, ended)

    def _end_leftover(self, pid: int, parts: list[str]) -> None:
        """Kill a process of a resource type that an earlier job server started: nothing connects it to this one."""

        def ended(_status: int | None) -> None:
            del self._children[pid]
            for part in parts:
                self._parts.ended(part, RESTARTED)
            self._signals.forget(pid)

        self._children[pid] = Child(self._reactor, pid, ended)
        self._kill(parts[0], pid, SIGKILL)

    def _on_report(self, jid: str, process: JobProcess) -> None:
        """Read from the process of a job: it has stored its result, could not store it, or ended without a report."""
        report = process.receive()
        if report is None:
            return
        self._reactor.remove_reader(process.socket.fileno())
        if report:
            # Before the process can run another job, which a signal that `saltutil` is sending to this one would hit.
            process.reusable &= self._notes.forget(jid)
            self._disconnect(jid, process)
            self._job_ended(jid, "exit status 0", report)
        if report in (DONE, WRITTEN) and process.reusable:
            self._undecided.add(process)
            # The next report may have been read together with this one, so it is also looked for at once.
            self._reactor.add_reader(process.socket.fileno(), lambda: self._on_reuse_report(process))
            self._on_reuse_report(process)
        elif report:
            process.close()
        # Without a report, `_process_ended` follows.

    def _on_reuse_report(self, process: JobProcess) -> None:
        """Read from a process whose job has ended: it can run another job, or has ended."""
        report = process.receive()
        if report is None:
            return
        self._undecided.discard(process)
        self._reactor.remove_reader(process.socket.fileno())
        if report == AGAIN and self._all_recorded:
            self._pool.give_back(process)
        else:
            process.close()

    def _process_ended(self, process: JobProcess, status: int | None) -> None:
        del self._children[process.pid]
        self._pool.ended(process)
        if process in self._undecided:
            self._undecided.discard(process)
            self._reactor.remove_reader(process.socket.fileno())
            process.close()
        for jid, (running, _spec) in list(self._running.items()):
            if running is process:
                # It may have reported its result just before it ended.
                report = process.receive() or b""
                self._disconnect(jid, process)
                process.close()
                self._job_ended(jid, how(process.exit_status() if status is None else status), report)
        self._signals.forget(process.pid)

    def _disconnect(self, jid: str, process: JobProcess) -> None:
        """End the connection between a job and its process."""
        del self._running[jid]
        self.rpc_server.ended(process)
        self._reactor.remove_reader(process.socket.fileno())

    # -- the end of a job

    def _job_ended(self, jid: str, how_it_ended: str, report: bytes = b"") -> None:
        self._notes.forget(jid)
        self.own_jobs.ended(jid)
        with log_context(jid=jid):
            unwritten = "" if report in (b"", DONE, WRITTEN) else self._hold_result(jid, report)
        try:
            left_result = self._results.noticed(jid, reported=report in (DONE, WRITTEN))
        except JournalError as error:
            self._fail(str(error))
            return
        is_synced = self._results.is_synced(jid)
        if not is_synced:
            self._delayed_sync.later(jid)
        self._jobs.exited(jid, left_result=left_result, how=how_it_ended, unwritten=unwritten, is_synced=is_synced)
        self._on_change()

    def _hold_result(self, jid: str, report: bytes) -> str:
        """Hold in memory a result that the process of the job could not write; returns why it could not."""
        try:
            why, entry = read_report(jid, report)
        except (ValueError, JournalError) as error:
            log.error("a job's process sent a malformed result (%s); its function writes to strange files", error)  # noqa: TRY400 - a sentence
            return ""
        if entry is None or not self._results.hold(jid, entry, why):
            log.error("its result is lost, because the disk did not take it: %s; make room there", why)
        self._quota.write_later()
        return why

    def _on_change(self) -> None:
        """Carry out what follows from the end of a job or part or from a new segment. Compact the journal if due."""
        self._quota.look()
        self._carry_out()
        if self._disk.journal.should_compact():
            self._compact()

    def _compact(self) -> None:
        try:
            self._disk.journal.compact(int(self._clock.wall() * 1000))
        except JournalError as error:
            log.warning("%s; make room in %s", error, self._disk.path)
            return
        self._jobs.forgotten(self._disk.journal.floor)

    # -- reports to the network process

    def _tell(self, message: IpcMessage) -> None:
        if self._channel is not None:
            self._channel.send(pack({**self.own_jobs.outgoing(message), "session": self._session}))

    def _tell_status(self) -> None:
        self._status_due = False
        self._tell(ipc.status(self._jobs.running, self._results.count()))

    def _note_running(self, jid: str) -> None:
        if jid in self._running:
            process, spec = self._running[jid]
            with log_context(jid=jid):
                self._notes.note(spec, process.pid, self._clock.wall())

    def _unreadable(self, result: str) -> None:
        self._jobs.unreadable(result)
        self._reactor.call_soon(self._carry_out)

    # -- time

    def _arm_timer(self) -> None:
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


def recovered_job(entry: JournalEntry) -> RecoveredJob:
    """The journal's entry in the form for the job state machine, with whether the process of the job is alive."""
    # The pid may belong to another process by now. That one has another start time.
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


def _received_part(message: Message) -> ReceivedPart:
    proof, resources = message["proof"], message["resources"]
    return ReceivedPart(message["jid"], message["body"], message["sig"], proof, message["deliver_ms"], resources)


# -- Signals to processes of jobs


class JobSignals:
    """Signals the processes of jobs. It remembers the descendants of a process until the process is reaped."""

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

    def forget(self, pid: int) -> None:
        """Forget a process that was reaped."""
        self._trees.pop(pid, None)


# -- Reports of states


RUNNING_S = 0.03
"""The longest delay until RUNNING is reported, and noted for `saltutil.running`. Most jobs return before that."""


class StateReports:
    """Reports the states of jobs. RUNNING is reported after RUNNING_S, and then `note` is called with the jid.

    `tell` sends a message to the network process.
    """

    def __init__(self, reactor: Reactor, tell: Callable[[IpcMessage], None], note: Callable[[str], None]) -> None:
        self._reactor = reactor
        self._tell = tell
        self._note = note
        self._delayed: dict[str, tuple[float, IpcMessage]] = {}
        """When each is due, in that order."""
        self._timer_set = False

    def report(self, jid: str, state: TargetState, reason: str) -> None:
        """Report a state now, or RUNNING later."""
        message = ipc.state(jid, str(state), reason)
        if state is not TargetState.RUNNING:
            self.drop_running(jid)
            self._tell(message)
            return
        due = self._reactor.now() + RUNNING_S
        self._delayed[jid] = due, message
        if not self._timer_set:
            self._timer_set = True
            self._reactor.call_at(due, self._tell_running)

    def drop_running(self, jid: str) -> None:
        """Do not report RUNNING if it has not been reported yet: a later state of the job follows."""
        self._delayed.pop(jid, None)

    def _tell_running(self) -> None:
        self._timer_set = False
        now = self._reactor.now()
        for jid, (due, message) in list(self._delayed.items()):
            if due > now:
                # Most jobs return before they are due: a timer for each would mostly be cancelled.
                self._timer_set = True
                self._reactor.call_at(due, self._tell_running)
                return
            del self._delayed[jid]
            self._tell(message)
            self._note(jid)


# -- Parts for resources
#
# The processes of resource types normally end with the job server. A new job server kills those that did not, and waits
# for their end before it reports the end of their parts, because they may write results into the spool until then.


NO_RESOURCES = "this minion manages no resources"
RESTARTED = "the minion was restarted while it ran"
"""The reason of a part whose process belonged to an earlier job server."""


class PartRuns:
    """Runs parts for resources, after `use`. Earlier ones are refused.

    `changed` is called when the job state machine has new effects, and `fail` when the disk fails.
    """

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
        """Accept parts from now on. `make` creates what runs functions on resources."""
        # Called in a later turn of the reactor, because the effects of this turn may not be carried out yet.
        call_soon = self._reactor.call_soon
        callbacks = RunCallbacks(
            segment=lambda segment: call_soon(lambda: self._segment_written(segment)),
            done=lambda part, reason: call_soon(lambda: self.ended(part, reason)),
        )
        self._runs = make(callbacks)

    def begin(self, spec: JobSpec, srns: Sequence[TargetId]) -> None:
        """Reserve a process for the part; `go` starts the part after the journal has recorded it."""
        if self._runs is None:
            self._jobs.not_forked(spec.jid, NO_RESOURCES)
            return
        try:
            pid, ticks = self._runs.begin(spec, srns)
        except OSError as error:
            self._jobs.not_forked(spec.jid, f"the minion cannot start another process: {error.strerror}")
            return
        self._begun.add(spec.jid)
        self._jobs.forked(spec.jid, pid, ticks)

    def go(self, part: PartId) -> None:
        """Start a part that has a reserved process."""
        if self._runs is not None:
            self._runs.go(part)

    def end(self, effect: EndPart) -> None:
        """End the part early. Nothing is to be done for a part of an earlier job server, whose process was killed."""
        if self._runs is not None and effect.jid in self._begun:
            self._runs.cancel(effect.jid, late=effect.late)

    def ended(self, part: PartId, reason: str) -> None:
        """Handle the end of a part. `reason` is "" if all resources have answered, and says otherwise why not."""
        try:
            if reason:
                # Its process may have died between writing a segment and reporting it.
                for segment in self._results.segments_of(part):
                    self._pass_on(segment)
        except JournalError as error:
            self._fail(str(error))
            return
        self._begun.discard(part)
        self._jobs.part_ended(part, reason)
        self._changed()

    def _segment_written(self, segment: str) -> None:
        try:
            self._pass_on(segment)
        except JournalError as error:
            self._fail(str(error))
            return
        self._changed()

    def _pass_on(self, segment: str) -> None:
        """Tell the job state machine about a segment, if it is in the spool."""
        if self._results.noticed(segment):
            self._jobs.produced(segment)
