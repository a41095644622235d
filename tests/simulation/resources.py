"""Resources of a minion in the simulation: the processes that run functions on them, one a type.

What is real here is what counts for the guarantees: the job server's order of things, segments through the real spool
onto a disk that forgets, and processes that die with parts half answered. What a device does is chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import JournalError, UnwrittenError
from saltlite.minion.jobs.job_process import JobSpec
from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.minion.resources.server import RunCallbacks
from saltlite.model.ids import PartId, TargetId
from saltlite.model.job import TargetState, segment_id, split_part
from saltlite.wire.codec import encode_document
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import SegmentRow, encode_segment
from tests.simulation.universe import Process, SimReactor

if TYPE_CHECKING:
    from tests.simulation.minions import SimMinion

FLUSH_S = 0.05
DEVICE_S = 30.0
"""After so long a device is given up."""
TOLD_S = 0.0002
FULL_RETRY_S = 5.0
TYPES = ("dummy", "ssh")


def managed_by(minion: str, count: int) -> dict[str, list[str]]:
    """Type -> bare ids of so many resources of that minion."""
    return {kind: [f"{minion}-{number}" for number in range(place, count, 2)] for place, kind in enumerate(TYPES)}


def registration(managed: dict[str, list[str]]) -> bytes:
    """The document that a minion registers these with."""
    functions = {kind: ["test.ping()"] for kind in managed}
    return encode_document({"resources": managed, "grains": {}, "stale": [], "functions": functions})


@dataclass(slots=True)
class _Part:
    """One part where it runs."""

    call: JobSpec
    srns: Sequence[TargetId]
    running: bool = False
    segments: int = 0
    open: set[TargetId] = field(default_factory=set)
    rows: list[SegmentRow] = field(default_factory=list)
    flush_due: bool = False
    how: str = ""


class SimRuns:
    """`saltlite.minion.resources.server.ResourceRuns` of one job server."""

    def __init__(self, minion: SimMinion, reactor: SimReactor, runs: RunCallbacks) -> None:
        self.minion = minion
        self.reactor = reactor
        self.runs = runs
        self._processes: dict[str, TypeProcess] = {}
        self._where: dict[PartId, TypeProcess] = {}
        reactor.process.on_death.append(self._server_died)

    def begin(self, call: JobSpec, srns: Sequence[TargetId]) -> tuple[int, int]:
        kind = srns[0].partition(":")[0]
        process = self._processes.get(kind)
        if process is None or not process.process.alive:
            process = self._processes[kind] = TypeProcess(self, kind)
        process.parts[call.jid] = _Part(call, srns)
        self._where[call.jid] = process
        return process.pid, process.ticks

    def go(self, part: PartId) -> None:
        self._later(part, lambda process: process.go(part))

    def cancel(self, part: PartId, *, late: bool) -> None:
        self._later(part, lambda process: process.cancel(part, late=late))

    def _later(self, part: PartId, tell: Callable[[TypeProcess], None]) -> None:
        process = self._where[part]
        self.minion.universe.after(TOLD_S, lambda: tell(process), process.process)

    def _server_died(self) -> None:
        # They see the end of their socket; one that is in the middle of something sees it later.
        for process in self._processes.values():
            pause = self.minion.universe.random.choice((0.0, 0.001, 0.3))
            self.minion.universe.after(pause, process.process.die, process.process)


class TypeProcess:
    """The process of one resource type: what `SimChild` and `SimProcesses` know of a process of a job, too."""

    def __init__(self, runs: SimRuns, kind: str) -> None:
        minion = self.minion = runs.minion
        self.runs = runs
        self.pid = minion.next_pid()
        self.ticks = self.pid * 7
        self.parts: dict[PartId, _Part] = {}
        self.process = Process(minion.universe, f"{minion.name} {kind} {self.pid}", self._died, minion)
        self._watchers: list[tuple[SimReactor, Callable[[int | None], None]]] = []
        minion.jobs_running[self.pid] = self

    @property
    def works(self) -> bool:
        """Whether it is worth killing."""
        return bool(self.parts)

    def watch(self, reactor: SimReactor, callback: Callable[[int | None], None]) -> None:
        """Tell that process when this one has ended."""
        self._watchers.append((reactor, callback))

    def signal(self, signum: int) -> None:
        """kill."""
        del signum  # it gets none but SIGKILL
        self.minion.universe.after(0.001, self.process.die, self.process)

    def hurry(self, within_s: float) -> None:
        """No device takes longer from here on."""
        for name, part in self.parts.items():
            if part.running:
                for srn in sorted(part.open):
                    self._answer_later(name, srn, self.minion.universe.random.random() * within_s)

    # -- parts

    def go(self, name: PartId) -> None:
        """Run what was begun."""
        part = self.parts[name]
        part.running = True
        part.open = set(part.srns)
        random = self.minion.universe.random
        for srn in part.srns:
            if random.random() < 0.03:
                self._put(name, part, _row(srn, TargetState.REFUSED, "this minion does not manage it any more"))
                continue
            self.minion.note("entered", jid=split_part(name)[0], minion=srn, run=f"{self.pid}", on=self.minion.name)
            fate = random.choices(("quick", "slow", "hangs", "crash"), (75, 20, 4, 1))[0]
            if fate == "hangs" and self.minion.patient:
                self._later(DEVICE_S, partial(self._give_up, name, srn, TargetState.TIMED_OUT))
            elif fate == "crash":
                self.minion.universe.after(random.random(), self.process.die, self.process)
            else:
                self._answer_later(
                    name, srn, random.random() * (20.0 if fate == "slow" and self.minion.patient else 0.2)
                )

    def cancel(self, name: PartId, *, late: bool) -> None:
        """End it: with an answer for each, or without."""
        part = self.parts.get(name)
        if part is None:
            return
        if not part.running or self.minion.universe.random.random() < 0.5:
            part.open, part.how = set(), "it was given up"
            self._flush(name)
            return
        state = TargetState.TIMED_OUT if late else TargetState.CANCELLED
        for srn in sorted(part.open):
            self._give_up(name, srn, state)

    def _answer_later(self, name: PartId, srn: TargetId, seconds: float) -> None:
        self._later(seconds, lambda: self._answer(name, srn))

    def _later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.minion.universe.after(seconds, callback, self.process)

    def _answer(self, name: PartId, srn: TargetId) -> None:
        part = self.parts.get(name)
        if part is None or srn not in part.open:
            return
        value = f"{name} {srn} by {self.pid}".encode() + bytes(2 * CHUNK if self.minion.large else 0)
        self._put(name, part, SegmentRow(srn, TargetState.RETURNED, 0, msgpack.packb(value), self._wall_ms(), 1))

    def _give_up(self, name: PartId, srn: TargetId, state: TargetState) -> None:
        part = self.parts.get(name)
        if part is not None and srn in part.open:
            self._put(name, part, _row(srn, state, "its device did not answer"))

    def _put(self, name: PartId, part: _Part, row: SegmentRow) -> None:
        part.open.discard(row.srn)
        part.rows.append(row)
        if not part.flush_due:
            part.flush_due = True
            self._later(FLUSH_S, lambda: self._flush(name))

    def _flush(self, name: PartId) -> None:
        """Write what was answered; the part is over when that was all."""
        part = self.parts.get(name)
        if part is None:
            return
        part.flush_due = False
        if part.rows:
            segment = segment_id(name, part.segments)
            entry = SpoolEntry(TargetState.RETURNED, 0, encode_segment(part.rows), self._wall_ms(), 0)
            try:
                self.minion.spool().write(segment, entry)
            except UnwrittenError:
                part.flush_due = True
                self._later(FULL_RETRY_S, lambda: self._flush(name))
                return
            except JournalError:
                self.process.die()
                return
            part.rows.clear()
            part.segments += 1
            self._tell(lambda: self.runs.runs.segment(segment))
        if not part.open:
            del self.parts[name]
            self._tell(lambda: self.runs.runs.done(name, part.how))

    def _tell(self, what: Callable[[], None]) -> None:
        self.minion.universe.after(TOLD_S, what, self.runs.reactor.process)

    def _wall_ms(self) -> int:
        return int(self.minion.clock.wall() * 1000)

    def _died(self, _process: Process, power: bool) -> None:
        if power:
            self.minion.power_off(5.0)
            return
        self.minion.jobs_running.pop(self.pid, None)
        for name in self.parts:
            self._tell(partial(self.runs.runs.done, name, "killed"))
        for reactor, callback in self._watchers:
            self.minion.universe.after(0.0001, partial(callback, 0), reactor.process)


def _row(srn: TargetId, state: TargetState, reason: str) -> SegmentRow:
    return SegmentRow(srn, state, 1, b"", 0, 0, reason)
