"""The ports of the minion's job server: its journal of jobs and its spool of results, as Protocols.

Both belong to one process, the one that keeps the rights on the minion; the process of a job writes only its
own result into the spool. The contract tests run against files and against the disk in memory. Wall-clock
times are whole milliseconds since 1970 of this machine's clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from saltlite.model.ids import PartId
from saltlite.model.job import TargetState

JOURNAL_KEEP_S = 7 * 86_400
"""Seconds for which an ended job is remembered, at least."""

JOURNAL_KEEP_ENTRIES = 10_000
"""This many jobs, the ones with the highest jids, are remembered however old they are."""

JOURNAL_MOST_ENTRIES = 50_000
"""Above this many the ended jobs with the lowest jids are forgotten, however young: memory is finite."""

JOURNAL_COMPACT_BYTES = 16 * 1024 * 1024
"""Bytes of the journal above which it wants to be rewritten."""

JOURNAL_RECORD_MAX = 128 * 1024
"""Bytes of one encoded record: job body, SRNs, signature and proof, with room. A longer one is refused."""


JOURNAL_RESERVE = 128 * 1024
"""Bytes that the journal sets aside ahead of its end. When it cannot, no new job is taken; the records of those that
were taken still fit."""

SPOOL_RESERVE = 256 * 1024
"""Bytes that the spool sets aside, given up for the results of jobs that run when the disk becomes full."""


class Step(StrEnum):
    """How far a job has come, as the journal says it; `saltlite.minion.protocol.journal_rules` has the moves."""

    RECEIVED = "received"
    STARTED = "started"
    DONE = "done"
    ACKED = "acked"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Record:
    """One line of the journal; `jid` is the id of a part of a job.

    The fields of each step are the table `journal_rules.FIELDS`, exactly.
    """

    step: Step
    jid: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """What the journal knows of one part of a job: its furthest step, and what that step still needs.

    Body, signature, proof and SRNs are there until the job is past STARTED; `pid` and `ticks` (start time of that
    process, in clock ticks since boot, which no later process with its pid shares) only while it is STARTED.
    """

    jid: PartId
    step: Step
    received_wall_ms: int = 0
    """0 for a job that was refused without having been received."""
    deliver_ms: int = 0
    body: bytes = b""
    signature: bytes = b""
    proof: tuple[bytes, ...] = ()
    issuer: bytes = b""
    """The job key of the master that signed it, to which the result belongs; empty when it is not known."""
    pid: int = 0
    ticks: int = 0
    started_wall_ms: int = 0
    reason: str = ""
    srns: tuple[str, ...] = ()
    """The resources that the part is for; none for a part of the minion itself."""


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """A result as it waits for the master's commit-ack: of a part of a job, or of some of its resources (a segment).

    `state` is a terminal one; `body` is the return value as the job's process encoded it, or the segment.
    """

    state: TargetState
    code: int
    body: bytes
    start_ms: int
    dur_ms: int
    reason: str = ""


class Journal(Protocol):
    """What this minion was asked to run, so that nothing runs twice (G4). One writer."""

    incarnation: str
    """32 hexadecimal digits made when the journal was created: another disk, another incarnation."""

    floor: str
    """The highest jid that was forgotten, "" for none: an unknown job at or below it may have run before."""

    repaired: str
    """A sentence about the unfinished end that `open()` cut off, "" when there was none."""

    def open(self) -> list[JournalEntry]:
        """Read the journal, or create it; what is remembered, in jid order, and all of it on disk.

        Raises JournalError when it cannot be read, is damaged other than by an interrupted write at its end,
        or was written in a format that this version does not know.
        """
        ...

    def append(self, records: Sequence[Record]) -> None:
        """Add all of these records or none; they are safe only after `sync()`.

        Raises UnwrittenError when the disk is full; then it is as if it had not been called. Raises JournalError
        for a disk that fails in another way, after which every later call raises, and for a move that the table
        does not have: a job that was started is never started again.
        """
        ...

    def full(self) -> str:
        """Why no new job may be taken ("No space left on device"); "" when there is room, asked for anew."""
        ...

    def sync(self) -> None:
        """Return when all that was appended is on disk.

        Raises JournalError. After that nothing is known of what the disk holds, and every later call raises.
        """
        ...

    def entry(self, jid: str) -> JournalEntry | None:
        """What is known of that job."""
        ...

    def should_compact(self) -> bool:
        """Whether `compact()` is due: once after each start, then when the file has grown large."""
        ...

    def compact(self, now_ms: int) -> None:
        """Forget what is old by the rule of `journal_rules.kept`, and write the rest anew.

        `now_ms` is the wall clock. Raises JournalError; the old file is then still in use.
        """
        ...

    def close(self) -> None: ...


class Spool(Protocol):
    """Results that the master has not confirmed yet (G6). Job processes, forked later, may write into it.

    A result goes by the id of its part of a job, or by that of the segment.
    """

    def open(self) -> None:
        """Remove what interrupted writers left, and count what is there. Raises JournalError."""
        ...

    def write(self, jid: str, result: SpoolEntry) -> bool:
        """Keep a result; it is on disk when this returns. False when that job has one: the first one stands.

        One process at a time writes for one job: whoever writes on its behalf has ended it before. Raises
        UnwrittenError when the disk does not take it, the reserve given up; then nothing was kept.
        """
        ...

    def read(self, jid: str) -> SpoolEntry:
        """The result of that job.

        Raises JournalError when there is none, or when it is damaged; then it is put aside as `<jid>.bad`.
        """
        ...

    def remove(self, jid: str) -> None:
        """Forget a result that the master has confirmed; one that is not there is no error."""
        ...

    def jids(self) -> list[str]:
        """The ids of the results on disk, whoever wrote it, sorted; counts them anew."""
        ...

    def noticed(self, jid: str, *, said: bool = False) -> bool:
        """Count the result of a job whose process has ended; whether it left one. If so, it is on disk.

        `said` is that its process has said so: its `write` had returned. Raises JournalError.
        """
        ...

    def usage(self) -> tuple[int, int]:
        """Number of results and their bytes."""
        ...

    def full(self) -> str:
        """Why the disk may not take the result of another job; "" when the reserve is there, or there again."""
        ...

    def has_room(self) -> bool:
        """Whether another job may be accepted. Results of jobs that run already are kept in any case."""
        ...
