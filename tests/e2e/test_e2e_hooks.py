"""Hooks of a real master: what events begin, under whose name, and what bounds them."""

from __future__ import annotations

import json
import pwd
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import ME, Fleet
from tests.support.machine import opening, why_not

pytestmark = pytest.mark.e2e

HOOKS: dict[str, Any] = {
    "deploy": {
        "event": "salt/netapi/hook/deploy",
        "data": {"body.branch": "main"},
        "as": "file:fred",
        "job": {"tgt": "{body.host}", "fun": "test.arg", "arg": ["{body.version}", "v-{body.version}"]},
    },
    "too-much": {
        "event": "app/too-much",
        "as": "file:fred",
        "job": {"tgt": "*", "fun": "grains.items"},
    },
    "answer": {
        "event": "minion/*/app/up",
        "as": ME,
        "rate": 2,
        "job": {"tgt": "{id}", "tgt_type": "list", "fun": "test.echo", "arg": ["{tag.1}"], "kwarg": {}},
    },
    "loop": {"event": "salt/job/*/ret/db1", "as": ME, "job": {"tgt": "db1", "fun": "test.ping"}, "rate": 600},
    "runner-loop": {
        "event": "app/round",
        "as": ME,
        "runner": {"fun": "event.send", "arg": ["app/round"]},
        "rate": 600,
    },
    "job-loop": {
        "event": "salt/job/*/ret/web1",
        "as": ME,
        "data": {"retcode": 77},
        "runner": {"fun": "again.fail"},
        "rate": 600,
    },
    "look": {
        "event": "app/look",
        "as": ME,
        "runner": {"fun": "event.send", "arg": ["app/looked"], "kwarg": {"n": "{n}"}},
    },
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("hooks"))
    runners = fleet.folder / "own/runners"
    runners.mkdir(parents=True)
    (runners / "again.py").write_text("def fail():\n    return __client__.cmd('web1', 'test.retcode', [77])\n")
    try:
        fleet.start_master(
            hooks=HOOKS,
            module_dirs=[str(runners.parent)],
            external_auth={"file": {"fred": ["test.*"]}},
            publisher_acl={},
        )
        fleet.join("web1", "db1")
        yield fleet
    finally:
        fleet.close()


def events(fleet: Fleet, pattern: str, count: int) -> list[dict[str, Any]]:
    """The first events with such a tag; waits for them."""
    said = fleet.cli("events", pattern, "--since", "0", "--count", str(count), "--out", "jsonl")
    return [json.loads(line) for line in said.out.splitlines()]


