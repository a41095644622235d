"""What happens to a database: a failover to a synchronous standby, a full disk, rows that others wrote.

`SALTLITE_FAILOVERS=20` runs as many failovers, one after the other.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")

from saltlite.errors import DamagedError, StoreError
from saltlite.master.store.ports import Stored
from saltlite.master.store.postgres import PostgresStore
from saltlite.model.events import TIME_LINE_BITS, Event
from saltlite.model.ids import MinionId
from saltlite.model.job import JobFilter
from saltlite.model.keys import KeyState
from tests.support.fleet import wait_until
from tests.support.postgres import Server, running_server
from tests.support.store import NOW, WEB1, WEB2, commit, job, publish, ret, row

FAILOVERS = int(os.environ.get("SALTLITE_FAILOVERS", "2"))
MINIONS = tuple(MinionId(f"web{n:05d}") for n in range(1_000 * FAILOVERS))
RESULTS = 100
"""Results that are stored before each failover, and after the last one."""


class Load:
    """Stores one result after the other, each again until it is acknowledged, and follows the events meanwhile."""

    def __init__(self, dsn: str) -> None:
        self.acknowledged: list[MinionId] = []
        self.events: list[Event] = []
        self.ends = False
        self._is_complete = False
        self._dsn = dsn
        self._threads = [threading.Thread(target=work) for work in (self._store, self._follow)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """End, when all events were read."""
        self.ends = True
        storing, following = self._threads
        storing.join()
        # What it was storing at the end was committed by now.
        self._is_complete = True
        following.join()

    def _store(self) -> None:
        store = PostgresStore(self._dsn, master=1)
        for minion in itertools.cycle(MINIONS):
            wait_until(lambda one=minion: self.ends or self._is_stored(store, one), "it is stored", 60)  # type: ignore[misc]
            if self.ends:
                break
            self.acknowledged.append(minion)
            time.sleep(0.003)  # so that they last for all failovers
        store.close()

    def _is_stored(self, store: PostgresStore, minion: MinionId) -> bool:
        with suppress(StoreError):
            with store.write(appends_only=True) as tx:
                outcome = tx.put_returns([ret(job(1), minion)], NOW)
            return outcome in ([Stored.NEW], [Stored.DUPLICATE])
        return False

    def _follow(self) -> None:
        store = PostgresStore(self._dsn, master=1)
        while True:
            has_ended = self._is_complete
            with suppress(StoreError):
                found = store.events(self.events[-1].seq if self.events else 0, 97)
                self.events += found
                if has_ended and not found:
                    break
            time.sleep(0.002)  # as a follower that is woken by each commit
        store.close()


@pytest.mark.timeout(90 * FAILOVERS)
def test_a_failover_loses_no_acknowledged_result_and_followers_see_each_event_once() -> None:
    with running_server(fsync="on") as first, running_server(fsync="on") as second:
        primary, standby = first, second
        dsn = f"host={first.folder},{second.folder} user=saltlite dbname=postgres"
        store = PostgresStore(dsn, master=1)
        publish(store, job(1, MINIONS))
        load = Load(dsn)
        for _ in range(FAILOVERS):
            standby.follow(primary)
            with pytest.raises(StoreError, match="is read-only"):
                PostgresStore(standby.dsn(), master=1)
            before = len(load.acknowledged)
            wait_until(lambda before=before: len(load.acknowledged) >= before + RESULTS, "results are stored", 60)  # type: ignore[misc]
            primary.stop(signal.SIGQUIT)
            standby.promote()
            primary, standby = standby, primary
        before = len(load.acknowledged)
        wait_until(lambda: len(load.acknowledged) >= before + RESULTS, "results are stored after the last failover", 60)
        load.join()
        seqs = [event.seq for event in load.events]
        assert seqs == sorted(set(seqs))
        told = [event.data["id"] for event in load.events if event.tag.endswith("/" + event.data.get("id", "-"))]
        assert len(told) == len(set(told))
        assert set(told) >= set(load.acknowledged)
        wait_until(lambda: _reads(store), "the store is reached again")
        stored = [found.id for found in store.returns(job(1).jid, limit=len(MINIONS))]
        assert len(stored) == len(set(stored))
        assert set(stored) == set(told)
        store.close()


def test_a_new_time_line_has_higher_numbers_which_wait_for_no_standby() -> None:
    with running_server() as primary, running_server() as standby:
        PostgresStore(primary.dsn(), master=1).close()
        standby.copy(primary)
        primary.stop()
        standby.promote()
        standby.sql("ALTER SYSTEM SET synchronous_standby_names = 'nowhere'")
        standby.sql("SELECT pg_reload_conf()")
        wait_until(lambda: standby.sql("SHOW synchronous_standby_names") == "nowhere", "it waits for a standby")
        store = PostgresStore(standby.dsn(), master=1)
        assert store.last_seq() == 2 << TIME_LINE_BITS

        assert store._write_side.value("SHOW synchronous_commit") == "on"
        store.close()


def _reads(store: PostgresStore) -> bool:
    with suppress(StoreError):
        return store.last_seq() > 0
    return False


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture
def dsn(server: Server) -> str:
    return server.new_schema()


@pytest.fixture
def store(dsn: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(dsn, master=1)
    yield opened
    opened.close()


# What the server answers when a disk is full, or its memory is short.
FAILS = """
    CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '{state}'; END $$;
    CREATE TRIGGER fails BEFORE INSERT ON events EXECUTE FUNCTION fails();
