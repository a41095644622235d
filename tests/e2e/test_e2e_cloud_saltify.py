"""The driver saltify: a machine behind a real sshd becomes a minion of a real master, and stops being one."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite import __version__
from saltlite.cloud.api import port
from saltlite.cloud.api.exceptions import SaltCloudException, SaltCloudNotFound
from tests.support import sshd
from tests.support.cloud import DeployingProgram, assert_six, injected
from tests.support.fleet import ME, Fleet, Said, slower, wait_until
from tests.support.sshd import Sshd, start_sshd

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sshd.SSHD is None, reason="there is no sshd: install openssh-server"),
]

READY_S = 8.0
"""From the command to a minion that answers, with a virtualenv that is there already, on an idle host."""


class Lab:
    """A master, an sshd, and the driver with one profile that leads there."""

    def __init__(self, folder: Path, fleet: Fleet, server: Sshd) -> None:
        self.fleet = fleet
        self.server = server
        self.machine = folder / "machine"
        self.machine.mkdir()
        profile = {
            "provider": "lab:saltify",
            "ssh_host": "127.0.0.1",
            "ssh_port": server.port,
            "ssh_username": ME,
            "key_filename": str(server.key),
            "install_dir": sys.prefix,
            "minion_dir": str(self.machine / "conf"),
            "minion": {"root_dir": str(self.machine / "root"), "master": fleet.address(), "user": ME},
        }
        opts = {
            "cachedir": str(fleet.root("master") / "var/cache/saltlite/cloud"),
            "providers": {"lab": {"saltify": {"driver": "saltify", "provider": "lab:saltify"}}},
            "profiles": {"shop": profile},
            "query.selection": ["id"],
        }
        self.program = DeployingProgram(opts)
        self.driver: Any = importlib.import_module("saltlite.cloud.drivers.saltify")

    def vm(self, **more: Any) -> dict[str, Any]:
        profile = self.program.opts["profiles"]["shop"]
        own = {"name": "web1", "profile": "shop", "driver": "saltify"}
        return {**profile, **own, "join_token": self.fleet.token("--id", "web1"), **more}

    def minions(self) -> list[int]:
        """First processes of minions on the machine, which are none of the fleet's."""
        note = self.machine / "conf/cloud/pid"
        return [int(note.read_text())] if note.exists() else []


@pytest.fixture
def lab(fleet: Fleet, tmp_path: Path) -> Iterator[Lab]:
    fleet.start_master()
    server = start_sshd(tmp_path / "sshd")
    made = Lab(tmp_path, fleet, server)
    names = {"__opts__": made.program.opts, "__active_provider_name__": "lab:saltify"}
    try:
        with injected(made.driver, names), port.running(made.program):
            yield made
            if made.driver.list_nodes_min():
                made.driver.destroy("web1")
    finally:
        server.stop()


def test_a_machine_becomes_a_minion_and_stops_being_one(lab: Lab) -> None:
    began = time.monotonic()
    done = lab.driver.create(lab.vm(grains={"role": "web"}))
    lab.fleet.wait_up("web1")
    assert lab.fleet.cli("web1", "test.ping", "--out", "json").json() == {"web1": True}
    took = time.monotonic() - began
    print(f"saltify: {took:.2f} s to an answer")
    assert took < READY_S * slower()
    assert lab.server.logins() == 1
    assert lab.fleet.keys() == {"web1": ["accepted"]}
    assert done["deployed"]
    said = lab.fleet.cli("web1", "grains.item", "role", "salt-cloud", "--out", "json").json()["web1"]
    assert said["role"] == "web"
    assert said["salt-cloud"] == {"driver": "saltify", "provider": "lab", "profile": "shop"}
    assert [tag.rpartition("/")[2] for tag in lab.program.tags()] == ["creating", "requesting", "deploying", "created"]

    listed = lab.driver.list_nodes()
    assert_six(listed)
    assert listed["web1"]["private_ips"] == ["127.0.0.1"]
    assert lab.driver.show_instance("web1", call="action")["ssh_port"] == lab.server.port

    assert lab.driver.destroy("web1") == {"id": "web1", "destroyed": True}
    wait_until(lambda: lab.fleet.up() == set(), "the minion is gone")
    assert list(lab.machine.rglob("*")) == []
    assert lab.driver.list_nodes() == {}
    with pytest.raises(SaltCloudNotFound, match="web1 was not made a minion"):
        lab.driver.show_instance("web1", call="action")


def test_what_only_a_map_said_of_a_machine_is_known_when_its_minion_is_taken_back(lab: Lab) -> None:
    vm_ = lab.vm(password="planted-password")
    profile = lab.program.opts["profiles"]["shop"]
    for name in ("ssh_username", "key_filename", "install_dir", "minion_dir", "minion"):
        del profile[name]
    lab.driver.create(vm_)
    assert lab.minions()
    assert "planted" not in str(lab.driver.list_nodes_full())
    lab.driver.destroy("web1")
    assert list(lab.machine.rglob("*")) == []


