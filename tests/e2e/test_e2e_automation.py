"""What minions do by themselves, on a real fleet."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import BIN, Fleet, wait_until
from tests.support.modules import write

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("automation"))
    write(fleet.folder / "pillars", {"more": "def ext_pillar(minion_id, pillar, word): return {word: minion_id}"})
    try:
        fleet.start_master(
            peer={"web.*": [{"db1": ["test.*", "publish.publish"]}]},
            ext_pillar=[{"cmd_json": 'echo \'{"of": "%s"}\''}],
            on_demand_ext_pillar=["more"],
            pillar_dirs=[str(fleet.folder / "pillars")],
            peer_run={"web.*": ["manage.up", "salt.execute"]},
        )
        secret = [{"mine_function": "test.echo"}, "of web1", {"allow_tgt": "web*"}]
        fleet.join("web1", mine_functions={"test.echo": ["hello"], "secret": secret}, mine_interval="5s")
        fleet.join("db1")
        yield fleet
    finally:
        fleet.close()


def call(fleet: Fleet, minion: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`saltlite-call` on the machine of that minion."""
    command: list[str | Path] = [BIN / "saltlite-call", "-c", fleet.folder / minion, "--out", "json", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=fleet.environment())


def test_a_minion_runs_a_function_on_another_and_the_job_has_its_name(fleet: Fleet) -> None:
    said = fleet.cli("web1", "publish.publish", "db1", "test.kwarg", "arg=['a=1', 'b=two']", "--out", "json")
    found = said.json()["web1"]["db1"]
    assert (found["a"], found["b"], found["__pub_user"]) == (1, "two", "minion:web1")
    jobs = fleet.cli("job", "list", "--user", "minion:web1", "--out", "json").json()
    assert [(job["fun"], job["user"]) for job in jobs["jobs"]] == [("test.kwarg", "minion:web1")]


def test_saltlite_call_publishes_through_the_running_minion(fleet: Fleet) -> None:
    done = call(fleet, "web1", "publish.full_data", "db1", "test.ping")
    row = json.loads(done.stdout)["local"]["db1"]
    assert (row["ret"], row["retcode"], row["success"]) == (True, 0, True)


def test_saltutil_cmd_publishes_with_typed_arguments(fleet: Fleet) -> None:
    kwarg = "kwarg={a: 1, b: [x]}"
    said = fleet.cli("web1", "saltutil.cmd", "[db1]", "test.kwarg", "tgt_type=list", kwarg, "--out", "json")
    row = said.json()["web1"]["db1"]
    assert (row["ret"]["a"], row["ret"]["b"], row["retcode"]) == (1, ["x"], 0)
    (row,) = fleet.cli("web1", "saltutil.cmd_iter", "db1", "test.ping", "--out", "json").json()["web1"]
    assert row["db1"]["ret"] is True
    assert "no salt-ssh" in fleet.cli("web1", "saltutil.cmd", "db1", "test.ping", "ssh=True").out


@pytest.mark.parametrize(
    ("minion", "words", "reason"),
    [
        ("db1", ("web1", "test.ping"), "no rule in `peer`"),
        ("web1", ("*", "test.ping"), "only on db1"),
        ("web1", ("db1", "publish.publish", "web1 test.ping"), "cannot publish functions of publish"),
    ],
)
def test_a_minion_is_refused_what_peer_does_not_grant(
    fleet: Fleet, minion: str, words: tuple[str, ...], reason: str
) -> None:
    said = fleet.cli(minion, "publish.publish", *words)
    assert said.code == 4
    assert reason in said.out


def test_a_minion_runs_a_runner_of_peer_run_and_no_other(fleet: Fleet) -> None:
    said = fleet.cli("web1", "publish.runner", "manage.up", "--out", "json", "--timeout", "20")
    assert sorted(said.json()["web1"]) == ["db1", "web1"]
    for minion, fun in (("web1", "manage.down"), ("db1", "manage.up")):
        refused = fleet.cli(minion, "publish.runner", fun)
        assert (refused.code, "no rule in `peer_run`" in refused.out) == (4, True)


def test_a_job_that_a_runner_published_runs_no_runner(fleet: Fleet) -> None:
    words = ("arg=[web1, publish.runner, 'arg=[manage.up]']", "timeout=20", "--out", "json", "--timeout", "30")
    said = fleet.cli("web1", "publish.runner", "salt.execute", *words)
    assert "runs no runner" in said.out
    assert call(fleet, "web1", "publish.runner", "manage.up", "timeout=20").returncode == 0


def test_the_pillar_has_what_external_pillars_add(fleet: Fleet) -> None:
    said = fleet.cli("*", "pillar.items", "--out", "json").json()
    assert said == {"web1": {"of": "web1"}, "db1": {"of": "db1"}}
    assert fleet.cli("-I", "of:web1", "test.ping", "--out", "json").json() == {"web1": True}
    assert fleet.cli("runner", "pillar.show_pillar", "db1", "--out", "json").json() == {"of": "db1"}
    more = fleet.cli("web1", "pillar.ext", "{more: further}", "--out", "json").json()
    assert more == {"web1": {"of": "web1", "further": "web1"}}
    refused = fleet.cli("web1", "pillar.ext", "{cmd_json: id}")
    assert (refused.code, "not in on_demand_ext_pillar" in refused.out) == (4, True)


