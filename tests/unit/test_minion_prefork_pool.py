"""Which waiting process a job gets, and how long processes wait."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from saltlite.minion.jobs.job_process import SPARES_IDLE_S, SPARES_MAX, JobProcess, JobSpec, PreforkPool
from saltlite.minion.jobs.job_server import RunningNotes
from saltlite.model.job import CLAIMED

JID = "20260131235959123456"


class Clock:
    """A reactor whose time a test moves."""

    def __init__(self) -> None:
        self._now = 100.0
        self._later: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self._later.append((self._now + seconds, callback))

    def pass_(self, seconds: float) -> None:
        """Move the time, and make the calls that are due."""
        self._now += seconds
        due = [one for one in self._later if one[0] <= self._now]
        self._later = [one for one in self._later if one[0] > self._now]
        for _at, callback in due:
            callback()


class Waiting:
    """A process, as far as the pool sees it."""

    def __init__(self, loader: object) -> None:
        self.loader = loader
        self.reusable = False
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def load_ahead(self, module: str) -> None:
        pass


class Site:
    """A pool over processes that do nothing."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.loader: Any = object()
        self.made: list[Waiting] = []
        self.pool = PreforkPool(cast("Any", self.clock), self._make, lambda: self.loader)

    def _make(self) -> JobProcess:
        self.made.append(Waiting(self.loader))
        return cast("JobProcess", self.made[-1])

    def run(self, *, reusable: bool = True) -> JobProcess:
        """A job whose process is unchanged afterwards."""
        process = self.pool.take(reusable=reusable)
        if reusable:
            self.pool.give_back(process)
        return process


def test_a_reusable_job_gets_the_process_of_the_last_one() -> None:
    site = Site()
    assert site.run() is site.run()
    assert len(site.made) == 1


def test_another_job_gets_a_process_that_had_none() -> None:
    site = Site()
    used = site.run()
    assert site.run(reusable=False) is not used
    assert site.run() is used


def test_a_process_with_an_old_loader_runs_no_other_job() -> None:
    site = Site()
    process = site.pool.take(reusable=True)
    site.loader = object()
    site.pool.give_back(process)
    assert site.made[0].closed
    assert site.run() is not process


def test_no_more_than_the_maximum_wait() -> None:
    site = Site()
    processes = [site.pool.take(reusable=True) for _ in range(SPARES_MAX + 2)]
    for process in processes:
        site.pool.give_back(process)
    assert [one.closed for one in site.made] == [False] * SPARES_MAX + [True] * 2


def test_processes_are_released_when_no_job_came_for_a_while_and_not_while_jobs_come() -> None:
    site = Site()
    for process in [site.pool.take(reusable=True) for _ in range(4)]:
        site.pool.give_back(process)
    for _ in range(10):
        site.clock.pass_(SPARES_IDLE_S / 2)
        site.run()
    assert not any(one.closed for one in site.made)
    site.clock.pass_(SPARES_IDLE_S)
    site.clock.pass_(SPARES_IDLE_S)
    assert sum(not one.closed for one in site.made) == 1


@pytest.mark.parametrize("claimed", [False, True])
def test_the_process_of_a_job_that_is_being_signalled_is_not_reused(tmp_path: Path, *, claimed: bool) -> None:
    notes = RunningNotes(str(tmp_path))
    notes.note(JobSpec(JID, [("test.ping", [], {})], "root"), 4000, 1.0)
    if claimed:
        (tmp_path / JID).rename(tmp_path / (JID + CLAIMED))
    assert notes.forget(JID) is not claimed
    assert list(tmp_path.iterdir()) == []


def test_a_job_without_a_note_is_not_being_signalled(tmp_path: Path) -> None:
    assert RunningNotes(str(tmp_path)).forget(JID)
