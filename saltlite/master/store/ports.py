"""The ports of the master's store: reader, writer and store, and the records that they exchange.

Each backend and the in-memory store in `saltlite.testing` pass the same contract tests. Times are wall-clock seconds
since 1970 unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from saltlite.errors import LocalProtocolError, RemoteProtocolError, StoreError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.model.events import Event, tag_job_new, tag_job_return
from saltlite.model.ids import Jid, MinionId, PartId, RequestId, TargetId, parse_srn
from saltlite.model.job import (
    NUMBER_MAX,
    PART_RESOURCES,
    TERMINAL,
    Batch,
    Job,
    JobFilter,
    JobSummary,
    Return,
    TargetDetail,
    TargetState,
    resource_parts,
)
from saltlite.model.keys import AuthToken, Fingerprint, KeyRecord, KeyState
from saltlite.model.minion import ABSENCES, SessionOrder, absence
from saltlite.wire import codec


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A join token in the store, without its secret."""

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
    """The state of one target of a job."""

    id: TargetId
    state: TargetState
    reason: str
    changed_at: float


@dataclass(frozen=True, slots=True)
class PartRow:
    """The state of one part of a job, which holds for every target of the part."""

    part: PartId
    minion: MinionId
    """The minion of the part; parts of other minions do not change."""
    state: TargetState
    reason: str
    changed_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJob:
    """A part of a job that one minion has not settled, with all data for its delivery."""

    jid: Jid
    part: PartId
    body: bytes
    signature: bytes
    created_at: float
    """The start of `deliver_ms`: when the part was QUEUED if it still is, else the creation of the job."""
    deliver_ms: int
    minions: tuple[MinionId, ...]
    resources: Mapping[MinionId, tuple[TargetId, ...]]
    """With `minions` all targets of the job, as signed."""
    resources_here: tuple[TargetId, ...]
    """The resources of this part, open or not; () for the part of the minion itself."""
    state: TargetState
    """The least advanced of its unsettled targets."""


@dataclass(frozen=True, slots=True)
class FunctionSet:
    """The execution module functions of a digest.

    `functions` maps `module.function` to its text of `saltlite.model.signature`. `whole`: it names all of them.
    """

    digest: str
    functions: Mapping[str, str]
    whole: bool


def names_with(prefix: str, sets: Iterable[tuple[str, Iterable[str]]]) -> dict[str, list[str]]:
    """Digest -> its names that begin so, sorted, of the sets that have any."""
    found = ((digest, sorted(name for name in names if name.startswith(prefix))) for digest, names in sets)
    return {digest: names for digest, names in found if names}


MinionColumn = Literal["address", "version", "last_seen"]


@dataclass(frozen=True, slots=True)
class MinionRow:
    """The last session of a minion."""

    id: MinionId
    fingerprint: Fingerprint
    address: str
    version: str
    boot_id: str
    incarnation: str
    functions: str
    """Digest of its function set, "" if unknown."""
    up: bool
    """Whether it had a session at that time."""
    last_seen: float
    """When its session last began or ended."""
    master: str = ""
    """The name of the master of that session; "" for one from before format 10."""
    run: int = 0
    """This and `handshake` are the minion's own order of its sessions (`saltlite.model.minion.SessionOrder`)."""
    handshake: int = 0
    end_reason: str = ""
    """Why the session ended (`saltlite.model.minion.SessionEnd`); "" while it is `up`, and where that is not known."""

    @property
    def order(self) -> SessionOrder:
        """The place of the session among those of the minion."""
        return SessionOrder(self.boot_id, self.incarnation, self.run, self.handshake)


