"""What every store promises; each test runs against the SQLite store and its in-memory twin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from saltlite.adapters.memory_store import MemoryDisk, MemoryStore
from saltlite.adapters.sqlite_store import SqliteStore
from saltlite.core.ports import (
    FunctionSet,
    MinionRow,
    ReturnCommit,
    Store,
    Stored,
    StoreWriter,
    TargetRow,
    TokenRecord,
)
from saltlite.errors import StoreError
from saltlite.model.ids import Jid, MinionId, RequestId, jid_at
from saltlite.model.job import TERMINAL, Job, Return, TargetState
from saltlite.model.keys import KeyRecord, KeyState, fingerprint
from saltlite.model.target import Target, TargetKind

NOW = 1_800_000_000.0
WEB1, WEB2, WEB3 = MinionId("web1"), MinionId("web2"), MinionId("web3")

OpenStore = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens the same store again and again, as several MWorkers or a restarted master do."""
    opened: list[Store] = []
    disk = MemoryDisk()

    def open_one() -> Store:
        store: Store = MemoryStore(disk) if request.param == "memory" else SqliteStore(f"{tmp_path}/store.db")
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: OpenStore) -> Store:
    return open_store()


def key(minion: MinionId, state: KeyState = KeyState.ACCEPTED, n: int = 0, **changes: Any) -> KeyRecord:
    """A key; another `n` is another key."""
    public = f"{minion}/{n}".encode().ljust(32, b".")
    record = KeyRecord(minion, fingerprint(public), public, state, "10.0.0.1", NOW, NOW, 1, "operator root")
    return replace(record, **changes)


def job(n: int = 1, minions: tuple[MinionId, ...] = (WEB1, WEB2), **changes: Any) -> Job:
    """Job number `n`, made at NOW, with a minute to be delivered."""
    made = Job(
        jid=jid_at(1_800_000_000_000_000 + n),
        request_id=RequestId(f"{n:032x}"),
        user="root",
        uid=0,
        fun="test.ping",
        target=Target("web*"),
        created_at=NOW,
        deliver_ms=60_000,
        run_ms=0,
        body=b"body",
        signature=b"s" * 64,
        minions=minions,
    )
    return replace(made, **changes)


def ret(of: Job, minion: MinionId, **changes: Any) -> ReturnCommit:
    """The return of a minion, under its first key."""
    value = Return(of.jid, minion, TargetState.RETURNED, 0, b"\xc3", NOW + 1.5, 12)
    return ReturnCommit(key(minion).fingerprint, replace(value, **changes))


def row(minion: MinionId, last_seen: float = NOW, **changes: Any) -> MinionRow:
    """What is known of a minion's session, under its first key."""
    made = MinionRow(
        id=minion,
        fingerprint=key(minion).fingerprint,
        address="10.0.0.1",
        version="0.1",
        boot_id="boot",
        incarnation="disk",
        functions="",
        up=False,
        last_seen=last_seen,
    )
    return replace(made, **changes)


def token(uses: int = 1) -> TokenRecord:
    return TokenRecord("k3f9aaaa", "0" * 64, "web*", uses, NOW, NOW + 3600, "root")


def state_of(store: Store, jid: Jid, minion: MinionId) -> TargetState:
    return next(target.state for target in store.targets(jid) if target.id == minion)


def publish(store: Store, *jobs: Job) -> None:
    """Commit jobs, with an accepted key for every target."""
    with store.write() as tx:
        for one in jobs:
            for minion in one.minions:
                tx.put_key(key(minion))
            tx.put_job(one)


def commit(store: Store, *commits: ReturnCommit, now: float = NOW + 2) -> list[Stored]:
    with store.write() as tx:
        return tx.put_returns(commits, now)


def move(store: Store, of: Job, minion: MinionId, state: TargetState, reason: str = "") -> bool:
    with store.write() as tx:
        return bool(tx.set_targets([(of.jid, TargetRow(minion, state, reason, NOW + 3))]))


# --- transactions ---------------------------------------------------------------------------------


def test_a_transaction_that_raises_leaves_nothing(store: Store) -> None:
    publish(store, job(1))
    with pytest.raises(RuntimeError), store.write() as tx:  # noqa: PT012 - what the block did before counts
        tx.put_key(key(WEB3))
        tx.put_job(job(2))
        tx.set_targets([(job(1).jid, TargetRow(WEB1, TargetState.RECEIVED, "", NOW))])
        tx.put_returns([ret(job(1), WEB2)], NOW)
        tx.next_epoch()
        raise RuntimeError
    assert store.key(key(WEB3).fingerprint) is None
    assert store.job(job(2).jid) is None
    assert [target.state for target in store.targets(job(1).jid)] == [TargetState.QUEUED] * 2
    assert store.returns(job(1).jid) == []
    assert store.last_seq() == 1


