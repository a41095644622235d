"""The in-memory store's answers about jobs that go through their targets a few at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from saltlite.adapters.memory_tables import Tables
from saltlite.core.ports import BatchJob, Standing
from saltlite.model.history import Outcome, outcome_of, outcome_of_return
from saltlite.model.ids import Jid, MinionId
from saltlite.model.job import TERMINAL, TargetState


class MemoryBatches(ABC):
    """The part of `saltlite.core.ports.StoreReader` that batches are steered by."""

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

    def planned_of(self, minion: MinionId) -> list[Jid]:
        return [job.jid for job in self.batches() if minion in self._planned(job.jid)]

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
        minions = self._tables.minions
        return max((minions[minion].last_seen for minion in self._planned(jid) if minion in minions), default=0.0)

    def next_planned(self, jid: Jid, limit: int) -> list[MinionId]:
        minions = self._tables.minions
        return [minion for minion in self._planned(jid) if minion in minions and minions[minion].up][:limit]

    def _planned(self, jid: Jid) -> list[MinionId]:
        rows = self._tables.targets.get(jid, {}).values()
        return sorted(row.id for row in rows if row.state is TargetState.PLANNED)
