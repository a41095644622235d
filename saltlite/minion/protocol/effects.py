"""The boundary of the job state machine: effects, the ports of journal and spool, and what is known of each part.

The job server carries out the effects in order. Journal and spool belong to it alone; the process of a job writes only
its own result into the spool. Contract tests run against files and against an in-memory disk. Wall-clock times are
whole milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from saltlite.model.ids import PartId
from saltlite.model.job import TargetState, is_resource_part
from saltlite.wire.job_body import JobBody
from saltlite.wire.messages import REASON_MAX

# -- Ports


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
    """How far a job has come, as the journal says it; `saltlite.minion.protocol.journal_format` has the moves."""

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


@dataclass(frozen=True, slots=True)
class Write:
    """Append to the journal. Neighbouring ones may share one sync; `lazy` ones need none."""

    step: Step
    jid: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    lazy: bool = False


@dataclass(frozen=True, slots=True)
class Fork:
    """Make the job's process, which waits; answer with `forked()` or `not_forked()`.

    A part for resources has their SRNs, and waits where these are run.
    """

    jid: str
    body: JobBody
    srns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Go:
    """Let the waiting process enter the function."""

    jid: str


@dataclass(frozen=True, slots=True)
class Kill:
    """Signal the job's whole process group; it is no error that it is gone.

    One may follow `exited()`, for what the job left behind: reap the process after that, not before, or its
    pid may belong to somebody else by then.
    """

    jid: str
    pid: int
    signal: int


@dataclass(frozen=True, slots=True)
class EndPart:
    """Have the part for resources ended: an operator wants it, or with `late` its run time limit has passed."""

    jid: str
    late: bool


@dataclass(frozen=True, slots=True)
class KeepResult:
    """Put a result in the spool for a job that left none itself, or for what of a part for resources has none."""

    jid: str
    state: TargetState
    code: int
    reason: str
    start_ms: int
    dur_ms: int


@dataclass(frozen=True, slots=True)
class Forget:
    """The master has the result: remove it from the spool."""

    jid: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Report a state to the master. While there is no READY session it is dropped: the next one asks anew."""

    jid: str
    state: TargetState
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """The result or the segment is in the spool, for the master to have; dropped while no session is READY."""

    jid: str


Effect = Write | Fork | Go | Kill | EndPart | KeepResult | Forget | Tell | Offer


@dataclass(frozen=True, slots=True)
class Delivery:
    """A part of a job as it arrived: the signed body, its signature, the proof that the part is in its audience."""

    jid: str
    body: bytes
    signature: bytes
    proof: Sequence[bytes]
    deliver_ms: int
    srns: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RecoveredJob:
    """One part of a job as the journal remembers it after a restart. `alive`: its process still runs."""

    jid: str
    step: Step
    body: bytes = b""
    issuer: bytes = b""
    received_wall_ms: int = 0
    deliver_ms: int = 0
    pid: int = 0
    started_wall_ms: int = 0
    reason: str = ""
    srns: tuple[str, ...] = ()
    alive: bool = False


def received(delivery: Delivery, issuer: bytes, deliver_ms: int, *, wall_ms: int) -> Write:
    """The record of a job that was taken in at `wall_ms`, signed with the job key `issuer`."""
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
    return Write(Step.RECEIVED, delivery.jid, fields)


# -- Endings of jobs without a return
#
# A REFUSED record, and a DONE record of a job without a result on disk, has the reason `state:text`.


CANCELLED_CODE = 143
TIMED_OUT_CODE = 124
INTERRUPTED_CODE = 1
CANCELLED_AHEAD = "cancelled before it arrived"
"""The reason of a job that was cancelled before the minion had heard of it."""
SEGMENT_UNREADABLE = "its result could not be read again from the minion's disk"
"""The reason of resources whose answers were lost with a segment."""

_DECIDED: dict[TargetState | None, tuple[TargetState, int, str]] = {
    TargetState.TIMED_OUT: (TargetState.TIMED_OUT, TIMED_OUT_CODE, "killed: it reached its run time limit"),
    TargetState.CANCELLED: (TargetState.CANCELLED, CANCELLED_CODE, "killed by an operator"),
}
"""What a job that was killed returns when it left nothing itself."""


def ending(decided: TargetState | None, why: str) -> tuple[TargetState, int, str]:
    """State, code and reason of a job that left no result: as it was decided, or interrupted with `why`."""
    return _DECIDED.get(decided, (TargetState.INTERRUPTED, INTERRUPTED_CODE, why[:REASON_MAX]))


def spelled(state: TargetState, reason: str) -> str:
    """What a record of the journal has as its reason."""
    return f"{state}:{reason[:REASON_MAX]}"


def read_spelled(text: str) -> tuple[TargetState, str]:
    """State and reason from what `spelled` made; other text is a refusal for that reason."""
    state, _, reason = text.partition(":")
    try:
        return TargetState(state), reason
    except ValueError:
        return TargetState.REFUSED, text


def disk_full(why: str) -> str:
    """The reason of a job that was refused because nothing can be remembered of it."""
    return f"the minion's disk is full ({why})"


def without_result(how: str) -> str:
    """The reason of a job whose process left nothing; `how` is a phrase such as "killed by SIGKILL"."""
    return f"its process ended without a result ({how})"


def result_unwritten(why: str) -> str:
    """The reason of a job whose result was made, and did not reach the disk."""
    return f"its result could not be written: {why}"


# -- The entry of a part in the job state machine


SIGTERM = 15
SIGKILL = 9
NEVER = float("inf")


@dataclass(slots=True)
class JobEntry:
    """What is known of one part. Times of waiting and running are monotonic seconds."""

    jid: str
    step: Step
    issuer: bytes = b""
    """The job key of the master that asked for it; empty when it is not known."""
    body: JobBody | None = None
    srns: tuple[str, ...] = ()
    pid: int = 0
    started_wall_ms: int = 0
    expires: float = NEVER
    limit: float = NEVER
    ending: TargetState | None = None
    """What it becomes, once that is decided and its process has not ended yet; or why it was refused."""
    kill_at: float = NEVER
    reason: str = ""
    owed: str = ""
    """How a part for resources ended that not all of them answered. It is said when the master has what they did."""

    @property
    def is_for_resources(self) -> bool:
        """Whether it runs on resources, and in no process of its own."""
        return is_resource_part(self.jid)

    def fork(self, body: JobBody) -> Fork:
        """What makes it wait to be let go."""
        return Fork(self.jid, body, self.srns)

    def end(self, signum: int, *, late: bool) -> Kill | EndPart:
        """What ends it, or what it left behind; `late` says that its run time limit has passed."""
        return EndPart(self.jid, late) if self.is_for_resources else Kill(self.jid, self.pid, signum)

    def keep(self, why: str, wall_ms: int) -> KeepResult:
        """What keeps a result for a job that left none; `why` it did not."""
        state, code, reason = ending(self.ending, why)
        ran_ms = max(0, wall_ms - self.started_wall_ms) if self.started_wall_ms else 0
        return KeepResult(self.jid, state, code, reason, self.started_wall_ms, ran_ms)


def longest_s(body: JobBody | None, most_s: float) -> float:
    """How long a job may run, by its own limit and that of its minion (0 for none)."""
    wanted_s = body.run_ms / 1000 if body is not None and body.run_ms else NEVER
    return min(wanted_s, most_s or NEVER)
