"""One SQLite connection of one process, and the one place where its errors become StoreError."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from saltlite.errors import StoreError

BUSY_TIMEOUT_MS = 10_000
"""How long SQLite waits for a lock that the write lock does not order: another program, a WAL recovery."""

CACHE_KIB = 2_048
"""Page cache of a connection that writes, an upper bound. Pages that do not fit are in the kernel's cache."""
READ_CACHE_KIB = 1_024
"""That of a connection that only reads: each MWorker has one, and what it misses is in the kernel's cache."""

WAL_KEEP_BYTES = 64 * 1024 * 1024
"""The log is cut back to this after a checkpoint, however long it grew."""

UNDECODED = "Could not decode to UTF-8"
"""What SQLite's module says of text that is damaged."""

Values = Sequence[str | bytes | int | float]

_SETTINGS = (
    # What is deleted or overwritten is zeroed in the file, in pages that become free, too: it may be a secret.
    "PRAGMA secure_delete = ON",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = OFF",
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    f"PRAGMA cache_size = -{CACHE_KIB}",
    f"PRAGMA journal_size_limit = {WAL_KEEP_BYTES}",
)

# OverflowError and UnicodeError: values that Python has and SQLite does not (2**70, half a surrogate pair).
_FAULTS = (sqlite3.Error, OverflowError, UnicodeError)


class Connection:
    """Runs constant statements; every method raises StoreError and nothing else.

    A copy that came through a fork refuses to work: SQLite's locks do not survive one.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._pid = os.getpid()
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
        return os.getpid() == self._pid

    def check(self) -> None:
        """Raises StoreError when it was closed, and in a process that did not open it."""
        if self._closed:
            raise StoreError(f"the store {self.path} was closed; open it again")
        if not self.mine():
            raise StoreError(f"the store {self.path} was opened before a fork; open it again in this process")

    def rows(self, sql: str, values: Values = ()) -> list[Any]:
        """All rows of a query, as tuples. Text that is no UTF-8 has U+FFFD where it is damaged."""
        self.check()
        try:
            return self._sqlite.execute(sql, values).fetchall()
        except sqlite3.OperationalError as error:
            if UNDECODED not in str(error):
                raise explain(error, self.path) from error
        except _FAULTS as error:
            raise explain(error, self.path) from error
        # One text that is damaged must not hide the other rows. A function of Python takes longer, so it is no default.
        self._sqlite.text_factory = lambda text: text.decode("utf-8", "replace")
        try:
            return self._sqlite.execute(sql, values).fetchall()
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
        """Let go of the file and of an open transaction; a second call does nothing."""
        if self._closed:
            return
        self.check()
        self._closed = True
        try:
            self._sqlite.close()
        except sqlite3.Error as error:
            raise explain(error, self.path) from error


def explain(error: Exception, path: str) -> StoreError:
    """The StoreError for what SQLite or the file system said about `path`."""
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
    if isinstance(error, OSError) or code in _NO_ACCESS:
        return StoreError(f"the store {path} cannot be opened ({error}); check its folder, owner and mode")
    if code == sqlite3.SQLITE_IOERR:
        return StoreError(f"the store could not read or write {path} ({error}); check the disk below it")
    return StoreError(f"the store {path} refused an operation ({error}); nothing of it was kept")


_NO_ACCESS = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN)
