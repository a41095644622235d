"""Jobs, past and present: lists, one job in full, its stream of returns, and its end by a user.

A stream delivers every return once, in the order of the store's sequence numbers (G7, G9). A kill is stored, so a
minion that is away learns of it when it reconnects.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from saltlite.auth.acl import KILL_OF_OTHERS, RUNNER, Principal, may, sees_jobs_of_others
from saltlite.errors import DamagedError, ProtocolError, RefusedError, SaltliteError, UsageError
from saltlite.master.handlers.delivery import CANCELS_MAX
from saltlite.master.handlers.targets import absences, target_fields
from saltlite.master.processes.context import Answer, Follow, Master
from saltlite.master.store.ports import TargetRow
from saltlite.model.events import tag_job_kill
from saltlite.model.ids import (
    Jid,
    MinionId,
    PartId,
    TargetId,
    check_resource_id,
    check_resource_type,
    parse_jid,
    parse_minion_id,
    resource_index_srn_key,
)
from saltlite.model.job import TERMINAL, Job, JobFilter, JobSummary, Return, TargetDetail, TargetOutcome, TargetState
from saltlite.model.plain import labels
from saltlite.model.redaction import without_secrets
from saltlite.wire.job_body import JobRecord, decode_record, holds_secrets
from saltlite.wire.limits import MIB

log = logging.getLogger(__name__)

LIMIT_MAX = 1000
"""Jobs of one answer; for more, a client asks again with the last jid as the cursor."""
LIMIT_DEFAULT = 50
GLOB_MAX = 256
TARGET_MAX = 200
"""Characters of a target in a list, so that a thousand jobs for ten thousand minions each fit into a message."""
BODIES_MAX = 16 * MIB
"""Bytes of job bodies in a list with `whole`; the list ends with the job that exceeds it."""


def handle_job_list(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `jobs`, the newest first, and `more`: whether there are older ones.

    Users without the right to the jobs of others get their own. A `tgt` of more than TARGET_MAX characters is cut and
    ends in three dots; `job_show` has all of it. Rows of batches have `batch_size`, the targets at once. With `whole`
    rows have `calls` and, if any, `metadata`, `hides` and `withheld`, as `job_show` answers them. With `minion` rows of
    jobs with that target have `own`, its row of `targets` in the answer of `job_show`.
    """
    limit = request.get("limit", LIMIT_DEFAULT)
    if not 1 <= limit <= LIMIT_MAX:
        raise UsageError(f"a list has 1 to {LIMIT_MAX} jobs at once, not {limit}")
    wanted = _filter(request)
    if not sees_jobs_of_others(principal, master.config):
        if wanted.user not in ("", principal.label):
            return Answer({"jobs": [], "more": False})
        wanted = replace(wanted, user=principal.label)
    found = master.store.jobs(wanted, limit + 1)
    own = master.store.details_of(wanted.minion, [job.jid for job in found]) if wanted.minion is not None else {}
    rows, size = [], 0
    for job in found[:limit]:
        row = _row(job)
        if job.jid in own:
            row["own"] = _target(own[job.jid], None)
        if len(row["tgt"]) > TARGET_MAX:
            row["tgt"] = row["tgt"][: TARGET_MAX - 3] + "..."
        if request.get("whole"):
            calls, length = _whole(master, job)
            row.update(calls)
            size += length
        rows.append(row)
        if size >= BODIES_MAX:
            break
    return Answer({"jobs": rows, "more": len(found) > len(rows)})


