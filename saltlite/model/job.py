"""Jobs: their targets, the parts that minions get, the states of each target, and returns.

The state of one (jid, minion) only moves forward, and the first terminal state wins. `saltlite.master.store.ports`
has the table of transitions.

A minion that is a target itself gets part 0 of the job, whose id is the jid. The resources that it manages come in
parts numbered from 1, each for resources of one type. A part returns its results in one or more segments:

    20260131235959123456        the job, and its part for the minion itself
    20260131235959123456-2      a part for resources
    20260131235959123456-2.7    a segment of what that part returns

The division into parts depends on the job alone, so master, store and simulator agree on it without exchanging it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import NamedTuple

from saltlite.errors import UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.ids import Jid, MinionId, PartId, RequestId, TargetId


class TargetKind(StrEnum):
    """How the expression is read. The names are Salt's `tgt_type` values."""

    GLOB = "glob"
    LIST = "list"
    PCRE = "pcre"
    GRAIN = "grain"
    GRAIN_PCRE = "grain_pcre"
    PILLAR = "pillar"
    PILLAR_PCRE = "pillar_pcre"
    IPCIDR = "ipcidr"
    NODEGROUP = "nodegroup"
    COMPOUND = "compound"


@dataclass(frozen=True, slots=True)
class Target:
    """A target as it was typed; it is resolved on the master, once, at publish time."""

    expression: str
    kind: TargetKind = TargetKind.GLOB


BY_RUNNER = "runner "
"""Begins the origin of a job that a runner published; its jid follows."""


class TargetState(StrEnum):
    """How far one minion has come with one job, as somebody acknowledged it."""

    PLANNED = "planned"  # a target of a batch whose turn has not come
    QUEUED = "queued"  # committed on the master, not acknowledged by the minion
    RECEIVED = "received"  # in the minion's journal
    RUNNING = "running"  # its process was started
    RETURNED = "returned"  # the function returned or raised
    REFUSED = "refused"  # the minion would not run it, and said why
    EXPIRED = "expired"  # could not be delivered in time
    CANCELLED = "cancelled"  # killed by an operator
    TIMED_OUT = "timed_out"  # killed by its own run time limit
    INTERRUPTED = "interrupted"  # its process died without a result
    LOST = "lost"  # the minion came back with another disk
    REVOKED = "revoked"  # the key was revoked before it returned


TERMINAL: frozenset[TargetState] = frozenset(TargetState) - {
    TargetState.PLANNED,
    TargetState.QUEUED,
    TargetState.RECEIVED,
    TargetState.RUNNING,
}


@dataclass(frozen=True, slots=True)
class Batch:
    """How a job goes through its targets a few at a time."""

    size: int
    """Targets that may have the job at once."""
    wait_ms: int = 0
    """How long a place stays empty after its target has ended."""
    failhard: bool = False
    """Whether the first target that fails ends the batch."""


@dataclass(frozen=True, slots=True)
class Job:
    """A committed job. `body` is the exact signed byte string that travels; see saltlite.wire.job_body."""

    jid: Jid
    request_id: RequestId
    user: str
    uid: int
    fun: str
    target: Target
    created_at: float
    deliver_ms: int
    run_ms: int
    body: bytes
    signature: bytes
    minions: tuple[MinionId, ...]
    """The minions that were selected themselves, sorted. With `resources`: exactly what was authorised."""
    resources: Mapping[MinionId, tuple[TargetId, ...]] = field(default_factory=dict)
    """The resources that were selected: SRNs, sorted, by the minion that manages them."""
    batch: Batch | None = None
    """None: all targets at once."""
    origin: str = ""
    """From where it was asked for, as the client says: for people, and to end loops of hooks; it gives no right."""


class Return(NamedTuple):
    """The return of one target of a job. It is a tuple because a watcher of a large job needs many thousands, and a
    dataclass takes six times as long to create."""

    jid: Jid
    id: TargetId
    state: TargetState
    retcode: int
    body: bytes
    """The return value as msgpack, exactly as the minion's job process encoded it."""
    started_at: float
    """Wall clock of the minion, seconds since 1970."""
    duration_ms: int
    reason: str = ""
    seq: int = 0
    """The store's sequence number: what a reader follows. 0 until it is committed."""


# -- Parts


PART_RESOURCES = 500
"""Resources of one part, at most: enough that a parcel costs nothing, few enough that parts of it end early."""

PART_BYTES = 32 * 1024
"""Bytes of all SRNs of one part, so that a parcel fits into a frame."""

NUMBER_MAX = 1_000_000
"""The highest number of a part or a segment."""

_PART = re.compile(r"[0-9]{20}(-[1-9][0-9]{0,5})?", re.ASCII)
_SEGMENT = re.compile(r"[0-9]{20}-[1-9][0-9]{0,5}\.(0|[1-9][0-9]{0,5})", re.ASCII)


def parse_part_id(text: object) -> PartId:
    """The part id in `text`. Raises UsageError."""
    if isinstance(text, str) and _PART.fullmatch(text):
        return text
    raise UsageError(f"{str(text)[:40]!r} is not the id of a job or of a part of one")


def is_segment_id(text: object) -> bool:
    """Whether `text` is the id of a segment."""
    return isinstance(text, str) and _SEGMENT.fullmatch(text) is not None


def is_resource_part(text: str) -> bool:
    """Whether the id of a job, a part or a segment is that of a part for resources."""
    return "-" in text and not is_segment_id(text)