def is_outdated(claimed: MinionRow, known: MinionRow) -> bool:
    """Whether `claimed` may not take the place of the `known` session, which another master has: a master that was
    stopped for a while must not take a minion back by an older session, nor a copy of the machine by any as long as
    this one is up. A new start of the daemon comes after its owner has ended that, whatever its run: a disk may have
    been restored (`saltlite.master.processes.contests`). Sessions of one master are told apart by its link process."""
    if known.master in ("", claimed.master):
        return False
    if known.boot_id == claimed.boot_id:
        return not known.order.precedes(claimed.order)
    return known.up and known.fingerprint == claimed.fingerprint


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A job in batches, without its body and list of targets."""

    jid: Jid
    created_at: float
    deliver_ms: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Standing:
    """The progress of a job in batches."""

    active: int
    """Occupied slots: targets that have the job, may still get it, or ended a moment ago."""
    planned: int
    changed_at: float
    """When a target last changed its state."""
    failed: TargetId | None
    """A failed target, if there is one."""


class Stored(StrEnum):
    """What the store did with a return."""

    NEW = "new"
    DUPLICATE = "duplicate"
    UNASSIGNED = "unassigned"
    """Rejected (G8): the target was not assigned to the minion of that key, or the key is not accepted."""


@dataclass(frozen=True, slots=True)
class ReturnCommit:
    """A return, and the key of its session."""

    fingerprint: Fingerprint
    ret: Return


RETURNS_SIZE = 8 * 1024 * 1024
"""Bytes of bodies per read: with one body above it, still less than a message to a client may have."""


PRUNE_MOST = 500
"""Targets, returns and KiB of returns that one transaction deletes, and as many events, while writers wait."""


OPEN_JOBS_SIZE = 1024 * 1024
"""Bytes of job bodies per read, and one more body."""


class KeyRow(NamedTuple):
    """What selects, sorts or displaces a key; all of them are read in a quarter of the time of their records."""

    fingerprint: Fingerprint
    id: MinionId
    state: KeyState
    address: str
    first_seen: float
    changed_at: float


@dataclass(frozen=True, slots=True)
class DiskUsage:
    """What a store takes on its disk, in bytes."""

    file: int
    log: int
    """Of the log beside the file."""
    free: int
    """Inside the file, for later rows."""
    left: int | None
    """On the file system of the store, for whoever writes there; None if the disk is that of another server."""


@dataclass(frozen=True, slots=True)
class JobNews:
    """States and returns of a job, read at one moment."""

    moved: list[TargetRow]
    """Targets that changed their state after the cursor, and are not RETURNED, sorted by id."""
    moves: int
    """The cursor after them."""
    ended: frozenset[TargetId]
    """Those of them that are terminal, unreadable ones too."""
    returns: list[Return]
    is_whole: bool
    """Whether these are all returns after the cursor."""


class StoreReader(Protocol):
    """Queries. Each sees the last committed state; inside `write()` all see one state."""

    def store_id(self) -> str:
        """32 hexadecimal digits, made when the store was created."""
        ...

    def key(self, fingerprint: Fingerprint) -> KeyRecord | None: ...

    def keys(self, states: frozenset[KeyState] = frozenset(KeyState)) -> list[KeyRecord]:
        """Keys in these states, sorted by id, then by first_seen."""
        ...

    def keys_of(self, name: str) -> list[KeyRecord]:
        """Keys whose id is `name` in any case, sorted by id, then by first_seen."""
        ...

    def holder(self, minion: MinionId, *, any_case: bool = False) -> KeyRecord | None:
        """The accepted key of that id, or of one that differs by case only: no two such keys are accepted."""
        ...

    def accepted_ids(self) -> list[MinionId]:
        """Ids of all accepted keys, sorted."""
        ...

    def accepted_set(self) -> frozenset[MinionId]:
        """The same ids, at no cost while they are as they were."""
        ...

    def count_keys(self, state: KeyState) -> int: ...

    def key_rows(self, state: KeyState | None = None) -> list[KeyRow]:
        """The keys in this state, or all, in no order."""
        ...

    def keys_among(self, fingerprints: Collection[Fingerprint]) -> list[KeyRecord]:
        """Those of these keys that there are, in no order."""
        ...

    def token(self, token_id: str) -> TokenRecord | None: ...

    def tokens(self) -> list[TokenRecord]:
        """All join tokens, oldest first."""
        ...

    def auth_token(self, token_id: str) -> AuthToken | None: ...

    def auth_tokens(self) -> list[AuthToken]:
        """All login tokens, oldest first."""
        ...

    def preaccepted(self, minion: MinionId) -> Fingerprint | None: ...

    def job(self, jid: Jid) -> Job | None: ...

    def reducible(self, limit: int) -> list[tuple[Jid, bytes]]:
        """Jobs of `mark_reducible` whose targets are all terminal, with their bodies."""
        ...

    def job_of_request(self, request_id: RequestId, uid: int) -> Jid | None:
        """The job of this client request (G2); request ids are separate per user."""
        ...

    def targets(self, jid: Jid) -> list[TargetRow]:
        """One row per target, sorted by id; empty for an unknown job."""
        ...

    def managing_minions(self, jid: Jid) -> dict[TargetId, MinionId]:
        """The resources of the job, with the minion that managed each when the job was made."""
        ...

    def part_targets(self, jid: Jid, minion: MinionId, number: int) -> list[TargetId]:
        """The targets of a part, sorted; empty for an unknown part."""
        ...

    def open_in_part(self, jid: Jid, minion: MinionId, number: int) -> list[TargetId]:
        """Those of `part_targets` that are not terminal."""
        ...

    def open_parts(self, jid: Jid) -> list[tuple[PartId, MinionId]]:
        """Parts with a target that is not terminal, and their minions, by minion and number."""
        ...

    def jobs(self, wanted: JobFilter, limit: int) -> list[JobSummary]:
        """The newest matching jobs, newest first; the last one's jid is the next cursor."""
        ...

    def job_summary(self, jid: Jid) -> JobSummary | None: ...

    def target_details(self, jid: Jid) -> list[TargetDetail]:
        """One row per target with its return, sorted by id; empty for an unknown job."""
        ...

    def without_return(self, jid: Jid, limit: int) -> tuple[int, list[TargetDetail]]:
        """How many targets of the job have no return and are not OK, and the first of them by id."""
        ...

    def equal_returns(self, jid: Jid, size: int) -> list[tuple[Return, list[TargetId]]] | None:
        """The returns of the job, those with the same state, code, reason and body together: one of them, and their
        targets, sorted. None if the bodies have more than `size` bytes."""
        ...

    def one_return(self, jid: Jid, target: TargetId) -> Return | None: ...

    def details_of(self, target: TargetId, jids: Sequence[Jid]) -> dict[Jid, TargetDetail]:
        """The row of one target in those of these jobs that it is a target of."""
        ...

    def cancelled(self, jids: Sequence[Jid]) -> set[Jid]:
        """Those of these jobs that an operator killed."""
        ...

    def open_targets(self, jid: Jid) -> int:
        """How many targets of the job are not terminal."""
        ...

    def news(self, jid: Jid, after: int, limit: int, size: int = RETURNS_SIZE, *, moves: int = 0) -> JobNews:
        """What a client is told of a job: returns as `returns` gives them, and the targets that changed their state
        after the cursor `moves` (0: since the job was made)."""
        ...

    def targets_in(self, jid: Jid, state: TargetState) -> list[TargetRow]:
        """The targets of the job that are in this state, sorted by id."""
        ...

    def returns(self, jid: Jid, after: int = 0, limit: int = 1000, size: int = RETURNS_SIZE) -> list[Return]:
        """Returns of a job with seq > after, in seq order: at most `limit`, until their bodies have `size` bytes."""
        ...

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        """Events with seq > after, in seq order, without bodies of returns."""
        ...

    def last_seq(self) -> int:
        """The highest sequence number so far, 0 for none: the cursor of a new reader."""
        ...

    def has_event(self, tags: Collection[str], after: int) -> bool:
        """Whether an event with one of these tags is behind this cursor."""
        ...

    def first_seq(self) -> int:
        """The lowest sequence number of a stored event; 0 without events."""
        ...

    def seq_before(self, at: float) -> int:
        """The cursor before the first event since that time; `last_seq()` without one."""
        ...

    def size(self) -> int:
        """Bytes in use, without free pages inside the store."""
        ...

    def open_counts(self) -> Mapping[TargetState, int]:
        """How many targets of all jobs are QUEUED, RECEIVED and RUNNING; states without any are absent."""
        ...

    def unsettled(self, minion: MinionId) -> list[tuple[PartId, TargetState]]:
        """Parts of that minion with QUEUED, RECEIVED or RUNNING targets, by jid and number, with the least advanced of
        these states. Reads no job."""
        ...

    def unsettled_of(self, minions: Collection[MinionId]) -> dict[MinionId, list[tuple[PartId, TargetState]]]:
        """The same for many minions: each of them has a list."""
        ...

    def open_jobs(self, minion: MinionId, parts: Sequence[PartId], size: int = OPEN_JOBS_SIZE) -> list[OpenJob]:
        """Those of these parts that are unsettled on that minion, by jid and number, until their bodies have `size`
        bytes."""
        ...

    def crowded(self, minions: Sequence[MinionId], most: int) -> list[MinionId]:
        """Those of these minions, in their order, with at least `most` parts with QUEUED targets."""
        ...

    def batches(self, among: Sequence[Jid] | None = None) -> list[BatchJob]:
        """Jobs with PLANNED targets, in jid order; with `among` only of these jobs."""
        ...

    def planned_of(self, minion: MinionId) -> list[PartId]:
        """Parts with PLANNED targets on that minion, by jid and number."""
        ...

    def standing(self, jid: Jid, queued_since: float, ended_since: float, now: float) -> Standing:
        """The progress of a batch. RECEIVED and RUNNING targets occupy a slot, QUEUED ones if queued after
        `queued_since`, ended ones if ended after `ended_since`.

        A time after `now` counts as long past, so that nothing waits after the clock was set back.
        """
        ...

    def planned_seen(self, jid: Jid) -> float:
        """When a session of a minion with a PLANNED target of the job last began or ended; 0.0 for never."""
        ...

    def next_planned(self, jid: Jid, limit: int) -> list[TargetId]:
        """The first PLANNED targets whose (managing) minion has a session, sorted by id."""
        ...

    def expire_due(self, now: float) -> bool:
        """Whether `expire(now)` would change anything; cheap, without a lock."""
        ...

    def prune_due(self, before: float) -> bool:
        """Whether `prune(before)` has anything left to delete; cheap, without a lock."""
        ...

    def functions(self, digest: str) -> FunctionSet | None: ...

    def function_names(self, prefix: str) -> dict[str, list[str]]:
        """Digest -> its functions whose names begin so, sorted, of the sets that have any; `prefix` is ASCII."""
        ...

    def function_digests(self, minions: Sequence[MinionId]) -> dict[str, tuple[int, MinionId]]:
        """By digest ("" for none): how many of these minions reported it last, and the first of them by id."""
        ...

    def minions_with_open_jobs(self) -> list[MinionId]:
        """Minions with QUEUED targets, including resources, sorted."""
        ...

    def minion(self, minion: MinionId) -> MinionRow | None: ...

    def minions(self, among: Collection[MinionId] | None = None) -> list[MinionRow]:
        """All minions, or those `among` these, with an accepted key that ever had a session, sorted by id."""
        ...

    def minion_values(self, column: MinionColumn) -> dict[MinionId, Any]:
        """One field of all these minions, by id, which is read in a quarter of the time."""
        ...


