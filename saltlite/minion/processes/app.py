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
from typing import Any

from saltlite import __version__
from saltlite.config.minion import MinionConfig
from saltlite.config.options import opts_of
from saltlite.config.values import parse_address
from saltlite.errors import CommandExecutionError, JournalError, StartupError
from saltlite.loader.contracts import with_interfaces
from saltlite.loader.index import Index, build_index, cached_index, refreshed_index
from saltlite.loader.search_path import search_layers
from saltlite.minion.jobs.job_process import JobContext
from saltlite.minion.jobs.job_server import JobServer, JobStorage
from saltlite.minion.jobs.journal import DiskJournal
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.jobs.rpc_server import LocalEvents
from saltlite.minion.jobs.spool import DiskSpool
from saltlite.minion.processes import identity
from saltlite.minion.processes import ipc_messages as ipc
from saltlite.minion.processes.identity import READY, STOPPED, Status, read_status, write_status
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.minion.resources.discovery import declared_by
from saltlite.minion.resources.server import ResourceServer, RunCallbacks, ServerContext
from saltlite.minion.sync import DocumentCallbacks, GrainFinder, JobGate, forget_pillar, inventory_grain, keep_pillar
from saltlite.model import job
from saltlite.model.execution import KNOWING
from saltlite.model.keys import fingerprint
from saltlite.model.resourcelook import TypeReport
from saltlite.pillar.compiler import ERRORS
from saltlite.platform import logs, supervision
from saltlite.platform.daemon import InstanceLock, SystemClock
from saltlite.platform.files import PosixFolder
from saltlite.platform.privileges import UserAccount, account_of, drop_to, private_dir, start_log
from saltlite.platform.process import freeze_heap, run_in_child
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Channel
from saltlite.platform.supervision import Children, Spec
from saltlite.plugins.grains.network import names
from saltlite.wire.framing import IpcMessage
from saltlite.wire.messages import Message, functions_message

log = logging.getLogger(__name__)

FILES_LOOK_S = 3.0
"""Seconds between two checks of the module folders; a check of a hundred files takes a millisecond."""


def run_minion(config: MinionConfig, on_ready: Callable[[], None] = lambda: None) -> None:
    """Run the minion until it is stopped. Raises StartupError when it cannot start."""
    clock = SystemClock()
    me, account = UserAccount("", os.geteuid(), os.getegid()), account_of(config.user)
    for folder in (config.pki_dir, config.data_dir, config.cachedir):
        private_dir(folder, me.uid, me.gid)
    running_dir = os.path.join(config.data_dir, "running")
    private_dir(running_dir, me.uid, me.gid)
    start_log(config.log_level, config.log_file, account)
    lock = InstanceLock(os.path.join(config.data_dir, "lock"), program="saltlite-minion", root_dir=config.root_dir)
    minion = _Minion(config, clock, running_dir, on_ready)
    minion.run()
    lock.close()


