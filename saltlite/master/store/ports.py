"""The ports: what the core and the handlers need from the world, as Protocols.

Every port has an in-memory twin and a real adapter in `saltlite.platform`, and one contract test suite that
runs against both. Times are wall-clock seconds since 1970 unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from saltlite.model.events import Event
from saltlite.model.history import JobFilter, JobSummary, TargetDetail
from saltlite.model.ids import Jid, MinionId, PartId, RequestId, TargetId
from saltlite.model.job import Batch, Job, Return, TargetState
from saltlite.model.keys import AuthToken, Fingerprint, KeyRecord, KeyState


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A join token as the store holds it: never the secret."""

    token_id: str
    public: bytes
    """The Ed25519 public key that its holder signs for (`saltlite.wire.signatures`)."""
    id_glob: str
    uses_left: int
    created_at: float
    expires_at: float
    created_by: str


@dataclass(frozen=True, slots=True)
class TargetRow:
    """How far one target has come with one job."""

    id: TargetId
    state: TargetState
    reason: str
    changed_at: float


@dataclass(frozen=True, slots=True)
class PartRow:
    """How far one minion has come with one part of a job; it holds for every target of the part."""

    part: PartId
    minion: MinionId
    """Who says so, or of whom it is said: the parts of others stay as they are."""
    state: TargetState
    reason: str
    changed_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJob:
    """A part of a job that one minion has not settled yet, with all that it takes to hand it over."""

    jid: Jid
    part: PartId
    body: bytes
    signature: bytes
    created_at: float
    """From when `deliver_ms` counts: when the part was QUEUED while it is that, when the job was made later."""
    deliver_ms: int
    minions: tuple[MinionId, ...]
    resources: Mapping[MinionId, tuple[TargetId, ...]]
    """With `minions` the whole job's targets, as they were signed."""
    resources_here: tuple[TargetId, ...]
    """The resources of this part, open or not; () for the part of the minion itself."""
    state: TargetState
    """The least advanced of its unsettled targets."""


@dataclass(frozen=True, slots=True)
class FunctionSet:
    """The execution module functions that a digest stands for.

    `functions` maps `module.function` to its text of `saltlite.model.signature`. `whole`: it names all of them.
    """

    digest: str
    functions: Mapping[str, str]
    whole: bool


@dataclass(frozen=True, slots=True)
class MinionRow:
    """What the master remembers of a minion's sessions."""

    id: MinionId
    fingerprint: Fingerprint
    address: str
    version: str
    boot_id: str
    incarnation: str
    functions: str
    """Digest of its function set, "" when it has not said."""
    up: bool
    """Whether it had a session when this was written."""
    last_seen: float
    """When a session of it last began or ended."""