def part_id(jid: Jid, number: int) -> PartId:
    """The id of that part."""
    return f"{jid}-{number}" if number else jid


def split_part(part: PartId) -> tuple[Jid, int]:
    """The job of a part and the part's number."""
    jid, _, number = part.partition("-")
    return Jid(jid), int(number or 0)


def segment_id(part: PartId, number: int) -> str:
    """The id of a segment of what that part returns."""
    return f"{part}.{number}"


def part_of_segment(segment: str) -> PartId:
    """The part of a segment; of a part itself, that part."""
    return segment.partition(".")[0]


def resource_parts(srns: Sequence[TargetId], most: int = PART_RESOURCES) -> Iterator[tuple[int, tuple[TargetId, ...]]]:
    """(number, SRNs) of the parts for these resources of one minion, which are sorted; `most` resources in each.

    A job that goes through its targets in batches has parts of one resource: each has its own turn.
    """
    number, size = 1, 0
    part: list[TargetId] = []
    for srn in srns:
        length = len(srn.encode())
        other_type = part and part[0].partition(":")[0] != srn.partition(":")[0]
        if part and (other_type or len(part) == most or size + length > PART_BYTES):
            yield number, tuple(part)
            number, part, size = number + 1, [], 0
        part.append(srn)
        size += length
    if part:
        yield number, tuple(part)


# -- Returns that were too large to travel
#
# Their file is `<jid>.kept` in the folder `kept` of the minion: magic(8) | SHA-256 of the rest (32) | the
# encoded return. The process of the job writes it and `saltutil.kept_return` reads it. Neither imports the other's
# layer, so the shared format is here.


CLAIMED = ".claimed"
"""Suffix of the note of a running job on its minion while `saltutil` signals the job's process."""

FOLDER = "kept"
"""Name of the folder, below `data_dir`."""

SUFFIX = ".kept"
MAGIC = b"SLKEPT1\n"
HEADER_BYTES = len(MAGIC) + 32

TRUNCATED = "$truncated"
"""The key by which a program knows a return that was cut: `{"$truncated": {"bytes": n, "kept": bool}, "head": …}`."""

TRUNCATED_NOTE = "truncated:"
"""How the reason of every return begins that was cut, texts included."""


def header(digest: bytes) -> bytes:
    """The first HEADER_BYTES of a file whose rest has this SHA-256."""
    return MAGIC + digest


def digest_of(head: bytes) -> bytes:
    """The SHA-256 that the header names. Raises ValueError for bytes that are not a header."""
    if len(head) < HEADER_BYTES or not head.startswith(MAGIC):
        raise ValueError("it does not begin as a kept return does")
    return head[len(MAGIC) : HEADER_BYTES]


# -- The job history: filters for past jobs, and the rows of jobs and targets


class TargetOutcome(StrEnum):
    """What became of one (jid, target), as an operator asks for it."""

    OPEN = "open"  # not settled
    OK = "ok"  # returned, with retcode 0
    MISSING = "missing"  # settled without the function having run to an end: expired, cancelled, lost, revoked
    FAILED = "failed"  # refused, killed by its time limit, interrupted, or returned with another retcode


BAD_STATES = frozenset({TargetState.REFUSED, TargetState.TIMED_OUT, TargetState.INTERRUPTED})


def outcome_of(state: TargetState, retcode: int | None = None) -> TargetOutcome:
    """The outcome that a state stands for; `retcode` is that of the return, None without one.

    A return that comes after its target was settled otherwise still says what became of it.
    """
    if state in BAD_STATES or (retcode is not None and retcode != 0):
        return TargetOutcome.FAILED
    if state not in TERMINAL:
        return TargetOutcome.OPEN
    if state is TargetState.RETURNED:
        return TargetOutcome.OK
    return TargetOutcome.MISSING


def outcome_of_return(ret: Return) -> TargetOutcome:
    """The outcome that a return stands for."""
    return outcome_of(ret.state, ret.retcode)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs. What is None or empty does not narrow; times are wall-clock seconds since 1970."""

    minion: TargetId | None = None
    """A minion, with the resources that it manages, or one resource."""
    fun: str = ""
    """A shell-style glob; a job of several functions is found by any of them."""
    user: str = ""
    since: float | None = None
    """Made at this time or later."""
    until: float | None = None
    """Made before this time."""
    outcome: TargetOutcome | None = None
    """FAILED, MISSING, OPEN: at least one target is. OK: every target is. With `minion` only its targets count."""
    before: Jid | None = None
    """The cursor: only jobs with a lower jid, which is where the page before ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """One job without its body and its target list. `counts` and `outcomes` name only what there is."""

    jid: Jid
    fun: str
    target: Target
    user: str
    uid: int
    origin: str
    created_at: float
    deliver_ms: int
    run_ms: int
    cancelled_at: float | None
    """When an operator ended it; None when no operator did."""
    cancelled_by: str
    batch_size: int | None
    """Targets that run the job at once; None if it is not a batch."""
    counts: Mapping[TargetState, int]
    outcomes: Mapping[TargetOutcome, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDetail:
    """How far one target has come with one job, and its return without the body.

    `retcode`, `started_at` (the minion's wall clock) and `duration_ms` are None without a return.
    """

    id: TargetId
    state: TargetState
    reason: str
    changed_at: float
    outcome: TargetOutcome
    retcode: int | None
    started_at: float | None
    duration_ms: int | None
