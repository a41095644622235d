"""Jobs for resources, and the parts in which minions get them, as every store keeps them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from saltlite.errors import StoreError
from saltlite.master.store import ports as store_events
from saltlite.master.store.ports import Store, Stored, TargetRow
from saltlite.model.ids import MinionId, TargetId, jid_at
from saltlite.model.job import (
    PART_RESOURCES,
    Batch,
    Job,
    JobFilter,
    TargetOutcome,
    TargetState,
    part_id,
    resource_parts,
)
from saltlite.model.keys import KeyState
from tests.support.store import (
    NOW,
    WEB1,
    WEB2,
    WEB3,
    commit,
    had_sessions,
    job,
    key,
    move,
    move_part,
    publish,
    ret,
    row,
    srns,
    state_of,
)

D1, D2, D3 = srns(3)
S1, S2 = srns(2, "ssh")
RESOURCES = {WEB2: (D1, D2, S1), WEB3: (D3, S2)}
JOB = job(1, (WEB1, WEB2), resources=RESOURCES)
DUMMIES, SSH = part_id(JOB.jid, 1), part_id(JOB.jid, 2)
"""WEB2's parts for its resources of each type."""


def states(store: Store, of: Job = JOB) -> dict[TargetId, TargetState]:
    return {target.id: target.state for target in store.targets(of.jid)}


# --- what a job is for ------------------------------------------------------------------------------


def test_a_job_has_a_row_for_each_minion_and_each_resource_sorted_by_id(store: Store) -> None:
    publish(store, JOB)
    assert store.targets(JOB.jid) == [
        TargetRow(target, TargetState.QUEUED, "", NOW) for target in (D1, D2, D3, S1, S2, WEB1, WEB2)
    ]
    assert store.job(JOB.jid) == JOB
    assert store.open_targets(JOB.jid) == 7


def test_who_manages_the_resources_of_a_job_is_kept_with_it(store: Store) -> None:
    publish(store, JOB, job(2))
    assert store.managing_minions(JOB.jid) == {D1: WEB2, D2: WEB2, S1: WEB2, D3: WEB3, S2: WEB3}
    assert store.managing_minions(job(2).jid) == store.managing_minions(jid_at(0)) == {}


def test_the_event_of_a_new_job_counts_resources_too(store: Store) -> None:
    publish(store, JOB)
    assert store.events()[-1].data["targets"] == 7


@pytest.mark.parametrize(
    ("minions", "resources", "reason"),
    [
        ((WEB1,), {WEB2: (D1, D1)}, "a target twice"),
        ((WEB1,), {WEB2: (D1,), WEB3: (D1,)}, "a target twice"),
        ((WEB1,), {WEB2: (D2, D1)}, "out of order"),
    ],
)
def test_resources_that_would_be_in_no_certain_part_are_refused(
    store: Store, minions: tuple[MinionId, ...], resources: dict[MinionId, tuple[TargetId, ...]], reason: str
) -> None:
    with store.write() as tx, pytest.raises(StoreError, match=reason):
        tx.put_job(job(1, minions, resources=resources))
    assert store.job(job(1).jid) is None


def test_more_resources_than_parts_can_have_numbers_are_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_events, "NUMBER_MAX", 3)
    publish(store, job(1, (), resources={WEB1: srns(2)}))
    with store.write() as tx, pytest.raises(StoreError, match="more resources of one minion"):
        tx.put_job(job(2, (), resources={WEB1: srns(3)}))


def test_resources_of_a_minion_are_in_the_parts_that_the_signed_job_says(store: Store) -> None:
    many = srns(PART_RESOURCES + 3)
    wide = job(1, (WEB1,), resources={WEB1: (*many, S1), WEB2: srns(2, first=2000)})
    publish(store, wide)
    parts = {number: store.part_targets(wide.jid, WEB1, number) for number in range(5)}
    assert parts == {0: [WEB1], 4: []} | {number: list(ids) for number, ids in resource_parts((*many, S1))}
    assert parts[2] == list(many[PART_RESOURCES:])
    assert store.part_targets(wide.jid, WEB2, 0) == []
    assert store.part_targets(wide.jid, WEB2, 1) == list(srns(2, first=2000))
    assert store.part_targets(jid_at(0), WEB1, 0) == []


