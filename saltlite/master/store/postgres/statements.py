"""What the reader and the writer of a store ask PostgreSQL in its own words.

A transaction that only appends returns, jobs and events, the most frequent one, runs beside others of its kind: it
holds the lock WRITING shared. It takes the lock ORDER after all that needs no sequence number, so that the order of
numbers is the order of commits. Its changes and the COMMIT leave in one flush, so that a process that is stopped keeps
ORDER no longer than the server needs. Any other transaction holds WRITING alone from its begin: what it reads stays
true until it ends, as in SQLite. A change of a key is one of these, so no key changes between the judgement of a
return, or the choice of targets, and the commit (S5).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from saltlite.errors import StoreError
from saltlite.master.store.ports import (
    RANK,
    RETURNS_SIZE,
    TERMINAL_RANK,
    JobNews,
    KeyRow,
    MinionRow,
    ReturnCommit,
    Stored,
    TokenRecord,
    pack_data,
    pack_own,
    return_event,
)
from saltlite.master.store.postgres.connection import AT_ONCE, PostgresConnection, up_to
from saltlite.master.store.postgres.locks import insist
from saltlite.master.store.postgres.schema import FORMAT
from saltlite.master.store.postgres.seals import (
    ACCEPTED_ROW,
    SEALED_KEYS,
    SEALED_PREACCEPTS,
    SEALED_TOKENS,
    SET_KEY_SEAL,
    SET_PREACCEPT_SEAL,
    SET_TOKEN_SEAL,
    RowSeals,
)
from saltlite.master.store.reader import AcceptedIds, SqlReader, TransactionQueries, Until, Values, insert, select
from saltlite.master.store.rows import (
    OUTCOME_CODE,
    columns,
    key_of,
    moved_target_of,
    readable,
    reading,
    return_of,
    row_of,
)
from saltlite.master.store.sharing import (
    LOGIN_NAMES_MAX,
    RUNNER_REQUESTS_KEPT_S,
    MasterRow,
    MasterState,
    ReaderRow,
)
from saltlite.master.store.writer import MARK_REDUCIBLE, PUT_COUNTS, PUT_JOB, QUEUED_COUNTED, SqlWriter, Tally
from saltlite.model.ids import Jid, MinionId, RequestId, TargetId
from saltlite.model.job import Job, Return, TargetState, outcome_of_return
from saltlite.model.keys import Fingerprint, KeyRecord, KeyState

_ACCEPTED = (
    "SELECT accepted_version, (SELECT coalesce(json_agg(id), '[]')::text FROM keys WHERE state = 'accepted') FROM store"
)
_ACCEPTED_SEALED = _ACCEPTED.replace("(id)", f"({ACCEPTED_ROW})")
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
# Minions come in the order of an index, so that a few rows are read of a job with thousands. What they manage does not,
# and has an index of its own. OFFSET 0 keeps the server from another one, as it knows little about a job that is new.
_HAS_SESSION = "(SELECT m.up FROM minions AS m WHERE m.id = t.minion) = 1"
_NEXT_PLANNED = (
    "SELECT target FROM ((SELECT t.target FROM job_targets AS t WHERE t.jid = ? AND t.rank = -1 AND t.rank < 9"  # noqa: S608 - a constant of this file
    f" AND t.target = t.minion AND {_HAS_SESSION} ORDER BY t.minion LIMIT ?) UNION ALL"
    " (SELECT t.target FROM (SELECT target, minion, rank FROM job_targets WHERE jid = ? AND target <> minion OFFSET 0)"
    f" AS t WHERE t.rank = -1 AND {_HAS_SESSION} ORDER BY t.target LIMIT ?)) AS planned ORDER BY target LIMIT ?"
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

    seals = RowSeals(None)

    # A transaction sees its own events before it writes the number down at its end.
    LAST_SEQ = "(SELECT greatest(seq, coalesce((SELECT max(seq) FROM events), 0)) FROM store)"

    def _read_accepted(self) -> tuple[int, list[MinionId]]:
        ((version, listed),) = self._queries.rows(_ACCEPTED_SEALED if self.seals.is_used else _ACCEPTED)
        found = json.loads(listed)
        return version, sorted(self.seals.accepted(found) if self.seals.is_used else found)

    def keys(self, states: frozenset[KeyState] = frozenset(KeyState)) -> list[KeyRecord]:
        if KeyState.REJECTED not in states or not self.seals.is_used:
            return [key for key in super().keys(states) if key.state in states]
        # Accepted ones with another seal are rejected.
        return [key for key in super().keys(states | {KeyState.ACCEPTED}) if key.state in states]

    def count_keys(self, state: KeyState) -> int:
        if not self.seals.is_used or state not in (KeyState.ACCEPTED, KeyState.REJECTED):
            return super().count_keys(state)
        known = len(self.accepted_set())
        if state is KeyState.ACCEPTED:
            return known
        return super().count_keys(state) + max(0, super().count_keys(KeyState.ACCEPTED) - known)

    def key_rows(self, state: KeyState | None = None) -> list[KeyRow]:
        if not self.seals.is_used or state not in (None, KeyState.ACCEPTED, KeyState.REJECTED):
            return super().key_rows(state)
        found = super().key_rows(None if state is KeyState.REJECTED else state)
        # Of the keys of one id only one is accepted.
        known = self.accepted_set()
        rows = [
            row._replace(state=KeyState.REJECTED) if row.state == KeyState.ACCEPTED and row.id not in known else row
            for row in found
        ]
        return [row for row in rows if state in (None, row.state)]

    def minions(self, among: Collection[MinionId] | None = None) -> list[MinionRow]:
        # Those among some are such as were selected from the accepted ids before.
        found = super().minions(among)
        if not self.seals.is_used or among is not None:
            return found
        known = self.accepted_set()
        return [row for row in found if row.id in known]

    def minion_values(self, column: str) -> dict[MinionId, Any]:
        found = super().minion_values(column)
        if not self.seals.is_used or found.keys() <= self.accepted_set():
            return found
        return {minion: value for minion, value in found.items() if minion in self.accepted_set()}

    def _keys(self, which: str, values: Values) -> list[Any]:
        return self._queries.rows(SEALED_KEYS + which, values)

    def _key_of(self, row: tuple[Any, ...]) -> KeyRecord:
        *known, seal = row
        return self.seals.checked(key_of(tuple(known)), seal)

    def holder(self, minion: MinionId, *, any_case: bool = False) -> KeyRecord | None:
        found = super().holder(minion, any_case=any_case)
        return found if found is not None and found.state is KeyState.ACCEPTED else None

    def token(self, token_id: str) -> TokenRecord | None:
        for *row, seal in self._queries.rows(f"{SEALED_TOKENS} WHERE token_id = ?", (token_id,)):
            token = TokenRecord(*row)
            return token if self.seals.holds(seal, self.seals.of_token(token)) else None
        return None

    def preaccepted(self, minion: MinionId) -> Fingerprint | None:
        for _minion, fingerprint, seal in self._queries.rows(f"{SEALED_PREACCEPTS} WHERE id = ?", (minion,)):
            if self.seals.holds(seal, self.seals.of_preaccept(minion, fingerprint)):
                return Fingerprint(fingerprint)
        return None

    def _function_sets_with(self, text: bytes) -> list[Any]:
        return self._queries.rows("SELECT digest, texts FROM functions WHERE position(? IN texts) > 0", (text,))

    def size(self) -> int:
        return int(self._queries.value("SELECT bytes FROM store"))

    def next_planned(self, jid: Jid, limit: int) -> list[TargetId]:
        return [target for (target,) in self._queries.rows(_NEXT_PLANNED, (jid, limit, jid, limit, limit))]

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


_Statement = tuple[str, Sequence[Any]]
_Answers = list[tuple[list[Any], int]]


class PostgresTransaction:
    """One transaction. After an error in it, it can only be rolled back."""

    def __init__(self, connection: PostgresConnection, lock: _Statement) -> None:
        """`lock`: the statement that takes WRITING."""
        self._connection = connection
        self._open = True
        self.has_begun = False
        """Whether anything was sent."""
        self._failure: StoreError | None = None
        self._waiting: list[_Statement] = [("BEGIN", ()), lock]

    def begin(self) -> None:
        """Take the lock now, not with the first statement whose answer is needed. Raises StoreError."""
        self._exchange()

    def _check(self) -> None:
        if not self._open:
            raise StoreError("this transaction of the store is over; use store.write() for another")
        if self._failure is not None:
            raise StoreError(f"nothing was stored, because a part of it failed: {self._failure}")

    def _exchange(self, *asked: _Statement) -> _Answers:
        self._check()
        waiting, self._waiting = self._waiting, []
        try:
            return self._sent(lambda: self._connection.exchange([*waiting, *asked]))
        except StoreError as error:
            self._failure = error
            raise

    def _sent(self, send: Callable[[], _Answers]) -> _Answers:
        # With the first flush nothing was read before, or changed: it may be repeated until it gets the lock.
        is_first, self.has_begun = not self.has_begun, True
        return insist(self._connection, send) if is_first else send()

    def rows(self, sql: str, values: Values = (), *, until: Until | None = None) -> list[Any]:
        """As PostgresConnection.rows."""
        found = self._exchange((sql, values))[-1][0]
        return found if until is None else list(up_to(found, until))

    def value(self, sql: str, values: Values = ()) -> Any:
        """As PostgresConnection.value."""
        rows = self.rows(sql, values)
        return rows[0][0] if rows else None

    def run(self, sql: str, values: Values = ()) -> int:
        """As PostgresConnection.run."""
        return self._exchange((sql, values))[-1][1]

    def later(self, sql: str, values: Values = ()) -> None:
        """As TransactionQueries.later."""
        self._check()
        self._waiting.append((sql, values))
        if len(self._waiting) >= AT_ONCE:
            self._exchange()

    def run_many(self, sql: str, rows: Iterable[Values]) -> None:
        """As PostgresConnection.run_many, but with what comes next."""
        for values in rows:
            self.later(sql, values)

    def commit(self, last: Sequence[_Statement]) -> _Answers:
        """Commit after these statements; the answers to what was not sent before. Raises StoreError if a statement
        failed, even if that exception was caught."""
        self._check()
        waiting, self._waiting = self._waiting, []
        return self._sent(lambda: self._connection.commit([*waiting, *last]))

    def end(self) -> None:
        """Roll back what was not committed; no statement runs in it from here on."""
        self._open = False
        self._connection.rollback()


class AppendTransaction(PostgresTransaction):
    """One transaction that holds WRITING shared: it reads, and changes all at its end."""

    def run(self, sql: str, values: Values = ()) -> int:
        """Raises StoreError."""
        self.later(sql, values)
        return 0

    def later(self, sql: str, values: Values = ()) -> None:
        """Raises StoreError."""
        del values
        what = sql.partition(" ")[0]
        raise StoreError(f"a transaction that only appends was asked for another change ({what})")


_JUDGED = (
    "SELECT asked.at::bigint - 1, k.id, t.rank, t.outcome,"  # noqa: S608 - constants of this package
    " EXISTS (SELECT 1 FROM job_counts AS c WHERE c.jid = t.jid),"
    " EXISTS (SELECT 1 FROM returns AS r WHERE r.jid = t.jid AND r.target = t.target),"
    " (SELECT j.batch_size IS NOT NULL FROM jobs AS j WHERE j.jid = t.jid), " + PostgresReader.LAST_SEQ + " FROM"
    " unnest(?::text[], ?::text[], ?::text[]) WITH ORDINALITY AS asked (fingerprint, jid, target, at)"
    " JOIN keys AS k ON k.fingerprint = asked.fingerprint AND k.state = 'accepted'"
    " JOIN job_targets AS t ON t.jid = asked.jid AND t.target = asked.target AND t.minion = k.id"
)
# The number of a row is `u.seq` in a transaction that holds WRITING alone. In one that appends, it is added to the last
# number, which is known under the lock ORDER only.
_EVENTS_OF = (
    "INSERT INTO events (seq, tag, data, at) SELECT {seq}, u.tag, u.data, u.at FROM {source}"
    " unnest(?::bigint[], ?::text[], ?::bytea[], ?::float8[]) AS u (seq, tag, data, at)"
)
_RETURNS_OF = (
    "INSERT INTO returns (seq, jid, target, state, retcode, started_at, duration_ms, reason, body)"
    " SELECT {seq}, u.jid, u.target, u.state, u.retcode, u.started_at, u.duration_ms, u.reason, u.body FROM {source}"
    " unnest(?::bigint[], ?::text[], ?::text[], ?::text[], ?::bigint[], ?::float8[], ?::bigint[], ?::text[],"
    " ?::bytea[])"
    " AS u (seq, jid, target, state, retcode, started_at, duration_ms, reason, body)"
)
_MOVES_OF = (
    "UPDATE job_targets AS t SET state = u.state, rank = u.rank, reason = u.reason, changed_at = u.at,"
    " outcome = u.outcome, moved = {moved} FROM unnest(?::text[], ?::bigint[], ?::text[], ?::float8[], ?::bigint[],"
    " ?::bigint[], ?::text[], ?::text[], ?::bigint[])"
    " AS u (state, rank, reason, at, outcome, moved, jid, target, below)"
    " WHERE t.jid = u.jid AND t.target = u.target AND t.rank < u.below"
)
_OUTCOMES = (
    "UPDATE job_targets AS t SET outcome = u.outcome FROM unnest(?::bigint[], ?::text[], ?::text[])"
    " AS u (outcome, jid, target) WHERE t.jid = u.jid AND t.target = u.target"
)
_TARGETS = (
    "INSERT INTO job_targets (jid, target, minion, part, rank, state, reason, changed_at) SELECT jid, target, minion,"
    " part, rank, state, '', at FROM unnest(?::text[], ?::text[], ?::text[], ?::bigint[], ?::bigint[], ?::text[],"
    " ?::float8[]) AS u (jid, target, minion, part, rank, state, at)"
)
_EVENTS, _RETURN_ROWS = (sql.format(seq="u.seq", source="") for sql in (_EVENTS_OF, _RETURNS_OF))
_MOVES = _MOVES_OF.format(moved="u.moved")
_EVENTS_APPENDED, _RETURNS_APPENDED = (
    sql.format(seq="s.seq + u.seq", source="store AS s,") for sql in (_EVENTS_OF, _RETURNS_OF)
)
_MOVES_APPENDED = _MOVES_OF.format(moved="(SELECT moves + 1 FROM store)")
_FINISHED = (
    "UPDATE store SET seq = greatest(seq, ?), bytes = greatest(0, bytes + ?), targets = targets + ?,"
    " epoch = greatest(epoch, ?)"
)
_PUBLISHING = (
    "SELECT seq, accepted_version, (SELECT max(jid) FROM jobs),"
    " (SELECT jid FROM jobs WHERE request_id = ? AND uid = ?), targets FROM store"
)
# With those that may be QUEUED later, so that their number grows by what is put only.
_QUEUED = "SELECT count(*) FROM (SELECT 1 FROM job_targets WHERE rank < 1 AND rank < 9 LIMIT ?) AS counted"


TARGETS_AT_ONCE = 10_000
"""So many targets of one job are inserted by one statement."""
COUNTED_AGAIN = 100
"""So many targets are put before those that wait are counted again."""


class Waiting:
    """How many targets were QUEUED or PLANNED when a process last counted them, and how many had ever been put then.
    Counting them at each publish would look at a thousand rows."""

    def __init__(self) -> None:
        self.counted = QUEUED_COUNTED
        self.put = -COUNTED_AGAIN

    def at_most(self, put: int) -> int:
        """No more wait now that so many were put."""
        return self.counted + put - self.put

    def is_due(self, put: int) -> bool:
        """Whether they are to be counted again, as too many may wait."""
        return self.at_most(put) >= QUEUED_COUNTED and put - self.put >= COUNTED_AGAIN


_MASTER_COLUMNS = columns(MasterRow)
MASTERS = select(_MASTER_COLUMNS, "masters")
_READER_COLUMNS = columns(ReaderRow)
READER = select(_READER_COLUMNS, "readers") + " WHERE name = ?"
_PUT_READER = (
    insert(_READER_COLUMNS, "readers")
    + " ON CONFLICT (name) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _READER_COLUMNS if name != "name")
)
LOGIN_FULL_AT = "SELECT full_at FROM login_limits WHERE name = ?"
_PUT_LOGIN = "INSERT INTO login_limits (name, full_at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET full_at = ?"
# Those that may guess again, and above the limit those that may soonest: never a name that waits longer than others.
_FORGET_LOGINS = (
    "DELETE FROM login_limits WHERE full_at <= ? OR name IN"
    " (SELECT name FROM login_limits WHERE name <> ? ORDER BY full_at DESC OFFSET ?)"
)
_ENTER_RUNNER = "INSERT INTO runner_requests (minion, request_id, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_FORGET_RUNNERS = "DELETE FROM runner_requests WHERE at < ?"
_LEASED = "('up', 'draining')"
# A start that was fenced or drained stays so.
_KEPT = ("name", "renewals", "state", "about", "renewed")
_WRITTEN = (*_MASTER_COLUMNS, "format", "format_start")
_RENEW = (
    insert(_WRITTEN, "masters")
    + " ON CONFLICT (name) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in _WRITTEN if name not in _KEPT)
    + f", state = CASE WHEN masters.start = excluded.start AND masters.state IN {_LEASED}"
    + f" AND excluded.state IN {_LEASED} THEN masters.state ELSE excluded.state END"
    + ", renewals = masters.renewals + 1 WHERE masters.start <> excluded.start OR masters.state <> 'fenced'"
)


def master_of(row: Sequence[Any]) -> MasterRow:
    """The row of `MASTERS`."""
    named = dict(zip(_MASTER_COLUMNS, row, strict=True))
    with reading(f"the master {named['name']}"):
        return MasterRow(**{**named, "state": MasterState(named["state"])})


class PostgresWriter(SqlWriter, PostgresReader):
    """`saltlite.master.store.ports.StoreWriter` over a transaction that holds WRITING alone."""

    def __init__(
        self, transaction: TransactionQueries, accepted: AcceptedIds, waiting: Waiting, tells: Sequence[_Statement] = ()
    ) -> None:
        """`tells`: the statements that tell other masters of events."""
        super().__init__(transaction, accepted)
        self._waiting = waiting
        self._tells = tells
        self._put = 0
        self._deleted = 0
        self._grown = 0
        self._epoch = 0
        self.has_pruned = False

    def finishing(self) -> list[_Statement]:
        """The last statements before the COMMIT, if there are any."""
        if self._seq is None and not self._grown and not self._deleted and not self._epoch:
            return []
        numbers = self._seq or 0, self._grown - self._deleted, self._put, self._epoch
        return [(_FINISHED, numbers), *self._tells]

    def next_epoch(self) -> int:
        # Written down at the end, as every change of the row of the store leaves a version that all others read.
        self._epoch = (self._epoch or int(self._transaction.value("SELECT epoch FROM store"))) + 1
        return self._epoch

    def _publishing(self, request_id: RequestId, uid: int) -> Sequence[Any]:
        ((seq, version, newest, made, put),) = self._transaction.rows(_PUBLISHING, (request_id, uid))
        put += self._put
        if self._waiting.is_due(put):
            self._waiting.counted, self._waiting.put = self._transaction.value(_QUEUED, (QUEUED_COUNTED,)), put
        return max(seq, self._seq or 0), version, newest, made, self._waiting.at_most(put)

    def renew(self, row: MasterRow) -> MasterRow:
        """As SharedWriter.renew."""
        written = (*row_of(replace(row, renewals=1), _MASTER_COLUMNS), FORMAT, row.start)
        self._transaction.later(_RENEW, written)
        ((found),) = self._transaction.rows(f"{MASTERS} WHERE name = ?", (row.name,))
        return master_of(found)

    def fence_master(self, name: str) -> bool:
        """As SharedWriter.fence_master."""
        sql = "UPDATE masters SET state = ? WHERE name = ? AND state <> ?"
        return self._transaction.run(sql, (MasterState.FENCED, name, MasterState.FENCED)) == 1

    def drain_master(self, name: str, *, ends: bool = False) -> bool:
        """As SharedWriter.drain_master."""
        before, after = (MasterState.DRAINING, MasterState.UP) if ends else (MasterState.UP, MasterState.DRAINING)
        sql = "UPDATE masters SET state = ? WHERE name = ? AND state = ?"
        return self._transaction.run(sql, (after, name, before)) == 1

    def describe_master(self, name: str, about: str) -> None:
        """As SharedWriter.describe_master."""
        self._transaction.later("UPDATE masters SET about = ? WHERE name = ?", (about, name))

    def offer_certificate(self, name: str, renewed: bytes) -> None:
        """As SharedWriter.offer_certificate."""
        self._transaction.later("UPDATE masters SET renewed = ? WHERE name = ?", (renewed, name))

    def put_key(self, record: KeyRecord) -> None:
        super().put_key(record)
        if self.seals.is_used:
            self._transaction.later(SET_KEY_SEAL, (self.seals.of_key(record), record.fingerprint))

    def put_token(self, token: TokenRecord) -> None:
        super().put_token(token)
        if self.seals.is_used:
            self._transaction.later(SET_TOKEN_SEAL, (self.seals.of_token(token), token.token_id))

    def put_preaccept(self, minion: MinionId, fingerprint: Fingerprint, by: str) -> None:
        super().put_preaccept(minion, fingerprint, by)
        if self.seals.is_used:
            self._transaction.later(SET_PREACCEPT_SEAL, (self.seals.of_preaccept(minion, fingerprint), minion))

    def delete_master(self, name: str) -> bool:
        """As SharedWriter.delete_master."""
        return self._transaction.run("DELETE FROM masters WHERE name = ?", (name,)) == 1

    def put_reader(self, row: ReaderRow) -> None:
        """As SharedWriter.put_reader."""
        self._transaction.later(_PUT_READER, row_of(row, _READER_COLUMNS))

    def put_login_full_at(self, name: str, full_at: float, now: float) -> None:
        """As SharedWriter.put_login_full_at."""
        self._transaction.later(_FORGET_LOGINS, (now, name, LOGIN_NAMES_MAX - 1))
        self._transaction.later(_PUT_LOGIN, (name, full_at, full_at))

    def enter_runner_request(self, minion: MinionId, request_id: RequestId, now: float) -> bool:
        """As SharedWriter.enter_runner_request."""
        self._transaction.later(_FORGET_RUNNERS, (now - RUNNER_REQUESTS_KEPT_S,))
        return self._transaction.run(_ENTER_RUNNER, (minion, request_id, now)) == 1

    def put_reduced(self, rows: Iterable[tuple[Jid, bytes]]) -> None:
        rows = list(rows)
        before = int(self._transaction.value(_BODIES, (json.dumps([jid for jid, _body in rows]),)))
        super().put_reduced(rows)
        self._grow(0, sum(len(body) for _jid, body in rows) - before)

    def _grow(self, rows: int, wide: int) -> None:
        self._grown += rows * ROW_BYTES + wide

    def _judged(self, commits: Sequence[ReturnCommit]) -> list[Any]:
        asked = [(commit.fingerprint, commit.ret.jid, commit.ret.id) for commit in commits]
        return self._transaction.rows(_JUDGED, as_arrays(asked))

    def _put_targets(self, rows: Sequence[tuple[Any, ...]]) -> None:
        rows = self._last_targets(rows)
        if rows:
            self._transaction.later(_TARGETS, as_arrays(rows))

    def _last_targets(self, rows: Sequence[tuple[Any, ...]]) -> Sequence[tuple[Any, ...]]:
        """Those of these targets that are left after the first ones of a large job were inserted, which nobody else
        waits for. All together would be a long pause in the transaction (`locks.STANDS_STILL_S`)."""
        self._put += len(rows)
        while len(rows) > TARGETS_AT_ONCE:
            self._transaction.rows(_TARGETS, as_arrays(rows[:TARGETS_AT_ONCE]))
            rows = rows[TARGETS_AT_ONCE:]
        return rows

    def _put_return_rows(self, events: Sequence[Values], returns: Sequence[Values], moves: Sequence[Values]) -> None:
        self._transaction.later(_EVENTS, as_arrays(events))
        self._transaction.later(_RETURN_ROWS, as_arrays(returns))
        self._move_targets(moves)

    def _move_targets(self, moves: Sequence[Values]) -> None:
        if moves:
            self._transaction.later(_MOVES, as_arrays(moves))

    def _put_outcomes(self, rows: Sequence[Values]) -> None:
        self._transaction.later(_OUTCOMES, as_arrays(rows))

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
        # The server vacuums by itself, but leaves small tables as long as they are.
        self.has_pruned = True


_PUT_JOB_APPENDED = PUT_JOB.replace("VALUES (?,", "VALUES ((SELECT seq FROM store) + ?,")
_COUNTS = (
    "UPDATE job_counts AS c SET open = c.open + u.open, active = c.active + u.active, planned = c.planned + u.planned,"
    " failed = c.failed + u.failed, changed_at = greatest(c.changed_at, u.changed_at)"
    " FROM unnest(?::text[], ?::bigint[], ?::bigint[], ?::bigint[], ?::bigint[], ?::float8[])"
    " AS u (jid, open, active, planned, failed, changed_at) WHERE c.jid = u.jid"
)
_NUMBERS = "UPDATE store SET seq = seq + ?, moves = moves + ?, bytes = bytes + ?, targets = targets + ?"

# The most frequent one: one job with its events. As one statement it keeps ORDER for a shorter time.
_PUBLISHED = f"WITH e AS ({_EVENTS_APPENDED}), j AS ({_PUT_JOB_APPENDED}) {_NUMBERS}"


class PostgresAppends(PostgresWriter):
    """`StoreWriter` of a transaction that only appends. It holds WRITING shared, and changes nothing before its end,
    but for the targets of large jobs; then all changes leave in one flush. Its events have their numbers, from 1, until
    then."""

    def __init__(
        self,
        transaction: AppendTransaction,
        accepted: AcceptedIds,
        waiting: Waiting,
        take_order: _Statement,
        tells: Sequence[_Statement] = (),
    ) -> None:
        """`take_order`: the statement that takes the lock ORDER. `tells`: as PostgresWriter."""
        super().__init__(transaction, accepted, waiting, tells)
        self._whole = transaction
        self._take_order = take_order
        self._events: list[Values] = []
        self._jobs: list[Values] = []
        self._targets: list[tuple[Any, ...]] = []
        self._made: dict[tuple[RequestId, int], Jid] = {}
        self._more: list[_Statement] = []
        self._fresh: dict[tuple[Jid, TargetId], tuple[Return, MinionId]] = {}
        self._late: list[Return] = []
        self._tally = Tally()
        self._at = 0.0

    def put_event(self, tag: str, data: Mapping[str, Any], now: float) -> int:
        packed = pack_data(data)
        self._events.append((len(self._events) + 1, tag, packed, now))
        self._grow(1, len(packed))
        return 0

    def job_of_request(self, request_id: RequestId, uid: int) -> Jid | None:
        return self._made.get((request_id, uid)) or super().job_of_request(request_id, uid)

    def jid_taken(self, jid: Jid) -> bool:
        if jid in self._made.values():
            return True
        # For a request that is about to be stored, the commit finds that out, together with what others store until
        # then. It is asked often: masters whose clocks differ by a little publish with ids between those of others.
        return self._new_request is None and super().jid_taken(jid)

    def put_job(self, job: Job) -> int:
        if job.batch is not None:
            raise StoreError("a transaction that only appends was asked for a job in batches")
        seq = super().put_job(job)
        self._made[job.request_id, job.uid] = job.jid
        return seq

    def next_epoch(self) -> int:
        raise StoreError("a transaction that only appends was asked for an epoch")

    def mark_reducible(self, jid: Jid | None) -> None:
        if jid is None:
            super().mark_reducible(None)
        self._more.append((MARK_REDUCIBLE, (jid,)))

    def _put_job_row(self, row: Values) -> None:
        self._jobs.append((len(self._events), *row[1:]))

    def _put_targets(self, rows: Sequence[tuple[Any, ...]]) -> None:
        self._targets += self._last_targets(rows)

    def _put_counts(self, row: Values) -> None:
        self._more.append((PUT_COUNTS, row))

    def put_returns(self, commits: Sequence[ReturnCommit], now: float) -> list[Stored]:
        outcomes = [Stored.UNASSIGNED] * len(commits)
        for row in sorted(self._judged(commits)) if commits else ():
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
        changes = self._changes()
        if changes or self._whole.has_begun:
            self._whole.commit([*changes, *(self._tells if changes else ())])

    def _changes(self) -> list[_Statement]:
        # In the order of the key: two such transactions lock the rows that they share in one order.
        rets = [self._fresh[key] for key in sorted(self._fresh)]
        first = len(self._events) + 1
        for seq, (ret, minion) in enumerate(rets, start=first):
            tag, data = return_event(ret, minion)
            packed = pack_own(data)
            self._events.append((seq, tag, packed, self._at))
            self._grow(2, len(packed) + len(ret.body))
        if not self._events:
            return []
        moves = [(ret.state is TargetState.RETURNED, self._move_of_return(ret)) for ret, _minion in rets]
        returned, others = [row for tells, row in moves if tells], [row for tells, row in moves if not tells]
        made: list[_Statement] = []
        if self._targets:
            made.append((_TARGETS, as_arrays(sorted(self._targets))))
        if returned:
            made.append((_MOVES, as_arrays(returned)))
        if self._late:
            late = [(OUTCOME_CODE[outcome_of_return(ret)], ret.jid, ret.id) for ret in self._late]
            made.append((_OUTCOMES, as_arrays(late)))
        made += [self._take_order, *self._more]
        numbers = len(self._events), bool(others), self._grown, self._put
        if len(self._jobs) == 1 and not rets:
            return [*made, (_PUBLISHED, (*as_arrays(self._events), *self._jobs[0], *numbers))]
        made.append((_EVENTS_APPENDED, as_arrays(self._events)))
        made += [(_PUT_JOB_APPENDED, row) for row in self._jobs]
        if others:
            made.append((_MOVES_APPENDED, as_arrays(others)))
        if rets:
            rows = [
                (seq, ret.jid, ret.id, ret.state, ret.retcode, ret.started_at, ret.duration_ms, ret.reason, ret.body)
                for seq, (ret, _minion) in enumerate(rets, start=first)
            ]
            made.append((_RETURNS_APPENDED, as_arrays(rows)))
        if self._tally.changes:
            made.append((_COUNTS, as_arrays([(jid, *change) for jid, change in sorted(self._tally.changes.items())])))
        # Last, as what precedes it counts from the number before.
        made.append((_NUMBERS, numbers))
        return made

    def _move_of_return(self, ret: Return) -> Values:
        """The values of _MOVES, but the number of the move, which is that of the transaction if it has one."""
        rank = RANK[ret.state]
        outcome = OUTCOME_CODE[outcome_of_return(ret)]
        return (ret.state, rank, ret.reason, self._at, outcome, None, ret.jid, ret.id, rank)


def as_arrays(rows: Sequence[Values]) -> list[Any]:
    """The columns of these rows, which one statement gets as arrays."""
    return list(zip(*rows, strict=True))
