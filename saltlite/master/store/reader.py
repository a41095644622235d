"""The read side of a store in SQL. The statements have constant texts, which the database keeps prepared. A query
of several shows one moment only inside a transaction.

The statements are SQLite's; `saltlite.master.store.postgres.pipeline` translates what differs: INDEXED BY, CROSS JOIN
(which fixes an order in SQLite), json_each and COLLATE NOCASE. Each database has methods and constants for all else.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Protocol

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.master.store.ports import (
    OPEN_JOBS_SIZE,
    RANK,
    RETURNS_SIZE,
    TERMINAL_RANK,
    BatchJob,
    FunctionSet,
    JobNews,
    KeyRow,
    MinionRow,
    OpenJob,
    Standing,
    TargetRow,
    TokenRecord,
    event_in,
    names_with,
    runs_like,
)
from saltlite.master.store.rows import (
    JOB_COLUMNS,
    KEY_COLUMNS,
    LOGIN_COLUMNS,
    MINION_COLUMNS,
    MORE_JOB_COLUMNS,
    OUTCOME_CODE,
    OUTCOME_OF_CODE,
    STATE_OF_RANK,
    SUMMARY_COLUMNS,
    TARGET_STATES,
    TOKEN_COLUMNS,
    Audiences,
    Packed,
    auth_token_of,
    detail_of,
    job_of,
    key_of,
    minion_of,
    open_job_of,
    readable,
    reading,
    return_of,
    row_of,
    summary_of,
    target_of,
)
from saltlite.model.events import Event
from saltlite.model.ids import Jid, MinionId, PartId, RequestId, TargetId
from saltlite.model.job import (
    Batch,
    Job,
    JobFilter,
    JobSummary,
    Return,
    TargetDetail,
    TargetOutcome,
    TargetState,
    part_id,
    split_part,
)
from saltlite.model.keys import AuthToken, Fingerprint, KeyRecord, KeyState
from saltlite.model.signature import by_name

Values = Sequence[str | bytes | int | float | None]
Until = Callable[[Any], bool]
"""Whether a row is the last one that is wanted. It is called once for each row."""


def _quoted(name: str) -> str:
    return '"user"' if name == "user" else name  # a word of SQL


def select(names: Sequence[str], table: str) -> str:
    """A SELECT of these columns."""
    return f"SELECT {', '.join(map(_quoted, names))} FROM {table}"  # noqa: S608 - names are those of dataclasses


def insert(names: Sequence[str], table: str) -> str:
    """An INSERT of one row of these columns."""
    marks = ", ".join("?" * len(names))
    return f"INSERT INTO {table} ({', '.join(map(_quoted, names))}) VALUES ({marks})"  # noqa: S608 - as above


class Queries(Protocol):
    """What a reader runs its statements on: a connection, or one transaction of it."""

    def rows(self, sql: str, values: Values = (), *, until: Until | None = None) -> list[Any]: ...

    def value(self, sql: str, values: Values = ()) -> Any: ...


class ChangingQueries(Queries, Protocol):
    """What a writer runs its statements on: a transaction."""

    def run(self, sql: str, values: Values = ()) -> int:
        """Run a statement; the number of rows that it changed."""
        ...

    def run_many(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once a row."""
        ...


class TransactionQueries(ChangingQueries, Protocol):
    """The same inside one transaction."""

    def later(self, sql: str, values: Values = ()) -> None:
        """Run a statement before the next one whose answer is asked for, or with the commit."""
        ...


class AcceptedIds:
    """The ids of accepted keys as they were last read, with their version. As one text, because ten thousand ids take
    half the time that as many rows do; and remembered, because each publish asks for them."""

    def __init__(self) -> None:
        self.version = -1
        self.ids: list[MinionId] = []
        self.held: frozenset[MinionId] = frozenset()
        """The same ids."""

    def learn(self, version: int, ids: list[MinionId]) -> None:
        """These are the ids of that version."""
        self.version, self.ids, self.held = version, ids, frozenset(ids)


# -- The job history. The conditions are constant texts: the database keeps each combination prepared


