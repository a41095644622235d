"""Connections to PostgreSQL, with a real server: those that are refused or get lost, and what is sent over them."""

from __future__ import annotations

import functools
import os
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")

import psycopg

from saltlite.errors import StoreError
from saltlite.master.store.postgres import OTHERS_WAIT_S, PostgresStore, connection, look
from saltlite.master.store.postgres.connection import Database, explain
from saltlite.master.store.postgres.pipeline import translated
from saltlite.master.store.postgres.schema import FORMAT
from tests.support.fleet import wait_until
from tests.support.postgres import Server, running_server
from tests.support.postgres_store import Opened, stored_again
from tests.support.store import NOW, WEB1, job, publish, ret

# --- databases that are refused -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        ("host=/nowhere dbname=x", "cannot be reached"),
        ("host=127.0.0.1 port=1 dbname=x", "cannot be reached"),
        (
            "host=127.0.0.1,127.0.0.1 port=1,2 dbname=x",
            r"cannot be reached \(127.0.0.1:1: Connection refused; 127.0.0.1:2: Connection refused\); nothing",
        ),
        ("dbname", "not a connection string"),
        ("dbname=x password=secret", "contains a password"),
        ("postgresql://saltlite:secret@db/saltlite", "contains a password"),
    ],
)
def test_a_database_that_cannot_be_used_is_a_sentence_without_secrets(dsn: str, said: str) -> None:
    with pytest.raises(StoreError, match=said) as failure:
        PostgresStore(dsn, master=1)
    assert "secret" not in str(failure.value)
    assert "\n" not in str(failure.value)