def test_a_login_that_the_profile_has_anew_is_the_one_that_counts(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(lab.server.key.read_bytes())
    (tmp_path / "old").chmod(0o600)
    profile = lab.program.opts["profiles"]["shop"]
    profile["key_filename"] = str(tmp_path / "old")
    lab.driver.create(lab.vm())
    (tmp_path / "old").unlink()
    profile["key_filename"] = str(lab.server.key)
    lab.driver.destroy("web1")
    assert list(lab.machine.rglob("*")) == []


def test_a_machine_whose_list_is_gone_is_not_said_to_be_clean(lab: Lab) -> None:
    lab.driver.create(lab.vm())
    (pid,) = lab.minions()
    (lab.machine / "conf/cloud/made").unlink()
    with pytest.raises(SaltCloudException, match=r"there is no list .*remove_config_on_destroy: False"):
        lab.driver.destroy("web1")
    assert list(lab.driver.list_nodes_min()) == ["web1"]
    lab.program.opts["profiles"]["shop"]["remove_config_on_destroy"] = False
    lab.driver.destroy("web1")
    assert lab.driver.list_nodes_min() == {}
    os.kill(pid, signal.SIGKILL)


# -- by the command


def cloud(lab: Lab, *words: str, **profile: Any) -> Said:
    """`saltlite cloud` with the profile of the lab, and these settings in it."""
    conf = lab.fleet.folder / "master"
    (conf / "cloud").write_text(json.dumps({"root_dir": str(conf / "root")}))
    for kind, content in (
        ("providers", {"lab": {"driver": "saltify"}}),
        ("profiles", {"shop": {**lab.program.opts["profiles"]["shop"], "provider": "lab", **profile}}),
    ):
        (conf / f"cloud.{kind}.d").mkdir(exist_ok=True)
        (conf / f"cloud.{kind}.d/lab.conf").write_text(json.dumps(content))
    return lab.fleet.cli("cloud", "-y", "--out", "json", *words)


def events(lab: Lab) -> list[tuple[str, dict[str, Any]]]:
    """(tag, data) of the events of machines, in order."""
    with lab.fleet.store() as store:
        return [(one.tag, dict(one.data)) for one in store.events(0, 10**6) if one.tag.startswith("salt/cloud/")]


def test_the_command_makes_a_minion_and_destroys_it(lab: Lab) -> None:
    began = time.monotonic()
    said = cloud(lab, "-p", "shop", "web1", "--show-deploy-args")
    assert said.code == 0, said
    args = said.json()["web1"]["deploy_kwargs"]
    assert (args["host"], args["port"], args["minion_id"]) == ("127.0.0.1", lab.server.port, "web1")
    assert "slj1." not in said.out
    assert lab.fleet.cli("web1", "test.ping", "--out", "json").json() == {"web1": True}
    took = time.monotonic() - began
    print(f"saltlite cloud -p: {took:.2f} s to an answer")
    assert took < READY_S * slower()
    assert lab.server.logins() == 1
    assert [tag.rpartition("/")[2] for tag, _ in events(lab)] == ["creating", "requesting", "deploying", "created"]
    listed = cloud(lab, "-Q").json()
    assert_six(listed["lab"]["saltify"])
    assert list(listed["lab"]["saltify"]) == ["web1"]
    twice = cloud(lab, "-p", "shop", "web1")
    assert twice.code != 0
    assert "web1 already" in twice.err

    gone = cloud(lab, "-d", "web1")
    assert gone.code == 0, gone
    assert lab.fleet.keys() == {}
    assert list(lab.machine.rglob("*")) == []
    assert [tag.rpartition("/")[2] for tag, _ in events(lab)][4:] == ["destroying", "destroyed"]


def test_a_host_without_a_profile_is_bootstrapped_and_destroyed(lab: Lab) -> None:
    profile = lab.program.opts["profiles"]["shop"]
    conf = lab.fleet.folder / "master"
    (conf / "cloud").write_text(json.dumps({"root_dir": str(conf / "root"), "minion": profile["minion"]}))
    names = ("ssh_port", "ssh_username", "key_filename", "install_dir", "minion_dir")
    settings = [f"{name}={profile[name]}" for name in names]
    said = lab.fleet.cli("cloud", "--out", "json", "-b", "127.0.0.1", "web1", *settings)
    assert said.code == 0, said
    assert said.json()["web1"]["deployed"] is True
    assert lab.fleet.cli("web1", "test.ping", "--out", "json").json() == {"web1": True}
    assert list(lab.fleet.cli("cloud", "-Q", "--out", "json").json()["bootstrap"]["saltify"]) == ["web1"]
    wrong = lab.fleet.cli("cloud", "-b", "127.0.0.1", "web2", "ssh_user_name=me")
    assert (wrong.code, "there is no setting 'ssh_user_name': did you mean ssh_username?" in wrong.err) == (2, True)
    assert lab.fleet.cli("cloud", "-b").code == 2
    gone = lab.fleet.cli("cloud", "-y", "-d", "web1")
    assert gone.code == 0, gone
    assert (lab.fleet.keys(), list(lab.machine.rglob("*"))) == ({}, [])


def test_a_script_that_fails_takes_everything_back_and_tells_no_secret(lab: Lab) -> None:
    said = cloud(
        lab, "-p", "shop", "web1",
        password="planted-password", script_env={"API_TOKEN": "planted-token"},
        inline_script=["echo it broke with planted-password >&2; exit 3"],
    )  # fmt: skip
    assert said.code not in (0, 1, 2), said
    assert "command 1 of inline_script failed" in said.err
    assert lab.fleet.keys() == {}
    assert list(lab.machine.rglob("*")) == []
    assert cloud(lab, "--unfinished").json() == {}
    written = said.out + said.err + repr(events(lab)) + lab.fleet.logs()
    assert "planted" not in written


def test_saltlite_travels_to_a_machine_that_has_none(lab: Lab) -> None:
    own = {"install_dir": str(lab.machine / "venv"), "deploy_timeout": 50}
    said = cloud(lab, "-p", "shop", "web1", **own)
    assert said.code == 0, said
    assert lab.fleet.cli("web1", "test.version", "--out", "json").json() == {"web1": __version__}
    where = lab.fleet.cli("web1", "cmd.run", "readlink /proc/$PPID/exe; cat /proc/$PPID/cmdline", "--out", "json")
    assert own["install_dir"] in where.json()["web1"]
    assert cloud(lab, "-d", "web1", **own).code == 0
    assert list(lab.machine.rglob("*")) == []


def test_what_a_killed_command_left_is_shown_and_cleaned(lab: Lab) -> None:
    # It reaches no master, so the deployment is under way for long.
    away = {"minion": {**lab.vm()["minion"], "master": "127.0.0.1:1"}, "start_timeout": 60}
    cloud(lab, "-Q", **away)
    with lab.fleet.start_cli("cloud", "-p", "shop", "web1", "-y") as command:
        wait_until(lambda: command.poll() is not None or lab.minions(), "the minion was started")
        command.kill()
        assert command.wait() == -signal.SIGKILL, command.communicate()
    shown = cloud(lab, "--unfinished", **away)
    assert "web1" in shown.out, shown
    cleaned = cloud(lab, "--clean", "-y", **away)
    assert cleaned.code == 0, cleaned
    assert list(lab.machine.rglob("*")) == []
    assert lab.driver.list_nodes() == {}
    assert "web1" not in cloud(lab, "--unfinished", **away).out


def test_a_machine_that_is_gone_can_be_forgotten(lab: Lab) -> None:
    assert cloud(lab, "-p", "shop", "web1").code == 0
    lab.server.stop()
    said = cloud(lab, "-d", "web1", ssh_timeout=1)
    assert said.code != 0
    assert "remove_config_on_destroy" in said.err
    assert list(lab.driver.list_nodes_min()) == ["web1"]
    assert cloud(lab, "-d", "web1", remove_config_on_destroy=False).code == 0
    assert lab.fleet.keys() == {}
    for pid in lab.minions():
        os.kill(pid, signal.SIGKILL)


# -- by the driver


def test_a_deployment_that_fails_leaves_no_minion_and_no_machine(lab: Lab) -> None:
    with pytest.raises(SaltCloudException, match="has not reached its master within 2 s"):
        lab.driver.create(lab.vm(minion={**lab.vm()["minion"], "master": "127.0.0.1:1"}, start_timeout=2))
    assert list(lab.machine.rglob("*")) == []
    assert lab.driver.list_nodes() == {}
    assert lab.fleet.keys() == {}


def test_a_token_that_does_not_count_is_told(lab: Lab) -> None:
    vm_ = lab.vm(join_token=lab.fleet.token("--expires", "0.001"), start_timeout=2)
    with pytest.raises(SaltCloudException, match=r"the minion (ended|runs)|does not accept the join token"):
        lab.driver.create(vm_)
    assert list(lab.machine.rglob("*")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user that is none of ours")
def test_a_wrong_password_leaves_nothing(lab: Lab) -> None:
    with pytest.raises(SaltCloudException, match="permission denied") as caught:
        lab.driver.create(lab.vm(ssh_username=sshd.USER, key_filename=None, password="wrong-as-can-be"))
    assert "wrong-as-can-be" not in str(caught.value)
    assert lab.driver.list_nodes() == {}