def test_what_a_minion_leaves_in_the_mine_others_read(fleet: Fleet) -> None:
    def found() -> bool:
        said = fleet.cli("db1", "mine.get", "web*", "test.echo,secret", "--out", "json")
        return bool(said.json()["db1"] == {"test.echo": {"web1": "hello"}})

    wait_until(found, "the mine of web1 was updated at its start")
    assert fleet.cli("web1", "mine.get", "web1", "secret", "--out", "json").json() == {"web1": {"web1": "of web1"}}
    said = fleet.cli("runner", "mine.get", "*", "test.echo", "ages=True", "--out", "json").json()
    assert said["web1"]["value"] == "hello"
    assert 0 <= said["web1"]["age"] < 600
    assert json.loads(call(fleet, "db1", "mine.get", "web1", "test.echo").stdout)["local"] == {"web1": "hello"}


def test_a_schedule_runs_jobs_whose_results_the_master_stores(fleet: Fleet) -> None:
    def jobs() -> list[dict[str, Any]]:
        rows = fleet.cli("job", "list", "--user", "minion:web1", "--fun", "test.arg", "--out", "json").json()
        return [row for row in rows["jobs"] if row["counts"].get("returned") == 1]

    added = fleet.cli(
        "web1",
        "schedule.add",
        "beat",
        "function=test.arg",
        "job_args=[1]",
        "seconds=1",
        "maxrunning=2",
        "--out",
        "json",
    ).json()["web1"]
    assert (added["result"], added["changes"]) == (True, {"beat": "added"})
    wait_until(lambda: len(jobs()) >= 2, "two jobs of the schedule have returned")
    assert fleet.cli("web1", "schedule.disable_job", "beat", "--out", "json").json()["web1"]["result"] is True
    listed = fleet.cli("web1", "schedule.list", "return_yaml=False", "show_all=True", "--out", "json").json()["web1"]
    assert (listed["beat"]["enabled"], listed["__mine_interval"]["function"]) == (False, "mine.update")
    with fleet.client() as client:
        job = client.call("job_show", jid=jobs()[0]["jid"])["job"]
    assert (job["origin"], job["calls"][0][1]) == ("schedule beat", [1])


def test_a_job_of_the_schedule_that_ran_without_a_master_is_stored_later(fleet: Fleet) -> None:
    fleet.daemons["master"].stop()
    try:
        done = call(fleet, "db1", "schedule.add", "alone", "function=test.arg_repr", "seconds=3600")
        assert json.loads(done.stdout)["local"]["result"] is True
        done = call(fleet, "db1", "schedule.run_job", "alone")
        assert json.loads(done.stdout)["local"]["result"] is True
    finally:
        fleet.restart_master()

    def jobs() -> list[dict[str, Any]]:
        rows = fleet.cli("job", "list", "--user", "minion:db1", "--fun", "test.arg_repr", "--out", "json").json()
        return [row for row in rows["jobs"] if row["counts"].get("returned") == 1]

    wait_until(jobs, "the result has arrived")
    fleet.wait_up("web1", "db1")


def test_an_entry_says_that_its_function_is_not_there(fleet: Fleet) -> None:
    def comment(asked: str, *words: str) -> str:
        said = fleet.cli("web1", asked, "later", *words, "persist=False", "--out", "json").json()["web1"]
        assert said["result"] is True
        return str(said["comment"])

    missing = "This minion has no function 'test.pinh' now; did you mean test.ping?"
    assert comment("schedule.add", "function=test.pinh", "seconds=3600").endswith(missing)
    assert comment("schedule.modify", "function=test.ping") == "Modified job: later in schedule."
    assert comment("schedule.modify", "function=test.pinh").endswith(missing)
    comment("schedule.delete")


def test_a_wrong_entry_has_its_reason(fleet: Fleet) -> None:
    said = fleet.cli("web1", "schedule.add", "x", "function=test.ping", "cron=* * *", "--out", "json").json()["web1"]
    assert said["result"] is False
    assert "is not a cron expression" in said["comment"]


def test_beacons_send_events_below_the_name_of_their_minion(fleet: Fleet) -> None:
    watched = fleet.folder / "watched"
    watched.mkdir()
    config = json.dumps([{"files": {str(watched): {"mask": ["create"]}}}])
    added = fleet.cli("web1", "beacons.add", "inotify", config, "--out", "json").json()["web1"]
    assert added == {"comment": "Added beacon: inotify.", "result": True}
    listed = fleet.cli("web1", "beacons.list", "return_yaml=False", "timeout=60", "--out", "json").json()["web1"]
    assert list(listed) == ["inotify"]
    custom = json.dumps([{"beacon_module": "counting"}, {"run_once": True}])
    assert fleet.cli("web1", "beacons.add", "mine", custom, "--out", "json").json()["web1"]["result"] is True

    def seen() -> dict[str, dict[str, Any]]:
        (watched / f"file{time.monotonic_ns()}").touch()
        words = ("runner", "event.listen", "salt/beacon/*", "since=600", "count=100", "timeout=0.3", "--out", "json")
        return {event["tag"]: event["data"] for event in fleet.cli(*words).json()}

    found = wait_until(lambda: events if len(events := seen()) == 2 else {}, "both beacons have sent an event")
    changed = found[f"salt/beacon/web1/inotify/{watched}"]
    assert (changed["change"], changed["id"]) == ("IN_CREATE", "web1")
    assert found["salt/beacon/web1/mine/first"] == {"count": 1, "grain": "web1", "id": "web1"}
    refused = fleet.cli("web1", "beacons.add", "load", "[{averages: 1}]", "--out", "json").json()["web1"]
    assert refused["result"] is False
    assert "needs `averages`" in refused["comment"]
    assert fleet.cli("web1", "beacons.delete", "inotify", "--out", "json").json()["web1"]["result"] is True
