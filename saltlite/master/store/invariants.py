"""The rules that every store implementation follows: parts of a job, states of targets, and the events that it adds.

A job or a return is never committed without its event, so the store makes events, not its callers. A state never goes
back, a terminal state never changes, and silence changes nothing: a row takes a new state when its rank is higher and
its own is not terminal. A running target cannot end as if it had never run there. A minion that says so does not know
the job, because its disk was restored or another machine has its key, and the job is LOST.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from saltlite.errors import LocalProtocolError, RemoteProtocolError, StoreError, UsageError
from saltlite.master.store.ports import PartRow, TargetRow
from saltlite.model.events import Event, tag_job_new, tag_job_return
from saltlite.model.ids import MinionId, TargetId, parse_srn
from saltlite.model.job import NUMBER_MAX, PART_RESOURCES, TERMINAL, Job, Return, TargetState, resource_parts
from saltlite.wire import codec

EXPIRED_REASON = "it had no session before the delivery time of the job was over"


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
    damage = "" if isinstance(tag, str) else "its tag is no text"
    data: Any = {}
    if not isinstance(at, int | float) or not 0 <= at <= AT_MAX:
        damage, at = "its time is none", 0.0
    try:
        data = codec.decode(packed, codec.STORED) if isinstance(packed, bytes) else None
        damage = damage or ("" if isinstance(data, dict) else "its data is no map")
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
