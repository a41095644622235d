"""kill -9 of every process, one at a time and all at once: what was acknowledged is kept, and nothing runs twice."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from saltlite.model.ids import MinionId, parse_jid
from tests.support.fleet import Daemon, Fleet, alive, wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    """A file that each run of a job adds a line to."""
    return tmp_path / "marks"


@pytest.fixture
def ready(fleet: Fleet) -> Fleet:
    """A master with the minion `m`, up."""
    fleet.start_master()
    fleet.join("m")
    return fleet


def start_job(fleet: Fleet, marks: Path, seconds: float) -> str:
    """A job on `m` that leaves a mark, sleeps and prints `done`; it runs when this returns."""
    jid = fleet.publish("m", "cmd.run", f"echo here >> {marks}; sleep {seconds}; echo done")
    fleet.wait_state(jid, "m", "running")
    return jid


def kill_dead(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not alive(pid), f"{pid} is gone")


def result_of(fleet: Fleet, jid: str) -> tuple[str, bytes]:
    """State and encoded return of `m`, and that there is exactly one event about it."""
    fleet.wait_state(jid, "m", "returned", "interrupted", "cancelled", "timed_out")
    with fleet.store() as store:
        (row,) = store.returns(parse_jid(jid))
        events = [event.tag for event in store.events(0, 10**6) if event.tag == f"salt/job/{jid}/ret/m"]
        assert row.id == MinionId("m")
        assert len(events) == 1
        return str(row.state), row.body


def test_twenty_jobs_survive_the_death_of_an_mworker(shared: Fleet) -> None:
    before = shared.jobs_published()
    master = shared.daemons["master"]
    pid = master.child("MWorker-0")

    def one(number: int) -> dict[str, Any]:
        with shared.client() as client:
            if number == 5:
                os.kill(pid, signal.SIGKILL)
            return client.cmd("*", "test.echo", [number])

    with ThreadPoolExecutor(4) as pool:
        returns = list(pool.map(one, range(20)))

    assert returns == [{"a": number, "b": number} for number in range(20)]
    assert shared.jobs_published() - before == 20
    assert master.child("MWorker-0") != pid


def test_minions_come_back_after_the_link_died_and_the_job_goes_on(ready: Fleet, marks: Path) -> None:
    jid = start_job(ready, marks, 5)
    master = ready.daemons["master"]
    pid = master.child("master link")

    kill_dead(pid)

    assert result_of(ready, jid) == ("returned", b"\xa4done")
    assert ready.cli("--out", "json", "m", "test.ping").json() == {"m": True}
    assert marks.read_text() == "here\n"


def test_a_job_outlives_its_minions_network_process(ready: Fleet, marks: Path) -> None:
    jid = start_job(ready, marks, 1)

    kill_dead(ready.daemons["m"].child("minion link"))

    assert result_of(ready, jid) == ("returned", b"\xa4done")
    assert marks.read_text() == "here\n"


def test_a_result_arrives_once_after_the_whole_master_was_killed_and_started_again(ready: Fleet, marks: Path) -> None:
    jid = start_job(ready, marks, 3)

    ready.daemons["master"].kill_whole()
    ready.restart_master()

    assert result_of(ready, jid) == ("returned", b"\xa4done")
    assert marks.read_text() == "here\n"


def test_a_new_minion_adopts_the_job_that_its_killed_predecessor_left_running(ready: Fleet, marks: Path) -> None:
    jid = start_job(ready, marks, 5)

    ready.daemons["m"].kill_whole()
    ready.restart_minion("m")

    ready.wait_up("m")
    assert ready.states(jid) == {"m": "running"}
    assert result_of(ready, jid) == ("returned", b"\xa4done")
    assert marks.read_text() == "here\n"


def test_an_adopted_job_can_be_killed(ready: Fleet, marks: Path) -> None:
    jid = start_job(ready, marks, 1000)
    (job,) = ready.running_jobs("m").values()
    sessions = ready.daemons["m"].log().count("connection: ready")
    ready.daemons["m"].kill_whole()
    ready.restart_minion("m")
    # Not `wait_up`: for a moment the master may still count the session of the killed minion.
    ready.wait_log("m", "connection: ready", times=sessions + 1)

    assert ready.cli("job", "kill", jid).code == 0

    assert result_of(ready, jid) == ("cancelled", b"")
    wait_until(lambda: not alive(job), "the job's process is gone")


def test_a_job_killed_together_with_its_minion_is_interrupted_and_not_run_again(ready: Fleet, marks: Path) -> None:
    jid = start_job(ready, marks, 1000)
    (job,) = ready.running_jobs("m").values()
    os.killpg(job, signal.SIGSTOP)
    ready.daemons["m"].kill_whole()
    os.killpg(job, signal.SIGKILL)
    wait_until(lambda: not alive(job), "the job's process is gone")

    ready.restart_minion("m")

    assert result_of(ready, jid) == ("interrupted", b"")
    assert marks.read_text() == "here\n"


def test_a_job_whose_process_is_killed_is_interrupted(ready: Fleet, marks: Path) -> None:
    jid = start_job(ready, marks, 1000)
    (job,) = ready.running_jobs("m").values()

    os.killpg(job, signal.SIGKILL)

    assert result_of(ready, jid) == ("interrupted", b"")
    assert ready.cli("--out", "json", "m", "test.ping").json() == {"m": True}


def test_a_result_that_was_spooled_while_nobody_listened_arrives_after_both_came_back(
    ready: Fleet, marks: Path
) -> None:
    jid = start_job(ready, marks, 1)
    (job,) = ready.running_jobs("m").values()
    ready.daemons["m"].kill_whole()
    ready.daemons["master"].kill_whole()
    wait_until(lambda: not alive(job), "the job has ended alone")

    ready.restart_master()
    ready.restart_minion("m")

    assert result_of(ready, jid) == ("returned", b"\xa4done")
    assert marks.read_text() == "here\n"


def test_a_job_for_a_minion_that_is_away_runs_when_it_comes_back(ready: Fleet, marks: Path) -> None:
    ready.daemons["m"].kill_whole()
    wait_until(lambda: not ready.up(), "m is away")
    jid = ready.publish("m", "cmd.run", f"echo here >> {marks}; echo done")

    ready.restart_minion("m")

    assert result_of(ready, jid) == ("returned", b"\xa4done")
    assert marks.read_text() == "here\n"


def test_a_publish_repeated_under_its_request_id_runs_once(shared: Fleet, marks: Path) -> None:
    before = shared.jobs_published()
    request = {
        "request_id": os.urandom(16).hex(),
        "follow": False,
        "tgt": "a",
        "tgt_type": "glob",
        "calls": [["cmd.run", [f"echo here >> {marks}"], {}]],
    }
    jids = set()
    for _ in range(3):
        with shared.client() as client:
            jids.add(client.call("publish", **request)["jid"])

    (jid,) = jids
    shared.wait_state(jid, "a", "returned")
    assert shared.jobs_published() - before == 1
    assert shared.cli("a", "test.ping").code == 0
    assert marks.read_text() == "here\n"


@pytest.mark.parametrize("name", ["master", "m"])
def test_the_children_of_a_killed_daemon_end_and_it_starts_again_at_once(ready: Fleet, name: str) -> None:
    daemon = ready.daemons[name]

    os.kill(daemon.pid, signal.SIGKILL)
    daemon.ended()
    again: Daemon = ready.restart_master() if name == "master" else ready.restart_minion(name)

    # A minion has a second session then; that it is up may be said of the one that has ended.
    ready.wait_log("m", "connection: ready", times=2)
    ready.wait_up("m")
    assert again.process.poll() is None
    assert ready.cli("--out", "json", "m", "test.ping").json() == {"m": True}
