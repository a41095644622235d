"""One job is one process group; limits, large returns, and many jobs at once."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from saltlite.client.local import JobCall
from saltlite.loader.encode import RETURN_MAX
from saltlite.model.ids import parse_jid
from tests.support.fleet import Fleet, alive, children_of, wait_until

pytestmark = pytest.mark.e2e

MIB = 1024 * 1024


def whole_group(pid: int) -> list[int]:
    """The process and all that descend from it."""
    return [pid, *(found for child in children_of(pid) for found in whole_group(child))]


def test_a_job_runs_in_a_process_group_of_its_own(shared: Fleet) -> None:
    jid = shared.publish("a", "test.sleep", "30")
    shared.wait_state(jid, "a", "running")
    pid = shared.running_jobs("a")[jid]
    assert os.getpgid(pid) == pid
    assert os.getpgid(shared.daemons["a"].pid) != pid
    shared.cli("job", "kill", jid)
    shared.wait_state(jid, "a", "cancelled")


def test_job_kill_ends_the_whole_tree_of_a_job(shared: Fleet) -> None:
    with shared.start_cli("a", "cmd.run", "sleep 1000 & sleep 1000") as waiting:
        jid = next(iter(wait_until(lambda: shared.running_jobs("a"), "the job runs")))
        pid = shared.running_jobs("a")[jid]
        tree = wait_until(lambda: whole_group(pid) if len(whole_group(pid)) >= 4 else [], "its children run")
        killed = shared.cli("job", "kill", jid)
        assert killed.code == 0, killed.err
        wait_until(lambda: not any(map(alive, tree)), "the whole tree is gone")
        _, err = waiting.communicate(timeout=60)
    assert waiting.returncode == 4
    assert "killed by an operator" in err
    assert shared.states(jid) == {"a": "cancelled"}


def test_a_job_that_ignores_being_asked_is_killed_all_the_same(shared: Fleet) -> None:
    jid = shared.publish("a", "cmd.run", "trap '' TERM; while :; do sleep 1; done")
    shared.wait_state(jid, "a", "running")
    pid = shared.running_jobs("a")[jid]
    tree = wait_until(lambda: whole_group(pid) if len(whole_group(pid)) >= 3 else [], "its children run")
    shared.cli("job", "kill", jid)
    wait_until(lambda: not any(map(alive, tree)), "the whole tree is gone")
    shared.wait_state(jid, "a", "cancelled")


def test_the_run_time_limit_is_enforced_on_the_minion(shared: Fleet) -> None:
    said = shared.cli("a", "cmd.run", "sleep 1000", "--run-timeout", "0.3")
    assert said.code == 4
    assert "run time limit" in said.err
    wait_until(lambda: shared.running_jobs("a") == {}, "the note of the job is gone")


def test_a_limit_of_the_minion_wins_over_a_longer_one_of_the_caller(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("impatient", run_timeout=0.3)
    said = fleet.cli("impatient", "test.sleep", "60", "--run-timeout", "50")
    assert said.code == 4
    assert "run time limit" in said.err


def test_a_job_whose_process_dies_is_interrupted_and_says_how(shared: Fleet) -> None:
    said = shared.cli("a", "probe.die")
    assert said.code == 4
    assert "SIGKILL" in said.err


def test_what_a_module_prints_goes_to_the_log_and_not_into_its_return(shared: Fleet) -> None:
    said = shared.cli("a", "probe.loud", "hear me", "--out", "json")
    assert (said.code, said.json()) == (0, {"a": True})
    shared.wait_log("a", "hear me")


def test_a_return_of_five_mebibytes_arrives_whole(shared: Fleet) -> None:
    with shared.client() as client:
        assert client.cmd("a", "probe.big", [5 * MIB]) == {"a": "x" * (5 * MIB)}


def test_a_return_beyond_the_limit_is_cut_and_says_so(shared: Fleet) -> None:
    with shared.client() as client:
        text = client.cmd("a", "probe.big", [20 * MIB])["a"]
    assert RETURN_MAX - 64 * 1024 < len(text) <= RETURN_MAX
    assert text.startswith("x" * 1000)
    assert f"of {20 * MIB} bytes are missing" in text[-300:]


def test_large_returns_of_several_minions_at_once_arrive_whole(shared: Fleet) -> None:
    with shared.client() as client:
        returns = client.cmd("[ab]", "probe.big", [9 * MIB])
    assert {minion: len(text) for minion, text in returns.items()} == {"a": 9 * MIB, "b": 9 * MIB}


def test_two_hundred_jobs_of_eight_clients_all_return(shared: Fleet) -> None:
    wrong: list[object] = []

    def run(number: int) -> None:
        with shared.client() as client:
            for index in range(25):
                text = f"{number}-{index}"
                returns = client.cmd("[ab]", "test.echo", [text], timeout=30)
                if returns != {"a": text, "b": text}:
                    wrong.append((text, returns))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_burst_waits_for_its_turn_and_no_more_run_at_once_than_configured(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    fleet.join("narrow", jobs_max=4)
    trace = tmp_path / "trace"
    most = 0
    with fleet.client() as client:
        jids = [client.publish(JobCall("narrow", "probe.enter", arg=[str(trace), 0.15])).jid for _ in range(50)]

    def done() -> bool:
        nonlocal most
        most = max(most, len(fleet.running_jobs("narrow")))
        with fleet.store() as store:
            return all(store.returns(parse_jid(jid)) for jid in jids)

    wait_until(done, "all fifty returned")
    assert len(trace.read_text().split()) == 50
    assert 1 < most <= 4


def test_results_that_were_offered_twice_are_handed_over_without_a_complaint(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a", jobs_max=16)
    minion = fleet.daemons["a"]
    with fleet.client() as client:
        jids = [client.publish(JobCall("a", "test.ping")).jid for _ in range(250)]
    for number in (50, 100, 150, 200):
        fleet.wait_state(jids[number], "a", "returned")
        old = minion.child("minion link")
        os.kill(old, signal.SIGKILL)
        wait_until(lambda: set(minion.children("minion link")) - {old}, "it is back")  # noqa: B023 - called at once
    for jid in jids:
        fleet.wait_state(jid, "a", "returned")
    assert "cannot be read" not in minion.log()
