"""The boundary of the job state machine: effects, the ports of journal and spool, and what is known of each part.

The job server carries out the effects in order. Journal and spool belong to it alone; the process of a job writes only
its own result into the spool. Contract tests run against files and against an in-memory disk. Wall-clock times are
whole milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from saltlite.model.dataclass import dataclass
from saltlite.model.ids import PartId
from saltlite.model.job import TargetState, is_resource_part
from saltlite.wire.messages import REASON_MAX

if TYPE_CHECKING:
    from saltlite.wire.job_body import JobBody  # with the cryptography that the journal does not need

# -- Ports


JOURNAL_KEEP_S = 7 * 86_400
"""Seconds for which the journal keeps an ended job, at least."""

JOURNAL_KEEP_ENTRIES = 10_000
"""The journal keeps this many jobs, those with the highest jids, whatever their age."""

JOURNAL_MOST_ENTRIES = 50_000
"""Above this number the ended jobs with the lowest jids are deleted, whatever their age: memory is finite."""

JOURNAL_COMPACT_BYTES = 16 * 1024 * 1024
"""Size of the journal in bytes above which it should be compacted."""

JOURNAL_RECORD_MAX = 128 * 1024
"""Bytes of one encoded record: job body, SRNs, signature and proof, with a margin. A longer one is refused."""


JOURNAL_RESERVE = 128 * 1024
"""Bytes preallocated behind the journal's end. When this fails, no new job is accepted; the records of accepted jobs
still fit."""

SPOOL_RESERVE = 256 * 1024
"""Bytes that the spool preallocates, released for the results of running jobs when the disk is full."""


class JournalStep(StrEnum):
    """The progress of a job in the journal; `saltlite.minion.protocol.journal_format` has the transitions."""

    RECEIVED = "received"
    STARTED = "started"
    DONE = "done"
    ACKED = "acked"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the journal; `jid` is the id of a part of a job. `journal_format.FIELDS` lists the exact fields of
    each step."""

    step: JournalStep
    jid: str
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """The journal's state of one part of a job: its last step and the data that this step needs.

    Body, signature, proof and SRNs are present until the job is past STARTED. `pid` and `ticks` (start time in clock
    ticks since boot, which no later process with the same pid shares) are present only while it is STARTED.
    """

    jid: PartId
    step: JournalStep
    received_wall_ms: int = 0
    """0 for a job that was refused without being received."""
    deliver_ms: int = 0
    body: bytes = b""
    signature: bytes = b""
    proof: tuple[bytes, ...] = ()
    issuer: bytes = b""
    """The job key of the master that signed the job and gets the result; empty if unknown."""
    pid: int = 0
    ticks: int = 0
    started_wall_ms: int = 0
    reason: str = ""
    srns: tuple[str, ...] = ()
    """The resources of the part; empty for the minion itself."""


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """A result that waits for the master's acknowledgement, of a part of a job or of a segment of its resources.
    `state` is a terminal one; `body` is the encoded return value, or the segment."""

    state: TargetState
    code: int
    body: bytes
    start_ms: int
    dur_ms: int
    reason: str = ""


class Journal(Protocol):
    """The record of the jobs of this minion, so that nothing runs twice (G4). One writer."""

    incarnation: str
    """32 hexadecimal digits made with the journal, so that another disk has another incarnation."""

    floor: str
    """The highest deleted jid, "" for none: an unknown job at or below it may have run before."""

    repaired: str
    """A sentence about the unfinished end that `open()` cut off, "" if there was none."""

    def open(self) -> list[JournalEntry]:
        """Read or create the journal; returns its entries in jid order, all of them on disk.

        Raises JournalError when it cannot be read, is damaged other than by an interrupted write at its end, or has an
        unknown format.
        """
        ...

    def append(self, records: Sequence[Record]) -> None:
        """Append all of these records or none; they are on disk only after `sync()`.

        Raises UnwrittenError when the disk is full, without any effect. Raises JournalError for another failure of the
        disk, after which every call raises, and for a transition that is not in the table: a started job is never
        started again.
        """
        ...

    def full(self) -> str:
        """Why no new job may be accepted ("No space left on device"); "" if there is space. Each call checks again."""
        ...

    def sync(self) -> None:
        """Return when all appended records are on disk.

        Raises JournalError. The content of the disk is unknown after that, and every later call raises.
        """
        ...

    def entry(self, jid: str) -> JournalEntry | None:
        """The entry of that job, if there is one."""
        ...

    def should_compact(self) -> bool:
        """Whether `compact()` is due: once after each start, then when the file has grown large."""
        ...

    def compact(self, now_ms: int) -> None:
        """Delete old entries by the rule of `journal_format.kept`, and rewrite the rest. `now_ms` is the wall clock.

        Raises JournalError; the old file is then still in use.
        """
        ...

    def close(self) -> None: ...


