"""A minion has room, or has just come: which jobs does the store hold for it?"""

from __future__ import annotations

from typing import Any

from saltlite.core.hub import HELD_MAX
from saltlite.core.ports import OpenJob
from saltlite.master.context import Master
from saltlite.master.handlers.presence import Change, ensure
from saltlite.model.ids import MinionId
from saltlite.model.job import TargetState
from saltlite.wire.limits import SEND_WINDOW

PAGE = 64
"""Jobs handed over at once; the link asks again when its minion has acknowledged half of its window."""

CANCELS_MAX = HELD_MAX // 2
"""Jobs that a minion is told at once to end; of more, those that it may run come first, the others with a later sweep.
A link that has no room for all that is said ends the session."""


def handle_pull(master: Master, ask: dict[str, Any]) -> None:
    """Answers the link by `pulled`, and by a `cancel` for each job that an operator ended meanwhile.

    For a fresh session that is every job that is not settled, whether the minion had acknowledged it or not: it
    answers each by what its journal says, and so nothing that was lost on the way stays in doubt (G5). What it has
    acknowledged once is only asked about, with no time left to begin: a minion that does not know such a job is
    another machine with its key, or has an older state of its disk, and the job may have run (G4).
    """
    minion = MinionId(ask["id"])
    store = master.store
    fresh = ask["session"] is not None
    if fresh:
        ensure(master, Change(*ask["session"]))
    found = store.unfinished(minion) if fresh else store.open_jobs(minion, None, PAGE + 1)
    ended = sorted((job for job in found if job.cancelled), key=lambda job: job.state is TargetState.QUEUED)
    for job in ended[:CANCELS_MAX]:
        # A minion that never had it notes the jid, and refuses it should a copy still be on its way.
        master.link.cancel(job.jid, [minion])
    jobs = [job for job in found if not job.cancelled]
    rows: list[tuple[OpenJob, list[bytes], int]] = []
    size = 0
    now = master.clock.wall()
    for job in jobs[:PAGE]:
        size += len(job.body)
        if rows and size > SEND_WINDOW:
            break
        # Not more than the whole, though a clock that was set back may say so.
        waits = job.state is TargetState.QUEUED
        left_ms = min(job.deliver_ms, max(0, int((job.created_at - now) * 1000) + job.deliver_ms)) if waits else 0
        rows.append((job, master.proofs.of(job.jid, job.minions)[minion], left_ms))
    if fresh or rows:
        master.link.pulled(minion, rows, starved=len(rows) < len(jobs))
