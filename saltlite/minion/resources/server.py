"""The resources of this minion in its job server: the declared types, their processes, and the runs of parts for them.

`ResourceServer` has a `TypeSupervisor` for each type that the pillar declares. It registers the resources that the
types discover, and gives parts of jobs to them. A process of a type is replaced when it asks for that because calls
hang in it, when its files or its part of the pillar have changed, and when it dies. The new process gets all later
work; the old one finishes its work and exits.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

from saltlite.errors import JournalError, LocalProtocolError
from saltlite.minion.jobs.job_process import JobContext, JobSpec
from saltlite.minion.jobs.rpc_server import RpcServer
from saltlite.minion.protocol.effects import Spool, SpoolEntry
from saltlite.minion.resources.discovery import Declared
from saltlite.minion.resources.process import SHUTDOWN_S, Start, TypeProcess, fork_type
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import PartId, TargetId, parse_srn, resource_index_srn_key
from saltlite.model.job import TargetState, segment_id
from saltlite.model.resourcelook import Inventory, TypeReport
from saltlite.platform.process import Child, ProcessTree, start_ticks
from saltlite.platform.reactor import Reactor, Timer
from saltlite.platform.stream import Channel
from saltlite.platform.supervision import how
from saltlite.wire.codec import encode_document
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.limits import DOC_MAX
from saltlite.wire.messages import SegmentRow, encode_segment

log = logging.getLogger(__name__)

RESTART_MIN_S = 0.05
RESTART_MAX_S = 60.0
STEADY_S = 10.0
"""A process that lived so long resets the restart delay."""
AGAIN_S, AGAIN_MAX_S = 60.0, 3600.0
"""Seconds until a type that failed to load or to discover is tried again; they double for one that does not load."""
STOP_S = SHUTDOWN_S + 1.0
"""Seconds from the request to stop a process to its kill."""

LISTEN_S = 20.0
"""Seconds between liveness checks of a busy process."""
SILENT_MAX = 3
"""Unanswered checks after which a process is killed; a call blocks all its threads. Busy machines need several."""

LAST_WORDS_S = 0.5
"""Seconds to read the last messages of a dead process, whose programs may hold its socket open."""
STOPPED = "the minion was stopped, or has this type no more"
"""The reason of parts whose process was stopped."""
FIRST = 1
"""The number of the first segment of a process; 0 is the job server's own."""
LOOK_BYTES = 8
"""Random bytes of the name of a discovery, which makes it unique."""
MESSAGE_MAX = 2 * DOC_MAX
"""Bytes of one message; the largest has the grains of all resources of a type."""


@dataclass(frozen=True, slots=True)
class PartCall:
    """A part of a job for resources of one type."""

    call: JobSpec
    srns: Sequence[TargetId]


@dataclass(slots=True)
class FoundResources:
    """The result of discovery. `known`: a discovery has ended, successful or not."""

    known: bool = False
    ids: Sequence[str] = ()
    srns: frozenset[TargetId] = frozenset()
    functions: Sequence[str] = ()
    grains: Mapping[TargetId, Mapping[str, Any]] = field(default_factory=dict)
    stale: Sequence[TargetId] = ()
    why: str = ""
    """Why the discovery failed, "" otherwise."""
    loaded: bool = False
    initialised: bool = False
    unusable: str = ""
    """Why the type cannot be called, "" if it can."""
    was: int | None = None
    """The number of resources of the last but one successful discovery."""
    look: str = ""
    """The name of the last successful discovery."""

    def report(self, looked_at: str) -> TypeReport:
        """The report for the master and operators; `looked_at`: which pillar keys declare the resources."""
        return TypeReport(
            loaded=self.loaded,
            initialised=self.initialised,
            found=None if self.why or not self.look else len(self.ids),
            was=self.was,
            error=self.why or self.unusable,
            looked_at="" if self.why or self.ids else looked_at,
            look=self.look,
        )


