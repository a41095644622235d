"""What people are told about resources: codes, sentences, and who answers what; fixture F, which no test changes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from saltlite.cli import exitcodes
from tests.support.fleet import Fleet, wait_until
from tests.support.resource_fleet import DECLARED, MINIONS, PROBES, Site

pytestmark = pytest.mark.e2e

MANY = 64


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    fleet = Fleet(tmp_path_factory.mktemp("answers"))
    try:
        yield Site(fleet, *MINIONS)
    finally:
        fleet.close()


def test_a_name_in_a_list_that_nothing_has_is_said_and_the_others_answer(site: Site) -> None:
    said = site.fleet.cli("--out", "json", "-L", "mc,dummy-01,nosuch,dummy:nosuch", "test.ping")
    assert (said.code, said.json()) == (exitcodes.MISSING, {"mc": True, "dummy-01": True})
    assert sorted(said.err.splitlines()) == [
        "dummy:nosuch: no such resource is registered",
        "nosuch: neither an accepted minion nor a resource has this name",
    ]


def test_a_name_in_an_expression_that_nothing_has_is_said_and_the_others_answer(site: Site) -> None:
    said = site.fleet.cli("--out", "json", "-C", "mc or T@dummy:typo or L@nosuch", "test.ping")
    assert (said.code, said.json()) == (exitcodes.MISSING, {"mc": True})
    assert said.err.splitlines() == [
        "dummy:typo: no such resource is registered",
        "nosuch: neither an accepted minion nor a resource has this name",
    ]


@pytest.mark.parametrize("words", [("-C", "T@dummy:typo"), ("dummy:typo",), ("-C", "mc and dummy:typo")])
def test_a_resource_that_is_not_registered_is_said_at_once(site: Site, words: tuple[str, ...]) -> None:
    said = site.fleet.cli(*words, "test.ping")
    assert (said.code, said.out) == (exitcodes.NOTHING_MATCHED, "")
    assert "dummy:typo: no such resource is registered" in said.err


@pytest.mark.parametrize(
    ("expression", "place"),
    [
        ("and mc", "word 1 ('and'), column 1"),
        ("( mc", "word 1 ('('), column 1"),
        ("mc dummy-01", "word 2 ('dummy-01'), column 4"),
        ("mc or Z@x", "word 3 ('Z@x'), column 7"),
        ("mc and N@nosuch", "word 3 ('N@nosuch'), column 8"),
        ("mc or E@(", "word 3 ('E@('), column 7"),
    ],
)
def test_a_mistake_in_a_target_names_the_word_and_nothing_runs(site: Site, expression: str, place: str) -> None:
    before, trace = site.fleet.jobs_published(), site.trace()
    said = site.fleet.cli("-C", expression, "trace.mark", str(trace))
    assert (said.code, said.out, trace.read_text()) == (exitcodes.USAGE, "", "")
    assert place in said.err
    assert site.fleet.jobs_published() == before


@pytest.mark.parametrize("words", [("dummy-01",), ("-C", "T@dummy"), ("-L", "mc,dummy-01")])
def test_a_function_that_a_named_type_lacks_runs_nowhere(site: Site, words: tuple[str, ...]) -> None:
    before = site.fleet.jobs_published()
    said = site.fleet.cli(*words, "cmd.run", "id")
    assert (said.code, said.out) == (exitcodes.USAGE, "")
    assert "Function 'cmd.run' is not supported for resource type 'dummy'" in said.err
    assert site.fleet.jobs_published() == before


def test_a_wildcard_leaves_out_and_counts_the_resources_whose_types_lack_the_function(site: Site) -> None:
    said = site.fleet.cli("--out", "json", "*", "cmd.run", "echo x")
    assert (said.code, said.json()) == (exitcodes.OK, dict.fromkeys(MINIONS, "x"))
    assert sorted(said.err.splitlines()) == [
        "3 resources were skipped: type probe has no cmd.run",
        "5 resources were skipped: type dummy has no cmd.run",
    ]


def test_functions_that_are_for_minions_only_leave_resources_alone_without_a_word(site: Site) -> None:
    said = site.fleet.cli("--out", "json", "*", "saltutil.refresh_pillar")
    assert (said.code, said.json(), said.err) == (exitcodes.OK, dict.fromkeys(MINIONS, True), "")


def test_a_call_that_takes_longer_than_the_client_waits_for_news_is_waited_for(site: Site) -> None:
    assert site.run("-t", "1", "p1", "test.sleep", "3") == {"p1": True}


def test_a_retcode_of_a_resource_is_a_failure_that_names_it(site: Site) -> None:
    said = site.fleet.cli("--out", "json", "-C", "T@probe", "test.retcode", "3")
    assert (said.code, said.json()) == (exitcodes.FAILED, {"p1": 3, "p2": 3, "shared": 3})
    assert sorted(said.err.splitlines()) == [f"{name}: failed with retcode 3" for name in ("p1", "p2", "shared")]


def test_a_function_of_a_type_reaches_the_modules_of_the_minion(site: Site) -> None:
    assert site.run("p1", "test.through_the_minion") == {"p1": "by ma"}


def test_events_of_returns_name_the_resource_and_its_minion(site: Site) -> None:
    said = site.fleet.cli("--show-jid", "--out", "json", "shared", "test.ping")
    found = re.search(r"\b\d{20}\b", said.err)
    assert found
    with site.fleet.store() as store:
        tag = f"salt/job/{found[0]}/ret/"
        rows = {
            event.tag.removeprefix(tag): event.data for event in store.events(0, 10**6) if event.tag.startswith(tag)
        }
    whose = {srn: (row["minion"], row["resource_type"], row["resource_id"]) for srn, row in rows.items()}
    assert whose == {"dummy:shared": ("mb", "dummy", "shared"), "probe:shared": ("ma", "probe", "shared")}


def test_the_preview_says_the_same_as_the_job_and_explains_it(site: Site) -> None:
    words = ("match", "--out", "json", "-C", "mc or T@probe")
    shown = site.fleet.cli(*words).json()
    assert (shown["minions"], shown["resources"]) == (["mc"], {"ma": list(PROBES)})
    why = site.fleet.cli(*words, "--explain", "p1").json()
    assert (why["selected"], why["owner"]) == (True, "ma")
    assert [(term["word"], term["true"]) for term in why["terms"]] == [("mc", False), ("T@probe", True)]
    assert site.fleet.cli(*words, "--explain", "dummy-01").code == exitcodes.NOTHING_MATCHED


def test_call_runs_on_the_minions_own_resources_without_master(site: Site) -> None:
    config = site.fleet.folder / "ma" / "minion"
    config.write_text(f"{config.read_text()}pillar_roots: {json.dumps({'base': [str(site.pillar)]})}\n")
    every = site.fleet.cli("call", "-r", "--out", "json", "test.ping", master="ma")
    assert sorted(every.json()["local"]) == ["dummy-01", "dummy-02", "ma", "p1", "p2", "shared", "web-9"]
    one = site.fleet.cli("call", "-r", "--tgt", "p1", "--out", "json", "test.identity", master="ma")
    assert one.json() == {"local": ["p1", "p1", "p1", "p1", "ma"]}
    alone = site.fleet.cli("call", "--out", "json", "test.ping", master="ma")
    assert alone.json() == {"local": True}


def test_many_calls_at_once_see_each_its_own_resource_and_grains(site: Site) -> None:
    ids = [f"many-{number}" for number in range(MANY)]
    site.declare("mc", {"probe": ids})
    site.refresh("mc")
    try:
        answers = site.run("-C", "T@probe:many-*", "test.identity", "0.2")
        assert answers == {name: [name, name, name, name, "mc"] for name in ids}
    finally:
        site.declare("mc", DECLARED["mc"])
        site.refresh("mc")


def test_a_type_is_initialised_once_and_jobs_collect_no_grains(site: Site) -> None:
    notes = site.trace()
    site.declare("mc", {"probe": ["n1", "n2"]}, probe_notes=str(notes))
    site.refresh("mc")
    try:
        for _ in range(3):
            site.run("-L", "n1,n2", "test.ping")
        assert sorted(notes.read_text().splitlines()) == ["discover", "grains n1", "grains n2", "init"]
    finally:
        site.declare("mc", DECLARED["mc"])
        site.refresh("mc")
    wait_until(lambda: notes.read_text().splitlines()[-1] == "shutdown", "the type is shut down")


def test_a_type_whose_init_fails_says_so_for_its_resources_and_others_work(site: Site) -> None:
    types = {"probe": ["broken"], "dummy": {"resource_ids": ["whole"]}}
    site.declare("mc", types, probe_init="fails")
    site.refresh("mc")
    try:
        said = site.fleet.cli("--out", "json", "-L", "broken,whole", "test.ping")
        shown = json.dumps(said.json()) + said.err
        assert (said.code, said.json()["whole"]) == (exitcodes.FAILED, True)
        assert (
            "Resource type 'probe' is not initialised: init() raised RuntimeError: the probes' bus is not there"
            in shown
        )
    finally:
        site.declare("mc", DECLARED["mc"])
        site.refresh("mc")


def test_grains_that_cannot_be_collected_stay_as_they_were_and_are_marked(site: Site) -> None:
    site.declare("ma", DECLARED["ma"], probe_mute=["p1"])
    site.refresh("ma")
    try:
        with site.fleet.client() as client:
            muted = client.call("resource_grains", type="probe", id="p1")
            fresh = client.call("resource_grains", type="probe", id="p2")
        assert (muted["grains"], fresh["stale_since"]) == ({"role": "probe", "rid": "p1"}, None)
        assert muted["stale_since"] is not None
        assert site.run("-G", "rid:p1", "test.ping") == {"p1": True}
    finally:
        site.declare("ma", DECLARED["ma"])
        site.refresh("ma")
