"""Jobs: what was asked for, how far each target has come, and what came back.

The state of one (jid, minion) only moves forward, and the first terminal state wins;
`saltlite.master.store.invariants`
holds the table of moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from saltlite.model.ids import Jid, MinionId, RequestId, TargetId
from saltlite.model.target import Target

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
    """A committed job. `body` is the exact signed byte string that travels; see saltlite.wire.jobbody."""

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


@dataclass(frozen=True, slots=True)
class Return:
    """What came back from one target of one job."""

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
