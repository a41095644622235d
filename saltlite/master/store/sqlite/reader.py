"""Questions to the store, each one statement with constant text (SQLite keeps it prepared)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import DamagedError
from saltlite.master.store.events import event_in
from saltlite.master.store.ports import RETURNS_SIZE, FunctionSet, MinionRow, PendingKey, TargetRow, TokenRecord
from saltlite.master.store.sqlite.audience import Audience
from saltlite.master.store.sqlite.auth_tokens import AuthTokenReader
from saltlite.master.store.sqlite.batches import BatchReader
from saltlite.master.store.sqlite.damage import leave_out, readable, reading
from saltlite.master.store.sqlite.history import HistoryReader
from saltlite.master.store.sqlite.parts import PartReader
from saltlite.master.store.target_states import RANK
from saltlite.model.events import Event
from saltlite.model.ids import Jid, MinionId, RequestId
from saltlite.model.job import Batch, Job, Return, TargetState
from saltlite.model.keys import Fingerprint, KeyRecord, KeyState
from saltlite.model.signature import by_name
from saltlite.model.target import Target, TargetKind

_KEY = "SELECT id, fingerprint, public, state, address, first_seen, changed_at, epoch, how FROM keys"
_MINION = "SELECT id, fingerprint, address, version, boot_id, incarnation, functions, up, last_seen FROM minions"
_KEY_BY_FINGERPRINT = _KEY + " WHERE fingerprint = ?"
_KEY_HOLDER = _KEY + " WHERE id = ? AND state = 'accepted'"
_KEYS_IN_STATES = _KEY + " WHERE state IN (?, ?, ?, ?, ?) ORDER BY id, first_seen, fingerprint"
_MINION_BY_ID = _MINION + " WHERE id = ?"
_MINIONS_ACCEPTED = (
    "SELECT m.id, m.fingerprint, m.address, m.version, m.boot_id, m.incarnation, m.functions, m.up,"
    " m.last_seen FROM minions AS m JOIN keys AS k ON k.fingerprint = m.fingerprint AND k.id = m.id"
    " WHERE k.state = 'accepted' ORDER BY m.id"
)
_JOB = (
    "SELECT jid, request_id, user, uid, fun, tgt, tgt_type, created_at, deliver_ms, run_ms,"
    " batch_size, batch_wait_ms, batch_failhard, origin, body, signature, minions, resources FROM jobs WHERE jid = ?"
)
_RETURNS = (
    "SELECT jid, target, state, retcode, body, started_at, duration_ms, reason, seq FROM returns"
    " WHERE jid = ? AND seq > ? ORDER BY seq LIMIT ?"
)
_RETURN_SIZES = "SELECT length(body) FROM returns WHERE jid = ? AND seq > ? ORDER BY seq LIMIT ?"
_REDUCIBLE = (
    "SELECT a.jid, j.body FROM job_arguments AS a CROSS JOIN jobs AS j ON j.jid = a.jid"
    " WHERE NOT EXISTS (SELECT 1 FROM job_targets AS t WHERE t.jid = a.jid AND t.rank < 9) ORDER BY a.jid LIMIT ?"
)
UNDELIVERED = (
    "SELECT t.jid, t.target FROM job_targets AS t INDEXED BY job_targets_unfinished"
    " CROSS JOIN jobs AS j ON j.jid = t.jid LEFT JOIN minions AS m ON m.id = t.minion"
    " WHERE t.rank = 0 AND t.rank < 9 AND t.changed_at + j.deliver_ms / 1000.0 <= ?"
    " AND (m.id IS NULL OR (NOT m.up AND m.last_seen < t.changed_at))"
)
"""Targets to expire; its one value is the time it is."""
UNREADABLE_RETURN = "what it returned is damaged in the master's store"
"""The reason of a return whose row cannot be read."""
_STATES = frozenset(TargetState)
_DIGESTS = (
    "SELECT coalesce(m.functions, ''), count(*), min(asked.value) FROM json_each(?) AS asked"
    " LEFT JOIN minions AS m ON m.id = asked.value GROUP BY 1"
)


# PartReader is first: its constructor is the one that sets up all there is.
class SqliteReader(PartReader, HistoryReader, BatchReader, AuthTokenReader):
    """`saltlite.master.store.ports.StoreReader` over SQLite. Raises StoreError when the file cannot be read."""

    def store_id(self) -> str:
        return str(self._queries.value("SELECT id FROM store"))

    def key(self, fingerprint: Fingerprint) -> KeyRecord | None:
        rows = self._queries.rows(_KEY_BY_FINGERPRINT, (fingerprint,))
        return _key_record(rows[0]) if rows else None

    def keys(self, states: frozenset[KeyState] = frozenset(KeyState)) -> list[KeyRecord]:
        wanted = [str(state) for state in states]
        wanted += [""] * (len(KeyState) - len(wanted))
        return readable(self._queries.rows(_KEYS_IN_STATES, wanted), _key_record, lambda row: f"the key of {row[0]}")

    def holder(self, minion: MinionId) -> KeyRecord | None:
        rows = self._queries.rows(_KEY_HOLDER, (minion,))
        return _key_record(rows[0]) if rows else None

    def accepted_ids(self) -> list[MinionId]:
        # As one text: ten thousand ids take half the time that as many rows do. Each publish asks for them.
        sql = "SELECT json_group_array(id) FROM keys INDEXED BY keys_holder WHERE state = 'accepted'"
        return sorted(json.loads(self._queries.value(sql)))

    def count_keys(self, state: KeyState) -> int:
        return int(self._queries.value("SELECT count(*) FROM keys WHERE state = ?", (state,)))

    def pending_keys(self) -> list[PendingKey]:
        sql = "SELECT fingerprint, address, first_seen, changed_at FROM keys WHERE state = 'pending'"
        return [PendingKey(*row) for row in self._queries.rows(sql)]

    def token(self, token_id: str) -> TokenRecord | None:
        sql = (
            "SELECT token_id, public, id_glob, uses_left, created_at, expires_at, created_by"
            " FROM tokens WHERE token_id = ?"
        )
        rows = self._queries.rows(sql, (token_id,))
        return TokenRecord(*rows[0]) if rows else None

    def preaccepted(self, minion: MinionId) -> Fingerprint | None:
        found: Fingerprint | None = self._queries.value("SELECT fingerprint FROM preaccepts WHERE id = ?", (minion,))
        return found

    def job(self, jid: Jid) -> Job | None:
        rows = self._queries.rows(_JOB, (jid,))
        with reading(f"job {jid}"):
            return _job(rows[0]) if rows else None

    def reducible(self, limit: int) -> list[tuple[Jid, bytes]]:
        return [(jid, body) for jid, body in self._queries.rows(_REDUCIBLE, (limit,))]

    def job_of_request(self, request_id: RequestId, uid: int) -> Jid | None:
        sql = "SELECT jid FROM jobs WHERE request_id = ? AND uid = ?"
        found: Jid | None = self._queries.value(sql, (request_id, uid))
        return found

    def targets(self, jid: Jid) -> list[TargetRow]:
        sql = "SELECT target, state, reason, changed_at FROM job_targets WHERE jid = ? ORDER BY target"
        rows = self._queries.rows(sql, (jid,))
        return readable(rows, _target_row, lambda row: f"target {row[0]} of job {jid}")

    def open_targets(self, jid: Jid) -> int:
        sql = "SELECT count(*) FROM job_targets WHERE jid = ? AND rank < 9"
        return int(self._queries.value(sql, (jid,)))

    def moved_targets(self, jid: Jid) -> list[TargetRow]:
        sql = (
            "SELECT target, state, reason, changed_at FROM job_targets"
            " WHERE jid = ? AND rank > 0 AND state <> 'returned' ORDER BY target"
        )
        rows = self._queries.rows(sql, (jid,))
        return readable(rows, _target_row, lambda row: f"target {row[0]} of job {jid}")

    def targets_in(self, jid: Jid, state: TargetState) -> list[TargetRow]:
        sql = (
            "SELECT target, reason, changed_at FROM job_targets"
            " WHERE jid = ? AND rank = ? AND state = ? ORDER BY target"
        )
        rows = self._queries.rows(sql, (jid, RANK[state], state))
        return [TargetRow(target, state, reason, at) for target, reason, at in rows]

    def returns(self, jid: Jid, after: int = 0, limit: int = 1000, size: int = RETURNS_SIZE) -> list[Return]:
        count, total = 0, 0
        # The length of a body is known without reading it.
        for (length,) in self._queries.rows(_RETURN_SIZES, (jid, after, limit)):
            count, total = count + 1, total + (length or 0)
            if total >= size:
                break
        if not count:
            return []
        return [_return(row) for row in self._queries.rows(_RETURNS, (jid, after, count))]

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        sql = "SELECT tag, data, at, seq FROM events WHERE seq > ? ORDER BY seq LIMIT ?"
        return [event_in(tag, data, at, seq) for tag, data, at, seq in self._queries.rows(sql, (after, limit))]

    def last_seq(self) -> int:
        # Kept by AUTOINCREMENT, so it still counts events that were pruned; no row before the first event.
        return int(self._queries.value("SELECT seq FROM sqlite_sequence WHERE name = 'events'") or 0)

    def first_seq(self) -> int:
        return int(self._queries.value("SELECT min(seq) FROM events") or 0)

    def seq_before(self, at: float) -> int:
        found = self._queries.value("SELECT seq FROM events WHERE at >= ? ORDER BY at, seq LIMIT 1", (at,))
        return self.last_seq() if found is None else int(found) - 1

    def size(self) -> int:
        pages = self._queries.value("PRAGMA page_count") - self._queries.value("PRAGMA freelist_count")
        return int(pages * self._queries.value("PRAGMA page_size"))

    def expire_due(self, now: float) -> bool:
        return bool(self._queries.value(f"SELECT EXISTS ({UNDELIVERED})", (now,)))

    def functions(self, digest: str) -> FunctionSet | None:
        rows = self._queries.rows("SELECT texts, whole FROM functions WHERE digest = ?", (digest,))
        # A set that cannot be read is as good as none: a minion that has these functions says them again.
        sets = readable(rows, lambda row: by_name(msgpack.unpackb(row[0])), lambda _row: f"the function set {digest}")
        return FunctionSet(digest, sets[0], bool(rows[0][1])) if sets else None

    def function_digests(self, minions: Sequence[MinionId]) -> dict[str, tuple[int, MinionId]]:
        # One value, however many minions: SQLite limits the number of values, and the text stays constant.
        rows = self._queries.rows(_DIGESTS, (json.dumps(list(minions)),))
        return {digest: (count, first) for digest, count, first in rows}

    def minion(self, minion: MinionId) -> MinionRow | None:
        rows = self._queries.rows(_MINION_BY_ID, (minion,))
        return _minion_row(rows[0]) if rows else None

    def minions(self) -> list[MinionRow]:
        return readable(self._queries.rows(_MINIONS_ACCEPTED), _minion_row, lambda row: f"minion {row[0]}")


def _target_row(row: tuple[Any, ...]) -> TargetRow:
    target, state, reason, at = row
    return TargetRow(target, TargetState(state), reason, at)


def _return(row: tuple[Any, ...]) -> Return:
    """A return, whatever its columns hold: readers go by its seq, so it has to come, and says what it lacks."""
    jid, target, state, retcode, body, started_at, duration_ms, reason, seq = row
    fits = isinstance(retcode, int) and isinstance(body, bytes) and isinstance(reason, str)
    if fits and state in _STATES and isinstance(started_at, int | float) and isinstance(duration_ms, int):
        return Return(jid, target, TargetState(state), retcode, body, started_at, duration_ms, reason, seq)
    leave_out(DamagedError(f"the return of {target} in job {jid} (seq {seq}) cannot be read: it is damaged"))
    return Return(jid, str(target), TargetState.INTERRUPTED, 1, b"", 0.0, 0, UNREADABLE_RETURN, seq)


def _key_record(row: tuple[Any, ...]) -> KeyRecord:
    minion, fingerprint, public, state, *rest = row
    return KeyRecord(minion, fingerprint, public, KeyState(state), *rest)


def _minion_row(row: tuple[Any, ...]) -> MinionRow:
    minion, fingerprint, address, version, boot_id, incarnation, functions, up, last_seen = row
    return MinionRow(minion, fingerprint, address, version, boot_id, incarnation, functions, bool(up), last_seen)


def _job(row: tuple[Any, ...]) -> Job:
    jid, request_id, user, uid, fun, tgt, tgt_type, *numbers, origin, body, signature, minions, resources = row
    created_at, deliver_ms, run_ms, size, wait_ms, failhard = numbers
    audience = Audience((minions, resources))
    return Job(
        jid=jid,
        request_id=request_id,
        user=user,
        uid=uid,
        fun=fun,
        target=Target(tgt, TargetKind(tgt_type)),
        created_at=created_at,
        deliver_ms=deliver_ms,
        run_ms=run_ms,
        body=body,
        signature=signature,
        minions=audience.minions,
        resources=audience.resources,
        batch=Batch(size, wait_ms, bool(failhard)) if size is not None else None,
        origin=origin,
    )
