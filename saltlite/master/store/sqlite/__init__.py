"""The master's store in one SQLite file: the embedded default, for one master with several MWorkers.

This package has the schema, the SQL, the lock that orders writers, and the mapping of SQLite's and the file system's
errors to StoreError. The contract is in `saltlite.master.store.ports`, the rules in `saltlite.master.store.ports`.

Writers of all processes wait in the kernel for `flock` on `<path>.lock`: the next one wakes at once, where SQLite's
busy handler would sleep and poll. Readers never wait for a writer (WAL). Each instance has one connection for readers
and one for its writer, so a query during a transaction still sees the last committed state. A writer syncs its commit
after it has released the lock: `saltlite.master.store.sqlite.log_sync` says what others may see before that.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from saltlite.errors import StoreError
from saltlite.master.store.ports import (
    OPEN_JOBS_SIZE,
    RETURNS_SIZE,
    DiskUsage,
    JobNews,
    OpenJob,
    StoreWriter,
)
from saltlite.master.store.reader import AcceptedIds
from saltlite.master.store.sqlite.connection import READ_CACHE_KIB, SqliteConnection, Transaction, explain
from saltlite.master.store.sqlite.log_sync import LogSync
from saltlite.master.store.sqlite.schema import prepare
from saltlite.master.store.sqlite.statements import SqliteReader, SqliteWriter
from saltlite.model.events import Event
from saltlite.model.ids import Jid, MinionId, PartId, RequestId, TargetId
from saltlite.model.job import Job, JobFilter, JobSummary, Return

STORE_MODE = 0o600
"""Mode of the file and of its lock; SQLite gives its log and index the mode of the file."""
_LAST_NUMBER_OF = "SELECT max(seq) FROM jobs WHERE jid IN (SELECT value FROM json_each(?))"


class SqliteStore(SqliteReader):
    """`saltlite.master.store.ports.Store` in the SQLite file `path`, which is made if it is not there.

    One instance belongs to one thread of one process: open it after the fork.
    Raises StoreError when the file cannot be opened, is damaged, or is not a store of this version.
    """

    def __init__(self, path: str) -> None:
        self._lock = _WriteLock(f"{path}.lock")
        self._path = path
        self._writing = False
        self._hid_above = -1
        """What `events` hid last was above this number."""
        opened: list[SqliteConnection] = []
        try:
            self._lock.take()
            try:
                _create_private(path)
                opened.append(SqliteConnection(path))
                prepare(opened[0])
                opened.append(SqliteConnection(path))
                opened[1].run("PRAGMA query_only = ON")
                opened[1].run(f"PRAGMA cache_size = -{READ_CACHE_KIB}")
                super().__init__(opened[1], AcceptedIds())
                self._log = LogSync(path, self._lock.fd)
                self._open_log(opened[0])
            finally:
                self._lock.release()
        except StoreError:
            for connection in opened:
                connection.close()
            self._lock.close()
            raise
        self._write_side, self._read_side = opened

    def _open_log(self, connection: SqliteConnection) -> None:
        """Under the lock: what is in the log is on the disk after that. Raises StoreError."""
        if self._log.has_failed:
            # The disk may lack what the kernel still has of the log: SQLite writes that into the file, and syncs it.
            ((busy, _pages, _moved),) = connection.rows("PRAGMA wal_checkpoint(TRUNCATE)")
            if busy:
                raise StoreError(
                    f"the disk did not take a part of the log of the store {self._path}: restart the master"
                )
        self._log.begin(super().last_seq())

    @contextmanager
    def write(self, *, appends_only: bool = False) -> Iterator[StoreWriter]:
        """One transaction; see `saltlite.master.store.ports.Store.write`. Transactions do not nest."""
        del appends_only  # Writers come one after the other here.
        self._write_side.check()
        if self._writing:
            raise StoreError("a transaction of this store is open already; end it before the next")
        self._lock.take()
        self._writing = True
        try:
            if self._log.has_failed:
                self._open_log(self._write_side)
            changes = self._write_side.changes
            self._write_side.run("BEGIN IMMEDIATE")
            transaction = Transaction(self._write_side)
            try:
                writer = SqliteWriter(transaction, self._accepted)
                yield writer
                last_seq = writer.known_seq
                self._write_side.check()
                self._log.committing(last_seq)
                transaction.commit()
            finally:
                transaction.end()
        finally:
            self._writing = False
            # A forked copy shares the lock with its parent, who is still writing.
            if self._write_side.mine():
                self._lock.release()
        # Without changes it may have read what another process has not synced yet.
        if self._write_side.changes != changes or self._log.is_behind():
            self._log.sync(last_seq)

    # -- What others committed, from the moment at which a power failure cannot take it back

    def events(self, after: int = 0, limit: int = 1000) -> list[Event]:
        found = super().events(after, limit)
        synced = self._log.synced
        if not found or found[-1].seq <= synced:
            return found
        if self._hid_above == synced:
            # The process that committed these may have ended before its sync, so that none wakes the readers.
            self._log.ensure(found[-1].seq)
            return found
        # Whoever committed these wakes the readers again after the sync.
        self._hid_above = synced
        return [event for event in found if event.seq <= synced]

    def last_seq(self) -> int:
        return min(super().last_seq(), self._log.synced)

    def seq_before(self, at: float) -> int:
        return min(super().seq_before(at), self._log.synced)

    def news(self, jid: Jid, after: int, limit: int, size: int = RETURNS_SIZE, *, moves: int = 0) -> JobNews:
        self._read_side.run("BEGIN")
        try:
            found = super().news(jid, after, limit, size, moves=moves)
        finally:
            self._read_side.rollback()
        self._ensure_returns(found.returns)
        return found

    def returns(self, jid: Jid, after: int = 0, limit: int = 1000, size: int = RETURNS_SIZE) -> list[Return]:
        found = super().returns(jid, after, limit, size)
        self._ensure_returns(found)
        return found

    def one_return(self, jid: Jid, target: TargetId) -> Return | None:
        found = super().one_return(jid, target)
        self._ensure_returns([found] if found is not None else [])
        return found

    def equal_returns(self, jid: Jid, size: int) -> list[tuple[Return, list[TargetId]]] | None:
        found = super().equal_returns(jid, size)
        if found and self._log.is_behind():
            # Equal ones are told with the number of the first, and the last one may be new.
            self._log.ensure(super().last_seq())
        return found

    def job(self, jid: Jid) -> Job | None:
        found = super().job(jid)
        if found is not None:
            self._ensure_jobs(jid)
        return found

    def job_of_request(self, request_id: RequestId, uid: int) -> Jid | None:
        found = super().job_of_request(request_id, uid)
        if found is not None:
            self._ensure_jobs(found)
        return found

    def job_summary(self, jid: Jid) -> JobSummary | None:
        found = super().job_summary(jid)
        if found is not None:
            self._ensure_jobs(jid)
        return found

    def jobs(self, wanted: JobFilter, limit: int) -> list[JobSummary]:
        found = super().jobs(wanted, limit)
        self._ensure_jobs(*(job.jid for job in found))
        return found

    def open_jobs(self, minion: MinionId, parts: Sequence[PartId], size: int = OPEN_JOBS_SIZE) -> list[OpenJob]:
        found = super().open_jobs(minion, parts, size)
        self._ensure_jobs(*(job.jid for job in found))
        return found

    def _ensure_returns(self, found: Sequence[Return]) -> None:
        if found:
            self._log.ensure(found[-1].seq)

    def _ensure_jobs(self, *jids: Jid) -> None:
        # Their numbers are asked for only while a commit of another process is on its way to the disk.
        if jids and self._log.is_behind():
            self._log.ensure(self._read_side.value(_LAST_NUMBER_OF, (json.dumps(jids),)) or 0)

    def is_full(self, limit: int) -> bool:
        # No statement in the usual case: the pages in use are in the file or in its log.
        return sum(map(_bytes_of, (self._path, f"{self._path}-wal"))) >= limit and self.size() >= limit

    def disk_usage(self) -> DiskUsage:
        file, log = map(_bytes_of, (self._path, f"{self._path}-wal"))
        room = os.statvfs(os.path.dirname(self._path) or ".")
        return DiskUsage(file, log, free=file - min(file, self.size()), left=room.f_bavail * room.f_frsize)

    def empty_log(self) -> bool:
        self._write_side.check()
        # Under the lock of writers: these would otherwise find the file locked, and SQLite makes them poll for it.
        self._lock.take()
        try:
            ((busy, _pages, _moved),) = self._write_side.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._lock.release()
        return not busy

    def close(self) -> None:
        """Let go of the file, and of a transaction that is still open. A second call does nothing."""
        self._read_side.close()
        self._write_side.close()
        self._log.close()
        self._lock.close()


class _WriteLock:
    """A blocking exclusive lock of one instance against all others, in this process or another."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT, STORE_MODE)
        except OSError as error:
            raise explain(error, path) from error

    def take(self) -> None:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX)
        except OSError as error:
            raise explain(error, self._path) from error

    def release(self) -> None:
        if self.fd >= 0:
            fcntl.flock(self.fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _bytes_of(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise explain(error, path) from error


def _create_private(path: str) -> None:
    """Make an empty private file if there is none.

    An existing one is never opened here: closing it again would drop the locks of every other connection
    that this process has to it (POSIX).
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, STORE_MODE))
    except FileExistsError:
        return
    except OSError as error:
        raise explain(error, path) from error


__all__ = ["SqliteStore"]