def test_what_was_committed_is_there_after_the_store_is_opened_again(open_store: OpenStore) -> None:
    first = open_store()
    publish(first, job(1))
    commit(first, ret(job(1), WEB1))
    first.close()
    second = open_store()
    assert second.job(job(1).jid) == job(1)
    assert [r.id for r in second.returns(job(1).jid)] == [WEB1]
    assert second.last_seq() == 2


def test_a_transaction_abandoned_by_a_crash_leaves_nothing(open_store: OpenStore) -> None:
    crashed = open_store()
    abandoned = crashed.write()
    abandoned.__enter__().put_job(job(1))
    crashed.close()
    assert open_store().job(job(1).jid) is None
    with pytest.raises(StoreError):
        abandoned.__exit__(None, None, None)


def test_a_closed_store_answers_nothing(store: Store) -> None:
    publish(store, job(1))
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.job(job(1).jid)
    with pytest.raises(StoreError, match="closed"), store.write():
        pass


def test_other_readers_see_a_transaction_only_when_it_is_committed(open_store: OpenStore) -> None:
    one, other = open_store(), open_store()
    with one.write() as tx:
        tx.put_job(job(1))
        assert tx.job(job(1).jid) == job(1)
        assert tx.last_seq() == 1
        for outside in (one, other):
            assert outside.job(job(1).jid) is None
            assert outside.last_seq() == 0
    assert other.job(job(1).jid) == job(1)


def test_transactions_do_not_nest(store: Store) -> None:
    with store.write() as tx:
        tx.put_event("a", {}, NOW)
        with pytest.raises(StoreError, match="open already"), store.write():
            pass
    assert [event.tag for event in store.events()] == ["a"]


def test_a_writer_is_dead_when_its_transaction_is_over(store: Store) -> None:
    with store.write() as tx:
        kept: StoreWriter = tx
    with pytest.raises(StoreError, match="is over"):
        kept.put_event("late", {}, NOW)
    assert store.events() == []


def test_a_store_keeps_its_id_and_another_store_has_another(open_store: OpenStore, tmp_path: Path) -> None:
    first, again = open_store(), open_store()
    other: Store = SqliteStore(f"{tmp_path}/other.db") if isinstance(first, SqliteStore) else MemoryStore()
    assert len(bytes.fromhex(first.store_id())) == 16
    assert again.store_id() == first.store_id()
    assert other.store_id() != first.store_id()
    other.close()


# --- keys -----------------------------------------------------------------------------------------


def test_a_key_comes_back_as_it_was_put_and_is_replaced_by_fingerprint(store: Store) -> None:
    pending = key(WEB1, KeyState.PENDING)
    accepted = replace(pending, state=KeyState.ACCEPTED, changed_at=NOW + 0.25, epoch=2, how="token k3f9aaaa")
    with store.write() as tx:
        tx.put_key(pending)
    assert store.key(pending.fingerprint) == pending
    with store.write() as tx:
        tx.put_key(accepted)
    assert store.keys() == [accepted]


def test_keys_are_sorted_by_id_then_by_first_contact(store: Store) -> None:
    later = key(WEB1, KeyState.CONFLICT, n=1, first_seen=NOW + 5)
    earlier = key(WEB1, KeyState.ACCEPTED, n=2, first_seen=NOW)
    other = key(MinionId("db1"), KeyState.PENDING, first_seen=NOW + 9)
    with store.write() as tx:
        for record in (later, earlier, other):
            tx.put_key(record)
    assert store.keys() == [other, earlier, later]
    assert store.keys(frozenset({KeyState.CONFLICT, KeyState.PENDING})) == [other, later]
    assert store.keys(frozenset()) == []


def test_a_second_accepted_key_for_an_id_is_refused_and_the_rest_is_kept(store: Store) -> None:
    with store.write() as tx:
        tx.put_key(key(WEB1))
        with pytest.raises(StoreError, match="already has an accepted key"):
            tx.put_key(key(WEB1, n=1))
        tx.put_key(key(WEB2))
    assert store.accepted_ids() == [WEB1, WEB2]
    assert store.holder(WEB1) == key(WEB1)


def test_an_id_can_change_hands_in_one_transaction(store: Store) -> None:
    with store.write() as tx:
        tx.put_key(key(WEB1))
    with store.write() as tx:
        tx.put_key(key(WEB1, KeyState.REVOKED))
        tx.put_key(key(WEB1, n=1))
    assert store.holder(WEB1) == key(WEB1, n=1)


