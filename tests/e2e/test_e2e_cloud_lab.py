"""`saltlite cloud` with machines of the driver `local`: from three names to three minions, and back to nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import WAIT_S, Fleet, Said, slower, wait_until, write_config
from tests.support.machine import needs_machines, traces, traces_of

pytestmark = [pytest.mark.e2e, needs_machines, pytest.mark.usefixtures("own_network")]

UP_S = 6.0
"""From the command to three answers, on a host that has nothing else to do."""
GONE_S = 2.0
"""The command that destroys them, there too."""


class Lab:
    """A master, and the files of `saltlite cloud` beside it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.config_dir = fleet.folder / "master"
        self.folder = fleet.folder / "cache" / "local"
        fleet.start_master(interface="0.0.0.0")  # noqa: S104 - machines come from networks of their own
        self.write(
            "cloud", root_dir=str(fleet.root("master")), cachedir=str(fleet.folder / "cache"), wait_for_minion=WAIT_S
        )
        self.write("cloud.providers", lab={"driver": "local"})
        self.write("cloud.profiles", small={"provider": "lab", "size": "small"})

    def write(self, file: str, **content: Any) -> None:
        """Write a file of the configuration."""
        write_config(self.config_dir, file, content)

    def cloud(self, *words: str) -> Said:
        """`saltlite cloud words`, to its end."""
        return self.fleet.cli("cloud", *words, "--out", "json")

    def machines(self) -> dict[str, Any]:
        """What -Q lists."""
        found: dict[str, Any] = self.cloud("-Q").json()["lab"]["local"]
        return found

    def begun(self, name: str) -> subprocess.Popen[str]:
        """The command that makes a machine, when the machine has begun to run."""
        process = self.fleet.start_cli("cloud", "-y", "-p", "small", name)
        wait_until((self.folder / "lab" / name / "running.json").exists, f"{name} runs")
        return process


@pytest.fixture
def lab(fleet: Fleet) -> Iterator[Lab]:
    """No machine yet; none is left."""
    lab = Lab(fleet)
    try:
        yield lab
    finally:
        left = os.listdir(lab.folder / "lab") if (lab.folder / "lab").exists() else []
        if left:
            lab.cloud("-y", "-d", *left)


def test_three_machines_are_made_answer_and_go_without_a_trace(lab: Lab) -> None:
    names = ("web1", "web2", "web3")
    began = time.monotonic()
    made = lab.cloud("-P", "-y", "-p", "small", *names)
    assert made.code == 0, made
    assert lab.fleet.cli("web*", "test.ping", "--out", "json").json() == dict.fromkeys(names, True)
    up = time.monotonic() - began
    machines = lab.machines()
    assert (sorted(machines), {one["state"] for one in machines.values()}) == (list(names), {"running"})
    began = time.monotonic()
    gone = lab.cloud("-P", "-y", "-d", *names)
    took = time.monotonic() - began
    assert gone.code == 0, gone
    left = [trace for machine in machines.values() for trace in traces_of(machine["id"])]
    assert (traces(lab.folder), left, lab.machines(), lab.fleet.keys()) == ([], [], {}, {})
    assert "web" not in "".join(str(path) for path in (lab.fleet.folder / "cache").rglob("*"))
    assert (up <= UP_S * slower(), took <= GONE_S * slower()) == (True, True), (up, took, slower())


def test_the_masters_watchers_are_told_in_order_and_no_secret(lab: Lab) -> None:
    assert lab.cloud("-y", "-p", "small", "web1").code == 0
    assert lab.cloud("-y", "-d", "web1").code == 0
    with lab.fleet.store() as store:
        events = [event for event in store.events(0, 10_000) if event.tag.startswith("salt/cloud/web1/")]
    wanted = ["creating", "requesting", "deploying", "created", "destroying", "destroyed"]
    assert [event.tag.rpartition("/")[2] for event in events] == wanted
    assert "slj1." not in repr(events)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_is_ended_in_the_middle_leaves_nothing_that_cannot_be_destroyed(lab: Lab, signum: int) -> None:
    process = lab.begun("web1")
    machine = json.loads((lab.folder / "lab" / "web1" / "machine.json").read_text())
    process.send_signal(signum)
    _, err = process.communicate(timeout=WAIT_S)
    if signum == signal.SIGKILL:
        assert "web1" in lab.cloud("--unfinished").out
        assert lab.cloud("-y", "-d", "web1").code == 0
    else:
        assert process.returncode == 130, err
    assert (traces(lab.folder), traces_of(machine["uid"])) == ([], [])
    assert (lab.machines(), lab.fleet.keys()) == ({}, {})


def test_a_machine_whose_minion_never_comes_up_is_taken_back(lab: Lab) -> None:
    lab.write("cloud.profiles", small={"provider": "lab", "minion": {"master": "10.231.255.254"}, "wait_for_minion": 2})
    said = lab.cloud("-y", "-p", "small", "web1")
    assert (said.code != 0, "web1" in said.err) == (True, True), said
    assert (traces(lab.folder), lab.machines(), lab.fleet.keys()) == ([], {}, {})
    assert "web1" not in lab.cloud("--unfinished").out


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": "huge"}, "there is no size 'huge': take one of tiny, small, medium, large"),
        ({"image": "/no/such"}, "there is no image '/no/such'"),
        ({"inline_script": "exit 7"}, "command 1 of inline_script failed with exit code 7"),
        ({"minion": {"id": "web1", "bogus_option": 1}}, "bogus_option"),
    ],
)
def test_what_cannot_be_is_told_and_leaves_nothing(lab: Lab, settings: dict[str, Any], words: str) -> None:
    lab.write("cloud.profiles", small={"provider": "lab", **settings})
    said = lab.cloud("-y", "-p", "small", "web1")
    assert (said.code != 0, words in said.err) == (True, True), said
    assert (traces(lab.folder), lab.machines(), lab.fleet.keys()) == ([], {}, {})


def test_actions_of_a_machine_end_and_start_its_minion(lab: Lab) -> None:
    assert lab.cloud("-y", "-p", "small", "web1").code == 0
    assert lab.cloud("-y", "-a", "stop", "web1").json()["lab"]["local"]["web1"]["state"] == "stopped"
    wait_until(lambda: "web1" not in lab.fleet.up(), "the master sees it go")
    assert lab.cloud("-y", "-a", "start", "web1").json()["lab"]["local"]["web1"]["state"] == "running"
    lab.fleet.wait_up("web1")
    assert lab.cloud("-a", "show_instance", "web1").json()["lab"]["local"]["web1"]["size"] == "small"


def test_a_map_makes_its_machines_and_destroys_them(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "lab.map"
    file.write_text("small:\n  - db1: {grains: {role: db}}\n  - web1: {grains: {role: web}, requires: [db1]}\n")
    assert lab.cloud("-y", "-P", "-m", str(file)).code == 0
    assert lab.fleet.cli("*", "grains.get", "role", "--out", "json").json() == {"db1": "db", "web1": "web"}
    assert lab.cloud("-y", "-P", "-d", "-m", str(file)).code == 0
    assert (traces(lab.folder), lab.machines(), lab.fleet.keys()) == ([], {}, {})
