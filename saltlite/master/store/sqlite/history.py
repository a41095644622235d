"""Questions about jobs of the past. The conditions are constant texts: SQLite keeps each combination prepared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from saltlite.master.store.invariants import RANK, runs_like
from saltlite.master.store.sqlite.connection import Values, columns, readable, select
from saltlite.model.history import JobFilter, JobSummary, Outcome, TargetDetail
from saltlite.model.ids import Jid, TargetId
from saltlite.model.job import TERMINAL, Target, TargetKind, TargetState

OUTCOME_CODE = {Outcome.OPEN: 0, Outcome.OK: 1, Outcome.MISSING: 2, Outcome.FAILED: 3}
"""How an outcome is stored. What is above 1 is in an index of its own, and is rare."""

STATE_OF_RANK = {rank: state for state, rank in RANK.items() if state not in TERMINAL}
"""What is not terminal has a rank of its own, so that an index with the rank answers for the state."""

_STATES = {str(state): state for state in TargetState}
_OUTCOME_OF_CODE = {code: outcome for outcome, code in OUTCOME_CODE.items()}

_SUMMARY_COLUMNS = columns(JobSummary, "target", "counts", "outcomes")
_SUMMARY = select((*_SUMMARY_COLUMNS, "tgt", "tgt_type"), "jobs")
_SUMMARY_BY_JID = _SUMMARY + " WHERE jid = ?"
_BAD = (
    "EXISTS (SELECT 1 FROM job_targets AS t INDEXED BY job_targets_bad"
    " WHERE t.outcome = ? AND t.outcome > 1 AND t.jid = l.jid)"
)
_OPEN = "(l.jid IN (SELECT jid FROM job_targets INDEXED BY job_targets_unfinished WHERE rank < 9))"
# Of a minion, with what it manages. Each of these is found in an index, however many resources it has.
_OF_MINION = (
    "(EXISTS (SELECT 1 FROM job_targets AS t WHERE t.jid = l.jid AND t.target = ?)"
    " OR EXISTS (SELECT 1 FROM job_targets AS t INDEXED BY job_targets_parts"
    " WHERE t.jid = l.jid AND t.minion = ? AND t.target <> t.minion))"
)
_BAD_OF_MINION = (
    "EXISTS (SELECT 1 FROM job_targets AS t INDEXED BY job_targets_bad"
    " WHERE t.outcome = ? AND t.outcome > 1 AND t.jid = l.jid AND t.minion = ?)"
)
_OPEN_OF_MINION = (
    "(l.jid IN (SELECT jid FROM job_targets INDEXED BY job_targets_unfinished"
    " WHERE rank IN (-1, 0, 1, 2) AND rank < 9 AND minion = ?))"
)
_OF_RESOURCE = "EXISTS (SELECT 1 FROM job_targets AS t WHERE t.jid = l.jid AND t.target = ?)"
_OF_RESOURCE_SO = "EXISTS (SELECT 1 FROM job_targets AS t WHERE t.jid = l.jid AND t.target = ? AND t.outcome = ?)"
_COUNTS = (
    "SELECT t.jid, t.state, t.outcome, count(*) FROM json_each(?) AS asked"
    " CROSS JOIN job_targets AS t ON t.jid = asked.value GROUP BY t.jid, t.state, t.outcome"
)
_DETAILS = (
    "SELECT t.target, t.state, t.reason, t.changed_at, t.outcome, r.retcode, r.started_at, r.duration_ms"
    " FROM job_targets AS t LEFT JOIN returns AS r ON r.jid = t.jid AND r.target = t.target"
    " WHERE t.jid = ? ORDER BY t.target"
)
_CANCELLED = (
    "SELECT j.jid FROM json_each(?) AS asked CROSS JOIN jobs AS j ON j.jid = asked.value"
    " WHERE j.cancelled_at IS NOT NULL"
)


class Queries(Protocol):
    """What a reader runs its statements on: a connection, or one transaction of it."""

    def rows(self, sql: str, values: Values = ()) -> list[Any]: ...

    def value(self, sql: str, values: Values = ()) -> Any: ...


class HistoryReader:
    """The part of `saltlite.master.store.ports.StoreReader` that lists and shows jobs."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def jobs(self, wanted: JobFilter, limit: int) -> list[JobSummary]:
        # The index has all that the filter looks at, so that no job is read that is not shown.
        conditions, values = self._conditions(wanted)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        jids = f"SELECT l.jid FROM jobs AS l INDEXED BY jobs_listing {where} ORDER BY l.jid DESC LIMIT ?"  # noqa: S608 - the parts are constants of this file
        rows = self._queries.rows(f"{_SUMMARY} WHERE jid IN ({jids}) ORDER BY jid DESC", [*values, limit])
        return self._summaries(rows)

    def job_summary(self, jid: Jid) -> JobSummary | None:
        found = self._summaries(self._queries.rows(_SUMMARY_BY_JID, (jid,)))
        return found[0] if found else None

    def target_details(self, jid: Jid) -> list[TargetDetail]:
        return readable(self._queries.rows(_DETAILS, (jid,)), _detail, lambda row: f"target {row[0]} of job {jid}")

    def cancelled(self, jids: Sequence[Jid]) -> set[Jid]:
        return {row[0] for row in self._queries.rows(_CANCELLED, (json.dumps(list(jids)),))}

    def open_counts(self) -> dict[TargetState, int]:
        sql = "SELECT rank, count(*) FROM job_targets INDEXED BY job_targets_unfinished WHERE rank < 9 GROUP BY rank"
        return {STATE_OF_RANK[rank]: count for rank, count in self._queries.rows(sql) if rank in STATE_OF_RANK}

    def _conditions(self, wanted: JobFilter) -> tuple[list[str], list[str | float | int]]:
        conditions: list[str] = []
        values: list[str | float | int] = []

        def add(condition: str, *of_it: str | float) -> None:
            conditions.append(condition)
            values.extend(of_it)

        if wanted.before is not None:
            add("l.jid < ?", wanted.before)
        if wanted.since is not None:
            add("l.created_at >= ?", wanted.since)
        if wanted.until is not None:
            add("l.created_at < ?", wanted.until)
        if wanted.user:
            add("l.user = ?", wanted.user)
        if wanted.fun:
            add("l.fun IN (SELECT value FROM json_each(?))", json.dumps(self._functions_like(wanted.fun)))
        for condition, of_it in _target_conditions(wanted.minion, wanted.outcome):
            add(condition, *of_it)
        return conditions, values

    def _functions_like(self, glob: str) -> list[str]:
        """Jobs name few different functions, so the glob is tried on each of them once."""
        sql = "SELECT DISTINCT fun FROM jobs INDEXED BY jobs_listing"
        return [fun for (fun,) in self._queries.rows(sql) if runs_like(fun, glob)]

    def _summaries(self, rows: list[Any]) -> list[JobSummary]:
        counts: dict[Jid, dict[TargetState, int]] = {row[0]: {} for row in rows}
        outcomes: dict[Jid, dict[Outcome, int]] = {row[0]: {} for row in rows}
        for jid, name, code, count in self._queries.rows(_COUNTS, (json.dumps(list(counts)),)):
            state, outcome = _STATES.get(name), _OUTCOME_OF_CODE.get(code)
            if state is not None:
                counts[jid][state] = counts[jid].get(state, 0) + count
            if outcome is not None:
                outcomes[jid][outcome] = outcomes[jid].get(outcome, 0) + count
        return readable(rows, lambda row: _summary(row, counts[row[0]], outcomes[row[0]]), lambda row: f"job {row[0]}")


