"""What minions report of jobs: states and results of parts, and the functions that they have.

A part ends with one return of the minion, or with segments of its resources' results and the state of those that did
not answer. One transaction stores a batch of reports. Results for resources that the minion was not assigned are
rejected and reported to operators (G8).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

from saltlite.errors import RemoteProtocolError, StoreConflictError, StoreError
from saltlite.master.handlers.documents import handle_digests
from saltlite.master.processes.context import Master, Refused
from saltlite.master.store.ports import FunctionSet, PartRow, ReturnCommit, Stored, StoreReader, StoreWriter
from saltlite.model.dataclass import dataclass
from saltlite.model.events import tag_resource_refused
from saltlite.model.ids import Jid, MinionId, PartId, TargetId
from saltlite.model.job import (
    Return,
    TargetState,
    is_resource_part,
    is_segment_id,
    part_id,
    part_of_segment,
    split_part,
)
from saltlite.model.keys import Fingerprint
from saltlite.model.signature import by_name
from saltlite.platform.logs import log_context
from saltlite.wire.messages import SegmentRow, decode_segment

log = logging.getLogger(__name__)


class Results:
    """The results of one batch of reports; `store` says which resources a part is for."""

    def __init__(self, store: StoreReader, now: float) -> None:
        self._store = store
        self._now = now
        self._parts: dict[tuple[Jid, MinionId, int], frozenset[TargetId]] = {}
        self._commits: list[ReturnCommit] = []
        self._endings: list[tuple[int, ReturnCommit]] = []
        self._unanswered: dict[tuple[Jid, MinionId, int], set[TargetId]] = {}
        """Of parts with segments in this batch: their targets without a result in it."""
        self._refused: dict[tuple[MinionId, Jid], Refused] = {}
        self._acknowledge: dict[Fingerprint, list[str]] = {}

        self.rejected = 0
        """Results that `put` did not store, because they were not assigned to their minion."""
        self.to_report: list[tuple[MinionId, Refused]] = []
        """Those of them that are about resources and a job that exists."""

    def __bool__(self) -> bool:
        """Whether there is anything to store."""
        return bool(self._acknowledge)

    @property
    def acknowledge(self) -> list[tuple[str, list[str]]]:
        """(fingerprint, ids) to acknowledge after the commit: all results, so that minions forget rejected ones too."""
        return list(self._acknowledge.items())

    def add(self, minion: MinionId, key: Fingerprint, message: dict[str, Any], body: bytes) -> None:
        """One `ret` message with its body."""
        result = message["jid"]
        self._acknowledge.setdefault(key, []).append(result)
        jid, number = split_part(part_of_segment(result))
        if is_segment_id(result):
            self._add_segment(minion, key, (jid, number), body)
        elif number == 0:
            self._commits.append(ReturnCommit(key, _return(minion, message, jid, body)))
        elif message["state"] == TargetState.RETURNED:
            self._refuse(minion, jid, "a part for resources returned as a whole")
        else:
            # Without a body, which would be stored once for each resource.
            self._endings.append((number, ReturnCommit(key, _return(minion, message, jid, b""))))

    def put(self, store: StoreWriter) -> set[Jid]:
        """Store the results; returns the jobs in which something changed."""
        moved = self._put(store, self._commits)
        moved.update(jid for jid, _target in store.set_parts(self._running()))
        for number, ending in self._endings:
            # Read after the returns are stored: an ending holds for targets without one.
            unanswered = store.open_in_part(ending.ret.jid, MinionId(ending.ret.id), number)
            moved |= self._put(store, [replace(ending, ret=ending.ret._replace(id=srn)) for srn in unanswered])
        for (minion, jid), refused in self._refused.items():
            self.rejected += refused.count
            # A minion can invent jobs.
            if store.jid_taken(jid):
                self.to_report.append((minion, refused))
        return moved

    def _put(self, store: StoreWriter, commits: list[ReturnCommit]) -> set[Jid]:
        # A known or unassigned result wakes no client: a minion could send it a thousand times a second.
        became = store.put_returns(commits, self._now)
        self.rejected += became.count(Stored.UNASSIGNED)
        return {commit.ret.jid for commit, stored in zip(commits, became, strict=True) if stored is Stored.NEW}

    def _running(self) -> list[PartRow]:
        """Parts that have started, since some of their resources answered: the others must not be started again if the
        minion comes back with another disk."""
        return [
            PartRow(part_id(jid, number), minion, TargetState.RUNNING, "", self._now)
            for (jid, minion, number), unanswered in self._unanswered.items()
            if unanswered
        ]

    def _add_segment(self, minion: MinionId, key: Fingerprint, part: tuple[Jid, int], body: bytes) -> None:
        jid, number = part
        try:
            rows = decode_segment(body)
        except RemoteProtocolError as error:
            self._refuse(minion, jid, f"a segment could not be read: {error}")
            return
        mine = self._targets_of(jid, minion, number)
        unanswered = self._unanswered.setdefault((jid, minion, number), set(mine))
        for row in rows:
            if row.srn not in mine:
                self._refuse(minion, jid, "it was not given the job for this resource", row.srn)
            else:
                unanswered.discard(row.srn)
                self._commits.append(ReturnCommit(key, _return_of_row(row, jid)))

    def _targets_of(self, jid: Jid, minion: MinionId, number: int) -> frozenset[TargetId]:
        key = jid, minion, number
        if key not in self._parts:
            self._parts[key] = frozenset(self._store.part_targets(jid, minion, number))
        return self._parts[key]

    def _refuse(self, minion: MinionId, jid: Jid, reason: str, srn: TargetId = "") -> None:
        refused = self._refused.setdefault((minion, jid), Refused(jid, reason))
        refused.add(1, [srn] if srn else [])


def _return(minion: MinionId, message: dict[str, Any], jid: Jid, body: bytes) -> Return:
    return Return(
        jid=jid,
        id=minion,
        state=TargetState(message["state"]),
        retcode=message["code"],
        body=body,
        started_at=message["start_ms"] / 1000,
        duration_ms=message["dur_ms"],
        reason=message["reason"],
    )


def _return_of_row(row: SegmentRow, jid: Jid) -> Return:
    return Return(
        jid=jid,
        id=row.srn,
        state=row.state,
        retcode=row.retcode,
        body=row.body,
        started_at=row.start_ms / 1000,
        duration_ms=row.dur_ms,
        reason=row.reason,
    )


def report_rejected(master: Master) -> bool:
    """Write an event and a log line for each minion whose rejected results are due; whether there was one. Raises
    StoreError, and then a later call writes them."""
    now = master.clock.monotonic()
    due = master.rejected_results.due(now)
    if not due:
        return False
    with master.store.write() as store:
        for minion, refused in due:
            store.put_event(tag_resource_refused(minion), refused.event(minion), master.clock.wall())
    for minion, refused in due:
        with log_context(id=minion, jid=refused.jid):
            log.warning(
                "%d results of %s were rejected, the first for job %s: %s %s",
                refused.count,
                minion,
                refused.jid,
                refused.reason,
                ", ".join(refused.srns),
            )
        master.rejected_results.reported(minion, now)
    return True


TRANSIENT_STATES = frozenset({TargetState.RECEIVED, TargetState.RUNNING})
"""States that are stored after a moment: most are overtaken by their return."""


@dataclass(frozen=True, slots=True)
class Reported:
    """One row of the link's `reports` message: the session's identity, the message, and the body of a return."""

    id: MinionId
    fingerprint: Fingerprint
    message: dict[str, Any]
    body: bytes | None


@dataclass(slots=True)
class TransientStates:
    """Reported states that are not stored yet, by part and minion."""

    rows: dict[tuple[PartId, MinionId], PartRow] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settled:
    """What was stored of a batch: (fingerprint, results) to acknowledge, and the jobs in which something changed."""

    acknowledge: list[tuple[str, list[str]]]
    moved: frozenset[Jid]
    returned: Sequence[tuple[int, Return]] = ()
    """Returns with their sequence numbers, if these are known."""
    batches: frozenset[Jid] = frozenset()
    """Those of these jobs that may be in batches, which go on now."""
    rejected: int = 0
    """Results that were not stored, because they were not assigned to their minion (G8)."""


def store_reports(master: Master, reported: Sequence[Reported], transient: TransientStates) -> Settled:
    """Store a batch; states in TRANSIENT_STATES are only added to `transient`.

    A return that was never assigned to its minion (G8) is acknowledged too, so that the minion forgets it. Raises
    StoreError, and then nothing of the batch was stored.
    """
    try:
        return _stored(master, reported, transient)
    except StoreConflictError:
        # A minion has moved, and another master has just stored one of these returns: now it is found.
        return _stored(master, reported, transient)


def _stored(master: Master, reported: Sequence[Reported], transient: TransientStates) -> Settled:
    batch = ReportWrite(master, reported, transient)
    if batch.writes:
        with master.store.write(appends_only=has_only_returns(reported)) as store:
            batch.store(store)
    return batch.settled()


def has_only_returns(reported: Sequence[Reported]) -> bool:
    """Whether all that is stored of these reports are returns of minions for themselves: no parts of resources, no
    other ends of jobs, no functions."""
    return all(_is_stored_as_return(item.message) for item in reported)


def _is_stored_as_return(message: dict[str, Any]) -> bool:
    match message["t"]:
        case "return":
            return not is_segment_id(message["jid"]) and not is_resource_part(message["jid"])
        case "job_state":
            return message["state"] in TRANSIENT_STATES
        case kind:
            return bool(kind == "digest")


class ReportWrite:
    """The reports of one batch, which one transaction stores: the caller's, as it may be that of other work, too."""

    def __init__(self, master: Master, reported: Sequence[Reported], transient: TransientStates) -> None:
        """As `store_reports`."""
        now = master.clock.wall()
        self._master = master
        self._results = Results(master.store, now)
        self._final: list[PartRow] = []
        self._functions: dict[MinionId, FunctionSet] = {}
        self._announced: dict[MinionId, dict[str, Any]] = {}
        self._moved: set[Jid] = set()
        self._returned: Sequence[tuple[int, Return]] = ()
        self._batches: set[Jid] = set()
        for item in reported:
            message = item.message
            match message["t"]:
                case "return":
                    # The state of a segment's part stays: other resources of it still run.
                    transient.rows.pop((message["jid"], item.id), None)
                    self._results.add(item.id, item.fingerprint, message, item.body or b"")
                case "digest":
                    self._announced[item.id] = message
                case "functions":
                    known = FunctionSet(message["digest"], by_name(message["functions"]), message["whole"])
                    self._functions[item.id] = known
                case "job_state":
                    state = TargetState(message["state"])
                    self._final += _noted(transient, PartRow(message["jid"], item.id, state, message["reason"], now))

    @property
    def writes(self) -> bool:
        """Whether there is anything to store."""
        return bool(self._results or self._final or self._functions)

    def store(self, store: StoreWriter) -> None:
        """Store the batch in a transaction, once."""
        before = len(store.returned)
        self._moved = self._results.put(store)
        self._returned = store.returned[before:]
        ended = {jid for jid, _target in store.set_parts(self._final)}
        self._moved |= ended
        self._batches = store.batches_returned | ended
        for minion, known in self._functions.items():
            _put_functions(store, minion, known)

    def settled(self) -> Settled:
        """What the batch has changed, after the commit."""
        master = self._master
        for minion, refused in self._results.to_report:
            master.rejected_results.add(minion, refused)
        _afterwards(partial(report_rejected, master), "rejected results cannot be reported for now")
        for minion, digests in self._announced.items():
            compare = partial(handle_digests, master, minion, digests)
            _afterwards(compare, f"the digests of {minion} cannot be compared for now")
        moved, batches = frozenset(self._moved), frozenset(self._batches)
        return Settled(self._results.acknowledge, moved, self._returned, batches, self._results.rejected)