class StoreWriter(StoreReader, Protocol):
    """Changes inside one `write()` transaction."""

    batches_returned: set[Jid]
    """Jobs in batches of which `put_returns` has stored returns."""
    returned: list[tuple[int, Return]]
    """What `put_returns` has stored, with the sequence numbers; not in a store that gives these at the commit."""

    def put_key(self, record: KeyRecord) -> None:
        """Insert or replace the row of that fingerprint. A second accepted key for one id is a StoreError."""
        ...

    def delete_key(self, fingerprint: Fingerprint) -> None: ...

    def next_epoch(self) -> int:
        """The next number, 1, 2, 3 …, for a change of a key."""
        ...

    def put_token(self, token: TokenRecord) -> None: ...

    def use_token(self, token_id: str) -> bool:
        """Consume one use atomically; False if none is left (R7)."""
        ...

    def delete_token(self, token_id: str) -> bool: ...

    def put_auth_token(self, token: AuthToken, most: int) -> None:
        """Insert a token, and delete the oldest ones of its user above `most`."""
        ...

    def delete_auth_token(self, token_id: str) -> bool: ...

    def expire_auth_tokens(self, now: float) -> None:
        """Delete the tokens that expired by then."""
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
        """Have `reducible` return this job when it has ended; None marks all jobs."""
        ...

    def put_reduced(self, rows: Iterable[tuple[Jid, bytes]]) -> None:
        """Replace the bodies of these ended jobs, and remove their signatures and marks. Old contents are overwritten
        in the file; its log keeps them until `Store.empty_log`."""
        ...

    def jid_taken(self, jid: Jid) -> bool: ...

    def set_targets(self, rows: Iterable[tuple[Jid, TargetRow]]) -> list[tuple[Jid, TargetId]]:
        """Move targets forward by the rules of saltlite.master.store.ports; those that moved. Unknown ones
        are skipped.
        """
        ...

    def set_parts(self, rows: Iterable[PartRow]) -> list[tuple[Jid, TargetId]]:
        """Move every target of these parts like `set_targets`; those that moved, sorted within their part. Unknown
        parts, and parts of other minions, are skipped."""
        ...

    def put_returns(self, commits: Sequence[ReturnCommit], now: float) -> list[Stored]:
        """Store returns (at most one per jid and target, G7), move their targets, add their events.

        A return is UNASSIGNED if its key is not accepted, or its target was not assigned to that key's minion (G8, S5).
        """
        ...

    def cancel_job(self, jid: Jid, by: str, now: float) -> list[TargetId]:
        """Note who killed the job and when (the first time counts). Marks as CANCELLED each PLANNED target, and each
        QUEUED one that by the rule of `expire` was never delivered; those ids, sorted."""
        ...

    def put_event(self, tag: str, data: Mapping[str, Any], now: float) -> int: ...

    def claim(self, rows: Sequence[MinionRow]) -> dict[MinionId, MinionRow | None]:
        """Sessions began. Insert or replace the rows of these ids, as `up`, except those that are outdated
        (`is_outdated`); of each that was stored, what was there before.

        `last_seen` never goes back, and is never before the time at which a target of that minion was QUEUED: this
        session may have got the job, so `expire` must not count it as undelivered, even if the clock was set back."""
        ...

    def release(self, master: str, ends: Mapping[MinionId, str], now: float) -> None:
        """The sessions of these minions with that master ended, and why (`MinionRow.end_reason`). A row that another
        master has claimed does not change. `last_seen` as for `claim`."""
        ...

    def fence(self, master: str, end: str, now: float, keep: Collection[MinionId] = ()) -> list[MinionId]:
        """All sessions with that master ended, except those of `keep`; their minions, sorted. As `release`."""
        ...

    def refused(self, minion: MinionId, key: Fingerprint, end: str) -> None:
        """A minion whose last session with this key has ended came again and was refused: `end` says why from now on,
        in the first case of an absence. Its own key had proved it, so that no other machine can say this of it."""
        ...

    def set_functions(self, minion: MinionId, digest: str) -> None:
        """The digest of the functions that a minion reported in its session; nothing for one that never had any."""
        ...

    def put_functions(self, functions: FunctionSet) -> None:
        """Store a function set; `prune` deletes sets that no minion has."""
        ...

    def expire(self, now: float) -> list[tuple[Jid, TargetId]]:
        """Mark as EXPIRED each QUEUED target whose delivery time is over and whose (managing) minion had no session
        since the job was committed (no row, or not `up` and last_seen < created_at): only then was it certainly
        never delivered. The minions settle the others."""
        ...

    def prune(self, before: float, most: int = PRUNE_MOST) -> int:
        """Delete jobs created before that time whose targets are all terminal, with their returns, and older events;
        the number of jobs. Sequence numbers are never reused.

        Deletes the oldest, up to `most` targets, returns and KiB of returns, and as many events, because writers wait:
        call it again in another transaction while `prune_due`. A job that has more goes in several calls.
        """
        ...

    def prune_oldest(self, count: int, most: int = PRUNE_MOST) -> int:
        """Delete the oldest jobs whose targets are all terminal, `count` at most, like `prune`, and older events; the
        number of jobs."""
        ...

    def prune_events(self, count: int) -> int:
        """Delete the oldest `count` events; the number of events deleted."""
        ...


