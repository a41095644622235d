"""Which process a job runs in: that of an earlier one when that proves to be unchanged, a new one otherwise."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.support.fleet import Fleet, alive, title, wait_until

pytestmark = pytest.mark.e2e


def pid_of_job(fleet: Fleet) -> int:
    """The process in which a job of the minion `m` ran: the parent of the shell that it started."""
    with fleet.client() as client:
        return int(client.cmd("m", "cmd.run", ["echo $PPID; :"])["m"])


def start(fleet: Fleet, command: str) -> tuple[str, int]:
    """A job that runs a command, and its process."""
    jid = fleet.publish("m", "cmd.run", command)
    fleet.wait_state(jid, "m", "running")
    wait_until(lambda: jid in fleet.running_jobs("m"), "the job is noted")
    return jid, fleet.running_jobs("m")[jid]


def test_shipped_functions_run_in_one_process_after_another(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("m")
    first = pid_of_job(fleet)
    with fleet.client() as client:
        assert client.cmd("m", "test.ping") == {"m": True}
    later = [pid_of_job(fleet) for _ in range(6)]
    # A job that comes before the process has looked at itself gets another one.
    ((_pid, jobs),) = Counter([first, *later]).most_common(1)
    assert jobs >= 3


def test_with_fresh_processes_no_job_shares_one(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("m", job_processes="fresh")
    pids = [pid_of_job(fleet) for _ in range(5)]
    assert len(set(pids)) == 5


def test_a_custom_module_gets_a_process_that_had_no_job_and_none_has_after_it(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "own/modules").mkdir(parents=True)
    (tmp_path / "own/modules/pids.py").write_text("import os\ndef own():\n    return os.getpid()\n")
    fleet.start_master()
    fleet.join("m", module_dirs=[str(tmp_path / "own")])
    shipped = pid_of_job(fleet)
    with fleet.client() as client:
        own = [client.cmd("m", "pids.own")["m"] for _ in range(3)]
    assert len({shipped, *own}) == 4
    assert pid_of_job(fleet) not in own


def test_a_job_through_an_executor_shares_no_process(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("m", module_executors=["nice", "direct_call"])
    assert len({pid_of_job(fleet) for _ in range(3)}) == 3


def test_a_job_that_leaves_a_program_behind_is_the_last_of_its_process(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("m")
    first = pid_of_job(fleet)
    with fleet.client() as client:
        client.cmd("m", "cmd.run", ["sleep 600 >/dev/null 2>&1 </dev/null & echo left"])
    assert pid_of_job(fleet) != first


def test_a_kill_ends_the_job_that_the_process_runs_now(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("m")
    before = pid_of_job(fleet)
    jid, pid = start(fleet, "sleep 60")
    assert pid == before
    assert fleet.cli("job", "kill", jid).code == 0
    assert fleet.wait_state(jid, "m", "returned", "interrupted", "cancelled") != "returned"
    assert pid_of_job(fleet) != before


def test_a_minion_that_dies_while_a_process_runs_its_second_job_loses_nothing(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    fleet.join("m")
    before = pid_of_job(fleet)
    jid, pid = start(fleet, f"sleep 4; echo once >> {tmp_path}/marks; echo done")
    assert pid == before
    fleet.daemons["m"].kill_whole()
    fleet.restart_minion("m")
    assert fleet.wait_state(jid, "m", "returned", "interrupted") == "returned"
    wait_until(lambda: not alive(pid), "the process has ended with its job")
    assert (tmp_path / "marks").read_text() == "once\n"
    assert pid_of_job(fleet) != pid


# -- The fork server, which forks the processes of jobs that share none while such jobs come

OWN = """
import os, time
def parent():
    return os.getppid()
def rest(seconds, path):
    with open(path, "a") as file:
        file.write("once\\n")
    time.sleep(seconds)
    return "rested"
"""


def with_fork_server(fleet: Fleet, folder: Path) -> int:
    """Start a fleet whose minion has a custom module and a fork server; the pid of that."""
    (folder / "own/modules").mkdir(parents=True)
    (folder / "own/modules/own.py").write_text(OWN)
    fleet.start_master()
    fleet.join("m", module_dirs=[str(folder / "own")])
    with fleet.client() as client:
        wait_until(lambda: client.cmd("m", "own.parent")["m"] != fleet.daemons["m"].pid, "there is a fork server")
        return int(client.cmd("m", "own.parent")["m"])


def test_custom_modules_get_their_processes_from_the_fork_server(fleet: Fleet, tmp_path: Path) -> None:
    server = with_fork_server(fleet, tmp_path)
    assert title(server) == "job fork server"
    with fleet.client() as client:
        assert [client.cmd("m", "own.parent")["m"] for _ in range(3)] == [server] * 3
    assert fleet.daemons["m"].stop() == 0
    wait_until(lambda: not alive(server), "it has ended with the minion")


def test_a_changed_module_is_used_at_once(fleet: Fleet, tmp_path: Path) -> None:
    server = with_fork_server(fleet, tmp_path)
    (tmp_path / "own/modules/own.py").write_text(OWN.replace("return os.getppid()", "return 'changed'"))
    with fleet.client() as client:
        assert client.cmd("m", "own.parent")["m"] == "changed"
    wait_until(lambda: not alive(server), "it had loaded the index of before")


def test_a_minion_whose_fork_server_dies_goes_on(fleet: Fleet, tmp_path: Path) -> None:
    server = with_fork_server(fleet, tmp_path)
    os.kill(server, signal.SIGKILL)
    with fleet.client() as client:
        assert all(client.cmd("m", "own.parent")["m"] != server for _ in range(12))


def test_a_job_of_the_fork_server_is_killed_and_the_reason_is_known(fleet: Fleet, tmp_path: Path) -> None:
    with_fork_server(fleet, tmp_path)
    jid = fleet.publish("m", "own.rest", "60", str(tmp_path / "marks"))
    wait_until(lambda: jid in fleet.running_jobs("m"), "the job is noted")
    os.kill(fleet.running_jobs("m")[jid], signal.SIGKILL)
    assert fleet.wait_state(jid, "m", "returned", "interrupted") == "interrupted"
    assert "killed by SIGKILL" in fleet.cli("job", "show", jid).out


def test_a_job_of_the_fork_server_outlives_the_minion_and_is_adopted(fleet: Fleet, tmp_path: Path) -> None:
    with_fork_server(fleet, tmp_path)
    jid = fleet.publish("m", "own.rest", "4", str(tmp_path / "marks"))
    wait_until(lambda: jid in fleet.running_jobs("m"), "the job is noted")
    fleet.daemons["m"].kill_whole()
    fleet.restart_minion("m")
    assert fleet.wait_state(jid, "m", "returned", "interrupted") == "returned"
    assert (tmp_path / "marks").read_text() == "once\n"
