"""Resources as people meet them on the command line: as targets, under their names, counted, missing, left out."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.support.fleet import BIN, MODULE_DIR, Fleet, Said, wait_until

pytestmark = pytest.mark.e2e

TWIN = """
def init(opts):
    pass

def initialized():
    return True

def discover(opts):
    return ["shared"]

def grains():
    return {"kind": "twin"}
"""
OF_MA = {"dummy-1", "dummy-2", "dummy:shared"}
OF_MB = {"db-1", "twin:shared"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Minions ma, mb and mc; ma manages dummy-1, dummy-2 and shared, mb db-1, and shared of another type."""
    folder = tmp_path_factory.mktemp("site")
    pillar = folder / "pillar"
    pillar.mkdir()
    (pillar / "top.sls").write_text("base:\n  ma: [ma]\n  mb: [mb]\n")
    dummy = {"resource_ids": ["dummy-1", "dummy-2", "shared"]}
    (pillar / "ma.sls").write_text(json.dumps({"role": "web", "resources": {"dummy": dummy}}))
    of_mb = {"dummy": {"resource_ids": ["db-1"]}, "twin": {}}
    (pillar / "mb.sls").write_text(json.dumps({"role": "db", "resources": of_mb}))
    twin = folder / "plugins/resources/twin"
    (twin / "modules").mkdir(parents=True)
    (twin / "__init__.py").write_text(TWIN)
    (twin / "modules/test.py").write_text("def ping():\n    return True\n")
    fleet = Fleet(folder)
    try:
        fleet.start_master(pillar_roots={"base": [str(pillar)]}, nodegroups={"lab": "L@ma,mb"})
        fleet.join("ma", "mb", "mc", module_dirs=[str(MODULE_DIR), str(folder / "plugins")])
        wait_until(lambda: selected(fleet, "*") == {"ma", "mb", "mc", *OF_MA, *OF_MB}, "resources are registered")
        yield fleet
    finally:
        fleet.close()


def selected(site: Fleet, *target: str) -> set[str]:
    """What `match` says, by the names that returns have."""
    said = site.cli("match", *target, "--out", "json")
    if said.code:
        return set()
    found = said.json()
    srns = [srn for some in found["resources"].values() for srn in some]
    bare = [srn.partition(":")[2] for srn in srns]
    return {*found["minions"], *(srn if bare.count(one) > 1 else one for srn, one in zip(srns, bare, strict=True))}


def pinged(site: Fleet, *target: str) -> set[str]:
    """Who answers to test.ping."""
    said = site.cli(*target, "test.ping", "--out", "json")
    return set(said.json()) if said.code != 3 else set()


@pytest.mark.parametrize(
    ("target", "reached"),
    [
        (["*"], {"ma", "mb", "mc", *OF_MA, *OF_MB}),
        (["mc"], {"mc"}),
        (["dummy-1"], {"dummy-1"}),
        (["dummy:dummy-1"], {"dummy-1"}),
        (["shared"], {"dummy:shared", "twin:shared"}),
        (["-L", "mc,dummy-1,twin:shared"], {"mc", "dummy-1", "shared"}),
        (["-E", "d.*-1"], {"dummy-1", "db-1"}),
        (["-G", "kind:twin"], {"shared"}),
        (["-P", "kind:tw.n"], {"shared"}),
        (["-I", "role:web"], {"ma"}),
        (["-J", "role:w.b"], {"ma"}),
        (["-S", "127.0.0.0/8"], {"ma", "mb", "mc"}),
        (["-N", "lab"], {"ma", "mb"}),
        (["-C", "M@ma and T@dummy"], {"dummy-1", "dummy-2", "shared"}),
        (["-C", "T@dummy:d*"], {"dummy-1", "dummy-2", "db-1"}),
        (["-C", "not T@dummy"], {"ma", "mb", "mc"}),
    ],
)
def test_a_target_reaches_whom_match_says(site: Fleet, target: list[str], reached: set[str]) -> None:
    assert (selected(site, *target), pinged(site, *target)) == (reached, reached)


@pytest.mark.parametrize(
    ("target", "code", "sentence"),
    [
        (["-C", "Z@x"], 2, "Z@x"),
        (["-C", "ma and"], 2, "and"),
        (["-N", "nosuch"], 2, "nosuch"),
        (["-G", "-L", "x"], 2, "--list and --grain exclude each other"),
        (["-C", "T@dummy:typo"], 3, "matches"),
        (["T@dummy"], 3, "with -C it is read as a compound target: -C 'T@dummy'"),
    ],
)
def test_what_is_no_target_is_told_before_anything_is_published(
    site: Fleet, target: list[str], code: int, sentence: str
) -> None:
    before = site.jobs_published()
    said = site.cli(*target, "test.ping")
    assert (said.code, said.out, sentence in said.err) == (code, "", True)
    assert site.jobs_published() == before


def test_names_that_nothing_has_are_each_told(site: Fleet) -> None:
    said = site.cli("-L", "mc,dummy-1,gone-1,gone-2", "test.ping", "--out", "json")
    assert (said.code, set(said.json())) == (5, {"mc", "dummy-1"})
    assert [line.partition(":")[0] for line in said.err.splitlines()] == ["gone-1", "gone-2"]


