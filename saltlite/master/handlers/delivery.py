"""Which targets are sent a job, and when: at publish, as a batch advances, and when a minion pulls.

In a batch, a target occupies a slot while it has the job or may still get it, and for `wait_ms` after it has ended. A
target that disconnects while it runs the job keeps its slot, because the job itself may be the cause (a reboot): the
next target waits until it is back. Targets without a session are skipped until they connect.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from saltlite.errors import DamagedError, UsageError
from saltlite.master.handlers.minions import PresenceChange, ensure
from saltlite.master.processes.context import LinkPort, Master, RecentProofs
from saltlite.master.protocol.sessions import HELD_MAX
from saltlite.master.store.ports import (
    BatchJob,
    OpenJob,
    Standing,
    Store,
    StoreReader,
    StoreWriter,
    TargetRow,
    expired_reason,
)
from saltlite.model.clock import Clock
from saltlite.model.events import tag_job_turn
from saltlite.model.ids import Jid, MinionId, PartId, TargetId
from saltlite.model.job import Batch, Job, TargetState, split_part
from saltlite.wire.limits import SEND_WINDOW
from saltlite.wire.merkle import signed_parts

log = logging.getLogger(__name__)

WAIT_MAX_MS = 24 * 3_600_000
LASTS_MAX_MS = 30 * 86_400_000
"""Minions accept a job of a batch for so long after it was published; targets still planned then never get it."""


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
    """Give free slots to planned targets, or end the batch.

    Returns the targets that are sent the job now, and whether any target changed state.
    """
    moves = _moves(store, job, now)
    ids = [row.id for row in moves if row.state is TargetState.QUEUED]
    return ids, bool(store.set_targets((job.jid, row) for row in moves))


def _moves(store: StoreReader, job: BatchJob, now: float) -> list[TargetRow]:
    """The planned targets that change state now."""
    batch = job.batch
    standing = store.standing(job.jid, now - job.deliver_ms / 1000, now - batch.wait_ms / 1000, now)
    ending = _ending(job, standing, now)
    if ending is None:
        ids = store.next_planned(job.jid, max(0, batch.size - standing.active))
        if ids or standing.active:
            return [TargetRow(target, TargetState.QUEUED, "", now) for target in ids]
        # No target is connected. The time to reconnect counts from when one was last seen to go: while the master was
        # down none could connect, and at its start those that were up count as seen.
        quiet_since = max(standing.changed_at, store.planned_seen(job.jid))
        if now <= quiet_since + job.deliver_ms / 1000:
            return []
        return _expired(store, job.jid, now)
    return [TargetRow(row.id, *ending, now) for row in store.targets_in(job.jid, TargetState.PLANNED)]


def _expired(store: StoreReader, jid: Jid, now: float) -> list[TargetRow]:
    """The planned targets, none of which is connected, each with the reason of its minion."""
    planned = [row.id for row in store.targets_in(jid, TargetState.PLANNED)]
    managing = store.managing_minions(jid)
    owners = {target: managing.get(target, MinionId(target)) for target in planned}
    ends = {row.id: row.end_reason for row in store.minions(set(owners.values()))}
    reasons = {target: expired_reason(ends.get(owner)) for target, owner in owners.items()}
    return [TargetRow(target, TargetState.EXPIRED, reason, now) for target, reason in reasons.items()]


def _ending(job: BatchJob, standing: Standing, now: float) -> tuple[TargetState, str] | None:
    """The state and reason with which planned targets end without having got the job, if they do."""
    if job.batch.failhard and standing.failed is not None:
        return TargetState.CANCELLED, f"the batch ended when {standing.failed} failed (--failhard)"
    if now > job.created_at + LASTS_MAX_MS / 1000:
        return TargetState.EXPIRED, f"its turn did not come within {LASTS_MAX_MS // 86_400_000} days"
    return None


def release_due(
    store: Store,
    clock: Clock,
    link: LinkPort,
    recent: RecentProofs,
    *,
    among: Collection[Jid] | None = None,
    me: str = "",
) -> bool:
    """Advance every batch, or those `among` these jobs. Returns whether any target changed state. `me`: the name of
    this master if others share its store; they then send the job to their minions.

    The store alone decides, so any process may call this at any time.
    """
    any_moved = False
    for planned in store.batches(None if among is None else sorted(among)):
        # Read without a transaction first: mostly no slot is free.
        if not _moves(store, planned, clock.wall()):
            continue
        with store.write() as writer:
            ids, moved = release(writer, planned, clock.wall())
            if ids and me:
                writer.put_event(tag_job_turn(planned.jid), {"jid": planned.jid, "by": me}, clock.wall())
        any_moved = any_moved or moved
        try:
            job = store.job(planned.jid) if ids else None
        except DamagedError as error:
            log.error("%s: its batch goes no further", error)  # noqa: TRY400 - the message is complete
            continue
        if job is not None:
            send(job, ids, link, recent)
    return any_moved


def send(job: Job, ids: Collection[TargetId], link: LinkPort, recent: RecentProofs) -> None:
    """Send the job to these of its targets; what is lost on the way stays QUEUED in the store, and is pulled."""
    if ids:
        # Proofs of a batch are needed again for each slot; those that are used once must not evict them from the cache.
        parts = signed_parts(job) if job.batch is None else recent.of(job.jid, lambda: job)
        wanted = frozenset(ids)
        link.publish(job, [part for part in parts.values() if not wanted.isdisjoint(part.targets)])


# -- a minion pulls


PAGE = 64
"""Parts handed over at once; the link pulls again when its minion has acknowledged half of its window."""

CANCELS_MAX = HELD_MAX // 2
"""Parts that a minion is asked to end at once, those that may run first; a later pull has the others. A link that has
no room for its messages ends the session."""


def handle_pull(master: Master, ask: dict[str, Any]) -> None:
    """A minion has room, or has just connected. Answers the link by `pulled`, and by `cancel` for what was ended since.

    A new session gets every part that is not settled, acknowledged or not: the minion answers each from its journal, so
    nothing lost on the way stays undecided (G5). A part that was acknowledged is only asked about, with no time left to
    begin: a minion that does not know it is another machine with its key, or has an older state of its disk, and the
    job may have run (G4).

    More than one page is read from the part `since` on, as room becomes free.
    """
    minion = MinionId(ask["id"])
    if ask["session"] is not None and not ensure(master, [PresenceChange(*ask["session"])]):
        return
    unsettled = master.store.unsettled(minion)
    _pull(master, ask, unsettled, _cancelled(master, unsettled))


def handle_first_pulls(
    master: Master, asks: Sequence[dict[str, Any]], stored: Mapping[MinionId, PresenceChange] = MappingProxyType({})
) -> None:
    """As `handle_pull`, for many minions that have just connected: a few statements for all of them, and more only for
    minions with open jobs. `stored`: the sessions that this process has just stored and need not read."""
    sessions = [PresenceChange(*ask["session"]) for ask in asks]
    others = [session for session in sessions if stored.get(session.id) != session]
    have = {session.id for session in sessions} - {session.id for session in others}
    unsettled = master.store.unsettled_of(have | ensure(master, others) if others else have)
    cancelled = _cancelled(master, [one for some in unsettled.values() for one in some])
    for ask in asks:
        if (minion := MinionId(ask["id"])) in unsettled:
            _pull(master, ask, unsettled[minion], cancelled)


def _cancelled(master: Master, unsettled: list[tuple[PartId, TargetState]]) -> set[Jid]:
    """The jobs of these parts that were ended."""
    jids = sorted({split_part(part)[0] for part, _state in unsettled})
    return master.store.cancelled(jids) if jids else set()


def _pull(
    master: Master, ask: dict[str, Any], unsettled: list[tuple[PartId, TargetState]], cancelled: Collection[Jid]
) -> None:
    minion = MinionId(ask["id"])
    store = master.store
    fresh = ask["session"] is not None
    found = [one for one in unsettled if fresh or one[1] is TargetState.QUEUED]
    ended = [one for one in found if split_part(one[0])[0] in cancelled]
    if not ask["since"]:
        _cancel_ended(master, minion, ended)
    over = {part for part, _state in ended}
    since = split_part(ask["since"])
    wanted = [part for part, _state in found if part not in over and split_part(part) >= since]
    jobs = store.open_jobs(minion, wanted[:PAGE], SEND_WINDOW) if wanted else []
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
            # The other parts are delivered; this one expires.
            log.error("%s: it is not delivered to %s", error, minion)  # noqa: TRY400 - the message is complete


def _proof(master: Master, minion: MinionId, job: OpenJob) -> list[bytes]:
    parts = master.proofs.of(job.jid, lambda: master.store.job(job.jid))
    return list(parts[minion, job.part].proof)


def _cancel_ended(master: Master, minion: MinionId, ended: list[tuple[PartId, TargetState]]) -> None:
    """Tell the minion to end these. One that never had the part notes its id, and refuses a copy that is on its way."""
    first = sorted(ended, key=lambda one: one[1] is TargetState.QUEUED)[:CANCELS_MAX]
    if first:
        master.link.cancel([(minion, part) for part, _state in first])


def _left_ms(job: OpenJob, now: float) -> int:
    """The milliseconds within which the job may begin: never more than `deliver_ms`, even if the clock was set back."""
    if job.state is not TargetState.QUEUED:
        return 0
    return min(job.deliver_ms, max(0, int((job.created_at - now) * 1000) + job.deliver_ms))