@pytest.mark.parametrize("state", sorted(frozenset(KeyState) - {KeyState.ACCEPTED}))
def test_only_an_accepted_key_holds_an_id(store: Store, state: KeyState) -> None:
    with store.write() as tx:
        tx.put_key(key(WEB1, state))
    assert store.holder(WEB1) is None
    assert store.accepted_ids() == []


def test_accepted_ids_are_sorted(store: Store) -> None:
    ids = [MinionId(text) for text in ("web10", "_x", "web-1", "9front", "web.1", "web1")]
    with store.write() as tx:
        for minion in ids:
            tx.put_key(key(minion))
    assert store.accepted_ids() == sorted(ids)


def test_keys_are_counted_by_state_and_address(store: Store) -> None:
    with store.write() as tx:
        tx.put_key(key(WEB1, KeyState.PENDING))
        tx.put_key(key(WEB2, KeyState.PENDING, address="10.0.0.2"))
        tx.put_key(key(WEB3))
    assert store.count_keys(KeyState.PENDING) == 2
    assert store.count_keys(KeyState.PENDING, "10.0.0.2") == 1
    assert store.count_keys(KeyState.PENDING, "10.0.0.9") == 0
    assert store.count_keys(KeyState.REVOKED) == 0


def test_a_deleted_key_is_gone_and_frees_its_id(store: Store) -> None:
    with store.write() as tx:
        tx.put_key(key(WEB1))
        tx.delete_key(key(WEB1).fingerprint)
        tx.delete_key(key(WEB2).fingerprint)
        tx.put_key(key(WEB1, n=1))
    assert store.keys() == [key(WEB1, n=1)]


def test_epochs_count_from_one_over_all_transactions(open_store: OpenStore) -> None:
    one, other = open_store(), open_store()
    with one.write() as tx:
        first = [tx.next_epoch(), tx.next_epoch()]
    with other.write() as tx:
        assert [*first, tx.next_epoch()] == [1, 2, 3]


# --- tokens ---------------------------------------------------------------------------------------


def test_a_token_can_be_used_as_often_as_it_says(open_store: OpenStore) -> None:
    one, other = open_store(), open_store()
    with one.write() as tx:
        tx.put_token(token(uses=2))
    uses = []
    for store in (one, other, one, other):
        with store.write() as tx:
            uses.append(tx.use_token("k3f9aaaa"))
    assert uses == [True, True, False, False]
    assert one.token("k3f9aaaa") == token(uses=0)


def test_an_unknown_token_cannot_be_used_or_deleted(store: Store) -> None:
    with store.write() as tx:
        assert not tx.use_token("nothing1")
        assert not tx.delete_token("nothing1")
    assert store.token("nothing1") is None


def test_a_deleted_token_is_gone(store: Store) -> None:
    with store.write() as tx:
        tx.put_token(token())
        assert tx.delete_token("k3f9aaaa")
        assert not tx.use_token("k3f9aaaa")


def test_a_preaccepted_fingerprint_is_found_until_it_is_deleted(store: Store) -> None:
    wanted = key(WEB1).fingerprint
    with store.write() as tx:
        tx.put_preaccept(WEB1, key(WEB2).fingerprint, "root")
        tx.put_preaccept(WEB1, wanted, "root")
    assert store.preaccepted(WEB1) == wanted
    with store.write() as tx:
        assert tx.delete_preaccept(WEB1)
        assert not tx.delete_preaccept(WEB1)
    assert store.preaccepted(WEB1) is None


# --- jobs -----------------------------------------------------------------------------------------


def test_a_job_comes_back_as_it_was_put(store: Store) -> None:
    made = job(
        7,
        (WEB1, WEB3),
        user="olga",
        uid=1000,
        target=Target("web[13]", TargetKind.PCRE),
        created_at=NOW + 0.123456,
        deliver_ms=1,
        run_ms=2,
        body=bytes(range(256)) * 256,
    )
    publish(store, made)
    assert store.job(made.jid) == made
    assert store.job_of_request(made.request_id, 1000) == made.jid
    assert store.job(jid_at(0)) is None


def test_a_new_job_has_one_queued_row_a_target_and_an_event(store: Store) -> None:
    with store.write() as tx:
        tx.put_event("before", {}, NOW)
        seq = tx.put_job(job(1, (WEB1, WEB2, WEB3)))
    assert store.targets(job(1).jid) == [
        TargetRow(minion, TargetState.QUEUED, "", NOW) for minion in (WEB1, WEB2, WEB3)
    ]
    (event,) = store.events(after=1)
    assert (event.tag, event.seq, event.at) == (f"salt/job/{job(1).jid}/new", seq, NOW)
    assert event.data["jid"] == job(1).jid
    assert event.data["fun"] == "test.ping"
    assert event.data["targets"] == 3


