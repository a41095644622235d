"""Jobs that go through their targets a few at a time: whose turn is it?

A place is taken by a target that has the job, or may yet get it, and for `wait_ms` after it has ended. One that went
away while it ran the job keeps its place: it may be the very thing that the job does, and the next one waits until it
is back. Targets without a session are passed over; they have their turn when they come.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from typing import Any

from saltlite.errors import DamagedError, UsageError
from saltlite.master.processes.context import RecentProofs, ToLink
from saltlite.master.store.events import EXPIRED_REASON
from saltlite.master.store.ports import BatchJob, Standing, Store, StoreReader, StoreWriter, TargetRow
from saltlite.model.clock import Clock
from saltlite.model.ids import Jid, TargetId
from saltlite.model.job import Batch, Job, TargetState
from saltlite.wire.signed_parts import signed_parts

log = logging.getLogger(__name__)

WAIT_MAX_MS = 24 * 3_600_000
LASTS_MAX_MS = 30 * 86_400_000
"""For so long after it was published minions take a job from a batch; what is planned then is never sent."""


def batch_of(wanted: Mapping[str, Any] | None, targets: int) -> Batch | None:
    """The batch that a publish request asks for: `size`, `percent`, `wait_ms` and `failhard`. Raises UsageError."""
    if wanted is None:
        return None
    match wanted:
        case {"size": int() as size, "percent": bool() as percent, "wait_ms": int() as wait_ms, "failhard": bool(hard)}:
            if size < 1 or (percent and size > 100):
                raise UsageError("--batch takes 1 target or more, or 1% to 100%")
            if not 0 <= wait_ms <= WAIT_MAX_MS:
                raise UsageError(f"--batch-wait takes at most {WAIT_MAX_MS // 3_600_000} hours")
            return Batch(max(1, targets * size // 100) if percent else size, wait_ms, hard)
    raise UsageError("a batch has size, percent, wait_ms and failhard")


def release(store: StoreWriter, job: BatchJob, now: float) -> tuple[list[TargetId], bool]:
    """Give free places to targets whose turn it is, or end the batch.

    Returns the targets that are to be sent the job now, and whether any target moved.
    """
    moves = _moves(store, job, now)
    ids = [row.id for row in moves if row.state is TargetState.QUEUED]
    return ids, bool(store.set_targets((job.jid, row) for row in moves))


def _moves(store: StoreReader, job: BatchJob, now: float) -> list[TargetRow]:
    """The planned targets that move now, and where to."""
    batch = job.batch
    standing = store.standing(job.jid, now - job.deliver_ms / 1000, now - batch.wait_ms / 1000, now)
    ending = _ending(job, standing, now)
    if ending is None:
        ids = store.next_planned(job.jid, max(0, batch.size - standing.active))
        if ids or standing.active:
            return [TargetRow(target, TargetState.QUEUED, "", now) for target in ids]
        # Nobody is there. The time to be back counts from when somebody was seen to go: while the master was down
        # nobody could come, and at its start those who were up count as seen.
        quiet_since = max(standing.changed_at, store.planned_seen(job.jid))
        if now <= quiet_since + job.deliver_ms / 1000:
            return []
        ending = TargetState.EXPIRED, EXPIRED_REASON
    return [TargetRow(row.id, *ending, now) for row in store.targets_in(job.jid, TargetState.PLANNED)]


def _ending(job: BatchJob, standing: Standing, now: float) -> tuple[TargetState, str] | None:
    """How the planned targets end without having had their turn, if they do."""
    if job.batch.failhard and standing.failed is not None:
        return TargetState.CANCELLED, f"the batch ended when {standing.failed} failed (--failhard)"
    if now > job.created_at + LASTS_MAX_MS / 1000:
        return TargetState.EXPIRED, f"its turn did not come within {LASTS_MAX_MS // 86_400_000} days"
    return None


def release_due(
    store: Store, clock: Clock, link: ToLink, recent: RecentProofs, *, among: Collection[Jid] | None = None
) -> bool:
    """Go on with every batch, or with those `among` these jobs; whether anything moved.

    The store decides, so it may be called by anybody, any time.
    """
    any_moved = False
    for planned in store.batches(None if among is None else sorted(among)):
        # Looked at first without the lock of writers: mostly it is nobody's turn.
        if not _moves(store, planned, clock.wall()):
            continue
        with store.write() as writer:
            ids, moved = release(writer, planned, clock.wall())
        any_moved = any_moved or moved
        try:
            job = store.job(planned.jid) if ids else None
        except DamagedError as error:
            log.error("%s: its batch goes no further", error)  # noqa: TRY400 - the sentence says it all
            continue
        if job is not None:
            send(job, ids, link, recent)
    return any_moved


def send(job: Job, ids: Collection[TargetId], link: ToLink, recent: RecentProofs) -> None:
    """Send the job to those of its targets whose turn it is; what is lost on the way stays QUEUED in the store."""
    if ids:
        # Those of a batch are needed for each turn. What is sent once must not push out what others need again.
        parts = signed_parts(job) if job.batch is None else recent.of(job.jid, lambda: job)
        wanted = frozenset(ids)
        link.publish(job, [part for part in parts.values() if not wanted.isdisjoint(part.targets)])
