"""What becomes of the store because time passes, or because it fills."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from saltlite.master.processes.maintenance import (
    FIRST_S,
    PAUSE_S,
    PRUNE_S,
    SPACE_EVENTS,
    SPACE_FROM,
    SPACE_JOBS,
    SPACE_S,
    SPACE_TO,
    Maintenance,
)
from saltlite.master.store.database_clock import DatabaseClock
from saltlite.model.job import JobFilter
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryStore
from tests.support.store import NOW, WEB1, commit, job, publish, ret

BODY = 10_000


class Timers:
    """The reactor's timers, which a test lets ring."""

    def __init__(self) -> None:
        self._works: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, seconds: float, work: Callable[[], None]) -> None:
        self._works.append((seconds, work))

    def ring(self, seconds: float) -> None:
        due = [work for wait, work in self._works if wait == seconds]
        self._works = [(wait, work) for wait, work in self._works if wait != seconds]
        assert due, "nothing is due so often"
        for work in due:
            work()

    def go_on(self) -> int:
        """Let what pauses go on until it has ended; how often it paused."""
        pauses = 0
        while any(wait == PAUSE_S for wait, _work in self._works):
            self.ring(PAUSE_S)
            pauses += 1
        return pauses


def kept(store: MemoryStore, jobs: int, store_max: int) -> list[int]:
    """The numbers of the jobs that are left when so many, of BODY bytes each, met that limit. Job 0 is open."""
    publish(store, *(job(n, minions=(WEB1,), created_at=NOW + n) for n in range(jobs)))
    for n in range(1, jobs):
        commit(store, ret(job(n), WEB1, body=b"x" * BODY), now=NOW + n)
    timers = Timers()
    Maintenance(
        cast("Any", timers),
        store,
        ManualClock(wall=NOW),
        keep_s=1e9,
        store_max=store_max,
        link=cast("Any", None),
    )
    timers.ring(SPACE_S)
    timers.go_on()
    return sorted(n for n in range(jobs) if store.job(job(n).jid) is not None)


def test_the_oldest_ended_jobs_make_room_before_the_store_is_full() -> None:
    store = MemoryStore()
    many = 3 * SPACE_JOBS
    limit = (many - 1) * BODY
    left = kept(store, many, limit)
    assert left[0] == 0, "a job that has not ended stays, however old"
    assert left[1:] == list(range(many - len(left) + 1, many)), "the youngest stay"
    assert store.size() <= SPACE_TO * limit


def test_a_store_with_room_keeps_everything() -> None:
    limit = int(20 * BODY / SPACE_FROM) + 10 * BODY
    assert kept(MemoryStore(), 20, limit) == list(range(20))


def test_a_store_that_is_full_of_open_jobs_keeps_them() -> None:
    store = MemoryStore()
    assert kept(store, 1, 1) == [0]
    assert len(store.jobs(JobFilter(), 5)) == 1


def test_events_without_end_make_room_where_there_is_no_job_to_drop() -> None:
    store = MemoryStore()
    publish(store, job(0, minions=(WEB1,), created_at=NOW))
    with store.write() as tx:
        for _ in range(2 * SPACE_EVENTS):
            tx.put_event("salt/presence/change", {"new": ["web1"]}, NOW)
    limit = store.size()
    timers = Timers()
    Maintenance(cast("Any", timers), store, ManualClock(wall=NOW), keep_s=1e9, store_max=limit, link=cast("Any", None))
    timers.ring(SPACE_S)
    timers.go_on()
    assert store.size() <= SPACE_TO * limit
    assert store.job(job(0).jid) is not None


def test_work_may_be_due_sooner_after_a_start() -> None:
    timers, done = Timers(), []
    kept = Maintenance(cast("Any", timers), MemoryStore(), ManualClock(wall=NOW), keep_s=1e9, link=cast("Any", None))
    kept.repeat(100.0, lambda: done.append(1), first_s=2.0)
    timers.ring(2.0)
    assert done == [1]
    timers.ring(100.0)
    assert done == [1, 1]


def test_old_jobs_are_pruned_in_several_transactions_with_pauses_between_them() -> None:
    store = MemoryStore()
    jobs = [job(n, minions=(WEB1,), created_at=NOW + n) for n in range(3)]
    publish(store, *jobs)
    for one in jobs:
        commit(store, ret(one, WEB1, body=bytes(400 * 1024)), now=one.created_at)
    timers = Timers()
    Maintenance(cast("Any", timers), store, ManualClock(wall=NOW + 100), keep_s=1.0, link=cast("Any", None))
    timers.ring(FIRST_S)
    assert [store.job(one.jid) is None for one in jobs] == [True, False, False]
    assert timers.go_on() >= 3
    assert store.jobs(JobFilter(), 5) == []


@pytest.mark.parametrize(("database_s", "own_s"), [(100, -1e9), (1e9, 0)])
def test_a_job_that_is_old_by_one_of_two_clocks_is_kept(database_s: float, own_s: float) -> None:
    store, timers = MemoryStore(), Timers()
    publish(store, job(0, minions=(WEB1,), created_at=NOW))
    commit(store, ret(job(0), WEB1), now=NOW)
    database = SimpleNamespace(clock=lambda: NOW + database_s)
    clock = DatabaseClock(ManualClock(wall=NOW + own_s), cast("Any", database))
    Maintenance(cast("Any", timers), store, clock, keep_s=1.0, link=cast("Any", None))
    timers.ring(FIRST_S)
    timers.go_on()
    assert store.job(job(0).jid) is not None


def test_old_jobs_are_pruned_within_a_minute_of_the_start_and_then_at_intervals() -> None:
    store, clock, timers = MemoryStore(), ManualClock(wall=NOW + 100), Timers()
    publish(store, job(0, minions=(WEB1,), created_at=NOW))
    commit(store, ret(job(0), WEB1), now=NOW)
    Maintenance(cast("Any", timers), store, clock, keep_s=1.0, link=cast("Any", None))
    assert FIRST_S < 60
    timers.ring(FIRST_S)
    timers.go_on()
    assert store.job(job(0).jid) is None
    publish(store, job(1, minions=(WEB1,), created_at=NOW + 1))
    commit(store, ret(job(1), WEB1), now=NOW + 1)
    timers.ring(PRUNE_S)
    timers.go_on()
    assert store.job(job(1).jid) is None
