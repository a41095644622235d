"""The in-memory store's answers about jobs that go through their targets a few at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from saltlite.master.store.ports import BatchJob, Standing
from saltlite.model.history import Outcome, outcome_of, outcome_of_return
from saltlite.model.ids import Jid, MinionId, PartId, TargetId
from saltlite.model.job import TERMINAL, TargetState
from saltlite.model.parts import part_id
from saltlite.testing.store.tables import Tables


class MemoryBatches(ABC):
    """The part of `saltlite.master.store.ports.StoreReader` that batches are steered by."""

    @property
    @abstractmethod
    def _tables(self) -> Tables:
        """What it reads from."""

    def batches(self, among: Sequence[Jid] | None = None) -> list[BatchJob]:
        jobs = [job for jid, job in sorted(self._tables.jobs.items()) if among is None or jid in among]
        return [
            BatchJob(job.jid, job.created_at, job.deliver_ms, job.batch)
            for job in jobs
            if job.batch is not None and self._planned(job.jid)
        ]

    def planned_of(self, minion: MinionId) -> list[PartId]:
        found = []
        for job in self.batches():
            planned = set(self._planned(job.jid))
            parts = self._tables.parts[job.jid].get(minion, {})
            found += [part_id(job.jid, number) for number, ids in parts.items() if planned.intersection(ids)]
        return found

    def standing(self, jid: Jid, queued_since: float, ended_since: float, now: float) -> Standing:
        rows = self._tables.targets.get(jid, {}).values()
        since = dict.fromkeys(TERMINAL, ended_since) | {TargetState.QUEUED: queued_since}
        returns = self._tables.returns.get(jid, {})
        failed = [
            row.id
            for row in rows
            if (outcome_of_return(returns[row.id]) if row.id in returns else outcome_of(row.state)) is Outcome.FAILED
        ]
        return Standing(
            active=sum(
                row.state in (TargetState.RECEIVED, TargetState.RUNNING)
                or since.get(row.state, now) < row.changed_at <= now
                for row in rows
            ),
            planned=len(self._planned(jid)),
            changed_at=max((row.changed_at for row in rows), default=0.0),
            failed=min(failed, default=None),
        )

    def planned_seen(self, jid: Jid) -> float:
        minions, owners = self._tables.minions, self._tables.owners.get(jid, {})
        waiting = {owners[target] for target in self._planned(jid)}
        return max((minions[minion].last_seen for minion in waiting if minion in minions), default=0.0)

    def next_planned(self, jid: Jid, limit: int) -> list[TargetId]:
        owners = self._tables.owners.get(jid, {})
        rows = ((target, self._tables.minions.get(owners[target])) for target in self._planned(jid))
        return [target for target, row in rows if row is not None and row.up][:limit]

    def _planned(self, jid: Jid) -> list[TargetId]:
        rows = self._tables.targets.get(jid, {}).values()
        return sorted(row.id for row in rows if row.state is TargetState.PLANNED)
