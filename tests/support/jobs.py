"""A job server on its own: a journal in memory, real processes, a real spool, and a test for the network process."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from saltlite.loader.index import build_index
from saltlite.loader.search_path import search_layers
from saltlite.minion.jobs.job_process import JobContext, JobSpec
from saltlite.minion.jobs.job_server import JobServer, JobStorage, MakeRuns
from saltlite.minion.jobs.returns import Returns
from saltlite.minion.jobs.spool import DiskSpool
from saltlite.minion.processes import ipc_messages as inside
from saltlite.minion.protocol.effects import ReceivedPart, Spool, SpoolEntry
from saltlite.minion.protocol.jobs import JobMachine, MasterTrust
from saltlite.minion.resources.server import RunCallbacks
from saltlite.model.ids import PartId, TargetId
from saltlite.model.job import TargetState, segment_id
from saltlite.platform.daemon import SystemClock
from saltlite.platform.files import PosixFolder
from saltlite.platform.process import start_ticks
from saltlite.platform.reactor import Reactor
from saltlite.testing.disk import MemoryDisk, memory_journal
from saltlite.wire.framing import pack, unpack
from saltlite.wire.messages import SegmentRow, encode_segment
from tests.support.job_machine import UNTIL, jid, parcel
from tests.support.keys import JOB_PUBLIC, NOW

WITHIN_S = 60.0


class Clock(SystemClock):
    """The reactor's own, in the year of the keys of the tests."""

    def wall(self) -> float:
        return NOW


class Told:
    """In the place of the network process: what it is told."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, data: bytes) -> None:
        self.messages.append(unpack(data))

    def states(self, number: int) -> list[tuple[str, str]]:
        return [(m["state"], m["reason"]) for m in self.messages if m["t"] == "state" and m["jid"] == jid(number)]

    def result(self, number: int) -> dict[str, Any] | None:
        return next((m for m in self.messages if m["t"] == "result" and m["jid"] == jid(number)), None)


class Minion:
    """A job server with a journal in memory, real processes, and a real spool."""

    def __init__(self, folder: Path, disk: MemoryDisk, resources: MakeRuns | None = None) -> None:
        self.disk = disk
        self.failed: list[str] = []
        self.told = Told()
        self.reactor = Reactor()
        (folder / "running").mkdir(exist_ok=True)
        clock = Clock()
        self.jobs = JobMachine("web1", clock, limit=2, longest_s=0.0)
        self.jobs.trust(JOB_PUBLIC, UNTIL)
        index = build_index(search_layers({}))
        returns = Returns("web1", 1 << 20, str(folder / "kept"), 0)
        spool = str(folder / "spool")
        surroundings = JobContext({}, {}, lambda: index, spool, returns, lambda *_: None)
        self.journal = memory_journal(disk, entropy=bytes)
        self.spool = DiskSpool(PosixFolder(spool))
        self.server = JobServer(
            self.reactor,
            self.jobs,
            JobStorage(self.journal, self.spool, str(folder / "running"), str(folder)),
            clock,
            surroundings,
            trust=MasterTrust(lambda *_: None),
            fail=self.failed.append,
        )
        if resources is not None:
            self.server.manage_resources(resources)
        self.server.replay()
        self.server.attach(self.told)  # type: ignore[arg-type]  # it has what is used of a channel
        self.server.open()

    def close(self) -> None:
        """Let its processes end, and wait for them: nothing in the product stops a job server but its exit."""
        for pid in self.server._children:
            os.kill(pid, signal.SIGKILL)
        self.until(lambda: not self.server._children)
        self.reactor.close()

    def job(self, number: int) -> None:
        self.parcel(parcel(number))

    def parcel(self, *several: ReceivedPart) -> None:
        """The network process passes them on at once."""
        self.says(*map(self._message, several))

    def _message(self, it: ReceivedPart) -> dict[str, Any]:
        message = {"t": "job", "jid": it.jid, "resources": list(it.srns), "body": it.body, "sig": it.signature}
        return {**message, "proof": list(it.proof), "deliver_ms": it.deliver_ms}

    def says(self, *messages: dict[str, Any]) -> None:
        """The network process says so."""
        self.server.on_batch([pack(message) for message in messages])

    def connects(self) -> None:
        """A session with the master begins."""
        self.says(inside.ready(1))

    def until(self, look: Callable[[], object]) -> None:
        """Run the loop until `look` is true."""
        deadline = self.reactor.now() + WITHIN_S

        def check() -> None:
            if look() or self.reactor.now() > deadline:
                self.reactor.stop()
            else:
                self.reactor.call_later(0.005, check)

        check()
        self.reactor.run()
        assert look()


# -- What runs parts for resources, in memory: a test decides what they answer.


def answered(srn: TargetId, body: bytes = b"\xc3") -> SegmentRow:
    """It returned."""
    return SegmentRow(srn, TargetState.RETURNED, 0, body, 1, 1)


class MemoryRuns:
    """`saltlite.minion.resources.server.ResourceRuns`. `pid` is the process that it says parts run in: a later job
    server ends it, so without one it names none."""

    def __init__(self, runs: RunCallbacks, spool: Spool, pid: int = 0) -> None:
        self._runs = runs
        self._spool = spool
        self._pid = pid
        self._segments: dict[PartId, int] = {}
        self.begun: dict[PartId, tuple[JobSpec, list[TargetId]]] = {}
        self.running: list[PartId] = []
        self.cancelled: list[tuple[PartId, bool]] = []
        self.no_room = False

    def begin(self, call: JobSpec, srns: Sequence[TargetId]) -> tuple[int, int]:
        if self.no_room:
            raise OSError(11, "Resource temporarily unavailable")
        self.begun[call.jid] = call, list(srns)
        return self._pid, (start_ticks(self._pid) or 0) if self._pid else 0

    def go(self, part: PartId) -> None:
        self.running.append(part)

    def cancel(self, part: PartId, *, late: bool) -> None:
        self.cancelled.append((part, late))

    def keep(self, part: PartId, *rows: SegmentRow) -> str:
        """Write answers into the spool, and tell nobody yet; the id of the segment."""
        number = self._segments.get(part, 0)
        self._segments[part] = number + 1
        segment = segment_id(part, number)
        self._spool.write(segment, SpoolEntry(TargetState.RETURNED, 0, encode_segment(rows), 1, 0))
        return segment

    def answer(self, part: PartId, *rows: SegmentRow) -> str:
        """Some resources of the part answer; the id of the segment."""
        segment = self.keep(part, *rows)
        self._runs.segment(segment)
        return segment

    def over(self, part: PartId, how: str = "") -> None:
        """All have answered, or `how` says why not."""
        self._runs.done(part, how)
