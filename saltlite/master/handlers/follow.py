"""Follow a job by cursor: every return once, in the order of the store's sequence numbers (G7, G9)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.auth.acl import Action, Principal, authorize
from saltlite.master.handlers.jobs import may_see, no_such_job
from saltlite.master.handlers.targets import whom
from saltlite.master.processes.context import Answer, Follow, Master
from saltlite.master.store.ports import RETURNS_SIZE, TargetRow
from saltlite.model.ids import Jid, MinionId, TargetId, parse_jid
from saltlite.model.job import Return, TargetState

PAGE = 500
"""Returns in one message of the stream."""


def handle_follow(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers what `publish` answered, with `fun` and `tgt`; then the stream from `after` on.

    With `once` the stream ends when it has told what is stored now: who is about to call a minion missing looks here
    first, because a bell may have been lost (G9).
    """
    authorize(principal, Action("follow"), master.terms)
    jid = parse_jid(request["jid"])
    job = master.store.job(jid)
    if job is None or not may_see(master, principal, job.uid):
        raise no_such_job(jid)
    fields = {
        "jid": jid,
        **whom(master, job),
        "unknown": {},
        "skipped": [],
        "timeout_s": master.terms.timeout_s,
        "deliver_ms": job.deliver_ms,
        "fun": job.fun,
        "tgt": job.target.expression,
    }
    return Answer(fields, follow=Follow(jid, request["after"], request.get("once", False)))


class Follower:
    """One client that follows one job: what it has been told, and what is new."""

    def __init__(self, master: Master, follow: Follow) -> None:
        self._master = master
        self.jid: Jid = follow.jid
        self._after = follow.after
        self._once = follow.once
        self._told: dict[TargetId, TargetState] = {}
        self._planned: set[TargetId] | None = None
        """Those of which it was told that their turn has not come; None before the first look."""
        self._managing: dict[TargetId, MinionId] | None = None
        """Which minion manages each resource; None before the first return."""

    def _moved(self) -> list[TargetRow]:
        """Those that have moved since they were told, and those of a batch whose turn has come.

        PLANNED ones are read once, for nobody becomes one later: of those that are QUEUED instead there are a few.
        """
        store = self._master.store
        rows: list[TargetRow] = []
        if self._planned is None:
            rows = store.targets_in(self.jid, TargetState.PLANNED)
            self._planned = {row.id for row in rows}
        elif self._planned:
            rows = [row for row in store.targets_in(self.jid, TargetState.QUEUED) if row.id in self._planned]
        # Read behind those: who moved on in between is told last how far.
        moved = [*rows, *store.moved_targets(self.jid)]
        return [row for row in moved if self._told.get(row.id) is not row.state]

    def _note(self, told: list[TargetRow]) -> None:
        self._told.update((row.id, row.state) for row in told)
        if self._planned:
            self._planned.difference_update(row.id for row in told if row.state is not TargetState.PLANNED)

    def _row(self, ret: Return) -> dict[str, Any]:
        if self._managing is None:
            self._managing = self._master.store.managing_minions(self.jid)
        row = {
            "id": ret.id,
            "state": str(ret.state),
            "retcode": ret.retcode,
            "body": ret.body,
            "started_at": ret.started_at,
            "duration_ms": ret.duration_ms,
            "reason": ret.reason,
            "seq": ret.seq,
        }
        return {**row, "minion": self._managing[ret.id]} if ret.id in self._managing else row

    def news(self) -> dict[str, Any] | None:
        """The next message of the stream, None when there is nothing new.

        `end` is set on the last, and `so_far` on the last of a stream of what there is now.
        """
        store = self._master.store
        # Read before the returns: a target that is terminal here has its return below.
        still_open = store.open_targets(self.jid)
        moved = self._moved()
        returns = store.returns(self.jid, self._after, PAGE)
        whole = len(returns) < PAGE and sum(len(ret.body) for ret in returns) < RETURNS_SIZE
        end = not still_open and whole
        so_far = self._once and whole
        if not returns and not moved and not end and not so_far:
            return None
        self._note(moved)
        if returns:
            self._after = returns[-1].seq
        message: dict[str, Any] = {
            "seq": self._after,
            "states": [
                {"id": row.id, "state": str(row.state), "reason": row.reason, "at": row.changed_at} for row in moved
            ],
            "returns": [self._row(ret) for ret in returns],
        }
        if end:
            message["end"] = True
        if so_far:
            message["so_far"] = True
        return message
