"""The minion's composition root: the only module that builds adapters for its processes.

The job server is the first process and the parent of the others. Only a process without threads, network sockets and
module code may be forked repeatedly, and a network process that died can be restarted without rights of its own.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, JournalError, StartupError
from saltlite.loader.contracts import with_interfaces
from saltlite.loader.executors import executor_texts, own_executors
from saltlite.loader.index import Index, build_index, cached_index, refreshed_index
from saltlite.loader.search_path import search_layers
from saltlite.minion.jobs.job_process import JobContext
from saltlite.minion.jobs.job_server import JobServer, JobStorage
from saltlite.minion.jobs.journal import DiskJournal, RunCounter
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.jobs.rpc_server import LocalCallers
from saltlite.minion.jobs.spool import DiskSpool
from saltlite.minion.processes import identity
from saltlite.minion.processes import ipc_messages as ipc
from saltlite.minion.processes.identity import READY, STOPPED, Status, read_status, write_status
from saltlite.minion.processes.start import NetworkChild, masters_of, running_dir
from saltlite.minion.protocol.jobs import JobMachine, MasterTrust
from saltlite.minion.resources.discovery import declared_by
from saltlite.minion.resources.server import ResourceServer, RunCallbacks, ServerContext
from saltlite.minion.sync import (
    DocumentCallbacks,
    GrainFinder,
    JobGate,
    forget_pillar,
    inventory_grain,
    keep_pillar,
    kept_pillar,
)
from saltlite.minion.timers.beacons import Beacons
from saltlite.minion.timers.loop import TimerLoop
from saltlite.model import job
from saltlite.model.clock import Clock
from saltlite.model.execution import SHIPPED_EXECUTORS, UNAVAILABLE_PREFIX
from saltlite.model.resourcelook import TypeReport
from saltlite.model.signature import ABSENT
from saltlite.pillar.compiler import ERRORS
from saltlite.platform import logs, supervision, versions
from saltlite.platform.files import PosixFolder
from saltlite.platform.process import SETTLED_S, freeze_heap, run_in_child, trim_heap, unmap_clean_pages
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Channel
from saltlite.wire.directory import Directory
from saltlite.wire.framing import IpcMessage, pack
from saltlite.wire.messages import Message, functions_message

if TYPE_CHECKING:
    from saltlite.config.minion import MinionConfig

log = logging.getLogger(__name__)

FILES_LOOK_S = 3.0
"""Seconds between two checks of the module folders; a check of a hundred files takes a millisecond."""


class MinionDaemon:
    """The job server with all that it needs, from the moment when the network process was forked.

    `opts` has all options but the id.
    """

    def __init__(
        self,
        reactor: Reactor,
        network: NetworkChild,
        config: MinionConfig,
        opts: dict[str, Any],
        clock: Clock,
        on_ready: Callable[[], None],
    ) -> None:
        self.gave_up = False
        """Whether it stopped because the trial of its version has failed, and the base is to run."""
        token = identity.join_token(config)
        self._config = config
        self._clock = clock
        self._on_ready = on_ready
        self._id = identity.minion_id(config, _full_host_name)
        logs.set_log_context(id=self._id)
        self._fleet = identity.PinnedFleet(config, token)
        self._fleet.keep()
        fleets = () if self._fleet.pinned is None else (self._fleet.pinned, *self._fleet.former)
        self._masters = identity.kept_masters(config.data_dir, fleets)
        self._boot = clock.entropy(16).hex()
        # Made here; only the proof is passed on, so the network process never sees the secret of a token.
        self._proof = identity.join_proof(config.pki_dir, clock, token, self._id)
        self._reactor = reactor
        self._network = network
        self._problem = ""
        self._status = Status("", "", 0.0, types=_types_before(config.data_dir))
        self._withheld: list[str] = []
        self._opts = {**opts, "id": self._id}
        self._index = cached_index(search_layers(self._opts), config.cachedir, elsewhere=run_in_child)
        self._told = self._index
        self._own_executors = own_executors(self._opts)
        self._told_executors = executor_texts(self._opts, self._own_executors)
        self._warn_of_executors()
        spool_dir = os.path.join(config.data_dir, "spool")
        folder = PosixFolder(config.data_dir)
        self._runs = RunCounter(folder)
        self._journal = DiskJournal(folder, entropy=clock.entropy)
        disk = JobStorage(self._journal, DiskSpool(PosixFolder(spool_dir)), running_dir(config), config.data_dir)
        kept_dir = os.path.join(config.data_dir, job.FOLDER)
        returns = Returns(self._id, config.return_max, kept_dir, config.kept_returns_max)
        self._context = context = JobContext(
            self._opts,
            {"id": self._id},
            self._fresh_index,
            spool_dir,
            returns,
            self._phase,
            self._refresh,
            hooks=DocumentCallbacks(self._pillar_came, self._registered, self._look_again),
            alarm=lambda refused: self._write_status(refused=refused),
        )
        jobs = JobMachine(self._id, clock, limit=config.jobs_max, longest_s=config.run_timeout)
        trust = MasterTrust(self._fleet.believe, self._keep_masters)
        self._server = JobServer(self._reactor, jobs, disk, clock, context, trust=trust, fail=self._fail)
        self._callers = LocalCallers(self._reactor, self._server.rpc_server, config.data_dir)
        self._resources = self._make_resources(context, disk)
        self._inventory: dict[str, Any] = {}
        self._found: dict[str, Any] = {}
        beacons = Beacons(self._reactor, clock, context, self._send_event, self._server.runs_states, config.data_dir)
        self._timers = TimerLoop(self._reactor, clock, self._server.begin, beacons, config.data_dir, self._opts)
        self._server.own_jobs.ended = self._timers.ended
        self._server.rpc_server.timers = self._timers.answer
        self._opening = JobGate(self._reactor, self._open_jobs, self._use_kept_pillar)
        self._grains = GrainFinder(self._reactor, self._opts, self._grains_found)

    def run(self) -> None:
        """Run until SIGTERM or SIGINT. Raises StartupError."""
        try:
            self._server.replay()
        except JournalError as error:
            raise StartupError(str(error)) from error
        _import_for_jobs()
        freeze_heap()
        self._grains.find()
        self._callers.start()
        for signum in (signal.SIGTERM, signal.SIGINT):
            self._reactor.on_signal(signum, self._stop)
        self._network.use(self._connect, on_ready=self._ready, on_failed=self._fail)
        self._reactor.call_later(FILES_LOOK_S, self._look_at_files)
        within_s = versions.trial_s(self._config.data_dir)
        if within_s is not None:
            self._reactor.call_later(within_s + versions.GRACE_S, self._give_up_trial)
        self._reactor.run()
        if self._problem:
            raise StartupError(self._problem)

    def _make_resources(self, context: JobContext, disk: JobStorage) -> ResourceServer:
        server, declared = self._server, declared_by(self._config)
        known = self._status.types
        before = {name: report.found for name, report in known.items() if report.found is not None}
        around = ServerContext(server.rpc_server, self._registering, self._resources_found, before)
        resources: list[ResourceServer] = []

        def make(runs: RunCallbacks) -> ResourceServer:
            made = ResourceServer(self._reactor, context, declared, disk.spool, around=around, runs=runs)
            resources.append(made)
            return made

        server.manage_resources(make)
        return resources[0]

    # -- what the job server asks for

    def _fresh_index(self) -> Index:
        self._index = refreshed_index(self._index)
        return self._index

    def _functions(self) -> Message:
        texts = with_interfaces(self._index.function_texts(self._config.providers), self._opts)
        # A custom executor may handle functions that are not installed.
        own = not SHIPPED_EXECUTORS.issuperset(self._config.module_executors)
        return functions_message([*self._told_executors, *texts], whole=self._index.whole and not own)

    def _look_at_files(self) -> None:
        """Report changed modules to the master, which checks calls against them, and use grains that were set by hand
        or by `saltlite call`."""
        if self._config.module_dirs or self._config.extension_modules:
            self._tell_of_modules()
        self._grains.find_if_static_changed()
        self._reactor.call_later(FILES_LOOK_S, self._look_at_files)

    def _tell_of_modules(self) -> None:
        # Job processes check the folders too, and report nothing: only the index that was reported to the master
        # counts.
        self._index = build_index(search_layers(self._opts), self._index)
        self._own_executors = own_executors(self._opts, self._own_executors)
        executors = executor_texts(self._opts, self._own_executors)
        if executors != self._told_executors:
            self._told_executors = executors
            self._warn_of_executors()
        elif self._index is self._told:
            return
        self._told = self._index
        self._server.functions_are(self._functions())

    def _warn_of_executors(self) -> None:
        names = [text.removesuffix(ABSENT) for text in self._told_executors]
        missing = [name.removeprefix(UNAVAILABLE_PREFIX) for name in names if name.startswith(UNAVAILABLE_PREFIX)]
        if missing:
            log.error(
                "No job can run here: module_executors names %s, which this minion does not have. `saltlite doctor` "
                "says how to correct it; `saltlite call --module-executors=direct_call FUNCTION` works all the same.",
                ", ".join(missing),
            )

    def _open_jobs(self) -> None:
        self._server.open()
        self._timers.open()

    def _send_event(self, message: Message, answered: Callable[[Message], None]) -> None:
        self._server.rpc_server.ask(message, answered, again=True)

    def _phase(self, phase: str, reason: str, master: str) -> None:
        if self._status.phase == STOPPED:
            return  # said before it was told to stop: the last word has been written
        self._write_status(phase=phase, reason=reason, at=self._clock.wall())
        supervision.notify([f"STATUS=connection: {phase}{f' ({reason})' if reason else ''}"])
        if phase == READY:
            versions.confirm(self._config.data_dir)
            self._use_master(master)
            self._opening.connected()

    def _use_master(self, address: str) -> None:
        """Put the connected master first in the options of the next jobs: files that users write see it as `master`."""
        texts = dict(zip(masters_of(self._config), self._config.master, strict=True))
        if address not in {*texts, *(one.address for one in self._masters.masters)}:
            return  # the network process has it from no master
        here = texts.get(address, address)
        order = [here, *(text for text in self._config.master if text != here)]
        if order != self._context.opts["master"]:
            self._context.opts = {**self._context.opts, "master": order}
            self._server.grains_are(self._context.grains)  # waiting processes have the old options

    def _keep_masters(self, known: Directory) -> bool:
        if (kept := known.after(self._masters, self._clock.wall())) is None:
            log.info("a list of masters was not used: it was signed before the one that this minion has")
            return False
        if kept != self._masters and self._fleet.pinned is not None:
            self._masters = kept
            try:
                identity.keep_masters(self._config.data_dir, self._fleet.pinned, kept)
            except StartupError as error:
                log.error("the list of masters is not on the disk yet: %s", error)  # noqa: TRY400 - a sentence
        return True

    def _write_status(self, **changes: Any) -> None:
        self._status = replace(self._status, **changes)
        write_status(self._config.data_dir, self._status)

    def _refresh(self, what: str, done: Callable[[IpcMessage], None]) -> None:
        """A job changed plug-ins, the machine, or its pillar: check at once."""
        documents = self._server.documents

        def looked() -> None:
            documents.settled("resources", lambda: done({}))

        def pillar_came(why: str) -> None:
            if why:
                done({"error": f"the pillar could not be fetched so far, and the minion tries again: {why}"})
            else:
                self._resources.looked(looked)

        match what:
            case "grains":
                self._grains.find(lambda: documents.settled("grains", lambda: done({})))
            case "pillar":
                documents.refresh_pillar(pillar_came)
            case "resources":
                self._resources.refresh(lambda: documents.registered(lambda: done(self._resources_told())))
            case _:
                self._tell_of_modules()
                done({})

    def _resources_told(self) -> IpcMessage:
        """The report for an explicit discovery of resources."""
        types = {name: report.shown() for name, report in self._resources.reports().items()}
        return {"types": types, "looked_at": self._resources.looked_at(), "withheld": self._withheld}

    def _look_again(self) -> None:
        self._resources.look_again()

    def _registering(self, document: bytes) -> None:
        self._write_status(types=self._resources.reports(), looked_at=self._resources.looked_at())
        self._server.documents.resources_are(document)

    # -- grains, pillar, resources

    def _grains_found(self, grains: dict[str, Any]) -> None:
        self._found = grains
        self._grains_are({**grains, **self._inventory})
        self._opening.grains_found()

    def _resources_found(self, inventory: dict[str, list[str]]) -> None:
        self._inventory = inventory_grain(inventory)
        if self._found:
            self._grains_are({**self._found, **self._inventory})

    def _grains_are(self, grains: dict[str, Any]) -> None:
        self._server.grains_are(grains)
        self._resources.grains_are(grains)
        self._server.documents.grains_are(grains)

    def _keep(self, pillar: dict[str, Any]) -> None:
        try:
            keep_pillar(self._config.cachedir, pillar)
        except CommandExecutionError as error:
            log.warning("%s", error)

    def _pillar_came(self, pillar: dict[str, Any]) -> None:
        if pillar.get(ERRORS):
            log.error("the pillar is not whole: pillar.item %s says why, and so does the log of the master", ERRORS)
        if self._config.minion_pillar_cache:
            self._keep(pillar)
        else:
            forget_pillar(self._config.cachedir)
        self._use_pillar(pillar)
        self._opening.pillar_came()

    def _use_kept_pillar(self) -> None:
        """Use the copy of an earlier pillar, if the configuration asks for one and there is one."""
        try:
            pillar = kept_pillar(self._config.cachedir) if self._config.minion_pillar_cache else {}
        except CommandExecutionError as error:
            log.warning("%s", error)
            return
        if pillar:
            self._use_pillar(pillar)

    def _use_pillar(self, pillar: dict[str, Any]) -> None:
        self._server.pillar_is(pillar)
        self._resources.pillar_is(pillar)
        self._timers.pillar_is(pillar)

    def _registered(self, ok: bool, reasons: Sequence[str], withheld: bytes) -> None:
        self._resources.registered(withheld if ok else None)
        self._withheld = list(reasons)
        self._write_status(resources="; ".join(reasons))

    # -- the network process

    def _connect(self, ours: socket.socket) -> None:
        """Tell a new network process who this minion is, and serve it."""
        channel = Channel(
            self._reactor,
            ours,
            self._server.on_batch,
            lambda _reason: None,
            message_max=ipc.MESSAGE_MAX,
            send_buffer_max=ipc.BUFFER_MAX,
        )
        channel.send(
            pack(
                ipc.start(
                    self._id,
                    boot=self._boot,
                    incarnation=self._journal.incarnation,
                    run=self._runs.next(),
                    proof=self._proof,
                    fleet=(self._fleet.raw(), self._masters),
                    functions=self._functions(),
                )
            )
        )
        self._server.attach(channel)

    # -- life and death

    def _ready(self) -> None:
        log.info("minion %s is ready", self._id)
        trim_heap()
        self._reactor.call_later(SETTLED_S, unmap_clean_pages)
        supervision.notify(["READY=1"])
        self._on_ready()
        supervision.feed_watchdog(self._reactor)

    def _fail(self, sentence: str) -> None:
        self._problem = self._problem or sentence
        self._stop()

    def _give_up_trial(self) -> None:
        """Go back to the version before. The process that watches the trial has done it earlier, if it still runs."""
        if versions.give_up_own(self._config.data_dir):
            self.gave_up = True
            self._stop()

    def _stop(self) -> None:
        supervision.notify(["STOPPING=1"])
        self._write_status(phase=STOPPED, reason=self._problem, at=self._clock.wall())
        # Nothing may arrive while resource types shut down.
        self._network.stop(lambda: self._resources.stop(self._reactor.stop))


def _full_host_name() -> str:
    from saltlite.plugins.grains.network import names  # noqa: PLC0415 - only a minion without an id needs it

    return str(names()["fqdn"])


def _types_before(data_dir: str) -> Mapping[str, TypeReport]:
    """The reports of resource types before this start."""
    status = read_status(data_dir)
    return status.types if status is not None else {}


def _import_for_jobs() -> None:
    """Import what almost every job needs once, so that forked processes share the memory."""
    for name in ("grp", "pwd", "selectors", "shlex", "shutil", "subprocess", "tempfile"):
        importlib.import_module(name)
