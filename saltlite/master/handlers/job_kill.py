"""End a job on every minion that has not finished it. It is stored, so one that is away is told when it is back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from saltlite.auth.acl import KILL_OF_OTHERS, Action, Principal, authorize, may
from saltlite.auth.rules import RUNNER
from saltlite.errors import RefusedError
from saltlite.master.handlers.jobs import may_see, no_such_job
from saltlite.master.handlers.pull import CANCELS_MAX
from saltlite.master.processes.context import Answer, Master
from saltlite.model.events import tag_job_kill
from saltlite.model.ids import MinionId, PartId, TargetId, parse_jid
from saltlite.model.job import TERMINAL


def handle_job_kill(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers three lists of targets: `ids`, who are asked to end it now; `away`, who will be told when they are back;
    `cancelled`, who cannot have got the job and never will. Empty lists: it had ended everywhere.

    Each of the first two says itself that it ended it; until then its state stays what it was.
    """
    authorize(principal, Action("job_kill"), master.terms)
    jid = parse_jid(request["jid"])
    job = master.store.job(jid)
    if job is None or not may_see(master, principal, job.uid):
        raise no_such_job(jid)
    if job.uid != principal.uid and not may(principal, RUNNER, KILL_OF_OTHERS, master.terms):
        raise RefusedError(f"{principal} may end his own jobs only: this one is of {job.user}, and takes @jobs kill")
    owners: dict[TargetId, MinionId] = {srn: owner for owner, srns in job.resources.items() for srn in srns}
    now = master.clock.wall()
    cancelled: list[str] = []
    with master.store.write() as store:
        open_ids = [row.id for row in store.targets(jid) if row.state not in TERMINAL]
        parts = store.open_parts(jid)
        if open_ids:
            cancelled = list(store.cancel_job(jid, principal.label, now))
            store.put_event(tag_job_kill(jid), {"jid": jid, "by": principal.label, "targets": len(open_ids)}, now)
    # Also those of whom this MWorker does not know yet that they are back; who is not there is not told.
    if parts:
        master.link.cancel(_at_once(parts))
    never = frozenset(cancelled)
    left = [target for target in open_ids if target not in never]
    asked = [target for target in left if owners.get(target, target) in master.present]
    away = [target for target in left if owners.get(target, target) not in master.present]
    return Answer({"ids": asked, "away": away, "cancelled": cancelled}, committed=bool(open_ids))


def _at_once(parts: Sequence[tuple[PartId, MinionId]]) -> list[tuple[str, str]]:
    """(minion, part) of what is told now; a minion with more than CANCELS_MAX is told of the others when it asks."""
    told: Counter[MinionId] = Counter()
    some: list[tuple[str, str]] = []
    for part, minion in parts:
        told[minion] += 1
        if told[minion] <= CANCELS_MAX:
            some.append((minion, part))
    return some
