"""What runs parts for resources, in memory: a test decides what they answer."""

from __future__ import annotations

from collections.abc import Sequence

from saltlite.minion.jobs.job_process import JobCall
from saltlite.minion.protocol.ports import Spool, SpoolEntry
from saltlite.minion.resources.ports import Runs
from saltlite.model.ids import PartId, TargetId
from saltlite.model.job import TargetState
from saltlite.model.parts import segment_id
from saltlite.platform.process import start_ticks
from saltlite.wire.segment import SegmentRow, encode_segment


def answered(srn: TargetId, body: bytes = b"\xc3") -> SegmentRow:
    """It returned."""
    return SegmentRow(srn, TargetState.RETURNED, 0, body, 1, 1)


class MemoryRuns:
    """`saltlite.minion.resources.ports.ResourceRuns`. `pid` is the process that it says parts run in: a later job
    server ends it, so without one it names none."""

    def __init__(self, runs: Runs, spool: Spool, pid: int = 0) -> None:
        self._runs = runs
        self._spool = spool
        self._pid = pid
        self._segments: dict[PartId, int] = {}
        self.begun: dict[PartId, tuple[JobCall, list[TargetId]]] = {}
        self.running: list[PartId] = []
        self.cancelled: list[tuple[PartId, bool]] = []
        self.no_room = False

    def begin(self, call: JobCall, srns: Sequence[TargetId]) -> tuple[int, int]:
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
