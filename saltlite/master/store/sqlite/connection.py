"""Connections to SQLite, transactions, and the mapping of errors to StoreError."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable
from typing import Any

from saltlite.errors import StoreError
from saltlite.master.store.reader import Until, Values

BUSY_TIMEOUT_MS = 10_000
"""How long SQLite waits for locks other than the write lock: of another program, or a WAL recovery."""

CACHE_KIB = 2_048
"""Page cache of a connection that writes, an upper bound. Pages that do not fit are in the kernel's cache."""
READ_CACHE_KIB = 1_024
"""That of a connection that only reads: each MWorker has one, and what it misses is in the kernel's cache."""

WAL_KEEP_BYTES = 8 * 1024 * 1024
"""The log is truncated to this after a checkpoint. SQLite makes one when the log has 4 MiB."""

UNDECODED = "Could not decode to UTF-8"
"""The error of the sqlite3 module for damaged text."""

_SETTINGS = (
    # What is deleted or overwritten is zeroed in the file, in pages that become free, too: it may be a secret.
    "PRAGMA secure_delete = ON",
    # Checkpoints are synced by SQLite, commits by `LogSync`.
    "PRAGMA synchronous = NORMAL",
    "PRAGMA foreign_keys = OFF",
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    f"PRAGMA cache_size = -{CACHE_KIB}",
    f"PRAGMA journal_size_limit = {WAL_KEEP_BYTES}",
)

# OverflowError and UnicodeError: values that Python has and SQLite does not (2**70, half a surrogate pair).
_FAULTS = (sqlite3.Error, OverflowError, UnicodeError)


class _Forks:
    """How often this process is a fork of the one that loaded this module; asking for the pid would be a system call
    for each statement."""

    count = 0


def _forked() -> None:
    _Forks.count += 1


os.register_at_fork(after_in_child=_forked)


class SqliteConnection:
    """Runs statements; methods raise only StoreError. A forked copy refuses to work, because SQLite's locks do not
    survive a fork."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._forks = _Forks.count
        self._closed = False
        try:
            self._sqlite = sqlite3.connect(path, isolation_level=None)
        except sqlite3.Error as error:
            raise explain(error, path) from error
        try:
            for setting in _SETTINGS:
                self.run(setting)
        except StoreError:
            self._sqlite.close()
            raise

    def mine(self) -> bool:
        """Whether this process opened the connection."""
        return _Forks.count == self._forks

    @property
    def changes(self) -> int:
        """Rows that were changed on this connection so far."""
        return self._sqlite.total_changes

    def check(self) -> None:
        """Raises StoreError when it was closed, and in a process that did not open it."""
        if self._closed:
            raise StoreError(f"the store {self.path} was closed; open it again")
        if not self.mine():
            raise StoreError(f"the store {self.path} was opened before a fork; open it again in this process")

    def rows(self, sql: str, values: Values = (), *, until: Until | None = None) -> list[Any]:
        """All rows of a query, or those up to the first one for which `until` is true. Damaged text has U+FFFD where it
        is not UTF-8."""
        self.check()
        try:
            return _fetched(self._sqlite.execute(sql, values), until)
        except sqlite3.OperationalError as error:
            if UNDECODED not in str(error):
                raise explain(error, self.path) from error
        except _FAULTS as error:
            raise explain(error, self.path) from error
        # A damaged text must not hide other rows. Decoding in Python is slower, so it is not the default.
        self._sqlite.text_factory = lambda text: text.decode("utf-8", "replace")
        try:
            return _fetched(self._sqlite.execute(sql, values), until)
        except _FAULTS as error:
            raise explain(error, self.path) from error
        finally:
            self._sqlite.text_factory = str

    def value(self, sql: str, values: Values = ()) -> Any:
        """The first column of the first row, None without one."""
        rows = self.rows(sql, values)
        return rows[0][0] if rows else None

    def run(self, sql: str, values: Values = ()) -> int:
        """Run a statement; the number of rows that it changed."""
        self.check()
        try:
            return self._sqlite.execute(sql, values).rowcount
        except _FAULTS as error:
            raise explain(error, self.path) from error

    def run_many(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once a row."""
        self.check()
        try:
            self._sqlite.executemany(sql, rows)
        except _FAULTS as error:
            raise explain(error, self.path) from error

    def rollback(self) -> None:
        """End the open transaction, if there is one (SQLite ends it by itself on some errors)."""
        if self.mine() and not self._closed and self._sqlite.in_transaction:
            self.run("ROLLBACK")

    def close(self) -> None:
        """Close the file, and roll back an open transaction; may be called twice."""
        if self._closed:
            return
        self.check()
        self._closed = True
        try:
            self._sqlite.close()
        except sqlite3.Error as error:
            raise explain(error, self.path) from error


def _fetched(cursor: sqlite3.Cursor, until: Until | None) -> list[Any]:
    if until is None:
        return cursor.fetchall()
    found = []
    for row in cursor:
        found.append(row)
        if until(row):
            break
    cursor.close()
    return found


def explain(error: Exception, path: str) -> StoreError:
    """The StoreError for an error of SQLite or the file system."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL or (isinstance(error, OSError) and error.errno == errno.ENOSPC):
        return StoreError(f"the store could not write: no space left for {path}; make room and try again")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreError(
            f"the store {path} is damaged ({error}) and was left as it is; "
            "restore it from a backup, or move it away to start with an empty one"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreError(f"the store {path} is locked by another program; end that and try again")
    is_disk = isinstance(error, OSError) and error.errno == errno.EIO
    if code in _NO_ACCESS or (isinstance(error, OSError) and not is_disk):
        return StoreError(f"the store {path} cannot be opened ({error}); check its folder, owner and mode")
    if code == sqlite3.SQLITE_IOERR or is_disk:
        return StoreError(f"the store could not read or write {path} ({error}); check the disk below it")
    return StoreError(f"the store {path} refused an operation ({error}); nothing of it was kept")


_NO_ACCESS = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)


class Transaction:
    """One transaction. After an error in it, it can only be rolled back."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._open = True
        self._failure: StoreError | None = None

    def _check(self) -> None:
        if not self._open:
            raise StoreError("this transaction of the store is over; use store.write() for another")

    def rows(self, sql: str, values: Values = (), *, until: Until | None = None) -> list[Any]:
        """As Connection.rows."""
        self._check()
        try:
            return self._connection.rows(sql, values, until=until)
        except StoreError as error:
            self._failure = error
            raise

    def value(self, sql: str, values: Values = ()) -> Any:
        """As Connection.value."""
        rows = self.rows(sql, values)
        return rows[0][0] if rows else None

    def run(self, sql: str, values: Values = ()) -> int:
        """As Connection.run."""
        self._check()
        try:
            return self._connection.run(sql, values)
        except StoreError as error:
            self._failure = error
            raise

    def run_many(self, sql: str, rows: Iterable[Values]) -> None:
        """As Connection.run_many."""
        self._check()
        try:
            self._connection.run_many(sql, rows)
        except StoreError as error:
            self._failure = error
            raise

    def later(self, sql: str, values: Values = ()) -> None:
        """Run a statement: at once, as nothing is gained by waiting."""
        self.run(sql, values)

    def commit(self) -> None:
        """Commit. Raises StoreError if a statement failed, even if that exception was caught."""
        if self._failure is not None:
            raise StoreError(f"nothing was stored, because a part of it failed: {self._failure}")
        self.run("COMMIT")

    def end(self) -> None:
        """Roll back what was not committed; no statement runs in it from here on."""
        self._open = False
        self._connection.rollback()