class Spool(Protocol):
    """Results without a confirmation of the master (G6). Processes of jobs, forked later, may write into it.

    The key of a result is the id of its part of a job, or of the segment.
    """

    def open(self) -> None:
        """Delete what interrupted writers left, and count the results, which are all on disk then. Raises
        JournalError."""
        ...

    def write(self, jid: str, result: SpoolEntry, *, sync: bool = True) -> bool:
        """Store a result; it is on disk when this returns. False if that job has one: the first one stays.

        Without `sync` it survives the end of every process, but a power failure only after `sync()`.
        One process at a time writes for one job: a later writer has ended the earlier one. Raises UnwrittenError when
        the disk does not take it even without the reserve; then nothing was stored.
        """
        ...

    def sync(self, jids: Iterable[str]) -> dict[str, str]:
        """Put those of these results on disk that were written without a sync and not removed since.

        Returns why the disk did not take a result, by id; such a result can still be read.
        """
        ...

    def is_synced(self, jid: str) -> bool:
        """Whether a result that was written here, or noticed, is on disk."""
        ...

    def read(self, jid: str) -> SpoolEntry:
        """The result of that job. Raises JournalError if there is none, or if it is damaged; it is then renamed to
        `<jid>.bad`."""
        ...

    def remove(self, jid: str) -> None:
        """Delete a result that the master has confirmed; a missing one is not an error."""
        ...

    def jids(self) -> list[str]:
        """The ids of all results, sorted; counts them again."""
        ...

    def noticed(self, jid: str, *, reported: bool = False) -> bool:
        """Count the result of a job whose process has ended; returns whether there is one. It is on disk then, unless
        it was written without a sync.

        `reported`: the process has reported it, so its `write` had returned. Raises JournalError.
        """
        ...

    def usage(self) -> tuple[int, int]:
        """The number of results, and their bytes."""
        ...

    def full(self) -> str:
        """Why the disk may not take the result of another job; "" if the reserve exists or could be restored."""
        ...

    def has_room(self) -> bool:
        """Whether another job may be accepted. Results of running jobs are stored in any case."""
        ...


@dataclass(frozen=True, slots=True)
class Write:
    """Append to the journal. Adjacent ones may share a sync; `lazy` ones need none."""

    step: JournalStep
    jid: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class Fork:
    """Fork the process of a job, which waits; reply with `forked()` or `not_forked()`.

    A part for resources has their SRNs and waits in the process of their type.
    """

    jid: str
    body: JobBody
    srns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Go:
    """Let the waiting process start."""

    jid: str


@dataclass(frozen=True, slots=True)
class Kill:
    """Signal the job's process group; it may be gone already.

    This may come after `exited()`, for processes that the job left behind: reap its process after that, or its pid may
    be reused by then.
    """

    jid: str
    pid: int
    signal: int


@dataclass(frozen=True, slots=True)
class EndPart:
    """End a part for resources: an operator cancels it, or with `late` its run time limit has passed."""

    jid: str
    late: bool


@dataclass(frozen=True, slots=True)
class KeepResult:
    """Store a result for a job that left none, or for the resources of a part that have none."""

    jid: str
    state: TargetState
    code: int
    reason: str
    start_ms: int
    dur_ms: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Delete the result from the spool: the master has it."""

    jid: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Report a state to the master. Dropped while no session is READY, because the next session asks again."""

    jid: str
    state: TargetState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """Offer the result or segment in the spool to the master; dropped while no session is READY."""

    jid: str


Effect = Write | Fork | Go | Kill | EndPart | KeepResult | Forget | Tell | Offer


@dataclass(frozen=True, slots=True)
class ReceivedPart:
    """A part of a job as it arrived: signed body, signature, proof that the part is in the audience."""

    jid: str
    body: bytes
    signature: bytes
    proof: Sequence[bytes]
    deliver_ms: int
    srns: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RecoveredJob:
    """One part of a job from the journal after a restart. `alive`: its process still runs."""

    jid: str
    step: JournalStep
    body: bytes = b""
    issuer: bytes = b""
    received_wall_ms: int = 0
    deliver_ms: int = 0
    pid: int = 0
    started_wall_ms: int = 0
    reason: str = ""
    srns: tuple[str, ...] = ()
    alive: bool = False


OWN = b"own"
"""Stands for the issuer of a job that the minion began by itself."""