def handle_job_show(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `job`: the row of the list with calls, requested executors and their options, run time limit, cancel,
    `metadata` and `batch` if any, and `targets`; `hides` if arguments are not shown, and then `withheld`, which of them
    (secrets, arguments) have left the store. If the calls cannot be read, `unreadable` says why, and `calls` has the
    functions without arguments.

    With `grouped` there are no `targets`, so that the answer is small for many targets: `without` has the first
    WITHOUT_MAX rows of those without a return, with `absence`, why the minion that has to answer is not
    connected, and `without_count` says how many there are. If all returns have at most GROUPED_BYTES, there are
    `returns`, those that are equal together: the `names` of their targets, and their `state`, `retcode`, `reason` and
    `body`.
    """
    jid = parse_jid(request["jid"])
    summary, job = master.store.job_summary(jid), master.store.job(jid)
    if summary is None or job is None or not may_see(master, principal, job.uid):
        raise no_such_job(jid)
    calls, execution = _body_of(job)
    batch = {"batch": asdict(job.batch)} if job.batch is not None else {}
    shown = {**_row(summary), **calls, **execution, **batch}
    if request.get("grouped"):
        return Answer({"job": shown, **_grouped(master, job)})
    managing = master.store.managing_minions(jid)
    targets = [_target(detail, managing.get(detail.id)) for detail in master.store.target_details(jid)]
    return Answer({"job": {**shown, "targets": targets}})


WITHOUT_MAX = 200
GROUPED_BYTES = 4 * MIB
"""Bytes of returns that are read at once; a client follows the job for more."""


def _grouped(master: Master, job: Job) -> dict[str, Any]:
    count, without = master.store.without_return(job.jid, WITHOUT_MAX)
    owners = _owners(job)
    is_open = {detail.id for detail in without if detail.outcome is TargetOutcome.OPEN}
    gone = absences(master, {MinionId(owners.get(one, one)) for one in is_open})
    rows = [
        {
            **_target(detail, owners.get(detail.id)),
            "absence": gone.get(MinionId(owners.get(detail.id, detail.id)), "") if detail.id in is_open else "",
        }
        for detail in without
    ]
    fields = {"without": rows, "without_count": count}
    found = master.store.equal_returns(job.jid, GROUPED_BYTES)
    if found is None:
        return fields
    names = labels(job.minions, owners) if owners else {}
    rows = [{"names": [names.get(one, one) for one in targets], **_returned(ret)} for ret, targets in found]
    return {**fields, "returns": rows}


def handle_job_return(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `return`, None if there is none: the `state`, `retcode`, `reason` and `body` of what the target with the
    name `target` returned."""
    jid = parse_jid(request["jid"])
    job = master.store.job(jid)
    if job is None or not may_see(master, principal, job.uid):
        raise no_such_job(jid)
    name, owners = request["target"], _owners(job)
    named = {label: target for target, label in labels(job.minions, owners).items()} if owners else {}
    ret = master.store.one_return(jid, named.get(name, name))
    return Answer({"return": None if ret is None else _returned(ret)})


def _returned(ret: Return) -> dict[str, Any]:
    return {"state": str(ret.state), "retcode": ret.retcode, "reason": ret.reason, "body": ret.body}


def _owners(job: Job) -> dict[TargetId, MinionId]:
    """The managing minion of each resource of the job."""
    return {srn: owner for owner, srns in job.resources.items() for srn in srns}


def _whole(master: Master, summary: JobSummary) -> tuple[dict[str, Any], int]:
    """What `job_list` adds to a row, and its size in bytes. An unreadable job does not hide the others."""
    try:
        stored = master.store.job(summary.jid)
    except DamagedError as error:
        return _unread(summary.fun, error), 0
    return ({}, 0) if stored is None else (_body_of(stored)[0], len(stored.body))


def _body_of(job: Job) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields about the calls, and those about executors."""
    try:
        record = decode_record(job.body)
    except ProtocolError as error:
        log.error("what job %s calls cannot be read: %s", job.jid, error)  # noqa: TRY400 - the sentence says it all
        return _unread(job.fun, error), {"module_executors": [], "executor_opts": {}}
    options = without_secrets(record.body.executor_opts)
    return _call_fields(record), {"module_executors": record.body.executors, "executor_opts": options}


def _unread(fun: str, error: SaltliteError) -> dict[str, Any]:
    return {"calls": [[name, [], {}] for name in fun.split(",")], "unreadable": str(error)}


def may_see(master: Master, principal: Principal, owner: int) -> bool:
    """Whether the principal may see a job of the user with this uid. If not, the job does not exist for them."""
    return owner == principal.owner or sees_jobs_of_others(principal, master.config)


def no_such_job(jid: Jid) -> UsageError:
    """The error for a jid that is not in the store."""
    return UsageError(f"there is no job {jid}: it was never published here, or it is past `keep_jobs`")


def _filter(request: Mapping[str, Any]) -> JobFilter:
    fun, user = request.get("fun", ""), request.get("user", "")
    if max(len(fun), len(user)) > GLOB_MAX:
        raise UsageError(f"a function or a user has at most {GLOB_MAX} characters")
    try:
        outcome = TargetOutcome(request["state"]) if "state" in request else None
    except ValueError:
        raise UsageError(f"a job is failed, missing, open or ok, not {request['state'][:40]!r}") from None
    return JobFilter(
        minion=_target_id(request["minion"]) if "minion" in request else None,
        fun=fun,
        user=user,
        since=request.get("since"),
        until=request.get("until"),
        outcome=outcome,
        before=parse_jid(request["before"]) if "before" in request else None,
    )


def _target_id(text: str) -> TargetId:
    """A minion, or a resource by its SRN. Raises UsageError."""
    kind, colon, bare_id = text.partition(":")
    return (
        resource_index_srn_key(check_resource_type(kind), check_resource_id(bare_id))
        if colon
        else parse_minion_id(text)
    )


_NOT_COPIED = frozenset({"uid", "target", "batch_size", "counts", "outcomes"})
_ROW = [field.name for field in fields(JobSummary) if field.name not in _NOT_COPIED]


def _row(job: JobSummary) -> dict[str, Any]:
    return {
        "jid": job.jid,
        "fun": job.fun,
        "tgt": job.target.expression,
        "tgt_type": str(job.target.kind),
        **{name: getattr(job, name) for name in _ROW},
        **({} if job.batch_size is None else {"batch_size": job.batch_size}),
        "counts": {str(state): count for state, count in job.counts.items()},
        "outcomes": {str(outcome): count for outcome, count in job.outcomes.items()},
    }


def _call_fields(record: JobRecord) -> dict[str, Any]:
    """`hides`: HIDDEN stands for some arguments; `withheld`: these are no longer in the store."""
    body = record.body
    hides = bool(record.withheld) or holds_secrets(body.calls, body.executor_opts)
    return {
        "calls": [call.shown() for call in body.calls],
        **({"metadata": body.metadata} if body.metadata else {}),
        **({"hides": True} if hides else {}),
        **({"withheld": str(record.withheld)} if record.withheld else {}),
    }


def _target(detail: TargetDetail, managing: MinionId | None) -> dict[str, Any]:
    """One row; a resource's names the minion that managed it."""
    return {
        **({} if managing is None else {"minion": managing}),
        "id": detail.id,
        "state": str(detail.state),
        "outcome": str(detail.outcome),
        "reason": detail.reason,
        "at": detail.changed_at,
        "retcode": detail.retcode,
        "started_at": detail.started_at,
        "duration_ms": detail.duration_ms,
    }


# -- ending a job


def handle_job_kill(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers three lists of targets: `ids`, which end it now; `away`, which end it when they reconnect;
    `cancelled`, which never got the job and never will. The lists are empty if it had ended everywhere.

    The state of the first two changes when they report that they ended it. With `planned` only targets of a batch whose
    turn has not come are cancelled, and the others go on.
    """
    jid = parse_jid(request["jid"])
    job = master.store.job(jid)
    if job is None or not may_see(master, principal, job.uid):
        raise no_such_job(jid)
    if job.uid != principal.owner and not may(principal, RUNNER, KILL_OF_OTHERS, master.config):
        raise RefusedError(f"{principal} may end his own jobs only: this one is of {job.user}, and takes @jobs kill")
    now = master.clock.wall()
    if request.get("planned"):
        return _end_batch(master, principal, jid, now)
    owners = _owners(job)
    cancelled: list[str] = []
    with master.store.write() as store:
        open_ids = [row.id for row in store.targets(jid) if row.state not in TERMINAL]
        parts = store.open_parts(jid)
        if open_ids:
            cancelled = list(store.cancel_job(jid, principal.label, now))
            store.put_event(tag_job_kill(jid), {"jid": jid, "by": principal.label, "targets": len(open_ids)}, now)
    # Also to minions that are away for this MWorker: they may have reconnected.
    if parts:
        master.link.cancel(_at_once(parts))
    never = frozenset(cancelled)
    left = [target for target in open_ids if target not in never]
    asked = [target for target in left if owners.get(target, target) in master.present]
    away = [target for target in left if owners.get(target, target) not in master.present]
    return Answer({"ids": asked, "away": away, "cancelled": cancelled}, committed=bool(open_ids), moved=(jid,))


def _end_batch(master: Master, principal: Principal, jid: Jid, now: float) -> Answer:
    """Cancel the job for the targets that it has not reached because their turn in the batch has not come."""
    reason = f"the batch was ended by {principal.label}"
    with master.store.write() as store:
        ids = [row.id for row in store.targets_in(jid, TargetState.PLANNED)]
        if ids:
            store.set_targets((jid, TargetRow(target, TargetState.CANCELLED, reason, now)) for target in ids)
            store.put_event(tag_job_kill(jid), {"jid": jid, "by": principal.label, "targets": len(ids)}, now)
    return Answer({"ids": [], "away": [], "cancelled": ids}, committed=bool(ids), moved=(jid,))


def _at_once(parts: Sequence[tuple[PartId, MinionId]]) -> list[tuple[str, str]]:
    """(minion, part) of what is cancelled now: a minion's parts beyond CANCELS_MAX wait until it pulls."""
    counts: Counter[MinionId] = Counter()
    some: list[tuple[str, str]] = []
    for part, minion in parts:
        counts[minion] += 1
        if counts[minion] <= CANCELS_MAX:
            some.append((minion, part))
    return some


# -- following a job


PAGE = 500
"""Returns in one message of the stream."""


def handle_follow(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers what `publish` answered, with `fun` and `tgt`; then the stream from `after` on.

    With `once` the stream ends with what is stored now. A client reads it before it reports a minion as missing,
    because a wake-up may have been lost (G9).
    """
    jid = parse_jid(request["jid"])
    job = master.store.job(jid)
    if job is None or not may_see(master, principal, job.uid):
        raise no_such_job(jid)
    fields = {
        "jid": jid,
        **target_fields(master, job),
        "unknown": {},
        "skipped": [],
        "timeout_s": master.config.timeout_s,
        "deliver_ms": job.deliver_ms,
        "fun": job.fun,
        "tgt": job.target.expression,
    }
    return Answer(fields, follow=Follow(jid, request["after"], request.get("once", False), job))


AT_HAND_MAX = 16
"""Open targets of a job whose returns a stream takes from the commit; those of more are read from the store."""
AT_HAND_BYTES = 64 * 1024
RECOUNT_S = 5.0
"""How often a stream without news counts the open targets in the store: a job that was pruned has none."""


class JobFollower:
    """The states and returns of one job for one client, from its cursor on.

    It knows which targets are open from what it has sent, so that targets are not counted again for each message.
    """

    def __init__(self, master: Master, follow: Follow) -> None:
        self._master = master
        self.jid: Jid = follow.jid
        self._after = follow.after
        self._once = follow.once
        self._moves = 0
        """The cursor in the changes of states."""
        job = follow.job
        self._is_new = follow.is_new and job is not None and job.batch is None
        self._tells_planned = job is None or job.batch is not None
        """Whether the client has yet to learn whose turn has not come."""
        self._managing: dict[TargetId, MinionId] | None = None
        """Resource -> managing minion; None before the first return."""
        self._open: set[TargetId] | None = None
        """Targets that are not terminal, as far as was read; None before the first look."""
        if job is not None:
            self._managing = _owners(job)
            # From a later cursor on, some may have ended before it.
            self._open = {*job.minions, *self._managing} if follow.after == 0 else None
        self._at_hand: dict[int, Return] = {}
        """Returns that were committed since the last look, by sequence number."""
        self._counted_at = master.clock.monotonic()

    def _planned_rows(self) -> list[TargetRow]:
        """Targets that are planned, at the first look: none becomes planned later."""
        return self._master.store.targets_in(self.jid, TargetState.PLANNED) if self._tells_planned else []

    def _rows(self, rets: Sequence[Return]) -> list[dict[str, Any]]:
        if self._managing is None and rets:
            self._managing = self._master.store.managing_minions(self.jid)
        rows = [
            {
                "id": target,
                "state": str(state),
                "retcode": retcode,
                "body": body,
                "started_at": started_at,
                "duration_ms": duration_ms,
                "reason": reason,
                "seq": seq,
            }
            for _jid, target, state, retcode, body, started_at, duration_ms, reason, seq in rets
        ]
        if self._managing:
            for row in rows:
                if row["id"] in self._managing:
                    row["minion"] = self._managing[row["id"]]
        return rows

    def _recount(self) -> None:
        now = self._master.clock.monotonic()
        if now - self._counted_at >= RECOUNT_S:
            self._counted_at = now
            if not self._master.store.open_targets(self.jid):
                self._open = set()

    def may_have_news(self, jobs: Collection[Jid]) -> bool:
        """Whether this job is one of those."""
        return self.jid in jobs

    def stored(self, returned: Iterable[tuple[int, Return]]) -> None:
        """These returns of this job were committed: the last of a job need not be read from the store."""
        if self._open is not None and len(self._open) <= AT_HAND_MAX:
            self._at_hand.update((seq, ret) for seq, ret in returned if len(ret.body) <= AT_HAND_BYTES)

    def _end_at_hand(self) -> dict[str, Any] | None:
        """The last message, if the returns at hand are those of all open targets."""
        rets, self._at_hand = self._at_hand, {}
        ids = [ret.id for ret in rets.values() if ret.state is TargetState.RETURNED]
        if not rets or self._once or self._tells_planned or len(ids) != len(rets) or {*ids} != self._open:
            return None
        rows = self._rows([ret._replace(seq=seq) for seq, ret in sorted(rets.items())])
        self._open = set()
        self._after = max(rets)
        return {"seq": self._after, "states": [], "returns": rows, "end": True}

    def news(self) -> dict[str, Any] | None:
        """The next message of the stream; None if nothing is new.

        The last message has `end`, or with `once` `so_far`. Raises StoreError; then the next call reads the same again:
        cursors move only after the last read.
        """
        if self._is_new:
            self._is_new = False
            return None
        last = self._end_at_hand()
        if last is not None:
            return last
        store = self._master.store
        # Read before the returns: so the return of each target that has ended is among them.
        if self._open is None:
            self._open = {row.id for row in store.targets(self.jid) if row.state not in TERMINAL}
        planned = self._planned_rows()
        news = store.news(self.jid, self._after, PAGE, moves=self._moves)
        returns, whole = news.returns, news.is_whole
        rows = self._rows(returns)
        # In this order, so that the newest state of a target comes last.
        moved = [*planned, *news.moved]
        self._open.difference_update(news.ended, [ret.id for ret in returns])
        self._tells_planned = False
        so_far = self._once and whole
        if not returns and not moved and not so_far:
            self._recount()
        end = not self._open and whole
        if not returns and not moved and not end and not so_far:
            return None
        self._moves = news.moves
        if returns:
            self._after = returns[-1].seq
        message: dict[str, Any] = {
            "seq": self._after,
            "states": [
                {"id": row.id, "state": str(row.state), "reason": row.reason, "at": row.changed_at} for row in moved
            ],
            "returns": rows,
        }
        if end:
            message["end"] = True
        if so_far:
            message["so_far"] = True
        return message