# --- how parts come along ---------------------------------------------------------------------------


def test_a_part_moves_all_its_targets_and_no_other(store: Store) -> None:
    publish(store, JOB)
    assert move_part(store, DUMMIES, WEB2, TargetState.RUNNING, "pid 7") == [D1, D2]
    assert store.targets(JOB.jid)[0] == TargetRow(D1, TargetState.RUNNING, "pid 7", NOW + 3)
    assert [one.id for one in store.targets_in(JOB.jid, TargetState.QUEUED)] == [D3, S1, S2, WEB1, WEB2]


def test_the_part_of_the_minion_itself_moves_that_one_alone(store: Store) -> None:
    publish(store, JOB)
    assert move_part(store, JOB.jid, WEB2, TargetState.RECEIVED) == [WEB2]
    assert [target for target, state in states(store).items() if state is TargetState.RECEIVED] == [WEB2]


def test_what_has_ended_in_a_part_stays_as_it_ended(store: Store) -> None:
    publish(store, JOB)
    commit(store, ret(JOB, WEB2, id=D1))
    assert move_part(store, DUMMIES, WEB2, TargetState.INTERRUPTED, "it died") == [D2]
    assert states(store)[D1] is TargetState.RETURNED
    assert states(store)[D2] is TargetState.INTERRUPTED
    assert move_part(store, DUMMIES, WEB2, TargetState.TIMED_OUT) == []


def test_a_part_never_goes_back(store: Store) -> None:
    publish(store, JOB)
    move_part(store, DUMMIES, WEB2, TargetState.RUNNING)
    assert move_part(store, DUMMIES, WEB2, TargetState.RECEIVED) == []
    assert states(store)[D1] is TargetState.RUNNING


def test_a_part_that_runs_cannot_end_as_if_it_had_never_begun(store: Store) -> None:
    publish(store, JOB)
    move(store, JOB, D1, TargetState.RUNNING)
    assert move_part(store, DUMMIES, WEB2, TargetState.REFUSED, "too old") == [D1, D2]
    first, second, *_ = store.targets(JOB.jid)
    assert first.state is TargetState.LOST
    assert "does not know it any more (too old)" in first.reason
    assert second == TargetRow(D2, TargetState.REFUSED, "too old", NOW + 3)
    assert [detail.outcome for detail in store.target_details(JOB.jid)][:2] == [
        TargetOutcome.MISSING,
        TargetOutcome.FAILED,
    ]


def test_a_return_of_what_was_killed_while_it_ran_says_so(store: Store) -> None:
    publish(store, JOB)
    move(store, JOB, WEB1, TargetState.RUNNING)
    commit(store, ret(JOB, WEB1, state=TargetState.CANCELLED, reason="by root"))
    assert state_of(store, JOB.jid, WEB1) is TargetState.CANCELLED


@pytest.mark.parametrize("part", [part_id(JOB.jid, 1), part_id(JOB.jid, 3), JOB.jid, part_id(jid_at(0), 1)])
def test_parts_of_others_and_parts_that_are_not_there_move_nothing(store: Store, part: str) -> None:
    publish(store, job(1, (WEB2,), resources={WEB2: (D1,)}))
    assert move_part(store, part, WEB3, TargetState.LOST) == []
    assert set(states(store).values()) == {TargetState.QUEUED}


def test_what_is_open_in_a_part_are_its_targets_that_have_not_ended(store: Store) -> None:
    publish(store, JOB)
    commit(store, ret(JOB, WEB2, id=D2), ret(JOB, WEB2))
    assert store.open_in_part(JOB.jid, WEB2, 1) == [D1]
    assert store.open_in_part(JOB.jid, WEB2, 2) == [S1]
    assert store.open_in_part(JOB.jid, WEB2, 0) == []
    assert store.open_in_part(JOB.jid, WEB1, 0) == [WEB1]
    assert store.open_in_part(JOB.jid, WEB1, 1) == store.open_in_part(jid_at(0), WEB1, 0) == []


