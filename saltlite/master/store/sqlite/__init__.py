"""The master's store in one SQLite file: the embedded default, for one master with several MWorkers.

This package has the schema, the SQL, the lock that orders writers, and the mapping of SQLite's and the file system's
errors to StoreError. The contract is in `saltlite.master.store.ports`, the rules in `saltlite.master.store.ports`.

Writers of all processes wait in the kernel for `flock` on `<path>.lock`: the next one wakes at once, where SQLite's
busy handler would sleep and poll. Readers never wait for a writer (WAL). Each instance has one connection for readers
and one for its writer, so a query during a transaction still sees the last committed state.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from saltlite.errors import StoreError
from saltlite.master.store.ports import DiskUsage, StoreWriter
from saltlite.master.store.reader import AcceptedIds
from saltlite.master.store.sqlite.connection import READ_CACHE_KIB, SqliteConnection, Transaction, explain
from saltlite.master.store.sqlite.schema import prepare
from saltlite.master.store.sqlite.statements import SqliteReader, SqliteWriter

STORE_MODE = 0o600
"""Mode of the file and of its lock; SQLite gives its log and index the mode of the file."""


class SqliteStore(SqliteReader):
    """`saltlite.master.store.ports.Store` in the SQLite file `path`, which is made if it is not there.

    One instance belongs to one thread of one process: open it after the fork.
    Raises StoreError when the file cannot be opened, is damaged, or is not a store of this version.
    """

    def __init__(self, path: str) -> None:
        self._lock = _WriteLock(f"{path}.lock")
        self._path = path
        self._writing = False
        opened: list[SqliteConnection] = []
        try:
            self._lock.take()
            try:
                _create_private(path)
                opened.append(SqliteConnection(path))
                prepare(opened[0])
            finally:
                self._lock.release()
            opened.append(SqliteConnection(path))
            opened[1].run("PRAGMA query_only = ON")
            opened[1].run(f"PRAGMA cache_size = -{READ_CACHE_KIB}")
        except StoreError:
            for connection in opened:
                connection.close()
            self._lock.close()
            raise
        self._write_side, self._read_side = opened
        super().__init__(self._read_side, AcceptedIds())

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
            self._write_side.run("BEGIN IMMEDIATE")
            transaction = Transaction(self._write_side)
            try:
                yield SqliteWriter(transaction, self._accepted)
                transaction.commit()
            finally:
                transaction.end()
        finally:
            self._writing = False
            # A forked copy shares the lock with its parent, who is still writing.
            if self._write_side.mine():
                self._lock.release()

    def is_full(self, limit: int) -> bool:
        # No statement in the usual case: the pages in use are in the file or in its log.
        return sum(map(_bytes_of, (self._path, f"{self._path}-wal"))) >= limit and self.size() >= limit

    def disk_usage(self) -> DiskUsage:
        file, log = map(_bytes_of, (self._path, f"{self._path}-wal"))
        return DiskUsage(file, log, free=file - min(file, self.size()))

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
        self._lock.close()


class _WriteLock:
    """A blocking exclusive lock of one instance against all others, in this process or another."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT, STORE_MODE)
        except OSError as error:
            raise explain(error, path) from error

    def take(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError as error:
            raise explain(error, self._path) from error

    def release(self) -> None:
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


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