@dataclass(frozen=True, slots=True)
class TypeCallbacks:
    """Callbacks about parts, as in `RunCallbacks`, and about discovery."""

    segment: Callable[[str], None]
    done: Callable[[PartId, str], None]
    found: Callable[[], None]
    """A step of discovery is done: see `TypeSupervisor.looking` and `FoundResources`."""
    asked: Callable[[TypeProcess, bytes], None]
    """The process has sent a request."""
    ended: Callable[[TypeProcess], None]
    """The process sends no more requests."""


class _Running:
    """One process and its parts."""

    def __init__(self, process: TypeProcess, child: Child, channel: Channel, began: float) -> None:
        self.process = process
        self.child = child
        self.channel = channel
        self.began = began
        self.ticks = start_ticks(process.pid) or 0
        self.parts: set[PartId] = set()
        self.listened = False
        """Whether a liveness check is scheduled."""
        self.silent = 0
        """Unanswered liveness checks."""
        self.faulty = False
        self.stopping = False
        self.status: int | None = None
        self.exited = False
        self.closed = False

    def say(self, message: IpcMessage) -> None:
        self.channel.send(pack(message))


class TypeSupervisor:
    """Supervises the process of one type."""

    def __init__(
        self,
        name: str,
        reactor: Reactor,
        make: Callable[[Mapping[TargetId, Mapping[str, Any]]], TypeProcess],
        events: TypeCallbacks,
        was: int | None = None,
    ) -> None:
        """`make` forks a process with these grains or raises OSError; `was`: the last known number of resources."""
        self.name = name
        self.found = FoundResources()
        self._was = was
        self.looking = False
        """Whether a discovery is running, until its grains have arrived."""
        self.finding = False
        """Whether a discovery is running that has not found the resources yet."""
        self._reactor = reactor
        self._make = make
        self._events = events
        self._current: _Running | None = None
        self._all: list[_Running] = []
        self._waiting: dict[PartId, PartCall] = {}
        self._number = 0
        self._pause_s = RESTART_MIN_S
        self._again_s = AGAIN_S
        self._starting = False
        self._stopped: Callable[[], None] | None = None
        self._start()

    @property
    def process(self) -> tuple[int, int]:
        """Pid and start time of the process that gets new parts; zeros if there is none."""
        return (self._current.process.pid, self._current.ticks) if self._current else (0, 0)

    @property
    def is_gone(self) -> bool:
        """Whether it has no process."""
        return not self._all

    # -- parts

    def run(self, part: PartCall) -> None:
        """Run a part, now or when there is a process."""
        if self._current is None:
            self._waiting[part.call.jid] = part
            return
        call = part.call
        self._current.parts.add(call.jid)
        calls = [[fun, list(args), dict(kwargs)] for fun, args, kwargs in call.calls]
        message = {"t": "run", "part": call.jid, "calls": calls, "user": call.user, "srns": list(part.srns)}
        execution = {"executors": call.execution.executors, "options": call.execution.options}
        self._current.say({**message, **execution, "number": FIRST})
        self._listen(self._current)

    def cancel(self, part: PartId, why: str) -> bool:
        """End that part; it is reported as done. False if it is not here."""
        if self._waiting.pop(part, None) is not None:
            self._reactor.call_soon(lambda: self._events.done(part, why))
            return True
        for running in self._all:
            if part in running.parts:
                running.say({"t": "cancel", "part": part, "how": why})
                return True
        return False

    # -- the look

    def find(self) -> None:
        """Discover resources and their grains, in a new process if the type was unusable until now."""
        self._number, self._again_s = self._number + 1, AGAIN_S
        self.looking = self.finding = True
        if self._current is not None and self._current.faulty:
            self.replace()
        elif self._current is not None:
            self._say_find(self._current)

    def minion_is(self, grains: Mapping[str, Any]) -> None:
        """Use new grains of the minion."""
        for running in self._all:
            running.say({"t": "minion", "grains": dict(grains)})

    def pillar_is(self, pillar: Mapping[str, Any]) -> None:
        """Use a changed pillar whose part for this type is the same."""
        if self._current is not None:
            self._current.say({"t": "pillar", "pillar": dict(pillar)})

    def replace(self) -> None:
        """Use a new process from now on."""
        old, self._current = self._current, None
        if old is not None:
            self._let_go(old)
        self._start()

    def stop(self, done: Callable[[], None] = lambda: None) -> None:
        """End all processes; running parts are reported as done. `done` is called when they are gone."""
        self._stopped = done
        self._current = None
        for running in self._all:
            self._end(running)
        if not self._all:
            done()

    # -- processes

    def _start(self) -> None:
        self._starting = False
        if self._stopped is not None or self._current is not None:
            return
        try:
            process = self._make(self.found.grains)
        except OSError as error:
            log.warning("resource type %s: no process can be started: %s; raise TasksMax", self.name, error.strerror)
            self._start_later()
            return
        self._current = self._watched(process)
        waiting, self._waiting = self._waiting, {}
        for part in waiting.values():
            self.run(part)
        if self.looking:
            self._say_find(self._current)

    def _say_find(self, running: _Running) -> None:
        running.say({"t": "find", "n": self._number})
        self._listen(running)

    def _watched(self, process: TypeProcess) -> _Running:
        def closed(_reason: str) -> None:
            running.closed = True
            if running.exited:
                self._gone(running)
            else:
                self._reactor.call_later(STOP_S, lambda: self._kill(running, "does not end"))

        channel = Channel(
            self._reactor,
            process.socket,
            lambda batch: self._on_messages(running, batch),
            closed,
            message_max=MESSAGE_MAX,
            send_buffer_max=MESSAGE_MAX,
        )
        child = Child(self._reactor, process.pid, lambda status: self._died(running, status))
        running = _Running(process, child, channel, self._reactor.now())
        self._all.append(running)
        rpc = process.rpc
        rpc.on_ask = lambda raw: self._events.asked(process, raw)
        self._reactor.add_reader(rpc.socket.fileno(), lambda: self._asked(process))
        return running

    def _asked(self, process: TypeProcess) -> None:
        if process.rpc.receive() is not None:
            self._reactor.remove_reader(process.rpc.socket.fileno())

    def _start_later(self) -> None:
        if not self._starting:
            self._starting = True
            self._reactor.call_later(self._pause_s, self._start)
            self._pause_s = min(2 * self._pause_s, RESTART_MAX_S)

    def _let_go(self, running: _Running) -> None:
        """End the process when it is idle."""
        if not running.parts:
            self._end(running)

    def _end(self, running: _Running) -> None:
        if running.stopping:
            return
        running.stopping = True
        running.say({"t": "stop"})
        self._reactor.call_later(STOP_S, lambda: self._kill(running, "does not end"))

    def _listen(self, running: _Running) -> None:
        """Check that a busy process responds."""
        if not running.listened:
            running.listened, running.silent = True, 0
            self._reactor.call_later(LISTEN_S, lambda: self._ask(running))

    def _ask(self, running: _Running) -> None:
        has_work = running.parts or (self.looking and running is self._current)
        running.listened = bool(has_work) and running in self._all
        if not running.listened:
            return
        if running.silent == SILENT_MAX:
            self._kill(running, f"has not been heard of for {SILENT_MAX * LISTEN_S:g} s")
            return
        running.silent += 1
        running.say({"t": "there"})
        self._reactor.call_later(LISTEN_S, lambda: self._ask(running))

    def _kill(self, running: _Running, why: str) -> None:
        if running in self._all:
            log.warning("resource type %s: its process %s, and is killed", self.name, why)
            with contextlib.suppress(PermissionError):
                ProcessTree(running.process.pid).signal(signal.SIGKILL)
            running.child.signal(signal.SIGKILL)

    def _died(self, running: _Running, status: int | None) -> None:
        running.status, running.exited = status, True
        if running.closed:
            self._gone(running)
        else:
            self._reactor.call_later(LAST_WORDS_S, lambda: self._gone(running))

    def _gone(self, running: _Running) -> None:
        """Handle the end of the process, after its last message."""
        if running not in self._all:
            return
        self._all.remove(running)
        running.channel.close()
        rpc = running.process.rpc
        self._events.ended(running.process)
        self._reactor.remove_reader(rpc.socket.fileno())
        rpc.close()
        parts, running.parts = running.parts, set()
        ended = STOPPED if self._stopped is not None else how(running.status)
        for part in sorted(parts):
            self._events.done(part, ended)
        if running is self._current:
            self._crashed(running, ended)
        if self._stopped is not None and not self._all:
            self._stopped()

    def _crashed(self, running: _Running, ended: str) -> None:
        self._current = None
        if self._reactor.now() - running.began >= STEADY_S:
            self._pause_s = RESTART_MIN_S
        log.error("resource type %s: its process ended (%s), and is started again", self.name, ended)
        if self.looking:
            self._nothing_found(f"its process ended ({ended})")
            self._reactor.call_later(AGAIN_S, self._look_again)
        self._start_later()

    # -- what a process says

    def _on_messages(self, running: _Running, batch: Sequence[bytes]) -> None:
        running.silent = 0
        for data in batch:
            message = unpack(data)
            match message["t"]:
                case "segment":
                    self._events.segment(message["id"])
                case "done":
                    running.parts.discard(message["part"])
                    self._events.done(message["part"], message["how"])
                    if running is not self._current:
                        self._let_go(running)
                case _ if running is not self._current:
                    pass  # what an old process finds is old
                case "tired":
                    text = "resource type %s: %d calls that were given up still run, so its process is replaced"
                    log.warning(text, self.name, message["hung"])
                    self.replace()
                case "changed":
                    self.replace()
                case "stands":
                    self.found.loaded, self.found.initialised = message["loaded"], message["initialised"]
                    self.found.unusable = message["why"]
                case "found" if message["n"] == self._number:
                    self._found_ids(running, message)
                case "grains" if message["n"] == self._number:
                    self._found_grains(message)

    def _found_ids(self, running: _Running, message: IpcMessage) -> None:
        running.faulty = message["faulty"]
        if running.faulty:
            self._reactor.call_later(self._again_s, lambda: self._look_again(running))
            if not self.found.loaded:
                self._again_s = min(2 * self._again_s, AGAIN_MAX_S)
        if message["why"]:
            self._nothing_found(message["why"])
            return
        self.finding = False
        found = self.found
        found.was, self._was = self._was, len(message["ids"])
        found.look = os.urandom(LOOK_BYTES).hex()
        found.known, found.why, found.ids, found.functions = True, "", message["ids"], message["functions"]
        found.srns = frozenset(resource_index_srn_key(self.name, one) for one in found.ids)
        found.grains = {srn: grains for srn, grains in found.grains.items() if srn in found.srns}
        found.stale = sorted(found.srns - found.grains.keys())
        self._events.found()

    def _found_grains(self, message: IpcMessage) -> None:
        """Add more grains; those reported before stay valid."""
        found = self.found
        found.grains = {**found.grains, **message["grains"]}
        found.stale = message["stale"] if message["last"] else sorted(found.srns - found.grains.keys())
        self.looking = not message["last"]
        self._events.found()

    def _nothing_found(self, why: str) -> None:
        """Handle a failed discovery: the old result stays."""
        if why != self.found.why:  # once, and not at each attempt
            log.warning("resource type %s: its resources could not be looked for: %s", self.name, why)
        self.found.known, self.found.why = True, why
        self.looking = self.finding = False
        self._events.found()

    def _look_again(self, faulty: _Running | None = None) -> None:
        """Try again, unless the process that was `faulty` has been replaced since."""
        if faulty in (None, self._current) and not self.looking and self._stopped is None:
            again_s = self._again_s
            self.find()
            self._again_s = again_s
            self._events.found()


