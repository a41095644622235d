"""What every store promises about jobs, targets, returns and events: SQLite and its in-memory twin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from saltlite.errors import StoreError, UsageError
from saltlite.master.store.ports import Store, Stored, TargetRow
from saltlite.model.ids import RequestId, jid_at
from saltlite.model.job import TERMINAL, Batch, Target, TargetKind, TargetState
from saltlite.model.keys import KeyState
from tests.support.store import NOW, WEB1, WEB2, WEB3, commit, job, key, move, publish, ret, state_of

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
    with store.write() as tx, pytest.raises(StoreError, match="lists a target twice"):
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


@pytest.mark.parametrize("said", [TargetState.REFUSED, TargetState.EXPIRED])
def test_what_runs_on_a_minion_is_lost_when_the_minion_says_that_it_never_began(
    store: Store, said: TargetState
) -> None:
    publish(store, job(1))
    assert move(store, job(1), WEB1, TargetState.RUNNING)
    assert move(store, job(1), WEB1, said, "too late")
    assert move(store, job(1), WEB2, said, "too late")
    (first, second) = store.targets(job(1).jid)
    assert first.state is TargetState.LOST
    assert first.reason == "the minion ran it and does not know it any more (too late)"
    assert second.state is said


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
    assert stored._replace(seq=0) == handed.ret
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
        with pytest.raises(UsageError, match="plain values"):
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


JIDS = [job(n).jid for n in range(9)]


def test_open_jobs_of_a_minion_come_in_jid_order_with_what_must_be_sent(store: Store) -> None:
    made = [job(n, (WEB1, WEB2) if n != 2 else (WEB2,), body=bytes([n])) for n in (3, 1, 2, 5)]
    publish(store, *made)
    found = store.open_jobs(WEB1, JIDS[::-1])
    assert [one.jid for one in found] == [job(1).jid, job(3).jid, job(5).jid]
    assert found[0].body == b"\x01"
    assert found[0].signature == b"s" * 64
    assert (found[0].created_at, found[0].deliver_ms, found[0].minions) == (NOW, 60_000, (WEB1, WEB2))
    assert found[0].state is TargetState.QUEUED
    assert [one.jid for one in store.open_jobs(WEB1, [job(3).jid])] == [job(3).jid]
    assert store.open_jobs(WEB1, []) == store.open_jobs(WEB3, JIDS) == []


def test_open_jobs_are_read_until_their_bodies_have_the_size(store: Store) -> None:
    publish(store, *[job(n, body=bytes(10)) for n in range(4)])
    assert [len(store.open_jobs(WEB1, JIDS, size)) for size in (1, 10, 11, 30, 31, 99)] == [1, 1, 2, 3, 4, 4]


@pytest.mark.parametrize("state", sorted(frozenset(TargetState) - {TargetState.QUEUED, TargetState.PLANNED}))
def test_a_minion_has_open_jobs_only_while_one_is_queued(store: Store, state: TargetState) -> None:
    publish(store, job(1))
    assert store.minions_with_open_jobs() == [WEB1, WEB2]
    move(store, job(1), WEB1, state)
    assert store.minions_with_open_jobs() == [WEB2]


def test_the_target_list_of_a_jid_that_was_pruned_and_used_again_is_the_new_one(store: Store) -> None:
    publish(store, job(1, (WEB1, WEB2)))
    assert store.open_jobs(WEB1, JIDS)[0].minions == (WEB1, WEB2)
    commit(store, ret(job(1), WEB1), ret(job(1), WEB2))
    with store.write() as tx:
        assert tx.prune(NOW + 1) == 1
    publish(store, job(1, (WEB1, WEB3)))
    assert store.open_jobs(WEB1, JIDS)[0].minions == (WEB1, WEB3)


def test_unsettled_jobs_of_a_minion_come_in_jid_order_each_with_its_state(store: Store) -> None:
    made = [job(n, (WEB1, WEB2), body=bytes([n])) for n in (4, 2, 3, 1)]
    publish(store, *made, job(5, (WEB2,)), job(6, batch=Batch(1)))
    move(store, job(1), WEB1, TargetState.RUNNING)
    move(store, job(2), WEB1, TargetState.RECEIVED)
    move(store, job(3), WEB1, TargetState.RECEIVED)
    move(store, job(3), WEB2, TargetState.RETURNED)
    assert store.unsettled(WEB1) == [
        (job(1).jid, TargetState.RUNNING),
        (job(2).jid, TargetState.RECEIVED),
        (job(3).jid, TargetState.RECEIVED),
        (job(4).jid, TargetState.QUEUED),
    ]
    found = store.open_jobs(WEB1, JIDS)
    assert [(one.jid, one.state) for one in found] == store.unsettled(WEB1)
    assert [one.body for one in found] == [b"\x01", b"\x02", b"\x03", b"\x04"]
    assert (found[0].created_at, found[0].deliver_ms) == (NOW, 60_000)
    assert [jid for jid, _state in store.unsettled(WEB2)] == [job(n).jid for n in (1, 2, 4, 5)]
    assert store.unsettled(WEB3) == []
    many = (WEB3, WEB2, WEB1)
    assert store.unsettled_of(many) == {minion: store.unsettled(minion) for minion in many}
    assert store.unsettled_of(()) == {}


@pytest.mark.parametrize("state", sorted(frozenset(TargetState) - {TargetState.PLANNED}))
def test_a_job_is_unsettled_until_its_state_is_terminal(store: Store, state: TargetState) -> None:
    publish(store, job(1, (WEB1,)))
    move(store, job(1), WEB1, state)
    left = [] if state in TERMINAL else [state]
    assert [state for _jid, state in store.unsettled(WEB1)] == left
    assert [one.state for one in store.open_jobs(WEB1, JIDS)] == left


def test_a_minion_is_crowded_when_so_many_jobs_are_queued_for_it(store: Store) -> None:
    publish(store, job(1), job(2), job(3, (WEB2,)), job(4, (WEB2,), batch=Batch(1)))
    assert store.crowded([WEB2, WEB1, WEB3], 2) == [WEB2, WEB1]
    assert store.crowded([WEB1, WEB2], 3) == [WEB2]
    assert store.crowded([WEB1, WEB2], 4) == []
    move(store, job(1), WEB2, TargetState.RECEIVED)
    assert store.crowded([WEB1, WEB2], 3) == []
