"""What the reader and the writer of a store ask PostgreSQL in its own words.

A transaction that only stores returns, the most frequent one, runs beside others of its kind: it holds the lock WRITING
shared. It takes the lock ORDER after all that needs no sequence number, so that the order of numbers is the order of
commits. Its changes and the COMMIT leave in one flush, so that a process that is stopped keeps ORDER no longer than the
server needs. Any other transaction holds WRITING alone from its begin: what it reads stays true until it ends, as in
SQLite. A change of a key is one of these, so no key changes between the judgement of a return and its commit (S5).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import starmap
from typing import Any

from saltlite.errors import StoreError
from saltlite.master.store.ports import (
    RANK,
    RETURNS_SIZE,
    TERMINAL_RANK,
    JobNews,
    ReturnCommit,
    Stored,
    TargetRow,
    pack_own,
    return_event,
)
from saltlite.master.store.postgres.connection import PostgresConnection, stored
from saltlite.master.store.reader import AcceptedIds, ChangingQueries, SqlReader, Until, Values
from saltlite.master.store.rows import OUTCOME_CODE, moved_target_of, readable, return_of
from saltlite.master.store.writer import SqlWriter, Tally
from saltlite.model.ids import Jid, MinionId, TargetId
from saltlite.model.job import Return, TargetState, outcome_of_return

_ACCEPTED = (
    "SELECT accepted_version, (SELECT coalesce(json_agg(id), '[]')::text FROM keys WHERE state = 'accepted') FROM store"
)
# The size of what precedes a return decides whether it is read: a page has one body above its size at most.
_RETURNS = (
    "SELECT jid, target, state, retcode, body, started_at, duration_ms, reason, seq FROM (SELECT *,"
    " sum(octet_length(body)) OVER (ORDER BY seq) - octet_length(body) AS before FROM"
    " (SELECT * FROM returns WHERE jid = ? AND seq > ? ORDER BY seq LIMIT ?) AS page) AS sized"
    " WHERE before < ? ORDER BY seq"
)
_NEWS = (
    "WITH told AS (" + _RETURNS + ") SELECT jid, target, state, rank, NULL::bytea, changed_at, moved, reason, 0::bigint"  # noqa: S608 - constants of this file
    " FROM job_targets WHERE jid = ? AND moved > ? UNION ALL SELECT * FROM told"
)
_BODIES = "SELECT coalesce(sum(octet_length(body)), 0)::bigint FROM jobs WHERE jid IN (SELECT value FROM json_each(?))"
_PRUNE_DUE = (
    "SELECT EXISTS (SELECT 1 FROM events WHERE at < ?) OR EXISTS (SELECT 1 FROM jobs AS j WHERE j.created_at < ?"
    " AND NOT EXISTS (SELECT 1 FROM job_targets AS t WHERE t.jid = j.jid AND t.rank < 9))"
)
ROW_BYTES = 120
"""What a row counts besides its wide columns."""
_SIZES = {
    "events": "octet_length(data)",
    "jobs": "octet_length(body) + octet_length(minions) + octet_length(resources)",
    "returns": "octet_length(body)",
    "job_targets": "0",
}
"""The wide columns of the tables that `size` counts."""
BYTES = " + ".join(
    f"(SELECT coalesce(sum({ROW_BYTES} + {wide}), 0) FROM {table})"  # noqa: S608 - constants of this file
    for table, wide in _SIZES.items()
)
"""An expression for `size`, as it is counted from all rows."""


class PostgresReader(SqlReader):
    """`saltlite.master.store.ports.StoreReader` over PostgreSQL."""

    # A transaction sees its own events before it writes the number down at its end.
    LAST_SEQ = "(SELECT greatest(seq, coalesce((SELECT max(seq) FROM events), 0)) FROM store)"

    def _read_accepted(self) -> tuple[int, list[MinionId]]:
        ((version, ids),) = self._queries.rows(_ACCEPTED)
        return version, sorted(json.loads(ids))

    def _function_sets_with(self, text: bytes) -> list[Any]:
        return self._queries.rows("SELECT digest, texts FROM functions WHERE position(? IN texts) > 0", (text,))

    def size(self) -> int:
        return int(self._queries.value("SELECT bytes FROM store"))

    def prune_due(self, before: float) -> bool:
        return bool(self._queries.value(_PRUNE_DUE, (before, before)))

    def returns(self, jid: Jid, after: int = 0, limit: int = 1000, size: int = RETURNS_SIZE) -> list[Return]:
        return [return_of(row) for row in self._queries.rows(_RETURNS, (jid, after, limit, size))]

    def news(self, jid: Jid, after: int, limit: int, size: int = RETURNS_SIZE, *, moves: int = 0) -> JobNews:
        rows = self._queries.rows(_NEWS, (jid, after, limit, size, jid, moves))
        moved = sorted((row for row in rows if not row[8]), key=lambda row: str(row[1]))
        returns = sorted((return_of(row) for row in rows if row[8]), key=lambda ret: ret.seq)
        return JobNews(
            moved=readable(moved, moved_target_of, lambda row: f"target {row[1]} of job {jid}"),
            moves=max((row[6] for row in moved), default=moves),
            ended=frozenset(row[1] for row in moved if row[3] == TERMINAL_RANK),
            returns=returns,
            is_whole=len(returns) < limit and sum(len(ret.body) for ret in returns) < size,
        )


class PostgresTransaction:
    """One transaction that holds WRITING alone. After an error in it, it can only be rolled back."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self._open = True
        self._failure: StoreError | None = None

    def _check(self) -> None:
        if not self._open:
            raise StoreError("this transaction of the store is over; use store.write() for another")
        if self._failure is not None:
            raise StoreError(f"nothing was stored, because a part of it failed: {self._failure}")

    def rows(self, sql: str, values: Values = (), *, until: Until | None = None) -> list[Any]:
        """As PostgresConnection.rows."""
        self._check()
        try:
            return self._connection.rows(sql, values, until=until)
        except StoreError as error:
            self._failure = error
            raise

    def value(self, sql: str, values: Values = ()) -> Any:
        """As PostgresConnection.value."""
        rows = self.rows(sql, values)
        return rows[0][0] if rows else None

    def run(self, sql: str, values: Values = ()) -> int:
        """As PostgresConnection.run."""
        self._check()
        try:
            return self._connection.run(sql, values)
        except StoreError as error:
            self._failure = error
            raise

    def run_many(self, sql: str, rows: Any) -> None:
        """As PostgresConnection.run_many."""
        self._check()
        try:
            self._connection.run_many(sql, rows)
        except StoreError as error:
            self._failure = error
            raise

    def commit(self, last: str) -> None:
        """Commit after that statement. Raises StoreError if a statement failed, even if that exception was caught."""
        self._check()
        self._connection.commit(last)

    def in_one_flush(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> None:
        """The end of the transaction, as PostgresConnection.in_one_flush."""
        self._check()
        self._connection.in_one_flush(statements)

    def end(self) -> None:
        """Roll back what was not committed; no statement runs in it from here on."""
        self._open = False
        self._connection.rollback()


class ReturnsTransaction(PostgresTransaction):
    """One transaction that holds WRITING shared: it reads, and changes all at its end."""

    def run(self, sql: str, values: Values = ()) -> int:
        """Raises StoreError."""
        del values
        what = sql.partition(" ")[0]
        raise StoreError(f"a transaction that takes returns only was asked for another change ({what})")

    def run_many(self, sql: str, rows: Any) -> None:
        """Raises StoreError."""
        del rows
        self.run(sql)


class PostgresWriter(SqlWriter, PostgresReader):
    """`saltlite.master.store.ports.StoreWriter` over a transaction that holds WRITING alone."""

    JUDGED = (
        "SELECT asked.at::bigint - 1, k.id, t.rank, t.outcome,"  # noqa: S608 - as above
        " EXISTS (SELECT 1 FROM job_counts AS c WHERE c.jid = t.jid),"
        " EXISTS (SELECT 1 FROM returns AS r WHERE r.jid = t.jid AND r.target = t.target),"
        " (SELECT j.batch_size IS NOT NULL FROM jobs AS j WHERE j.jid = t.jid), " + PostgresReader.LAST_SEQ + " FROM"
        " jsonb_array_elements(?::jsonb) WITH ORDINALITY AS asked (value, at)"
        " JOIN keys AS k ON k.fingerprint = asked.value ->> 0 AND k.state = 'accepted'"
        " JOIN job_targets AS t ON t.jid = asked.value ->> 1 AND t.target = asked.value ->> 2 AND t.minion = k.id"
    )

    def __init__(self, transaction: ChangingQueries, accepted: AcceptedIds) -> None:
        super().__init__(transaction, accepted)
        self._deleted = 0
        self._grown = 0

    def finishing(self) -> str:
        """The last statement before the COMMIT."""
        if self._seq is None and not self._grown and not self._deleted:
            return ""
        grown = self._grown - self._deleted
        return f"UPDATE store SET seq = greatest(seq, {self._seq or 0:d}), bytes = greatest(0, bytes + {grown:d}); "  # noqa: S608 - numbers

    def put_reduced(self, rows: Iterable[tuple[Jid, bytes]]) -> None:
        rows = list(rows)
        before = int(self._transaction.value(_BODIES, (json.dumps([jid for jid, _body in rows]),)))
        super().put_reduced(rows)
        self._grow(0, sum(len(body) for _jid, body in rows) - before)

    def _grow(self, rows: int, wide: int) -> None:
        self._grown += rows * ROW_BYTES + wide

    def _put_targets(self, rows: Sequence[Values]) -> None:
        sql = (
            "INSERT INTO job_targets (jid, target, minion, part, rank, state, reason, changed_at) SELECT jid, target,"
            " minion, part, rank, state, '', at FROM unnest(?::text[], ?::text[], ?::text[], ?::bigint[], ?::bigint[],"
            " ?::text[], ?::float8[]) AS u (jid, target, minion, part, rank, state, at)"
        )
        columns: list[Any] = [list(map(stored, column)) for column in zip(*rows, strict=True)]
        if columns:
            self._transaction.run(sql, columns)

    def _delete(self, sql: str, values: Values) -> int:
        table = sql.split()[2]
        counted = (
            f"WITH gone AS ({sql} RETURNING {ROW_BYTES} + {_SIZES[table]} AS size)"  # noqa: S608 - constants of this package
            " SELECT count(*), coalesce(sum(size), 0)::bigint FROM gone"
        )
        ((count, size),) = self._transaction.rows(counted, values)
        self._deleted += size
        return int(count)

    def _give_back_pages(self) -> None:
        """The server vacuums by itself."""


_MOVE = (
    "UPDATE job_targets AS t SET state = u.state, rank = u.rank, reason = u.reason, changed_at = %s,"
    " outcome = u.outcome, moved = {moved}"
    " FROM unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::text[], %s::bigint[])"
    " AS u (jid, target, state, rank, reason, outcome)"
    " WHERE t.jid = u.jid AND t.target = u.target AND t.rank < u.rank"
)
_MOVE_RETURNED = _MOVE.format(moved="NULL")
_MOVE_OTHERS = _MOVE.format(moved="(SELECT moves FROM store)")
_LATE = (
    "UPDATE job_targets AS t SET outcome = u.outcome FROM unnest(%s::text[], %s::text[], %s::bigint[])"
    " AS u (jid, target, outcome) WHERE t.jid = u.jid AND t.target = u.target"
)
_NUMBERS = "UPDATE store SET seq = " + PostgresReader.LAST_SEQ + " + %s, moves = moves + %s, bytes = bytes + %s"  # noqa: S608 - as above
_EVENTS = (
    "INSERT INTO events (seq, tag, data, at) SELECT s.seq - %s + u.n, u.tag, u.data, %s"
    " FROM store AS s, unnest(%s::text[], %s::bytea[]) WITH ORDINALITY AS u (tag, data, n)"
)
_PUT_RETURNS = (
    "INSERT INTO returns (seq, jid, target, state, retcode, started_at, duration_ms, reason, body)"
    " SELECT s.seq - %s + u.n, u.jid, u.target, u.state, u.retcode, u.started_at, u.duration_ms, u.reason, u.body"
    " FROM store AS s, unnest(%s::text[], %s::text[], %s::text[], %s::bigint[], %s::float8[], %s::bigint[], %s::text[],"
    " %s::bytea[]) WITH ORDINALITY AS u (jid, target, state, retcode, started_at, duration_ms, reason, body, n)"
)
_COUNTS = (
    "UPDATE job_counts AS c SET open = c.open + u.open, active = c.active + u.active, planned = c.planned + u.planned,"
    " failed = c.failed + u.failed, changed_at = greatest(c.changed_at, u.changed_at)"
    " FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::float8[])"
    " AS u (jid, open, active, planned, failed, changed_at) WHERE c.jid = u.jid"
)


class PostgresReturns(PostgresWriter):
    """`StoreWriter` of a transaction that only stores returns. It holds WRITING shared, and changes nothing before its
    end; then all changes leave in one flush."""

    def __init__(self, transaction: ReturnsTransaction, accepted: AcceptedIds, take_order: str) -> None:
        """`take_order`: the statement that takes the lock ORDER."""
        super().__init__(transaction, accepted)
        self._whole = transaction
        self._take_order = take_order
        self._fresh: dict[tuple[Jid, TargetId], tuple[Return, MinionId]] = {}
        self._late: list[Return] = []
        self._tally = Tally()
        self._at = 0.0

    def put_returns(self, commits: Sequence[ReturnCommit], now: float) -> list[Stored]:
        outcomes = [Stored.UNASSIGNED] * len(commits)
        asked = json.dumps([[commit.fingerprint, commit.ret.jid, commit.ret.id] for commit in commits])
        for row in sorted(self._transaction.rows(self.JUDGED, (asked,))) if commits else ():
            at, sender, rank, outcome, is_counted, is_returned, in_batch, _seq = row
            ret = commits[at].ret
            outcomes[at] = Stored.DUPLICATE
            if not is_returned and (ret.jid, ret.id) not in self._fresh:
                outcomes[at] = Stored.NEW
                self._fresh[ret.jid, ret.id] = ret, sender
                self._late += [ret] if rank == TERMINAL_RANK else []
                self.batches_returned.update([ret.jid] if in_batch else [])
                if is_counted:
                    self._tally.moved(ret.jid, rank, ret.state, outcome_of_return(ret), now, before=outcome)
        self._at = now
        return outcomes

    def commit(self) -> None:
        """Store all, and commit. Raises StoreError."""
        self._whole.in_one_flush([*self._changes(), ("COMMIT", ())] if self._fresh else [("COMMIT", ())])

    def _changes(self) -> list[tuple[str, Sequence[Any]]]:
        # In the order of the key: two such transactions lock the rows that they share in one order.
        rets = [self._fresh[key] for key in sorted(self._fresh)]
        count = len(rets)
        events = [(tag, pack_own(data)) for tag, data in starmap(return_event, rets)]
        returned = [ret for ret, _minion in rets if ret.state is TargetState.RETURNED]
        others = [ret for ret, _minion in rets if ret.state is not TargetState.RETURNED]
        wide = sum(len(data) for _tag, data in events) + sum(len(ret.body) for ret, _minion in rets)
        made: list[tuple[str, Sequence[Any]]] = []
        if returned:
            made.append((_MOVE_RETURNED, (self._at, *_moves(returned))))
        if self._late:
            late = [(ret.jid, ret.id, OUTCOME_CODE[outcome_of_return(ret)]) for ret in self._late]
            made.append((_LATE, _columns(late)))
        made.append((self._take_order, ()))
        made.append((_NUMBERS, (count, bool(others), 2 * ROW_BYTES * count + wide)))
        if others:
            made.append((_MOVE_OTHERS, (self._at, *_moves(others))))
        made.append((_EVENTS, (count, self._at, *_columns(events))))
        rows = [
            (ret.jid, ret.id, ret.state, ret.retcode, ret.started_at, ret.duration_ms, ret.reason, ret.body)
            for ret, _minion in rets
        ]
        made.append((_PUT_RETURNS, (count, *_columns(rows))))
        if self._tally.changes:
            made.append((_COUNTS, _columns([(jid, *change) for jid, change in sorted(self._tally.changes.items())])))
        return made


def _moves(rets: Sequence[Return]) -> list[list[Any]]:
    rows = [TargetRow(ret.id, ret.state, ret.reason, 0.0) for ret in rets]
    return _columns(
        [
            (ret.jid, row.id, row.state, RANK[row.state], row.reason, OUTCOME_CODE[outcome_of_return(ret)])
            for ret, row in zip(rets, rows, strict=True)
        ]
    )


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [[stored(value) for value in column] for column in zip(*rows, strict=True)]
