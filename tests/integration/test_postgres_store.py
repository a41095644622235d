"""The store in PostgreSQL against a real server: order, locks, publishes beside other writers, and pages."""

from __future__ import annotations

import contextlib
import multiprocessing
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")

import psycopg

from saltlite.errors import SaltliteError, StoreConflictError, StoreError
from saltlite.master.processes.context import Answer, StoreWrite
from saltlite.master.store import postgres
from saltlite.master.store.ports import Stored, StoreWriter, TargetRow
from saltlite.master.store.postgres import PostgresStore, connection, statements
from saltlite.master.store.postgres.pipeline import translated
from saltlite.master.store.postgres.statements import _NEXT_PLANNED
from saltlite.master.store.reader import _MINIONS_AMONG
from saltlite.master.store.writer import _SESSIONS_OF
from saltlite.model.ids import Jid, MinionId, RequestId
from saltlite.model.job import Batch, Job, TargetState
from saltlite.model.keys import KeyState
from tests.support.fleet import wait_until
from tests.support.postgres import Server, running_server
from tests.support.postgres_store import Opened, commit_appended
from tests.support.store import NOW, WEB1, commit, job, key, master_row, publish, ret, row

SPAWN = multiprocessing.get_context("spawn")
MINIONS = tuple(MinionId(f"web{n:03d}") for n in range(50))


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


# --- publishes, which run beside other writers ----------------------------------------------------


def published(store: PostgresStore, *jobs: Job) -> None:
    with store.write(appends_only=True) as tx:
        for one in jobs:
            tx.put_job(one)


@pytest.mark.parametrize("batch", [None, Batch(5)])
def test_the_targets_of_a_large_job_are_inserted_some_at_a_time(
    batch: Batch | None, dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = opened(dsn)
    at_once: list[int] = []
    exchange = connection.PostgresConnection.exchange

    def sent(self: connection.PostgresConnection, asked: Any) -> Any:
        at_once.append(sum(len(values[1]) for sql, values in asked if sql == statements._TARGETS))
        return exchange(self, asked)

    monkeypatch.setattr(statements, "TARGETS_AT_ONCE", 20)
    monkeypatch.setattr(connection.PostgresConnection, "exchange", sent)
    with store.write(appends_only=batch is None) as tx:
        tx.put_job(job(1, MINIONS, batch=batch))
    assert [count for count in at_once if count] == [20, 20, 10]
    assert [target.id for target in store.targets(job(1).jid)] == list(MINIONS)
    assert store.open_targets(job(1).jid) == 50
    for writer in (statements.PostgresWriter, statements.PostgresAppends):
        monkeypatch.setattr(writer, "jid_taken", lambda *_: False)
    with pytest.raises(StoreConflictError), store.write(appends_only=batch is None) as tx:
        tx.put_job(job(1, MINIONS, batch=batch, request_id=RequestId("another")))


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
        wait_until(lambda: server.sql("SHOW synchronous_standby_names") == "nowhere", "commits wait for a standby")
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
        wait_until(lambda: _is_there(side), "there is a connection again")
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