class Store(StoreReader, Protocol):
    """The master's store. An instance belongs to one process; open it after the fork."""

    def write(self, *, appends_only: bool = False) -> AbstractContextManager[StoreWriter]:
        """One transaction: committed and synced when the block ends, rolled back when it raises.

        `appends_only`: of all changes it makes only `put_returns`, `put_event`, `mark_reducible` of one job, and
        `put_job` of a job that is not in batches, and reads nothing of them again. A store may run several of these at
        the same time, and number their events at the end: `put_job` and `put_event` may then return 0. After
        `job_of_request` found none, `jid_taken` may be False for an id that is taken. Raises StoreConflictError if the
        id or request of a job turns out to be stored already, at the commit: do it again without `appends_only`.

        Raises StoreError when it cannot be committed; then nothing of it was kept, unless the store was lost during the
        commit: a writer whose work may come again finds out (G2, G7).
        """
        ...

    def is_full(self, limit: int) -> bool:
        """Whether `size()` has reached `limit`; cheap while it has not."""
        ...

    def disk_usage(self) -> DiskUsage: ...

    def empty_log(self) -> bool:
        """Overwrite former contents in a log beside the file; False if a reader prevented it: try again later."""
        ...

    def close(self) -> None: ...


# -- The rules that every store follows: parts of a job, states of targets, and the events that it adds
#
# A job or a return is never committed without its event, so the store makes events, not its callers. A state never goes
# back, a terminal state never changes, and silence changes nothing: a row takes a new state when its rank is higher and
# its own is not terminal. A running target cannot end as if it had never run there. A minion that says so does not know
# the job, because its disk was restored or another machine has its key, and the job is LOST.