def test_the_full_document_says_who_manages_what(site: Fleet) -> None:
    found = site.cli("shared", "test.ping", "--out", "json-full").json()
    told = {name: (row["srn"], row["resource_type"], row["minion"]) for name, row in found["returns"].items()}
    assert told == {
        "dummy:shared": ("dummy:shared", "dummy", "ma"),
        "twin:shared": ("twin:shared", "twin", "mb"),
    }
    assert (found["summary"]["targeted"], found["summary"]["resources"]) == (2, 2)


def test_resources_whose_type_lacks_the_function_are_left_out_and_counted(site: Fleet) -> None:
    said = site.cli("*", "cmd.run", "echo hi", "--out", "json")
    assert (said.code, said.json()) == (0, dict.fromkeys(("ma", "mb", "mc"), "hi"))
    assert said.err.splitlines() == [
        "4 resources were skipped: type dummy has no cmd.run",
        "1 resource was skipped: type twin has no cmd.run",
    ]
    named = site.cli("dummy-1", "cmd.run", "echo hi")
    assert (named.code, named.out) == (2, "")
    assert "Function 'cmd.run' is not supported for resource type 'dummy'" in named.err


def test_verbose_and_summary_count_minions_and_resources(site: Fleet) -> None:
    said = site.cli("-C", "M@ma or T@dummy", "test.ping", "-v", "--summary")
    assert "5 targets: 1 minion, 4 resources, followed since" in said.err
    assert "5 targeted (1 minion, 4 resources), 5 returned" in said.err


def test_a_batch_goes_through_resources_too(site: Fleet) -> None:
    said = site.cli("*", "test.ping", "-b", "2", "--out", "json")
    assert (said.code, set(said.json())) == (0, {"ma", "mb", "mc", *OF_MA, *OF_MB})


def test_why_something_matches_is_explained_word_by_word(site: Fleet) -> None:
    said = site.cli("match", "-C", "N@lab and T@dummy:d*", "--explain", "db-1")
    rows = [re.split(r" {2,}", line) for line in said.out.splitlines()[3:]]
    assert (said.code, said.out.splitlines()[0]) == (
        3,
        "dummy:db-1, managed by mb: not selected: the target is false for it",
    )
    assert [row[:3] for row in rows] == [
        ["TERM", "PLACE", "MATCHES"],
        ["L@ma,mb", "nodegroup lab", "no"],
        ["T@dummy:d*", "word 3, column 11", "yes"],
    ]
    assert site.cli("match", "mb", "--explain", "mb").code == 0


def test_a_job_of_the_past_shows_and_runs_its_resources_again(site: Fleet) -> None:
    jid = site.publish("-C", "mc or T@dummy:d*", "test.ping")
    for target in ("mc", "dummy:dummy-1", "dummy:dummy-2", "dummy:db-1"):
        site.wait_state(jid, target, "returned")
    shown = site.cli("job", "show", jid, "--returns")
    rows = [line.split()[:2] for line in shown.out.partition("TARGET")[2].partition("\n\n")[0].splitlines()[1:]]
    assert rows == [["mc", "returned"], ["dummy-1", "ma"], ["dummy-2", "ma"], ["db-1", "mb"]]
    assert "-C mc or T@dummy:d* (4 targets: 1 minion, 3 resources)" in shown.out
    again = site.cli("job", "rerun", jid, "--out", "json")
    assert (again.code, set(again.json())) == (0, {"mc", "dummy-1", "dummy-2", "db-1"})
    assert jid in site.cli("job", "list", "--minion", "dummy:db-1").out


def test_resources_complete_as_targets(site: Fleet) -> None:
    def offered(*words: str) -> list[str]:
        command = [str(BIN / "saltlite"), "__complete", "--", "-c", str(site.folder / "master"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert offered("dummy-") == ["dummy-1", "dummy-2"]
    assert offered("-L", "mc,twin:") == ["mc,twin:shared"]
    assert "cmd." in offered("mc", "c")


def _away(site: Fleet) -> Said:
    return site.cli("-L", "mc,dummy-1,dummy-2", "test.ping", "--out", "json-full")


def test_a_resource_whose_minion_is_away_is_told_with_its_minion(site: Fleet) -> None:
    site.daemons["ma"].stop()
    wait_until(lambda: "ma" in site.absences(), "ma is gone")
    try:
        said = _away(site)
        document = said.json()
        assert (said.code, set(document["returns"]), set(document["missing"])) == (5, {"mc"}, {"dummy-1", "dummy-2"})
        row = document["missing"]["dummy-1"]
        assert (row["minion"], row["srn"], row["state"]) == ("ma", "dummy:dummy-1", "queued")
        why = "its managing minion ma is not connected: the minion was stopped"
        pattern = rf"dummy-1: {why} \(last seen .* ago\); the job waits for it until .*"
        assert re.match(pattern, said.err.splitlines()[0])
        matched = site.cli("match", "dummy-1")
        assert (matched.code, matched.out.splitlines()[-1]) == (0, "1 resource; 1 minion not connected: ma")
    finally:
        site.restart_minion("ma")
        site.wait_up("ma")
