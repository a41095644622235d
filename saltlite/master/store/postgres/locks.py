"""How long a writer waits for a lock, and what ends a session that stands still with it.

A master that is stopped, hangs, or is cut off keeps the locks of its open transaction. The writers of other masters
must get theirs all the same, without an error. So each session that stands still loses its locks before a writer gives
up:

- The server ends a session that sends nothing in a transaction for STANDS_STILL_S.
- It has no limit for a session of which only a part of a flush has arrived, or that does not read its answers, or that
  holds a lock outside of a transaction. A writer that waits ends such a session when it has seen it unchanged LOOKS
  times, once every TRY_S.
- A writer waits TRY_S for a lock, and tries again, for LOCK_S in all. If it waited at a stretch, then the sessions of a
  stopped master that wait as well would get the lock one after the other, and each would keep it for STANDS_STILL_S.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from saltlite.errors import StoreError

if TYPE_CHECKING:
    from saltlite.master.store.postgres.connection import PostgresConnection

log = logging.getLogger(__name__)

WRITING, ORDER, REGISTERING = 0x534C_5453, 0x534C_5454, 0x534C_5455
"""Advisory locks, each with the number of a table; see `saltlite.master.store.postgres.statements` and `inventory`."""
TRY_S = 1.0
STANDS_STILL_S = 2.5
"""A process that goes on after a longer pause gets an error. A shorter time would hit one that is only slow; a longer
one would let the leases of masters run out that wait for it."""
LOOKS = 3
MARGIN_S = 1.0
"""For the time that a slow server needs to end a session."""
LOCK_S = MARGIN_S + max(TRY_S + STANDS_STILL_S, (LOOKS + 1) * TRY_S)
STATEMENT_S = LOCK_S + 0.5
"""How long a statement may run. One that waits for a lock says so, and not that it took too long."""

_Answer = TypeVar("_Answer")

# A session in a statement is 'active' also while the server waits for the rest of a flush, or for a reader of answers.
_STANDING = (
    "SELECT a.pid, a.state_change::text, a.application_name FROM pg_stat_activity AS a WHERE a.pid <> pg_backend_pid()"  # noqa: S608 - numbers
    " AND a.state IN ('active', 'idle') AND a.wait_event IN ('ClientRead', 'ClientWrite') AND a.pid IN"
    " (SELECT l.pid FROM pg_locks AS l WHERE l.granted"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    f" AND (l.locktype = 'advisory' AND l.objsubid = 1 AND l.classid IN ({WRITING}, {ORDER}, {REGISTERING})"
    " AND l.objid IN ('store'::regclass, 'inventory'::regclass)"
    " OR l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.relation = 'inventory'::regclass))"
)
_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = ? AND state_change::text = ?"


class LockTakenError(StoreError):
    """A statement has waited for a lock for as long as it may."""


def seconds(setting_s: float) -> str:
    """A time as PostgreSQL's settings take it."""
    return f"{setting_s * 1000:.0f}ms"


TAKE = f"SELECT pg_advisory_xact_lock(?), set_config('lock_timeout', '{seconds(LOCK_S)}', true)"
"""Takes an advisory lock for the transaction. Only until then a wait for a lock lasts no longer than TRY_S."""
SHARE = TAKE.replace("_lock(", "_lock_shared(")


def insist(connection: PostgresConnection, begin: Callable[[], _Answer]) -> _Answer:
    """What `begin` answers, which begins a transaction with a statement that takes a lock. Raises StoreError."""
    last_try_at = time.monotonic() + LOCK_S - TRY_S
    # Where time is lost between two tries, the session that holds the lock must have been looked at often enough.
    tries_left = int(LOCK_S / TRY_S)
    standing = _Standing(connection)
    while True:
        try:
            return begin()
        except LockTakenError:
            connection.rollback()
            tries_left -= 1
            if not standing.look() and tries_left <= 0 and time.monotonic() > last_try_at:
                raise


class _Standing:
    """The sessions that stand still with a lock, for one that waits."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self._looks: dict[tuple[Any, ...], int] = {}
        """For each, by what it is recognised by, at how many looks in a row it was the same."""

    def look(self) -> bool:
        """End those that were the same at LOOKS looks; whether there were any."""
        try:
            rows = self._connection.rows(_STANDING)
            self._looks = {tuple(row): self._looks.get(tuple(row), 0) + 1 for row in rows}
            ended = [row for row, looks in self._looks.items() if looks >= LOOKS and self._end(*row)]
        except StoreError as error:
            # The next try says what is wrong.
            log.debug("who holds the lock cannot be found out: %s", error)
            return False
        return bool(ended)

    def _end(self, pid: int, since: str, name: str) -> bool:
        is_ended = self._connection.value(_END, (pid, since)) is True
        if is_ended:
            log.warning("a session of %s (pid %d) stood still with a lock that others waited for: ended", name, pid)
        return is_ended