def test_a_taken_jid_is_refused_and_the_rest_is_kept(store: Store) -> None:
    publish(store, job(1))
    with store.write() as tx:
        assert tx.jid_taken(job(1).jid)
        assert not tx.jid_taken(job(2).jid)
        with pytest.raises(StoreError, match="is taken"):
            tx.put_job(job(1, (WEB3,), request_id=RequestId("f" * 32)))
        tx.put_event("kept", {}, NOW)
    assert [target.id for target in store.targets(job(1).jid)] == [WEB1, WEB2]
    assert [event.tag for event in store.events(after=1)] == ["kept"]


def test_a_request_makes_one_job_and_users_do_not_meet(store: Store) -> None:
    publish(store, job(1))
    with store.write() as tx:
        with pytest.raises(StoreError, match=f"already made job {job(1).jid}"):
            tx.put_job(job(2, request_id=job(1).request_id))
        tx.put_job(job(3, request_id=job(1).request_id, uid=1000))
    assert store.job_of_request(job(1).request_id, 0) == job(1).jid
    assert store.job_of_request(job(1).request_id, 1000) == job(3).jid
    assert store.job_of_request(job(1).request_id, 1001) is None
    assert store.job(job(2).jid) is None


def test_a_target_list_with_a_minion_twice_is_refused(store: Store) -> None:
    with store.write() as tx, pytest.raises(StoreError, match="lists a minion twice"):
        tx.put_job(job(1, (WEB1, WEB1)))
    assert store.job(job(1).jid) is None
    assert store.events() == []


def test_an_unknown_job_has_no_targets_and_no_returns(store: Store) -> None:
    assert store.targets(jid_at(0)) == []
    assert store.returns(jid_at(0)) == []


# --- targets --------------------------------------------------------------------------------------


def test_a_target_moves_forward_only(store: Store) -> None:
    publish(store, job(1))
    assert move(store, job(1), WEB1, TargetState.RUNNING, "pid 7")
    assert not move(store, job(1), WEB1, TargetState.RECEIVED)
    assert not move(store, job(1), WEB1, TargetState.RUNNING, "again")
    assert store.targets(job(1).jid)[0] == TargetRow(WEB1, TargetState.RUNNING, "pid 7", NOW + 3)


@pytest.mark.parametrize("second", sorted(TERMINAL))
@pytest.mark.parametrize("first", [TargetState.CANCELLED, TargetState.RETURNED])
def test_the_first_terminal_state_wins(store: Store, first: TargetState, second: TargetState) -> None:
    publish(store, job(1))
    assert move(store, job(1), WEB1, first, "first")
    assert not move(store, job(1), WEB1, second, "second")
    assert store.targets(job(1).jid)[0].reason == "first"


def test_setting_targets_tells_which_moved_and_skips_unknown_ones(store: Store) -> None:
    publish(store, job(1))
    received = TargetRow(WEB1, TargetState.RECEIVED, "", NOW)
    with store.write() as tx:
        moved = tx.set_targets(
            [
                (job(1).jid, received),
                (job(1).jid, received),
                (job(1).jid, replace(received, id=WEB3)),
                (job(2).jid, received),
                (job(1).jid, replace(received, id=WEB2, state=TargetState.REFUSED)),
            ]
        )
    assert moved == [(job(1).jid, WEB1), (job(1).jid, WEB2)]
    assert [target.id for target in store.targets(job(1).jid)] == [WEB1, WEB2]
    assert store.targets(job(2).jid) == []


# --- returns --------------------------------------------------------------------------------------


def test_a_return_comes_back_with_the_seq_of_its_event(store: Store) -> None:
    publish(store, job(1))
    handed = ret(job(1), WEB1, retcode=3, body=b"\x00" * 70_000, reason="slow", duration_ms=12)
    assert commit(store, handed, now=NOW + 9) == [Stored.NEW]
    (stored,) = store.returns(job(1).jid)
    assert replace(stored, seq=0) == handed.ret
    (event,) = store.events(after=1)
    assert (event.tag, event.seq, event.at) == (f"salt/job/{job(1).jid}/ret/web1", stored.seq, NOW + 9)
    assert event.data == {"jid": job(1).jid, "id": "web1", "retcode": 3, "state": "returned"}
    assert store.targets(job(1).jid)[0] == TargetRow(WEB1, TargetState.RETURNED, "slow", NOW + 9)


def test_a_return_that_is_sent_again_has_one_row_and_one_event(store: Store) -> None:
    publish(store, job(1))
    first, second = ret(job(1), WEB1, body=b"\x01"), ret(job(1), WEB1, body=b"\x02")
    assert commit(store, first, second) == [Stored.NEW, Stored.DUPLICATE]
    assert commit(store, second) == [Stored.DUPLICATE]
    assert [r.body for r in store.returns(job(1).jid)] == [b"\x01"]
    assert store.last_seq() == 2