class _Minion:
    """The first process: job server, and parent of the network process."""

    def __init__(
        self,
        config: MinionConfig,
        clock: SystemClock,
        running_dir: str,
        on_ready: Callable[[], None],
    ) -> None:
        token = identity.join_token(config)
        self._config = config
        self._clock = clock
        self._on_ready = on_ready
        self._id = identity.minion_id(config, str(names()["fqdn"]))
        logs.set_log_context(id=self._id)
        self._fleet = identity.PinnedFleet(config, token)
        self._fleet.keep()
        self._boot = clock.entropy(16).hex()
        # Made here; only the proof is passed on, so the network process never sees the secret of a token.
        self._proof = identity.join_proof(config.pki_dir, clock, token, self._id)
        self._reactor = Reactor()
        self._problem = ""
        self._status = Status("", "", 0.0, types=_types_before(config.data_dir))
        self._withheld: list[str] = []
        self._opts = opts_of(config, self._id)
        self._index = cached_index(search_layers(self._opts), config.cachedir, elsewhere=run_in_child)
        self._told = self._index
        spool_dir = os.path.join(config.data_dir, "spool")
        self._journal = DiskJournal(PosixFolder(config.data_dir), entropy=clock.entropy)
        disk = JobStorage(self._journal, DiskSpool(PosixFolder(spool_dir)), running_dir, config.data_dir)
        kept_dir = os.path.join(config.data_dir, job.FOLDER)
        returns = Returns(self._id, config.return_max, kept_dir, config.kept_returns_max)
        context = JobContext(
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
        self._server = JobServer(
            self._reactor, jobs, disk, clock, context, believe=self._fleet.believe, fail=self._fail
        )
        self._callers = LocalEvents(self._reactor, self._server.rpc_server, config.data_dir)
        self._resources = self._make_resources(context, disk)
        self._inventory: dict[str, Any] = {}
        self._found: dict[str, Any] = {}
        self._opening = JobGate(self._reactor, self._server.open)
        self._grains = GrainFinder(self._reactor, self._opts, self._grains_found)
        self._pair: tuple[socket.socket, socket.socket] | None = None
        self._children = Children(
            self._reactor,
            [Spec("minion link", self._run_network, self._network_keeps, self._make_pair, self._attach)],
            on_ready=self._ready,
            on_failed=self._fail,
        )

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
        self._children.start()
        self._reactor.call_later(FILES_LOOK_S, self._look_at_files)
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
        own = not KNOWING.issuperset(self._config.module_executors)
        return functions_message(texts, whole=self._index.whole and not own)

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
        if self._index is not self._told:
            self._told = self._index
            self._server.functions_are(self._functions())

    def _phase(self, phase: str, reason: str) -> None:
        if self._status.phase == STOPPED:
            return  # said before it was told to stop: the last word has been written
        self._write_status(phase=phase, reason=reason, at=self._clock.wall())
        supervision.notify([f"STATUS=connection: {phase}{f' ({reason})' if reason else ''}"])
        if phase == READY:
            self._opening.connected()

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
        self._server.pillar_is(pillar)
        self._resources.pillar_is(pillar)
        self._opening.pillar_came()

    def _registered(self, _ok: bool, reasons: Sequence[str]) -> None:
        self._withheld = list(reasons)
        self._write_status(resources="; ".join(reasons))

    # -- the network process

    def _make_pair(self) -> None:
        self._pair = socket.socketpair()

    def _network_keeps(self) -> tuple[int, ...]:
        # Above all not the journal, and not the sockets at which processes with all rights wait for their jobs.
        return () if self._pair is None else (self._pair[1].fileno(),)

    def _attach(self) -> None:
        if self._pair is None:
            return
        ours, theirs = self._pair
        theirs.close()
        self._pair = None
        channel = Channel(
            self._reactor,
            ours,
            self._server.on_batch,
            lambda _reason: None,
            message_max=ipc.MESSAGE_MAX,
            send_buffer_max=ipc.BUFFER_MAX,
        )
        self._server.attach(channel)

    def _run_network(self, ready: Callable[[], None]) -> None:
        import encodings.idna  # noqa: F401, PLC0415 - for names of masters; `user` may not be able to read it later

        from saltlite.minion.processes.network import NetworkProcess  # noqa: PLC0415 - as above
        from saltlite.minion.protocol.connection import ConnectionMachine, MinionIdentity  # noqa: PLC0415 - as above
        from saltlite.platform.zmq_link import DealerLink  # noqa: PLC0415 - only this process loads ZeroMQ
        from saltlite.wire.noise import public_of  # noqa: PLC0415 - as above

        if self._pair is None:
            raise StartupError("the network process was started without a way to the job server")
        ours, theirs = self._pair
        ours.close()
        functions = self._functions()
        me = MinionIdentity(
            id=self._id,
            private=identity.minion_key(self._config.pki_dir, self._clock),
            boot=self._boot,
            incarnation=self._journal.incarnation,
            version=__version__,
            functions=functions["digest"],
            token=self._proof,
        )
        drop_to(self._config.user)
        reactor = Reactor()
        connection = ConnectionMachine(me, masters_of(self._config), self._fleet.raw(), self._clock)
        network = NetworkProcess(
            reactor,
            connection,
            lambda owner: DealerLink(reactor, owner.on_up, owner.on_frame, owner.on_down),
            functions,
            key=fingerprint(public_of(me.private)),
        )
        channel = Channel(
            reactor,
            theirs,
            network.on_batch,
            network.on_closed,
            message_max=ipc.MESSAGE_MAX,
            send_buffer_max=ipc.BUFFER_MAX,
        )
        reactor.on_signal(signal.SIGTERM, network.stop)
        # Ctrl-C reaches the whole group; the job server decides.
        reactor.on_signal(signal.SIGINT, lambda: None)
        ready()
        network.start(channel)
        reactor.run()

    # -- life and death

    def _ready(self) -> None:
        log.info("minion %s is ready", self._id)
        supervision.notify(["READY=1"])
        self._on_ready()
        supervision.feed_watchdog(self._reactor)

    def _fail(self, sentence: str) -> None:
        self._problem = self._problem or sentence
        self._stop()

    def _stop(self) -> None:
        supervision.notify(["STOPPING=1"])
        self._write_status(phase=STOPPED, reason=self._problem, at=self._clock.wall())
        # Nothing may arrive while resource types shut down.
        self._children.stop(lambda: self._resources.stop(self._reactor.stop))


def masters_of(config: MinionConfig) -> tuple[str, ...]:
    """`host:port` of each configured master, in order."""
    pairs = [parse_address(text, config.port) for text in config.master]
    return tuple(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in pairs)


def _types_before(data_dir: str) -> Mapping[str, TypeReport]:
    """The reports of resource types before this start."""
    status = read_status(data_dir)
    return status.types if status is not None else {}


def _import_for_jobs() -> None:
    """Import what almost every job needs once, so that forked processes share the memory."""
    for name in ("grp", "pwd", "selectors", "shlex", "shutil", "subprocess", "tempfile"):
        importlib.import_module(name)
