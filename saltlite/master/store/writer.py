"""Changes to the store, inside one transaction.

The write lock is held from the first statement to the commit, so what was read here is still true when it is
written: checks need no constraint errors, and sequence numbers can be counted in Python.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import StoreError
from saltlite.master.store import reader
from saltlite.master.store.ports import (
    AT_MAX,
    NEVER_RAN,
    PRUNE_MOST,
    RANK,
    TERMINAL_RANK,
    FunctionSet,
    MinionRow,
    PartRow,
    ReturnCommit,
    Stored,
    TargetRow,
    TokenRecord,
    cancelled_reason,
    check_job,
    effective_state,
    expired_reason,
    first_state,
    is_outdated,
    job_event,
    pack_data,
    pack_own,
    parts_of,
    return_event,
)
from saltlite.master.store.reader import UNDELIVERED, AcceptedIds, SqlReader, TransactionQueries, Values, insert, select
from saltlite.master.store.rows import (
    JOB_COLUMNS,
    KEY_COLUMNS,
    MINION_COLUMNS,
    MORE_JOB_COLUMNS,
    OUTCOME_CODE,
    STATE_OF_RANK,
    TOKEN_COLUMNS,
    minion_of,
    pack_targets,
    readable,
    row_of,
)
from saltlite.model.ids import Jid, MinionId, RequestId, TargetId
from saltlite.model.job import Job, Return, TargetOutcome, TargetState, outcome_of, outcome_of_return, split_part
from saltlite.model.keys import AuthToken, Fingerprint, KeyRecord, KeyState

_PUT_KEY = (
    insert(KEY_COLUMNS, "keys")
    + " ON CONFLICT (fingerprint) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in KEY_COLUMNS if name != "fingerprint")
)
_PUT_TOKEN = (
    insert(TOKEN_COLUMNS, "tokens")
    + " ON CONFLICT (token_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in TOKEN_COLUMNS if name != "token_id")
)
PUT_JOB = insert(("seq", *JOB_COLUMNS, *MORE_JOB_COLUMNS), "jobs")
_PUT_TARGET = (
    "INSERT INTO job_targets (jid, target, minion, part, rank, state, reason, changed_at)"
    " VALUES (?, ?, ?, ?, ?, ?, '', ?)"
)
_PUT_EVENT = "INSERT INTO events (seq, tag, data, at) VALUES (?, ?, ?, ?)"
_PUT_RETURN = (
    "INSERT INTO returns (seq, jid, target, state, retcode, started_at, duration_ms, reason, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
# The whole state machine of a target: forward only, and no terminal rank is below another.
_MOVE_TARGET = (
    "UPDATE job_targets SET state = ?, rank = ?, reason = ?, changed_at = ?, outcome = ?, moved = ?"
    " WHERE jid = ? AND target = ? AND rank < ?"
)
# The same for all targets of a part, with the effective state of those that run (rank 2).
_MOVE_PART = (
    "SET state = CASE rank WHEN 2 THEN ? ELSE ? END, reason = CASE rank WHEN 2 THEN ? ELSE ? END,"
    " outcome = CASE rank WHEN 2 THEN ? ELSE ? END, rank = ?, changed_at = ?, moved = ?"
)
_MOVE_MINION = (
    f"UPDATE job_targets {_MOVE_PART} WHERE jid = ? AND target = ? AND part = ? AND rank < ? RETURNING target"
)
_MOVE_RESOURCES = (
    f"UPDATE job_targets INDEXED BY job_targets_parts {_MOVE_PART}"
    " WHERE jid = ? AND minion = ? AND part = ? AND target <> minion AND rank < ? RETURNING target"
)
_NEXT_MOVE = "UPDATE store SET moves = moves + 1 RETURNING moves"
PUT_COUNTS = "INSERT INTO job_counts (jid, open, active, planned, failed, changed_at) VALUES (?, ?, 0, ?, 0, ?)"
MARK_REDUCIBLE = "INSERT INTO job_arguments (jid) VALUES (?) ON CONFLICT DO NOTHING"
_IS_COUNTED = "SELECT 1 FROM job_counts WHERE jid = ?"
_COUNT = (
    "UPDATE job_counts SET open = open + ?, active = active + ?, planned = planned + ?, failed = failed + ?,"
    " changed_at = CASE WHEN changed_at > ? THEN changed_at ELSE ? END WHERE jid = ?"
)
_RANKS_OF_MINION = (
    "SELECT rank, count(*) FROM job_targets WHERE jid = ? AND target = ? AND part = ? AND rank < ? GROUP BY rank"
)
_RANKS_OF_RESOURCES = (
    "SELECT rank, count(*) FROM job_targets INDEXED BY job_targets_parts"
    " WHERE jid = ? AND minion = ? AND part = ? AND target <> minion AND rank < ? GROUP BY rank"
)
# A return that comes after its target was settled otherwise changes no state, but says what became of it.
_LATE_OUTCOME = "UPDATE job_targets SET outcome = ? WHERE jid = ? AND target = ?"
COUNTED_FROM = 64
"""A job with so many targets has a row in job_counts. Counting fewer costs less than another statement for each job."""
QUEUED_COUNTED = 1000
"""So many QUEUED targets are counted at a publish: with fewer in all, no minion has as many."""
# The last value is that of QUEUED_COUNTED.
_PUBLISHING = (
    "SELECT {last_seq}, accepted_version, (SELECT max(jid) FROM jobs),"
    " (SELECT jid FROM jobs WHERE request_id = ? AND uid = ?), (SELECT count(*) FROM (SELECT 1 FROM job_targets"
    " INDEXED BY job_targets_unfinished WHERE rank = 0 AND rank < 9 LIMIT ?) AS counted) FROM store"
)
_ACCEPTED_CHANGED = "UPDATE store SET accepted_version = accepted_version + 1"
# last_seen never goes back: two MWorkers may report in either order, and `expire` trusts it.
# Not before a target was QUEUED: the session may have got it, even if the clock was set back since.
_SEEN = (
    "(SELECT max(at) FROM (SELECT CAST(? AS double precision) AS at UNION ALL {known}"
    "SELECT max(changed_at) FROM job_targets WHERE rank = 0 AND rank < 9 AND minion = {minion}) AS times)"
)
_CLAIM = (
    insert(MINION_COLUMNS, "minions").rpartition("VALUES")[0]
    + "VALUES ("
    + ", ".join(_SEEN.format(known="", minion="?") if name == "last_seen" else "?" for name in MINION_COLUMNS)
    + ") ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in MINION_COLUMNS if name not in {"id", "last_seen"})
    + ", last_seen ="
    " CASE WHEN minions.last_seen > excluded.last_seen THEN minions.last_seen ELSE excluded.last_seen END"
)
_SESSIONS_OF = select(MINION_COLUMNS, "minions") + " WHERE id IN (SELECT value FROM json_each(?))"  # noqa: S608 - as below
_RELEASE = (
    "UPDATE minions SET up = 0, end_reason = ?,"  # noqa: S608 - constants of this file
    f" last_seen = {_SEEN.format(known='SELECT last_seen UNION ALL ', minion='minions.id')}"
    " WHERE id = ? AND up <> 0 AND master IN (?, ?)"
)
# The first refusal of an absence only, so that a minion that comes again and again costs one write.
_REFUSED = (
    "UPDATE minions SET end_reason = ? WHERE id = ? AND fingerprint = ? AND up = 0"
    " AND substr(coalesce(end_reason, ''), 1, 8) <> 'renamed '"
)
_NEVER_HANDED_OVER = (
    "SELECT t.target, t.rank FROM job_targets AS t LEFT JOIN minions AS m ON m.id = t.minion"
    " WHERE t.jid = ?"
    " AND (t.rank = -1 OR (t.rank = 0 AND (m.id IS NULL OR (m.up = 0 AND m.last_seen < t.changed_at))))"
    " ORDER BY t.target"
)
_UNDELIVERED_SORTED = UNDELIVERED + " ORDER BY t.jid, t.target"
# The oldest ended jobs, with what it costs to delete each: its targets, its returns, and each KiB of them.
_ENDED = (
    "SELECT j.jid, j.created_at, (SELECT count(*) FROM job_targets AS t WHERE t.jid = j.jid)"
    " + (SELECT coalesce(sum(1 + length(r.body) / 1024), 0) FROM returns AS r WHERE r.jid = j.jid)"
    " FROM jobs AS j WHERE j.created_at < ?"
    " AND NOT EXISTS (SELECT 1 FROM job_targets AS t WHERE t.jid = j.jid AND t.rank < 9)"
    " ORDER BY j.created_at, j.seq LIMIT ?"
)
_SOME_TARGETS = (
    "DELETE FROM job_targets WHERE jid = ? AND target IN (SELECT target FROM job_targets WHERE jid = ? LIMIT ?)"
)
_RETURN_COSTS = "SELECT seq, 1 + length(body) / 1024 FROM returns WHERE jid = ? ORDER BY seq LIMIT ?"
_SOME_EVENTS = "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE at < ? ORDER BY at LIMIT ?)"


class Tally:
    """How the numbers of targets of counted jobs change: by job those that are open, active, planned and failed, and
    when a target last changed its state."""

    def __init__(self) -> None:
        self.changes: dict[Jid, list[float]] = {}

    def moved(
        self,
        jid: Jid,
        rank: int,
        state: TargetState,
        outcome: TargetOutcome,
        at: float,
        count: int = 1,
        *,
        before: int = 0,
    ) -> None:
        """So many targets of that rank, and of the outcome with the code `before`, got this state and outcome; those
        that had ended before got the outcome only."""
        change = self.changes.setdefault(jid, [0, 0, 0, 0, 0.0])
        if rank < TERMINAL_RANK:
            for step, one in ((-count, rank), (count, RANK[state])):
                change[0] += step * (one < TERMINAL_RANK)
                change[1] += step * (one in ACTIVE_RANKS)
                change[2] += step * (one == PLANNED_RANK)
            change[4] = max(change[4], at)
        failed = OUTCOME_CODE[TargetOutcome.FAILED]
        change[3] += count * ((OUTCOME_CODE[outcome] == failed) - (before == failed))


ACTIVE_RANKS = (RANK[TargetState.RECEIVED], RANK[TargetState.RUNNING])
PLANNED_RANK = RANK[TargetState.PLANNED]


class SqlWriter(SqlReader):
    """`saltlite.master.store.ports.StoreWriter` over one transaction; lives as long as the `write()` block."""

    def __init__(self, transaction: TransactionQueries, accepted: AcceptedIds) -> None:
        super().__init__(transaction, accepted)
        self._transaction = transaction
        self.batches_returned: set[Jid] = set()
        self.returned: list[tuple[int, Return]] = []
        # What was read in this transaction, and is true until its end, for no one else writes meanwhile.
        self._seq: int | None = None
        self._accepted_version: int | None = None
        self._accepted_changes = False
        self._newest_jid: Jid | None = None
        self._queued = QUEUED_COUNTED
        self._new_request: tuple[RequestId, int] | None = None
        self._move_number = 0
        self._counted: dict[Jid, bool] = {}

    def put_key(self, record: KeyRecord) -> None:
        if record.state is KeyState.ACCEPTED:
            # That of the row, also where it does not let the minion in.
            holder = SqlReader.holder(self, record.id, any_case=True)
            if holder is not None and holder.fingerprint != record.fingerprint:
                if holder.state is not KeyState.ACCEPTED:
                    way = f"saltlite key delete {holder.id} --fingerprint {holder.fingerprint}"
                    raise StoreError(f"{holder.id} has a key that is {holder.how}: delete that one first ({way})")
                raise StoreError(f"{holder.id} already has an accepted key; revoke or delete that one first")
        self._note_accepted(record.fingerprint, record.state)
        self._transaction.later(_PUT_KEY, row_of(record, KEY_COLUMNS))

    def delete_key(self, fingerprint: Fingerprint) -> None:
        self._note_accepted(fingerprint)
        self._transaction.later("DELETE FROM keys WHERE fingerprint = ?", (fingerprint,))

    def _note_accepted(self, fingerprint: Fingerprint, state: str = "") -> None:
        """Change the version of the accepted ids if this key was or will be one; before the change."""
        before = self._transaction.value("SELECT state FROM keys WHERE fingerprint = ?", (fingerprint,))
        if KeyState.ACCEPTED not in (before, state):
            return
        self._accepted_version = None
        if not self._accepted_changes:
            # Once is enough, as nobody else sees what is between. PostgreSQL keeps every version of a row until the
            # commit, and reads all of them to find the last one.
            self._accepted_changes = True
            self._transaction.later(_ACCEPTED_CHANGED)

    def _present_accepted(self) -> AcceptedIds:
        if self._accepted_version == self._accepted.version:
            return self._accepted
        # Never remembered: another process would not know ids of a transaction that is rolled back.
        found = AcceptedIds()
        found.learn(*self._read_accepted())
        return found

    def job_of_request(self, request_id: RequestId, uid: int) -> Jid | None:
        if self._new_request == (request_id, uid):
            return None
        seq, self._accepted_version, newest, made, self._queued = self._publishing(request_id, uid)
        found: Jid | None = made
        self._seq, self._newest_jid = seq or 0, newest or Jid("")
        self._new_request = (request_id, uid) if found is None else None
        return found

    def _publishing(self, request_id: RequestId, uid: int) -> Sequence[Any]:
        """All that a publish asks before it writes: last seq, version of the accepted ids, highest jid, job of that
        request, and how many targets are QUEUED, QUEUED_COUNTED at most; or more than that."""
        (row,) = self._transaction.rows(_PUBLISHING.format(last_seq=self.LAST_SEQ), (request_id, uid, QUEUED_COUNTED))
        return tuple(row)

    def crowded(self, minions: Sequence[MinionId], most: int) -> list[MinionId]:
        return [] if self._queued < min(most, QUEUED_COUNTED) else super().crowded(minions, most)

    @property
    def known_seq(self) -> int:
        """The last number that this transaction knows, which is at least that of its own last event; or 0."""
        return self._seq or 0

    def last_seq(self) -> int:
        if self._seq is None:
            self._seq = super().last_seq()
        return self._seq

    def next_epoch(self) -> int:
        self._transaction.later("UPDATE store SET epoch = epoch + 1")
        return int(self._transaction.value("SELECT epoch FROM store"))

    def put_token(self, token: TokenRecord) -> None:
        self._transaction.later(_PUT_TOKEN, row_of(token, TOKEN_COLUMNS))

    def use_token(self, token_id: str) -> bool:
        sql = "UPDATE tokens SET uses_left = uses_left - 1 WHERE token_id = ? AND uses_left > 0"
        return self._transaction.run(sql, (token_id,)) == 1

    def delete_token(self, token_id: str) -> bool:
        return self._transaction.run("DELETE FROM tokens WHERE token_id = ?", (token_id,)) == 1

    def put_auth_token(self, token: AuthToken, most: int) -> None:
        reader.put_auth_token(self._transaction, token, most)

    def delete_auth_token(self, token_id: str) -> bool:
        return reader.delete_auth_token(self._transaction, token_id)

    def expire_auth_tokens(self, now: float) -> None:
        reader.expire_auth_tokens(self._transaction, now)

    def put_preaccept(self, minion: MinionId, fingerprint: Fingerprint, by: str) -> None:
        sql = (
            "INSERT INTO preaccepts (id, fingerprint, created_by) VALUES (?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET fingerprint = excluded.fingerprint, created_by = excluded.created_by"
        )
        self._transaction.later(sql, (minion, fingerprint, by))

    def delete_preaccept(self, minion: MinionId) -> bool:
        return self._transaction.run("DELETE FROM preaccepts WHERE id = ?", (minion,)) == 1

    def put_job(self, job: Job) -> int:
        check_job(job)
        # First, because it also reads what answers the question after it.
        made = self.job_of_request(job.request_id, job.uid)
        if self.jid_taken(job.jid):
            raise StoreError(f"job id {job.jid} is taken; publish with the next one")
        if made is not None:
            raise StoreError(f"this request already made job {made}; nothing was stored")
        tag, data = job_event(job)
        seq = self.put_event(tag, data, job.created_at)
        batch = (job.batch.size, job.batch.wait_ms, job.batch.failhard) if job.batch else (None, None, None)
        lists = pack_targets(job.minions, job.resources)
        more = (job.target.expression, job.target.kind, *batch, *lists)
        self._put_job_row((seq, *row_of(job, JOB_COLUMNS), *more))
        state = first_state(job)
        end = (RANK[state], state, job.created_at)
        rows = [(job.jid, target, minion, part, *end) for minion, part, ids in parts_of(job) for target in ids]
        # In the order of the table's key: pages are then filled one after the other.
        self._put_targets(sorted(rows))
        self._grow(1 + len(rows), len(job.body) + sum(map(len, lists)))
        if len(rows) >= COUNTED_FROM:
            planned = len(rows) if state is TargetState.PLANNED else 0
            self._put_counts((job.jid, len(rows), planned, job.created_at))
        self._new_request = None
        self._queued = QUEUED_COUNTED
        if self._newest_jid is not None:
            self._newest_jid = max(self._newest_jid, job.jid)
        return seq

    def _put_job_row(self, row: Values) -> None:
        """Insert a job: its seq, and the columns of PUT_JOB after it."""
        self._transaction.later(PUT_JOB, row)

    def _put_counts(self, row: Values) -> None:
        """Insert the counts of a job: the values of PUT_COUNTS."""
        self._transaction.later(PUT_COUNTS, row)

    def _put_targets(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Insert the targets of a job: its jid, target, minion, part, rank, state and time."""
        self._transaction.run_many(_PUT_TARGET, rows)

    def mark_reducible(self, jid: Jid | None) -> None:
        if jid is None:
            self._transaction.later("INSERT INTO job_arguments SELECT jid FROM jobs WHERE true ON CONFLICT DO NOTHING")
        else:
            self._transaction.later(MARK_REDUCIBLE, (jid,))

    def put_reduced(self, rows: Iterable[tuple[Jid, bytes]]) -> None:
        for jid, body in rows:
            self._transaction.later("UPDATE jobs SET body = ?, signature = ? WHERE jid = ?", (body, b"", jid))
            self._transaction.later("DELETE FROM job_arguments WHERE jid = ?", (jid,))

    def jid_taken(self, jid: Jid) -> bool:
        if self._newest_jid is not None and jid > self._newest_jid:
            return False
        return self._transaction.value("SELECT 1 FROM jobs WHERE jid = ?", (jid,)) is not None

    def set_targets(self, rows: Iterable[tuple[Jid, TargetRow]]) -> list[tuple[Jid, TargetId]]:
        tally = Tally()
        moved = [(jid, row.id) for jid, row in rows if self._set_target(jid, row, tally)]
        self._count(tally)
        return moved

    def _set_target(self, jid: Jid, row: TargetRow, tally: Tally) -> bool:
        current: TargetState | None = None
        is_counted = self._is_counted(jid)
        if row.state in NEVER_RAN or is_counted:
            sql = "SELECT state FROM job_targets WHERE jid = ? AND target = ?"
            found = self._transaction.value(sql, (jid, row.id))
            current = None if found is None else TargetState(found)
            row = row if current is None else effective_state(current, row)
        moved = bool(self._transaction.run(_MOVE_TARGET, self._move(jid, row)))
        if moved and is_counted and current is not None:
            tally.moved(jid, RANK[current], row.state, outcome_of(row.state), row.changed_at)
        return moved

    def _next_move(self, state: TargetState) -> int | None:
        """The number of this transaction for what it moves to that state; a return tells of itself."""
        if state is TargetState.RETURNED:
            return None
        if not self._move_number:
            ((self._move_number,),) = self._transaction.rows(_NEXT_MOVE)
        return self._move_number

    def _is_counted(self, jid: Jid) -> bool:
        if jid not in self._counted:
            self._counted[jid] = self._transaction.value(_IS_COUNTED, (jid,)) is not None
        return self._counted[jid]

    def _count(self, tally: Tally) -> None:
        if tally.changes:
            self._transaction.run_many(_COUNT, [(*change, change[-1], jid) for jid, change in tally.changes.items()])

    def set_parts(self, rows: Iterable[PartRow]) -> list[tuple[Jid, TargetId]]:
        moved = []
        tally = Tally()
        for row in rows:
            jid, number = split_part(row.part)
            which = (jid, row.minion, number, RANK[row.state])
            if self._is_counted(jid):
                sql = _RANKS_OF_RESOURCES if number else _RANKS_OF_MINION
                for rank, count in self._transaction.rows(sql, which):
                    state = effective_state(STATE_OF_RANK[rank], row).state
                    tally.moved(jid, rank, state, outcome_of(state), row.changed_at, count)
            sql = _MOVE_RESOURCES if number else _MOVE_MINION
            ids = self._transaction.rows(sql, (*_part_move(row), self._next_move(row.state), *which))
            moved += [(jid, target) for (target,) in sorted(ids)]
        self._count(tally)
        return moved

    def put_returns(self, commits: Sequence[ReturnCommit], now: float) -> list[Stored]:
        if not commits:
            return []
        outcomes = [Stored.UNASSIGNED] * len(commits)
        fresh: dict[tuple[Jid, TargetId], tuple[Return, MinionId]] = {}
        late: list[Return] = []
        tally = Tally()
        for row in sorted(self._judged(commits)):
            at, sender, rank, outcome, is_counted, is_returned, in_batch, seq = row
            ret = commits[at].ret
            outcomes[at] = Stored.DUPLICATE
            if not is_returned and (ret.jid, ret.id) not in fresh:
                outcomes[at] = Stored.NEW
                fresh[ret.jid, ret.id] = ret, sender
                late += [ret] if rank == TERMINAL_RANK else []
                if is_counted:
                    tally.moved(ret.jid, rank, ret.state, outcome_of_return(ret), now, before=outcome)
                self.batches_returned.update([ret.jid] if in_batch else [])
                self._seq = seq or 0
        if fresh:
            self._store_returns(list(fresh.values()), now)
        if late:
            self._put_outcomes([(OUTCOME_CODE[outcome_of_return(ret)], ret.jid, ret.id) for ret in late])
        self._count(tally)
        return outcomes

    @abstractmethod
    def _judged(self, commits: Sequence[ReturnCommit]) -> list[Any]:
        """What is known of each of these returns that its key may give: its index, the id of the key, rank, outcome,
        whether the job is counted, whether there is a return, whether the job is in a batch, and the last seq."""

    def _store_returns(self, rets: list[tuple[Return, MinionId]], now: float) -> None:
        events: list[tuple[int, str, bytes, float]] = []
        returns: list[Values] = []
        moves: list[Values] = []
        before = self.last_seq()
        # Unknown until all are stored: an error between them is noticed at the commit only.
        self._seq = None
        for seq, (ret, minion) in enumerate(rets, start=before + 1):
            tag, data = return_event(ret, minion)
            events.append((seq, tag, pack_own(data), now))
            returns.append(
                (
                    seq,
                    ret.jid,
                    ret.id,
                    ret.state,
                    ret.retcode,
                    ret.started_at,
                    ret.duration_ms,
                    ret.reason,
                    ret.body,
                )
            )
            moves.append(self._move(ret.jid, TargetRow(ret.id, ret.state, ret.reason, now), outcome_of_return(ret)))
        self._put_return_rows(events, returns, moves)
        self._seq = before + len(rets)
        self.returned += enumerate((ret for ret, _minion in rets), start=before + 1)
        self._grow(2 * len(rets), sum(len(event[2]) for event in events) + sum(len(ret.body) for ret, _minion in rets))

    def _put_return_rows(self, events: Sequence[Values], returns: Sequence[Values], moves: Sequence[Values]) -> None:
        """Insert events (seq, tag, data, at) and returns (seq, jid, target, state, retcode, started_at, duration_ms,
        reason, body), and move targets (state, rank, reason, changed_at, outcome, moved, jid, target, rank)."""
        self._transaction.run_many(_PUT_EVENT, events)
        self._transaction.run_many(_PUT_RETURN, returns)
        self._move_targets(moves)

    def _move_targets(self, moves: Sequence[Values]) -> None:
        self._transaction.run_many(_MOVE_TARGET, moves)

    def _put_outcomes(self, rows: Sequence[Values]) -> None:
        """Note the outcomes of targets that ended before: outcome, jid, target."""
        self._transaction.run_many(_LATE_OUTCOME, rows)

    def cancel_job(self, jid: Jid, by: str, now: float) -> list[TargetId]:
        sql = "UPDATE jobs SET cancelled_at = ?, cancelled_by = ? WHERE jid = ? AND cancelled_at IS NULL"
        self._transaction.later(sql, (now, by, jid))
        found = self._transaction.rows(_NEVER_HANDED_OVER, (jid,))
        reason = cancelled_reason(by)
        self._end_undelivered(
            [(jid, TargetRow(target, TargetState.CANCELLED, reason, now), rank) for target, rank in found]
        )
        return [target for target, _rank in found]

    def _end_undelivered(self, rows: Sequence[tuple[Jid, TargetRow, int]]) -> None:
        """Move these targets, which have those ranks and never got their jobs, to their last state."""
        tally = Tally()
        for jid, row, rank in rows:
            if self._is_counted(jid):
                tally.moved(jid, rank, row.state, outcome_of(row.state), row.changed_at)
        self._move_targets([self._move(jid, row) for jid, row, _rank in rows])
        self._count(tally)

    def _move(self, jid: Jid, row: TargetRow, outcome: TargetOutcome | None = None) -> Values:
        """The values of _MOVE_TARGET; the outcome is that of the state alone unless it is given."""
        rank = RANK[row.state]
        code = OUTCOME_CODE[outcome_of(row.state) if outcome is None else outcome]
        number = self._next_move(row.state)
        return (row.state, rank, row.reason, row.changed_at, code, number, jid, row.id, rank)

    def put_event(self, tag: str, data: Mapping[str, Any], now: float) -> int:
        packed = pack_data(data)
        seq = self.last_seq() + 1
        self._transaction.later(_PUT_EVENT, (seq, tag, packed, now))
        self._seq = seq
        self._grow(1, len(packed))
        return seq

    def claim(self, rows: Sequence[MinionRow]) -> dict[MinionId, MinionRow | None]:
        found = self._transaction.rows(_SESSIONS_OF, (json.dumps([row.id for row in rows]),))
        known = {row.id: row for row in readable(found, minion_of, lambda row: f"minion {row[0]}")}
        before: dict[MinionId, MinionRow | None] = {}
        claimed = []
        for row in rows:
            last = known.get(row.id)
            if last is None or not is_outdated(row, last):
                before.setdefault(row.id, last)
                known[row.id] = replace(row, up=True)
                claimed.append(_claim_values(known[row.id]))
        self._transaction.run_many(_CLAIM, claimed)
        return before

    def release(self, master: str, ends: Mapping[MinionId, str], now: float) -> None:
        self._transaction.run_many(_RELEASE, [(end, now, minion, master, master) for minion, end in ends.items()])

    def fence(self, master: str, end: str, now: float, keep: Collection[MinionId] = ()) -> list[MinionId]:
        sql = "SELECT id FROM minions WHERE up <> 0 AND master IN (?, '') ORDER BY id"
        ended = [minion for (minion,) in self._transaction.rows(sql, (master,)) if minion not in keep]
        self._transaction.run_many(_RELEASE, [(end, now, minion, master, "") for minion in ended])
        return ended

    def refused(self, minion: MinionId, key: Fingerprint, end: str) -> None:
        self._transaction.later(_REFUSED, (end, minion, key))

    def set_functions(self, minion: MinionId, digest: str) -> None:
        self._transaction.later("UPDATE minions SET functions = ? WHERE id = ?", (digest, minion))

    @abstractmethod
    def _give_back_pages(self) -> None:
        """Return some room to the file system, after a prune."""

    def put_functions(self, functions: FunctionSet) -> None:
        sql = (
            "INSERT INTO functions (digest, whole, texts) VALUES (?, ?, ?)"
            " ON CONFLICT (digest) DO UPDATE SET whole = excluded.whole, texts = excluded.texts"
        )
        packed = msgpack.packb(sorted(functions.functions.values()))
        self._transaction.later(sql, (functions.digest, functions.whole, packed))

    def expire(self, now: float) -> list[tuple[Jid, TargetId]]:
        queued = RANK[TargetState.QUEUED]
        found = []
        for jid, target, minion, end in self._transaction.rows(_UNDELIVERED_SORTED, (now,)):
            # The next session of the minion would take this away, and the job is looked at later.
            reason = expired_reason(None if minion is None else end or "")
            found.append((jid, TargetRow(target, TargetState.EXPIRED, reason, now), queued))
        self._end_undelivered(found)
        return [(jid, row.id) for jid, row, _rank in found]

    def prune(self, before: float, most: int = PRUNE_MOST) -> int:
        pruned = self._prune_ended(before, -1, most)
        self._delete(_SOME_EVENTS, (before, most))
        self._transaction.later("DELETE FROM functions WHERE digest NOT IN (SELECT functions FROM minions)")
        self._give_back_pages()
        return len(pruned)

    def prune_oldest(self, count: int, most: int = PRUNE_MOST) -> int:
        pruned = self._prune_ended(AT_MAX, count, most)
        if pruned:
            self._delete(_SOME_EVENTS, (pruned[-1], most))
        self._give_back_pages()
        return len(pruned)

    def prune_events(self, count: int) -> int:
        sql = "DELETE FROM events WHERE seq IN (SELECT seq FROM events ORDER BY seq LIMIT ?)"
        deleted = self._delete(sql, (count,))
        self._give_back_pages()
        return deleted

    def _prune_ended(self, before: float, count: int, most: int) -> list[float]:
        """Delete the oldest ended jobs, `count` at most (-1 for all), up to the cost `most`; when each was created.

        A job that costs more by itself loses a part, and the rest of it with the next calls; it counts each time.
        """
        total = 0

        def is_last(row: tuple[Jid, float, int]) -> bool:
            nonlocal total
            total += row[2]
            return total >= most

        # A job with one target costs 1.
        found = self._transaction.rows(_ENDED, (before, most + 1 if count < 0 else count), until=is_last)
        if total > most and len(found) == 1:
            ((jid, created_at, _cost),) = found
            self._prune_part(jid, most)
            return [created_at]
        if total > most:
            found.pop()
        jids = [(jid,) for jid, _created_at, _cost in found]
        for table in ("returns", "job_targets", "jobs"):
            for jid in jids:
                self._delete(f"DELETE FROM {table} WHERE jid = ?", jid)  # noqa: S608 - names of this file
        for table in ("job_arguments", "job_counts"):
            self._transaction.run_many(f"DELETE FROM {table} WHERE jid = ?", jids)  # noqa: S608 - as above
        return [created_at for _jid, created_at, _cost in found]

    def _prune_part(self, jid: Jid, most: int) -> None:
        """Delete so much of a job: first its targets, so that no return of them is stored again.

        The job is not shown from now on, and the next prune goes on with it, however young it is.
        """
        self._transaction.later("UPDATE jobs SET created_at = 0 WHERE jid = ?", (jid,))
        left = most - self._delete(_SOME_TARGETS, (jid, jid, most))

        def is_last(row: tuple[int, int]) -> bool:
            nonlocal left
            left -= row[1]
            return left <= 0

        seqs = self._transaction.rows(_RETURN_COSTS, (jid, left), until=is_last) if left else []
        for seq, _cost in seqs:
            self._delete("DELETE FROM returns WHERE jid = ? AND seq = ?", (jid, seq))

    def _delete(self, sql: str, values: Values) -> int:
        """Delete rows whose size a store may count; how many there were."""
        return self._transaction.run(sql, values)

    def _grow(self, rows: int, wide: int) -> None:
        """So many rows were added, with so many bytes in wide columns: for stores that count their size."""


def _claim_values(row: MinionRow) -> Values:
    """The values of _CLAIM, where `last_seen` takes the id, too."""
    values = dict(zip(MINION_COLUMNS, row_of(row, MINION_COLUMNS), strict=True))
    return [each for name, value in values.items() for each in ((value, row.id) if name == "last_seen" else (value,))]


def _part_move(row: PartRow) -> Values:
    """The values of _MOVE_PART, but the number."""
    running = effective_state(TargetState.RUNNING, row)
    codes = (OUTCOME_CODE[outcome_of(running.state)], OUTCOME_CODE[outcome_of(row.state)])
    return (running.state, row.state, running.reason, row.reason, *codes, RANK[row.state], row.changed_at)
