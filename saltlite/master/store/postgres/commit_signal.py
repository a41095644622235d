"""Wakes a master when another one has committed something: NOTIFY without a payload, on a separate connection."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

import psycopg

from saltlite.master.store.postgres.connection import RETRY_S, Database

WAKES_S = 0.02
"""It wakes once in this time at most, however many commits there are."""
LISTENS_S = 0.5
"""How often it looks whether it was closed."""


class PostgresCommitSignal:
    """`saltlite.master.store.sharing.CommitSignal`.

    A thread listens, so that a database that is away delays nothing: the descriptor stays the same, and is readable
    when the database is there again, as commits may have been missed.
    """

    def __init__(self, database: Database, channel: str) -> None:
        self._conninfo = database.conninfo
        self._channel = channel
        self._fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="saltlite-commits", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        return self._fd

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._fd)

    def close(self) -> None:
        if not self._closed.is_set():
            self._closed.set()
            self._thread.join()
            os.close(self._fd)

    def _listen(self) -> None:
        while not self._closed.is_set():
            with suppress(psycopg.Error), psycopg.connect(self._conninfo, autocommit=True) as connection:
                connection.execute(f"LISTEN {self._channel}")
                os.eventfd_write(self._fd, 1)
                self._hear(connection)
            self._closed.wait(RETRY_S)

    def _hear(self, connection: psycopg.Connection[tuple[object, ...]]) -> None:
        while not self._closed.is_set():
            if any(True for _ in connection.notifies(timeout=LISTENS_S, stop_after=1)):
                os.eventfd_write(self._fd, 1)
                self._closed.wait(WAKES_S)