"""


@pytest.mark.parametrize("state", ["53100", "53200"])
def test_a_full_disk_of_the_database_is_a_sentence_and_afterwards_all_goes_on(
    state: str, server: Server, dsn: str, store: PostgresStore
) -> None:
    publish(store, job(1))
    server.sql(FAILS.format(state=state), dsn)
    for appends_only in (False, True):
        with (
            pytest.raises(StoreError, match=r"has no room left .* make room and try again"),
            store.write(appends_only=appends_only) as tx,
        ):
            tx.put_returns([ret(job(1), WEB1)], NOW)
    assert store.returns(job(1).jid) == []
    server.sql("DROP TRIGGER fails ON events", dsn)
    assert commit(store, ret(job(1), WEB1)) == [Stored.NEW]


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE keys SET state = 'royal' WHERE id = 'web2'",
        "UPDATE events SET data = '\\x00', tag = ''",
        "UPDATE jobs SET minions = 'x', resources = ''",
        "UPDATE job_targets SET state = 'flying', rank = 7, outcome = 99 WHERE target = 'web2'",
        "UPDATE returns SET state = 'flying', retcode = -1",
        "UPDATE minions SET last_seen = 'NaN', up = 77 WHERE id = 'web2'",
        "INSERT INTO job_counts VALUES ('stranger', -1, -1, -1, -1, 0)",
        "INSERT INTO tokens VALUES ('x', '', '[', -5, 0, 0, '')",
        "DELETE FROM jobs",
    ],
)
def test_rows_that_a_stranger_changed_hide_no_others_and_end_no_reader(
    change: str, server: Server, dsn: str, store: PostgresStore
) -> None:
    publish(store, job(1))
    commit(store, ret(job(1), WEB1))
    with store.write() as tx:
        tx.claim([row(WEB1, master="a"), row(WEB2, master="a")])
    server.sql(change, dsn)
    assert WEB1 in [record.id for record in store.keys(frozenset(KeyState))]
    assert WEB1 in [one.id for one in store.minions()]
    assert [event.seq for event in store.events()] == [1, 2]
    assert len(store.returns(job(1).jid)) == 1
    assert len(store.targets(job(1).jid)) >= 1
    with suppress(DamagedError):
        store.job(job(1).jid)
    store.jobs(JobFilter(), 10)
    store.batches()
    store.tokens()
    store.open_jobs(WEB2, [part for part, _state in store.unsettled(WEB2)])
    with store.write() as tx:
        tx.expire(NOW + 1000)
        tx.prune(NOW + 1000)
    publish(store, job(2))
    assert commit(store, ret(job(2), WEB1)) == [Stored.NEW]