def test_open_parts_of_a_job_come_with_who_has_them(store: Store) -> None:
    publish(store, JOB)
    move_part(store, DUMMIES, WEB2, TargetState.RETURNED)
    commit(store, ret(JOB, WEB1), ret(JOB, WEB3, id=D3))
    assert store.open_parts(JOB.jid) == [(JOB.jid, WEB2), (SSH, WEB2), (part_id(JOB.jid, 2), WEB3)]
    assert store.open_parts(jid_at(0)) == []


# --- what a minion has to do ------------------------------------------------------------------------


def test_unsettled_parts_come_once_each_with_the_state_of_the_least_advanced(store: Store) -> None:
    publish(store, JOB, job(2, (WEB2,)))
    move(store, JOB, D1, TargetState.RUNNING)
    move_part(store, SSH, WEB2, TargetState.RECEIVED)
    assert store.unsettled(WEB2) == [
        (JOB.jid, TargetState.QUEUED),
        (DUMMIES, TargetState.QUEUED),
        (SSH, TargetState.RECEIVED),
        (job(2).jid, TargetState.QUEUED),
    ]
    commit(store, ret(JOB, WEB2, id=D2))
    assert store.unsettled(WEB2)[1] == (DUMMIES, TargetState.RUNNING)
    assert store.unsettled_of([WEB2]) == {WEB2: store.unsettled(WEB2)}
    commit(store, ret(JOB, WEB2, id=D1))
    assert [part for part, _state in store.unsettled(WEB2)] == [JOB.jid, SSH, job(2).jid]


def test_parts_are_sorted_by_number_and_not_as_texts(store: Store) -> None:
    of_eleven = {WEB1: tuple(f"t{n:02d}:a" for n in range(11))}
    publish(store, job(1, (), resources=of_eleven))
    wanted = [part_id(job(1).jid, number) for number in range(1, 12)]
    assert [part for part, _state in store.unsettled(WEB1)] == wanted
    assert store.unsettled_of([WEB1]) == {WEB1: store.unsettled(WEB1)}
    assert [one.part for one in store.open_jobs(WEB1, wanted[::-1])] == wanted
    assert [part for part, _minion in store.open_parts(job(1).jid)] == wanted


def test_open_jobs_have_all_that_a_part_is_handed_over_with(store: Store) -> None:
    publish(store, JOB)
    commit(store, ret(JOB, WEB2, id=D1))
    own, dummies = store.open_jobs(WEB2, [DUMMIES, JOB.jid, part_id(JOB.jid, 9)])
    assert (own.jid, own.part, own.resources_here) == (JOB.jid, JOB.jid, ())
    assert (dummies.jid, dummies.part, dummies.resources_here) == (JOB.jid, DUMMIES, (D1, D2))
    for one in (own, dummies):
        assert (one.minions, dict(one.resources)) == (JOB.minions, RESOURCES)
        assert (one.body, one.signature, one.deliver_ms) == (JOB.body, JOB.signature, JOB.deliver_ms)
    assert store.open_jobs(WEB1, [DUMMIES]) == []


def test_each_part_counts_its_body(store: Store) -> None:
    publish(store, replace(JOB, body=b"0123456789"))
    parts = [JOB.jid, DUMMIES, SSH]
    assert [len(store.open_jobs(WEB2, parts, size)) for size in (1, 10, 11, 21, 99)] == [1, 1, 2, 3, 3]


def test_a_minion_is_crowded_by_parts_and_not_by_their_targets(store: Store) -> None:
    publish(store, JOB)
    assert store.crowded([WEB1, WEB2, WEB3], 2) == [WEB2, WEB3]
    assert store.crowded([WEB1, WEB2, WEB3], 3) == [WEB2]
    assert store.crowded([WEB2], 4) == []
    move_part(store, SSH, WEB2, TargetState.RECEIVED)
    assert store.crowded([WEB2], 3) == []


def test_a_minion_that_only_manages_resources_has_open_jobs(store: Store) -> None:
    publish(store, JOB)
    assert store.minions_with_open_jobs() == [WEB1, WEB2, WEB3]


# --- returns ----------------------------------------------------------------------------------------


