"""Which waiting process a job gets, how long processes wait, and which jobs are reported as running."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from saltlite.minion.jobs import process_pool
from saltlite.minion.jobs.job_process import JobProcess, JobSpec, RunningNotes
from saltlite.minion.jobs.job_server import RUNNING_S, StateReports
from saltlite.minion.jobs.process_pool import (
    BACK_S,
    FORK_SERVER_IDLE_S,
    FORK_SERVER_SOON_S,
    IDLE_S,
    SPARES_IDLE_S,
    SPARES_MAX,
    PreforkPool,
)
from saltlite.model.job import CLAIMED, TargetState

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

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.call_later(0.0, callback)

    def call_at(self, when: float, callback: Callable[[], None]) -> None:
        self._later.append((when, callback))

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


class Server:
    """A fork server, as far as the pool sees it."""

    pid = 0
    is_ready = True

    def __init__(self, loader: object) -> None:
        self.loader = loader
        self.forks = 0
        self.closed = False
        self.ahead: list[str] = []
        self.fails = False

    def fork(self, count: int) -> list[Waiting]:
        if self.fails:
            raise TimeoutError
        self.forks += count
        return [Waiting(self.loader) for _ in range(count)]  # with the modules that it was started with

    def load_ahead(self, module: str) -> None:
        self.ahead.append(module)

    def close(self) -> None:
        self.closed = True


class Site:
    """A pool over processes that do nothing. It is the pool's context, too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        self._loader: Any = object()
        self.made: list[Waiting] = []
        self.servers: list[Server] = []
        self.killed: list[int] = []
        monkeypatch.setattr(process_pool, "fork_waiting", lambda _context: self.make())
        monkeypatch.setattr(process_pool, "start_fork_server", lambda _context: self._start())
        monkeypatch.setattr("os.kill", lambda pid, _signum: self.killed.append(pid))
        self.pool = PreforkPool(cast("Any", self.clock), cast("Any", self), lambda _one: None, lambda _one: None)

    def loader(self) -> Any:
        return self._loader

    last_loader = loader

    def change_loader(self) -> None:
        self._loader = object()

    def make(self) -> Waiting:
        self.made.append(Waiting(self._loader))
        return self.made[-1]

    def _start(self) -> Server:
        self.servers.append(Server(self._loader))
        return self.servers[-1]

    def run(self, *, reusable: bool = True) -> JobProcess:
        """A job whose process is unchanged afterwards."""
        process = self.pool.take(reusable=reusable)
        self.pool.began(process, "test")
        self.clock.pass_(0.0)
        if reusable:
            self.pool.give_back(process)
        return process


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def test_a_reusable_job_gets_the_process_of_the_last_one(site: Site) -> None:
    assert site.run() is site.run()
    assert len(site.made) == 1


def test_another_job_gets_a_process_that_had_none(site: Site) -> None:
    used = site.run()
    assert site.run(reusable=False) is not used
    assert site.run() is used


def test_a_process_with_an_old_loader_runs_no_other_job(site: Site) -> None:
    process = site.pool.take(reusable=True)
    site.change_loader()
    site.pool.give_back(process)
    assert site.made[0].closed
    assert site.run() is not process


def test_no_more_than_the_maximum_wait(site: Site) -> None:
    processes = [site.pool.take(reusable=True) for _ in range(SPARES_MAX + 2)]
    for process in processes:
        site.pool.give_back(process)
    assert [one.closed for one in site.made] == [False] * SPARES_MAX + [True] * 2


def test_processes_are_released_when_no_job_came_for_a_while_and_not_while_jobs_come(site: Site) -> None:
    for process in [site.pool.take(reusable=True) for _ in range(4)]:
        site.pool.give_back(process)
    for _ in range(10):
        site.clock.pass_(SPARES_IDLE_S / 2)
        site.run()
    assert not any(one.closed for one in site.made)
    site.clock.pass_(SPARES_IDLE_S)
    site.clock.pass_(SPARES_IDLE_S)
    assert sum(not one.closed for one in site.made) == 1


def test_no_process_waits_before_the_first_job_and_long_after_the_last_one(site: Site) -> None:
    assert site.made == []
    site.run()
    for _ in range(int(IDLE_S / SPARES_IDLE_S) + 1):
        site.clock.pass_(SPARES_IDLE_S)
    assert [one.closed for one in site.made] == [True]


