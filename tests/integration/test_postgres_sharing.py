"""Masters that share a store in PostgreSQL, with a real server: their rows, seals, and what one hears of another."""

from __future__ import annotations

import select
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")


from saltlite.errors import StoreError
from saltlite.master.store.postgres import PostgresStore, statements
from saltlite.master.store.postgres.connection import PostgresConnection
from saltlite.master.store.postgres.seals import UNSEALED, RowSeals
from saltlite.master.store.postgres.statements import PostgresTransaction
from saltlite.master.store.sharing import CommitSignal, MasterState
from saltlite.model.ids import MinionId
from saltlite.model.job import Job
from saltlite.model.keys import Fingerprint, KeyRecord, KeyState
from tests.support.fleet import wait_until
from tests.support.postgres import Server, running_server
from tests.support.postgres_store import Opened, commit_appended, stored_again
from tests.support.store import NOW, WEB1, WEB2, job, key, master_row, publish, ret, row, token


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
    sent: list[str] = []
    later = PostgresTransaction.later

    def noted(self: PostgresTransaction, sql: str, *values: Any) -> None:
        sent.append(sql)
        later(self, sql, *values)

    monkeypatch.setattr(PostgresTransaction, "later", noted)
    for seal_key, sealed in ((None, 0), (SEAL, 3)):
        store = opened(dsn, name="a", seal_key=seal_key)
        sent.clear()
        with store.write() as tx:
            tx.put_key(key(WEB1))
            tx.put_token(token())
            tx.put_preaccept(MinionId("web3"), key(WEB1).fingerprint, "root")
        assert len([sql for sql in sent if "SET seal" in sql]) == sealed
        store.close()


def way_out(refused: Callable[[], None]) -> str:
    """The statement that the refusal says."""
    with pytest.raises(StoreError, match=r"another shared\.key") as caught:
        refused()
    return "".join(str(caught.value).rpartition("DELETE FROM ")[1:])


@pytest.mark.parametrize("seal", ["0" * 64, "invented"])
def test_a_start_that_invented_seals_refuse_has_a_way_out_that_leaves_other_rows(
    server: Server, dsn: str, opened: Opened, seal: str
) -> None:
    before = opened(dsn)
    with before.write() as tx:
        for minion in (WEB1, WEB2):
            tx.put_key(key(minion))
    before.close()
    server.sql(f"UPDATE keys SET seal = '{seal}' WHERE id = 'web2'", dsn)  # noqa: S608 - the values above
    store = opened(dsn, name="a", seal_key=SEAL)
    server.sql(way_out(store.seal_rows), dsn)
    store.seal_rows()
    assert (store.holder(WEB1), store.holder(WEB2)) == (key(WEB1), None)


def test_two_invented_seals_where_no_key_of_the_fleet_is_refuse_a_start_until_they_are_deleted(
    server: Server, dsn: str, opened: Opened
) -> None:
    store = opened(dsn, name="a", seal_key=SEAL)
    with store.write() as tx:
        for minion in (WEB1, WEB2):
            tx.put_key(key(minion))
    server.sql("UPDATE keys SET seal = encode(sha256(id::bytea), 'hex')", dsn)
    server.sql(way_out(store.check_seals), dsn)
    store.check_seals()
    assert store.holder(WEB1) is None


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


def test_rows_are_sealed_without_a_long_pause_in_the_transaction(
    dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = opened(dsn)
    with before.write() as tx:
        for number in range(10):
            tx.put_key(key(MinionId(f"web{number}")))
    before.close()
    store = opened(dsn, name="a", seal_key=SEAL)
    at_once: list[int] = []
    of_key, exchange = RowSeals.of_key, PostgresConnection.exchange

    def sealed(self: RowSeals, record: KeyRecord) -> str:
        at_once[-1] += 1
        return of_key(self, record)

    def sent(self: PostgresConnection, statements: Any) -> Any:
        at_once.append(0)
        return exchange(self, statements)

    monkeypatch.setattr(RowSeals, "of_key", sealed)
    monkeypatch.setattr(PostgresConnection, "exchange", sent)
    monkeypatch.setattr(statements, "AT_ONCE", 3)
    store.seal_rows()
    assert (sum(at_once), max(at_once)) == (10, 3)


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
        wait_until(lambda: stored_again(other), "it stores again")
        wait_until(lambda: _published_again(other, job(2)), "it publishes again")
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