def test_a_return_under_the_key_of_another_minion_is_refused(store: Store) -> None:
    publish(store, job(1))
    forged = replace(ret(job(1), WEB1), fingerprint=key(WEB2).fingerprint)
    assert commit(store, forged) == [Stored.UNASSIGNED]
    assert store.returns(job(1).jid) == []
    assert state_of(store, job(1).jid, WEB1) is TargetState.QUEUED


@pytest.mark.parametrize("state", sorted(frozenset(KeyState) - {KeyState.ACCEPTED}))
def test_a_return_under_a_key_that_is_not_accepted_is_refused(store: Store, state: KeyState) -> None:
    publish(store, job(1))
    with store.write() as tx:
        tx.put_key(key(WEB1, state))
    assert commit(store, ret(job(1), WEB1), ret(job(1), WEB2)) == [Stored.UNASSIGNED, Stored.NEW]
    assert [r.id for r in store.returns(job(1).jid)] == [WEB2]


def test_a_return_for_a_job_that_was_not_assigned_is_refused(store: Store) -> None:
    publish(store, job(1, (WEB1,)), job(2, (WEB2,)))
    assert commit(store, ret(job(1), WEB2), ret(job(9), WEB1)) == [Stored.UNASSIGNED] * 2
    assert store.returns(job(1).jid) == store.returns(job(9).jid) == []
    assert store.last_seq() == 2


def test_a_late_return_is_kept_though_its_target_was_settled(store: Store) -> None:
    publish(store, job(1))
    move(store, job(1), WEB1, TargetState.CANCELLED, "by root")
    assert commit(store, ret(job(1), WEB1)) == [Stored.NEW]
    assert [r.id for r in store.returns(job(1).jid)] == [WEB1]
    assert store.targets(job(1).jid)[0] == TargetRow(WEB1, TargetState.CANCELLED, "by root", NOW + 3)


def test_a_reader_follows_the_returns_of_a_job_by_cursor(store: Store) -> None:
    publish(store, job(1, (WEB1, WEB2, WEB3)), job(2, (WEB1,)))
    commit(store, ret(job(1), WEB3), ret(job(2), WEB1))
    commit(store, ret(job(1), WEB1), ret(job(1), WEB2))
    first = store.returns(job(1).jid, limit=2)
    rest = store.returns(job(1).jid, after=first[-1].seq, limit=2)
    assert [r.id for r in first + rest] == [WEB3, WEB1, WEB2]
    assert store.returns(job(1).jid, after=rest[-1].seq) == []


# --- events ---------------------------------------------------------------------------------------


def test_a_reader_follows_events_by_cursor(store: Store) -> None:
    for n in range(5):
        with store.write() as tx:
            assert tx.put_event(f"tag/{n}", {"n": n}, NOW + n) == n + 1
    assert [event.tag for event in store.events(limit=2)] == ["tag/0", "tag/1"]
    assert [(event.seq, event.data, event.at) for event in store.events(after=3)] == [
        (4, {"n": 3}, NOW + 3),
        (5, {"n": 4}, NOW + 4),
    ]
    assert store.events(after=5) == []
    assert store.last_seq() == 5


def test_the_data_of_an_event_does_not_change_with_the_caller(store: Store) -> None:
    data: dict[str, Any] = {"ids": ["a"], "pair": (1, 2), "raw": b"\xff", "map": {7: None}}
    with store.write() as tx:
        tx.put_event("t", data, NOW)
    data["ids"].append("b")
    store.events()[0].data["ids"].append("c")
    assert store.events()[0].data == {"ids": ["a"], "pair": [1, 2], "raw": b"\xff", "map": {7: None}}


@pytest.mark.parametrize("value", [object(), {1, 2}, 2**70, "\ud800"], ids=["object", "set", "huge", "surrogate"])
def test_event_data_that_cannot_be_stored_is_refused(store: Store, value: object) -> None:
    with store.write() as tx:
        with pytest.raises(StoreError, match="plain values"):
            tx.put_event("bad", {"value": value}, NOW)
        tx.put_event("good", {}, NOW)
    assert [(event.seq, event.tag) for event in store.events()] == [(1, "good")]


def test_one_return_that_cannot_be_stored_keeps_its_whole_group_out(store: Store) -> None:
    publish(store, job(1))
    with store.write() as tx, pytest.raises(StoreError, match="plain values"):
        tx.put_returns([ret(job(1), WEB1), ret(job(1), WEB2, retcode=2**70)], NOW)
    assert store.returns(job(1).jid) == []
    assert state_of(store, job(1).jid, WEB1) is TargetState.QUEUED


