"""Batches, as an operator uses them: -b, --batch-wait, --failhard, on real daemons."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import Fleet, done_once

pytestmark = pytest.mark.e2e
NAMES = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with_fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        with_fleet.start_master()
        with_fleet.join(*NAMES)
        yield with_fleet
    finally:
        with_fleet.close()


def spans(trace: Path) -> list[tuple[float, float]]:
    """When each function was entered and left, from what they wrote down themselves."""
    return sorted(tuple(map(float, line.split()[:2])) for line in trace.read_text().splitlines())  # type: ignore[misc]


SPAN = "import time; b = time.time(); time.sleep(0.3); open({!r}, 'a').write('%f %f\\n' % (b, time.time()))"


def test_no_more_than_the_size_run_at_once_and_all_run(fleet: Fleet, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    said = fleet.cli("-b", "2", "--out", "json", "*", "cmd.run", f'python3 -c "{SPAN.format(str(trace))}"')
    assert (said.code, sorted(said.json())) == (0, list(NAMES)), said
    at = spans(trace)
    assert len(at) == len(NAMES)
    most = max(sum(begun <= other < ended for begun, ended in at) for other, _ in at)
    assert most == 2


def test_a_pause_follows_each_minion(fleet: Fleet, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = f'python3 -c "{SPAN.format(str(trace))}"'
    said = fleet.cli("-b", "50%", "--batch-wait", "1s", "-L", "a,b", "--out", "json", "cmd.run", command)
    assert said.code == 0, said
    (first, second) = spans(trace)
    assert second[0] - first[1] >= 0.9


def test_failhard_ends_the_batch_and_says_whom_it_left_out(fleet: Fleet) -> None:
    said = fleet.cli("-b", "1", "--failhard", "--out", "json", "*", "test.retcode", "3")
    assert said.code == 4, said
    assert list(said.json()) == ["a"]
    for name in NAMES[1:]:
        assert f"{name}: the batch ended when a failed (--failhard)" in said.err


def test_a_batch_goes_on_when_the_master_was_killed_in_the_middle(fleet: Fleet) -> None:
    jid = fleet.publish("*", "test.sleep", "0.5", "--async", "-b", "1")
    fleet.wait_state(jid, "b", "queued", "received", "running")
    fleet.daemons["master"].kill_whole()
    fleet.restart_master()
    for name in NAMES:
        assert fleet.wait_state(jid, name, "returned", "lost", "expired") == "returned"
    # The store knows the results of a job before every minion has come back: two were enough for the batch.
    fleet.wait_up(*NAMES)


def test_the_targets_that_begin_together_are_named(fleet: Fleet) -> None:
    """Among the returns where a person reads them, on stderr where a program does."""
    said = fleet.cli("--out=txt", "-b 50%", "*", "test.ping")
    assert (said.code, said.err) == (0, "")
    begun = [ast.literal_eval(line[17:]) for line in said.out.splitlines() if line.startswith("Executing run on ")]
    assert begun[0] == ["a", "b"]
    assert sorted(itertools.chain(*begun)) == list(NAMES)
    assert sorted(line for line in said.out.splitlines() if ": " in line) == [f"{name}: True" for name in NAMES]
    said = fleet.cli("--out=json", "--batch-size=4", "*", "test.ping")
    assert (said.json(), said.err) == (dict.fromkeys(NAMES, True), f"Executing run on {list(NAMES)}\n")
    assert "Executing" not in fleet.cli("-q", "--out=txt", "-b4", "*", "test.ping").out


def test_a_job_for_many_becomes_a_batch(fleet: Fleet) -> None:
    limit = ("--batch-safe-limit=4", "--batch-safe-size", "2", "--out=txt")
    said = fleet.cli(*limit, "*", "test.ping")
    assert said.code == 0
    assert said.out.startswith("\nNOTICE: Too many minions targeted, switching to batch execution.\n")
    assert "Executing run on ['a', 'b']" in said.out
    assert "Executing" not in fleet.cli(*limit, "-L", "a,b,c", "test.ping").out
    assert fleet.cli(*limit, "zzz", "test.ping").code == 3
    said = fleet.cli("--batch-safe-size=2", "*", "test.ping")
    assert (said.code, said.err) == (2, "saltlite: --batch-safe-size needs --batch-safe-limit\n")


def test_a_batch_ends_with_the_return_code_of_its_function_on_demand(fleet: Fleet) -> None:
    assert fleet.cli("-b 1", "--failhard", "*", "test.retcode", "23").code == 4
    assert fleet.cli("-b 1", "--failhard", "--retcode-passthrough", "*", "test.retcode", "23").code == 23
    words = ("test.ping,test.retcode", "-b 1", "--", ",23")
    assert fleet.cli("--retcode-passthrough", "*", *words).code == 23


def test_the_job_id_of_a_batch_is_printed(fleet: Fleet) -> None:
    said = fleet.cli("--async", "-b", "2", "*", "test.ping")
    before, _, jid = said.out.strip().rpartition(" ")
    assert (said.code, before) == (0, "Executed batch command with job ID:")
    for name in NAMES:
        fleet.wait_state(jid, name, "returned")


def runner(fleet: Fleet, *words: str) -> Any:
    """What a runner returns."""
    return fleet.cli("runner", "--out=json", *words).json()


def test_a_batch_is_seen_and_ended_while_it_goes_on(fleet: Fleet, tmp_path: Path) -> None:
    """What runs is let go on, as by Salt's runner, or killed on demand."""
    go = tmp_path / "go"
    jid = fleet.publish("*", "cmd.run", done_once(go), "--async", "-b", "1")
    fleet.wait_state(jid, "a", "running")
    (active,) = [row for row in runner(fleet, "batch.list_active") if row["jid"] == jid]
    counts = {name: active[name] for name in ("total", "completed", "active", "pending", "failed", "batch_size")}
    assert counts == {"total": 4, "completed": 0, "active": 1, "pending": 3, "failed": 0, "batch_size": 1}
    assert (active["fun"], active["tgt"], active["halted"], active["driver"]) == ("cmd.run", "*", False, "master")
    assert runner(fleet, "batch.stop", jid) is True
    go.touch()
    assert fleet.wait_state(jid, "a", "returned", "cancelled") == "returned"
    ended = runner(fleet, "batch.status", jid)
    assert (ended["completed"], ended["pending"], ended["halted"]) == (1, 0, True)
    assert ended["halted_reason"].startswith("the batch was ended by ")
    assert runner(fleet, "batch.stop", jid) is False
    assert jid not in [row["jid"] for row in runner(fleet, "batch.list_active")]


