"""Connections to PostgreSQL: settings, errors, and what happens while the database is away.

A call hardly waits for a database that is away. After a failure each call raises StoreError at once. Once in RETRY_S a
call begins a new connection, and waits RECONNECT_S for it. A later call finds it, if that takes longer. The first call
after a while waits longer, as what was known of the database then may not be so any more.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - hosts are looked up after root's rights are dropped, and with them Python's files
import logging
import os
import re
import select
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, TypeVar

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from saltlite.errors import StoreConflictError, StoreError
from saltlite.master.store.postgres.locks import LOCK_S, STANDS_STILL_S, STATEMENT_S, TRY_S, LockTakenError, seconds
from saltlite.master.store.postgres.pipeline import Pipeline
from saltlite.master.store.reader import Until, Values
from saltlite.model.dataclass import dataclass

log = logging.getLogger(__name__)

ANSWER_S = 6.0
"""How long an answer of the database is waited for; a server that hangs must not hold an MWorker longer."""
LONG_S = 86_400.0
"""The same while a store is moved, or is brought to another format."""
CONNECT_S = 2
RETRY_S = 1.0
RECONNECT_S = 0.1
"""Less than a second: an MWorker has other work, too, while the database is away."""
KNOWN_S = 5.0
"""For so long it counts as away after a failure."""
PATIENT_S = 1.0
"""How long a call waits for a connection when nothing was known for KNOWN_S: several servers are tried one by one."""
AT_ONCE = 500
"""So many statements of one kind leave in one flush."""
LISTENS_S = 0.25
"""How often a wait for an answer looks at the time."""
_SETTINGS = (
    f"SET statement_timeout = '{seconds(STATEMENT_S)}'; SET lock_timeout = '{seconds(LOCK_S)}';"
    f" SET idle_in_transaction_session_timeout = '{seconds(STANDS_STILL_S)}';"
    " SET client_min_messages = warning;"
    # When the machine of a master loses its power, the server has to notice that, as its locks keep the master from
    # starting again. Without effect on a Unix socket.
    " SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3;"
    " SET tcp_user_timeout = '11s';"
    # The best plan of a statement depends on none of its values. A large publish is not worth a compiler.
    " SET plan_cache_mode = force_generic_plan; SET jit = off;"
    # Each statement has its index. What is queued comes and goes faster than the statistics follow.
    " SET enable_seqscan = off;"
    # Never weaker than a commit that is durable here, and on the synchronous standby if there is one.
    " SELECT set_config('synchronous_commit', 'on', false)"
    " WHERE current_setting('synchronous_commit') IN ('off', 'local')"
)
UNCONFIRMED = "SET LOCAL synchronous_commit = local"
"""In a transaction of which nothing has to survive this server."""
_READ_ONLY = "SET default_transaction_read_only = on"
_TRIES = f"SET lock_timeout = '{seconds(TRY_S)}'"
"""Of a writer, which takes its lock by `locks.insist`."""
_NETWORK = {
    "connect_timeout": CONNECT_S,
    "tcp_user_timeout": 3000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "target_session_attrs": "read-write",
}
"""Parameters of a connection that the DSN may set otherwise."""
_TRIED = re.compile(
    r'connection to server (?:at "([^"]*)"(?: \([^)]*\))?, port (\d+)|on socket "([^"]*)") failed: (?:FATAL:  )?(.*)'
)
"""What libpq says of each server that it has tried, on a line of its own."""

_OF_STANDBYS = ("session is read-only", "server is in hot standby", "recovery is in progress")

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class Database:
    """A database, and who connects to it."""

    conninfo: str
    """As libpq takes it, without a password."""
    where: str
    """Its name and hosts, for messages."""

    @classmethod
    def of(cls, dsn: str, application: str) -> Database:
        """From a DSN of the configuration. Raises StoreError if it is none, or has a password in it."""
        try:
            parts = conninfo_to_dict(dsn)
        except psycopg.ProgrammingError as error:
            raise StoreError(f"`database` is not a connection string of PostgreSQL: {_line(error)}") from error
        if "password" in parts or "sslpassword" in parts:
            raise StoreError(
                "`database` contains a password; put it into a file in the format of ~/.pgpass (mode 0600, owned by "
                "the master's user) and name it with passfile=/etc/saltlite/database.pass"
            )
        where = f"database {parts.get('dbname') or parts.get('user') or 'of the default name'}"
        hosts = parts.get("host") or parts.get("hostaddr")
        where += f" on {hosts}" if hosts else ""
        settings: dict[str, Any] = {**_NETWORK, "application_name": application, **parts}
        return cls(make_conninfo(**settings), where)


def explain(error: Exception, where: str) -> StoreError:
    """The StoreError for an error of PostgreSQL."""
    state = getattr(error, "sqlstate", None) or ""
    reasons = _reasons(error)
    text = "; ".join(reasons)
    if state in {"53100", "53200"}:
        return StoreError(f"the {where} has no room left ({text}); make room and try again")
    if state == "25006" or any(words in text for words in _OF_STANDBYS):
        way = "it is a standby, or set so; name all servers in `database`, so that the master finds the primary"
        if len(reasons) > 1:
            way = "start the primary, or promote a standby"
        return StoreError(f"the {where} is read-only ({text}): {way}")
    if state[:2] == "28" or "password" in text:
        return StoreError(f"the {where} refused the master ({text}); check user, passfile and pg_hba.conf")
    if state == "42501":
        return StoreError(
            f"the {where} does not allow the master what it needs ({text}); make its user the owner of the database"
        )
    if state == "23505":
        return StoreConflictError(f"the {where} has this already, from another writer ({text}); nothing was stored")
    if state == "55P03":
        return LockTakenError(
            f"the {where} was busy for another writer for too long ({text}); try again: `saltlite doctor` says if it "
            "waits for a standby"
        )
    if state == "57014":
        return StoreError(f"the {where} took too long for a statement ({text}); nothing of it was kept")
    if is_lost(error):
        return StoreError(f"the {where} cannot be reached ({text}); nothing was stored")
    return StoreError(f"the {where} refused an operation ({text}); nothing of it was kept")


def is_lost(error: Exception) -> bool:
    """Whether the connection cannot be used after this error."""
    state = getattr(error, "sqlstate", None) or ""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return state[:2] in {"", "08"} or state in {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"}


def _reasons(error: Exception) -> list[str]:
    """Where no connection was made, each server that was tried has its reason, once; else there is one."""
    lines = str(error).split("\n")
    tried = [found for line in lines if (found := _TRIED.search(line))]
    if not tried:
        return [_line(error)]
    reasons = {}
    for found in tried:
        host, port, socket, why = found.groups()
        reasons[socket or f"{f'[{host}]' if ':' in host else host}:{port}"] = why.strip()
    unknown = {line.strip().removeprefix("- ") for line in lines if "could not translate host name" in line}
    return [*(f"{place}: {why}" for place, why in sorted(reasons.items())), *sorted(unknown)]


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class TimedConnection(psycopg.Connection[Any]):
    """Waits for an answer for a limited time."""

    patience_s = 0.0
    """If it is not 0, the time to wait in place of ANSWER_S."""

    def wait(
        self, gen: Generator[Any, Any, _Answer], interval: float = LISTENS_S, timeout: float | None = None
    ) -> _Answer:
        answer: _Answer = super().wait(
            _bounded(gen, time.monotonic() + (timeout or self.patience_s or ANSWER_S)), interval
        )
        return answer


def _bounded(gen: Generator[Any, Any, _Answer], until: float) -> Generator[Any, Any, _Answer]:
    try:
        wish = next(gen)
        while True:
            ready = yield wish
            if ready:
                wish = gen.send(ready)
            elif time.monotonic() > until:
                raise psycopg.OperationalError(f"no answer within {ANSWER_S:g} s")
    except StopIteration as end:
        answer: _Answer = end.value
        return answer


class PostgresConnection:
    """Runs statements; methods raise only StoreError. A forked copy refuses to work."""

    def __init__(self, database: Database, begin: Callable[[TimedConnection], None], *, reads: bool) -> None:
        """`begin` is called with each new connection, and may raise StoreError; then there is none. `reads`: this one
        changes nothing. Raises StoreError if the database cannot be reached now."""
        self.where = database.where
        self._database = database
        self._begin = begin
        self._reads = reads
        self._pid = os.getpid()
        self._closed = False
        self._attempt: _Reconnection | None = None
        self._try_at = 0.0
        self._known_until = 0.0
        self._why = ""
        self._warnings: list[str] = []
        self._is_ending = False
        self.patience_s = 0.0
        try:
            connection = TimedConnection.connect(database.conninfo, autocommit=True)
        except psycopg.Error as error:
            raise explain(error, self.where) from error
        self._connection: psycopg.Connection[Any] | None = self._greeted(connection)

    def _greeted(self, connection: TimedConnection) -> TimedConnection:
        """The connection with its settings; it is closed if that fails."""
        self._is_ending = False
        try:
            connection.autocommit = True
            connection.add_notice_handler(self._noted)
            connection.execute(_SETTINGS)
            self._begin(connection)
            connection.execute(_READ_ONLY if self._reads else _TRIES)
            self._pipeline = Pipeline(connection)
        except psycopg.Error as error:
            connection.close()
            raise explain(error, self.where) from error
        except StoreError:
            connection.close()
            raise
        return connection

    def _noted(self, notice: psycopg.errors.Diagnostic) -> None:
        self._is_ending = self._is_ending or notice.severity_nonlocalized == "FATAL"
        if (notice.sqlstate or "")[:2] == "01":
            self._warnings.append(" ".join((notice.message_primary or "").split()))

    def mine(self) -> bool:
        """Whether this process opened the connection."""
        return self._pid == os.getpid()

    def check(self) -> None:
        """Raises StoreError when it was closed, and in a process that did not open it."""
        if self._closed:
            raise StoreError(f"the store in the {self.where} was closed; open it again")
        if not self.mine():
            raise StoreError(f"the store in the {self.where} was opened before a fork; open it again in this process")

    def ready(self) -> psycopg.Connection[Any]:
        """The connection. Raises StoreError while there is none."""
        self.check()
        if self._connection is not None and self._has_ended(self._connection):
            self.drop(StoreError(f"the {self.where} has closed the connection; it is reached anew"))
        if self._connection is None:
            self._reconnect()
        if self._connection is None:
            raise StoreError(self._why)
        return self._connection

    def _has_ended(self, connection: psycopg.Connection[Any]) -> bool:
        """Whether the server has ended it between two transactions: no statement was sent, so none is lost."""
        if connection.info.transaction_status != pq.TransactionStatus.IDLE:
            return False
        try:
            # What it says at the end comes before the end itself, which may be a moment later: `is_busy` reads it.
            while select.select([connection.fileno()], [], [], 0)[0]:
                connection.pgconn.consume_input()
                connection.pgconn.is_busy()
        except psycopg.OperationalError:
            return True
        return self._is_ending

    def _reconnect(self) -> None:
        """Go on with the attempt, or begin one when its time has come."""
        now = time.monotonic()
        wait_s = 0.0
        if self._attempt is None:
            if now < self._try_at:
                return
            self._attempt = _Reconnection(self._database.conninfo, now + CONNECT_S)
            wait_s = RECONNECT_S if now < self._known_until else PATIENT_S
        self._known_until = now + KNOWN_S
        try:
            made = self._attempt.made(wait_s)
            if made is not None:
                self._attempt = None
                self._connection = self._greeted(made)
                log.warning("the %s is reached again", self.where)
        except psycopg.Error as error:
            self._gave_up(explain(error, self.where))
        except StoreError as error:
            self._gave_up(error)

    def _gave_up(self, why: StoreError) -> None:
        # From here: the attempt itself may have taken longer.
        self._attempt, self._try_at = None, time.monotonic() + RETRY_S
        self._why = str(why)

    def failed(self, error: Exception) -> StoreError:
        """The StoreError for what a statement raised. After the loss of the connection a new one is made."""
        said = explain(error, self.where)
        if self._connection is not None and (self._connection.closed or is_lost(error)):
            self.drop(said)
        return said

    def drop(self, why: StoreError) -> None:
        """Give the connection up."""
        connection, self._connection = self._connection, None
        self._why, self._try_at = str(why), time.monotonic()
        if connection is not None:
            log.error("%s", why)
            connection.close()

    def lift_limits(self) -> None:
        """Let statements, and pauses between two of them, last as long as they need, until the connection is lost."""
        self.exchange([("SET statement_timeout = 0", ()), ("SET idle_in_transaction_session_timeout = 0", ())])
        self.patience_s = LONG_S

    def exchange(self, statements: Sequence[tuple[str, Values]]) -> list[tuple[list[Any], int]]:
        """Send all of these at once; the rows of each, and the number of rows that it changed."""
        self.ready()
        try:
            return self._pipeline.run(statements, self.patience_s or ANSWER_S)
        except psycopg.Error as error:
            raise self.failed(error) from error
        except BaseException:
            # A signal: answers that are still to come must not be taken for those of the next statement.
            self.drop(StoreError(f"a statement to the {self.where} was broken off; nothing of it was kept"))
            raise

    def rows(self, sql: str, values: Values = (), *, until: Until | None = None) -> list[Any]:
        """All rows of a query, or those up to the first one for which `until` is true."""
        found = self.exchange([(sql, values)])[0][0]
        return found if until is None else list(up_to(found, until))

    def value(self, sql: str, values: Values = ()) -> Any:
        """The first column of the first row, None without one."""
        rows = self.rows(sql, values)
        return rows[0][0] if rows else None

    def run(self, sql: str, values: Values = ()) -> int:
        """Run a statement; the number of rows that it changed."""
        return self.exchange([(sql, values)])[0][1]

    def run_many(self, sql: str, rows: Iterable[Values]) -> None:
        """Run a statement once a row."""
        todo = iter(rows)
        while some := list(islice(todo, AT_ONCE)):
            self.exchange([(sql, row) for row in some])

    def commit(self, last: Sequence[tuple[str, Values]] = ()) -> list[tuple[list[Any], int]]:
        """End the transaction, after these statements; as `exchange`. Raises StoreError if the commit was not
        confirmed."""
        self._warnings.clear()
        answers = self.exchange([*last, ("COMMIT", ())])
        self._confirmed()
        return answers

    def _confirmed(self) -> None:
        # A commit that was cancelled while it waited for the standby "succeeds" with a warning only.
        if self._warnings:
            said = StoreError(
                f"the {self.where} did not confirm a commit ({self._warnings[0]}); it counts as not stored"
            )
            self.drop(said)
            raise said

    @contextmanager
    def unconfirmed(self, lock: int) -> Iterator[None]:
        """Hold that advisory lock, and let commits wait for no standby, which might be away, so that nobody else has to
        wait for it. Both last for the block, or the connection is given up. Raises StoreError."""
        sql = "SELECT current_setting('synchronous_commit'), pg_advisory_lock(?)::text"
        before = self.value(sql, (lock,))
        held = self._connection
        try:
            self.run("SET synchronous_commit = local")
            yield
        finally:
            # Of a connection that was lost nothing is left.
            if self._connection is held:
                try:
                    self.exchange(
                        [
                            ("SELECT set_config('synchronous_commit', ?, false)", (before,)),
                            ("SELECT pg_advisory_unlock(?)", (lock,)),
                        ]
                    )
                except StoreError as error:
                    self.drop(error)
                    raise

    def rollback(self) -> None:
        """End the open transaction, if there is one."""
        if not self.mine() or self._closed or self._connection is None:
            return
        if self._connection.info.transaction_status == pq.TransactionStatus.IDLE:
            return
        try:
            self._pipeline.run([("ROLLBACK", ())], ANSWER_S)
        except psycopg.Error as error:
            self.drop(explain(error, self.where))

    def close(self) -> None:
        """Close the connection, and roll back an open transaction; may be called twice."""
        if self._closed:
            return
        self.check()
        self._closed = True
        if self._attempt is not None:
            self._attempt.end()
        if self._connection is not None:
            self._connection.close()


class _Reconnection:
    """A connection that is being made, without blocking."""

    def __init__(self, conninfo: str, until: float) -> None:
        self._until = until
        self._link = pq.PGconn.connect_start(conninfo.encode())
        self._wish = pq.PollingStatus.WRITING

    def made(self, wait_s: float) -> TimedConnection | None:
        """The connection if there is one within that time. Raises psycopg.OperationalError when there will be none."""
        waits_until = time.monotonic() + wait_s
        while self._is_ready(waits_until - time.monotonic()):
            self._wish = pq.PollingStatus(self._link.connect_poll())
            if self._wish == pq.PollingStatus.OK:
                return TimedConnection(self._link)
            if self._wish == pq.PollingStatus.FAILED:
                raise psycopg.OperationalError(self._end())
        if time.monotonic() > self._until:
            self.end()
            raise psycopg.OperationalError(f"no connection within {CONNECT_S} s")
        return None

    def _is_ready(self, wait_s: float) -> bool:
        if self._link.status == pq.ConnStatus.BAD:
            raise psycopg.OperationalError(self._end())
        watch = [self._link.socket]
        reads = self._wish == pq.PollingStatus.READING
        found = select.select(watch if reads else [], [] if reads else watch, [], max(0.0, wait_s))
        return bool(found[0] or found[1])

    def _end(self) -> str:
        said = str(self._link.error_message, "utf-8", "replace")
        self.end()
        return said

    def end(self) -> None:
        """Give the attempt up."""
        self._link.finish()


def up_to(rows: list[Any], until: Until) -> Iterable[Any]:
    """The rows up to the first one for which `until` is true."""
    for row in rows:
        yield row
        if until(row):
            return