def test_while_a_reusable_process_is_busy_for_long_another_one_waits(site: Site) -> None:
    site.pool.began(site.pool.take(reusable=True), "test")
    site.clock.pass_(BACK_S / 2)
    assert len(site.made) == 1
    site.clock.pass_(BACK_S)
    assert len(site.made) == 2


def test_a_second_job_soon_that_needs_its_own_process_starts_the_fork_server_which_forks_from_then_on(
    site: Site,
) -> None:
    site.run(reusable=False)
    assert site.servers == []
    site.run(reusable=False)
    (server,) = site.servers
    for _ in range(20):
        site.run(reusable=False)
    assert server.forks >= 15
    assert set(server.ahead) == {"test"}


def test_one_job_in_a_while_needs_no_fork_server(site: Site) -> None:
    for _ in range(5):
        site.run(reusable=False)
        site.clock.pass_(FORK_SERVER_SOON_S + 1)
    assert site.servers == []


def test_the_fork_server_ends_when_no_job_needs_it_any_more(site: Site) -> None:
    for _ in range(3):
        site.run(reusable=False)
    for _ in range(int(FORK_SERVER_IDLE_S / SPARES_IDLE_S) + 1):
        site.clock.pass_(SPARES_IDLE_S)
        site.run()
    assert [one.closed for one in site.servers] == [True]


def test_a_fork_server_with_an_old_loader_forks_no_more(site: Site) -> None:
    for _ in range(3):
        site.run(reusable=False)
    site.change_loader()
    for _ in range(10):
        assert site.run(reusable=False).loader is site.loader()
    assert [one.closed for one in site.servers] == [True, False]


def test_a_fork_server_that_does_not_answer_is_killed_and_the_minion_forks(site: Site) -> None:
    for _ in range(3):
        site.run(reusable=False)
    site.servers[0].fails = True
    for _ in range(10):
        site.run(reusable=False)
    assert site.killed == [0]
    assert site.servers[0].closed


@pytest.mark.parametrize("claimed", [False, True])
def test_the_process_of_a_job_that_is_being_signalled_is_not_reused(tmp_path: Path, *, claimed: bool) -> None:
    notes = RunningNotes(str(tmp_path))
    notes.note(JobSpec(JID, [("test.ping", [], {})], "root"), 4000, 1.0)
    if claimed:
        (tmp_path / JID).rename(tmp_path / (JID + CLAIMED))
    assert notes.forget(JID) is not claimed
    assert list(tmp_path.iterdir()) == []


def test_a_note_that_cannot_be_deleted_does_not_end_the_job_server(tmp_path: Path) -> None:
    notes = RunningNotes(str(tmp_path))
    notes.note(JobSpec(JID, [("test.ping", [], {})], "root"), 4000, 1.0)
    (tmp_path / JID).unlink()
    (tmp_path / JID).mkdir()  # unlink(2) fails
    assert not notes.forget(JID)


def test_a_job_without_a_note_is_not_being_signalled(tmp_path: Path) -> None:
    assert RunningNotes(str(tmp_path)).forget(JID)


def test_notes_of_an_earlier_job_server_are_deleted_when_their_jobs_end(tmp_path: Path) -> None:
    for name in (JID, JID + CLAIMED, "20260131235959123457"):
        (tmp_path / name).write_text("{}")
    notes = RunningNotes(str(tmp_path))
    notes.only([JID])
    assert [path.name for path in tmp_path.iterdir()] == [JID]
    assert notes.forget(JID)
    assert list(tmp_path.iterdir()) == []


def test_only_jobs_that_have_run_for_a_while_are_reported_as_running() -> None:
    clock = Clock()
    told: list[str] = []
    noted: list[str] = []
    states = StateReports(cast("Any", clock), lambda message: told.append(message["jid"]), noted.append)
    states.report("long", TargetState.RUNNING, "")
    clock.pass_(RUNNING_S * 0.75)
    states.report("short", TargetState.RUNNING, "")
    states.report("later", TargetState.RUNNING, "")
    clock.pass_(RUNNING_S * 0.5)
    assert told == noted == ["long"]
    states.drop_running("short")
    clock.pass_(RUNNING_S * 0.5)
    assert told == noted == ["long", "later"]
    states.report("long", TargetState.LOST, "gone")
    assert told == ["long", "later", "long"]
