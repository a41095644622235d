"""A minion has room, or has just come: which jobs does the store hold for it?"""

from __future__ import annotations

from typing import Any

from saltlite.core.ports import OpenJob
from saltlite.master.context import Master
from saltlite.model.ids import MinionId
from saltlite.wire.limits import SEND_WINDOW

PAGE = 64
"""Jobs handed over at once; the link asks again when its minion has acknowledged half of its window."""


def handle_pull(master: Master, ask: dict[str, Any]) -> None:
    """Answers the link by `pulled`.

    For a fresh session that is every job that is not settled, whether the minion had acknowledged it or not: it
    answers each by what its journal says, and so nothing that was lost on the way stays in doubt (G5).
    """
    minion = MinionId(ask["id"])
    store = master.store
    jobs = store.unfinished(minion) if ask["fresh"] else store.open_jobs(minion, None, PAGE + 1)
    rows: list[tuple[OpenJob, list[bytes], int]] = []
    size = 0
    now = master.clock.wall()
    for job in jobs[:PAGE]:
        size += len(job.body)
        if rows and size > SEND_WINDOW:
            break
        left_ms = max(0, int((job.created_at - now) * 1000) + job.deliver_ms)
        rows.append((job, master.proofs.of(job.jid, job.minions)[minion], left_ms))
    if rows or jobs:
        master.link.pulled(minion, rows, starved=len(rows) < len(jobs))