@dataclass(frozen=True, slots=True)
class BatchJob:
    """What decides how a batch goes on, without the job's body and its list of targets."""

    jid: Jid
    created_at: float
    deliver_ms: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the batch of one job stands."""

    active: int
    """Places that are taken: targets that have the job, may yet get it, or ended a moment ago."""
    planned: int
    changed_at: float
    """When any target of the job moved last."""
    failed: TargetId | None
    """A target that failed, if one did."""


class Stored(StrEnum):
    """What became of one return that was handed to the store."""

    NEW = "new"
    DUPLICATE = "duplicate"
    UNASSIGNED = "unassigned"
    """The target was never given to the minion with that key, or it is not accepted: refused, nothing stored (G8)."""


@dataclass(frozen=True, slots=True)
class ReturnCommit:
    """One return with the key it came in under, and what the store did with it."""

    fingerprint: Fingerprint
    ret: Return


RETURNS_SIZE = 8 * 1024 * 1024
"""Bytes of bodies that are read at once: with the one that is over it, less than a message to a client may have."""


OPEN_JOBS_SIZE = 1024 * 1024
"""Bytes of job bodies that are read at once, and one more body."""


@dataclass(frozen=True, slots=True)
class PendingKey:
    """A key that waits for an operator, and what is needed to tell who makes room for another. Wall-clock seconds."""

    fingerprint: Fingerprint
    address: str
    first_seen: float
    changed_at: float


class StoreReader(Protocol):
    """Questions; each sees the last committed state, and all of them see one state inside `write()`."""

    def store_id(self) -> str:
        """32 hexadecimal digits made when the store was created: another store, another id."""
        ...

    def key(self, fingerprint: Fingerprint) -> KeyRecord | None: ...

    def keys(self, states: frozenset[KeyState] = frozenset(KeyState)) -> list[KeyRecord]:
        """Keys in these states, sorted by id, then by first_seen."""
        ...

    def holder(self, minion: MinionId) -> KeyRecord | None:
        """The accepted key of that id: at most one."""
        ...

    def accepted_ids(self) -> list[MinionId]:
        """Ids of all accepted keys, sorted: what a target is resolved against."""
        ...

    def count_keys(self, state: KeyState) -> int: ...

    def pending_keys(self) -> list[PendingKey]:
        """Who waits for an operator, in no order."""
        ...

    def token(self, token_id: str) -> TokenRecord | None: ...

    def auth_token(self, token_id: str) -> AuthToken | None: ...

    def auth_tokens(self) -> list[AuthToken]:
        """Every one, the oldest first."""
        ...

    def preaccepted(self, minion: MinionId) -> Fingerprint | None: ...

    def job(self, jid: Jid) -> Job | None: ...

    def reducible(self, limit: int) -> list[tuple[Jid, bytes]]:
        """At most so many of the jobs that `mark_reducible` named and whose targets are all terminal, with their
        bodies."""
        ...

    def job_of_request(self, request_id: RequestId, uid: int) -> Jid | None:
        """The job that this client request already made (G2); request ids of two users never meet."""
        ...

    def targets(self, jid: Jid) -> list[TargetRow]:
        """One row a target, sorted by id; empty for an unknown job."""
        ...

    def managing_minions(self, jid: Jid) -> dict[TargetId, MinionId]:
        """The resources that the job is for, with the minion that managed each when it was made."""
        ...

    def part_targets(self, jid: Jid, minion: MinionId, number: int) -> list[TargetId]:
        """The targets of that part, sorted; empty when that minion has no such part."""
        ...

    def open_in_part(self, jid: Jid, minion: MinionId, number: int) -> list[TargetId]:
        """Those of `part_targets` that are not terminal."""
        ...

    def open_parts(self, jid: Jid) -> list[tuple[PartId, MinionId]]:
        """The parts of the job with a target that is not terminal, and who has them, by minion and number."""
        ...

    def jobs(self, wanted: JobFilter, limit: int) -> list[JobSummary]:
        """The newest jobs that the filter lets through, newest first; the last one's jid is the next cursor."""
        ...

    def job_summary(self, jid: Jid) -> JobSummary | None: ...

    def target_details(self, jid: Jid) -> list[TargetDetail]:
        """One row a target, sorted by id, with what its return says; empty for an unknown job."""
        ...

    def cancelled(self, jids: Sequence[Jid]) -> set[Jid]:
        """Those of these jobs that an operator ended."""
        ...

    def open_targets(self, jid: Jid) -> int:
        """How many targets of the job are not terminal."""
        ...

    def moved_targets(self, jid: Jid) -> list[TargetRow]:
        """Targets whose state says more than their return would, or comes before it: neither PLANNED, nor QUEUED, nor
        RETURNED."""
        ...

    def targets_in(self, jid: Jid, state: TargetState) -> list[TargetRow]:
        """The targets of the job that are in this state, sorted by id."""
        ...

    def returns(self, jid: Jid, after: int = 0, limit: int = 1000, size: int = RETURNS_SIZE) -> list[Return]:
        """Returns of a job with seq > after, in seq order: at most `limit`, and none after the one with which
        their bodies have `size` bytes."""
        ...

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """Events with seq > after, in seq order. Return bodies are not repeated in them."""
        ...

    def last_seq(self) -> int:
        """The highest sequence number given out, 0 for none: where a new reader starts."""
        ...

    def first_seq(self) -> int:
        """The lowest sequence number of an event that is still there; 0 without events."""
        ...

    def seq_before(self, at: float) -> int:
        """The cursor from which a reader gets the events since that time: the seq before the earliest of them,
        `last_seq()` when there is none."""
        ...

    def size(self) -> int:
        """Bytes that the store fills; room that was freed inside it and will be used again does not count."""
        ...

    def open_counts(self) -> Mapping[TargetState, int]:
        """How many targets of all jobs are QUEUED, RECEIVED and RUNNING; states without any are absent."""
        ...

    def unsettled(self, minion: MinionId) -> list[tuple[PartId, TargetState]]:
        """Parts of jobs with targets that are QUEUED, RECEIVED or RUNNING on that minion, by jid and number, with
        the least advanced of these states. No job is read for it."""
        ...

    def open_jobs(self, minion: MinionId, parts: Sequence[PartId], size: int = OPEN_JOBS_SIZE) -> list[OpenJob]:
        """Those of these parts that are unsettled on that minion, by jid and number, and none after the one with
        which their bodies have `size` bytes."""
        ...

    def crowded(self, minions: Sequence[MinionId], most: int) -> list[MinionId]:
        """Those of these minions, in their order, that have `most` parts or more with QUEUED targets."""
        ...

    def batches(self, among: Sequence[Jid] | None = None) -> list[BatchJob]:
        """Jobs with PLANNED targets, in jid order; with `among` only those of these."""
        ...

    def planned_of(self, minion: MinionId) -> list[PartId]:
        """Parts with PLANNED targets on that minion, by jid and number."""
        ...

    def standing(self, jid: Jid, queued_since: float, ended_since: float, now: float) -> Standing:
        """How the batch stands. A QUEUED target takes a place when it was queued after `queued_since`, one that has
        ended when it did so after `ended_since`; RECEIVED and RUNNING ones always do.

        A time after `now` counts as long past: the clock was set back, and nothing may wait until it is there again.
        """
        ...

    def planned_seen(self, jid: Jid) -> float:
        """When a session of any minion with a PLANNED target of the job last began or ended; 0.0 when none ever did."""
        ...

    def next_planned(self, jid: Jid, limit: int) -> list[TargetId]:
        """The first PLANNED targets whose minion, or managing minion, has a session, sorted by id."""
        ...

    def expire_due(self, now: float) -> bool:
        """Whether `expire(now)` would move anything; cheap, and takes no lock."""
        ...

    def functions(self, digest: str) -> FunctionSet | None: ...

    def function_digests(self, minions: Sequence[MinionId]) -> dict[str, tuple[int, MinionId]]:
        """How many of these minions last reported each digest, and the first of them by id; "" stands for those that
        never did."""
        ...

    def minions_with_open_jobs(self) -> list[MinionId]:
        """Minions with QUEUED targets, themselves or resources, sorted."""
        ...

    def minion(self, minion: MinionId) -> MinionRow | None: ...

    def minions(self) -> list[MinionRow]:
        """Every minion with an accepted key that ever had a session, sorted by id."""
        ...


