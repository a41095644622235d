"""Functions on a minion's machine without its daemon, runners beside a real master, documentation from its store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from saltlite import __version__
from tests.support.fleet import ME, Fleet, done_once, wait_until

pytestmark = pytest.mark.e2e


def test_a_call_gives_what_the_job_gives_while_the_minion_runs(shared: Fleet) -> None:
    by_job = shared.cli("a", "grains.item", "id", "kernel", "--out", "json").json()["a"]
    called = shared.cli("call", "--local", "grains.item", "id", "kernel", "--out", "json", master="a")
    assert (called.code, called.json()) == (0, {"local": by_job})
    assert shared.cli("a", "test.ping").code == 0


def test_a_call_is_no_job_of_the_master(shared: Fleet) -> None:
    shared.cli("call", "test.echo", "only here", master="a")
    listed = shared.cli("job", "list", "--fun", "test.echo", "--minion", "a", "-n", "1", "--out", "json").json()
    calls = [shared.cli("job", "show", job["jid"], "--out", "json").json()["calls"] for job in listed["jobs"]]
    assert "only here" not in json.dumps(calls)


def test_runners_know_the_minions(shared: Fleet) -> None:
    up = shared.cli("runner", "manage.status", "--out", "json")
    assert (up.code, up.json()) == (0, {"up": ["a", "b"], "down": []})
    versions = shared.cli("runner", "manage.versions", "--out", "json").json()
    assert versions == {
        "Master": f"saltlite {__version__}",
        "Up to date": dict.fromkeys("ab", f"saltlite {__version__}"),
    }


def test_a_runner_runs_a_job_and_another_one_finds_it(shared: Fleet) -> None:
    said = shared.cli("runner", "salt.execute", "*", "test.echo", "arg=[from a runner]", "--out", "json")
    assert said.code == 0, said.err
    expected = {"a": "from a runner", "b": "from a runner"}
    assert said.json() == expected
    jobs = shared.cli("runner", "jobs.list_jobs", "search_function=test.echo", "limit=1", "--out", "json").json()
    ((jid, job),) = jobs.items()
    assert (job["Function"], job["User"]) == ("test.echo", ME)
    assert shared.cli("runner", "jobs.lookup_jid", jid, "--out", "json").json() == expected


def test_a_running_job_is_active_until_it_ends(shared: Fleet, tmp_path: Path) -> None:
    go = tmp_path / "go"
    jid = shared.publish("a", "cmd.run", done_once(go))
    shared.wait_state(jid, "a", "running")
    active = shared.cli("runner", "jobs.active", "--out", "json").json()
    assert active[jid]["Running"] == [{"a": "running"}]
    go.touch()
    shared.wait_state(jid, "a", "returned")
    assert jid not in shared.cli("runner", "jobs.active", "--out", "json").json()


def test_a_runner_is_seen_in_the_events(shared: Fleet) -> None:
    with shared.client() as client:
        before = client.call("events", pattern="salt/run/*")["seq"]
    assert shared.cli("runner", "salt.cmd", "test.retcode", "5").code == 4
    with shared.client() as client:
        client.call("events", pattern="salt/run/*", after=before)
        seen = []

        def both() -> bool:
            message = client.receive(1.0)
            seen.extend((message or {}).get("events", ()))
            return len(seen) >= 2

        wait_until(both, "two events of the runner")
    begun, ended = seen
    jid = begun["tag"].split("/")[2]
    assert (begun["tag"], ended["tag"]) == (f"salt/run/{jid}/new", f"salt/run/{jid}/ret")
    assert (ended["data"]["fun"], ended["data"]["retcode"], ended["data"]["user"]) == ("salt.cmd", 5, ME)


def test_documentation_names_the_minions_that_lack_a_function(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("has")
    fleet.join("lacks", module_dirs=[])
    # A file that is not there at all is what a minion can be certain of: a module of `has` only.

    def told() -> dict[str, Any] | None:
        said = fleet.cli("doc", "probe.loud", "--out", "json")
        return said.json() if said.code == 0 else None

    documented = wait_until(told, "what minions have")
    assert documented is not None
    minions = documented["minions"]
    assert (minions["count"], minions["names"], minions["unknown"]) == (2, ["lacks"], 0)
    assert documented["providers"] == []
    text = fleet.cli("doc", "probe.loud").out
    assert "from a module that only minions have" in text
    assert "missing: lacks - why: saltlite -L lacks sys.providers probe" in text
    listed = fleet.cli("doc", "probe")
    assert (listed.code, "only on minions: saltlite MINION sys.doc probe.loud" in listed.out) == (0, True)


def test_a_report_shows_which_provider_the_fleet_has(shared: Fleet) -> None:
    said = shared.cli("runner", "smi.report", "*", "pkg", "--out", "json")
    assert said.code == 0, said.err
    again = shared.cli("runner", "smi.report", "*", "pkg", "--out", "json")
    assert said.json() == again.json()
    assert said.json()["minions"] == 2
    assert said.json()["silent"] == {}
