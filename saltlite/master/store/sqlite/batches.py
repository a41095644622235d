"""Questions about jobs that go through their targets a few at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence

from saltlite.master.store.ports import BatchJob, Standing
from saltlite.master.store.sqlite.history import OUTCOME_CODE, Queries
from saltlite.model.history import Outcome
from saltlite.model.ids import Jid, MinionId, PartId, TargetId
from saltlite.model.job import Batch
from saltlite.model.parts import part_id

_BATCHES = (
    "SELECT jid, created_at, deliver_ms, batch_size, batch_wait_ms, batch_failhard FROM jobs WHERE jid IN"
    " (SELECT jid FROM job_targets INDEXED BY job_targets_unfinished WHERE rank = -1 AND rank < 9) ORDER BY jid"
)
_BATCHES_AMONG = (
    "SELECT jid, created_at, deliver_ms, batch_size, batch_wait_ms, batch_failhard FROM jobs AS j"
    " WHERE jid IN (SELECT value FROM json_each(?)) AND batch_size IS NOT NULL"
    " AND EXISTS (SELECT 1 FROM job_targets AS t WHERE t.jid = j.jid AND t.rank = -1) ORDER BY jid"
)
_PLANNED_OF = (
    "SELECT DISTINCT jid, part FROM job_targets INDEXED BY job_targets_unfinished"
    " WHERE rank = -1 AND rank < 9 AND minion = ? ORDER BY jid, part"
)
_STANDING = (
    "SELECT total(rank IN (1, 2)"
    " OR (changed_at <= ? AND ((rank = 0 AND changed_at > ?) OR (rank = 9 AND changed_at > ?)))),"
    " total(rank = -1), max(changed_at), min(CASE outcome WHEN ? THEN target END) FROM job_targets WHERE jid = ?"
)
_PLANNED_SEEN = (
    "SELECT max(m.last_seen) FROM job_targets AS t JOIN minions AS m ON m.id = t.minion WHERE t.jid = ? AND t.rank = -1"
)
_NEXT_PLANNED = (
    "SELECT t.target FROM job_targets AS t CROSS JOIN minions AS m ON m.id = t.minion"
    " WHERE t.jid = ? AND t.rank = -1 AND m.up ORDER BY t.target LIMIT ?"
)


class BatchReader:
    """The part of `saltlite.master.store.ports.StoreReader` that batches are steered by."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def batches(self, among: Sequence[Jid] | None = None) -> list[BatchJob]:
        if among is None:
            rows = self._queries.rows(_BATCHES)
        else:
            rows = self._queries.rows(_BATCHES_AMONG, (json.dumps(list(among)),))
        return [
            BatchJob(jid, created_at, deliver_ms, Batch(size, wait_ms, bool(failhard)))
            for jid, created_at, deliver_ms, size, wait_ms, failhard in rows
        ]

    def planned_of(self, minion: MinionId) -> list[PartId]:
        return [part_id(jid, number) for jid, number in self._queries.rows(_PLANNED_OF, (minion,))]

    def standing(self, jid: Jid, queued_since: float, ended_since: float, now: float) -> Standing:
        values = (now, queued_since, ended_since, OUTCOME_CODE[Outcome.FAILED], jid)
        active, planned, changed_at, failed = self._queries.rows(_STANDING, values)[0]
        return Standing(int(active), int(planned), changed_at or 0.0, failed)

    def planned_seen(self, jid: Jid) -> float:
        return float(self._queries.value(_PLANNED_SEEN, (jid,)) or 0.0)

    def next_planned(self, jid: Jid, limit: int) -> list[TargetId]:
        return [row[0] for row in self._queries.rows(_NEXT_PLANNED, (jid, limit))]
