"""Jobs that go through their targets a few at a time, as every store keeps them."""

from __future__ import annotations

import pytest

from saltlite.master.store.ports import Standing, Store
from saltlite.model.ids import MinionId
from saltlite.model.job import Batch, JobFilter, TargetState
from tests.support.store import NOW, WEB1, WEB2, WEB3, commit, had_sessions, job, move, publish, ret, row

ALL = (WEB1, WEB2, WEB3)
BATCH = Batch(size=1, wait_ms=500, failhard=True)
PLANNED = job(1, ALL, batch=BATCH)


def up(store: Store, *minions: MinionId) -> None:
    with store.write() as writer:
        had_sessions(writer, [row(minion, up=True) for minion in minions])


def test_the_targets_of_a_batch_begin_planned_and_the_job_says_how_it_goes_on(store: Store) -> None:
    publish(store, PLANNED, job(2, ALL))
    assert {target.state for target in store.targets(PLANNED.jid)} == {TargetState.PLANNED}
    found = store.job(PLANNED.jid)
    assert found is not None
    assert found.batch == BATCH
    other = store.job(job(2).jid)
    assert other is not None
    assert other.batch is None
    assert {summary.jid: summary.batch_size for summary in store.jobs(JobFilter(), 9)} == {
        PLANNED.jid: 1,
        other.jid: None,
    }


def test_a_planned_target_is_open_and_nothing_is_handed_over(store: Store) -> None:
    publish(store, PLANNED)
    assert store.open_targets(PLANNED.jid) == 3
    assert store.open_jobs(WEB1, [PLANNED.jid]) == []
    assert store.unsettled(WEB1) == []
    assert store.minions_with_open_jobs() == []
    assert not store.expire_due(NOW + 10**6)


def test_a_target_whose_turn_it_is_waits_from_then_on(store: Store) -> None:
    publish(store, PLANNED)
    move(store, PLANNED, WEB1, TargetState.QUEUED, at=NOW + 100)
    (open_job,) = store.open_jobs(WEB1, [PLANNED.jid])
    assert open_job.created_at == NOW + 100
    assert not store.expire_due(NOW + 100 + 59)
    assert store.expire_due(NOW + 100 + 60)


def test_jobs_with_planned_targets_are_known_and_so_are_those_of_a_minion(store: Store) -> None:
    publish(store, job(3, ALL), PLANNED, job(2, (WEB1,), batch=BATCH))
    first, second = store.batches()
    assert (first.jid, first.created_at, first.deliver_ms, first.batch) == (PLANNED.jid, NOW, 60_000, BATCH)
    assert second.jid == job(2).jid
    assert store.batches([job(3).jid, job(2).jid, job(9).jid]) == [second]
    assert store.planned_of(WEB2) == [PLANNED.jid]
    move(store, job(2), WEB1, TargetState.QUEUED)
    assert store.batches() == store.batches([job(2).jid, PLANNED.jid]) == [first]


def test_turns_are_given_by_id_to_those_who_have_a_session(store: Store) -> None:
    publish(store, PLANNED)
    up(store, WEB3, WEB2)
    assert store.next_planned(PLANNED.jid, 9) == [WEB2, WEB3]
    assert store.next_planned(PLANNED.jid, 1) == [WEB2]


def test_when_somebody_who_waits_for_a_turn_was_last_seen(store: Store) -> None:
    publish(store, PLANNED)
    assert store.planned_seen(PLANNED.jid) == 0.0
    with store.write() as writer:
        had_sessions(writer, [row(WEB1, NOW + 5, up=False), row(WEB2, NOW + 9)])
    assert store.planned_seen(PLANNED.jid) == NOW + 9
    move(store, PLANNED, WEB2, TargetState.QUEUED)
    assert store.planned_seen(PLANNED.jid) == NOW + 5


@pytest.mark.parametrize(
    ("state", "active"),
    [
        (TargetState.PLANNED, 0),
        (TargetState.QUEUED, 1),
        (TargetState.RECEIVED, 1),
        (TargetState.RUNNING, 1),
        (TargetState.RETURNED, 1),
    ],
)
def test_what_takes_a_place(store: Store, state: TargetState, active: int) -> None:
    publish(store, PLANNED)
    move(store, PLANNED, WEB2, state, at=NOW + 10)
    standing = store.standing(PLANNED.jid, NOW + 9, NOW + 9, NOW + 60)
    assert standing.active == active
    late = store.standing(PLANNED.jid, NOW + 10, NOW + 10, NOW + 60)
    assert late.active == (1 if state in (TargetState.RECEIVED, TargetState.RUNNING) else 0)


def test_how_a_batch_stands(store: Store) -> None:
    publish(store, PLANNED)
    assert store.standing(PLANNED.jid, NOW, NOW, NOW + 60) == Standing(active=0, planned=3, changed_at=NOW, failed=None)
    commit(store, ret(PLANNED, WEB3, retcode=2), ret(PLANNED, WEB1), now=NOW + 5)
    assert store.standing(PLANNED.jid, NOW, NOW + 5, NOW + 60) == Standing(0, 1, NOW + 5, WEB3)


def test_whoever_ends_the_job_ends_what_is_planned(store: Store) -> None:
    publish(store, PLANNED)
    up(store, *ALL)
    with store.write() as writer:
        assert writer.cancel_job(PLANNED.jid, "root", NOW + 1) == list(ALL)
    assert {target.state for target in store.targets(PLANNED.jid)} == {TargetState.CANCELLED}
