"""The resources of this minion: the types that its pillar declares, their resources, and the runs of parts for them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from saltlite.errors import JournalError, LocalProtocolError
from saltlite.minion.jobs.job_process import JobContext, JobSpec
from saltlite.minion.jobs.rpc_server import RpcServer
from saltlite.minion.protocol.effects import Spool, SpoolEntry
from saltlite.minion.resources.discovery import Declared
from saltlite.minion.resources.process import Start, TypeProcess, fork_type
from saltlite.minion.resources.type_supervisor import LOOK_BYTES, PartCall, TypeCallbacks, TypeSupervisor
from saltlite.model.ids import PartId, TargetId, parse_srn
from saltlite.model.job import TargetState, segment_id
from saltlite.model.resourcelook import TypeReport
from saltlite.platform.process import start_ticks
from saltlite.platform.reactor import Reactor, Timer
from saltlite.wire.codec import encode_document
from saltlite.wire.messages import SegmentRow, encode_segment


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


log = logging.getLogger(__name__)

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
        self._keepers: dict[str, TypeSupervisor] = {}
        self._leaving: list[TypeSupervisor] = []
        self._pillar: Mapping[str, Any] | None = None
        self._held: dict[PartId, PartCall] = {}
        self._waiting: dict[PartId, PartCall] = {}
        self._looking = False
        self._soon: Timer | None = None
        self._done: list[Callable[[], None]] = []
        self._next: list[Callable[[], None]] = []
        self._inventory: dict[str, list[str]] = {}
        self._stopped: Callable[[], None] | None = None
        self._look_name = ""
        self._again: Timer | None = None
        self._was_asked_again = False

    # -- parts

    def begin(self, call: JobSpec, srns: Sequence[TargetId]) -> tuple[int, int]:
        """See the port. A part without a process waits in this one."""
        self._held[call.jid] = PartCall(call, srns)
        keeper = self._keepers.get(parse_srn(srns[0]).type or "")
        pid, ticks = keeper.process if keeper is not None else (0, 0)
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
        for keeper in (*self._keepers.values(), *self._leaving):
            if keeper.cancel(part, ENDED):
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
        for name in [name for name in self._keepers if name not in declared]:
            self._leave(self._keepers.pop(name))
        for name, keeper in self._keepers.items():
            if self._declared.settings_of(name, pillar) == self._declared.settings_of(name, before):
                keeper.pillar_is(pillar)
            else:
                log.info("resource type %s: its pillar has changed, and its process is replaced", name)
                keeper.replace()
        for name in declared:
            if name not in self._keepers:
                self._keepers[name] = self._keeper(name)
        self.refresh(lambda: None)

    def grains_are(self, grains: Mapping[str, Any]) -> None:
        """Use new grains of the minion."""
        for keeper in self._keepers.values():
            keeper.minion_is(grains)

    def refresh(self, done: Callable[[], None]) -> None:
        """Discover all resources and their grains; `done` is called when the resources were sent for registration.

        Grains that take longer than REGISTER_SOON_S are sent as they come. If a discovery is running, another one
        follows.
        """
        self._next.append(done)
        if not any(keeper.finding for keeper in self._keepers.values()):
            self._look()

    def looked(self, done: Callable[[], None]) -> None:
        """Call `done` when the result of the last requested discovery was sent; start one if there is none."""
        under_way = self._soon is not None or any(keeper.finding for keeper in self._keepers.values())
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
            name: keeper.found.report(self._declared.looked_at(name, pillar))
            for name, keeper in sorted(self._keepers.items())
        }

    def looked_at(self) -> str:
        """Why there is no type, "" if there is one."""
        return "" if self._keepers else self._declared.nothing_declared(self._pillar)

    def stop(self, done: Callable[[], None]) -> None:
        """Shut every type down; `done` is called when their processes are gone."""
        self._stopped = done
        for keeper in (*self._keepers.values(), *self._leaving):
            keeper.stop(self._look_whether_stopped)
        self._look_whether_stopped()

    def _look_whether_stopped(self) -> None:
        keepers = (*self._keepers.values(), *self._leaving)
        if self._stopped is not None and all(keeper.is_gone for keeper in keepers):
            done, self._stopped = self._stopped, None
            done()

    # -- types

    def _keeper(self, name: str) -> TypeSupervisor:
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

    def _leave(self, keeper: TypeSupervisor) -> None:
        log.info("resource type %s: the pillar does not declare it any more", keeper.name)
        self._leaving.append(keeper)

        def gone() -> None:
            self._leaving.remove(keeper)
            self._look_whether_stopped()

        keeper.stop(gone)

    # -- running

    def _run_waiting(self) -> None:
        for name, part in list(self._waiting.items()):
            keeper = self._keepers.get(parse_srn(part.srns[0]).type or "")
            if self._pillar is None or (keeper is not None and not keeper.found.known):
                continue
            del self._waiting[name]
            self._run(part, keeper)

    def _without_pillar(self, part: PartId) -> None:
        if self._pillar is None and part in self._waiting:
            self._run(self._waiting.pop(part), None)

    def _run(self, part: PartCall, keeper: TypeSupervisor | None) -> None:
        ours = keeper.found.srns if keeper is not None else frozenset()
        here = [srn for srn in part.srns if srn in ours]
        if len(here) < len(part.srns):
            why = NOT_OURS if keeper is None or not keeper.found.why else f"{NOT_OURS}: {keeper.found.why}"
            why = NO_PILLAR if self._pillar is None else why
            try:
                self._refuse(part.call.jid, [srn for srn in part.srns if srn not in ours], why)
            except JournalError as error:
                log.error("%s", error)  # noqa: TRY400 - a sentence
                here = []
        if keeper is not None and here:
            keeper.run(PartCall(part.call, here))
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
        for keeper in self._keepers.values():
            keeper.find()
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
        keepers = self._keepers.values()
        grains_awaited = any(keeper.looking for keeper in keepers)
        if grains_awaited and not self._looking:
            self._begin()
        if not self._looking or (grains_awaited and self._soon is not None):
            return
        if any(keeper.finding for keeper in keepers):
            # A type with an unknown state would lose all its resources.
            if all(keeper.found.known for keeper in keepers):
                self._register()
            return
        self._looking = grains_awaited
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._keepers or self._was_asked_again:
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
        found = {name: keeper.found for name, keeper in self._keepers.items() if keeper.found.ids}
        content = {
            "resources": {name: list(one.ids) for name, one in found.items()},
            "grains": {srn: grains for one in found.values() for srn, grains in one.grains.items()},
            "stale": [srn for one in found.values() for srn in one.stale],
            "functions": {name: list(one.functions) for name, one in found.items()},
            "look": self._look_name,
            "reports": {name: report.to_map() for name, report in self.reports().items()},
        }
        try:
            self._around.registration(encode_document(content))
        except LocalProtocolError as error:
            log.error("the resources of this minion cannot be registered: %s", error)  # noqa: TRY400 - a sentence
        inventory = {name: list(one.ids) for name, one in sorted(found.items())}
        if inventory != self._inventory:
            self._inventory = inventory
            self._around.inventory(inventory)
