"""Which minions are connected: their presence as the link process reports it, and what users are told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from saltlite.auth.acl import Principal
from saltlite.errors import UsageError
from saltlite.master.handlers.targets import reach
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.context import Answer, Master, Question
from saltlite.master.store.ports import MinionRow, PartRow
from saltlite.model.events import tag_minion_start, tag_presence_change
from saltlite.model.ids import MinionId
from saltlite.model.job import TargetState
from saltlite.model.keys import Fingerprint
from saltlite.wire.framing import IpcMessage


def handle_minions(master: Master, _principal: Principal, _request: Mapping[str, Any]) -> Answer:
    """Answers `minions`, the rows of minion_rows."""
    return Answer({"minions": minion_rows(master)})


def minion_rows(master: Master) -> list[dict[str, Any]]:
    """A row of each accepted minion: `state` (up, away or never), last_seen, address and version where known, and
    `resources`, how many it manages."""
    held = master.registry.views().by_minion
    rows = {row.id: row for row in master.store.minions()}
    answer = []
    for minion in master.store.accepted_ids():
        row = rows.get(minion)
        up = minion in master.present
        answer.append(
            {
                "id": minion,
                "state": "up" if up else "away" if row is not None else "never",
                "last_seen": row.last_seen if row is not None else None,
                "address": row.address if row is not None else "",
                "version": row.version if row is not None else "",
                "resources": sum(len(one.ids) for one in held.get(minion, {}).values()),
            }
        )
    return answer


IDS_MAX = 1000


def handle_heard(master: Master, principal: Principal, request: Mapping[str, Any]) -> Answer:
    """Answers `heard`: seconds since the last frame of each of `ids`, None for those without a session.

    It is empty if the link process does not answer.
    """
    ids = request["ids"]
    if len(ids) > IDS_MAX or not all(isinstance(minion, str) for minion in ids):
        raise UsageError(f"heard takes at most {IDS_MAX} minion ids")

    within = reach(master, principal)
    if within is not None:
        ids = [minion for minion in ids if minion in within]

    def fields(reply: IpcMessage | None) -> dict[str, Any]:
        return {"heard": {minion: reply["silent_s"].get(minion) for minion in ids} if reply is not None else {}}

    return Answer(question=Question(lambda number: ipc.ask_heard(number, ids), fields))


# -- changes of presence


@dataclass(frozen=True, slots=True)
class Change:
    """One row of the link's `presence` message."""

    id: MinionId
    fingerprint: Fingerprint
    up: bool
    address: str
    version: str
    boot: str
    incarnation: str
    functions: str


def notice(master: Master, changes: list[Change], *, whole: bool) -> None:
    """Update this MWorker's view. With `whole`, minions that are not in `changes` are away."""
    if whole:
        master.present.clear()
    for change in changes:
        if change.up:
            master.present[change.id] = master.clock.wall()
        else:
            master.present.pop(change.id, None)


def record(master: Master, changes: list[Change], *, whole: bool) -> None:
    """Store the changes: last_seen, start events, jobs that were lost with a minion's disk. One MWorker does this.

    Raises StoreError; then only history is lost, and the next change writes the minion's row again.
    """
    now = master.clock.wall()
    wanted = []
    gone = _gone(master, changes) if whole else []
    if not changes and not gone:
        return
    with master.store.write() as store:
        store.touch_minions(gone)
        for change in changes:
            before = store.minion(change.id)
            if change.up and (before is None or before.boot_id != change.boot):
                data = {"id": change.id, "version": change.version}
                store.put_event(tag_minion_start(change.id), data, now)
            if change.up and before is not None and before.incarnation != change.incarnation:
                reason = "the minion came back with another disk and knows nothing of it"
                store.set_parts(
                    PartRow(part, change.id, TargetState.LOST, reason, now)
                    for part, state in store.unsettled(change.id)
                    if state is not TargetState.QUEUED
                )
            if change.up and store.functions(change.functions) is None:
                wanted.append(change.id)
        store.touch_minions(
            MinionRow(
                id=change.id,
                fingerprint=change.fingerprint,
                address=change.address,
                version=change.version,
                boot_id=change.boot,
                incarnation=change.incarnation,
                functions=change.functions,
                up=change.up,
                last_seen=now,
            )
            for change in changes
        )
        changed = {
            "new": [change.id for change in changes if change.up],
            "lost": [row.id for row in gone] + [change.id for change in changes if not change.up],
        }
        store.put_event(tag_presence_change(), changed, now)
    for minion in wanted:
        master.link.fetch(minion, "functions")


def ensure(master: Master, session: Change) -> None:
    """Store a session that the store does not know, because it failed when the session began, or an MWorker died.

    This comes before any job is sent in the session, so that the store knows it may have been delivered. Raises
    StoreError.
    """
    row = master.store.minion(session.id)
    if row is None or not row.up or (row.boot_id, row.incarnation) != (session.boot, session.incarnation):
        record(master, [session], whole=False)


def _gone(master: Master, changes: list[Change]) -> list[MinionRow]:
    """Minions that are up in the store since an earlier link process, which ended before they did.

    That process may have sent them whatever was committed before it died, so they count as seen until now: otherwise
    delivered jobs could be reported as undelivered (G5).
    """
    up = {change.id for change in changes}
    now = master.clock.wall()
    return [replace(row, up=False, last_seen=now) for row in master.store.minions() if row.up and row.id not in up]
