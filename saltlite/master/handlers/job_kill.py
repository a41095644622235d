"""End a job on every minion that has not finished it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.core.acl import Action, Principal, authorize
from saltlite.core.ports import TargetRow
from saltlite.errors import UsageError
from saltlite.master.context import Answer, Master
from saltlite.model.ids import parse_jid
from saltlite.model.job import TERMINAL, TargetState


def handle_job_kill(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `ids`, who were asked to end it, and `away`, who have it and are not connected.

    Each says itself that it did; one that is away and never acknowledged the job is cancelled here, in the store.
    """
    authorize(principal, Action("job_kill"), master.terms.operators)
    jid = parse_jid(request["jid"])
    job = master.store.job(jid)
    if job is None:
        raise UsageError(f"there is no job {jid}")
    authorize(principal, Action("job_kill", job.fun, job.minions), master.terms.operators)
    now = master.clock.wall()
    reason = f"cancelled by {principal.user}"
    with master.store.write() as store:
        open_rows = [row for row in store.targets(jid) if row.state not in TERMINAL]
        away = [row for row in open_rows if row.id not in master.present and row.state is TargetState.QUEUED]
        store.set_targets((jid, TargetRow(row.id, TargetState.CANCELLED, reason, now)) for row in away)
    asked = [row.id for row in open_rows if row.id in master.present]
    master.link.cancel(jid, asked)
    unasked = {row.id for row in open_rows} - set(asked) - {row.id for row in away}
    return Answer({"ids": asked, "away": sorted(unasked)})