# --- open jobs ------------------------------------------------------------------------------------


def test_open_jobs_of_a_minion_come_in_jid_order_with_what_must_be_sent(store: Store) -> None:
    made = [job(n, (WEB1, WEB2) if n != 2 else (WEB2,), body=bytes([n])) for n in (3, 1, 2, 5)]
    publish(store, *made)
    found = store.open_jobs(WEB1, None, 10)
    assert [one.jid for one in found] == [job(1).jid, job(3).jid, job(5).jid]
    assert found[0].body == b"\x01"
    assert found[0].signature == b"s" * 64
    assert (found[0].created_at, found[0].deliver_ms, found[0].minions) == (NOW, 60_000, (WEB1, WEB2))
    assert found[0].state is TargetState.QUEUED
    assert [one.jid for one in store.open_jobs(WEB1, job(1).jid, 1)] == [job(3).jid]
    assert store.open_jobs(WEB3, None, 10) == []


@pytest.mark.parametrize("state", sorted(frozenset(TargetState) - {TargetState.QUEUED}))
def test_a_job_is_open_only_while_it_is_queued(store: Store, state: TargetState) -> None:
    publish(store, job(1))
    assert store.minions_with_open_jobs() == [WEB1, WEB2]
    move(store, job(1), WEB1, state)
    assert store.open_jobs(WEB1, None, 10) == []
    assert store.minions_with_open_jobs() == [WEB2]


def test_the_target_list_of_a_jid_that_was_pruned_and_used_again_is_the_new_one(store: Store) -> None:
    publish(store, job(1, (WEB1, WEB2)))
    assert store.open_jobs(WEB1, None, 1)[0].minions == (WEB1, WEB2)
    commit(store, ret(job(1), WEB1), ret(job(1), WEB2))
    with store.write() as tx:
        assert tx.prune(NOW + 1) == 1
    publish(store, job(1, (WEB1, WEB3)))
    assert store.open_jobs(WEB1, None, 1)[0].minions == (WEB1, WEB3)


def test_unfinished_jobs_of_a_minion_come_in_jid_order_each_with_its_state(store: Store) -> None:
    made = [job(n, (WEB1, WEB2), body=bytes([n])) for n in (4, 2, 3, 1)]
    publish(store, *made, job(5, (WEB2,)))
    move(store, job(1), WEB1, TargetState.RUNNING)
    move(store, job(2), WEB1, TargetState.RECEIVED)
    move(store, job(3), WEB1, TargetState.RECEIVED)
    move(store, job(3), WEB2, TargetState.RETURNED)
    found = store.unfinished(WEB1)
    assert [(one.jid, one.body, one.state) for one in found] == [
        (job(1).jid, b"\x01", TargetState.RUNNING),
        (job(2).jid, b"\x02", TargetState.RECEIVED),
        (job(3).jid, b"\x03", TargetState.RECEIVED),
        (job(4).jid, b"\x04", TargetState.QUEUED),
    ]
    assert (found[0].signature, found[0].minions) == (b"s" * 64, (WEB1, WEB2))
    assert (found[0].created_at, found[0].deliver_ms) == (NOW, 60_000)
    assert [one.jid for one in store.unfinished(WEB2)] == [job(n).jid for n in (1, 2, 4, 5)]
    assert store.unfinished(WEB3) == []


@pytest.mark.parametrize("state", sorted(TargetState))
def test_a_job_is_unfinished_until_its_state_is_terminal(store: Store, state: TargetState) -> None:
    publish(store, job(1, (WEB1,)))
    move(store, job(1), WEB1, state)
    assert [one.state for one in store.unfinished(WEB1)] == ([] if state in TERMINAL else [state])


# --- minions --------------------------------------------------------------------------------------


def test_a_minion_row_is_replaced_but_is_never_seen_earlier_than_before(store: Store) -> None:
    with store.write() as tx:
        tx.touch_minions([row(WEB1, NOW + 5, up=True), row(WEB1, NOW + 1, boot_id="later", functions="f1")])
    assert store.minion(WEB1) == row(WEB1, NOW + 5, boot_id="later", functions="f1", up=False)
    assert store.minion(WEB2) is None


def test_minions_are_those_whose_accepted_key_had_a_session(store: Store) -> None:
    with store.write() as tx:
        tx.put_key(key(WEB2))
        tx.put_key(key(WEB1))
        tx.put_key(key(WEB3, KeyState.REVOKED))
        tx.put_key(key(WEB3, n=1))
        tx.put_key(key(MinionId("silent")))
        tx.touch_minions([row(WEB2), row(WEB1), row(WEB3), row(MinionId("nokey"))])
    assert store.minions() == [row(WEB1), row(WEB2)]