EXPIRED_REASON = "it had no session before the delivery time of the job was over"


def expired_reason(end: str | None) -> str:
    """The reason of an expired target, with why its minion was not connected if that is known. `end` is that of the
    minion's last session (`MinionRow.end_reason`), None if it never had one."""
    why = ABSENCES["never"] if end is None else absence(end)
    return EXPIRED_REASON if why == ABSENCES["away"] else f"{EXPIRED_REASON}: {why}"


UNREADABLE_TAG = "salt/unreadable"
"""The tag of an event whose tag is unreadable."""
AT_MAX = 253_402_300_799.0
"""The last second of the year 9999; later ones have no date."""


def cancelled_reason(by: str) -> str:
    """The reason of a target that was CANCELLED before its delivery."""
    return f"cancelled by {by} before it was handed over"


def runs_like(fun: str, glob: str) -> bool:
    """Whether a function of a job (names joined by commas) matches the shell-style glob."""
    return any(fnmatchcase(name, glob) for name in fun.split(","))


def job_event(job: Job) -> tuple[str, dict[str, Any]]:
    """Tag and data of the event of a new job, with the number of its targets."""
    data = {
        "jid": job.jid,
        "fun": job.fun,
        "user": job.user,
        "tgt": job.target.expression,
        "tgt_type": str(job.target.kind),
        "targets": len(job.minions) + sum(map(len, job.resources.values())),
    }
    if job.origin:
        data["origin"] = job.origin
    return tag_job_new(job.jid), data


