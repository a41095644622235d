"""What the command line does while a job runs: follow it, be interrupted, or not wait at all."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest

from tests.support.fleet import Fleet, alive, children_of, wait_until
from tests.support.terminal import AtTerminal

pytestmark = pytest.mark.e2e


def running_jid(fleet: Fleet, minion: str) -> str:
    """The jid of the one job that this minion runs, as soon as the master knows."""
    jid = next(iter(wait_until(lambda: fleet.running_jobs(minion), "the job runs")))
    fleet.wait_state(jid, minion, "running")
    return jid


def end(fleet: Fleet, jid: str, *minions: str) -> None:
    """Leave the fleet as it was."""
    assert fleet.cli("job", "kill", jid).code == 0
    for minion in minions:
        fleet.wait_state(jid, minion, "cancelled")


def test_interrupting_the_command_line_leaves_the_job_running(shared: Fleet) -> None:
    following = shared.start_cli("a", "test.sleep", "30")
    jid = running_jid(shared, "a")

    following.send_signal(signal.SIGINT)

    _, err = following.communicate(timeout=60)
    assert following.returncode == 130
    assert f"saltlite job kill {jid}" in err
    assert "Traceback" not in err
    assert jid in shared.running_jobs("a")
    end(shared, jid, "a")


def test_async_prints_the_jid_and_does_not_wait(shared: Fleet) -> None:
    said = shared.cli("--async", "[ab]", "test.sleep", "30")

    found = re.search(r"\b\d{20}\b", said.out)
    assert said.code == 0
    assert found is not None, said
    states = shared.states(found[0])
    assert set(states) == {"a", "b"}
    assert "returned" not in states.values()
    end(shared, found[0], "a", "b")


def test_killing_a_job_that_has_ended_is_refused_with_a_sentence(shared: Fleet) -> None:
    jid = shared.publish("a", "test.ping")
    shared.wait_state(jid, "a", "returned")

    said = shared.cli("job", "kill", jid)

    assert (said.code, said.out) == (3, "")
    assert "nothing to kill" in said.err


def test_a_minion_that_is_away_is_named_with_its_reason_and_not_waited_for(fleet: Fleet) -> None:
    patience_s = 120
    fleet.start_master(timeout=patience_s)
    fleet.join("a", "b", "c")
    fleet.daemons["b"].stop()
    wait_until(lambda: fleet.absences() == {"b": "the minion was stopped"}, "b is away")
    began = time.monotonic()

    said = fleet.cli("*", "test.ping", "--out", "json")

    assert time.monotonic() - began < patience_s / 2
    assert (said.code, said.json()) == (5, {"a": True, "c": True})
    why = r"b: not connected: the minion was stopped \(last seen \S+ ago\); the job waits for it until [-0-9: ]+"
    assert re.match(why, said.err), said
    assert re.search(r"^b +away .* the minion was stopped$", fleet.cli("status").out, re.MULTILINE)

    fleet.daemons["c"].kill_whole()
    wait_until(lambda: "c" in fleet.absences(), "c is away")
    assert "c: not connected: its connection was lost (last seen " in fleet.cli("*", "test.ping").err


def test_with_deliver_by_a_minion_that_comes_back_runs_the_job_once(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a", "b")
    fleet.daemons["b"].stop()
    wait_until(lambda: "b" not in fleet.up(), "b is away")
    following = fleet.start_cli("*", "test.ping", "--deliver-by", "1m", "--out", "jsonl")
    lines = following.stdout
    assert lines is not None
    wait_until(lambda: '"return"' in lines.readline(), "a has returned")

    fleet.restart_minion("b")

    out, _ = following.communicate(timeout=60)
    records = [json.loads(line) for line in out.splitlines()]
    assert following.returncode == 0
    assert [record["id"] for record in records if record["type"] == "return"] == ["b"]
    assert records[-1]["summary"] == {"targeted": 2, "resources": 0, "returned": 2, "failed": 0, "missing": 0}


def test_a_delivery_time_that_passes_ends_the_wait(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a")
    fleet.daemons["a"].stop()
    wait_until(lambda: "a" not in fleet.up(), "a is away")

    said = fleet.cli("a", "test.ping", "--deliver-by", "1s")

    assert said.code == 5
    assert "a: not reached before the delivery time was over" in said.err


def test_names_that_are_no_minions_are_told_with_their_reason(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a")
    fleet.start_minion("waiting", fleet=fleet.fleet_id())
    fleet.wait_key("waiting", "pending")

    said = fleet.cli("-L", "a,waiting,nobody", "test.ping", "--out", "json-full")

    missing = said.json()["missing"]
    assert said.code == 5
    assert set(missing) == {"waiting", "nobody"}
    assert "pending" in missing["waiting"]["reason"]


def test_a_job_is_killed_from_the_keyboard_with_its_children(shared: Fleet) -> None:
    line = ("-c", str(shared.folder / "master"), "[ab]", "cmd.run", "sleep 60")
    with AtTerminal(*line) as terminal:
        terminal.wait_for("2 running")
        jid = running_jid(shared, "a")
        process = shared.running_jobs("a")[jid]
        children = wait_until(lambda: children_of(process), "the command runs")
        terminal.type("\x03")
        terminal.wait_for("[k]ill on 2 minions")
        terminal.type("k")
        assert terminal.ended() == 4
    assert "a: killed by an operator" in terminal.shown
    assert not any(alive(pid) for pid in [process, *children])


def test_several_functions_run_in_one_job(shared: Fleet) -> None:
    said = shared.cli("a", "test.ping,test.echo", ",", "hello", "--out", "json")
    assert (said.code, said.json()) == (0, {"a": {"test.ping": True, "test.echo": "hello"}})


def test_a_subset_is_so_many_of_the_target(shared: Fleet) -> None:
    said = shared.cli("*", "test.ping", "--subset", "1", "--out", "json")
    assert (said.code, len(said.json())) == (0, 1)


def test_a_file_has_the_output(shared: Fleet, tmp_path: Path) -> None:
    said = shared.cli("*", "test.ping", "--out", "json", "--out-file", str(tmp_path / "out"))
    assert (said.code, said.out) == (0, "")
    assert json.loads((tmp_path / "out").read_text()) == {"a": True, "b": True}


def test_a_dry_run_of_a_function_without_one_is_refused_and_nothing_runs(shared: Fleet) -> None:
    before = shared.jobs_published()
    said = shared.cli("*", "test.echo", "x", "--test")
    assert (said.code, shared.jobs_published()) == (6, before)
    assert "--test" in said.err


def test_a_function_that_carries_a_risk_needs_the_option_where_nobody_can_be_asked(shared: Fleet) -> None:
    before = shared.jobs_published()
    said = shared.cli("*", "pkg.remove", "no-such-package")
    assert (said.code, shared.jobs_published()) == (6, before)
    assert "--accept-risk=" in said.err
