"""Whom a target reaches, what comes back, and the exit code that a script can rely on."""

from __future__ import annotations

import json
import subprocess

import pytest

from saltlite.errors import UsageError
from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e


def installed_packages() -> dict[str, str]:
    """What dpkg says: name -> version."""
    query = ["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Version}\n"]
    lines = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split("\t") for line in lines]
    return {name: version for state, name, version in rows if state.startswith(("ii", "hi"))}


def test_list_installed_says_of_every_minion_what_dpkg_says(shared: Fleet) -> None:
    said = shared.cli("*", "pkg.list_installed", "--out", "json")
    truth = installed_packages()
    assert said.code == 0, said.err
    assert len(truth) > 50
    assert said.json() == {"a": truth, "b": truth}


@pytest.mark.parametrize(
    ("words", "reached"),
    [
        (("*",), ["a", "b"]),
        (("[ac]",), ["a"]),
        (("?",), ["a", "b"]),
        (("-E", "a|c"), ["a"]),
        (("-E", "[ab]"), ["a", "b"]),
        (("-L", "b,a"), ["a", "b"]),
        (("--list", "b"), ["b"]),
    ],
)
def test_a_target_reaches_exactly_whom_it_names(shared: Fleet, words: tuple[str, ...], reached: list[str]) -> None:
    said = shared.cli("--out", "json", *words, "test.ping")
    assert (said.code, said.json(), said.err) == (0, dict.fromkeys(reached, True), "")


def test_a_listed_name_that_nobody_has_is_named_and_the_others_answer(shared: Fleet) -> None:
    said = shared.cli("-L", "a,nobody", "test.ping", "--out", "json")
    assert (said.code, said.json()) == (5, {"a": True})
    assert said.err == "nobody: neither an accepted minion nor a resource has this name\n"


@pytest.mark.parametrize("words", [("nobody",), ("",), ("-E", "x+"), ("-L", "x,y"), ("-L", ",")])
def test_a_target_that_matches_nobody_publishes_nothing_and_is_code_3(shared: Fleet, words: tuple[str, ...]) -> None:
    before = shared.jobs_published()
    said = shared.cli(*words, "test.ping")
    assert (said.code, said.out) == (3, "")
    assert "no accepted minion and no resource matches" in said.err
    assert shared.jobs_published() == before


def test_a_function_that_raises_is_code_4_and_its_text_is_shown(shared: Fleet) -> None:
    said = shared.cli("*", "test.exception", "it broke", "--out", "json")
    assert said.code == 4
    assert all("it broke" in said.json()[minion] for minion in ("a", "b"))
    assert said.err == "a: failed with retcode 1\nb: failed with retcode 1\n"


def test_a_command_that_fails_is_code_4_and_says_its_retcode(shared: Fleet) -> None:
    said = shared.cli("a", "cmd.run", "echo out; exit 3", "--out", "json")
    assert (said.code, said.json(), said.err) == (4, {"a": "out"}, "a: failed with retcode 3\n")


def test_wrong_arguments_are_code_2_and_name_what_is_missing(shared: Fleet) -> None:
    said = shared.cli("a", "test.fib")
    assert (said.code, said.out) == (2, "")
    assert "test.fib needs 'num': test.fib(num: int)" in said.err


def test_an_away_minion_is_code_5_and_when_it_was_last_seen_is_said(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a", "b")
    fleet.daemons["b"].stop()
    wait_until(lambda: fleet.absences() == {"b": "the minion was stopped"}, "b is away")
    said = fleet.cli("*", "test.ping", "-t", "0.5", "--out", "json")
    assert (said.code, said.json()) == (5, {"a": True})
    first, second = said.err.splitlines()
    assert first.startswith("b: not connected: the minion was stopped (last seen ")
    assert "stays open for 1 of 2 minions" in second
    (jid,) = [word for word in second.split() if word.isdigit() and len(word) == 20]
    fleet.restart_minion("b")
    fleet.wait_state(jid, "b", "returned")


def test_a_job_for_an_away_minion_expires_when_its_delivery_time_is_over(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("a")
    fleet.daemons["a"].stop()
    wait_until(lambda: not fleet.up(), "a is away")
    said = fleet.cli("a", "test.ping", "--deliver-by", "200ms", "-t", "10")
    assert (said.code, said.out) == (5, "")
    assert "a: not reached before the delivery time was over" in said.err


def test_without_a_master_it_is_code_7_for_every_command(fleet: Fleet) -> None:
    fleet.start_master()
    assert fleet.daemons["master"].stop() == 0
    for words in (("*", "test.ping"), ("key", "list"), ("key", "token", "create"), ("job", "kill", "2" * 20)):
        said = fleet.cli(*words)
        assert (said.code, said.out) == (7, ""), words
        assert "is saltlite-master running?" in said.err


def test_what_is_told_about_a_job_is_the_same_in_every_format(shared: Fleet) -> None:
    said = {out: shared.cli("a", "test.arg", "1", "b=[x, 2]", "--out", out) for out in ("json", "yaml", "raw", "txt")}
    assert {one.code for one in said.values()} == {0}
    assert json.loads(said["json"].out)["a"]["args"] == [1]
    assert json.loads(said["json"].out)["a"]["kwargs"]["b"] == ["x", 2]
    assert all("__pub_user" in one.out for one in said.values())


def test_arguments_arrive_on_the_minion_as_they_were_meant(shared: Fleet) -> None:
    words = [
        "ü ☃ 'x' \"y\"",
        "-5",
        "1.5",
        "true",
        "null",
        "a: b",
        "",
        "--",
        "'1.10'",
        "line\nbreak",
        "{k: [1, two]}",
        "n=7",
    ]
    said = shared.cli("--out", "json", "a", "test.arg", "--", *words)
    assert said.code == 0, said
    returned = said.json()["a"]
    assert returned["args"] == [
        "ü ☃ 'x' \"y\"", -5, 1.5, True, None, "a: b", "", "--", "1.10", "line\nbreak", {"k": [1, "two"]},
    ]  # fmt: skip
    assert {name: value for name, value in returned["kwargs"].items() if not name.startswith("__pub_")} == {"n": 7}


def test_the_library_raises_what_the_command_line_says(shared: Fleet) -> None:
    with shared.client() as client:
        assert client.cmd(["a", "b"], "test.echo", ["hi"], tgt_type="list") == {"a": "hi", "b": "hi"}
        with pytest.raises(UsageError, match=r"did you mean test\.ping"):
            client.cmd("a", "test.pign")
        assert client.cmd("a", "test.ping") == {"a": True}