def test_a_minion_is_up_or_not_as_it_was_last_written(store: Store) -> None:
    seen = []
    for n, up in enumerate((True, True, False, True)):
        with store.write() as tx:
            tx.touch_minions([row(WEB1, NOW + n, up=up)])
        found = store.minion(WEB1)
        seen.append(found.up if found else None)
    assert seen == [True, True, False, True]


def test_a_function_set_comes_back_as_it_was_put_and_is_replaced_by_digest(store: Store) -> None:
    part = FunctionSet("d1", frozenset({"test.ping"}), whole=False)
    whole = FunctionSet("d1", frozenset({"test.ping", "pkg.install", "cmd.run"}), whole=True)
    empty = FunctionSet("d2", frozenset(), whole=True)
    with store.write() as tx:
        tx.put_functions(part)
        tx.put_functions(empty)
        assert tx.functions("d1") == part
    assert store.functions("d2") == empty
    with store.write() as tx:
        tx.put_functions(whole)
    assert store.functions("d1") == whole
    assert store.functions("d3") is None
    assert store.functions("") is None


def test_function_digests_are_those_last_reported_and_empty_for_a_minion_that_never_did(store: Store) -> None:
    silent = MinionId("silent")
    with store.write() as tx:
        tx.touch_minions([row(WEB1, functions="old"), row(WEB2, functions="d1"), row(WEB3, functions="")])
        tx.touch_minions([row(WEB1, functions="d1")])
    assert store.function_digests([WEB1, WEB2]) == {"d1"}
    assert store.function_digests([WEB1, silent]) == {"d1", ""}
    assert store.function_digests((WEB3,)) == {""}
    assert store.function_digests([]) == set()


def test_function_digests_can_be_asked_for_a_whole_fleet(store: Store) -> None:
    fleet = [MinionId(f"m{n}") for n in range(40_000)]
    with store.write() as tx:
        tx.touch_minions([row(minion, functions=f"d{n % 2}") for n, minion in enumerate(fleet)])
    assert store.function_digests(fleet) == {"d0", "d1"}


# --- expiry and pruning ---------------------------------------------------------------------------


def test_a_job_expires_for_minions_that_had_no_session_since_it_was_made(store: Store) -> None:
    publish(store, job(2, (WEB1, WEB2, WEB3)), job(1, (WEB1,)))
    with store.write() as tx:
        tx.touch_minions([row(WEB2, NOW), row(WEB3, NOW - 0.5)])
    with store.write() as tx:
        assert tx.expire(NOW + 59.999) == []
        gone = tx.expire(NOW + 60)
        assert tx.expire(NOW + 60) == []
    assert gone == [(job(1).jid, WEB1), (job(2).jid, WEB1), (job(2).jid, WEB3)]
    states = [target.state for target in store.targets(job(2).jid)]
    assert states == [TargetState.EXPIRED, TargetState.QUEUED, TargetState.EXPIRED]
    assert "no session" in store.targets(job(1).jid)[0].reason
    assert store.targets(job(1).jid)[0].changed_at == NOW + 60


def test_a_job_does_not_expire_for_a_minion_whose_session_is_older_than_the_job_but_lasts(
    store: Store,
) -> None:
    publish(store, job(1))
    with store.write() as tx:
        tx.touch_minions([row(WEB1, NOW - 100, up=True), row(WEB2, NOW - 100, up=False)])
        assert tx.expire(NOW + 3600) == [(job(1).jid, WEB2)]
    with store.write() as tx:
        tx.touch_minions([row(WEB1, NOW + 3600, up=False)])
        assert tx.expire(NOW + 7200) == []
    assert state_of(store, job(1).jid, WEB1) is TargetState.QUEUED


@pytest.mark.parametrize("reported", ["no session ever", "ended before", "began before", "ended after"])
@pytest.mark.parametrize("state", sorted(TargetState))
def test_an_expiry_is_due_exactly_when_it_would_move_something(store: Store, state: TargetState, reported: str) -> None:
    publish(store, job(1, (WEB1,)))
    move(store, job(1), WEB1, state)
    sessions = {
        "ended before": [row(WEB1, NOW - 1)],
        "began before": [row(WEB1, NOW - 1, up=True)],
        "ended after": [row(WEB1, NOW)],
    }
    with store.write() as tx:
        tx.touch_minions(sessions.get(reported, []))
    for now in (NOW + 59.999, NOW + 60):
        due = store.expire_due(now)
        with store.write() as tx:
            assert tx.expire_due(now) is due
            assert bool(tx.expire(now)) is due
        assert store.expire_due(now) is False