@dataclass(frozen=True, slots=True)
class RunCallbacks:
    """Callbacks about parts, called from the job server's reactor."""

    segment: Callable[[str], None]
    """Results of resources of a part are in the spool, under this segment id."""
    done: Callable[[PartId, str], None]
    """The part has ended: every resource has answered (""), or its process ended first, with this reason."""


class ResourceRuns(Protocol):
    """Runs parts for resources of one type each; `call.jid` is the id of the part."""

    def begin(self, call: JobSpec, srns: Sequence[TargetId]) -> tuple[int, int]:
        """Reserve a process for the part; returns its pid, and its start time in clock ticks.

        Raises OSError when the machine has no room for a process.
        """
        ...

    def go(self, part: PartId) -> None:
        """Run a reserved part, after the journal has recorded it."""
        ...

    def cancel(self, part: PartId, *, late: bool) -> None:
        """End the part: queued calls are dropped, running ones given up. `done` follows.

        `late`: its run time limit has passed; otherwise an operator ends it.
        """
        ...


REGISTER_SOON_S = 1.0
"""If grains take longer, resources are registered without them, and again when they arrive."""
PILLAR_WAIT_S = 60.0
"""Seconds that a part waits for the first pillar, which declares the types."""
LOOK_AGAIN_S = 120.0
"""Seconds until another discovery when the master wants to be sure that resources are gone. An inventory that was read
while it was written is complete by then."""
NO_PILLAR = "this minion has no pillar yet, so it does not know which resources it manages"
NOT_OURS = "this minion does not manage it"
ENDED = "ended on demand"


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The parts of the minion that resources need."""

    rpc_server: RpcServer
    """Handles requests of functions."""
    registration: Callable[[bytes], None]
    """Called with the document that registers all resources."""
    inventory: Callable[[dict[str, list[str]]], None]
    """Called with type -> bare ids, when they have changed."""
    before: Mapping[str, int] = field(default_factory=dict)
    """Type -> the number of resources before the minion was started, if known."""


class ResourceServer:
    """Implements `ResourceRuns`. Parts wait until the first pillar has arrived and their type was discovered once."""

    def __init__(
        self,
        reactor: Reactor,
        context: JobContext,
        declared: Declared,
        spool: Spool,
        *,
        around: ServerContext,
        runs: RunCallbacks,
    ) -> None:
        self._reactor = reactor
        self._context = context
        self._declared = declared
        self._spool = spool
        self._around = around
        self._runs = runs
        self._supervisors: dict[str, TypeSupervisor] = {}
        self._leaving: list[TypeSupervisor] = []
        self._pillar: Mapping[str, Any] | None = None
        self._held: dict[PartId, PartCall] = {}
        self._waiting: dict[PartId, PartCall] = {}
        self._looking = False
        self._soon: Timer | None = None
        self._done: list[Callable[[], None]] = []
        self._next: list[Callable[[], None]] = []
        self._inventory: dict[str, list[str]] = {}
        self._claims = Inventory()
        self._stopped: Callable[[], None] | None = None
        self._look_name = ""
        self._again: Timer | None = None
        self._was_asked_again = False

    # -- parts

    def begin(self, call: JobSpec, srns: Sequence[TargetId]) -> tuple[int, int]:
        """See the port. A part without a process waits in this one."""
        self._held[call.jid] = PartCall(call, srns)
        supervisor = self._supervisors.get(parse_srn(srns[0]).type or "")
        pid, ticks = supervisor.process if supervisor is not None else (0, 0)
        return (pid, ticks) if pid else (os.getpid(), start_ticks(os.getpid()) or 0)

    def go(self, part: PartId) -> None:
        self._waiting[part] = self._held.pop(part)
        if self._pillar is None:
            self._reactor.call_later(PILLAR_WAIT_S, lambda: self._without_pillar(part))
        self._run_waiting()

    def cancel(self, part: PartId, *, late: bool) -> None:  # noqa: ARG002 - the jobs machine says why it ended
        if self._held.pop(part, None) is not None or self._waiting.pop(part, None) is not None:
            self._runs.done(part, ENDED)
            return
        for supervisor in (*self._supervisors.values(), *self._leaving):
            if supervisor.cancel(part, ENDED):
                return

    # -- what there is

    def pillar_is(self, pillar: Mapping[str, Any]) -> None:
        """Use a new pillar, and start a discovery if it has changed.

        Types whose part of the pillar has changed get new processes; the others get the pillar in their current ones.
        """
        if pillar == self._pillar:
            return
        before, self._pillar = self._pillar or {}, pillar
        declared = self._declared.types_in(pillar)
        for name in [name for name in self._supervisors if name not in declared]:
            self._leave(self._supervisors.pop(name))
        for name, supervisor in self._supervisors.items():
            if self._declared.settings_of(name, pillar) == self._declared.settings_of(name, before):
                supervisor.pillar_is(pillar)
            else:
                log.info("resource type %s: its pillar has changed, and its process is replaced", name)
                supervisor.replace()
        for name in declared:
            if name not in self._supervisors:
                self._supervisors[name] = self._supervisor(name)
        self.refresh(lambda: None)

    def grains_are(self, grains: Mapping[str, Any]) -> None:
        """Use new grains of the minion."""
        for supervisor in self._supervisors.values():
            supervisor.minion_is(grains)

    def refresh(self, done: Callable[[], None]) -> None:
        """Discover all resources and their grains; `done` is called when the resources were sent for registration.

        Grains that take longer than REGISTER_SOON_S are sent as they come. If a discovery is running, another one
        follows.
        """
        self._next.append(done)
        if not any(supervisor.finding for supervisor in self._supervisors.values()):
            self._look()

    def looked(self, done: Callable[[], None]) -> None:
        """Call `done` when the result of the last requested discovery was sent; start one if there is none."""
        under_way = self._soon is not None or any(supervisor.finding for supervisor in self._supervisors.values())
        if under_way and not self._next:
            self._done.append(done)
        else:
            self.refresh(done)

    def look_again(self) -> None:
        """Discover once more after a while: the master wants to be sure that missing resources are gone."""
        self._was_asked_again = True
        if self._again is None:
            self._again = self._reactor.call_later(LOOK_AGAIN_S, self._looks_again)

    def _looks_again(self) -> None:
        self._again = None
        self.refresh(lambda: None)

    def reports(self) -> dict[str, TypeReport]:
        """Type -> its report."""
        pillar = self._pillar or {}
        return {
            name: supervisor.found.report(self._declared.looked_at(name, pillar))
            for name, supervisor in sorted(self._supervisors.items())
        }

    def looked_at(self) -> str:
        """Why there is no type, "" if there is one."""
        return "" if self._supervisors else self._declared.nothing_declared(self._pillar)

    def stop(self, done: Callable[[], None]) -> None:
        """Shut every type down; `done` is called when their processes are gone."""
        self._stopped = done
        for supervisor in (*self._supervisors.values(), *self._leaving):
            supervisor.stop(self._look_whether_stopped)
        self._look_whether_stopped()

    def _look_whether_stopped(self) -> None:
        supervisors = (*self._supervisors.values(), *self._leaving)
        if self._stopped is not None and all(supervisor.is_gone for supervisor in supervisors):
            done, self._stopped = self._stopped, None
            done()

    # -- types

    def _supervisor(self, name: str) -> TypeSupervisor:
        rpc_server = self._around.rpc_server
        events = TypeCallbacks(
            segment=self._runs.segment,
            done=self._runs.done,
            found=self._look_at_it,
            asked=lambda process, raw: rpc_server.on_request(process.rpc, raw),
            ended=lambda process: rpc_server.ended(process.rpc),
        )
        was = self._around.before.get(name)
        return TypeSupervisor(name, self._reactor, lambda grains: self._fork(name, grains), events, was)

    def _fork(self, name: str, grains: Mapping[TargetId, Mapping[str, Any]]) -> TypeProcess:
        declared, pillar = self._declared, self._pillar or {}
        places = declared.places_of(name)
        return fork_type(Start(name, replace(self._context), pillar, grains, places, declared.timeout_s))

    def _leave(self, supervisor: TypeSupervisor) -> None:
        log.info("resource type %s: the pillar does not declare it any more", supervisor.name)
        self._leaving.append(supervisor)

        def gone() -> None:
            self._leaving.remove(supervisor)
            self._look_whether_stopped()

        supervisor.stop(gone)

    # -- running

    def _run_waiting(self) -> None:
        for name, part in list(self._waiting.items()):
            supervisor = self._supervisors.get(parse_srn(part.srns[0]).type or "")
            if self._pillar is None or (supervisor is not None and not supervisor.found.known):
                continue
            del self._waiting[name]
            self._run(part, supervisor)

    def _without_pillar(self, part: PartId) -> None:
        if self._pillar is None and part in self._waiting:
            self._run(self._waiting.pop(part), None)

    def _run(self, part: PartCall, supervisor: TypeSupervisor | None) -> None:
        ours = supervisor.found.srns if supervisor is not None else frozenset()
        here = [srn for srn in part.srns if srn in ours]
        if len(here) < len(part.srns):
            why = NOT_OURS if supervisor is None or not supervisor.found.why else f"{NOT_OURS}: {supervisor.found.why}"
            why = NO_PILLAR if self._pillar is None else why
            try:
                self._refuse(part.call.jid, [srn for srn in part.srns if srn not in ours], why)
            except JournalError as error:
                log.error("%s", error)  # noqa: TRY400 - a sentence
                here = []
        if supervisor is not None and here:
            supervisor.run(PartCall(part.call, here))
        else:
            self._runs.done(part.call.jid, "")

    def _refuse(self, part: PartId, srns: Sequence[TargetId], why: str) -> None:
        """Answer for resources that cannot be called. Raises JournalError when the disk does not take it."""
        now_ms = int(time.time() * 1000)
        rows = [SegmentRow(srn, TargetState.REFUSED, 1, b"", now_ms, 0, why) for srn in srns]
        name = segment_id(part, 0)
        self._spool.write(name, SpoolEntry(TargetState.RETURNED, 0, encode_segment(rows), now_ms, 0))
        self._runs.segment(name)

    # -- looking

    def _look(self) -> None:
        self._done += self._next
        self._next = []
        for supervisor in self._supervisors.values():
            supervisor.find()
        self._begin()
        self._reactor.call_soon(self._look_at_it)

    def _begin(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
        self._looking = True
        self._soon = self._reactor.call_later(REGISTER_SOON_S, self._register_soon)

    def _register_soon(self) -> None:
        self._soon = None
        self._look_at_it()

    def _look_at_it(self) -> None:
        """Register after a discovery step, or after a timeout; or because a type started a discovery itself."""
        self._run_waiting()
        supervisors = self._supervisors.values()
        grains_awaited = any(supervisor.looking for supervisor in supervisors)
        if grains_awaited and not self._looking:
            self._begin()
        if not self._looking or (grains_awaited and self._soon is not None):
            return
        if any(supervisor.finding for supervisor in supervisors):
            # A type with an unknown state would lose all its resources.
            if all(supervisor.found.known for supervisor in supervisors):
                self._register()
            return
        self._looking = grains_awaited
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._supervisors or self._was_asked_again:
            # A minion without types reports the same after each start: nothing is sent then.
            self._look_name = os.urandom(LOOK_BYTES).hex()
        self._register()
        self._settle()

    def _settle(self) -> None:
        done, self._done = self._done, []
        for one in done:
            one()
        if self._next:
            self._look()

    def _register(self) -> None:
        found = {name: supervisor.found for name, supervisor in self._supervisors.items() if supervisor.found.ids}
        claimed = {name: list(one.ids) for name, one in found.items()}
        content = {
            "resources": claimed,
            "grains": {srn: grains for one in found.values() for srn, grains in one.grains.items()},
            "stale": [srn for one in found.values() for srn in one.stale],
            "functions": {name: list(one.functions) for name, one in found.items()},
            "look": self._look_name,
            "reports": {name: report.to_map() for name, report in self.reports().items()},
        }
        self._claims.claim(claimed)
        try:
            self._around.registration(encode_document(content))
        except LocalProtocolError as error:
            log.error("the resources of this minion cannot be registered: %s", error)  # noqa: TRY400 - a sentence
        self._tell_inventory()

    def registered(self, withheld: bytes | None) -> None:
        """Note the master's answer to the last registration, as `Inventory.answered`."""
        self._claims.answered(withheld)
        self._tell_inventory()

    def _tell_inventory(self) -> None:
        inventory = self._claims.resources()
        if inventory != self._inventory:
            self._inventory = inventory
            self._around.inventory(inventory)