_SUMMARY = select((*SUMMARY_COLUMNS, "tgt", "tgt_type"), "jobs")
_WHOLE = "created_at > 0"
"""Of jobs: not one of which prune has deleted a part."""
_SUMMARY_BY_JID = f"{_SUMMARY} WHERE jid = ? AND {_WHOLE}"
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
_DETAIL = "t.target, t.state, t.reason, t.changed_at, t.outcome, r.retcode, r.started_at, r.duration_ms"
_RETURNED = " LEFT JOIN returns AS r ON r.jid = t.jid AND r.target = t.target"
_DETAILS = f"SELECT {_DETAIL} FROM job_targets AS t{_RETURNED} WHERE t.jid = ? ORDER BY t.target"  # noqa: S608 - constants of this file
_DETAILS_OF = (
    f"SELECT t.jid, {_DETAIL} FROM json_each(?) AS asked"  # noqa: S608 - as above
    f" CROSS JOIN job_targets AS t ON t.jid = asked.value AND t.target = ?{_RETURNED}"
)
_RETURN = "SELECT jid, target, state, retcode, body, started_at, duration_ms, reason, seq FROM returns WHERE jid = ?"
_WITHOUT_RETURN = f"FROM job_targets AS t{_RETURNED} WHERE t.jid = ? AND t.outcome <> ? AND r.jid IS NULL"
_CANCELLED = (
    "SELECT j.jid FROM json_each(?) AS asked CROSS JOIN jobs AS j ON j.jid = asked.value"
    " WHERE j.cancelled_at IS NOT NULL"
)


class HistoryReader:
    """The part of `saltlite.master.store.ports.StoreReader` that lists and shows jobs."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def jobs(self, wanted: JobFilter, limit: int) -> list[JobSummary]:
        # The index has all that the filter looks at, so that no job is read that is not shown.
        conditions, values = self._conditions(wanted)
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        jids = f"SELECT l.jid FROM jobs AS l INDEXED BY jobs_listing {where} ORDER BY l.jid DESC LIMIT ?"  # noqa: S608 - the parts are constants of this file
        rows = self._queries.rows(f"{_SUMMARY} WHERE jid IN ({jids}) AND {_WHOLE} ORDER BY jid DESC", [*values, limit])
        return self._summaries(rows)

    def job_summary(self, jid: Jid) -> JobSummary | None:
        found = self._summaries(self._queries.rows(_SUMMARY_BY_JID, (jid,)))
        return found[0] if found else None

    def target_details(self, jid: Jid) -> list[TargetDetail]:
        return readable(self._queries.rows(_DETAILS, (jid,)), detail_of, lambda row: f"target {row[0]} of job {jid}")

    def without_return(self, jid: Jid, limit: int) -> tuple[int, list[TargetDetail]]:
        values = (jid, OUTCOME_CODE[TargetOutcome.OK])
        count = int(self._queries.value(f"SELECT count(*) {_WITHOUT_RETURN}", values))
        if not count:
            return 0, []
        sql = f"SELECT {_DETAIL} {_WITHOUT_RETURN} ORDER BY t.target LIMIT ?"
        rows = self._queries.rows(sql, (*values, limit))
        return count, readable(rows, detail_of, lambda row: f"target {row[0]} of job {jid}")

    def equal_returns(self, jid: Jid, size: int) -> list[tuple[Return, list[TargetId]]] | None:
        total = self._queries.value("SELECT sum(length(body)) FROM returns WHERE jid = ?", (jid,))
        if int(total or 0) > size:
            return None
        groups: dict[tuple[Any, ...], tuple[Any, list[TargetId]]] = {}
        for row in self._queries.rows(_RETURN, (jid,)):
            _jid, target, state, retcode, body, _started_at, _duration_ms, reason, _seq = row
            groups.setdefault((state, retcode, body, reason), (row, []))[1].append(target)
        return [(return_of(row), sorted(targets)) for row, targets in groups.values()]

    def one_return(self, jid: Jid, target: TargetId) -> Return | None:
        rows = self._queries.rows(f"{_RETURN} AND target = ?", (jid, target))
        return return_of(rows[0]) if rows else None

    def details_of(self, target: TargetId, jids: Sequence[Jid]) -> dict[Jid, TargetDetail]:
        rows = self._queries.rows(_DETAILS_OF, (json.dumps(list(jids)), target))
        found = readable(rows, lambda row: (row[0], detail_of(row[1:])), lambda row: f"target {row[1]} of job {row[0]}")
        return dict(found)

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
        outcomes: dict[Jid, dict[TargetOutcome, int]] = {row[0]: {} for row in rows}
        for jid, name, code, count in self._queries.rows(_COUNTS, (json.dumps(list(counts)),)):
            state, outcome = TARGET_STATES.get(name), OUTCOME_OF_CODE.get(code)
            if state is not None:
                counts[jid][state] = counts[jid].get(state, 0) + count
            if outcome is not None:
                outcomes[jid][outcome] = outcomes[jid].get(outcome, 0) + count
        return readable(
            rows, lambda row: summary_of(row, counts[row[0]], outcomes[row[0]]), lambda row: f"job {row[0]}"
        )


def _target_conditions(
    target: TargetId | None, outcome: TargetOutcome | None
) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """What `JobFilter.minion` and `JobFilter.outcome` say about a job's targets: conditions, with their values."""
    if target is not None and ":" in target:
        yield (_OF_RESOURCE, (target,)) if outcome is None else (_OF_RESOURCE_SO, (target, OUTCOME_CODE[outcome]))
        return
    of_it = () if target is None else (target,)
    bad, is_open = (_BAD, _OPEN) if target is None else (_BAD_OF_MINION, _OPEN_OF_MINION)
    if target is not None and outcome in (None, TargetOutcome.OK):
        yield _OF_MINION, (target, target)
    if outcome is TargetOutcome.OK:
        for code in (OUTCOME_CODE[TargetOutcome.MISSING], OUTCOME_CODE[TargetOutcome.FAILED]):
            yield f"NOT {bad}", (code, *of_it)
        yield f"NOT {is_open}", of_it
    elif outcome is TargetOutcome.OPEN:
        yield is_open, of_it
    elif outcome is not None:
        yield bad, (OUTCOME_CODE[outcome], *of_it)


