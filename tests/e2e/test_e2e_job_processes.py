"""Which process a job runs in: that of an earlier one when that proves to be unchanged, a new one otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fleet import Fleet, alive, wait_until

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
    assert len({first, *later}) <= 2  # the second is the one that was forked in advance


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
