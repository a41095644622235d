"""Options of Salt's programs, on real daemons: what each of them changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet import Fleet, Said, wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with_fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        with_fleet.start_master()
        with_fleet.join("a", "b")
        yield with_fleet
    finally:
        with_fleet.close()


def call(fleet: Fleet, *words: str) -> Said:
    """`saltlite call` with the configuration of the minion a."""
    return fleet.cli("call", "-c", str(fleet.folder / "a"), *words, master="a")


def test_documentation_of_the_targets_is_one_map(fleet: Fleet) -> None:
    found = fleet.cli("--out=json", "-d", "*", "test.ping").json()
    assert list(found) == ["test.ping"]
    assert "CLI Example" in found["test.ping"]
    assert {"test.ping", "test.echo"} <= fleet.cli("--out=json", "--doc", "a", "test").json().keys()
    assert fleet.cli("a", "sys.doc", "test.ping", "--documentation", "--out=json").json() == found
    assert fleet.cli("-d", "a", "test.ping").out.startswith("test.ping:\n")


def test_what_a_target_selects_is_printed_and_nothing_is_run(fleet: Fleet) -> None:
    before = fleet.jobs_published()
    said = fleet.cli("--preview-target", "--out=json", "*", "test.ping")
    assert (said.code, said.json()) == (0, ["a", "b"])
    assert fleet.cli("--preview-target", "-L", "b").out == "- b\n"
    assert fleet.cli("--preview-target", "zzz").code == 3
    assert fleet.jobs_published() == before


def test_metadata_is_stored_with_the_job(fleet: Fleet) -> None:
    jid = fleet.publish("a", "test.ping", "--metadata", "{ticket: OPS-1}")
    found = fleet.cli("runner", "--out=json", "jobs.list_job", jid).json()
    assert found["Metadata"] == {"ticket": "OPS-1"}


def test_keywords_stay_text(fleet: Fleet) -> None:
    found = fleet.cli("--no-parse=a", "--out=json", "a", "test.arg_clean", "a=1", "b=1").json()
    assert found["a"]["kwargs"] == {"a": "1", "b": 1}
    assert call(fleet, "--no-parse=a", "--out=json", "test.arg", "a=1").json()["local"]["kwargs"]["a"] == "1"
    assert fleet.cli("runner", "--no-parse=a", "--out=json", "test.arg", "a=1").json()["kwargs"]["a"] == "1"


def test_a_compound_job_has_the_separator_that_it_names(fleet: Fleet) -> None:
    said = fleet.cli("--args-separator=::", "--out=json", "a", "test.echo,test.arg", "one,two", "::", ",")
    assert said.json()["a"]["test.echo"] == "one,two"
    assert said.json()["a"]["test.arg"]["args"] == [","]


def test_targets_without_a_return_are_not_named_on_demand(fleet: Fleet) -> None:
    fleet.join("late")
    fleet.daemons["late"].kill_whole()
    wait_until(lambda: "late" not in fleet.up(), "late is gone")
    said = fleet.cli("--hide-timeout", "-t1", "--out=txt", "-L", "a,late", "test.ping")
    assert (said.code, said.out, said.err) == (5, "a: True\n", "")
    assert "late: not connected" in fleet.cli("-t1", "--out=txt", "-L", "a,late", "test.ping").err


def test_a_call_takes_the_folders_of_its_command_line(fleet: Fleet, tmp_path: Path) -> None:
    for name in ("files", "more", "pillar", "cache"):
        (tmp_path / name).mkdir()
    (tmp_path / "files/here.txt").write_text("one")
    (tmp_path / "more/there.txt").write_text("two")
    (tmp_path / "pillar/top.sls").write_text("base: {'*': [own]}\n")
    (tmp_path / "pillar/own.sls").write_text("role: web\n")
    roots = ("--file-root", str(tmp_path / "files"), "--file-root", str(tmp_path / "more"))
    assert call(fleet, *roots, "--out=json", "cp.list_master").json() == {"local": ["here.txt", "there.txt"]}
    pillar = call(fleet, "--pillar-root", str(tmp_path / "pillar"), "--out=json", "pillar.get", "role")
    assert pillar.json() == {"local": "web"}
    cached = call(
        fleet, *roots, "--cachedir", str(tmp_path / "cache"), "--out=json", "cp.cache_file", "salt://here.txt"
    )
    assert cached.json()["local"].startswith(str(tmp_path / "cache"))
    assert list(call(fleet, "--skip-grains", "--out=json", "grains.items").json()["local"]) == ["id"]
    said = call(fleet, "--skip-grains", "--grains")
    assert (said.code, said.err) == (2, "saltlite: --grains and --skip-grains exclude each other\n")


def test_grains_that_a_call_has_synced_are_those_of_the_minion_after_its_own_sync(
    fleet: Fleet, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The files are there already then, so the sync itself finds nothing new."""
    folder = tmp_path_factory.mktemp("roots")
    (folder / "_grains").mkdir()
    (folder / "_grains/shelf.py").write_text("def shelf():\n    return {'shelf': 'top'}\n")
    fleet.start_master("other", file_roots={"base": [str(folder)]})
    token = fleet.token(master="other")
    fleet.start_minion("c", master=fleet.address("other"), join_token=token, file_roots={"base": [str(folder)]})
    fleet.wait_up("c", master="other")
    words = ("call", "-c", str(fleet.folder / "c"), "--out=json", "saltutil.sync_grains")
    assert fleet.cli(*words, master="c").json() == {"local": ["grains.shelf"]}
    assert fleet.cli("--out=json", "c", "saltutil.sync_grains", master="other").json() == {"c": []}
    assert fleet.cli("--out=json", "-G", "shelf:top", "test.ping", master="other").json() == {"c": True}


def test_a_runner_goes_on_in_the_background(fleet: Fleet, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    said = fleet.cli("runner", "--async", "--out-file", str(found), "--out=json", "test.arg", "a")
    jid = said.json()["jid"]
    assert (said.code, said.json()["tag"]) == (0, f"salt/run/{jid}")
    wait_until(found.exists, "the return is written")
    assert json.loads(found.read_text())["args"] == ["a"]
    tags = f"salt/run/{jid}/ret"
    wait_until(lambda: tags in fleet.cli("events", "--since", "5m", "--count", "1", tags).out, "the end is an event")
    said = fleet.cli("runner", "--async", "test.sleep", "0.1")
    assert said.out.startswith("Executed command with job ID: ")
    said = fleet.cli("runner", "--async", "no.such")
    assert (said.code, said.err.partition(";")[0]) == (2, "saltlite: there is no runner 'no.such'")
    said = fleet.cli("runner", "--async", "--out", "nosuch_outputter", "test.arg")
    assert said.code == 2


def test_jobs_of_a_runner_wait_as_long_as_its_command_line_says(fleet: Fleet) -> None:
    assert fleet.cli("runner", "-t", "7", "--out=json", "test.get_opts").json()["timeout"] == 7.0
    assert list(fleet.cli("runner", "--skip-grains", "--out=json", "salt.cmd", "grains.items").json()) == ["id"]
