"""What every store promises about arguments of ended jobs: SQLite and its in-memory twin."""

from __future__ import annotations

from collections.abc import Callable

from saltlite.master.store.ports import Store
from saltlite.model.job import Batch, TargetState
from tests.support.store import NOW, WEB1, WEB2, job, move, publish


def mark(store: Store, *numbers: int) -> None:
    with store.write() as tx:
        for number in numbers:
            tx.mark_reducible(job(number).jid)


def test_a_job_is_reducible_when_it_is_marked_and_its_last_target_has_ended(store: Store) -> None:
    for number in (1, 2, 3):
        publish(store, job(number))
    mark(store, 2, 3)
    for number in (1, 2, 3):
        move(store, job(number), WEB1, TargetState.LOST)
    assert store.reducible(10) == []
    move(store, job(1), WEB2, TargetState.LOST)
    move(store, job(3), WEB2, TargetState.LOST)
    assert store.reducible(10) == [(job(3).jid, b"body")]
    move(store, job(2), WEB2, TargetState.LOST)
    assert store.reducible(10) == [(job(2).jid, b"body"), (job(3).jid, b"body")]
    assert store.reducible(1) == [(job(2).jid, b"body")]


def test_a_job_whose_batch_goes_on_or_whose_kill_is_not_confirmed_is_not_reducible(store: Store) -> None:
    publish(store, job(1, batch=Batch(1, 0, failhard=False)))
    publish(store, job(2))
    mark(store, 1, 2)
    move(store, job(2), WEB1, TargetState.RUNNING)
    with store.write() as tx:
        tx.cancel_job(job(2).jid, "root", NOW)
    move(store, job(1), WEB1, TargetState.LOST)
    assert store.targets_in(job(1).jid, TargetState.PLANNED)
    assert store.reducible(10) == []


def test_a_reduced_job_has_its_new_body_and_no_signature_and_is_not_named_again(store: Store) -> None:
    publish(store, job(1, (WEB1,)))
    mark(store, 1)
    move(store, job(1), WEB1, TargetState.LOST)
    with store.write() as tx:
        tx.put_reduced([(job(1).jid, b"less")])
        assert tx.reducible(10) == []
    found = store.job(job(1).jid)
    assert found is not None
    assert (found.body, found.signature, found.minions) == (b"less", b"", (WEB1,))
    assert store.reducible(10) == []
    assert store.empty_log()


def test_all_jobs_can_be_marked_and_a_mark_goes_with_its_job(open_store: Callable[[], Store]) -> None:
    store = open_store()
    for number in (1, 2):
        publish(store, job(number, (WEB1,)))
        move(store, job(number), WEB1, TargetState.LOST)
    mark(store, 1)
    with store.write() as tx:
        tx.mark_reducible(None)
    assert [jid for jid, _body in open_store().reducible(10)] == [job(1).jid, job(2).jid]
    with store.write() as tx:
        assert tx.prune_oldest(1) == 1
    assert [jid for jid, _body in store.reducible(10)] == [job(2).jid]
    with store.write() as tx:
        tx.mark_reducible(job(1).jid)
    assert [jid for jid, _body in store.reducible(10)] == [job(2).jid], "a job that is gone"
