"""How records stand in rows of a database, and what is made of rows again.

An unreadable row (damaged on disk, or written by a version that stored something else) affects only itself: a query for
it raises DamagedError, and a query for many rows skips it and logs it once per process.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import Any, TypeVar

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import DamagedError
from saltlite.master.store.ports import RANK, MinionRow, OpenJob, TargetRow, TokenRecord, most_in_part
from saltlite.model.ids import MinionId, TargetId
from saltlite.model.job import (
    TERMINAL,
    Batch,
    Job,
    JobSummary,
    Return,
    Target,
    TargetDetail,
    TargetKind,
    TargetOutcome,
    TargetState,
    part_id,
    resource_parts,
)
from saltlite.model.keys import AuthToken, KeyRecord, KeyState
from saltlite.wire.framing import PACK_BYTES

log = logging.getLogger(__name__)

NAMED_MAX = 1000
"""Damaged rows that a process logs at most."""

_ERRORS = (ValueError, TypeError, KeyError, AttributeError, OverflowError, msgpack.UnpackException)
_Made = TypeVar("_Made")
_named: dict[str, None] = {}


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Wraps the conversion of one row. Raises DamagedError with its name if its values are invalid."""
    try:
        yield
    except _ERRORS as error:
        raise DamagedError(
            f"{what} in the store cannot be read ({type(error).__name__}: {error}): it is damaged, or "
            "another version wrote it"
        ) from error


def readable(rows: Iterable[Any], make: Callable[[Any], _Made], name: Callable[[Any], str]) -> list[_Made]:
    """The converted rows, without unreadable ones, which are logged by `name`."""
    rows = list(rows)
    with suppress(DamagedError, *_ERRORS):
        # All at once takes half the time; after an error each is tried alone.
        return [make(row) for row in rows]
    found = []
    for row in rows:
        try:
            with reading(name(row)):
                found.append(make(row))
        except DamagedError as error:
            log_skipped(error)
    return found


def log_skipped(error: DamagedError) -> None:
    """Log a skipped row, once per process."""
    text = str(error)
    if text not in _named and len(_named) < NAMED_MAX:
        _named[text] = None
        log.error("%s; it is skipped", text)


def columns(record: type, *without: str) -> tuple[str, ...]:
    """The fields of a dataclass, except those `without`: its table has a column of each name."""
    return tuple(field.name for field in fields(record) if field.name not in without)


def row_of(record: object, names: Sequence[str]) -> tuple[Any, ...]:
    """The values of these fields."""
    return tuple(getattr(record, name) for name in names)


OUTCOME_CODE = {TargetOutcome.OPEN: 0, TargetOutcome.OK: 1, TargetOutcome.MISSING: 2, TargetOutcome.FAILED: 3}
"""How an outcome is stored. What is above 1 is in an index of its own, and is rare."""

STATE_OF_RANK = {rank: state for state, rank in RANK.items() if state not in TERMINAL}
"""What is not terminal has a rank of its own, so that an index with the rank answers for the state."""

TARGET_STATES = {str(state): state for state in TargetState}
OUTCOME_OF_CODE = {code: outcome for outcome, code in OUTCOME_CODE.items()}


SUMMARY_COLUMNS = columns(JobSummary, "target", "counts", "outcomes")


def detail_of(row: Any) -> TargetDetail:
    target, state, reason, changed_at, outcome, retcode, started_at, duration_ms = row
    return TargetDetail(
        id=target,
        state=TargetState(state),
        reason=reason,
        changed_at=changed_at,
        outcome=OUTCOME_OF_CODE[outcome],
        retcode=retcode,
        started_at=started_at,
        duration_ms=duration_ms,
    )


def summary_of(row: Any, counts: dict[TargetState, int], outcomes: dict[TargetOutcome, int]) -> JobSummary:
    *plain, tgt, kind = row
    named = dict(zip(SUMMARY_COLUMNS, plain, strict=True))
    return JobSummary(**named, target=Target(tgt, TargetKind(kind)), counts=counts, outcomes=outcomes)


# -- target lists as they are stored with a job, and a cache of decoded ones: a fleet that reconnects asks for the open
# jobs of ten thousand minions, and each answer carries the same lists

AUDIENCES_KEPT = 32
"""Decoded target lists that a reader remembers: one of 10,000 ids takes about 1 MB and 0.5 ms to decode."""

Packed = tuple[bytes, bytes]
"""The two columns of a job that hold its targets: minions, and resources by their minion."""


def pack_targets(minions: tuple[MinionId, ...], resources: Mapping[MinionId, tuple[TargetId, ...]]) -> Packed:
    """Target lists as they are stored."""
    return msgpack.packb(minions, buf_size=PACK_BYTES), msgpack.packb(dict(resources), buf_size=PACK_BYTES)


