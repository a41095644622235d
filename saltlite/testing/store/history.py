"""The in-memory store's answers about jobs of the past."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence

from saltlite.master.store.invariants import runs_like
from saltlite.model.history import JobFilter, JobSummary, Outcome, TargetDetail, outcome_of, outcome_of_return
from saltlite.model.ids import Jid
from saltlite.model.job import TERMINAL, Job, TargetState
from saltlite.testing.store.tables import Tables


class MemoryHistory(ABC):
    """The part of `saltlite.master.store.ports.StoreReader` that lists and shows jobs."""

    @property
    @abstractmethod
    def _tables(self) -> Tables:
        """What it reads from."""

    def open_counts(self) -> dict[TargetState, int]:
        states = (row.state for rows in self._tables.targets.values() for row in rows.values())
        return dict(Counter(state for state in states if state not in TERMINAL))

    def jobs(self, wanted: JobFilter, limit: int) -> list[JobSummary]:
        newest = sorted(self._tables.jobs.values(), key=lambda job: job.jid, reverse=True)
        return [self._summary(job) for job in newest if self._lets_through(wanted, job)][:limit]

    def job_summary(self, jid: Jid) -> JobSummary | None:
        job = self._tables.jobs.get(jid)
        return self._summary(job) if job is not None else None

    def _summary(self, job: Job) -> JobSummary:
        cancelled_at, cancelled_by = self._tables.cancels.get(job.jid, (None, ""))
        details = self.target_details(job.jid)
        return JobSummary(
            jid=job.jid,
            fun=job.fun,
            target=job.target,
            user=job.user,
            uid=job.uid,
            origin=job.origin,
            created_at=job.created_at,
            deliver_ms=job.deliver_ms,
            run_ms=job.run_ms,
            cancelled_at=cancelled_at,
            cancelled_by=cancelled_by,
            counts=dict(Counter(detail.state for detail in details)),
            outcomes=dict(Counter(detail.outcome for detail in details)),
        )

    def _lets_through(self, wanted: JobFilter, job: Job) -> bool:
        if wanted.before is not None and job.jid >= wanted.before:
            return False
        if wanted.since is not None and job.created_at < wanted.since:
            return False
        if wanted.until is not None and job.created_at >= wanted.until:
            return False
        if (wanted.user and job.user != wanted.user) or (wanted.fun and not runs_like(job.fun, wanted.fun)):
            return False
        details = self.target_details(job.jid)
        owners = self._tables.owners[job.jid]
        outcomes = {detail.outcome for detail in details if wanted.minion in (None, detail.id, owners[detail.id])}
        if wanted.minion is not None and not outcomes:
            return False
        if wanted.outcome is Outcome.OK:
            return outcomes <= {Outcome.OK}
        return wanted.outcome is None or wanted.outcome in outcomes

    def target_details(self, jid: Jid) -> list[TargetDetail]:
        returns = self._tables.returns.get(jid, {})
        details = []
        for row in sorted(self._tables.targets.get(jid, {}).values(), key=lambda row: row.id):
            ret = returns.get(row.id)
            details.append(
                TargetDetail(
                    id=row.id,
                    state=row.state,
                    reason=row.reason,
                    changed_at=row.changed_at,
                    outcome=outcome_of(row.state) if ret is None else outcome_of_return(ret),
                    retcode=ret.retcode if ret is not None else None,
                    started_at=ret.started_at if ret is not None else None,
                    duration_ms=ret.duration_ms if ret is not None else None,
                )
            )
        return details

    def cancelled(self, jids: Sequence[Jid]) -> set[Jid]:
        return {jid for jid in jids if jid in self._tables.cancels}
