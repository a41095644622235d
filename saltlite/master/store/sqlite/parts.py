"""Questions about parts of jobs: what each minion has to do, for itself and for its resources."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from saltlite.master.store.events import most_in_part
from saltlite.master.store.ports import OPEN_JOBS_SIZE, OpenJob
from saltlite.master.store.sqlite.audience import Audience, Audiences, Packed
from saltlite.master.store.sqlite.damage import readable
from saltlite.master.store.sqlite.history import STATE_OF_RANK, Queries
from saltlite.model.ids import Jid, MinionId, PartId, TargetId
from saltlite.model.job import TargetState
from saltlite.model.parts import part_id, split_part

_MANAGING = "SELECT target, minion FROM job_targets WHERE jid = ? AND target <> minion ORDER BY target"
# A minion itself is found by its primary key, what it manages by the index of parts, which has nothing else.
_TARGETS = "SELECT target FROM job_targets WHERE jid = ? AND target = ? AND part = ?"
_TARGETS_OF_RESOURCES = (
    "SELECT target FROM job_targets INDEXED BY job_targets_parts"
    " WHERE jid = ? AND minion = ? AND part = ? AND target <> minion ORDER BY target"
)
_OPEN_TARGETS = "SELECT target FROM job_targets WHERE jid = ? AND target = ? AND part = ? AND rank < 9"
_OPEN_TARGETS_OF_RESOURCES = (
    "SELECT target FROM job_targets INDEXED BY job_targets_parts"
    " WHERE jid = ? AND minion = ? AND part = ? AND target <> minion AND rank < 9 ORDER BY target"
)
_OPEN_PARTS = "SELECT DISTINCT part, minion FROM job_targets WHERE jid = ? AND rank < 9 ORDER BY minion, part"
# The ranks one by one: the index is sorted by rank, so each is one step to this minion's rows.
_UNSETTLED = (
    "SELECT jid, part, min(rank) FROM job_targets INDEXED BY job_targets_unfinished"
    " WHERE rank IN (0, 1, 2) AND rank < 9 AND minion = ? GROUP BY jid, part ORDER BY jid, part"
)
# The last row of a part is that of its lowest rank.
_UNSETTLED_AMONG = (
    "SELECT jid, part, rank, min(changed_at) FROM job_targets INDEXED BY job_targets_unfinished"
    " WHERE rank IN (0, 1, 2) AND rank < 9 AND minion = ? AND jid IN (SELECT value FROM json_each(?))"
    " GROUP BY jid, part, rank ORDER BY jid, part, rank DESC"
)
# The length of a body is known without reading it.
_BODY_SIZES = "SELECT jid, length(body) FROM jobs WHERE jid IN (SELECT value FROM json_each(?))"
_BODIES = (
    "SELECT jid, seq, body, signature, created_at, deliver_ms, batch_size IS NOT NULL FROM jobs"
    " WHERE jid IN (SELECT value FROM json_each(?))"
)
_TARGET_LISTS = "SELECT minions, resources FROM jobs WHERE seq = ?"
# Few rows are few parts, and are counted in a third of the time.
_CROWDED = (
    "SELECT asked.value FROM json_each(?) AS asked WHERE (SELECT 1 FROM job_targets INDEXED BY job_targets_unfinished"
    " WHERE rank = 0 AND rank < 9 AND minion = asked.value LIMIT 1 OFFSET ?) IS NOT NULL"
    " AND (SELECT 1 FROM job_targets INDEXED BY job_targets_unfinished"
    " WHERE rank = 0 AND rank < 9 AND minion = asked.value GROUP BY jid, part LIMIT 1 OFFSET ?) IS NOT NULL"
    " ORDER BY asked.key"
)
_WITH_OPEN_JOBS = (
    "SELECT DISTINCT minion FROM job_targets INDEXED BY job_targets_unfinished"
    " WHERE rank = 0 AND rank < 9 ORDER BY minion"
)


class PartReader:
    """The part of `saltlite.master.store.ports.StoreReader` that delivery goes by."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._audiences = Audiences()

    def managing_minions(self, jid: Jid) -> dict[TargetId, MinionId]:
        return dict(self._queries.rows(_MANAGING, (jid,)))

    def part_targets(self, jid: Jid, minion: MinionId, number: int) -> list[TargetId]:
        sql = _TARGETS_OF_RESOURCES if number else _TARGETS
        return [row[0] for row in self._queries.rows(sql, (jid, minion, number))]

    def open_in_part(self, jid: Jid, minion: MinionId, number: int) -> list[TargetId]:
        sql = _OPEN_TARGETS_OF_RESOURCES if number else _OPEN_TARGETS
        return [row[0] for row in self._queries.rows(sql, (jid, minion, number))]

    def open_parts(self, jid: Jid) -> list[tuple[PartId, MinionId]]:
        return [(part_id(jid, number), minion) for number, minion in self._queries.rows(_OPEN_PARTS, (jid,))]

    def unsettled(self, minion: MinionId) -> list[tuple[PartId, TargetState]]:
        rows = self._queries.rows(_UNSETTLED, (minion,))
        return [(part_id(jid, number), STATE_OF_RANK[rank]) for jid, number, rank in rows]

    def open_jobs(self, minion: MinionId, parts: Sequence[PartId], size: int = OPEN_JOBS_SIZE) -> list[OpenJob]:
        asked = {split_part(part) for part in parts}
        rows = self._queries.rows(_UNSETTLED_AMONG, (minion, _jids(list(asked))))
        unsettled = {(jid, number): (rank, at) for jid, number, rank, at in rows if (jid, number) in asked}
        wanted = self._within(size, list(unsettled)) if len(unsettled) > 1 else list(unsettled)
        if not wanted:
            return []
        found: list[OpenJob | None] = []
        bodies = {row[0]: row for row in self._queries.rows(_BODIES, (_jids(wanted),))}

        def one(asked: tuple[Jid, int]) -> OpenJob | None:
            row = bodies[asked[0]]
            audience = self._audiences.get(row[1], self._packed)
            return None if audience is None else _open_job(minion, asked[1], unsettled[asked], audience, row)

        for jid, number in wanted:
            # Not there: the job was pruned since its rows were read, so it is open no more.
            if jid in bodies:
                found += readable([(jid, number)], one, lambda asked: f"job {asked[0]}")
        return [job for job in found if job is not None]

    def _within(self, size: int, parts: list[tuple[Jid, int]]) -> list[tuple[Jid, int]]:
        """The first of these parts, up to the one with which their bodies have `size` bytes."""
        lengths: dict[Jid, int] = dict(self._queries.rows(_BODY_SIZES, (_jids(parts),)))
        count, total = 0, 0
        while count < len(parts) and total < size:
            total += lengths.get(parts[count][0], 0)
            count += 1
        return parts[:count]

    def _packed(self, seq: int) -> Packed | None:
        rows: list[Packed] = self._queries.rows(_TARGET_LISTS, (seq,))
        return rows[0] if rows else None

    def crowded(self, minions: Sequence[MinionId], most: int) -> list[MinionId]:
        return [row[0] for row in self._queries.rows(_CROWDED, (json.dumps(list(minions)), most - 1, most - 1))]

    def minions_with_open_jobs(self) -> list[MinionId]:
        return [row[0] for row in self._queries.rows(_WITH_OPEN_JOBS)]


def _jids(parts: list[tuple[Jid, int]]) -> str:
    """Their jobs, as one value: SQLite limits the number of values, and the text of the statement stays constant."""
    return json.dumps(sorted({jid for jid, _number in parts}))


def _open_job(
    minion: MinionId, number: int, unsettled: tuple[int, float], audience: Audience, row: tuple[Any, ...]
) -> OpenJob:
    jid, _seq, body, signature, made_at, deliver_ms, in_batch = row
    state, changed_at = STATE_OF_RANK[unsettled[0]], unsettled[1]
    return OpenJob(
        jid=jid,
        part=part_id(jid, number),
        body=body,
        signature=signature,
        created_at=changed_at if state is TargetState.QUEUED else made_at,
        deliver_ms=deliver_ms,
        minions=audience.minions,
        resources=audience.resources,
        resources_here=audience.part(minion, number, most_in_part(batch=bool(in_batch))),
        state=state,
    )