class StoreWriter(StoreReader, Protocol):
    """What may be done inside one `write()` transaction."""

    def put_key(self, record: KeyRecord) -> None:
        """Insert or replace the row of that fingerprint. A second accepted key for one id is a StoreError."""
        ...

    def delete_key(self, fingerprint: Fingerprint) -> None: ...

    def next_epoch(self) -> int:
        """1, 2, 3 …: every change of a key takes the next one."""
        ...

    def put_token(self, token: TokenRecord) -> None: ...

    def use_token(self, token_id: str) -> bool:
        """Take one use, in one atomic statement; False when none is left (R7)."""
        ...

    def delete_token(self, token_id: str) -> bool: ...

    def put_auth_token(self, token: AuthToken, most: int) -> None:
        """Insert it, and forget the oldest of that backend's user above `most`."""
        ...

    def delete_auth_token(self, token_id: str) -> bool: ...

    def expire_auth_tokens(self, now: float) -> None:
        """Forget those that expired at that time or before."""
        ...

    def put_preaccept(self, minion: MinionId, fingerprint: Fingerprint, by: str) -> None: ...

    def delete_preaccept(self, minion: MinionId) -> bool: ...

    def put_job(self, job: Job) -> int:
        """Insert the job, one row a target (QUEUED, in a batch PLANNED), and the event salt/job/<jid>/new; its seq.

        Resources are put into the parts that saltlite.model.job.resource_parts makes, in a batch of one resource
        each. The jid must be free, the request id new, no target twice, and the resources sorted: StoreError otherwise.
        """
        ...

    def mark_reducible(self, jid: Jid | None) -> None:
        """Have `reducible` name this job when it has ended; None for all jobs that there are."""
        ...

    def put_reduced(self, rows: Iterable[tuple[Jid, bytes]]) -> None:
        """Replace the bodies of these jobs, which nobody is sent any more, and drop their signatures and marks. What
        was there is overwritten in the file; in its log it stays until `Store.empty_log`."""
        ...

    def jid_taken(self, jid: Jid) -> bool: ...

    def set_targets(self, rows: Iterable[tuple[Jid, TargetRow]]) -> list[tuple[Jid, TargetId]]:
        """Move targets forward by the rules of saltlite.master.store.invariants; those that moved. Unknown ones
        are skipped.
        """
        ...

    def set_parts(self, rows: Iterable[PartRow]) -> list[tuple[Jid, TargetId]]:
        """Move every target of these parts as `set_targets` would; those that moved, sorted within their part.
        Parts that are unknown, or another minion's, are skipped."""
        ...

    def put_returns(self, commits: Sequence[ReturnCommit], now: float) -> list[Stored]:
        """Store returns (at most one row a (jid, target), G7), move their targets, add their events.

        A return whose key is not accepted, or whose target was not given to the minion that has this key, be it
        itself or a resource, is UNASSIGNED (G8, S5).
        """
        ...

    def cancel_job(self, jid: Jid, by: str, now: float) -> list[TargetId]:
        """Note who ended the job and when (the first time counts), and mark CANCELLED each PLANNED target, and each
        QUEUED one whose minion had no session since the job was committed, by the rule of `expire`; those ids,
        sorted. The others are settled with the minions themselves."""
        ...

    def put_event(self, tag: str, data: Mapping[str, Any], now: float) -> int: ...

    def touch_minions(self, rows: Iterable[MinionRow]) -> None:
        """Insert or replace the rows of these ids. `last_seen` never goes back, and is never before the time at which
        a target of that minion was QUEUED, even where the wall clock is: a session of that moment may have been
        given the job, so `expire` must not call it undelivered."""
        ...

    def put_functions(self, functions: FunctionSet) -> None:
        """Keep what a digest stands for; sets that no minion's row names any more are dropped by `prune`."""
        ...

    def expire(self, now: float) -> list[tuple[Jid, TargetId]]:
        """Mark EXPIRED each QUEUED target whose delivery time is over and whose minion had no session since the
        job was committed (no row, or not `up` and last_seen < created_at): only then is it certain that it was
        never handed over. The others are settled with the minion itself. A resource goes by its managing minion."""
        ...

    def prune(self, before: float) -> int:
        """Delete jobs created before that time whose targets are all terminal, with their returns, and
        events older than it; the number of jobs deleted. Sequence numbers are never given out again."""
        ...

    def prune_oldest(self, count: int) -> int:
        """Delete as `prune` does so many of the oldest jobs whose targets are all terminal, and the events that
        are older than the last of them; the number of jobs deleted."""
        ...

    def prune_events(self, count: int) -> int:
        """Delete so many of the oldest events; the number of them deleted."""
        ...


class Store(StoreReader, Protocol):
    """The master's truth. One instance belongs to one process; open it after the fork."""

    def write(self) -> AbstractContextManager[StoreWriter]:
        """One transaction: committed and synced when the block ends, rolled back when it raises.

        Raises StoreError when it cannot be committed; then nothing of it was kept.
        """
        ...

    def empty_log(self) -> bool:
        """Overwrite what a log beside the file still has of former contents; False when a reader kept it from that,
        and it is to be tried again."""
        ...

    def close(self) -> None: ...