def return_event(ret: Return, minion: MinionId) -> tuple[str, dict[str, Any]]:
    """Tag and data of the event of a return from `minion`, without its body, which may have 16 MiB."""
    data = {"jid": ret.jid, "id": ret.id, "retcode": ret.retcode, "state": str(ret.state)}
    if ret.id != minion:
        srn = parse_srn(ret.id)
        data |= {"minion": minion, "resource_type": srn.type, "resource_id": srn.id}
    return tag_job_return(ret.jid, ret.id), data


def pack_data(data: Mapping[str, Any]) -> bytes:
    """Event data as msgpack that `event_in` can read. Raises UsageError if they are not plain values."""
    try:
        return codec.encode_checked(dict(data), codec.STORED)
    except LocalProtocolError as error:
        raise UsageError(f"the data of an event cannot be stored: {error}; give plain values") from error


def pack_own(data: Mapping[str, Any]) -> bytes:
    """Data of an event of this module. Raises StoreError.

    Not checked like `pack_data`, because ten thousand minions may return at once.
    """
    try:
        return codec.encode(data, codec.STORED)
    except LocalProtocolError as error:
        raise StoreError(f"the data of an event cannot be stored ({error}); give plain values") from error


def event_in(tag: object, packed: object, at: object, seq: int) -> Event:
    """The event of a row, even a damaged one."""
    damage = "" if isinstance(tag, str) else "its tag is not text"
    data: Any = {}
    if not isinstance(at, int | float) or not 0 <= at <= AT_MAX:
        damage, at = "its time is not a number", 0.0
    try:
        data = codec.decode(packed, codec.STORED) if isinstance(packed, bytes) else None
        damage = damage or ("" if isinstance(data, dict) else "its data is not a map")
    except RemoteProtocolError as error:
        damage = str(error)
    if not damage:
        return Event(str(tag), data, at, seq)
    return Event(tag if isinstance(tag, str) else UNREADABLE_TAG, {}, at, seq, damage)