class Audience:
    """The decoded target lists of one job."""

    def __init__(self, packed: Packed) -> None:
        self.minions: tuple[MinionId, ...] = msgpack.unpackb(packed[0], use_list=False)
        self.resources: Mapping[MinionId, tuple[TargetId, ...]] = msgpack.unpackb(packed[1], use_list=False)
        if not isinstance(self.minions, tuple) or not isinstance(self.resources, dict):
            raise TypeError("its list of targets is not a list")
        self._parts: dict[MinionId, dict[int, tuple[TargetId, ...]]] = {}

    def part(self, minion: MinionId, number: int, most: int) -> tuple[TargetId, ...]:
        """The resources of that part, of which each of this job has `most` at most; () for a minion's own."""
        if not number:
            return ()
        if minion not in self._parts:
            self._parts[minion] = dict(resource_parts(self.resources[minion], most))
        return self._parts[minion][number]


class Audiences:
    """Decoded target lists by the seq of their job, the longest unused one forgotten first.

    By seq, not by jid: a seq is never given out again, so an entry cannot go stale.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Audience] = OrderedDict()

    def get(self, seq: int, load: Callable[[int], Packed | None]) -> Audience | None:
        """The lists of a job, from `load` if they are not kept; None when `load` knows no such job."""
        known = self._kept.pop(seq, None)
        if known is None:
            packed = load(seq)
            if packed is None:
                return None
            known = Audience(packed)
            if len(self._kept) >= AUDIENCES_KEPT:
                self._kept.popitem(last=False)
        self._kept[seq] = known
        return known


def open_job_of(
    minion: MinionId, number: int, unsettled: tuple[int, float], audience: Audience, row: tuple[Any, ...]
) -> OpenJob:
    jid, _seq, body, signature, made_at, deliver_ms, in_batch = row
    state, changed_at = STATE_OF_RANK[unsettled[0]], unsettled[1]
    return OpenJob(
        jid=jid,
        part=part_id(jid, number),
        body=body,
        signature=signature,
        created_at=changed_at if state is TargetState.QUEUED else made_at,
        deliver_ms=deliver_ms,
        minions=audience.minions,
        resources=audience.resources,
        resources_here=audience.part(minion, number, most_in_part(batch=bool(in_batch))),
        state=state,
    )


LOGIN_COLUMNS = columns(AuthToken)


def auth_token_of(row: Sequence[Any]) -> AuthToken:
    named = dict(zip(LOGIN_COLUMNS, row, strict=True))
    return AuthToken(**{**named, "groups": tuple(json.loads(named["groups"]))})


KEY_COLUMNS = columns(KeyRecord)
TOKEN_COLUMNS = columns(TokenRecord)
JOB_COLUMNS = columns(Job, "target", "minions", "resources", "batch")
MORE_JOB_COLUMNS = ("tgt", "tgt_type", "batch_size", "batch_wait_ms", "batch_failhard", "minions", "resources")
MINION_COLUMNS = columns(MinionRow)

UNREADABLE_RETURN = "what it returned is damaged in the master's store"
"""The reason of a return whose row cannot be read."""


def target_of(row: tuple[Any, ...]) -> TargetRow:
    target, state, reason, at = row
    return TargetRow(target, TargetState(state), reason, at)


def moved_target_of(row: tuple[Any, ...]) -> TargetRow:
    _jid, target, state, _rank, _body, at, _moved, reason, _seq = row
    return TargetRow(target, TargetState(state), reason, at)


def return_of(row: tuple[Any, ...]) -> Return:
    """A return, whatever its columns hold: readers go by its seq, so it has to come, and says what it lacks."""
    jid, target, name, retcode, body, started_at, duration_ms, reason, seq = row
    state = TARGET_STATES.get(name)
    fits = type(retcode) is int and type(body) is bytes and type(reason) is str
    if fits and state is not None and type(started_at) is float and type(duration_ms) is int:
        return Return(jid, target, state, retcode, body, started_at, duration_ms, reason, seq)
    log_skipped(DamagedError(f"the return of {target} in job {jid} (seq {seq}) cannot be read: it is damaged"))
    return Return(jid, str(target), TargetState.INTERRUPTED, 1, b"", 0.0, 0, UNREADABLE_RETURN, seq)


def key_of(row: tuple[Any, ...]) -> KeyRecord:
    minion, fingerprint, public, state, *rest = row
    return KeyRecord(minion, fingerprint, public, KeyState(state), *rest)


def minion_of(row: Any) -> MinionRow:
    minion, fingerprint, address, version, boot_id, incarnation, functions, up, *rest = row
    # The reason of a session that ended in an older format is NULL.
    rest[-1] = rest[-1] or ""
    return MinionRow(minion, fingerprint, address, version, boot_id, incarnation, functions, bool(up), *rest)


def job_of(row: tuple[Any, ...]) -> Job:
    *plain, tgt, kind, size, wait_ms, failhard, minions, resources = row
    named = dict(zip(JOB_COLUMNS, plain, strict=True))
    audience = Audience((minions, resources))
    return Job(
        **named,
        target=Target(tgt, TargetKind(kind)),
        minions=audience.minions,
        resources=audience.resources,
        batch=Batch(size, wait_ms, bool(failhard)) if size is not None else None,
    )
