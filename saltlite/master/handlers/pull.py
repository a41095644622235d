"""A minion has room, or has just come: which jobs does the store hold for it?"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from saltlite.errors import DamagedError
from saltlite.master.handlers.presence import Change, ensure
from saltlite.master.processes.context import Master
from saltlite.master.protocol.peer import HELD_MAX
from saltlite.master.store.ports import OpenJob
from saltlite.model.ids import MinionId, PartId
from saltlite.model.job import TargetState
from saltlite.model.parts import split_part
from saltlite.wire.limits import SEND_WINDOW

log = logging.getLogger(__name__)

PAGE = 64
"""Parts of jobs handed over at once; the link asks again when its minion has acknowledged half of its window."""

CANCELS_MAX = HELD_MAX // 2
"""Parts that a minion is told at once to end; of more, those that it may run come first, the others with a later sweep.
A link that has no room for all that is said ends the session."""


def handle_pull(master: Master, ask: dict[str, Any]) -> None:
    """Answers the link by `pulled`, and by a `cancel` for what an operator ended meanwhile.

    For a fresh session that is every part of a job that is not settled, whether the minion had acknowledged it or not:
    it answers each by what its journal says, and so nothing that was lost on the way stays in doubt (G5). What it has
    acknowledged once is only asked about, with no time left to begin: a minion that does not know such a job is
    another machine with its key, or has an older state of its disk, and the job may have run (G4).

    More than a page is gone through from the part `since` on, as there is room for them.
    """
    minion = MinionId(ask["id"])
    store = master.store
    fresh = ask["session"] is not None
    if fresh:
        ensure(master, Change(*ask["session"]))
    found = [one for one in store.unsettled(minion) if fresh or one[1] is TargetState.QUEUED]
    cancelled = store.cancelled(sorted({split_part(part)[0] for part, _state in found}))
    ended = [one for one in found if split_part(one[0])[0] in cancelled]
    if not ask["since"]:
        _tell_ended(master, minion, ended)
    over = {part for part, _state in ended}
    since = split_part(ask["since"])
    wanted = [part for part, _state in found if part not in over and split_part(part) >= since]
    jobs = store.open_jobs(minion, wanted[:PAGE], SEND_WINDOW)
    rows = list(_rows(master, minion, jobs))
    if fresh or rows:
        left = [part for part in wanted if rows and split_part(part) > split_part(jobs[-1].part)]
        rest = next(iter(left), "") if fresh else None
        master.link.pulled(minion, rows, starved=bool(left), rest=rest)


def _rows(master: Master, minion: MinionId, jobs: list[OpenJob]) -> Iterator[tuple[OpenJob, list[bytes], int]]:
    for job in jobs:
        try:
            yield job, _proof(master, minion, job), _left_ms(job, master.clock.wall())
        except DamagedError as error:
            # The others are delivered; this one expires.
            log.error("%s: it is not delivered to %s", error, minion)  # noqa: TRY400 - the sentence says it all


def _proof(master: Master, minion: MinionId, job: OpenJob) -> list[bytes]:
    parts = master.proofs.of(job.jid, lambda: master.store.job(job.jid))
    return list(parts[minion, job.part].proof)


def _tell_ended(master: Master, minion: MinionId, ended: list[tuple[PartId, TargetState]]) -> None:
    """Have the minion end these. One that never had such a part notes its id, and refuses a copy on its way."""
    first = sorted(ended, key=lambda one: one[1] is TargetState.QUEUED)[:CANCELS_MAX]
    if first:
        master.link.cancel([(minion, part) for part, _state in first])


def _left_ms(job: OpenJob, now: float) -> int:
    """In how many milliseconds the job may begin. Not more than the whole, though a clock that was set back says so."""
    if job.state is not TargetState.QUEUED:
        return 0
    return min(job.deliver_ms, max(0, int((job.created_at - now) * 1000) + job.deliver_ms))
