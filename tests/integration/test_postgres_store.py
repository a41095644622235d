"""The store in PostgreSQL against a real server: order, locks, lost connections, and databases that are refused."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import re
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")

import psycopg

from saltlite.errors import SaltliteError, StoreConflictError, StoreError
from saltlite.master.processes.context import Answer, StoreWrite
from saltlite.master.store import postgres
from saltlite.master.store.ports import ReturnCommit, Stored, StoreWriter, TargetRow
from saltlite.master.store.postgres import OTHERS_WAIT_S, PostgresStore, connection, look
from saltlite.master.store.postgres.connection import Database, explain
from saltlite.master.store.postgres.pipeline import translated
from saltlite.master.store.postgres.schema import FORMAT
from saltlite.master.store.postgres.seals import UNSEALED
from saltlite.master.store.postgres.statements import _NEXT_PLANNED, PostgresTransaction
from saltlite.master.store.reader import _MINIONS_AMONG
from saltlite.master.store.sharing import CommitSignal, MasterRow, MasterState
from saltlite.master.store.writer import _SESSIONS_OF
from saltlite.model.ids import Jid, MinionId, RequestId
from saltlite.model.job import Batch, Job, TargetState
from saltlite.model.keys import Fingerprint, KeyState
from tests.support.postgres import Server, running_server
from tests.support.store import NOW, WEB1, WEB2, commit, job, key, publish, ret, row, token

SPAWN = multiprocessing.get_context("spawn")
MINIONS = tuple(MinionId(f"web{n:03d}") for n in range(50))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def dsn(server: Server) -> str:
    return server.new_schema()


@pytest.fixture
def opened() -> Iterator[Callable[..., PostgresStore]]:
    stores: list[PostgresStore] = []

    def open_one(dsn: str, master: int = 1, waits_s: float = 0.0, name: str = "", **more: Any) -> PostgresStore:
        stores.append(PostgresStore(dsn, master=master, waits_s=waits_s, name=name, several=bool(name), **more))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


Opened = Callable[..., PostgresStore]


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


def test_a_call_after_a_while_waits_for_a_connection_and_repeats_no_old_reason(
    server: Server, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "RECONNECT_S", 0.0)  # as on a loaded machine: that is too short
    monkeypatch.setattr(connection, "PATIENT_S", 60.0)
    store = opened(server.new_schema())
    ours = "FROM pg_stat_activity WHERE application_name = 'saltlite'"
    server.sql(f"SELECT pg_terminate_backend(pid) {ours}")
    wait_until(lambda: server.sql(f"SELECT count(*) {ours}") == "0")
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


# --- order, and who may write at the same time ----------------------------------------------------


def return_many(dsn: str, first: int, jids: list[Jid]) -> None:
    """Returns of each fourth minion for all of these jobs, one transaction a job."""
    store = PostgresStore(dsn, master=1)
    for jid in jids:
        rets = [ret(job(1, MINIONS), minion) for minion in MINIONS[first::4]]
        commits = [replace(one, ret=one.ret._replace(jid=jid)) for one in rets]
        with store.write(appends_only=True) as tx:
            tx.put_returns(commits, NOW)
    store.close()


def test_readers_see_each_event_once_and_in_order_beside_many_writers(dsn: str, opened: Opened) -> None:
    store = opened(dsn)
    jobs = [job(n, MINIONS) for n in range(20)]
    publish(store, *jobs)
    writers = [SPAWN.Process(target=return_many, args=(dsn, n, [one.jid for one in jobs])) for n in range(4)]
    for writer in writers:
        writer.start()
    seen: list[int] = []
    events = len(jobs) * (len(MINIONS) + 1)
    give_up_at = time.monotonic() + 60
    while len(seen) < events and time.monotonic() < give_up_at:
        seen += [event.seq for event in store.events(seen[-1] if seen else 0, 97)]
        if not any(writer.is_alive() for writer in writers) and store.last_seq() == (seen[-1] if seen else 0):
            break
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert seen == list(range(1, events + 1))
    assert [store.open_targets(one.jid) for one in jobs] == [0] * len(jobs)
    assert store.size() > 0


def test_a_transaction_that_another_program_leaves_open_holds_up_no_reader(
    server: Server, dsn: str, opened: Opened
) -> None:
    """A reader that waits for all earlier transactions would see nothing before they end, in any database."""
    server.sql("CREATE DATABASE another")
    store, reader = opened(dsn, name="a"), opened(dsn, name="b")
    with contextlib.ExitStack() as stack:
        for place in (dsn, server.dsn(dbname="another")):
            program = stack.enter_context(psycopg.connect(place))
            assert program.execute("SELECT txid_current()").fetchone()
        with store.write() as tx:
            seq = tx.put_event("app/x", {}, NOW)
        assert [event.seq for event in reader.events(0, 10)] == [seq]
        assert (reader.last_seq(), program.info.transaction_status.name) == (seq, "INTRANS")


def test_no_return_of_a_key_is_stored_after_its_revoke_has_returned(dsn: str, opened: Opened) -> None:
    store, other = opened(dsn), opened(dsn)
    jobs = [job(n, (WEB1,)) for n in range(60)]
    publish(store, *jobs)
    revoked_at: list[int] = []

    def revoke() -> None:
        with other.write() as tx:
            tx.put_key(replace(key(WEB1), state=KeyState.REVOKED, epoch=tx.next_epoch()))
            tx.put_event("salt/key", {}, NOW)
        revoked_at.append(other.last_seq())

    thread = threading.Timer(0.05, revoke)
    thread.start()
    became = []
    for one in jobs:
        with store.write(appends_only=True) as tx:
            became += tx.put_returns([ret(one, WEB1)], NOW)
        time.sleep(0.005)  # so that the revoke comes between them
    thread.join()
    returned = [found.seq for one in jobs for found in store.returns(one.jid)]
    assert became.count(Stored.NEW) == len(returned)
    assert Stored.UNASSIGNED in became
    assert max(returned, default=0) < revoked_at[0]


def test_returns_of_one_transaction_are_stored_once_with_their_states_events_and_counts(
    dsn: str, opened: Opened
) -> None:
    store = opened(dsn)
    large = job(1, tuple(MinionId(f"m{n:03d}") for n in range(70)))
    publish(store, large)
    first, second, third = large.minions[:3]
    with store.write(appends_only=True) as tx:
        one = [ret(large, first), ret(large, second, state=TargetState.TIMED_OUT, retcode=1)]
        assert tx.put_returns(one, NOW) == [Stored.NEW] * 2
        assert tx.put_returns([*one, ret(large, third)], NOW) == [Stored.DUPLICATE, Stored.DUPLICATE, Stored.NEW]
    assert [found.id for found in store.returns(large.jid)] == [first, second, third]
    assert [event.seq for event in store.events()] == [1, 2, 3, 4]
    assert store.open_targets(large.jid) == 67
    assert [row.id for row in store.news(large.jid, 0, 9).moved] == [second]


def test_a_transaction_of_returns_changes_nothing_else(dsn: str, opened: Opened) -> None:
    store = opened(dsn)
    publish(store, job(1))
    with (
        pytest.raises(StoreError, match="only appends was asked for another change"),
        store.write(appends_only=True) as tx,
    ):
        tx.delete_preaccept(WEB1)
    assert store.last_seq() == 1


def stop_in_transaction(dsn: str, ready: Any) -> None:
    """Hold a transaction of returns open, for ever."""
    store = PostgresStore(dsn, master=1)
    with store.write(appends_only=True) as tx:
        tx.put_returns([ret(job(1), WEB1)], NOW)
        ready.set()
        os.kill(os.getpid(), signal.SIGSTOP)


def test_a_stopped_writer_of_returns_holds_up_no_other_and_a_publish_for_seconds_only(dsn: str, opened: Opened) -> None:
    store = opened(dsn)
    publish(store, job(1), job(2))
    ready = SPAWN.Event()
    stopped = SPAWN.Process(target=stop_in_transaction, args=(dsn, ready))
    stopped.start()
    assert ready.wait(60)
    # A writer that waited for the stopped one would be refused after lock_timeout, before the server ends that one.
    with store.write(appends_only=True) as tx:
        assert tx.put_returns([ret(job(2), WEB1)], NOW) == [Stored.NEW]
    deadline = time.monotonic() + 60
    while True:
        # The server ends a transaction that does nothing; until then another writer waits, and says so.
        with suppress(StoreError):
            publish(store, job(3))
            break
        assert time.monotonic() < deadline
    os.kill(stopped.pid or 0, signal.SIGKILL)
    stopped.join()


# --- the database goes away -----------------------------------------------------------------------


def test_a_connection_that_ended_while_nothing_used_it_costs_no_call(server: Server, dsn: str, opened: Opened) -> None:
    """A server that was started again ends all connections. Who comes once in a while would lose one call each time."""
    store = opened(dsn)
    for number in (1, 2):
        pids = ",".join(str(side.value("SELECT pg_backend_pid()")) for side in (store._read_side, store._write_side))
        server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid IN ({pids})")  # noqa: S608 - numbers
        ended = functools.partial(server.sql, f"SELECT count(*) FROM pg_stat_activity WHERE pid IN ({pids})")  # noqa: S608 - as above
        wait_until(lambda: ended() == "0")  # noqa: B023 - called at once
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
    wait_until(lambda: server.sql(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}") == "0")  # noqa: S608 - a number
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
        wait_until(lambda: _stored_again(store))
        wait_until(lambda: _read_again(store))
        assert [found.id for found in store.returns(job(1).jid)] == [WEB1]
        store.close()


def test_a_server_that_hangs_costs_one_wait_and_no_more(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_S", 0.5)
    with running_server() as server:
        store = PostgresStore(server.dsn(), master=1)
        backend = int(store._read_side.value("SELECT pg_backend_pid()"))
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
        wait_until(lambda: server.sql("SHOW synchronous_standby_names") == "nowhere")
        backend = int(store._write_side.value("SELECT pg_backend_pid()"))

        waits = f"SELECT wait_event FROM pg_stat_activity WHERE pid = {backend:d}"  # noqa: S608 - a number

        def cancel() -> None:
            wait_until(lambda: server.sql(waits) == "SyncRep")
            server.sql(f"SELECT pg_cancel_backend({backend})")

        thread = threading.Thread(target=cancel)
        thread.start()
        with pytest.raises(StoreError, match="did not confirm a commit"), store.write(appends_only=True) as tx:
            tx.put_returns([ret(job(1), WEB1)], NOW)
        thread.join()
        server.sql("ALTER SYSTEM RESET synchronous_standby_names")
        server.sql("SELECT pg_reload_conf()")
        wait_until(lambda: server.sql("SHOW synchronous_standby_names") == "")
        # The batch comes again, and has one row.
        wait_until(lambda: _stored_again(store))
        assert len(store.returns(job(1).jid)) == 1
        store.close()


def _stored_again(store: PostgresStore) -> bool:
    with suppress(StoreError):
        return commit(store, ret(job(1), WEB1)) == [Stored.DUPLICATE]
    return False


def _read_again(store: PostgresStore) -> bool:
    with suppress(StoreError):
        return store.last_seq() > 0
    return False


def wait_until(condition: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def test_commits_are_durable_whatever_the_database_says(server: Server, opened: Opened) -> None:
    server.sql("CREATE DATABASE hasty")
    server.sql("ALTER DATABASE hasty SET synchronous_commit = off")
    store = opened(server.dsn(dbname="hasty"))
    assert store._write_side.value("SHOW synchronous_commit") == "on"


# --- values -----------------------------------------------------------------------------------------


def test_a_text_with_a_nul_character_is_stored_without_it(dsn: str, opened: Opened) -> None:
    store = opened(dsn)
    publish(store, job(1))
    with store.write() as tx:
        tx.set_targets([(job(1).jid, TargetRow(WEB1, TargetState.REFUSED, "a\0b", NOW))])
    assert store.targets(job(1).jid)[0].reason == "a\N{REPLACEMENT CHARACTER}b"
    commit(store, ret(job(1), MinionId("web2"), reason="c\0"))
    assert [found.reason for found in store.returns(job(1).jid)] == ["c\N{REPLACEMENT CHARACTER}"]


def test_the_size_grows_with_what_is_stored_and_shrinks_with_what_is_pruned(dsn: str, opened: Opened) -> None:
    store = opened(dsn)
    publish(store, job(1, (WEB1,)))
    small = store.size()
    commit(store, ret(job(1), WEB1, body=b"x" * 100_000))
    assert 100_000 < store.size() - small < 101_000
    with store.write() as tx:
        tx.prune(NOW + 1000)
    assert store.size() == 0


def test_statements_are_translated() -> None:
    statement = translated("SELECT a FROM t INDEXED BY i WHERE id = ? COLLATE NOCASE AND b = ANY(?::text[])")
    assert statement.sql == b"SELECT a FROM t WHERE lower(id) = lower($1) AND b = ANY($2::text[])"
    assert statement.arrays == ("", "text")
    assert b"?" not in translated("SELECT 1 FROM json_each(?) AS asked CROSS JOIN t ON t.a = asked.value").sql


@pytest.mark.parametrize("statement", [_MINIONS_AMONG, _SESSIONS_OF])
def test_a_few_minions_are_looked_up_without_reading_all(
    statement: str, server: Server, dsn: str, opened: Opened
) -> None:
    """Each master does so at each commit of presence, and the server has no statistics of its tables yet."""
    minions = [MinionId(f"m{number}") for number in range(3000)]
    with opened(dsn).write() as tx:
        tx.claim([row(minion, master="a") for minion in minions])
        for minion in minions:
            tx.put_key(key(minion))
    asked = translated(statement).sql.decode()
    plan = server.sql(f'PREPARE asked(text) AS {asked}; EXPLAIN EXECUTE asked(\'["m1", "m2"]\')', dsn)
    assert "Index" in plan
    assert "Seq Scan" not in plan
    assert "keys_holder_any_case" not in plan, "it has all accepted keys"


def test_the_next_targets_of_a_batch_are_found_without_reading_all_that_wait(
    server: Server, dsn: str, opened: Opened
) -> None:
    store = opened(dsn)
    publish(store, job(1, MINIONS, batch=Batch(5)))
    with store.write() as tx:
        tx.claim([row(minion, up=True) for minion in MINIONS[10:]])
    assert store.next_planned(job(1).jid, 5) == list(MINIONS[10:15])
    sql = (
        "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; PREPARE asked(text, bigint, text, bigint,"
        f" bigint) AS {translated(_NEXT_PLANNED).sql.decode()};"
        f" EXPLAIN (ANALYZE, TIMING off) EXECUTE asked('{job(1).jid}', 5, '{job(1).jid}', 5, 5)"
    )
    plan = server.sql(sql, dsn)
    read = [line for line in plan.splitlines() if "job_targets" in line]
    assert {int(rows) for line in read for rows in re.findall(r"actual rows=(\d+)", line)} == {5, 0}, plan
    assert "Rows Removed by Filter: 10" in plan


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


# --- publishes, which run beside other writers ----------------------------------------------------


def published(store: PostgresStore, *jobs: Job) -> None:
    with store.write(appends_only=True) as tx:
        for one in jobs:
            tx.put_job(one)


def test_a_publish_waits_for_no_other_that_is_open(dsn: str, opened: Opened) -> None:
    store, other = opened(dsn), opened(dsn)
    publish(store, job(1))
    with store.write(appends_only=True) as tx:
        tx.put_job(job(2))
        tx.put_event("salt/job/returners", {"jid": job(2).jid}, NOW)
        published(other, job(3))
        commit_appended(other, ret(job(1), WEB1))
        tx.put_returns([ret(job(1), MinionId("web2"))], NOW)
    assert [event.seq for event in store.events()] == [1, 2, 3, 4, 5, 6]
    names = [event.tag.split("/")[2:] for event in store.events()]
    assert names[1] == [job(3).jid, "new"]
    assert names[3] == [job(2).jid, "new"]
    assert store.job(job(2).jid) == job(2)
    assert len(store.targets(job(2).jid)) == 2
    assert store.last_seq() == 6


def test_a_publish_with_an_id_below_those_of_others_asks_once_before_it_is_stored(
    dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The masters' clocks differ by a little, so this is the rule and not the exception.
    store, other = opened(dsn), opened(dsn)
    published(other, job(9))
    published(store, job(8))
    sent: list[int] = []
    run = store._write_side._pipeline.run

    def counted(statements: Any, patience_s: float) -> Any:
        sent.append(len(statements))
        return run(statements, patience_s)

    monkeypatch.setattr(store._write_side._pipeline, "run", counted)
    with store.write(appends_only=True) as tx:
        assert tx.job_of_request(job(7).request_id, 0) is None
        assert not tx.jid_taken(job(7).jid)
        tx.put_job(job(7))
        assert tx.jid_taken(job(7).jid)
    assert len(sent) == 2
    # Whoever does not publish gets the answer of now.
    with store.write(appends_only=True) as tx:
        assert [tx.jid_taken(job(number).jid) for number in (6, 7, 9)] == [False, True, True]
    # An id that is taken is found at the commit, and nothing of it is stored.
    for one in (replace(job(6), jid=job(9).jid), replace(job(6), request_id=job(9).request_id)):
        with pytest.raises(StoreError, match=r"this already|already made job"):
            published(store, one)
    assert store.last_seq() == 3
    assert store.job(job(9).jid) == job(9)


def commit_appended(store: PostgresStore, *commits: ReturnCommit) -> None:
    with store.write(appends_only=True) as tx:
        assert tx.put_returns(commits, NOW) == [Stored.NEW] * len(commits)


@pytest.mark.parametrize("second", [job(1, request_id=RequestId("f" * 32)), job(2, request_id=job(1).request_id)])
def test_of_two_publishes_of_one_id_or_request_the_second_is_a_conflict_and_nothing_of_it_is_stored(
    second: Job, dsn: str, opened: Opened
) -> None:
    store, other = opened(dsn), opened(dsn)
    publish(store, job(7))
    with pytest.raises(StoreConflictError):
        publish_beside(store, second, lambda: published(other, job(1)))
    assert store.last_seq() == 2
    assert store.job(job(1).jid) == job(1)
    # A handler stores it again, alone, and finds the other one then.
    write = StoreWrite(lambda tx: tx.job_of_request(job(1).request_id, 0), lambda jid: Answer({"jid": jid}), refused)
    assert write.alone(store).fields == {"jid": job(1).jid}
    tried: list[bool] = []

    def store_it(tx: StoreWriter) -> str:
        tried.append(True)
        earlier = tx.job_of_request(second.request_id, 0) or (second.jid if tx.jid_taken(second.jid) else None)
        if earlier is None:
            tx.put_job(second)
            published(other, replace(second, created_at=NOW + 1))
        return earlier or "stored"

    second = replace(second, jid=job(9).jid, request_id=RequestId("9" * 32))
    write = StoreWrite(store_it, lambda jid: Answer({"jid": jid}), refused, appends_only=True)
    assert write.alone(store).fields == {"jid": second.jid}
    assert len(tried) == 2


def publish_beside(store: PostgresStore, one: Job, meanwhile: Callable[[], None]) -> None:
    with store.write(appends_only=True) as tx:
        tx.put_event("lost", {}, NOW)
        tx.put_job(one)
        meanwhile()


def refused(error: SaltliteError) -> Answer:
    raise error


def test_many_keys_in_one_transaction_leave_one_version_of_the_row_that_every_publish_reads(
    server: Server, dsn: str, opened: Opened
) -> None:
    store = opened(dsn)
    before = int(server.sql("SELECT accepted_version FROM store", dsn))
    with store.write() as tx:
        for number, minion in enumerate(MINIONS[:-1], start=1):
            tx.put_key(key(minion))
            assert tx.next_epoch() == number
            if number % 20 == 0:
                assert tx.job_of_request(RequestId(f"{number:032x}"), 0) is None
                assert tx.accepted_ids() == list(MINIONS[:number])
    assert server.sql("SELECT accepted_version, epoch FROM store", dsn) == f"{before + 1}|{len(MINIONS) - 1}"
    with store.write() as tx:
        tx.delete_key(key(WEB1).fingerprint)
        assert tx.next_epoch() == len(MINIONS)
        tx.put_key(key(MINIONS[-1]))
    assert store.accepted_ids() == list(MINIONS)
    assert server.sql("SELECT accepted_version, epoch FROM store", dsn) == f"{before + 2}|{len(MINIONS)}"
    with pytest.raises(StoreError, match="only appends was asked for an epoch"), store.write(appends_only=True) as tx:
        tx.next_epoch()


def test_a_prune_shortens_the_table_that_a_backup_made_long_and_waits_for_no_backup(
    server: Server, dsn: str, opened: Opened, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")
    store, other = opened(dsn), opened(dsn)
    published(other, job(1))
    values = server.sql("SELECT * FROM store", dsn)
    many = "BEGIN FOR n IN 1..3000 LOOP UPDATE store SET moves = moves; END LOOP; END"
    server.sql(f"DO '{many}'", dsn)
    with psycopg.connect(dsn) as backup:
        backup.execute("SELECT * FROM store")
        assert pages(server, dsn) > 16
        with store.write() as tx:
            tx.prune(0.0)
        assert pages(server, dsn) > 16
        published(other, job(2))
        # Nothing is left locked.
        with other.write() as tx:
            tx.put_event("beside a backup", {}, NOW)
    with store.write() as tx:
        tx.prune(0.0)
    assert pages(server, dsn) > 16, "not again at once"
    monkeypatch.setattr(postgres, "SHORTEN_S", 0.0)
    with opened(dsn).write() as tx:
        tx.prune(0.0)
    assert pages(server, dsn) == 1
    # A wait that came to its end would be said.
    assert caplog.messages == []
    assert server.sql("SELECT id, format, epoch FROM store", dsn) == "|".join(values.split("|")[:3])
    published(other, job(3))
    assert [event.seq for event in store.events()] == [1, 2, 3, 4]
    held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'"
    assert server.sql(held, dsn) == "0"


def pages(server: Server, dsn: str, table: str = "store") -> int:
    return int(server.sql(f"SELECT pg_relation_size('{table}') / 8192", dsn))


def test_a_prune_rewrites_no_table_in_vain(
    server: Server, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "SHORTEN_S", 0.0)
    store = opened(dsn, name="a")
    file = "SELECT pg_relation_filenode('store'), pg_relation_filenode('masters')"
    with store.write() as tx:
        for number in range(20):
            tx.renew(replace(master_row(f"m{number}"), certificate=bytes(900)))
    assert pages(server, dsn, "masters") > 16, "each row has a page"
    many = "DO 'BEGIN FOR n IN 1..3000 LOOP UPDATE store SET moves = moves; END LOOP; END'"
    before = server.sql(file, dsn)
    with psycopg.connect(dsn) as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT 1")  # it reads no table, and might still read all versions of one
        for _version in range(20):
            server.sql(many.replace("3000", "150"), dsn)
        with store.write() as tx:
            tx.prune(0.0)
        once = server.sql(file, dsn)
        assert once.split("|")[1] == before.split("|")[1], "the masters are as short as they can be"
        assert once != before
        with store.write() as tx:
            tx.prune(0.0)
        assert server.sql(file, dsn) == once


def _is_there(side: connection.PostgresConnection) -> bool:
    with suppress(StoreError):
        return bool(side.value("SELECT 1"))
    return False


def test_shortening_a_table_waits_for_no_standby_and_leaves_nothing_set() -> None:
    with running_server() as server:
        store = PostgresStore(server.dsn(), master=1)
        side = store._write_side
        server.sql("ALTER SYSTEM SET synchronous_standby_names = 'nowhere'")
        server.sql("SELECT pg_reload_conf()")
        wait_until(lambda: server.sql("SHOW synchronous_standby_names") == "nowhere")
        with side.unconfirmed(99):
            side.run("VACUUM (FULL, SKIP_LOCKED) store")
        assert side._warnings == [], "no wait for the standby was cancelled"
        with pytest.raises(StoreError, match="refused"), side.unconfirmed(99):
            side.run("VACUUM (FULL) nothing")
        locks = "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 99)"
        held = f"SELECT current_setting('synchronous_commit'), {locks}"
        assert side.rows(held) == [("on", 0)]
        with pytest.raises(StoreError), side.unconfirmed(99):
            side.run("SELECT pg_terminate_backend(pg_backend_pid())")
        wait_until(lambda: _is_there(side))
        assert side.rows(held) == [("on", 0)]
        store.close()


def test_full_queues_are_found_by_publishes_that_count_them_rarely(dsn: str, opened: Opened) -> None:
    store, other = opened(dsn), opened(dsn)
    publish(store, job(1, (WEB1,)))
    with store.write(appends_only=True) as tx:
        assert tx.job_of_request(RequestId("0" * 32), 0) is None
        assert tx.crowded([WEB1], 1000) == []
    for first in range(2, 1000, 100):
        published(other, *[job(n, (WEB1,)) for n in range(first, first + 100)])
    with store.write(appends_only=True) as tx:
        assert tx.job_of_request(RequestId("0" * 32), 0) is None
        assert tx.crowded([WEB1], 1000) == [WEB1]
    commit_appended(store, *[ret(job(n, (WEB1,)), WEB1) for n in range(1, 1000)])
    published(other, *[job(n, (WEB1,)) for n in range(2000, 2100)])
    with store.write(appends_only=True) as tx:
        assert tx.job_of_request(RequestId("0" * 32), 0) is None
        assert tx.crowded([WEB1], 1000) == []


def test_a_transaction_that_appends_and_has_nothing_to_say_asks_the_server_nothing(dsn: str, opened: Opened) -> None:
    store = opened(dsn)
    with store.write(appends_only=True):
        assert store._write_side.rows("SELECT 1") == [(1,)]
    with pytest.raises(StoreError, match="batches"), store.write(appends_only=True) as tx:
        tx.put_job(job(1, batch=Batch(1, 0, failhard=False)))


# --- masters that share the store -----------------------------------------------------------------


def test_masters_that_share_the_store_are_refused_by_name_only(dsn: str, opened: Opened) -> None:
    first = opened(dsn, master=1, name="a")
    opened(dsn, master=1, name="a")
    opened(dsn, master=2, name="b")
    with pytest.raises(StoreError, match="another master named a uses the database"):
        opened(dsn, master=3, name="a")
    with pytest.raises(StoreError, match=r"another master uses .* serves one master"):
        opened(dsn, master=3)
    assert first.last_seq() == 0


def test_a_master_that_shares_waits_for_none_that_does_not(dsn: str, opened: Opened) -> None:
    opened(dsn, master=1)
    with pytest.raises(StoreError, match="a master that shares with no other uses the database"):
        opened(dsn, master=2, name="b")


def master_row(name: str = "a", **changes: Any) -> MasterRow:
    return replace(MasterRow(name, 7, b"\0cert", "10.0.0.1", "1.0", MasterState.UP, applied=3), **changes)


def test_a_master_renews_its_row_until_it_is_fenced(dsn: str, opened: Opened) -> None:
    store, other = opened(dsn, name="a"), opened(dsn, name="b")
    with store.write() as tx:
        assert tx.renew(master_row()) == master_row(renewals=1)
    with other.write() as tx:
        tx.renew(master_row("b", start=1))
        assert tx.renew(master_row("b", start=1, applied=9, state=MasterState.DRAINING)).renewals == 2
    assert [(row.name, row.applied, row.renewals) for row in store.masters()] == [("a", 3, 1), ("b", 9, 2)]
    with other.write() as tx:
        assert tx.fence_master("a")
        assert not tx.fence_master("a")
        assert not tx.fence_master("unknown")
    fenced = master_row(renewals=1, state=MasterState.FENCED)
    with store.write() as tx:
        assert tx.renew(master_row(applied=99)) == fenced
        # Its next start has a lease again.
        assert tx.renew(master_row(start=8)) == master_row(start=8, renewals=2)
        assert tx.delete_master("b")
        assert not tx.delete_master("b")
    assert store.masters() == [master_row(start=8, renewals=2)]
    with pytest.raises(StoreError, match="only appends"), store.write(appends_only=True) as tx:
        tx.renew(master_row())


def test_a_row_of_a_master_that_was_written_by_hand_is_skipped(server: Server, dsn: str, opened: Opened) -> None:
    store = opened(dsn, name="a")
    with store.write() as tx:
        tx.renew(master_row())
    server.sql("INSERT INTO masters SELECT 'x', 1, '', '', '', 'royal', 0, 1", dsn)
    assert [row.name for row in store.masters()] == ["a"]


SEAL = b"s" * 32
STRANGER = key(MinionId("stranger"))
STRANGERS_TOKEN = replace(token(), token_id="strange1")


def written_by_hand(server: Server, dsn: str) -> None:
    """What somebody writes into the database who would like to be let in."""
    public = f"'\\x{STRANGER.public.hex()}'"
    for statement in (
        f"keys VALUES ('{STRANGER.fingerprint}', 'stranger', {public}, 'accepted', '', 1, 1, 1, 'root')",
        f"tokens VALUES ('strange1', {public}, '*', 9, 1, 9e9, 'root')",
        "preaccepts VALUES ('web2', 'AAAAA', 'root')",
        f"minions VALUES ('stranger', '{STRANGER.fingerprint}', '', '1', '', '', '', 1, 1, 'a')",
    ):
        server.sql(f"INSERT INTO {statement}", dsn)
    server.sql("UPDATE store SET accepted_version = accepted_version + 1", dsn)


def test_what_a_stranger_writes_into_the_database_lets_nobody_in(server: Server, dsn: str, opened: Opened) -> None:
    store, pending = opened(dsn, name="a", seal_key=SEAL), key(MinionId("web9"), KeyState.PENDING)
    with store.write() as tx:
        tx.put_key(key(WEB1))
        tx.put_key(pending)
        tx.put_token(token())
        tx.put_preaccept(MinionId("web3"), key(WEB1).fingerprint, "root")
    written_by_hand(server, dsn)
    server.sql("UPDATE keys SET state = 'accepted' WHERE id = 'web9'", dsn)
    other = opened(dsn, name="b", seal_key=SEAL)
    for one in (store, other):
        assert one.key(key(WEB1).fingerprint) == key(WEB1)
        assert one.holder(WEB1) == key(WEB1)
        assert one.token(token().token_id) == token()
        assert one.preaccepted(MinionId("web3")) == key(WEB1).fingerprint
        for forged in (STRANGER, pending):
            found = one.key(forged.fingerprint)
            assert found is not None
            assert (found.state, found.how) == (KeyState.REJECTED, UNSEALED)
            assert one.holder(forged.id) is None
            assert [found] == one.keys_of(forged.id) == one.keys_among([forged.fingerprint])
            for rows in (one.key_rows(), one.key_rows(KeyState.REJECTED)):
                assert (forged.fingerprint, KeyState.REJECTED) in [row[:3:2] for row in rows]
            assert found in one.keys(frozenset({KeyState.REJECTED}))
        assert one.accepted_ids() == [WEB1]
        assert one.keys(frozenset({KeyState.ACCEPTED})) == [key(WEB1)]
        assert (one.minions(), one.minion_values("version")) == ([], {})
        assert [row.id for row in one.key_rows(KeyState.ACCEPTED)] == [WEB1]
        assert [one.count_keys(KeyState.ACCEPTED), one.count_keys(KeyState.REJECTED)] == [1, 2]
        with one.write() as tx:
            assert tx.accepted_set() == {WEB1}
        assert one.token("strange1") is None
        assert one.preaccepted(MinionId("web2")) is None
    true = replace(STRANGER, public=b"true", fingerprint=Fingerprint("f" * 64))
    with pytest.raises(StoreError, match=f"{STRANGER.id} has a key that .*saltlite key delete"), store.write() as tx:
        tx.put_key(true)
    with store.write() as tx:
        tx.delete_key(STRANGER.fingerprint)
        tx.put_key(true)
        tx.delete_key(true.fingerprint)
        tx.put_key(STRANGER)
    assert other.key(STRANGER.fingerprint) == STRANGER, "an operator accepted it"
    assert other.accepted_ids() == [STRANGER.id, WEB1]
    assert [row.id for row in other.minions()] == [STRANGER.id]


@pytest.mark.parametrize("column", ["id", "fingerprint", "public", "epoch", "seal"])
def test_a_key_whose_row_a_stranger_changes_is_no_target_any_more(
    server: Server, dsn: str, opened: Opened, column: str
) -> None:
    store = opened(dsn, name="a", seal_key=SEAL)
    with store.write() as tx:
        tx.put_key(key(WEB1))
        tx.put_key(key(WEB2))
    assert store.accepted_ids() == [WEB1, WEB2]
    changed = {"epoch": "9", "public": "'\\x01'"}.get(column, f"{column} || E' \\n'")
    server.sql(f"UPDATE keys SET {column} = {changed} WHERE id = '{WEB2}'", dsn)  # noqa: S608 - constants of this test
    assert store.accepted_ids() == [WEB1, WEB2], "nobody has read it yet"
    server.sql("UPDATE store SET accepted_version = accepted_version + 1", dsn)
    for _ in range(2):
        assert store.accepted_ids() == [WEB1]
        with store.write() as tx:
            tx.put_key(key(MinionId("web3")))
            tx.delete_key(key(MinionId("web3")).fingerprint)


def test_without_seals_no_statement_is_for_them(dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    later = PostgresTransaction.later

    def noted(self: PostgresTransaction, sql: str, *values: Any) -> None:
        statements.append(sql)
        later(self, sql, *values)

    monkeypatch.setattr(PostgresTransaction, "later", noted)
    for seal_key, sealed in ((None, 0), (SEAL, 3)):
        store = opened(dsn, name="a", seal_key=seal_key)
        statements.clear()
        with store.write() as tx:
            tx.put_key(key(WEB1))
            tx.put_token(token())
            tx.put_preaccept(MinionId("web3"), key(WEB1).fingerprint, "root")
        assert len([sql for sql in statements if "SET seal" in sql]) == sealed
        store.close()


def test_the_first_start_that_shares_the_store_seals_what_is_there(
    server: Server, dsn: str, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    before = opened(dsn)
    with before.write() as tx:
        tx.put_key(key(WEB1))
        tx.put_token(token())
        tx.put_preaccept(MinionId("web3"), key(WEB1).fingerprint, "root")
    before.close()
    store = opened(dsn, name="a", seal_key=SEAL)
    for _time in range(2):
        store.seal_rows()
        assert store.holder(WEB1) == key(WEB1)
        assert store.token(token().token_id) == token()
        assert store.preaccepted(MinionId("web3")) == key(WEB1).fingerprint
    other = opened(dsn, name="b", seal_key=b"o" * 32)
    with pytest.raises(StoreError, match=r"is that of masters with another shared.key: let this master join them"):
        other.seal_rows()
    other.check_seals()
    assert "no key in the" in caplog.text, "one row may be a stranger's"
    with store.write() as tx:
        tx.put_key(key(WEB2, KeyState.PENDING))
    with pytest.raises(StoreError, match=r"is that of masters with another shared.key"):
        other.check_seals()
    server.sql(
        'INSERT INTO keys SELECT (jsonb_populate_record(k, \'{"fingerprint": "x", "id": "y"}\')).* FROM keys k'
        " WHERE id = 'web1'",
        dsn,
    )
    store.check_seals()
    with store.write() as tx:
        tx.renew(master_row())
    with pytest.raises(StoreError, match=r"is that of a, and this master has no shared.key"):
        opened(dsn, name="c", seal_key=SEAL).seal_rows()
    assert store.holder(WEB1) == key(WEB1)
    server.sql("UPDATE keys SET seal = 'x'", dsn)
    caplog.clear()
    store.check_seals()
    assert "no key in the" in caplog.text


def woken(signal_: CommitSignal, within_s: float = 10.0) -> bool:
    if not select.select([signal_.fileno()], [], [], within_s)[0]:
        return False
    signal_.clear()
    return True


def test_events_of_other_masters_wake_a_master_also_after_the_database_was_away() -> None:
    with running_server() as server:
        store = PostgresStore(server.dsn(), master=1, name="a", several=True)
        other = PostgresStore(server.dsn(), master=2, name="b", several=True)
        commits = store.listen()
        assert woken(commits), "it listens"
        publish(other, job(1))
        assert woken(commits)
        commit_appended(other, ret(job(1), WEB1))
        assert woken(commits)
        with other.write() as tx:
            tx.renew(master_row("b"))
        assert not woken(commits, 0.3), "a renewal is no news"
        ended = server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'")
        assert ended == "t"
        assert woken(commits), "the listener is back, and may have missed a commit"
        publish(other, job(3))
        assert woken(commits)
        server.stop()
        server.start()
        assert woken(commits), "it listens again"
        wait_until(lambda: _stored_again(other))
        wait_until(lambda: _published_again(other, job(2)))
        assert woken(commits)
        commits.close()
        commits.close()
        store.close()
        other.close()


def _published_again(store: PostgresStore, one: Job) -> bool:
    with suppress(StoreError):
        publish(store, one)
        return True
    return False


def test_a_job_of_one_master_is_returned_by_the_other_and_its_sessions_are_told_apart(dsn: str, opened: Opened) -> None:
    first, second = opened(dsn, name="a"), opened(dsn, name="b")
    publish(first, job(1))
    with second.write() as tx:
        assert tx.claim([row(WEB1, master="b", run=2)]) == {WEB1: None}
    commit_appended(second, ret(job(1), WEB1))
    assert [found.id for found in first.returns(job(1).jid)] == [WEB1]
    with first.write() as tx:
        assert tx.claim([row(WEB1, master="a", run=1)]) == {}, "it is older"
        tx.release("a", {WEB1: "lost"}, NOW)
        assert tx.fence("a", "fenced", NOW) == []
    assert second.minion(WEB1) == row(WEB1, master="b", run=2, up=True)


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
    wait_until(lambda: _answers(side))
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