LATER = """
import sys
from saltlite.master.processes.store_opening import load_postgres
PostgresStore = load_postgres().PostgresStore

class Unreadable:
    def find_spec(self, name, path=None, target=None):
        raise ImportError(name)

sys.meta_path.insert(0, Unreadable())
try:
    PostgresStore("host=localhost port=1 dbname=x", master=1, waits_s=0.0)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def test_what_it_takes_to_find_a_server_by_name_is_loaded_before_rights_are_dropped() -> None:
    """The user of the master may be unable to read Python's own files, as in a folder of root's."""
    done = subprocess.run([sys.executable, "-c", LATER], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("StoreError: the database x on localhost cannot be reached ("), done.stdout
    assert "Connection refused" in done.stdout


def test_a_call_after_a_while_waits_for_a_connection_and_repeats_no_old_reason(
    server: Server, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "RECONNECT_S", 0.0)  # as on a loaded machine: that is too short
    monkeypatch.setattr(connection, "PATIENT_S", 60.0)
    store = opened(server.new_schema())
    ours = "FROM pg_stat_activity WHERE application_name = 'saltlite'"
    server.sql(f"SELECT pg_terminate_backend(pid) {ours}")
    wait_until(lambda: server.sql(f"SELECT count(*) {ours}") == "0", "the connections are gone")
    assert store.last_seq() == 0


LOST_PRIMARY = """connection to server at "db1" (10.0.0.1), port 5432 failed: Connection refused
\tIs the server running on that host and accepting TCP/IP connections?
connection to server at "fd00::2", port 5432 failed: session is read-only
could not translate host name "db3" to address: Name or service not known"""


def test_of_several_servers_each_one_has_its_reason() -> None:
    said = str(explain(psycopg.OperationalError(LOST_PRIMARY), "database x on db1,fd00::2,db3"))
    assert said == (
        "the database x on db1,fd00::2,db3 is read-only ([fd00::2]:5432: session is read-only; db1:5432: Connection "
        'refused; could not translate host name "db3" to address: Name or service not known): start the primary, or '
        "promote a standby"
    )


def test_tables_of_another_program_are_left_as_they_are(server: Server, dsn: str) -> None:
    server.sql("CREATE TABLE accounts (n int)", dsn)
    with pytest.raises(StoreError, match=r"tables of another program, such as accounts, .* a database of its own"):
        PostgresStore(dsn, master=1)
    assert (
        server.sql("SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace", dsn)
        == "accounts"
    )


def test_a_store_of_a_newer_format_is_left_as_it_is(server: Server, dsn: str, opened: Opened) -> None:
    opened(dsn).close()
    server.sql("UPDATE store SET format = 99", dsn)
    with pytest.raises(StoreError, match=f"has format 99, this saltlite reads format {FORMAT} and older"):
        opened(dsn)


def test_a_read_only_database_is_refused(server: Server, opened: Opened) -> None:
    server.sql("CREATE DATABASE frozen")
    server.sql("ALTER DATABASE frozen SET default_transaction_read_only = on")
    with pytest.raises(StoreError, match=r"is read-only .* so that the master finds the primary"):
        opened(server.dsn(dbname="frozen"))


def test_a_database_of_another_encoding_is_refused(server: Server, opened: Opened) -> None:
    server.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(StoreError, match="has the encoding LATIN1"):
        opened(server.dsn(dbname="latin"))


def test_a_user_without_the_right_to_make_tables_is_told_so(server: Server, opened: Opened) -> None:
    server.sql("CREATE ROLE visitor LOGIN")
    with pytest.raises(StoreError, match=r"does not allow the master what it needs .* owner of the database"):
        opened(server.dsn().replace("user=saltlite", "user=visitor"))


def test_an_old_server_is_refused(dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.master.store.postgres.schema.OLDEST_SERVER", 990_000)
    with pytest.raises(StoreError, match=r"is PostgreSQL \d+; saltlite needs 99 or newer"):
        opened(dsn)


def test_a_second_master_is_refused_while_the_first_has_connections(dsn: str, opened: Opened) -> None:
    first = opened(dsn, master=1)
    opened(dsn, master=1)
    with pytest.raises(StoreError, match=r"another master uses the database .* serves one master"):
        opened(dsn, master=2)
    assert first.last_seq() == 0


def test_a_master_that_starts_again_waits_for_connections_of_its_former_life(dsn: str, opened: Opened) -> None:
    former = opened(dsn, master=1)
    threading.Timer(0.5, former.close).start()
    assert opened(dsn, master=2, waits_s=30.0).last_seq() == 0


def test_a_look_at_a_server_says_what_matters_and_changes_nothing(server: Server, dsn: str) -> None:
    seen = look(dsn)
    assert (seen["settings"]["fsync"], seen["standbys"], seen["synchronous"], seen["is_old"]) == ("off", 0, 0, False)
    assert abs(seen["clock"] - time.time()) < 60
    assert server.sql("SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace", dsn) == "0"
    with pytest.raises(StoreError, match="cannot be reached"):
        look("host=/nowhere dbname=x")


# --- the database goes away -----------------------------------------------------------------------


def test_a_connection_that_ended_while_nothing_used_it_costs_no_call(server: Server, dsn: str, opened: Opened) -> None:
    """A server that was started again ends all connections. Who comes once in a while would lose one call each time."""
    store = opened(dsn)
    for number in (1, 2):
        pids = ",".join(str(side.value("SELECT pg_backend_pid()")) for side in (store._read_side, store._write_side))
        server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid IN ({pids})")  # noqa: S608 - numbers
        ended = functools.partial(server.sql, f"SELECT count(*) FROM pg_stat_activity WHERE pid IN ({pids})")  # noqa: S608 - as above
        wait_until(lambda: ended() == "0", "the connections are gone")  # noqa: B023 - called at once
        with store.write() as tx:
            tx.put_event("salt/x", {}, NOW)
        assert store.last_seq() == number


def test_a_connection_whose_end_was_announced_and_comes_later_is_made_anew(
    server: Server, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(dsn)
    side = store._write_side
    pid = side.value("SELECT pg_backend_pid()")
    server.sql(f"SELECT pg_terminate_backend({pid})")
    backends = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}"  # noqa: S608 - a number
    wait_until(lambda: server.sql(backends) == "0", "the backend is gone")
    looks = iter([[True], []])
    nothing: list[int] = []
    selected = select.select

    def announced_only(*asked: Any) -> tuple[list[Any], list[int], list[int]]:
        """What the server says has arrived; that it closed the connection has not."""
        return (next(looks), nothing, nothing) if asked[-1] == 0 else selected(*asked)

    monkeypatch.setattr(select, "select", announced_only)
    assert side.value("SELECT pg_backend_pid()") != pid


def test_while_the_database_is_away_each_call_fails_at_once_and_afterwards_all_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    def counted(conninfo: str, until: float) -> connection._Reconnection:
        attempts.append(until)
        return reconnection(conninfo, until)

    reconnection = connection._Reconnection
    monkeypatch.setattr(connection, "_Reconnection", counted)
    with running_server() as server:
        store = PostgresStore(server.dsn(), master=1)
        publish(store, job(1))
        server.stop()
        with pytest.raises(StoreError):
            store.last_seq()
        began = time.monotonic()
        for _ in range(200):
            with pytest.raises(StoreError, match="cannot be reached"):
                store.last_seq()
            with pytest.raises(StoreError), store.write():
                pass
        # The side that reads and the side that writes try again once in RETRY_S; other calls do not wait.
        assert len(attempts) <= 2 * (1 + (time.monotonic() - began) / connection.RETRY_S)
        server.start()
        wait_until(lambda: stored_again(store), "it stores again")
        wait_until(lambda: _read_again(store), "it reads again")
        assert [found.id for found in store.returns(job(1).jid)] == [WEB1]
        store.close()


def test_a_server_that_hangs_costs_one_wait_and_no_more(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_server() as server:
        store = PostgresStore(server.dsn(), master=1)
        backend = int(store._read_side.value("SELECT pg_backend_pid()"))
        monkeypatch.setattr(connection, "ANSWER_S", 0.5)
        os.kill(backend, signal.SIGSTOP)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            began = time.monotonic()
            with pytest.raises(StoreError, match=r"no answer within 0\.5 s"):
                store.last_seq()
            for _ in range(100):
                with pytest.raises(StoreError, match="cannot be reached"):
                    store.last_seq()
            # Each call that waited would take ANSWER_S: 50 s in all.
            assert time.monotonic() - began < 25.0
        finally:
            os.kill(server.pid, signal.SIGCONT)
            os.kill(backend, signal.SIGCONT)
        store.close()


def test_a_commit_that_the_standby_did_not_confirm_counts_as_not_stored() -> None:
    with running_server() as server:
        store = PostgresStore(server.dsn(), master=1)
        publish(store, job(1))
        # No such standby is there: a commit waits for it until it is cancelled, and then "succeeds" with a warning.
        server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nowhere'")
        server.sql("SELECT pg_reload_conf()")
        wait_until(lambda: server.sql("SHOW synchronous_standby_names") == "nowhere", "commits wait for a standby")
        backend = int(store._write_side.value("SELECT pg_backend_pid()"))

        waits = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {backend:d}"  # noqa: S608 - a number

        def cancel() -> None:
            wait_until(lambda: server.sql(waits) == "SyncRep", "the commit waits")
            server.sql(f"SELECT pg_cancel_backend({backend})")

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(StoreError, match="did not confirm a commit"), store.write(appends_only=True) as tx:
            tx.put_returns([ret(job(1), WEB1)], NOW)
        thread.join()
        server.sql("ALTER SYSTEM RESET synchronous_standby_names")
        server.sql("SELECT pg_reload_conf()")
        wait_until(lambda: server.sql("SHOW synchronous_standby_names") == "", "commits wait for none")
        # The batch comes again, and has one row.
        wait_until(lambda: stored_again(store), "it stores again")
        assert len(store.returns(job(1).jid)) == 1
        store.close()


def _read_again(store: PostgresStore) -> bool:
    with suppress(StoreError):
        return store.last_seq() > 0
    return False


def test_commits_are_durable_whatever_the_database_says(server: Server, opened: Opened) -> None:
    server.sql("CREATE DATABASE hasty")
    server.sql("ALTER DATABASE hasty SET synchronous_commit = off")
    store = opened(server.dsn(dbname="hasty"))
    assert store._write_side.value("SHOW synchronous_commit") == "on"


# --- values of all kinds --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("text", ["", "a", None, "Zoë", 'a"b{,}\\']),
        ("text", []),
        ("bytea", [b"", b"\0\xff", None]),
        ("bigint", [0, -1, 2**63 - 1, None]),
        ("bigint", [1, 2]),
        ("float8", [0.0, 1.5, None, 3]),
        ("float8", [1e300]),
    ],
)
def test_an_array_arrives_as_it_was_sent(kind: str, values: Any, dsn: str, opened: Opened) -> None:
    side = opened(dsn)._read_side
    sql = f"SELECT v FROM unnest(?::{kind}[]) WITH ORDINALITY AS u (v, n) ORDER BY n"  # noqa: S608 - a kind of this test
    assert [found for (found,) in side.exchange([(sql, (values,))])[0][0]] == values


@pytest.mark.parametrize(("kind", "values"), [("bigint", [2**63]), ("bigint", ["x"]), ("text", [1]), ("bytea", ["x"])])
def test_a_value_that_no_column_takes_is_a_sentence_and_costs_no_connection(
    kind: str, values: Any, dsn: str, opened: Opened
) -> None:
    side = opened(dsn)._read_side
    with pytest.raises(StoreError, match="refused an operation"):
        side.exchange([(f"SELECT unnest(?::{kind}[])", (values,))])
    assert side.rows("SELECT ?::text", ("still here",)) == [("still here",)]


def test_after_an_error_the_statements_that_it_skipped_can_be_run(dsn: str, opened: Opened) -> None:
    side = opened(dsn)._read_side
    with pytest.raises(StoreError, match="division by zero"):
        side.exchange([("SELECT 1 / ?::bigint", (0,)), ("SELECT 2 + ?::bigint", (3,))])
    assert side.exchange([("SELECT 1 / ?::bigint", (1,)), ("SELECT 2 + ?::bigint", (3,))]) == [([(1,)], 0), ([(5,)], 0)]


def test_a_signal_during_a_statement_costs_the_connection_and_mixes_no_answers(dsn: str, opened: Opened) -> None:
    side = opened(dsn)._read_side

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            side.rows("SELECT pg_sleep(1), 'first'")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    wait_until(lambda: _answers(side), "it answers again")
    assert side.rows("SELECT 'second'") == [("second",)]


def _answers(side: connection.PostgresConnection) -> bool:
    with suppress(StoreError):
        return bool(side.rows("SELECT 1") == [(1,)])
    return False


def test_a_flush_that_is_larger_than_what_the_network_holds_arrives(dsn: str, opened: Opened) -> None:
    side = opened(dsn)._read_side
    text = "x" * 300_000
    answers = side.exchange([("SELECT ?::text", (text,))] * 60)
    assert [rows for rows, _count in answers] == [[(text,)]] * 60


def test_statements_are_translated() -> None:
    statement = translated("SELECT a FROM t INDEXED BY i WHERE id = ? COLLATE NOCASE AND b = ANY(?::text[])")
    assert statement.sql == b"SELECT a FROM t WHERE lower(id) = lower($1) AND b = ANY($2::text[])"
    assert statement.arrays == ("", "text")
    assert b"?" not in translated("SELECT 1 FROM json_each(?) AS asked CROSS JOIN t ON t.a = asked.value").sql


def test_the_name_of_a_database_in_messages_has_no_more_than_its_place() -> None:
    assert Database.of("host=a,b dbname=fleet user=x sslkey=/k", "saltlite").where == "database fleet on a,b"
    assert "saltlite master m" in Database.of("dbname=fleet", "saltlite master m").conninfo


def test_the_server_notices_within_the_wait_of_the_next_start_that_the_machine_of_a_master_is_gone() -> None:
    address = f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}.77"
    with running_server(listen_addresses=f"'{address}'"):
        store = PostgresStore(f"host={address} user=saltlite dbname=postgres", master=1)
        names = ("idle", "interval", "count")
        idle, interval, count = (int(store._read_side.value(f"SHOW tcp_keepalives_{name}")) for name in names)
        assert store._read_side.value("SHOW tcp_user_timeout") == str(1000 * (idle + interval * count))
        assert 0 < idle + interval * count < OTHERS_WAIT_S
        store.close()