def _detail(row: Any) -> TargetDetail:
    target, state, reason, changed_at, outcome, retcode, started_at, duration_ms = row
    return TargetDetail(
        id=target,
        state=TargetState(state),
        reason=reason,
        changed_at=changed_at,
        outcome=_OUTCOME_OF_CODE[outcome],
        retcode=retcode,
        started_at=started_at,
        duration_ms=duration_ms,
    )


def _summary(row: Any, counts: dict[TargetState, int], outcomes: dict[Outcome, int]) -> JobSummary:
    *plain, tgt, kind = row
    named = dict(zip(_SUMMARY_COLUMNS, plain, strict=True))
    return JobSummary(**named, target=Target(tgt, TargetKind(kind)), counts=counts, outcomes=outcomes)


def _target_conditions(target: TargetId | None, outcome: Outcome | None) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """What `JobFilter.minion` and `JobFilter.outcome` say about a job's targets: conditions, with their values."""
    if target is not None and ":" in target:
        yield (_OF_RESOURCE, (target,)) if outcome is None else (_OF_RESOURCE_SO, (target, OUTCOME_CODE[outcome]))
        return
    of_it = () if target is None else (target,)
    bad, is_open = (_BAD, _OPEN) if target is None else (_BAD_OF_MINION, _OPEN_OF_MINION)
    if target is not None and outcome in (None, Outcome.OK):
        yield _OF_MINION, (target, target)
    if outcome is Outcome.OK:
        for code in (OUTCOME_CODE[Outcome.MISSING], OUTCOME_CODE[Outcome.FAILED]):
            yield f"NOT {bad}", (code, *of_it)
        yield f"NOT {is_open}", of_it
    elif outcome is Outcome.OPEN:
        yield is_open, of_it
    elif outcome is not None:
        yield bad, (OUTCOME_CODE[outcome], *of_it)