def first_state(job: Job) -> TargetState:
    """The first state of the targets of a job."""
    return TargetState.QUEUED if job.batch is None else TargetState.PLANNED


def most_in_part(*, batch: bool) -> int:
    """The most resources in a part of a job: in a batch each has its own part."""
    return 1 if batch else PART_RESOURCES


def parts_of(job: Job) -> Iterator[tuple[MinionId, int, tuple[TargetId, ...]]]:
    """All parts of a job: minion, number, targets."""
    for minion in job.minions:
        yield minion, 0, (minion,)
    most = most_in_part(batch=job.batch is not None)
    for minion, srns in job.resources.items():
        for number, part in resource_parts(srns, most):
            yield minion, number, part


def check_job(job: Job) -> None:
    """Raises StoreError if a target is listed twice, the resources of a minion are not sorted, which their parts depend
    on, or there are too many parts."""
    lists = (job.minions, *job.resources.values())
    if len(set().union(*lists)) != sum(map(len, lists)):
        raise StoreError(f"job {job.jid} lists a target twice; nothing was stored")
    if any(list(srns) != sorted(srns) for srns in job.resources.values()):
        raise StoreError(f"job {job.jid} lists the resources of a minion out of order; nothing was stored")
    if any(len(srns) >= NUMBER_MAX for srns in job.resources.values()):
        raise StoreError(f"job {job.jid} is for more resources of one minion than a job can have; nothing was stored")


TERMINAL_RANK = 9

RANK: dict[TargetState, int] = {
    TargetState.PLANNED: -1,
    TargetState.QUEUED: 0,
    TargetState.RECEIVED: 1,
    TargetState.RUNNING: 2,
    **dict.fromkeys(TERMINAL, TERMINAL_RANK),
}

NEVER_RAN = frozenset({TargetState.REFUSED, TargetState.EXPIRED, TargetState.CANCELLED})
"""Terminal states of a job whose function never ran. One that was killed while it ran has a return."""

Row = TypeVar("Row", TargetRow, PartRow)


def effective_state(current: TargetState, reported: Row) -> Row:
    """The effective report of a minion about a target in state `current`."""
    if current is TargetState.RUNNING and reported.state in NEVER_RAN:
        reason = f"the minion ran it and does not know it any more ({reported.reason})"
        return replace(reported, state=TargetState.LOST, reason=reason)
    return reported


def advance(current: TargetState, reported: TargetState) -> TargetState:
    """The state after `reported`: the more advanced one, or the first terminal one."""
    return reported if RANK[reported] > RANK[current] else current
