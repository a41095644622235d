"""The master's store in memory, in place of the SQLite store, for tests and the simulator.

A transaction works on a copy of the tables and replaces them when it commits, so there is no rollback: a transaction
that raises, or whose owner is "killed", leaves nothing behind.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from saltlite.errors import StoreError
from saltlite.master.store.ports import (
    PRUNE_MOST,
    RETURNS_SIZE,
    DiskUsage,
    FunctionSet,
    JobNews,
    KeyRow,
    MinionRow,
    PartRow,
    ReturnCommit,
    Stored,
    TargetRow,
    TokenRecord,
    advance,
    cancelled_reason,
    check_job,
    effective_state,
    event_in,
    expired_reason,
    first_state,
    is_outdated,
    job_event,
    names_with,
    pack_data,
    pack_own,
    parts_of,
    return_event,
)
from saltlite.master.store.sharing import (
    LOGIN_NAMES_MAX,
    RUNNER_REQUESTS_KEPT_S,
    VALUES_SIZE,
    CommitSignal,
    CopyPiece,
    InventoryHead,
    MasterRow,
    MasterState,
    Owner,
    ReaderRow,
    SharedValue,
    SharedWriter,
)
from saltlite.model.events import Event
from saltlite.model.ids import Jid, MinionId, RequestId, TargetId
from saltlite.model.job import (
    TERMINAL,
    Job,
    Return,
    TargetState,
    split_part,
)
from saltlite.model.keys import AuthToken, Fingerprint, KeyRecord, KeyState
from saltlite.testing.memory_tables import LoggedEvent, MemoryBatches, MemoryHistory, MemoryParts, Tables


class MemoryCommitSignal:
    """`saltlite.master.store.ports.CommitSignal`."""

    def __init__(self) -> None:
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def send(self) -> None:
        """Something was committed."""
        if self._fd >= 0:
            os.eventfd_write(self._fd, 1)

    def fileno(self) -> int:
        return self._fd

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class MemoryInventory:
    """`saltlite.master.store.sharing.SharedInventory`, which all stores of a disk share."""

    def __init__(self) -> None:
        self.place = "memory"
        self._head = InventoryHead(0, 0)
        self._values: dict[tuple[str, str], SharedValue] = {}
        self._owners: dict[str, tuple[str | None, int]] = {}
        self.pieces: dict[tuple[str, int], CopyPiece] = {}
        self._busy = False

    def head(self) -> InventoryHead:
        return self._head

    def values(self, after: int, limit: int = 1000, size: int = VALUES_SIZE) -> list[SharedValue]:
        found: list[SharedValue] = []
        for row in sorted(self._values.values(), key=lambda row: row.seq):
            if row.seq > after and size > 0 and len(found) < limit:
                found.append(row)
                size -= len(row.data or b"")
        return found

    def owners(self, after: int) -> list[Owner]:
        return [(srn, minion) for srn, (minion, seq) in self._owners.items() if seq > after]

    def put_value(self, value: SharedValue) -> int:
        seq = self._next()
        self._values[value.bank, value.key] = value._replace(seq=seq)
        return seq

    def delete_value(self, bank: str, key: str, at: float) -> int:
        row = self._values.get((bank, key))
        if row is None or row.data is None:
            return 0
        return self.put_value(SharedValue(bank, key, "", at, None))

    @contextmanager
    def registering(self) -> Iterator[Callable[[Sequence[Owner]], int]]:
        if self._busy:
            raise StoreError("a change of the inventory is open already; end it before the next")
        self._busy = True
        try:
            yield self._register
        finally:
            self._busy = False

    def _register(self, changes: Sequence[Owner]) -> int:
        self._busy = False
        seq = self._next()
        self._owners.update({srn: (minion, seq) for srn, minion in changes})
        return seq

    def adopt(self, values: Sequence[SharedValue], owners: Sequence[Owner]) -> None:
        if self._head.seq == 0:
            for value in values:
                self.put_value(value)
            self._register(owners)

    def prune(self, until: int) -> None:
        self._head = self._head._replace(pruned=max(self._head.pruned, until))
        self._values = {key: row for key, row in self._values.items() if row.seq > until or row.data is not None}
        self._owners = {srn: row for srn, row in self._owners.items() if row[1] > until or row[0] is not None}

    def put_pieces(self, pieces: Sequence[CopyPiece]) -> None:
        self.pieces.update({(piece.area, piece.number): piece for piece in pieces})

    def piece(self, area: str, number: int) -> bytes | None:
        found = self.pieces.get((area, number))
        return None if found is None else found.data

    def delete_pieces(self, area: str) -> None:
        self.pieces = {key: piece for key, piece in self.pieces.items() if piece.area != area}

    def expire_pieces(self, before: float) -> None:
        self.pieces = {key: piece for key, piece in self.pieces.items() if piece.at >= before}

    def _next(self) -> int:
        if self._busy:
            raise StoreError("a change of the inventory is open already; end it before the next")
        self._head = self._head._replace(seq=self._head.seq + 1)
        return self._head.seq


class MemoryStoreDisk:
    """What survives a crash: the last committed state. Several stores may stand on one disk.

    `store_id` is given where runs must repeat exactly; without it the disk makes one, 32 hexadecimal digits.
    """

    def __init__(self, store_id: str | None = None) -> None:
        self.store_id = store_id or os.urandom(16).hex()
        self.tables = Tables()
        self.signals: list[MemoryCommitSignal] = []
        self.inventory = MemoryInventory()

    def notify(self) -> None:
        """Something was committed."""
        for signal in self.signals:
            signal.send()


class _MemoryReader(MemoryHistory, MemoryBatches, MemoryParts):
    """`saltlite.master.store.ports.StoreReader` over the result of `_tables`."""

    def __init__(self, disk: MemoryStoreDisk) -> None:
        self._disk = disk

    @property
    def _tables(self) -> Tables:
        return self._disk.tables

    def store_id(self) -> str:
        return self._disk.store_id

    def key(self, fingerprint: Fingerprint) -> KeyRecord | None:
        return self._tables.keys.get(fingerprint)

    def keys(self, states: frozenset[KeyState] = frozenset(KeyState)) -> list[KeyRecord]:
        found = [key for key in self._tables.keys.values() if key.state in states]
        return sorted(found, key=lambda key: (key.id, key.first_seen, key.fingerprint))

    def keys_of(self, name: str) -> list[KeyRecord]:
        return [key for key in self.keys() if key.id.lower() == name.lower()]

    def holder(self, minion: MinionId, *, any_case: bool = False) -> KeyRecord | None:
        accepted = [key for key in self._tables.keys.values() if key.state is KeyState.ACCEPTED]
        alike = (key for key in accepted if key.id == minion or (any_case and key.id.lower() == minion.lower()))
        return next(alike, None)

    def accepted_ids(self) -> list[MinionId]:
        return [key.id for key in self.keys(frozenset({KeyState.ACCEPTED}))]

    def accepted_set(self) -> frozenset[MinionId]:
        return frozenset(self.accepted_ids())

    def count_keys(self, state: KeyState) -> int:
        return len(self.keys(frozenset({state})))

    def key_rows(self, state: KeyState | None = None) -> list[KeyRow]:
        return [KeyRow(*(getattr(key, n) for n in KeyRow._fields)) for key in self.keys() if state in (None, key.state)]

    def keys_among(self, fingerprints: Collection[Fingerprint]) -> list[KeyRecord]:
        return [key for key in self._tables.keys.values() if key.fingerprint in fingerprints]

    def token(self, token_id: str) -> TokenRecord | None:
        return self._tables.tokens.get(token_id)

    def tokens(self) -> list[TokenRecord]:
        return sorted(self._tables.tokens.values(), key=lambda token: (token.created_at, token.token_id))

    def auth_token(self, token_id: str) -> AuthToken | None:
        return self._tables.auth_tokens.get(token_id)

    def auth_tokens(self) -> list[AuthToken]:
        return sorted(self._tables.auth_tokens.values(), key=lambda token: (token.created_at, token.token_id))

    def preaccepted(self, minion: MinionId) -> Fingerprint | None:
        return self._tables.preaccepts.get(minion)

    def job(self, jid: Jid) -> Job | None:
        return self._tables.jobs.get(jid)

    def reducible(self, limit: int) -> list[tuple[Jid, bytes]]:
        ended = [
            (jid, self._tables.jobs[jid].body)
            for jid in sorted(self._tables.reducible.keys() & self._tables.jobs.keys())
            if all(row.state in TERMINAL for row in self._tables.targets[jid].values())
        ]
        return ended[:limit]

    def job_of_request(self, request_id: RequestId, uid: int) -> Jid | None:
        return self._tables.requests.get((request_id, uid))

    def targets(self, jid: Jid) -> list[TargetRow]:
        return sorted(self._tables.targets.get(jid, {}).values(), key=lambda row: row.id)

    def open_targets(self, jid: Jid) -> int:
        return sum(row.state not in TERMINAL for row in self.targets(jid))

    def news(self, jid: Jid, after: int, limit: int, size: int = RETURNS_SIZE, *, moves: int = 0) -> JobNews:
        number = self._tables.moved.get(jid, {})
        late = (row for row in self.targets(jid) if number.get(row.id, 0) > moves)
        moved = [row for row in late if row.state is not TargetState.RETURNED]
        returns = self.returns(jid, after, limit, size)
        ended = frozenset(row.id for row in moved if row.state in TERMINAL)
        is_whole = len(returns) < limit and sum(len(one.body) for one in returns) < size
        return JobNews(moved, max((number[row.id] for row in moved), default=moves), ended, returns, is_whole)

    def targets_in(self, jid: Jid, state: TargetState) -> list[TargetRow]:
        return [row for row in self.targets(jid) if row.state is state]

    def returns(self, jid: Jid, after: int = 0, limit: int = 1000, size: int = RETURNS_SIZE) -> list[Return]:
        found, total = list[Return](), 0
        for ret in self._tables.returns.get(jid, {}).values():
            if ret.seq > after and len(found) < limit and total < size:
                found.append(ret)
                total += len(ret.body)
        return found

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        logged = [(seq, event) for seq, event in self._tables.events.items() if seq > after][:limit]
        return [event_in(event.tag, event.data, event.at, seq) for seq, event in logged]

    def last_seq(self) -> int:
        return self._tables.seq

    def has_event(self, tags: Collection[str], after: int) -> bool:
        return any(event.tag in tags for seq, event in self._tables.events.items() if seq > after)

    def first_seq(self) -> int:
        return min(self._tables.events, default=0)

    def seq_before(self, at: float) -> int:
        since = [(event.at, seq) for seq, event in self._tables.events.items() if event.at >= at]
        return min(since)[1] - 1 if since else self.last_seq()

    def size(self) -> int:
        bodies = sum(len(ret.body) for rets in self._tables.returns.values() for ret in rets.values())
        jobs = sum(len(job.body) for job in self._tables.jobs.values())
        return bodies + jobs + sum(len(event.data) for event in self._tables.events.values())

    def expire_due(self, now: float) -> bool:
        return any(True for _ in self._undelivered(now))

    def _undelivered(self, now: float) -> Iterator[tuple[Jid, TargetId]]:
        for job in self._tables.jobs.values():
            owners = self._tables.owners[job.jid]
            for row in self._tables.targets[job.jid].values():
                due = row.state is TargetState.QUEUED and row.changed_at + job.deliver_ms / 1000.0 <= now
                if due and self._had_no_session_since(owners[row.id], row.changed_at):
                    yield job.jid, row.id

    def _had_no_session_since(self, minion: MinionId, then: float) -> bool:
        row = self.minion(minion)
        return row is None or (not row.up and row.last_seen < then)

    def prune_due(self, before: float) -> bool:
        is_old = any(event.at < before for event in self._tables.events.values())
        return is_old or any(job.created_at < before for job in self._ended())

    def _ended(self) -> list[Job]:
        """Ended jobs, the oldest first."""
        tables = self._tables
        ended = [
            job
            for job in tables.jobs.values()
            if all(row.state in TERMINAL for row in tables.targets[job.jid].values())
        ]
        return sorted(ended, key=lambda job: job.created_at)

    def function_names(self, prefix: str) -> dict[str, list[str]]:
        return names_with(prefix, ((known.digest, known.functions) for known in self._tables.functions.values()))

    def functions(self, digest: str) -> FunctionSet | None:
        return self._tables.functions.get(digest)

    def function_digests(self, minions: Sequence[MinionId]) -> dict[str, tuple[int, MinionId]]:
        found: dict[str, tuple[int, MinionId]] = {}
        for minion in sorted(minions):
            row = self.minion(minion)
            count, first = found.get(row.functions if row else "", (0, minion))
            found[row.functions if row else ""] = (count + 1, first)
        return found

    def minion(self, minion: MinionId) -> MinionRow | None:
        return self._tables.minions.get(minion)

    def minions(self, among: Collection[MinionId] | None = None) -> list[MinionRow]:
        accepted = {(key.id, key.fingerprint) for key in self.keys(frozenset({KeyState.ACCEPTED}))}
        rows = (row for row in self._tables.minions.values() if among is None or row.id in among)
        return sorted((row for row in rows if (row.id, row.fingerprint) in accepted), key=lambda row: row.id)

    def minion_values(self, column: str) -> dict[MinionId, Any]:
        return {row.id: getattr(row, column) for row in self.minions()}


class _MemoryWriter(_MemoryReader):
    """`saltlite.master.store.ports.StoreWriter` over a copy of the tables; dead when its `write()` block is over."""

    def __init__(self, disk: MemoryStoreDisk) -> None:
        super().__init__(disk)
        self._copy: Tables | None = disk.tables.copy()
        self._owned: set[tuple[str, Jid]] = set()
        self.batches_returned: set[Jid] = set()
        self.returned: list[tuple[int, Return]] = []

    @property
    def _tables(self) -> Tables:
        if self._copy is None:
            raise StoreError("this transaction of the store is over; use store.write() for another")
        return self._copy

    def end(self) -> Tables:
        """The changed tables; nothing can be changed through this writer from here on."""
        tables, self._copy = self._tables, None
        return tables

    def _own(self, table: str, jid: Jid) -> Any:
        """The rows of a job in that table by target, as a dict that no other state shares."""
        rows = getattr(self._tables, table)
        if (table, jid) not in self._owned:
            rows[jid] = dict(rows.get(jid, {}))
            self._owned.add((table, jid))
        return rows[jid]

    def put_key(self, record: KeyRecord) -> None:
        holder = self.holder(record.id, any_case=True) if record.state is KeyState.ACCEPTED else None
        if holder is not None and holder.fingerprint != record.fingerprint:
            raise StoreError(f"{holder.id} already has an accepted key; revoke or delete that one first")
        self._tables.keys[record.fingerprint] = record

    def delete_key(self, fingerprint: Fingerprint) -> None:
        self._tables.keys.pop(fingerprint, None)

    def next_epoch(self) -> int:
        self._tables.epoch += 1
        return self._tables.epoch

    def put_token(self, token: TokenRecord) -> None:
        self._tables.tokens[token.token_id] = token

    def use_token(self, token_id: str) -> bool:
        token = self.token(token_id)
        if token is None or token.uses_left <= 0:
            return False
        self._tables.tokens[token_id] = replace(token, uses_left=token.uses_left - 1)
        return True

    def delete_token(self, token_id: str) -> bool:
        return self._tables.tokens.pop(token_id, None) is not None

    def put_auth_token(self, token: AuthToken, most: int) -> None:
        tokens = self._tables.auth_tokens
        tokens[token.token_id] = token
        own = [one for one in tokens.values() if (one.backend, one.user) == (token.backend, token.user)]
        newest = sorted(own, key=lambda one: (-one.created_at, one.token_id))
        for one in newest[most:]:
            del tokens[one.token_id]

    def delete_auth_token(self, token_id: str) -> bool:
        return self._tables.auth_tokens.pop(token_id, None) is not None

    def expire_auth_tokens(self, now: float) -> None:
        for one in self.auth_tokens():
            if one.expires_at <= now:
                del self._tables.auth_tokens[one.token_id]

    def put_preaccept(self, minion: MinionId, fingerprint: Fingerprint, by: str) -> None:
        # `by` is for whoever audits the file of the real store; no question of the port answers it.
        del by
        self._tables.preaccepts[minion] = fingerprint

    def delete_preaccept(self, minion: MinionId) -> bool:
        return self._tables.preaccepts.pop(minion, None) is not None

    def put_job(self, job: Job) -> int:
        check_job(job)
        if self.jid_taken(job.jid):
            raise StoreError(f"job id {job.jid} is taken; publish with the next one")
        made = self.job_of_request(job.request_id, job.uid)
        if made is not None:
            raise StoreError(f"this request already made job {made}; nothing was stored")
        tag, data = job_event(job)
        seq = self.put_event(tag, data, job.created_at)
        self._tables.jobs[job.jid] = job
        self._tables.requests[job.request_id, job.uid] = job.jid
        parts: dict[MinionId, dict[int, tuple[TargetId, ...]]] = {}
        for minion, number, targets in parts_of(job):
            parts.setdefault(minion, {})[number] = targets
        owners = {target: minion for minion, own in parts.items() for ids in own.values() for target in ids}
        self._tables.parts[job.jid], self._tables.owners[job.jid] = parts, owners
        state = first_state(job)
        self._tables.targets[job.jid] = {target: TargetRow(target, state, "", job.created_at) for target in owners}
        return seq

    def mark_reducible(self, jid: Jid | None) -> None:
        self._tables.reducible.update(dict.fromkeys(self._tables.jobs if jid is None else [jid]))

    def put_reduced(self, rows: Iterable[tuple[Jid, bytes]]) -> None:
        tables = self._tables
        for jid, body in rows:
            tables.jobs[jid] = replace(tables.jobs[jid], body=body, signature=b"")
            tables.reducible.pop(jid, None)

    def jid_taken(self, jid: Jid) -> bool:
        return jid in self._tables.jobs

    def set_targets(self, rows: Iterable[tuple[Jid, TargetRow]]) -> list[tuple[Jid, TargetId]]:
        return [(jid, row.id) for jid, row in rows if self._move(jid, self._believed(jid, row))]

    def set_parts(self, rows: Iterable[PartRow]) -> list[tuple[Jid, TargetId]]:
        moved = []
        for row in rows:
            jid, number = split_part(row.part)
            for target in self.part_targets(jid, row.minion, number):
                moved += self.set_targets([(jid, TargetRow(target, row.state, row.reason, row.changed_at))])
        return moved

    def _believed(self, jid: Jid, row: TargetRow) -> TargetRow:
        current = self._tables.targets.get(jid, {}).get(row.id)
        return row if current is None else effective_state(current.state, row)

    def _move(self, jid: Jid, row: TargetRow) -> bool:
        current = self._tables.targets.get(jid, {}).get(row.id)
        if current is None or advance(current.state, row.state) is current.state:
            return False
        self._own("targets", jid)[row.id] = row
        self._tables.moves += 1
        self._own("moved", jid)[row.id] = self._tables.moves
        return True

    def put_returns(self, commits: Sequence[ReturnCommit], now: float) -> list[Stored]:
        for commit in commits:
            # All or nothing, even for a caller who catches the error and commits the rest.
            pack_own(return_event(commit.ret, MinionId(commit.ret.id))[1])
        return [self._put_return(commit, now) for commit in commits]

    def _put_return(self, commit: ReturnCommit, now: float) -> Stored:
        ret, key = commit.ret, self.key(commit.fingerprint)
        if key is None or key.state is not KeyState.ACCEPTED:
            return Stored.UNASSIGNED
        if self._tables.owners.get(ret.jid, {}).get(ret.id) != key.id:
            return Stored.UNASSIGNED
        if ret.id in self._tables.returns.get(ret.jid, {}):
            return Stored.DUPLICATE
        tag, data = return_event(ret, key.id)
        seq = self.put_event(tag, data, now)
        self._own("returns", ret.jid)[ret.id] = ret._replace(seq=seq)
        self.returned.append((seq, ret))
        self._move(ret.jid, TargetRow(ret.id, ret.state, ret.reason, now))
        if self._tables.jobs[ret.jid].batch is not None:
            self.batches_returned.add(ret.jid)
        return Stored.NEW

    def cancel_job(self, jid: Jid, by: str, now: float) -> list[TargetId]:
        job = self.job(jid)
        if job is None:
            return []
        self._tables.cancels.setdefault(jid, (now, by))
        owners = self._tables.owners[jid]
        never = [
            row.id
            for row in self.targets(jid)
            if row.state is TargetState.PLANNED
            or (row.state is TargetState.QUEUED and self._had_no_session_since(owners[row.id], row.changed_at))
        ]
        for target in never:
            self._move(jid, TargetRow(target, TargetState.CANCELLED, cancelled_reason(by), now))
        return never

    def put_event(self, tag: str, data: Mapping[str, Any], now: float) -> int:
        packed = pack_data(data)
        self._tables.seq += 1
        self._tables.events[self._tables.seq] = LoggedEvent(tag, packed, now)
        return self._tables.seq

    def claim(self, rows: Sequence[MinionRow]) -> dict[MinionId, MinionRow | None]:
        before: dict[MinionId, MinionRow | None] = {}
        for row in rows:
            known = self.minion(row.id)
            if known is None or not is_outdated(row, known):
                before.setdefault(row.id, known)
                self._put_session(replace(row, up=True, end_reason=""), row.last_seen)
        return before

    def release(self, master: str, ends: Mapping[MinionId, str], now: float) -> None:
        self._end_sessions(frozenset({master}), ends, now)

    def fence(self, master: str, end: str, now: float, keep: Collection[MinionId] = ()) -> list[MinionId]:
        others = sorted(set(self._tables.minions).difference(keep))
        return self._end_sessions(frozenset({master, ""}), dict.fromkeys(others, end), now)

    def _end_sessions(self, masters: Collection[str], ends: Mapping[MinionId, str], now: float) -> list[MinionId]:
        found = [self._tables.minions[minion] for minion in ends if minion in self._tables.minions]
        ended = [row for row in found if row.up and row.master in masters]
        for row in ended:
            self._put_session(replace(row, up=False, end_reason=ends[row.id]), now)
        return [row.id for row in ended]

    def refused(self, minion: MinionId, key: Fingerprint, end: str) -> None:
        known = self.minion(minion)
        if known is not None and known.fingerprint == key and not known.up and known.end_reason[:8] != "renamed ":
            self._tables.minions[minion] = replace(known, end_reason=end)

    def _put_session(self, row: MinionRow, now: float) -> None:
        known = self.minion(row.id)
        handed = (one for _part, rows in self._handed_over(row.id) for one in rows)
        queued_at = max((one.changed_at for one in handed if one.state is TargetState.QUEUED), default=now)
        last_seen = max(now, queued_at, known.last_seen if known else now)
        self._tables.minions[row.id] = replace(row, last_seen=last_seen)

    def set_functions(self, minion: MinionId, digest: str) -> None:
        known = self.minion(minion)
        if known is not None:
            self._tables.minions[minion] = replace(known, functions=digest)

    def renew(self, row: MasterRow) -> MasterRow:
        known = self._tables.masters.get(row.name)
        if known is not None and known.start == row.start and known.state is MasterState.FENCED:
            return known
        stored = replace(row, renewals=1)
        if known is not None:
            stays = known.start == row.start and known.has_lease and row.has_lease
            state = known.state if stays else row.state
            stored = replace(row, state=state, renewals=known.renewals + 1, about=known.about, renewed=known.renewed)
        self._tables.masters[row.name] = stored
        return stored

    def drain_master(self, name: str, *, ends: bool = False) -> bool:
        before, after = (MasterState.DRAINING, MasterState.UP) if ends else (MasterState.UP, MasterState.DRAINING)
        known = self._tables.masters.get(name)
        if known is None or known.state is not before:
            return False
        self._tables.masters[name] = replace(known, state=after)
        return True

    def describe_master(self, name: str, about: str) -> None:
        known = self._tables.masters.get(name)
        if known is not None:
            self._tables.masters[name] = replace(known, about=about)

    def offer_certificate(self, name: str, renewed: bytes) -> None:
        known = self._tables.masters.get(name)
        if known is not None:
            self._tables.masters[name] = replace(known, renewed=renewed)

    def fence_master(self, name: str) -> bool:
        known = self._tables.masters.get(name)
        if known is None or known.state is MasterState.FENCED:
            return False
        self._tables.masters[name] = replace(known, state=MasterState.FENCED)
        return True

    def delete_master(self, name: str) -> bool:
        return self._tables.masters.pop(name, None) is not None

    def put_reader(self, row: ReaderRow) -> None:
        self._tables.readers[row.name] = row

    def put_login_full_at(self, name: str, full_at: float, now: float) -> None:
        others = ((at, other) for other, at in self._tables.login_limits.items() if at > now and other != name)
        kept = sorted(others, reverse=True)[: LOGIN_NAMES_MAX - 1]
        self._tables.login_limits = {**{other: at for at, other in kept}, name: full_at}

    def enter_runner_request(self, minion: MinionId, request_id: RequestId, now: float) -> bool:
        known = self._tables.runner_requests
        known = {key: at for key, at in known.items() if at >= now - RUNNER_REQUESTS_KEPT_S}
        self._tables.runner_requests = {(minion, request_id): now, **known}
        return (minion, request_id) not in known

    def put_functions(self, functions: FunctionSet) -> None:
        self._tables.functions[functions.digest] = functions

    def expire(self, now: float) -> list[tuple[Jid, TargetId]]:
        gone = sorted(self._undelivered(now))
        for jid, target in gone:
            known = self.minion(self._tables.owners[jid][target])
            reason = expired_reason(None if known is None else known.end_reason)
            self._move(jid, TargetRow(target, TargetState.EXPIRED, reason, now))
        return gone

    def prune(self, before: float, most: int = PRUNE_MOST) -> int:
        tables = self._tables
        over = self._affordable([job for job in self._ended() if job.created_at < before], most)
        self._delete_jobs(over, before, most)
        named = {row.functions for row in tables.minions.values()}
        tables.functions = {digest: known for digest, known in tables.functions.items() if digest in named}
        return len(over)

    def prune_oldest(self, count: int, most: int = PRUNE_MOST) -> int:
        oldest = self._affordable(self._ended()[:count], most)
        if oldest:
            self._delete_jobs(oldest, oldest[-1].created_at, most)
        return len(oldest)

    def prune_events(self, count: int) -> int:
        events = self._tables.events
        oldest = set(sorted(events)[:count])
        self._tables.events = {seq: event for seq, event in events.items() if seq not in oldest}
        return len(oldest)

    def _affordable(self, jobs: Sequence[Job], most: int) -> list[Job]:
        """The first of these jobs that cost no more than `most`, and one at least: a large job goes at once here."""
        for count, job in enumerate(jobs):
            returns = self._tables.returns.get(job.jid, {}).values()
            most -= len(self._tables.targets[job.jid]) + sum(1 + len(ret.body) // 1024 for ret in returns)
            if most < 0:
                return list(jobs[: max(1, count)])
        return list(jobs)

    def _delete_jobs(self, jobs: Iterable[Job], events_before: float, most: int) -> None:
        tables = self._tables
        for job in jobs:
            del tables.jobs[job.jid], tables.targets[job.jid], tables.requests[job.request_id, job.uid]
            del tables.owners[job.jid], tables.parts[job.jid]
            tables.returns.pop(job.jid, None)
            tables.cancels.pop(job.jid, None)
            tables.moved.pop(job.jid, None)
            tables.reducible.pop(job.jid, None)
            self._owned.difference_update((table, job.jid) for table in ("targets", "returns", "moved"))
        old = sorted((event.at, seq) for seq, event in tables.events.items() if event.at < events_before)
        gone = {seq for _at, seq in old[:most]}
        tables.events = {seq: event for seq, event in tables.events.items() if seq not in gone}


class MemoryStore(_MemoryReader):
    """`saltlite.master.store.ports.Store` in memory. To crash it, drop it and open another one on its disk."""

    def __init__(self, disk: MemoryStoreDisk | None = None) -> None:
        super().__init__(disk or MemoryStoreDisk())
        self._writing = False
        self._closed = False

    @property
    def _tables(self) -> Tables:
        if self._closed:
            raise StoreError("the store was closed; open it again")
        return self._disk.tables

    @property
    def place(self) -> str:
        return self._disk.inventory.place

    def masters(self) -> list[MasterRow]:
        return [row for _name, row in sorted(self._tables.masters.items())]

    def session_counts(self) -> dict[str, int]:
        return dict(Counter(row.master for row in self._tables.minions.values() if row.up))

    def clock(self) -> float:
        return time.time()

    def reader(self, name: str) -> ReaderRow | None:
        return self._tables.readers.get(name)

    def login_full_at(self, name: str) -> float:
        return self._tables.login_limits.get(name, 0.0)

    def listen(self) -> CommitSignal:
        signal = MemoryCommitSignal()
        self._disk.signals.append(signal)
        return signal

    @contextmanager
    def write(self, *, appends_only: bool = False) -> Iterator[SharedWriter]:
        """As the port's `write`. Raises StoreError when another store on the disk committed during the block."""
        del appends_only
        if self._writing:
            raise StoreError("a transaction of this store is open already; end it before the next")
        seen, writer = self._tables, _MemoryWriter(self._disk)
        self._writing = True
        try:
            yield writer
            if self._tables is not seen:
                raise StoreError("another transaction was committed during this one; nothing was stored")
            self._disk.tables = writer.end()
            if self._tables.seq != seen.seq:
                self._disk.notify()
        finally:
            self._writing = False

    def inventory(self) -> MemoryInventory:
        return self._disk.inventory

    def is_full(self, limit: int) -> bool:
        return self.size() >= limit

    def disk_usage(self) -> DiskUsage:
        return DiskUsage(self.size(), 0, 0, None)

    def empty_log(self) -> bool:
        return True

    def close(self) -> None:
        """End the use of this store; the disk keeps what was committed."""
        self._closed = True
