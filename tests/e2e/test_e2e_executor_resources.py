"""Executors for resources: what applies to them, what is refused, and that the time they wait holds up nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import Fleet, Said, wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A minion `m` with the resources d1 to d40; two calls may run at once, and d7 never answers."""
    fleet = Fleet(tmp_path_factory.mktemp("executors"))
    folder = fleet.root("master") / "srv/pillar"
    folder.mkdir(parents=True)
    (folder / "top.sls").write_text("base:\n  '*': [all]\n")
    dummy = {"count": 40, "prefix": "d", "hang": ["d7"]}
    (folder / "all.sls").write_text(json.dumps({"resources": {"dummy": dummy}}))
    try:
        fleet.start_master()
        fleet.join(
            "m", resource_workers=2, executors_allowed=["direct_call", "splay", "timeout", "audit", "dry", "nice"]
        )
        wait_until(lambda: fleet.cli("d40", "test.ping").code == 0, "the resources are registered")
        yield fleet
    finally:
        fleet.close()


def through(fleet: Fleet, executors: str, *words: str, options: str = "") -> Said:
    more = [f"--executor-opts={options}"] if options else []
    return fleet.cli(f"--module-executors={executors}", *more, "--out", "json", *words)


def test_each_waits_for_its_own_time_and_takes_no_place_meanwhile(site: Fleet) -> None:
    names = [f"d{n}" for n in range(1, 41) if n != 7]
    said = through(site, "[splay, direct_call]", "-L", ",".join(names), "test.ping", options="{splaytime: 2}")
    assert said.code == 0, said
    assert said.json() == dict.fromkeys(names, True)
    assert "the call was delayed by 1." in said.err
    waits = ["--module-executors=[splay, direct_call]", "--executor-opts={splaytime: 3600}"]
    jid = site.cli("--async", "--out", "json", *waits, "-L", ",".join(names[:-1]), "test.ping").json()["jid"]
    wait_until(lambda: _waiting(site, jid) > len(names) / 2, "they wait")
    # There are two places, for all of them and for this one.
    assert site.cli("d40", "test.ping").code == 0
    assert _waiting(site, jid) > len(names) / 2
    assert site.cli("job", "kill", jid).code == 0
    wait_until(lambda: not {"running", "delivered"} & {*site.states(jid).values()}, "none waits any more")


def _waiting(site: Fleet, jid: str) -> int:
    return list(site.states(jid).values()).count("running")


def test_one_that_waits_is_ended_by_a_kill(site: Fleet) -> None:
    asked = ["--module-executors=[splay, direct_call]", "--executor-opts={splaytime: 3600}"]
    jid = site.cli("--async", "--out", "json", *asked, "d3", "test.ping").json()["jid"]
    wait_until(lambda: site.states(jid) == {"dummy:d3": "running"}, "it waits")
    assert site.cli("job", "kill", jid).code == 0
    wait_until(lambda: site.states(jid) == {"dummy:d3": "cancelled"}, "it is ended")
    assert site.cli("d3", "test.ping").code == 0


def test_a_time_limit_gives_a_call_up_before_resource_timeout(site: Fleet) -> None:
    said = through(site, "[timeout, direct_call]", "-L", "d7,d8", "test.ping", options="{call_timeout: 1}")
    assert said.code == 4
    assert said.json().get("d8") is True
    assert "it did not answer within 1 s" in said.err + said.out  # and not within resource_timeout


def test_a_call_is_noted_with_the_resource_and_a_dry_one_names_it(site: Fleet) -> None:
    said = through(site, "[audit, dry]", "d5", "test.ping")
    assert said.json() == {"d5": {"dry": True, "fun": "test.ping", "args": [], "kwargs": {}}}
    line: dict[str, Any] = json.loads(
        Path(site.root("m") / "var/log/saltlite/minion-audit").read_text().splitlines()[-1]
    )
    assert (line["id"], line["fun"]) == ("dummy:d5", "test.ping")


def test_what_is_for_processes_is_refused_and_says_why(site: Fleet) -> None:
    said = through(site, "[nice, direct_call]", "d5", "test.ping")
    assert said.code == 4
    assert said.json()["d5"] == (
        "ERROR executing 'test.ping': Executor 'nice' is not for resources: "
        "their process serves many calls at once and keeps the rights of the minion"
    )


def test_an_option_that_an_executor_refuses_is_the_answer_of_each_resource(site: Fleet) -> None:
    said = through(site, "[splay, direct_call]", "d5", "test.ping", options="{splaytime: 99999}")
    assert "splaytime may be 3600 s at most here" in said.json()["d5"]