def test_the_return_of_a_resource_counts_when_it_comes_from_its_minion(store: Store) -> None:
    publish(store, JOB)
    mine, foreign = ret(JOB, WEB2, id=D1), ret(JOB, WEB3, id=D2)
    never, own = ret(JOB, WEB2, id="dummy:never"), ret(JOB, WEB2, id=WEB1)
    assert commit(store, mine, foreign, never, own, mine) == [
        Stored.NEW,
        Stored.UNASSIGNED,
        Stored.UNASSIGNED,
        Stored.UNASSIGNED,
        Stored.DUPLICATE,
    ]
    assert [one.id for one in store.returns(JOB.jid)] == [D1]
    assert states(store)[D2] is states(store)[WEB1] is TargetState.QUEUED


def test_a_managing_minion_whose_key_is_not_accepted_returns_nothing(store: Store) -> None:
    publish(store, JOB)
    with store.write() as tx:
        tx.put_key(key(WEB2, KeyState.REJECTED))
    assert commit(store, ret(JOB, WEB2, id=D1)) == [Stored.UNASSIGNED]


def test_the_event_of_a_return_of_a_resource_says_which_and_through_whom(store: Store) -> None:
    publish(store, JOB)
    odd = job(2, (), resources={WEB1: ("ssh:fe80::1",)})
    publish(store, odd)
    commit(store, ret(odd, WEB1, id="ssh:fe80::1"), ret(JOB, WEB1))
    resource, minion = store.events()[-2:]
    assert resource.tag == f"salt/job/{odd.jid}/ret/ssh:fe80::1"
    assert resource.data == {
        "jid": odd.jid,
        "id": "ssh:fe80::1",
        "retcode": 0,
        "state": "returned",
        "minion": WEB1,
        "resource_type": "ssh",
        "resource_id": "fe80::1",
    }
    assert "resource_type" not in minion.data


# --- batches ----------------------------------------------------------------------------------------

IN_TURNS = job(3, (WEB1,), resources={WEB2: (D1, D2, S1)}, batch=Batch(1))


def test_each_resource_of_a_batch_is_a_part_of_its_own(store: Store) -> None:
    publish(store, IN_TURNS)
    assert [store.part_targets(IN_TURNS.jid, WEB2, number) for number in (1, 2, 3, 4)] == [[D1], [D2], [S1], []]
    assert store.planned_of(WEB2) == [part_id(IN_TURNS.jid, number) for number in (1, 2, 3)]
    assert store.planned_of(WEB1) == [IN_TURNS.jid]


def test_turns_of_resources_go_by_the_session_of_their_minion(store: Store) -> None:
    publish(store, IN_TURNS)
    assert store.planned_seen(IN_TURNS.jid) == 0.0
    with store.write() as tx:
        had_sessions(tx, [row(WEB2, NOW + 5, up=True), row(WEB1, NOW + 4)])
    assert store.next_planned(IN_TURNS.jid, 2) == [D1, D2]
    assert store.next_planned(IN_TURNS.jid, 9) == [D1, D2, S1]
    assert store.planned_seen(IN_TURNS.jid) == NOW + 5
    move(store, IN_TURNS, D1, TargetState.QUEUED, at=NOW + 10)
    (one,) = store.open_jobs(WEB2, [part_id(IN_TURNS.jid, 1)])
    assert (one.resources_here, one.created_at) == ((D1,), NOW + 10)
    assert store.planned_of(WEB2) == [part_id(IN_TURNS.jid, number) for number in (2, 3)]


def test_a_resource_that_fails_is_who_failed_in_a_batch(store: Store) -> None:
    publish(store, IN_TURNS)
    commit(store, ret(IN_TURNS, WEB2, id=D2, retcode=1))
    standing = store.standing(IN_TURNS.jid, NOW, NOW, NOW + 60)
    assert (standing.failed, standing.planned, standing.active) == (D2, 3, 1)


# --- ends that come by the minion -------------------------------------------------------------------


def test_resources_expire_by_the_session_of_their_minion(store: Store) -> None:
    publish(store, JOB)
    with store.write() as tx:
        had_sessions(tx, [row(WEB1, NOW + 1), row(WEB2, NOW + 1)])
    with store.write() as tx:
        assert tx.expire(NOW + 60) == [(JOB.jid, D3), (JOB.jid, S2)]
    assert states(store)[D3] is TargetState.EXPIRED
    assert states(store)[D1] is TargetState.QUEUED
    assert not store.expire_due(NOW + 3600)


