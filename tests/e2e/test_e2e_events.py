"""Events from where they are made to who sees them: minions, people, runners."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fleet import BIN, Fleet

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("events"))
    try:
        fleet.start_master()
        fleet.join("web1", "db1")
        yield fleet
    finally:
        fleet.close()


def events(fleet: Fleet, pattern: str, count: int) -> list[dict[str, Any]]:
    """The first events of this fleet with such a tag."""
    said = fleet.cli("events", pattern, "--since", "0", "--count", str(count), "--out", "jsonl")
    return [json.loads(line) for line in said.out.splitlines()]


def test_an_event_of_a_minion_is_in_the_log_when_the_function_returns_and_stands_below_its_name(fleet: Fleet) -> None:
    said = fleet.cli("web1", "event.send", "app/deployed", '{"version": 2}', "by=me", "--out", "json")
    assert said.json() == {"web1": True}
    (event,) = events(fleet, "minion/web1/app/deployed", 1)
    about = event["data"]
    jid = about.pop("jid")
    assert about == {"id": "web1", "tag": "app/deployed", "data": {"version": 2, "by": "me"}}
    assert fleet.cli("job", "show", jid).code == 0


def test_a_minion_cannot_speak_as_the_master_or_as_another_minion(fleet: Fleet) -> None:
    for tag in ("salt/job/20261121000000000000/ret/db1", "minion/db1/x", "minion/web1/own"):
        assert fleet.cli("web1", "event.send", tag, "--out", "json").json() == {"web1": True}
    tags = [event["tag"] for event in events(fleet, "minion/web1/[!a]*", 3)]
    assert tags == [
        "minion/web1/salt/job/20261121000000000000/ret/db1",
        "minion/web1/minion/db1/x",
        "minion/web1/own",
    ]


def test_what_is_no_event_is_refused_with_a_sentence(fleet: Fleet) -> None:
    said = fleet.cli("web1", "event.send", "big", f"text={'x' * 33_000}")
    assert said.code == 4
    assert "at most 32 KiB" in said.out


def test_saltlite_call_hands_an_event_to_the_running_minion(fleet: Fleet) -> None:
    said = run(fleet, "web1", "call", "event.fire_master", "done: just a text", "from/text", "--out", "json")
    assert json.loads(said) == {"local": True}
    (event,) = events(fleet, "minion/web1/from/text", 1)
    assert event["data"] == {"id": "web1", "tag": "from/text", "data": "done: just a text"}
    said = run(fleet, "web1", "call", "event.send", "from/call", "n=1", "--out", "json")
    assert json.loads(said) == {"local": True}
    (event,) = events(fleet, "minion/web1/from/call", 1)
    assert event["data"] == {"id": "web1", "tag": "from/call", "data": {"n": 1}}


def test_a_runner_listens_for_events_by_tag_and_data_and_gives_up_in_time(fleet: Fleet) -> None:
    for number in (1, 2):
        assert fleet.cli("web1", "event.send", "step", f"n={number}").code == 0
    words = ["runner", "event.listen", "minion/*/step", "since=600", "--out", "json"]
    found = fleet.cli(*words, "data={data.n: 2}").json()
    assert [event["data"]["data"] for event in found] == [{"n": 2}]
    assert fleet.cli(*words, "count=3", "timeout=2").json()[1]["data"]["data"] == {"n": 2}


def test_people_send_events_but_not_under_the_tags_of_the_master(fleet: Fleet) -> None:
    assert fleet.cli("runner", "event.send", "app/released", "version=3").code == 0
    (event,) = events(fleet, "app/*", 1)
    assert event["data"]["version"] == 3
    assert event["data"]["_user"]
    refused = fleet.cli("runner", "event.send", "salt/minion/web1/start")
    assert refused.code == 4
    assert "written by the master alone" in refused.out


def run(fleet: Fleet, minion: str, *words: str) -> str:
    """stdout of `saltlite words` with the configuration of a minion."""
    done = subprocess.run(
        [BIN / "saltlite", *words, "-c", fleet.folder / minion],
        capture_output=True,
        text=True,
        check=False,
        env=fleet.environment(),
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout
