"""The tables of the store in memory, and the questions about jobs, parts and batches that are answered from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

from saltlite.master.store.ports import (
    OPEN_JOBS_SIZE,
    RANK,
    BatchJob,
    FunctionSet,
    MinionRow,
    OpenJob,
    Standing,
    TargetRow,
    TokenRecord,
    runs_like,
)
from saltlite.master.store.sharing import MasterRow, ReaderRow
from saltlite.model.ids import Jid, MinionId, PartId, RequestId, TargetId
from saltlite.model.job import (
    TERMINAL,
    Job,
    JobFilter,
    JobSummary,
    Return,
    TargetDetail,
    TargetOutcome,
    TargetState,
    outcome_of,
    outcome_of_return,
    part_id,
    split_part,
)
from saltlite.model.keys import AuthToken, Fingerprint, KeyRecord


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """A stored event: packed, so that it cannot be changed afterwards."""

    tag: str
    data: bytes
    at: float


@dataclass(slots=True)
class Tables:
    """One state of the store. The inner dicts are shared between states."""

    seq: int = 0
    epoch: int = 0
    moves: int = 0
    keys: dict[Fingerprint, KeyRecord] = field(default_factory=dict)
    tokens: dict[str, TokenRecord] = field(default_factory=dict)
    auth_tokens: dict[str, AuthToken] = field(default_factory=dict)
    preaccepts: dict[MinionId, Fingerprint] = field(default_factory=dict)
    minions: dict[MinionId, MinionRow] = field(default_factory=dict)
    functions: dict[str, FunctionSet] = field(default_factory=dict)
    jobs: dict[Jid, Job] = field(default_factory=dict)
    requests: dict[tuple[RequestId, int], Jid] = field(default_factory=dict)
    targets: dict[Jid, dict[TargetId, TargetRow]] = field(default_factory=dict)
    moved: dict[Jid, dict[TargetId, int]] = field(default_factory=dict)
    """The number of the change that moved a target last, of those that have moved."""
    owners: dict[Jid, dict[TargetId, MinionId]] = field(default_factory=dict)
    """The minion that each target is, or that manages it."""
    parts: dict[Jid, dict[MinionId, dict[int, tuple[TargetId, ...]]]] = field(default_factory=dict)
    """The targets of each part of a job. Neither this nor `owners` changes while the job is there."""
    returns: dict[Jid, dict[TargetId, Return]] = field(default_factory=dict)
    cancels: dict[Jid, tuple[float, str]] = field(default_factory=dict)
    """When an operator ended a job, and who."""
    reducible: dict[Jid, None] = field(default_factory=dict)
    """Jobs whose bodies are to be reduced when they have ended."""
    masters: dict[str, MasterRow] = field(default_factory=dict)
    readers: dict[str, ReaderRow] = field(default_factory=dict)
    login_limits: dict[str, float] = field(default_factory=dict)
    """When the bucket of each name is full."""
    runner_requests: dict[tuple[MinionId, RequestId], float] = field(default_factory=dict)
    """When each was entered."""
    events: dict[int, LoggedEvent] = field(default_factory=dict)

    def copy(self) -> Tables:
        tables = replace(self)
        for name in _TABLE_NAMES:
            setattr(tables, name, dict(getattr(self, name)))
        return tables


_TABLE_NAMES = tuple(f.name for f in fields(Tables) if f.name not in {"seq", "epoch", "moves"})


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
            **{field.name: getattr(job, field.name) for field in fields(JobSummary) if hasattr(job, field.name)},
            cancelled_at=cancelled_at,
            cancelled_by=cancelled_by,
            batch_size=None if job.batch is None else job.batch.size,
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
        if wanted.outcome is TargetOutcome.OK:
            return outcomes <= {TargetOutcome.OK}
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

    def without_return(self, jid: Jid, limit: int) -> tuple[int, list[TargetDetail]]:
        rows = self.target_details(jid)
        found = [row for row in rows if row.retcode is None and row.outcome is not TargetOutcome.OK]
        return len(found), found[:limit]

    def equal_returns(self, jid: Jid, size: int) -> list[tuple[Return, list[TargetId]]] | None:
        groups: dict[tuple[object, ...], tuple[Return, list[TargetId]]] = {}
        for target, ret in sorted(self._tables.returns.get(jid, {}).items()):
            groups.setdefault((ret.state, ret.retcode, ret.body, ret.reason), (ret, []))[1].append(target)
        total = sum(len(ret.body) * len(targets) for ret, targets in groups.values())
        return None if total > size else list(groups.values())

    def one_return(self, jid: Jid, target: TargetId) -> Return | None:
        return self._tables.returns.get(jid, {}).get(target)

    def details_of(self, target: TargetId, jids: Sequence[Jid]) -> dict[Jid, TargetDetail]:
        return {jid: one for jid in jids for one in self.target_details(jid) if one.id == target}

    def cancelled(self, jids: Sequence[Jid]) -> set[Jid]:
        return {jid for jid in jids if jid in self._tables.cancels}


_HANDED_OVER = frozenset({TargetState.QUEUED, TargetState.RECEIVED, TargetState.RUNNING})


class MemoryParts(ABC):
    """The part of `saltlite.master.store.ports.StoreReader` that delivery goes by."""

    @property
    @abstractmethod
    def _tables(self) -> Tables:
        """What it reads from."""

    def managing_minions(self, jid: Jid) -> dict[TargetId, MinionId]:
        owners = self._tables.owners.get(jid, {})
        return {target: minion for target, minion in owners.items() if target != minion}

    def part_targets(self, jid: Jid, minion: MinionId, number: int) -> list[TargetId]:
        return list(self._tables.parts.get(jid, {}).get(minion, {}).get(number, ()))

    def open_in_part(self, jid: Jid, minion: MinionId, number: int) -> list[TargetId]:
        rows = self._tables.targets.get(jid, {})
        return [target for target in self.part_targets(jid, minion, number) if rows[target].state not in TERMINAL]

    def open_parts(self, jid: Jid) -> list[tuple[PartId, MinionId]]:
        rows = self._tables.targets.get(jid, {})
        return [
            (part_id(jid, number), minion)
            for minion, parts in sorted(self._tables.parts.get(jid, {}).items())
            for number, targets in sorted(parts.items())
            if any(rows[target].state not in TERMINAL for target in targets)
        ]

    def unsettled(self, minion: MinionId) -> list[tuple[PartId, TargetState]]:
        return [(part, rows[0].state) for part, rows in self._handed_over(minion)]

    def unsettled_of(self, minions: Collection[MinionId]) -> dict[MinionId, list[tuple[PartId, TargetState]]]:
        return {minion: self.unsettled(minion) for minion in minions}

    def _handed_over(self, minion: MinionId) -> Iterator[tuple[PartId, list[TargetRow]]]:
        """The parts of that minion with their rows that are neither planned nor ended, the least advanced first."""
        for jid, parts in sorted(self._tables.parts.items()):
            rows = self._tables.targets[jid]
            for number, targets in sorted(parts.get(minion, {}).items()):
                found = [rows[target] for target in targets if rows[target].state in _HANDED_OVER]
                if found:
                    yield part_id(jid, number), sorted(found, key=lambda row: (RANK[row.state], row.changed_at))

    def open_jobs(self, minion: MinionId, parts: Sequence[PartId], size: int = OPEN_JOBS_SIZE) -> list[OpenJob]:
        found: list[OpenJob] = []
        total = 0
        for part, (row, *_) in self._handed_over(minion):
            if part in parts and total < size:
                found.append(self._open_job(part, minion, row))
                total += len(found[-1].body)
        return found

    def _open_job(self, part: PartId, minion: MinionId, row: TargetRow) -> OpenJob:
        jid, number = split_part(part)
        job = self._tables.jobs[jid]
        return OpenJob(
            jid=jid,
            part=part,
            body=job.body,
            signature=job.signature,
            created_at=row.changed_at if row.state is TargetState.QUEUED else job.created_at,
            deliver_ms=job.deliver_ms,
            minions=job.minions,
            resources=job.resources,
            resources_here=self._tables.parts[jid][minion][number] if number else (),
            state=row.state,
        )

    def crowded(self, minions: Sequence[MinionId], most: int) -> list[MinionId]:
        queued = self._queued_parts()
        return [minion for minion in minions if queued[minion] >= most]

    def minions_with_open_jobs(self) -> list[MinionId]:
        return sorted(self._queued_parts())

    def _queued_parts(self) -> Counter[MinionId]:
        """How many parts with QUEUED targets each minion has."""
        found: Counter[MinionId] = Counter()
        for jid, parts in self._tables.parts.items():
            rows = self._tables.targets[jid]
            for minion, own in parts.items():
                for targets in own.values():
                    found[minion] += any(rows[target].state is TargetState.QUEUED for target in targets)
        return +found


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
            if (outcome_of_return(returns[row.id]) if row.id in returns else outcome_of(row.state))
            is TargetOutcome.FAILED
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
