"""What every store promises about jobs of the past, ended jobs and room: SQLite and its in-memory twin."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.master.store.ports import Store
from saltlite.model.ids import Jid, MinionId, jid_at
from saltlite.model.job import TERMINAL, Job, JobFilter, Target, TargetKind, TargetOutcome, TargetState
from tests.support.store import NOW, WEB1, WEB2, WEB3, commit, had_sessions, job, move, publish, ret, row, state_of


def jids(store: Store, limit: int = 100, **wanted: Any) -> list[Jid]:
    """What the filter lets through."""
    return [one.jid for one in store.jobs(JobFilter(**wanted), limit)]


def numbers(store: Store, **wanted: Any) -> list[int]:
    """As `jids`, with the numbers that `job(n)` has."""
    return [next(n for n in range(10) if job(n).jid == jid) for jid in jids(store, **wanted)]


def cancel(store: Store, of: Job, by: str = "alice", now: float = NOW + 5) -> list[str]:
    with store.write() as tx:
        return list(tx.cancel_job(of.jid, by, now))


# --- lists ----------------------------------------------------------------------------------------


def test_jobs_are_listed_newest_first_and_by_page(store: Store) -> None:
    publish(store, *(job(n) for n in range(5)))
    assert numbers(store) == [4, 3, 2, 1, 0]
    first = jids(store, limit=2)
    assert first == [job(4).jid, job(3).jid]
    assert jids(store, limit=2, before=first[-1]) == [job(2).jid, job(1).jid]


def test_a_summary_says_who_asked_for_what_from_where(store: Store) -> None:
    made = job(1, user="bob", uid=7, origin="ssh 10.0.0.9", target=Target("web1,web2", TargetKind.LIST), run_ms=5)
    publish(store, made)
    summary = store.job_summary(made.jid)
    assert summary is not None
    assert (summary.user, summary.uid, summary.origin) == ("bob", 7, "ssh 10.0.0.9")
    assert (summary.fun, summary.target) == ("test.ping", Target("web1,web2", TargetKind.LIST))
    assert (summary.created_at, summary.deliver_ms, summary.run_ms) == (NOW, 60_000, 5)
    assert (summary.cancelled_at, summary.cancelled_by) == (None, "")
    assert [summary] == store.jobs(JobFilter(), 10)


def test_there_is_no_summary_of_an_unknown_job(store: Store) -> None:
    assert store.job_summary(job(1).jid) is None
    assert store.target_details(job(1).jid) == []


def test_equal_returns_are_together_and_targets_without_one_are_counted(store: Store) -> None:
    made = job(1, minions=(WEB1, WEB2, WEB3, MinionId("web4"), MinionId("web5")))
    publish(store, made)
    rets = [ret(made, WEB3), ret(made, WEB1, started_at=NOW + 9), ret(made, WEB2, retcode=2)]
    commit(store, *rets)
    move(store, made, MinionId("web5"), TargetState.LOST, "gone")
    groups = store.equal_returns(made.jid, 3)
    assert groups is not None
    assert sorted((one.retcode, one.body, ids) for one, ids in groups) == [
        (0, b"\xc3", [WEB1, WEB3]),
        (2, b"\xc3", [WEB2]),
    ]
    assert store.equal_returns(made.jid, 2) is None
    details = {detail.id: detail for detail in store.target_details(made.jid)}
    assert store.without_return(made.jid, 10) == (2, [details[MinionId("web4")], details[MinionId("web5")]])
    assert store.without_return(made.jid, 1) == (2, [details[MinionId("web4")]])
    one = store.one_return(made.jid, WEB2)
    assert one is not None
    assert (one.id, one.retcode) == (WEB2, 2)
    assert store.one_return(made.jid, MinionId("web4")) is None
    unknown = job(2).jid
    assert (store.equal_returns(unknown, 0), store.without_return(unknown, 9)) == ([], (0, []))


def test_a_summary_counts_targets_by_state_and_by_outcome(store: Store) -> None:
    publish(store, job(1, minions=(WEB1, WEB2, WEB3)))
    commit(store, ret(job(1), WEB1, retcode=1), ret(job(1), WEB2))
    summary = store.job_summary(job(1).jid)
    assert summary is not None
    assert summary.counts == {TargetState.RETURNED: 2, TargetState.QUEUED: 1}
    assert summary.outcomes == {TargetOutcome.FAILED: 1, TargetOutcome.OK: 1, TargetOutcome.OPEN: 1}


def test_jobs_are_found_by_minion_user_and_time(store: Store) -> None:
    publish(
        store,
        job(1, user="alice", minions=(WEB1,)),
        job(2, user="bob", minions=(WEB2,), created_at=NOW + 10),
        job(3, user="bob", created_at=NOW + 20),
    )
    assert numbers(store, minion=WEB1) == [3, 1]
    assert numbers(store, user="bob") == [3, 2]
    assert numbers(store, since=NOW + 10) == [3, 2]
    assert numbers(store, until=NOW + 10) == [1]
    assert numbers(store, since=NOW + 5, until=NOW + 15, user="bob", minion=WEB2) == [2]
    assert numbers(store, minion=WEB3) == []


def test_jobs_are_found_by_a_glob_on_any_of_their_functions(store: Store) -> None:
    publish(store, job(1, fun="pkg.install"), job(2, fun="test.ping,pkg.remove"), job(3, fun="cmd.run"))
    assert numbers(store, fun="pkg.*") == [2, 1]
    assert numbers(store, fun="*.r[!u]*") == [2]
    assert numbers(store, fun="cmd.run") == [3]
    assert numbers(store, fun="ping,pkg") == []


def test_jobs_are_found_by_what_became_of_them(store: Store) -> None:
    publish(store, *(job(n) for n in range(1, 5)))
    commit(store, ret(job(1), WEB1), ret(job(1), WEB2))
    commit(store, ret(job(2), WEB1), ret(job(2), WEB2, retcode=3))
    commit(store, ret(job(3), WEB1))
    move(store, job(3), WEB2, TargetState.EXPIRED)
    assert numbers(store, outcome=TargetOutcome.OK) == [1]
    assert numbers(store, outcome=TargetOutcome.FAILED) == [2]
    assert numbers(store, outcome=TargetOutcome.MISSING) == [3]
    assert numbers(store, outcome=TargetOutcome.OPEN) == [4]


def test_with_a_minion_the_outcome_is_that_of_the_minion(store: Store) -> None:
    publish(store, job(1))
    commit(store, ret(job(1), WEB1, retcode=1), ret(job(1), WEB2))
    assert numbers(store, minion=WEB1, outcome=TargetOutcome.FAILED) == [1]
    assert numbers(store, minion=WEB2, outcome=TargetOutcome.FAILED) == []
    assert numbers(store, minion=WEB2, outcome=TargetOutcome.OK) == [1]


@pytest.mark.parametrize("state", sorted(TERMINAL - {TargetState.RETURNED}))
def test_a_target_that_was_settled_without_a_return_failed_or_is_missing(store: Store, state: TargetState) -> None:
    publish(store, job(1, minions=(WEB1,)))
    move(store, job(1), WEB1, state)
    failed = state in {TargetState.REFUSED, TargetState.TIMED_OUT, TargetState.INTERRUPTED}
    assert store.target_details(job(1).jid)[0].outcome is (TargetOutcome.FAILED if failed else TargetOutcome.MISSING)


def test_a_target_is_shown_with_its_return_but_without_the_body(store: Store) -> None:
    publish(store, job(1))
    commit(store, ret(job(1), WEB2, retcode=2, reason="because"))
    silent, returned = store.target_details(job(1).jid)
    assert (silent.id, silent.state, silent.outcome) == (WEB1, TargetState.QUEUED, TargetOutcome.OPEN)
    assert (silent.retcode, silent.started_at, silent.duration_ms) == (None, None, None)
    assert (returned.id, returned.retcode, returned.started_at, returned.duration_ms) == (WEB2, 2, NOW + 1.5, 12)
    assert (returned.reason, returned.changed_at) == ("because", NOW + 2)
    both = [job(1).jid, job(2).jid]
    assert store.details_of(WEB2, both) == {job(1).jid: returned}
    assert store.details_of(WEB3, both) == {}


def test_a_late_return_changes_no_state_but_says_what_became_of_the_target(store: Store) -> None:
    publish(store, job(1, minions=(WEB1,)))
    move(store, job(1), WEB1, TargetState.EXPIRED)
    commit(store, ret(job(1), WEB1))
    assert state_of(store, job(1).jid, WEB1) is TargetState.EXPIRED
    assert numbers(store, outcome=TargetOutcome.MISSING) == []
    assert numbers(store, outcome=TargetOutcome.OK) == [1]


def test_open_targets_of_all_jobs_are_counted_by_state(store: Store) -> None:
    publish(store, job(1), job(2))
    move(store, job(1), WEB1, TargetState.RUNNING)
    commit(store, ret(job(2), WEB1))
    assert store.open_counts() == {TargetState.QUEUED: 2, TargetState.RUNNING: 1}


# --- cancel ---------------------------------------------------------------------------------------


def test_a_cancel_settles_minions_that_cannot_have_got_the_job_and_no_others(store: Store) -> None:
    with store.write() as tx:
        had_sessions(tx, [row(WEB1, NOW - 1), row(WEB2, NOW - 1, up=True)])
    publish(store, job(1, minions=(WEB1, WEB2, WEB3)))
    assert cancel(store, job(1)) == [WEB1, WEB3]
    assert state_of(store, job(1).jid, WEB1) is TargetState.CANCELLED
    assert state_of(store, job(1).jid, WEB2) is TargetState.QUEUED


def test_a_cancel_leaves_what_a_minion_has_acknowledged_to_the_minion(store: Store) -> None:
    publish(store, job(1, minions=(WEB1,)))
    move(store, job(1), WEB1, TargetState.RUNNING)
    assert cancel(store, job(1)) == []
    assert state_of(store, job(1).jid, WEB1) is TargetState.RUNNING


def test_jobs_that_were_cancelled_are_known(store: Store) -> None:
    publish(store, job(1), job(2))
    with store.write() as tx:
        had_sessions(tx, [row(WEB1, up=True)])
    cancel(store, job(1))
    assert store.cancelled([job(1).jid, job(2).jid, job(3).jid]) == {job(1).jid}
    assert [jid for jid, _state in store.unsettled(WEB1)] == [job(1).jid, job(2).jid]


def test_the_first_cancel_is_the_one_that_is_remembered(store: Store) -> None:
    publish(store, job(1))
    cancel(store, job(1), "alice", NOW + 5)
    cancel(store, job(1), "bob", NOW + 9)
    summary = store.job_summary(job(1).jid)
    assert summary is not None
    assert (summary.cancelled_at, summary.cancelled_by) == (NOW + 5, "alice")


def test_a_cancel_of_an_unknown_job_does_nothing(store: Store) -> None:
    assert cancel(store, job(1)) == []


def test_a_jid_that_was_pruned_and_used_again_is_not_cancelled(store: Store) -> None:
    publish(store, job(1))
    cancel(store, job(1))
    with store.write() as tx:
        tx.prune(NOW + 1)
    publish(store, job(1))
    assert store.cancelled([job(1).jid]) == set()


# --- cursors and room -----------------------------------------------------------------------------


def test_a_cursor_is_found_by_time(store: Store) -> None:
    assert store.seq_before(NOW) == 0
    with store.write() as tx:
        seqs = [tx.put_event("tag", {}, NOW + at) for at in (0, 10, 20)]
    assert [store.seq_before(NOW + at) for at in (-1, 0, 5, 20)] == [0, 0, seqs[0], seqs[1]]
    assert store.seq_before(NOW + 21) == store.last_seq()


def test_the_first_event_that_is_left_is_known(store: Store) -> None:
    assert store.first_seq() == 0
    with store.write() as tx:
        seqs = [tx.put_event("tag", {}, NOW + at) for at in (0, 10)]
        assert tx.first_seq() == seqs[0]
        tx.prune(NOW + 5)
    assert store.first_seq() == seqs[1]


def test_returns_are_read_up_to_a_size_but_one_at_least(store: Store) -> None:
    publish(store, job(1, minions=(WEB1, WEB2, WEB3)))
    commit(store, *(ret(job(1), minion, body=b"x" * 10) for minion in (WEB1, WEB2, WEB3)))
    sizes = {size: len(store.returns(job(1).jid, size=size)) for size in (1, 10, 11, 20, 21, 1000)}
    assert sizes == {1: 1, 10: 1, 11: 2, 20: 2, 21: 3, 1000: 3}


def test_the_oldest_jobs_that_have_ended_make_room_first(store: Store) -> None:
    old = [job(n, minions=(WEB1,), jid=jid_at(1_800_000_000_000_000 - n), created_at=NOW - n) for n in range(1, 5)]
    publish(store, *old)
    for one in (old[0], old[1], old[3]):
        commit(store, ret(one, WEB1), now=one.created_at + 0.5)
    with store.write() as tx:
        assert tx.prune_oldest(2) == 2
    assert jids(store) == [old[0].jid, old[2].jid], "the oldest two that have ended are gone, the open one is not"
    assert all(event.at >= old[1].created_at for event in store.events())
    with store.write() as tx:
        assert tx.prune_oldest(5) == 1
        assert tx.prune_oldest(5) == 0
    assert jids(store) == [old[2].jid]


def test_the_oldest_events_go_and_their_numbers_are_never_given_out_again(store: Store) -> None:
    with store.write() as tx:
        numbers = [tx.put_event("salt/presence/change", {}, NOW) for _ in range(5)]
        assert tx.prune_events(3) == 3
        assert tx.prune_events(9) == 2
        assert tx.prune_events(9) == 0
        assert tx.put_event("salt/presence/change", {}, NOW) == numbers[-1] + 1
    assert len(store.events()) == 1


def test_pruning_goes_in_steps_from_the_oldest_job_on_until_nothing_is_due(store: Store) -> None:
    jobs = [job(n, minions=(WEB1, WEB2), created_at=NOW + n) for n in range(4)]
    publish(store, *jobs)
    for one in jobs:
        commit(store, ret(one, WEB1), ret(one, WEB2), now=one.created_at)
    left = []
    before = NOW + 3
    while store.prune_due(before):
        with store.write() as tx:
            tx.prune(before, 4)
        left.append(([n for n in range(4) if store.job(jobs[n].jid) is not None], len(store.events())))
    assert left[:3] == [([1, 2, 3], 8), ([2, 3], 4), ([3], 3)]
    assert left[-1] == ([3], 3)
    assert not store.prune_due(before)
    assert store.prune_due(NOW + 100)


def test_a_job_of_which_a_part_was_pruned_is_not_shown_and_goes_however_young_it_is(store: Store) -> None:
    made = job(1, minions=(WEB1, WEB2), created_at=NOW)
    publish(store, made)
    commit(store, ret(made, WEB1), ret(made, WEB2), now=NOW)
    with store.write() as tx:
        tx.prune_oldest(1, 1)
    assert store.job_summary(made.jid) is None
    assert store.jobs(JobFilter(), 10) == []
    for _ in range(10):
        if not store.prune_due(1.0):
            break
        with store.write() as tx:
            tx.prune(1.0, 1)
    assert not store.prune_due(1.0)
    assert store.returns(made.jid) == []
    with store.write() as tx:
        assert tx.prune_oldest(1) == 0


def test_the_size_grows_with_what_is_stored_and_shrinks_with_what_is_pruned(store: Store) -> None:
    before = store.size()
    publish(store, job(1, minions=(WEB1,)))
    commit(store, ret(job(1), WEB1, body=b"x" * 1_000_000))
    assert store.size() - before >= 990_000
    with store.write() as tx:
        tx.prune_oldest(1)
    assert store.size() - before < 100_000
