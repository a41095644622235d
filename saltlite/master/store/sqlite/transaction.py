"""One transaction on a connection: all of it is committed, or nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from saltlite.errors import StoreError
from saltlite.master.store.sqlite.connection import Connection, Values


class Transaction:
    """The statements of one transaction. After an error inside it, it can only be rolled back."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._open = True
        self._failure: StoreError | None = None

    def _check(self) -> None:
        if not self._open:
            raise StoreError("this transaction of the store is over; use store.write() for another")

    def rows(self, sql: str, values: Values = ()) -> list[Any]:
        """As Connection.rows."""
        self._check()
        try:
            return self._connection.rows(sql, values)
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

    def commit(self) -> None:
        """Make it durable. Raises StoreError when a statement failed before, even if nobody looked."""
        if self._failure is not None:
            raise StoreError(f"nothing was stored, because a part of it failed: {self._failure}")
        self.run("COMMIT")

    def end(self) -> None:
        """Roll back what was not committed; no statement runs in it from here on."""
        self._open = False
        self._connection.rollback()