def test_what_runs_is_killed_with_its_batch_on_demand(fleet: Fleet) -> None:
    jid = fleet.publish("*", "test.sleep", "30", "--async", "-b", "1")
    fleet.wait_state(jid, "a", "running")
    assert runner(fleet, "batch.stop", jid, "kill=True") is True
    assert fleet.wait_state(jid, "a", "returned", "cancelled") == "cancelled"


def test_what_is_not_a_batch_has_no_status(fleet: Fleet) -> None:
    jid = fleet.publish("a", "test.ping")
    for unknown in (jid, "20200101000000000000", "x"):
        assert runner(fleet, "batch.status", unknown) is None
        assert runner(fleet, "batch.stop", unknown) is False


def test_the_command_line_ends_a_batch_without_a_kill(fleet: Fleet, tmp_path: Path) -> None:
    go = tmp_path / "go"
    jid = fleet.publish("*", "cmd.run", done_once(go), "--async", "-b", "1")
    fleet.wait_state(jid, "a", "running")
    assert fleet.cli("job", "kill", "--planned", "--out=json", jid).json()["cancelled"] == ["b", "c", "d"]
    go.touch()
    assert fleet.wait_state(jid, "a", "returned", "cancelled") == "returned"
    said = fleet.cli("job", "kill", "--planned", jid)
    assert (said.code, said.err) == (
        3,
        f"saltlite: job {jid} has no target that waits for its turn: there is nothing to kill\n",
    )