def _afterwards(work: Callable[[], object], failure: str) -> None:
    """Work after a commit. It may fail without effect on the commit: minions do not send these results again."""
    try:
        work()
    except StoreError as error:
        log.error("%s: %s", failure, error)  # noqa: TRY400 - the sentence says it all


def _noted(transient: TransientStates, row: PartRow) -> list[PartRow]:
    """Add a state that may wait to `transient`; return any other."""
    if row.state in TRANSIENT_STATES:
        transient.rows[row.part, row.minion] = row
        return []
    transient.rows.pop((row.part, row.minion), None)
    return [row]


def store_transient_states(master: Master, transient: TransientStates) -> frozenset[Jid]:
    """Store the states that no return has overtaken; the jobs in which a target changed its state.

    A minion that starts a job which was ended is asked again to end it: the cancel may have overtaken the job.
    """
    rows, transient.rows = transient.rows, {}
    if not rows:
        return frozenset()
    with master.store.write() as store:
        moved = frozenset(jid for jid, _target in store.set_parts(rows.values()))
        cancelled = store.cancelled(sorted(moved))
    if cancelled:
        master.link.cancel([(row.minion, row.part) for row in rows.values() if split_part(row.part)[0] in cancelled])
    return moved


def _put_functions(store: StoreWriter, minion: MinionId, known: FunctionSet) -> None:
    """Store the set, and that this minion has it: modules may change during a session."""
    store.put_functions(known)
    row = store.minion(minion)
    if row is not None and row.functions != known.digest:
        store.set_functions(minion, known.digest)
