"""What every store promises about transactions, keys and tokens: SQLite and its in-memory twin."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from saltlite.errors import StoreError
from saltlite.master.store.ports import KeyRow, Store, StoreWriter, TargetRow
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.ids import MinionId, RequestId
from saltlite.model.job import TargetState
from saltlite.model.keys import KeyState
from saltlite.testing.memory_store import MemoryStore
from tests.support.store import NOW, WEB1, WEB2, WEB3, commit, job, key, publish, ret, token

OpenStore = Callable[[], Store]


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


def test_events_of_some_tags_are_found_behind_a_cursor(store: Store) -> None:
    with store.write() as tx:
        for tag in ("a", "b", "a/b"):
            tx.put_event(tag, {}, NOW)
    assert [store.has_event(["b", "c"], after) for after in (0, 1, 2)] == [True, True, False]
    assert not store.has_event(["c"], 0)


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


def test_the_keys_of_an_id_are_found_in_any_case(store: Store) -> None:
    later = key(WEB1, KeyState.CONFLICT, n=1, first_seen=NOW + 5)
    earlier = key(WEB1, KeyState.ACCEPTED, n=2, first_seen=NOW)
    capital = key(MinionId("WEB1"), KeyState.PENDING, n=3)
    with store.write() as tx:
        for record in (later, earlier, capital, key(WEB2)):
            tx.put_key(record)
    assert store.keys_of("Web1") == [capital, earlier, later]
    assert store.keys_of("web") == []


def test_a_second_accepted_key_for_an_id_is_refused_and_the_rest_is_kept(store: Store) -> None:
    with store.write() as tx:
        tx.put_key(key(WEB1))
        with pytest.raises(StoreError, match="already has an accepted key"):
            tx.put_key(key(WEB1, n=1))
        tx.put_key(key(WEB2))
    assert store.accepted_ids() == [WEB1, WEB2]
    assert store.accepted_set() == frozenset([WEB1, WEB2])
    assert store.holder(WEB1) == key(WEB1)


def test_ids_that_differ_by_case_only_are_never_both_accepted_and_are_told_apart(store: Store) -> None:
    capital = MinionId("Web1")
    with store.write() as tx:
        tx.put_key(key(capital))
        with pytest.raises(StoreError, match=r"^Web1 already has an accepted key"):
            tx.put_key(key(WEB1, n=1))
        tx.put_key(key(WEB1, KeyState.PENDING, n=1))
    assert store.holder(WEB1) is None
    assert (store.holder(capital), store.holder(WEB1, any_case=True), store.holder(capital, any_case=True)) == (
        key(capital),
    ) * 3
    with store.write() as tx:
        tx.delete_key(key(capital).fingerprint)
        tx.put_key(key(WEB1, n=1))
    assert store.accepted_ids() == [WEB1]
    assert store.accepted_set() == frozenset([WEB1])


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
    assert store.accepted_set() == frozenset([])


def test_accepted_ids_are_sorted(store: Store) -> None:
    ids = [MinionId(text) for text in ("web10", "_x", "web-1", "9front", "web.1", "web1")]
    with store.write() as tx:
        for minion in ids:
            tx.put_key(key(minion))
    assert store.accepted_ids() == sorted(ids)


@pytest.mark.parametrize("how", ["revoked", "deleted", "accepted", "rolled back"])
def test_every_store_knows_at_once_which_keys_are_accepted(open_store: OpenStore, how: str) -> None:
    one, other = open_store(), open_store()
    with one.write() as tx:
        tx.put_key(key(WEB1))
    assert one.accepted_ids() == other.accepted_ids() == [WEB1]
    request = RequestId("a" * 32)
    with suppress(StoreError), other.write() as tx:
        tx.job_of_request(request, 0)
        assert tx.accepted_ids() == [WEB1]
        if how == "deleted":
            tx.delete_key(key(WEB1).fingerprint)
        else:
            tx.put_key(key(WEB2) if how in ("accepted", "rolled back") else key(WEB1, KeyState.REVOKED))
        changed = tx.accepted_ids()
        assert tx.accepted_set() == frozenset(changed)
        if how == "rolled back":
            raise StoreError("never mind")
    left = {"revoked": [], "deleted": [], "accepted": [WEB1, WEB2], "rolled back": [WEB1]}[how]
    assert changed == ([WEB1, WEB2] if how == "rolled back" else left)
    assert one.accepted_ids() == other.accepted_ids() == left
    assert one.accepted_set() == other.accepted_set() == frozenset(left)
    with one.write() as tx:
        tx.put_key(key(WEB3))
    assert one.accepted_ids() == other.accepted_ids() == [*left, WEB3]


def test_keys_are_counted_by_state_and_pending_ones_listed(store: Store) -> None:
    with store.write() as tx:
        tx.put_key(key(WEB1, KeyState.PENDING))
        tx.put_key(key(WEB2, KeyState.PENDING, address="10.0.0.2"))
        tx.put_key(key(WEB3))
    assert store.count_keys(KeyState.PENDING) == 2
    pending = store.keys(frozenset({KeyState.PENDING}))
    assert sorted(store.key_rows(KeyState.PENDING)) == sorted(
        KeyRow(row.fingerprint, row.id, row.state, row.address, row.first_seen, row.changed_at) for row in pending
    )
    assert {row.address for row in store.key_rows(KeyState.PENDING)} == {key(WEB1).address, "10.0.0.2"}
    assert sorted(row.id for row in store.key_rows()) == [WEB1, WEB2, WEB3]
    assert store.keys_among([pending[0].fingerprint, key(WEB3, n=1).fingerprint]) == [pending[0]]
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


def test_all_tokens_are_listed_the_oldest_first(store: Store) -> None:
    assert store.tokens() == []
    newer = replace(token(), token_id="aaaaaaaa", created_at=token().created_at + 1)
    with store.write() as tx:
        tx.put_token(newer)
        tx.put_token(token())
    assert store.tokens() == [token(), newer]


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