# -- batches

_BATCHES = (
    "SELECT jid, created_at, deliver_ms, batch_size, batch_wait_ms, batch_failhard FROM jobs WHERE jid IN"
    " (SELECT jid FROM job_targets INDEXED BY job_targets_unfinished WHERE rank = -1 AND rank < 9) ORDER BY jid"
)
_BATCHES_AMONG = (
    "SELECT jid, created_at, deliver_ms, batch_size, batch_wait_ms, batch_failhard FROM jobs AS j"
    " WHERE jid IN (SELECT value FROM json_each(?)) AND batch_size IS NOT NULL"
    " AND coalesce((SELECT c.planned > 0 FROM job_counts AS c WHERE c.jid = j.jid),"
    " EXISTS (SELECT 1 FROM job_targets AS t WHERE t.jid = j.jid AND t.rank = -1)) ORDER BY jid"
)
_PLANNED_OF = (
    "SELECT DISTINCT jid, part FROM job_targets INDEXED BY job_targets_unfinished"
    " WHERE rank = -1 AND rank < 9 AND minion = ? ORDER BY jid, part"
)
_STANDING = (
    "SELECT count(*) FILTER (WHERE rank IN (1, 2)"
    " OR (changed_at <= ? AND ((rank = 0 AND changed_at > ?) OR (rank = 9 AND changed_at > ?)))),"
    " count(*) FILTER (WHERE rank = -1), max(changed_at), min(CASE outcome WHEN ? THEN target END)"
    " FROM job_targets WHERE jid = ?"
)
# The same of a counted job, if none occupies a slot because it ended a moment ago. What is QUEUED there has moved.
_STANDING_COUNTED = (
    "SELECT active + (SELECT count(*) FROM job_targets AS t INDEXED BY job_targets_moved WHERE t.jid = c.jid"
    " AND t.moved > 0 AND t.rank = 0 AND t.changed_at <= ? AND t.changed_at > ?), planned, changed_at,"
    " CASE WHEN failed > 0 THEN (SELECT t.target FROM job_targets AS t INDEXED BY job_targets_bad"
    " WHERE t.outcome = ? AND t.outcome > 1 AND t.jid = c.jid ORDER BY t.minion, t.target LIMIT 1) END"
    " FROM job_counts AS c WHERE c.jid = ?"
)
_PLANNED_SEEN = (
    "SELECT max(m.last_seen) FROM job_targets AS t JOIN minions AS m ON m.id = t.minion WHERE t.jid = ? AND t.rank = -1"
)
_NEXT_PLANNED = (
    "SELECT t.target FROM job_targets AS t CROSS JOIN minions AS m ON m.id = t.minion"
    " WHERE t.jid = ? AND t.rank = -1 AND m.up = 1 ORDER BY t.target LIMIT ?"
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
        failed_code = OUTCOME_CODE[TargetOutcome.FAILED]
        rows = []
        if ended_since >= now:
            rows = self._queries.rows(_STANDING_COUNTED, (now, queued_since, failed_code, jid))
        if not rows:
            rows = self._queries.rows(_STANDING, (now, queued_since, ended_since, failed_code, jid))
        active, planned, changed_at, failed = rows[0]
        return Standing(int(active), int(planned), changed_at or 0.0, failed)

    def planned_seen(self, jid: Jid) -> float:
        return float(self._queries.value(_PLANNED_SEEN, (jid,)) or 0.0)

    def next_planned(self, jid: Jid, limit: int) -> list[TargetId]:
        return [row[0] for row in self._queries.rows(_NEXT_PLANNED, (jid, limit))]


# -- parts of jobs: what each minion has to do, for itself and for its resources

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
_UNSETTLED_OF = (
    "SELECT minion, jid, part, min(rank) FROM job_targets INDEXED BY job_targets_unfinished"
    " WHERE rank IN (0, 1, 2) AND rank < 9 AND minion IN (SELECT value FROM json_each(?))"
    " GROUP BY minion, jid, part ORDER BY minion, jid, part"
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

    def unsettled_of(self, minions: Collection[MinionId]) -> dict[MinionId, list[tuple[PartId, TargetState]]]:
        found: dict[MinionId, list[tuple[PartId, TargetState]]] = {minion: [] for minion in minions}
        for minion, jid, number, rank in self._queries.rows(_UNSETTLED_OF, (json.dumps(list(found)),)):
            found[minion].append((part_id(jid, number), STATE_OF_RANK[rank]))
        return found

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
            return None if audience is None else open_job_of(minion, asked[1], unsettled[asked], audience, row)

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


# -- login tokens

_TOKENS = select(LOGIN_COLUMNS, "auth_tokens")
_PUT = insert(LOGIN_COLUMNS, "auth_tokens")
_TOO_MANY = (
    'DELETE FROM auth_tokens WHERE backend = ? AND "user" = ? AND token_id NOT IN (SELECT token_id FROM auth_tokens'
    ' WHERE backend = ? AND "user" = ? ORDER BY created_at DESC, token_id LIMIT ?)'
)


class AuthTokenReader:
    """The part of `saltlite.master.store.ports.StoreReader` about these."""

    _queries: Queries

    def auth_token(self, token_id: str) -> AuthToken | None:
        rows = self._queries.rows(f"{_TOKENS} WHERE token_id = ?", (token_id,))
        return auth_token_of(rows[0]) if rows else None

    def auth_tokens(self) -> list[AuthToken]:
        return [auth_token_of(row) for row in self._queries.rows(f"{_TOKENS} ORDER BY created_at, token_id")]


def put_auth_token(transaction: TransactionQueries, token: AuthToken, most: int) -> None:
    """Insert it, and forget the oldest of that user above `most`."""
    row = dict(zip(LOGIN_COLUMNS, row_of(token, LOGIN_COLUMNS), strict=True))
    transaction.later(_PUT, tuple({**row, "groups": json.dumps(token.groups)}.values()))
    who = (token.backend, token.user)
    transaction.later(_TOO_MANY, (*who, *who, most))


def delete_auth_token(transaction: ChangingQueries, token_id: str) -> bool:
    """Whether there was one."""
    return transaction.run("DELETE FROM auth_tokens WHERE token_id = ?", (token_id,)) == 1


def expire_auth_tokens(transaction: TransactionQueries, now: float) -> None:
    """Forget those that expired at `now` or before."""
    transaction.later("DELETE FROM auth_tokens WHERE expires_at <= ?", (now,))


_KEY = select(KEY_COLUMNS, "keys")
_MINION = select(MINION_COLUMNS, "minions")
_OF_HOLDER = " WHERE id = ? AND state = 'accepted'"
_OF_HOLDER_ANY_CASE = " WHERE id = ? COLLATE NOCASE AND state = 'accepted'"
_AMONG = " WHERE fingerprint IN (SELECT value FROM json_each(?))"
_KEY_ROWS = select(KeyRow._fields, "keys")
_KEY_ROWS_IN_STATE = _KEY_ROWS + " WHERE state = ?"
_OF_ID = " WHERE id = ? COLLATE NOCASE ORDER BY id, first_seen, fingerprint"
_IN_STATES = " WHERE state IN (?, ?, ?, ?, ?) ORDER BY id, first_seen, fingerprint"
# CROSS makes SQLite read the minions, which are sorted by id, and look up each in the index of accepted keys.
_ACCEPTED_MINIONS = " AS m CROSS JOIN keys AS k USING (id, fingerprint) WHERE k.state = 'accepted'"
_MINIONS = select([f"m.{name}" for name in MINION_COLUMNS], "minions") + _ACCEPTED_MINIONS
# As an expression, the state is in no index: keys are found by fingerprint, and not all accepted ones are read.
_AMONG_IDS = " AND m.id IN (SELECT value FROM json_each(?))"
_MINIONS_AMONG = _MINIONS.replace("k.state = ", "k.state || '' = ") + _AMONG_IDS
_JOB = select((*JOB_COLUMNS, *MORE_JOB_COLUMNS), "jobs") + " WHERE jid = ?"
_RETURNS = (
    "SELECT jid, target, state, retcode, body, started_at, duration_ms, reason, seq FROM returns"
    " WHERE jid = ? AND seq > ? ORDER BY seq LIMIT ?"
)
_MOVED = (
    "SELECT target, state, reason, changed_at, rank, moved FROM job_targets INDEXED BY job_targets_moved"
    " WHERE jid = ? AND moved > ?"
)
_OPEN_COUNT = (
    "SELECT coalesce((SELECT open FROM job_counts WHERE jid = ?),"
    " (SELECT count(*) FROM job_targets WHERE jid = ? AND rank < 9))"
)
_HAS_EVENT = "SELECT EXISTS (SELECT 1 FROM events WHERE seq > ? AND tag IN (SELECT value FROM json_each(?)))"
_ACCEPTED_VERSION = "SELECT accepted_version FROM store"
_REDUCIBLE = (
    "SELECT a.jid, j.body FROM job_arguments AS a CROSS JOIN jobs AS j ON j.jid = a.jid"
    " WHERE NOT EXISTS (SELECT 1 FROM job_targets AS t WHERE t.jid = a.jid AND t.rank < 9) ORDER BY a.jid LIMIT ?"
)
UNDELIVERED = (
    "SELECT t.jid, t.target, m.id, m.end_reason FROM job_targets AS t INDEXED BY job_targets_unfinished"
    " CROSS JOIN jobs AS j ON j.jid = t.jid LEFT JOIN minions AS m ON m.id = t.minion"
    " WHERE t.rank = 0 AND t.rank < 9 AND t.changed_at + j.deliver_ms / 1000.0 <= ?"
    " AND (m.id IS NULL OR (m.up = 0 AND m.last_seen < t.changed_at))"
)
"""Targets to expire, each with the id of its minion if that ever had a session, and how its last one ended. Its value
is the time it is."""
_DIGESTS = (
    "SELECT coalesce(m.functions, ''), count(*), min(asked.value) FROM json_each(?) AS asked"
    " LEFT JOIN minions AS m ON m.id = asked.value GROUP BY 1"
)


# PartReader is first: its constructor is the one that sets up all there is.
class SqlReader(PartReader, HistoryReader, BatchReader, AuthTokenReader):
    """`saltlite.master.store.ports.StoreReader` over SQL. Raises StoreError when the database cannot be read."""

    LAST_SEQ: ClassVar[str]
    """An expression for the highest sequence number so far, NULL or 0 for none."""

    def __init__(self, queries: Queries, accepted: AcceptedIds) -> None:
        super().__init__(queries)
        self._accepted = accepted

    def store_id(self) -> str:
        return str(self._queries.value("SELECT id FROM store"))

    def key(self, fingerprint: Fingerprint) -> KeyRecord | None:
        found = self._keys(" WHERE fingerprint = ?", (fingerprint,))
        return self._key_of(found[0]) if found else None

    def _keys(self, which: str, values: Values) -> list[Any]:
        """Rows of keys that `_key_of` reads."""
        return self._queries.rows(_KEY + which, values)

    def _key_of(self, row: tuple[Any, ...]) -> KeyRecord:
        return key_of(row)

    def _readable_keys(self, which: str, values: Values) -> list[KeyRecord]:
        return readable(self._keys(which, values), self._key_of, lambda row: f"the key of {row[0]}")

    def keys(self, states: frozenset[KeyState] = frozenset(KeyState)) -> list[KeyRecord]:
        wanted = [*map(str, states), *[""] * (len(KeyState) - len(states))]
        return self._readable_keys(_IN_STATES, wanted)

    def keys_of(self, name: str) -> list[KeyRecord]:
        return self._readable_keys(_OF_ID, (name,))

    def holder(self, minion: MinionId, *, any_case: bool = False) -> KeyRecord | None:
        found = self._keys(_OF_HOLDER_ANY_CASE if any_case else _OF_HOLDER, (minion,))
        return self._key_of(found[0]) if found else None

    def accepted_ids(self) -> list[MinionId]:
        return list(self._present_accepted().ids)

    def accepted_set(self) -> frozenset[MinionId]:
        return self._present_accepted().held

    def _present_accepted(self) -> AcceptedIds:
        known = self._accepted
        if known.version != self._queries.value(_ACCEPTED_VERSION):
            known.learn(*self._read_accepted())
        return known

    @abstractmethod
    def _read_accepted(self) -> tuple[int, list[MinionId]]:
        """The version and the sorted ids of the accepted keys, as of one moment."""

    def count_keys(self, state: KeyState) -> int:
        return int(self._queries.value("SELECT count(*) FROM keys WHERE state = ?", (state,)))

    def key_rows(self, state: KeyState | None = None) -> list[KeyRow]:
        found = self._queries.rows(_KEY_ROWS) if state is None else self._queries.rows(_KEY_ROWS_IN_STATE, (state,))
        return [KeyRow._make(row) for row in found]

    def keys_among(self, fingerprints: Collection[Fingerprint]) -> list[KeyRecord]:
        return self._readable_keys(_AMONG, (json.dumps(list(fingerprints)),))

    def token(self, token_id: str) -> TokenRecord | None:
        rows = self._queries.rows(select(TOKEN_COLUMNS, "tokens") + " WHERE token_id = ?", (token_id,))
        return TokenRecord(*rows[0]) if rows else None

    def tokens(self) -> list[TokenRecord]:
        rows = self._queries.rows(select(TOKEN_COLUMNS, "tokens") + " ORDER BY created_at, token_id")
        return [TokenRecord(*row) for row in rows]

    def preaccepted(self, minion: MinionId) -> Fingerprint | None:
        found: Fingerprint | None = self._queries.value("SELECT fingerprint FROM preaccepts WHERE id = ?", (minion,))
        return found

    def job(self, jid: Jid) -> Job | None:
        rows = self._queries.rows(_JOB, (jid,))
        with reading(f"job {jid}"):
            return job_of(rows[0]) if rows else None

    def reducible(self, limit: int) -> list[tuple[Jid, bytes]]:
        return [(jid, body) for jid, body in self._queries.rows(_REDUCIBLE, (limit,))]

    def job_of_request(self, request_id: RequestId, uid: int) -> Jid | None:
        sql = "SELECT jid FROM jobs WHERE request_id = ? AND uid = ?"
        found: Jid | None = self._queries.value(sql, (request_id, uid))
        return found

    def targets(self, jid: Jid) -> list[TargetRow]:
        sql = "SELECT target, state, reason, changed_at FROM job_targets WHERE jid = ? ORDER BY target"
        rows = self._queries.rows(sql, (jid,))
        return readable(rows, target_of, lambda row: f"target {row[0]} of job {jid}")

    def open_targets(self, jid: Jid) -> int:
        return int(self._queries.value(_OPEN_COUNT, (jid, jid)))

    def news(self, jid: Jid, after: int, limit: int, size: int = RETURNS_SIZE, *, moves: int = 0) -> JobNews:
        # Without its number a row would be told again and again; the next change of its state gives it one.
        moved = [row for row in self._queries.rows(_MOVED, (jid, moves)) if isinstance(row[5], int)]
        moved.sort(key=lambda row: str(row[0]))
        returns, is_whole = self._page(jid, after, limit, size)
        return JobNews(
            moved=readable(moved, lambda row: target_of(row[:4]), lambda row: f"target {row[0]} of job {jid}"),
            moves=max((row[5] for row in moved), default=moves),
            ended=frozenset(str(row[0]) for row in moved if row[4] == TERMINAL_RANK),
            returns=returns,
            is_whole=is_whole,
        )

    def targets_in(self, jid: Jid, state: TargetState) -> list[TargetRow]:
        sql = (
            "SELECT target, reason, changed_at FROM job_targets"
            " WHERE jid = ? AND rank = ? AND state = ? ORDER BY target"
        )
        rows = self._queries.rows(sql, (jid, RANK[state], state))
        return [TargetRow(target, state, reason, at) for target, reason, at in rows]

    def returns(self, jid: Jid, after: int = 0, limit: int = 1000, size: int = RETURNS_SIZE) -> list[Return]:
        return self._page(jid, after, limit, size)[0]

    def _page(self, jid: Jid, after: int, limit: int, size: int) -> tuple[list[Return], bool]:
        """What `returns` answers, and whether these are all after the cursor."""
        total = 0

        def is_last(row: tuple[Any, ...]) -> bool:
            nonlocal total
            body = row[4]
            if type(body) is bytes:
                total += len(body)
            return total >= size

        found = [return_of(row) for row in self._queries.rows(_RETURNS, (jid, after, limit), until=is_last)]
        return found, len(found) < limit and total < size

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        sql = "SELECT tag, data, at, seq FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
        return [event_in(tag, data, at, seq) for tag, data, at, seq in self._queries.rows(sql, (after, limit))]

    def last_seq(self) -> int:
        return int(self._queries.value(f"SELECT {self.LAST_SEQ}") or 0)

    def has_event(self, tags: Collection[str], after: int) -> bool:
        return bool(self._queries.value(_HAS_EVENT, (after, json.dumps(list(tags)))))

    def first_seq(self) -> int:
        return int(self._queries.value("SELECT min(seq) FROM events") or 0)

    def seq_before(self, at: float) -> int:
        found = self._queries.value("SELECT seq FROM events WHERE at >= ? ORDER BY at, seq LIMIT 1", (at,))
        return self.last_seq() if found is None else int(found) - 1

    def expire_due(self, now: float) -> bool:
        return bool(self._queries.value(f"SELECT EXISTS ({UNDELIVERED})", (now,)))

    def functions(self, digest: str) -> FunctionSet | None:
        rows = self._queries.rows("SELECT texts, whole FROM functions WHERE digest = ?", (digest,))
        # A set that cannot be read is as good as none: a minion that has these functions says them again.
        sets = readable(rows, lambda row: by_name(msgpack.unpackb(row[0])), lambda _row: f"the function set {digest}")
        return FunctionSet(digest, sets[0], bool(rows[0][1])) if sets else None

    @abstractmethod
    def _function_sets_with(self, text: bytes) -> list[Any]:
        """Digests and packed functions of the sets in which this text stands."""

    def function_names(self, prefix: str) -> dict[str, list[str]]:
        rows = self._function_sets_with(prefix.encode())
        sets = readable(rows, lambda row: (row[0], by_name(msgpack.unpackb(row[1]))), lambda row: f"the set {row[0]}")
        return names_with(prefix, sets)

    def function_digests(self, minions: Sequence[MinionId]) -> dict[str, tuple[int, MinionId]]:
        if len(minions) == 1:
            # Most jobs are for one minion, and this takes a tenth of the time.
            known = self._queries.value("SELECT functions FROM minions WHERE id = ?", (minions[0],))
            return {known or "": (1, minions[0])}
        # One value, however many minions: SQLite limits the number of values, and the text stays constant.
        rows = self._queries.rows(_DIGESTS, (json.dumps(list(minions)),))
        return {digest: (count, first) for digest, count, first in rows}

    def minion(self, minion: MinionId) -> MinionRow | None:
        rows = self._queries.rows(_MINION + " WHERE id = ?", (minion,))
        return minion_of(rows[0]) if rows else None

    def minions(self, among: Collection[MinionId] | None = None) -> list[MinionRow]:
        sql, values = (_MINIONS, ()) if among is None else (_MINIONS_AMONG, (json.dumps(list(among)),))
        return readable(self._queries.rows(sql + " ORDER BY m.id", values), minion_of, lambda row: f"minion {row[0]}")

    def minion_values(self, column: str) -> dict[MinionId, Any]:
        return dict(self._queries.rows(select(["m.id", f"m.{column}"], "minions") + _ACCEPTED_MINIONS))