def received(delivery: ReceivedPart, issuer: bytes, deliver_ms: int, *, wall_ms: int) -> Write:
    """The record of a job that was accepted at `wall_ms`, signed by the job key `issuer`."""
    fields: dict[str, Any] = {
        "body": delivery.body,
        "sig": delivery.signature,
        "proof": list(delivery.proof),
        "issuer": issuer,
        "deliver_ms": deliver_ms,
        "wall_ms": wall_ms,
    }
    if delivery.srns:
        fields["srns"] = list(delivery.srns)
    return Write(JournalStep.RECEIVED, delivery.jid, fields)


# -- Endings of jobs without a return
#
# A REFUSED record, and a DONE record of a job without a result on disk, has the reason `state:text`.


CANCELLED_CODE = 143
TIMED_OUT_CODE = 124
INTERRUPTED_CODE = 1
CANCELLED_AHEAD = "cancelled before it arrived"
"""The reason of a job that was cancelled before it arrived."""
SEGMENT_UNREADABLE = "its result could not be read again from the minion's disk"
"""The reason of resources whose answers were lost with a segment."""

_DECIDED: dict[TargetState | None, tuple[TargetState, int, str]] = {
    TargetState.TIMED_OUT: (TargetState.TIMED_OUT, TIMED_OUT_CODE, "killed: it reached its run time limit"),
    TargetState.CANCELLED: (TargetState.CANCELLED, CANCELLED_CODE, "killed by an operator"),
}
"""What a killed job returns if it left no result."""


def ending(decided: TargetState | None, why: str) -> tuple[TargetState, int, str]:
    """State, code and reason of a job without a result: as decided, or interrupted with `why`."""
    return _DECIDED.get(decided, (TargetState.INTERRUPTED, INTERRUPTED_CODE, why[:REASON_MAX]))


def encoded_ending(state: TargetState, reason: str) -> str:
    """The reason field of a journal record for that ending."""
    return f"{state}:{reason[:REASON_MAX]}"


def decoded_ending(text: str) -> tuple[TargetState, str]:
    """State and reason from a field made by `encoded_ending`; other text is the reason of a refusal."""
    state, _, reason = text.partition(":")
    try:
        return TargetState(state), reason
    except ValueError:
        return TargetState.REFUSED, text


def disk_full(why: str) -> str:
    """The reason of a job that was refused because it cannot be recorded."""
    return f"the minion's disk is full ({why})"


def without_result(how: str) -> str:
    """The reason of a job whose process left no result; `how` is a phrase such as "killed by SIGKILL"."""
    return f"its process ended without a result ({how})"


RESULT_UNSYNCED = "the machine stopped before its result was on disk"
"""The reason of a job whose result was lost with the power, before it was synced and before the master had it."""


def result_unwritten(why: str) -> str:
    """The reason of a job whose result could not be written."""
    return f"its result could not be written: {why}"


# -- The entry of a part in the job state machine


SIGTERM = 15
SIGKILL = 9
NEVER = float("inf")


@dataclass(slots=True)
class JobEntry:
    """The state of one part. Times of waiting and running are monotonic seconds."""

    jid: str
    step: JournalStep
    issuer: bytes = b""
    """The job key of the master that sent it; empty if unknown."""
    body: JobBody | None = None
    srns: tuple[str, ...] = ()
    pid: int = 0
    started_wall_ms: int = 0
    expires: float = NEVER
    limit: float = NEVER
    ending: TargetState | None = None
    """The decided ending while its process has not ended yet, or the state of a refusal."""
    kill_at: float = NEVER
    reason: str = ""
    owed: str = ""
    """The ending of a part for resources that did not all answer. It is sent after the master has the answers."""

    @property
    def is_for_resources(self) -> bool:
        """Whether it runs on resources, in the process of their type."""
        return is_resource_part(self.jid)

    def fork(self, body: JobBody) -> Fork:
        """The effect that makes its process."""
        return Fork(self.jid, body, self.srns)

    def end(self, signum: int, *, late: bool) -> Kill | EndPart:
        """The effect that ends it, or what it left behind; `late`: its run time limit has passed."""
        return EndPart(self.jid, late) if self.is_for_resources else Kill(self.jid, self.pid, signum)

    def keep(self, why: str, wall_ms: int) -> KeepResult:
        """The effect that stores an ending for a job without a result; `why` there is none."""
        state, code, reason = ending(self.ending, why)
        ran_ms = max(0, wall_ms - self.started_wall_ms) if self.started_wall_ms else 0
        return KeepResult(self.jid, state, code, reason, self.started_wall_ms, ran_ms)


def longest_s(body: JobBody | None, most_s: float) -> float:
    """The run time limit in seconds, from the job's own and that of the minion (0 for none)."""
    wanted_s = body.run_ms / 1000 if body is not None and body.run_ms else NEVER
    return min(wanted_s, most_s or NEVER)