def test_a_webhook_begins_a_job_with_its_fields_under_the_name_of_the_hooks_user(fleet: Fleet) -> None:
    fleet_api = fleet.start_api(disable_ssl=True, webhook_disable_auth=True)
    for body in ({"branch": "dev"}, {"branch": "main", "host": "web1", "version": 1.5}):
        request = urllib.request.Request(
            f"{fleet_api}/hook/deploy", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert json.load(answer) == {"success": True}
    (fired,) = events(fleet, "salt/hook/deploy/*", 1)
    assert (fired["tag"], fired["data"]["as"]) == ("salt/hook/deploy/fired", "file:fred")
    jid = fired["data"]["jid"]
    (event,) = events(fleet, f"salt/job/{jid}/ret/*", 1)
    assert event["data"]["id"] == "web1"
    job = shown(fleet, jid)
    assert (job["user"], job["origin"].startswith("hook deploy")) == ("file:fred", True)
    assert job["returns"]["web1"]["args"] == [1.5, "v-1.5"]


def test_what_its_user_may_not_a_hook_may_not_either(fleet: Fleet) -> None:
    assert fleet.cli("runner", "event.send", "app/too-much").code == 0
    (told,) = events(fleet, "salt/hook/too-much/*", 1)
    assert told["tag"] == "salt/hook/too-much/refused"
    assert "may not run grains.items" in told["data"]["reason"]


def test_an_event_of_a_minion_begins_a_job_there_and_the_rate_bounds_how_many(fleet: Fleet) -> None:
    for _ in range(4):
        assert fleet.cli("web1", "event.send", "app/up").code == 0
    told = [event["tag"].rpartition("/")[2] for event in events(fleet, "salt/hook/answer/*", 3)]
    assert told == ["fired", "fired", "limited"]
    (fired, *_rest) = events(fleet, "salt/hook/answer/fired", 2)
    jid = fired["data"]["jid"]
    assert events(fleet, f"salt/job/{jid}/ret/*", 1)
    assert shown(fleet, jid)["returns"] == {"web1": "web1"}


def test_a_hook_that_fires_for_what_it_began_comes_to_an_end(fleet: Fleet) -> None:
    assert fleet.cli("db1", "test.ping").code == 0
    told = [event["tag"].rpartition("/")[2] for event in events(fleet, "salt/hook/loop/*", 4)]
    assert told == ["fired", "fired", "fired", "loop"]


def test_runners_that_call_the_hook_again_come_to_an_end_too(fleet: Fleet) -> None:
    assert fleet.cli("runner", "event.send", "app/round").code == 0
    told = [event["tag"].rpartition("/")[2] for event in events(fleet, "salt/hook/runner-loop/*", 4)]
    assert told == ["fired", "fired", "fired", "loop"]
    assert fleet.cli("web1", "test.retcode", "77").code == 4
    told = [event["tag"].rpartition("/")[2] for event in events(fleet, "salt/hook/job-loop/*", 4)]
    assert told == ["fired", "fired", "fired", "loop"]


def test_a_hook_runs_a_runner_and_its_end_is_an_event(fleet: Fleet) -> None:
    assert fleet.cli("runner", "event.send", "app/look", "n=7").code == 0
    (looked,) = events(fleet, "app/looked", 1)
    assert (looked["data"]["n"], looked["data"]["_user"]) == (7, ME)
    (fired,) = events(fleet, "salt/hook/look/fired", 1)
    (ended,) = events(fleet, f"salt/run/{fired['data']['jid']}/ret", 1)
    assert (ended["data"]["fun"], ended["data"]["success"]) == ("event.send", True)


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_a_runner_of_a_hook_is_run_as_its_user_and_with_no_more_than_his_rights() -> None:
    folder = Path(tempfile.mkdtemp(prefix="saltlite-e2e-"))
    folder.chmod(0o755)
    (folder / "own/runners").mkdir(parents=True)
    (folder / "own/runners/who.py").write_text(
        "import os\n\ndef am_i():\n    said = {'uid': os.getuid(), 'groups': os.getgroups()}\n"
        "    __client__.call('event_send', tag='app/who', data=said)\n"
    )
    fleet = Fleet(folder)
    fleet.through = opening()
    daemon = pwd.getpwnam("daemon")
    hooks = {
        "who": {"event": "app/ask", "as": "daemon", "runner": {"fun": "who.am_i"}},
        "not": {"event": "app/ask", "as": "daemon", "runner": {"fun": "manage.up"}},
    }
    try:
        fleet.start_master(
            user="nobody",
            hooks=hooks,
            module_dirs=[str(folder / "own")],
            publisher_acl={"daemon": [{"@runner": ["who.am_i", "event.send"]}]},
        )
        (folder / "master/master").chmod(0o644)
        assert fleet.cli("runner", "event.send", "app/ask").code == 0
        (said,) = events(fleet, "app/who", 1)
        assert (said["data"]["uid"], said["data"]["_user"]) == (daemon.pw_uid, "daemon")
        assert 0 not in said["data"]["groups"]
        (refused,) = events(fleet, "salt/hook/not/*", 1)
        assert "@runner manage.up" in refused["data"]["reason"]
    finally:
        fleet.close()
        shutil.rmtree(folder)


def shown(fleet: Fleet, jid: str) -> dict[str, Any]:
    said: dict[str, Any] = fleet.cli("job", "show", jid, "--returns", "--out", "json").json()
    return said