def test_a_killed_job_is_cancelled_for_resources_whose_minion_was_not_there(store: Store) -> None:
    publish(store, JOB)
    with store.write() as tx:
        had_sessions(tx, [row(WEB2, NOW + 1)])
        assert tx.cancel_job(JOB.jid, "alice", NOW + 2) == [D3, S2, WEB1]
    assert store.open_parts(JOB.jid) == [(JOB.jid, WEB2), (DUMMIES, WEB2), (SSH, WEB2)]


def test_last_seen_is_never_before_a_part_was_queued(store: Store) -> None:
    publish(store, JOB)
    with store.write() as tx:
        had_sessions(tx, [row(WEB3, NOW - 50)])
    found = store.minion(WEB3)
    assert found is not None
    assert found.last_seen == NOW


# --- history ----------------------------------------------------------------------------------------


def test_history_counts_resources_as_targets(store: Store) -> None:
    publish(store, JOB)
    commit(store, ret(JOB, WEB2, id=D1), ret(JOB, WEB2, id=S1, retcode=1))
    summary = store.job_summary(JOB.jid)
    assert summary is not None
    assert summary.counts == {TargetState.RETURNED: 2, TargetState.QUEUED: 5}
    assert summary.outcomes == {TargetOutcome.OK: 1, TargetOutcome.FAILED: 1, TargetOutcome.OPEN: 5}
    assert [(one.id, one.retcode) for one in store.target_details(JOB.jid)] == [
        (D1, 0),
        (D2, None),
        (D3, None),
        (S1, 1),
        (S2, None),
        (WEB1, None),
        (WEB2, None),
    ]
    assert store.open_counts() == {TargetState.QUEUED: 5}


def found_for(store: Store, target: TargetId, outcome: TargetOutcome | None = None) -> bool:
    return [one.jid for one in store.jobs(JobFilter(minion=target, outcome=outcome), 9)] == [JOB.jid]


def test_jobs_are_found_by_a_resource_and_by_whoever_manages_it(store: Store) -> None:
    publish(store, JOB, job(2, (MinionId("db1"),)))
    assert all(found_for(store, target) for target in (WEB1, WEB2, WEB3, D3, S1))
    assert not found_for(store, "dummy:never")


@pytest.mark.parametrize("outcome", TargetOutcome)
def test_jobs_are_found_by_what_became_of_resources_of_a_minion(store: Store, outcome: TargetOutcome) -> None:
    publish(store, JOB)
    commit(store, ret(JOB, WEB2, id=D1), ret(JOB, WEB2, id=S1, retcode=1), ret(JOB, WEB1), ret(JOB, WEB3, id=D3))
    move(store, JOB, S2, TargetState.LOST)
    move(store, JOB, D2, TargetState.CANCELLED)
    found = {target for target in (WEB1, WEB2, WEB3, D1, S1, S2) if found_for(store, target, outcome)}
    assert (
        found
        == {
            TargetOutcome.OK: {WEB1, D1},
            TargetOutcome.OPEN: {WEB2},
            TargetOutcome.FAILED: {WEB2, S1},
            TargetOutcome.MISSING: {WEB2, WEB3, S2},
        }[outcome]
    )


def test_a_pruned_job_leaves_nothing_of_its_resources(store: Store) -> None:
    publish(store, JOB)
    commit(store, *(ret(JOB, minion, id=target) for target, minion in store.managing_minions(JOB.jid).items()))
    with store.write() as tx:
        assert tx.prune(NOW + 100) == 0
    commit(store, ret(JOB, WEB1), ret(JOB, WEB2))
    with store.write() as tx:
        assert tx.prune(NOW + 100) == 1
    assert not store.targets(JOB.jid)
    assert not store.part_targets(JOB.jid, WEB2, 1)
    assert not store.returns(JOB.jid)
    publish(store, job(1, (), resources={WEB3: (D1,)}))
    assert store.managing_minions(JOB.jid) == {D1: WEB3}
    assert store.open_jobs(WEB3, [DUMMIES])[0].resources_here == (D1,)
