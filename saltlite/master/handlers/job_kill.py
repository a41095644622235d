"""End a job on every minion that has not finished it. It is stored, so one that is away is told when it is back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.core.acl import Action, Principal, authorize
from saltlite.master.context import Answer, Master
from saltlite.master.handlers.jobs import no_such_job
from saltlite.model.events import tag_job_kill
from saltlite.model.ids import parse_jid
from saltlite.model.job import TERMINAL


def handle_job_kill(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers three lists of ids: `ids`, who are asked to end it now; `away`, who will be told when they are back;
    `cancelled`, who cannot have got the job and never will. Empty lists: it had ended everywhere.

    Each of the first two says itself that it ended it; until then its state stays what it was.
    """
    authorize(principal, Action("job_kill"), master.terms.operators)
    jid = parse_jid(request["jid"])
    job = master.store.job(jid)
    if job is None:
        raise no_such_job(jid)
    authorize(principal, Action("job_kill", job.fun, job.minions), master.terms.operators)
    now = master.clock.wall()
    cancelled: list[str] = []
    with master.store.write() as store:
        open_ids = [row.id for row in store.targets(jid) if row.state not in TERMINAL]
        if open_ids:
            cancelled = list(store.cancel_job(jid, principal.user, now))
            store.put_event(tag_job_kill(jid), {"jid": jid, "by": principal.user, "targets": len(open_ids)}, now)
    # Also those of whom this MWorker does not know yet that they are back; who is not there is not told.
    master.link.cancel(jid, open_ids)
    left = [minion for minion in open_ids if minion not in set(cancelled)]
    asked = [minion for minion in left if minion in master.present]
    away = [minion for minion in left if minion not in master.present]
    return Answer({"ids": asked, "away": away, "cancelled": cancelled}, committed=bool(open_ids))
