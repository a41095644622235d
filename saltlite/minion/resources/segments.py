"""What resources have answered, on its way to the spool: as many answers together as a moment brings.

An answer waits for FLUSH_S at most, and the last one of a part does not wait at all. One thread writes, so that threads
which call devices never wait for the disk; while the disk takes nothing, they are told to begin nothing more.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from saltlite.errors import JournalError, UnwrittenError
from saltlite.minion.protocol.ports import SpoolEntry
from saltlite.model.ids import PartId
from saltlite.model.job import TargetState, segment_id
from saltlite.wire.segment import SegmentRow, encode_segment

log = logging.getLogger(__name__)

FLUSH_S = 0.05
"""An answer is written after so long, with all that came meanwhile."""
SEGMENT_BYTES = 48 * 1024
"""Bytes of answers that are written at once; a larger answer is a segment of its own."""
RETRY_S = 5.0
"""Between two attempts to write to a disk that was full."""
LOOK_BYTES = 8 * 1024 * 1024
"""After so many bytes, or LOOK_SEGMENTS, the spool is looked at: others write to it, and the job server empties it."""
LOOK_SEGMENTS = 200
CROWDED_S = 1.0
"""Between two looks at a spool that has as much as it may."""

_ROW_BYTES = 64
"""What a row takes beside its result."""


class Written(Protocol):
    """Where segments go: the port `saltlite.minion.protocol.ports.Spool`, as far as it is needed."""

    def write(self, jid: str, result: SpoolEntry) -> bool: ...

    def jids(self) -> list[str]: ...

    def has_room(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Told:
    """Who hears of it; called from the thread that writes."""

    segment: Callable[[PartId, str], None]
    """A segment of the part is in the spool, under this id."""
    done: Callable[[PartId, str], None]
    """Every answer of the part is in the spool; or it was ended before, how is said."""
    full: Callable[[bool], None]
    """Whether there is no room for more: nothing is to be begun until there is."""


@dataclass(slots=True)
class _Part:
    number: int
    """Of its next segment."""
    awaited: int
    """Answers that have not come."""
    rows: list[SegmentRow] = field(default_factory=list)
    size: int = 0
    due: float = 0.0
    how: str = ""


class Segments:
    """`now` is a monotonic clock, seconds."""

    def __init__(self, spool: Written, told: Told, now: Callable[[], float]) -> None:
        self._spool = spool
        self._told = told
        self._now = now
        self._parts: dict[PartId, _Part] = {}
        self._changed = threading.Condition()
        self._closing = False
        # Only the thread that writes has these. Nothing is known of the spool yet: the first write looks.
        self._unseen_bytes, self._unseen_segments = LOOK_BYTES, 0
        self._crowded = False
        self._look_at = math.inf

    def begin(self, part: PartId, number: int, awaited: int) -> None:
        """So many answers of that part will come; its first segment has this number."""
        with self._changed:
            self._parts[part] = _Part(number, awaited)

    def put(self, part: PartId, row: SegmentRow) -> None:
        """An answer. That of a part which was ended meanwhile is nobody's."""
        with self._changed:
            one = self._parts.get(part)
            if one is None or not one.awaited:
                return
            if not one.rows:
                one.due = self._now() + FLUSH_S
            one.rows.append(row)
            one.size += _size_of(row)
            one.awaited -= 1
            at_once = one.size >= SEGMENT_BYTES or not one.awaited
            if at_once:
                one.due = 0.0
            if at_once or len(one.rows) == 1:
                self._changed.notify()

    def end(self, part: PartId, how: str) -> None:
        """Nothing more will come: what is there is written, then the part is done."""
        with self._changed:
            one = self._parts.get(part)
            if one is not None:
                one.awaited, one.due, one.how = 0, 0.0, how
                self._changed.notify()

    @property
    def idle(self) -> bool:
        """Whether every part is done, and said to be."""
        with self._changed:
            return not self._parts

    def run(self) -> None:
        """Write until `close`; the life of the thread that does it."""
        while True:
            with self._changed:
                part = self._wait_for_one()
                if part is None and self._closing:
                    return
            if part is None:
                self._look()
                continue
            with self._changed:
                one = self._parts[part]
                rows, one.rows, one.size = one.rows, [], 0
                number, over, how = one.number, not one.awaited, one.how
                pieces = list(_pieces(rows))
                one.number += len(pieces)
            for offset, piece in enumerate(pieces):
                if not self._write(segment_id(part, number + offset), piece):
                    return
                self._told.segment(part, segment_id(part, number + offset))
            self._count(rows)
            if over:
                with self._changed:
                    del self._parts[part]
                self._told.done(part, how)

    def close(self) -> None:
        """Let `run` return when nothing is due."""
        with self._changed:
            self._closing = True
            self._changed.notify()

    def _wait_for_one(self) -> PartId | None:
        """The part whose answers are to be written now; None when there will be none, or it is time to look."""
        while True:
            now = self._now()
            waiting = {name: one.due for name, one in self._parts.items() if one.rows or not one.awaited}
            part = min(waiting, key=waiting.__getitem__, default=None)
            if part is not None and waiting[part] <= now:
                return part
            if self._closing or now >= self._look_at:
                return None
            until = min(self._look_at, math.inf if part is None else waiting[part])
            self._changed.wait(None if math.isinf(until) else until - now)

    def _count(self, rows: Sequence[SegmentRow]) -> None:
        """Something was written: look at the spool, when that was enough for it."""
        self._unseen_bytes += sum(map(_size_of, rows))
        self._unseen_segments += 1
        if not self._crowded and (self._unseen_bytes >= LOOK_BYTES or self._unseen_segments >= LOOK_SEGMENTS):
            self._look()

    def _look(self) -> None:
        """Find out whether the spool has as much as it may, and tell when that has changed."""
        self._unseen_bytes = self._unseen_segments = 0
        try:
            self._spool.jids()
            crowded = not self._spool.has_room()
        except JournalError as error:
            log.error("no resource is called, because of the spool: %s", error)  # noqa: TRY400 - a sentence
            crowded = True
        self._look_at = self._now() + CROWDED_S if crowded else math.inf
        if crowded != self._crowded:
            self._crowded = crowded
            if crowded:
                log.warning("no resource is called until the master has taken results: there are too many in the spool")
            self._told.full(crowded)

    def _write(self, name: str, rows: Sequence[SegmentRow]) -> bool:
        """Write a segment, however long the disk is full; False when it was still full at the end of this process."""
        entry = SpoolEntry(TargetState.RETURNED, 0, encode_segment(rows), rows[0].start_ms, 0)
        held = False
        while True:
            try:
                self._spool.write(name, entry)
            except UnwrittenError as error:
                if not held:
                    log.error("answers of resources wait for the disk: %s", error)  # noqa: TRY400 - a sentence
                    self._told.full(True)
                    held = True
                with self._changed:
                    self._changed.wait(RETRY_S)
                    if self._closing:
                        return False
                continue
            if held:
                self._told.full(self._crowded)
            return True


def _size_of(row: SegmentRow) -> int:
    return _ROW_BYTES + len(row.srn) + len(row.body) + len(row.reason)


def _pieces(rows: Sequence[SegmentRow]) -> list[list[SegmentRow]]:
    """The rows in groups of SEGMENT_BYTES at most; a larger one is alone."""
    pieces: list[list[SegmentRow]] = []
    size = 0
    for row in rows:
        if not pieces or size + _size_of(row) > SEGMENT_BYTES:
            pieces.append([])
            size = 0
        pieces[-1].append(row)
        size += _size_of(row)
    return pieces
