"""Jobs of the past and of now: which there were, and what became of one of them on each target."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize, sees_jobs_of_others
from saltlite.errors import DamagedError, ProtocolError, SaltliteError, UsageError
from saltlite.master.processes.context import Answer, Master
from saltlite.model.history import JobFilter, JobSummary, Outcome, TargetDetail
from saltlite.model.ids import Jid, MinionId, TargetId, parse_jid, parse_minion_id
from saltlite.model.job import Job
from saltlite.model.secretargs import without_secrets
from saltlite.model.srn import check_resource_id, check_resource_type, resource_index_srn_key
from saltlite.wire.jobrecord import JobRecord, decode_record, holds_secrets
from saltlite.wire.limits import MIB

log = logging.getLogger(__name__)

LIMIT_MAX = 1000
"""Jobs of one answer; for more, a client asks again with the last jid as the cursor."""
LIMIT_DEFAULT = 50
GLOB_MAX = 256
TARGET_MAX = 200
"""Characters of a target in a list: those of a thousand jobs for ten thousand minions would fit into no message."""
BODIES_MAX = 16 * MIB
"""Bytes of jobs in a list that has what they were called with; it ends behind the one that fills it."""


def handle_job_list(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `jobs`, the newest first, and `more`: whether there are others behind the last of them.

    Whoever has no right to the jobs of others is told of his own. A `tgt` of more than TARGET_MAX characters is cut
    there and ends in three dots; `job_show` has the whole. With `whole` the rows have `calls` and, where there are any,
    `metadata`, `hides` and `withheld` as there.
    """
    authorize(principal, Action("job_list"), master.terms)
    limit = request.get("limit", LIMIT_DEFAULT)
    if not 1 <= limit <= LIMIT_MAX:
        raise UsageError(f"a list has 1 to {LIMIT_MAX} jobs at once, not {limit}")
    wanted = _filter(request)
    if not sees_jobs_of_others(principal, master.terms):
        if wanted.user not in ("", principal.label):
            return Answer({"jobs": [], "more": False})
        wanted = replace(wanted, user=principal.label)
    found = master.store.jobs(wanted, limit + 1)
    rows, size = [], 0
    for job in found[:limit]:
        row = _row(job)
        if len(row["tgt"]) > TARGET_MAX:
            row["tgt"] = row["tgt"][: TARGET_MAX - 3] + "..."
        if request.get("whole"):
            said, length = _whole(master, job)
            row.update(said)
            size += length
        rows.append(row)
        if size >= BODIES_MAX:
            break
    return Answer({"jobs": rows, "more": len(found) > len(rows)})


def handle_job_show(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `job`: the row of the list with calls, executors asked for and their options, run time limit, cancel,
    `metadata` where there are any, and `targets`; `hides`, when arguments are not shown, and then `withheld`: which of
    them (secrets, arguments) have left the store. Where the calls cannot be read, `unreadable` says why, and there are
    the functions without arguments.
    """
    authorize(principal, Action("job_show"), master.terms)
    jid = parse_jid(request["jid"])
    summary, job = master.store.job_summary(jid), master.store.job(jid)
    if summary is None or job is None or not may_see(master, principal, job.uid):
        raise no_such_job(jid)
    said, execution = _body_of(job)
    managing = master.store.managing_minions(jid)
    targets = [_target(detail, managing.get(detail.id)) for detail in master.store.target_details(jid)]
    return Answer({"job": {**_row(summary), **said, **execution, "targets": targets}})


def _whole(master: Master, summary: JobSummary) -> tuple[dict[str, Any], int]:
    """What `job_list` adds to a row, and the bytes that it was made of. One job that cannot be read hides no other."""
    try:
        stored = master.store.job(summary.jid)
    except DamagedError as error:
        return _unread(summary.fun, error), 0
    return ({}, 0) if stored is None else (_body_of(stored)[0], len(stored.body))


def _body_of(job: Job) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was called, and by which executors."""
    try:
        record = decode_record(job.body)
    except ProtocolError as error:
        log.error("what job %s calls cannot be read: %s", job.jid, error)  # noqa: TRY400 - the sentence says it all
        return _unread(job.fun, error), {"module_executors": [], "executor_opts": {}}
    options = without_secrets(record.body.executor_opts)
    return _said(record), {"module_executors": record.body.executors, "executor_opts": options}


def _unread(fun: str, error: SaltliteError) -> dict[str, Any]:
    return {"calls": [[name, [], {}] for name in fun.split(",")], "unreadable": str(error)}


def may_see(master: Master, principal: Principal, owner: int) -> bool:
    """Whether a job of the user with this uid is shown to the principal. If not, there is no such job for him."""
    return owner == principal.uid or sees_jobs_of_others(principal, master.terms)


def no_such_job(jid: Jid) -> UsageError:
    """What is said of a jid that is not in the store."""
    return UsageError(f"there is no job {jid}: it was never published here, or it is past `keep_jobs`")


def _filter(request: Mapping[str, Any]) -> JobFilter:
    fun, user = request.get("fun", ""), request.get("user", "")
    if max(len(fun), len(user)) > GLOB_MAX:
        raise UsageError(f"a function or a user has at most {GLOB_MAX} characters")
    try:
        outcome = Outcome(request["state"]) if "state" in request else None
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


def _row(job: JobSummary) -> dict[str, Any]:
    return {
        "jid": job.jid,
        "fun": job.fun,
        "tgt": job.target.expression,
        "tgt_type": str(job.target.kind),
        "user": job.user,
        "origin": job.origin,
        "created_at": job.created_at,
        "deliver_ms": job.deliver_ms,
        "run_ms": job.run_ms,
        "cancelled_at": job.cancelled_at,
        "cancelled_by": job.cancelled_by,
        "counts": {str(state): count for state, count in job.counts.items()},
        "outcomes": {str(outcome): count for outcome, count in job.outcomes.items()},
    }


def _said(record: JobRecord) -> dict[str, Any]:
    """`hides` says that HIDDEN stands for arguments, `withheld` that they are not in the store any more."""
    body = record.body
    hides = bool(record.withheld) or holds_secrets(body.calls, body.executor_opts)
    return {
        "calls": [call.shown() for call in body.calls],
        **({"metadata": body.metadata} if body.metadata else {}),
        **({"hides": True} if hides else {}),
        **({"withheld": str(record.withheld)} if record.withheld else {}),
    }


def _target(detail: TargetDetail, managing: MinionId | None) -> dict[str, Any]:
    """One row; that of a resource says which minion managed it."""
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
