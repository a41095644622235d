"""What minions do by themselves, on a real fleet."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet import BIN, Fleet

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("automation"))
    try:
        fleet.start_master(peer={"web.*": [{"db1": ["test.*", "publish.publish"]}]})
        fleet.join("web1", "db1")
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
    assert [(job["fun"], job["user"]) for job in jobs.values()] == [("test.kwarg", "minion:web1")]


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
