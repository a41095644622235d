"""What an operator types, and what comes back."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time

import pytest
import yaml

from tests.e2e.fleet import Fleet, wait_until, write_config

pytestmark = pytest.mark.e2e

AWAY = "away"


@pytest.fixture(scope="module")
def with_one_away(shared: Fleet) -> Fleet:
    """The shared fleet with one more minion, which has been there and has gone."""
    shared.join(AWAY)
    shared.daemons[AWAY].stop()
    wait_until(lambda: AWAY not in shared.up(), "it is away")
    return shared


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no dpkg on this machine")
def test_list_installed_equals_what_dpkg_says(shared: Fleet) -> None:
    columns = "${Package}\t${Architecture}\t${Version}\t${db:Status-Abbrev}\n"
    lines = subprocess.check_output(["dpkg-query", "-W", "-f", columns], text=True).splitlines()
    native = subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()
    expected = {}
    for package, arch, version, status in (line.split("\t") for line in lines):
        if status[1] == "i":
            expected[package if arch in (native, "all") else f"{package}:{arch}"] = version
    said = shared.cli("a,b", "-L", "pkg.list_installed", "--out", "json")
    assert said.code == 0, said.err
    assert said.json() == {"a": expected, "b": expected}


def test_a_regular_expression_is_matched_against_the_whole_id(shared: Fleet) -> None:
    assert shared.cli("-E", "a|x", "test.ping", "--out", "json").json() == {"a": True}


def test_a_glob_matches_the_minions_that_it_should(shared: Fleet) -> None:
    assert shared.cli("[bc]", "test.ping", "--out", "json").json() == {"b": True}


def test_a_list_names_the_target_that_nobody_has(shared: Fleet) -> None:
    said = shared.cli("-L", "a,nobody", "test.ping", "--out", "json")
    assert (said.code, said.json()) == (5, {"a": True})
    assert "nobody: no accepted minion has this id" in said.err


@pytest.mark.parametrize("words", [("-E", "a(", "test.ping"), ("a", "ping"), ("a", "test.ping", "--out", "xml")])
def test_a_command_line_that_makes_no_sense_exits_with_2_and_one_sentence(shared: Fleet, words: tuple[str, ...]) -> None:
    before = shared.jobs_published()
    said = shared.cli(*words)
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1, said.err
    assert shared.jobs_published() == before


def test_a_target_that_matches_nobody_exits_with_3_and_publishes_nothing(shared: Fleet) -> None:
    before = shared.jobs_published()
    said = shared.cli("web*", "test.ping")
    assert (said.code, said.out) == (3, "")
    assert "web*" in said.err
    assert shared.jobs_published() == before


def test_an_unknown_function_is_refused_with_the_nearest_name_and_not_published(shared: Fleet) -> None:
    before = shared.jobs_published()
    said = shared.cli("*", "test.pign")
    assert (said.code, said.out) == (2, "")
    assert "did you mean test.ping?" in said.err
    assert len(said.err.splitlines()) == 1, said.err
    assert shared.jobs_published() == before


def test_a_function_that_raises_exits_with_4_and_shows_the_exception(shared: Fleet) -> None:
    said = shared.cli("a", "test.exception", "message=broken on purpose")
    assert said.code == 4
    assert "broken on purpose" in said.out
    assert "a: failed with retcode 1" in said.err


def test_wrong_arguments_fail_on_the_minion_with_a_sentence(shared: Fleet) -> None:
    said = shared.cli("a", "test.ping", "surplus", "--out", "json")
    assert said.code == 4
    assert "invalid arguments to test.ping" in said.json()["a"]


def test_a_minion_that_is_away_exits_with_5_and_says_when_it_was_last_seen(with_one_away: Fleet) -> None:
    said = with_one_away.cli(f"a,{AWAY}", "-L", "test.ping", "--out", "json", "-t", "0.2")
    assert (said.code, said.json()) == (5, {"a": True})
    assert re.search(rf"^{AWAY}: not connected \(last seen .* ago\)$", said.err, re.M), said.err


def test_a_job_for_a_minion_that_is_away_runs_when_it_comes_back(with_one_away: Fleet) -> None:
    jid = with_one_away.publish(AWAY, "test.echo", "later")
    assert with_one_away.states(jid) == {AWAY: "queued"}
    with_one_away.restart_minion(AWAY)
    with_one_away.wait_state(jid, AWAY, "returned")
    with_one_away.daemons[AWAY].stop()
    wait_until(lambda: AWAY not in with_one_away.up(), "it is away again")


def test_a_job_that_cannot_be_delivered_in_time_expires_and_never_runs(with_one_away: Fleet) -> None:
    jid = with_one_away.publish(AWAY, "test.echo", "too late", "--deliver-by", "0.5")
    with_one_away.wait_state(jid, AWAY, "expired")


def test_a_master_that_is_not_there_exits_with_7(shared: Fleet) -> None:
    write_config(shared.folder / "absent", "master", {"root_dir": str(shared.folder / "absent/root")})
    said = shared.cli("*", "test.ping", master="absent")
    assert (said.code, said.out) == (7, "")
    assert "is saltlite-master running?" in said.err
    assert len(said.err.splitlines()) == 1, said.err


def test_interrupting_the_command_line_leaves_the_job_running(shared: Fleet) -> None:
    with shared.start_cli("a", "test.sleep", "1.5") as waiting:
        jid = next(iter(wait_until(lambda: shared.running_jobs("a"), "the job runs")))
        waiting.send_signal(signal.SIGINT)
        _, err = waiting.communicate(timeout=10)
    assert waiting.returncode == 130
    assert f"job {jid} goes on" in err
    assert shared.wait_state(jid, "a", "returned", "cancelled", "interrupted") == "returned"


def test_async_prints_the_jid_and_does_not_wait(shared: Fleet) -> None:
    began = time.monotonic()
    said = shared.cli("--async", "a", "test.sleep", "2")
    assert time.monotonic() - began < 2
    jid = re.fullmatch(r"Executed command with job ID: (\d{20})\n", said.out)
    assert jid, said
    assert shared.wait_state(jid[1], "a", "returned") == "returned"


def test_json_and_yaml_carry_the_same_return(shared: Fleet) -> None:
    words = ("a", "test.kwarg", "x=[2, null]", "y=ü ☃", "z=-1.5")
    expected = {"a": {"x": [2, None], "y": "ü ☃", "z": -1.5}}
    as_json = shared.cli(*words, "--out", "json").json()["a"]
    as_yaml = yaml.safe_load(shared.cli(*words, "--out", "yaml").out)["a"]
    assert {name: as_json[name] for name in "xyz"} == expected["a"]
    assert {name: as_yaml[name] for name in "xyz"} == expected["a"]


def test_words_behind_two_dashes_arrive_as_arguments_whatever_they_look_like(shared: Fleet) -> None:
    words = ["--out", "-5", "'quoted' \"double\"", "", "true", "{'k': [1]}"]
    said = shared.cli("--out", "json", "a", "test.arg", "--", *words)
    assert said.code == 0, said.err
    assert said.json()["a"]["args"] == ["--out", -5, "'quoted' \"double\"", "", True, {"k": [1]}]