def test_whether_an_expiry_is_due_can_be_asked_while_another_writes(open_store: OpenStore) -> None:
    one, other = open_store(), open_store()
    publish(one, job(1))
    with one.write() as tx:
        tx.expire(NOW + 60)
        assert other.expire_due(NOW + 60) is True
    assert other.expire_due(NOW + 60) is False


def test_a_job_that_was_received_does_not_expire(store: Store) -> None:
    publish(store, job(1))
    move(store, job(1), WEB1, TargetState.RECEIVED)
    with store.write() as tx:
        assert tx.expire(NOW + 3600) == [(job(1).jid, WEB2)]
    assert state_of(store, job(1).jid, WEB1) is TargetState.RECEIVED


@pytest.mark.parametrize("state", TargetState)
def test_a_target_counts_as_open_until_it_is_terminal(store: Store, state: TargetState) -> None:
    publish(store, job(1))
    move(store, job(1), WEB1, state)
    assert store.open_targets(job(1).jid) == (1 if state in TERMINAL else 2)
    assert store.open_targets(job(9).jid) == 0


def test_moved_targets_are_those_of_which_no_return_tells(store: Store) -> None:
    publish(store, job(1), job(2))
    assert store.moved_targets(job(1).jid) == []
    move(store, job(1), WEB2, TargetState.REFUSED, "why")
    commit(store, ret(job(1), WEB1))
    move(store, job(2), WEB1, TargetState.RUNNING)
    assert [(row.id, row.state, row.reason) for row in store.moved_targets(job(1).jid)] == [
        (WEB2, TargetState.REFUSED, "why")
    ]
    assert [row.id for row in store.moved_targets(job(2).jid)] == [WEB1]


def test_pruning_deletes_old_jobs_that_are_over_and_old_events(store: Store) -> None:
    over, still_open = job(1, (WEB1,)), job(2, (WEB1, WEB2))
    young = job(3, (WEB1,), created_at=NOW + 100)
    publish(store, over, still_open, young)
    commit(store, ret(over, WEB1), ret(still_open, WEB1), now=NOW + 1)
    commit(store, ret(young, WEB1), now=NOW + 101)
    with store.write() as tx:
        assert tx.prune(NOW + 100) == 1
    assert store.job(over.jid) is None
    assert store.targets(over.jid) == []
    assert store.returns(over.jid) == []
    assert store.job(still_open.jid) == still_open
    assert [r.id for r in store.returns(still_open.jid)] == [WEB1]
    assert [event.tag for event in store.events()] == [
        f"salt/job/{young.jid}/new",
        f"salt/job/{young.jid}/ret/web1",
    ]


def test_pruning_drops_function_sets_that_no_minion_has_any_more(store: Store) -> None:
    sets = [FunctionSet(digest, frozenset({f"{digest}.run"}), whole=True) for digest in ("old", "new", "lone")]
    with store.write() as tx:
        for one in sets:
            tx.put_functions(one)
        tx.touch_minions([row(WEB1, functions="old"), row(WEB2, functions="")])
        tx.touch_minions([row(WEB1, functions="new")])
    assert store.functions("old") == sets[0]
    with store.write() as tx:
        tx.prune(NOW)
    assert [store.functions(one.digest) for one in sets] == [None, sets[1], None]


def test_a_sequence_number_is_never_given_out_again(open_store: OpenStore) -> None:
    first = open_store()
    publish(first, job(1, (WEB1,)))
    commit(first, ret(job(1), WEB1))
    with first.write() as tx:
        tx.prune(NOW + 1000)
    assert first.events() == []
    first.close()
    second = open_store()
    assert second.last_seq() == 2
    with second.write() as tx:
        assert tx.put_event("next", {}, NOW) == 3


def test_a_pruned_job_frees_its_jid_and_its_request(store: Store) -> None:
    publish(store, job(1, ()))
    with store.write() as tx:
        assert tx.prune(NOW + 1) == 1
        tx.put_job(job(1))
    assert store.job_of_request(job(1).request_id, 0) == job(1).jid
    assert [target.id for target in store.targets(job(1).jid)] == [WEB1, WEB2]


def test_pruning_and_writing_the_same_job_in_one_transaction_agree(store: Store) -> None:
    publish(store, job(1, (WEB1,)))
    with store.write() as tx:
        tx.put_returns([ret(job(1), WEB1)], NOW)
        assert tx.prune(NOW + 1) == 1
        assert tx.put_returns([ret(job(1), WEB1)], NOW) == [Stored.UNASSIGNED]
        tx.put_job(job(1, (WEB1,)))
        assert tx.put_returns([ret(job(1), WEB1)], NOW) == [Stored.NEW]
    assert [r.id for r in store.returns(job(1).jid)] == [WEB1]
