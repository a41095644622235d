"""A session of a master that stands still in PostgreSQL costs no writer of another master an error."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")

from saltlite.errors import StoreError
from saltlite.master.processes.membership import LEASE_S, RENEW_S
from saltlite.master.store.postgres import PostgresStore, connection, locks
from saltlite.master.store.postgres.locks import LOCK_S, LOOKS, MARGIN_S, STANDS_STILL_S, STATEMENT_S, TRY_S, WRITING
from saltlite.master.store.sharing import SharedValue
from tests.support.fleet import wait_until
from tests.support.postgres import Server
from tests.support.postgres_store import Opened, commit_appended
from tests.support.store import NOW, WEB1, WEB2, job, master_row, publish, ret

SPAWN = multiprocessing.get_context("spawn")
LARGE = 30_000_000
"""Bytes, more than a socket holds."""


def test_whoever_stands_still_loses_its_locks_before_a_writer_gives_up() -> None:
    # One that stood still while it waited gets the lock at the end of its try, and keeps it as long as it may.
    assert TRY_S + STANDS_STILL_S + MARGIN_S <= LOCK_S
    assert (LOOKS + 1) * TRY_S + MARGIN_S <= LOCK_S
    assert LOCK_S < STATEMENT_S < connection.ANSWER_S
    assert RENEW_S + STANDS_STILL_S < LEASE_S


# Each holds locks for a while, and sends and reads nothing then.


@contextmanager
def in_a_change(store: PostgresStore, _dsn: str) -> Iterator[None]:
    with ExitStack() as open_:
        open_.enter_context(store.write())
        yield
        open_.pop_all()  # the server has ended it


@contextmanager
def in_a_transaction_that_appends(store: PostgresStore, _dsn: str) -> Iterator[None]:
    with ExitStack() as open_:
        tx = open_.enter_context(store.write(appends_only=True))
        tx.put_returns([ret(job(1), WEB1)], NOW)
        yield
        open_.pop_all()


@contextmanager
def in_a_flush(_store: PostgresStore, dsn: str) -> Iterator[None]:
    ready = SPAWN.Event()
    stopped = SPAWN.Process(target=stop_in_flush, args=(dsn, ready), daemon=True)
    stopped.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        stopped.kill()
        stopped.join()


class StopsAfterLock:
    """A connection of libpq whose process stops as soon as the lock ORDER has left, before the rest of the flush."""

    def __init__(self, link: Any, ready: Any) -> None:
        self._link = link
        self._ready = ready
        self._left = 3  # one statement, the lock, and one after it

    def __getattr__(self, name: str) -> Any:
        return getattr(self._link, name)

    def send_query_prepared(self, *statement: Any) -> None:
        self._link.send_query_prepared(*statement)
        self._left -= 1
        if not self._left:
            self._link.flush()
            self._ready.set()
            os.kill(os.getpid(), signal.SIGSTOP)


def stop_in_flush(dsn: str, ready: Any) -> None:
    store = PostgresStore(dsn, master=1, name="a", several=True)
    with store.write(appends_only=True) as tx:
        tx.put_returns([ret(job(1), WEB1)], NOW)
        pipeline = store._write_side._pipeline
        pipeline._link = StopsAfterLock(pipeline._link, ready)  # type: ignore[assignment]


@contextmanager
def with_answers_that_it_does_not_read(store: PostgresStore, _dsn: str) -> Iterator[None]:
    side = store._write_side
    side.exchange([("BEGIN", ()), ("SELECT pg_advisory_xact_lock(?)", (store._writing_key,))])
    link = side._pipeline._link
    link.send_query_params(b"SELECT repeat('x', %d)" % LARGE, [])
    link.pipeline_sync()
    yield


@contextmanager
def with_a_lock_outside_of_a_transaction(store: PostgresStore, _dsn: str) -> Iterator[None]:
    store._write_side.run("SELECT pg_advisory_lock(?)", (store._writing_key,))
    yield


@contextmanager
def in_a_flush_of_values(store: PostgresStore, _dsn: str) -> Iterator[None]:
    link = store.inventory()._side._pipeline._link
    for statement in (b"BEGIN", b"UPDATE inventory SET seq = seq + 1"):
        link.send_query_params(statement, [])
    link.flush()
    yield


def change(store: PostgresStore) -> None:
    with store.write() as tx:
        tx.renew(master_row("b"))


def append(store: PostgresStore) -> None:
    commit_appended(store, ret(job(1), WEB2))


def put_value(store: PostgresStore) -> None:
    store.inventory().put_value(SharedValue("mine", "web1", "digest", NOW, b"v", 0))


@pytest.mark.parametrize(
    ("stands_still", "writes"),
    [
        (in_a_change, change),
        (in_a_transaction_that_appends, change),
        (in_a_transaction_that_appends, append),
        (in_a_flush, change),
        (with_answers_that_it_does_not_read, append),
        (with_a_lock_outside_of_a_transaction, append),
        (in_a_flush_of_values, put_value),
    ],
)
def test_a_session_that_stands_still_costs_another_writer_no_error(
    server: Server, dsn: str, opened: Opened, stands_still: Any, writes: Callable[[PostgresStore], None]
) -> None:
    store, other = opened(dsn, master=1, name="a"), opened(dsn, master=2, name="b")
    publish(store, job(1))
    store.inventory()
    other.inventory()
    with stands_still(store, dsn):
        holders = f"SELECT count(*) FROM pg_locks WHERE granted AND (classid = {WRITING} OR mode = 'RowExclusiveLock')"  # noqa: S608 - a constant
        wait_until(lambda: server.sql(holders) != "0", "it has the lock")
        writes(other)


def test_sessions_of_a_stopped_master_that_wait_as_well_do_not_get_the_lock_one_after_the_other(
    dsn: str, opened: Opened
) -> None:
    store, other = opened(dsn, master=1, name="a"), opened(dsn, master=2, name="b")
    waiting = [opened(dsn, master=1, name="a") for _ in range(3)]
    with in_a_change(store, dsn):
        for one in waiting:
            link = one._write_side._pipeline._link
            for statement in (b"BEGIN", b"SELECT pg_advisory_xact_lock(%d)" % one._writing_key):
                link.send_query_params(statement, [])
            link.pipeline_sync()
        change(other)


def test_a_session_that_works_or_that_nobody_waits_for_is_left_alone(
    dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = opened(dsn, master=1, name="a"), opened(dsn, master=2, name="b")
    busy, link = store._write_side, store._write_side._pipeline._link
    busy.exchange([("BEGIN", ()), ("SELECT pg_advisory_xact_lock(?)", (store._writing_key,))])
    monkeypatch.setattr(locks, "LOCK_S", 0.0)
    standing = locks._Standing(other._write_side)
    link.send_query_params(b"SELECT pg_sleep(600)", [])
    link.pipeline_sync()
    assert [standing.look() for _ in range(LOOKS + 1)] == [False] * (LOOKS + 1), "its statement runs"
    with pytest.raises(StoreError, match="busy for another writer"):
        change(other)
    reads = store._read_side
    reads._pipeline._link.send_query_params(b"SELECT repeat('x', %d)" % LARGE, [])
    reads._pipeline._link.pipeline_sync()
    assert [standing.look() for _ in range(LOOKS + 1)] == [False] * (LOOKS + 1), "it has no lock"
