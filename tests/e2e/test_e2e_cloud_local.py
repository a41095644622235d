"""The driver `local` with a real master: its machines become minions, and nothing is left of them."""

from __future__ import annotations

import contextlib
import contextvars
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cloud.api.exceptions import SaltCloudConfigError, SaltCloudException
from tests.support.cloud import Program, assert_six, loaded, machine
from tests.support.fleet import Fleet, slower, wait_until
from tests.support.machine import needs_machines, traces, traces_of

pytestmark = [pytest.mark.e2e, needs_machines, pytest.mark.usefixtures("own_network")]

SOURCES = Path(__file__).parents[2]
UP_S = 6.0
"""From three profiles to three answers, on a host that has nothing else to do."""
GONE_S = 2.0
"""From three machines to nothing, there too."""


class Lab:
    """The driver, called as the program does, with a master that its machines reach."""

    def __init__(self, fleet: Fleet, driver: Any, program: Program) -> None:
        self.fleet = fleet
        self.driver = driver
        self.program = program

    def create(self, *names: str, **settings: Any) -> dict[str, Any]:
        """Make these machines at the same time; what the driver answers, or the error."""
        answers: dict[str, Any] = {}

        def make(name: str) -> None:
            minion = {"port": int(self.fleet.address().rpartition(":")[2]), **settings.get("minion", {})}
            vm_ = machine("local", name, join_token=self.fleet.token("--id", name), **{**settings, "minion": minion})
            try:
                answers[name] = self.driver.create(vm_)
            except SaltCloudException as error:
                answers[name] = error

        threads = [threading.Thread(target=contextvars.copy_context().run, args=(make, name)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return answers

    def made(self, *names: str, **settings: Any) -> dict[str, Any]:
        """Make these machines, and wait until their minions are up."""
        answers = self.create(*names, **settings)
        errors = [answer for answer in answers.values() if isinstance(answer, Exception)]
        assert not errors, errors
        self.fleet.wait_up(*names)
        return answers

    def ask(self, target: str, fun: str, *words: str) -> Any:
        """What the minions answer."""
        return self.fleet.cli(target, fun, *words, "--out", "json").json()


@pytest.fixture
def lab(fleet: Fleet, tmp_path: Path) -> Iterator[Lab]:
    """No machine yet; none is left."""
    with loaded("local", {}, cachedir=str(tmp_path / "cache"), config_dir=str(tmp_path / "master")) as (
        driver,
        program,
    ):
        fleet.start_master(interface="0.0.0.0")  # noqa: S104 - machines come from networks of their own
        try:
            yield Lab(fleet, driver, program)
        finally:
            for name in driver.list_nodes():
                driver.destroy(name)


def test_three_machines_answer_soon_and_go_without_a_trace(lab: Lab, tmp_path: Path) -> None:
    began = time.monotonic()
    made = lab.made("web1", "web2", "web3")
    assert lab.ask("web*", "test.ping") == {"web1": True, "web2": True, "web3": True}
    took = time.monotonic() - began
    assert lab.ask("web*", "cmd.run", "hostname") == {name: name for name in made}
    assert_six(lab.driver.list_nodes())
    began = time.monotonic()
    for name in made:
        lab.driver.destroy(name, call="action")
    gone = time.monotonic() - began
    left = [trace for answer in made.values() for trace in traces_of(answer["id"])]
    assert (lab.driver.list_nodes(), traces(tmp_path / "cache"), left) == ({}, [str(tmp_path / "cache" / "local")], [])
    assert (took <= UP_S * slower(), gone <= GONE_S * slower()) == (True, True), (took, gone, slower())


def test_the_events_come_in_order_and_none_has_the_token(lab: Lab) -> None:
    lab.made("web1", grains={"role": "web"})
    lab.driver.destroy("web1")
    wanted = ["creating", "requesting", "deploying", "created", "destroying", "destroyed"]
    assert lab.program.tags() == [f"salt/cloud/web1/{tag}" for tag in wanted]
    assert not [event for event in lab.program.events for secret in lab.fleet.secrets if secret in str(event)]


def test_the_token_is_in_no_command_line_and_in_no_environment(lab: Lab) -> None:
    lab.made("web1")
    assert list(everything_that_runs(lab.fleet.secrets)) == []


def everything_that_runs(texts: list[str]) -> Iterator[str]:
    """The files of /proc that anybody with `ps` reads, and that have one of the texts in them."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for file in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                content = Path(f"/proc/{pid}/{file}").read_text(errors="replace")
                yield from (f"{pid}/{file}" for text in texts if text in content)


def test_the_minion_has_the_grains_and_the_options_of_its_machine(lab: Lab) -> None:
    lab.made("web1", grains={"role": "web"}, minion={"id": "web1", "log_level": "debug"})
    assert lab.ask("web1", "grains.item", "role", "salt-cloud") == {
        "web1": {"role": "web", "salt-cloud": {"driver": "local", "profile": "small", "provider": "lab"}}
    }


def test_a_machine_sees_nothing_of_the_master_on_this_host(lab: Lab) -> None:
    lab.made("web1")
    for folder in (lab.fleet.root("master"), "/tmp/*pytest*"):
        assert "No such file" in lab.ask("web1", "cmd.run", f"ls -d {folder}")["web1"]
    assert lab.ask("web1", "cmd.run", "ls /var/lib/saltlite")["web1"].split() == ["minion"]


def test_a_stopped_machine_comes_back_as_the_same_minion(lab: Lab) -> None:
    made = lab.made("web1")["web1"]
    assert lab.driver.stop("web1", call="action")["state"] == "stopped"
    wait_until(lambda: "web1" not in lab.fleet.up(), "the master sees it go")
    assert lab.driver.show_instance("web1", call="action")["private_ips"] == made["private_ips"]
    assert lab.driver.start("web1", call="action")["state"] == "running"
    lab.fleet.wait_up("web1")
    assert lab.driver.reboot("web1", call="action")["id"] == made["id"]
    wait_until(lambda: lab.ask("web1", "test.ping") == {"web1": True}, "it answers again")
    assert lab.fleet.keys() == {"web1": ["accepted"]}


def test_ones_own_steps_are_done_in_their_order(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "files" / "below").mkdir(parents=True)
    (tmp_path / "files" / "below" / "one").write_text("1")
    (tmp_path / "single").write_text("2")
    lab.made(
        "web1",
        preflight_cmds=["ls /srv/files > /var/before 2>&1 || true; cat /proc/*/cmdline > /var/ran  # hunter2"],
        file_map={str(tmp_path / "files"): "/srv/files", str(tmp_path / "single"): "/srv/other"},
        inline_script=["cat /srv/files/below/one /srv/other > /var/after"],
    )
    said = lab.ask("web1", "cmd.run", "cat /var/before /var/after")["web1"]
    assert ("No such file" in said, said[-2:]) == (True, "12")
    assert lab.ask("web1", "cmd.run", "grep -a -c command /var/ran; grep -a -c hunter2 /var/ran") == {"web1": "1\n0"}


def test_a_script_of_ones_own_finds_the_configuration_and_its_arguments(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '#!/bin/sh\necho "$@" > /var/said; cd "$2"; (echo "$VARIABLE"; ls grains join_token minion) >> /var/said\n'
    monkeypatch.setattr(lab.program, "script", lambda vm_: text)
    lab.create(
        "web1",
        script="mine",
        script_args="-x 'two words'",
        script_env={"VARIABLE": "c"},
        inline_script="test -s /var/said && cp /var/said /var/copy",
    )
    machines = lab.driver._machines()
    assert machines.run("web1", ["ls", "/run"])[1] == ""
    assert (
        machines.run("web1", ["cat", "/var/copy"])[1]
        == "-c /run/saltlite-deploy -x two words\nc\ngrains\njoin_token\nminion\n"
    )
    assert lab.driver.show_console("web1", call="action") == ""


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {"preflight_cmds": "echo out of tea >&2; exit 3"},
            "web1: command 1 of preflight_cmds failed with exit code 3: out of tea",
        ),
        (
            {"inline_script": ["true", "false"]},
            "web1: command 2 of inline_script failed with exit code 1: it wrote nothing",
        ),
        (
            {"file_map": {"/etc/hostname": "/proc/nowhere/file"}},
            "web1 does not take files: /proc/nowhere/file: No such",
        ),
    ],
)
def test_a_step_that_fails_is_told_and_leaves_a_machine_to_destroy(
    lab: Lab, settings: dict[str, Any], words: str
) -> None:
    error = lab.create("web1", **settings)["web1"]
    assert isinstance(error, SaltCloudException)
    assert words in str(error)
    assert list(lab.driver.list_nodes()) == ["web1"]
    assert lab.program.tags()[-1].endswith("deploying")


def test_files_that_are_not_there_are_named(lab: Lab) -> None:
    with pytest.raises(SaltCloudConfigError, match="file_map has /no/such, which cannot be read: No such file"):
        lab.driver.create(machine("local", "web1", file_map={"/no/such": "/srv/x"}))
    assert lab.driver.list_nodes() == {}


def test_without_deploy_there_is_a_machine_and_no_minion(lab: Lab) -> None:
    answer = lab.create("web1", deploy=False, inline_script=["test ! -e /etc/saltlite/minion"])["web1"]
    assert answer["state"] == "running"
    assert lab.fleet.keys() == {}
    assert "salt/cloud/web1/deploying" not in lab.program.tags()


def test_an_image_with_a_minion_of_its_own_runs_that_one(lab: Lab, tmp_path: Path) -> None:
    image, shown = image_of(tmp_path)
    command = image / "opt" / "own" / "saltlite-minion"
    command.parent.mkdir(parents=True)
    path = f"{SOURCES}:{SOURCES}/daemons"
    command.write_text(f'#!/bin/sh\nexport PYTHONPATH={path}\nexec {sys.executable} -m saltlite_minion "$@"\n')
    command.chmod(0o755)
    (image / "sbin").unlink(missing_ok=True)
    (image / "sbin").symlink_to("/opt/own")
    needed = [folder for folder in (sys.prefix, sys.base_prefix, str(SOURCES)) if folder not in ("/usr", "/usr/local")]
    lab.made("web1", image=str(image), show_folders=[*shown, *needed])
    assert lab.ask("web1", "cmd.run", "hostname; ls -A /var/lib") == {"web1": "web1\nsaltlite"}
    assert sorted(path.name for path in (image / "etc").iterdir()) == ["passwd"]


def image_of(folder: Path) -> tuple[Path, list[str]]:
    """A folder with a root that has nothing but what it is shown of this host; and those folders."""
    image = folder / "image"
    (image / "etc").mkdir(parents=True)
    (image / "etc" / "passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    names = [name for name in ("bin", "sbin", "lib", "lib64") if Path("/", name).is_symlink()]
    for name in names:
        (image / name).symlink_to(os.readlink(f"/{name}"))
    return image, [
        f"/{name}" for name in ("usr", "bin", "sbin", "lib", "lib64") if name not in names and Path("/", name).is_dir()
    ]


def test_an_image_without_a_minion_says_what_to_do(lab: Lab, tmp_path: Path) -> None:
    image, shown = image_of(tmp_path)
    error = lab.create("web1", image=str(image), show_folders=shown)["web1"]
    assert "has no command saltlite-minion: install saltlite in it" in str(error)


def test_a_name_that_is_taken_is_left_alone(lab: Lab) -> None:
    made = lab.create("web1", deploy=False)["web1"]
    error = lab.create("web1", deploy=False)["web1"]
    assert "there is already a machine 'web1'" in str(error)
    assert lab.driver.list_nodes()["web1"]["id"] == made["id"]
    assert lab.program.tags().count("salt/cloud/web1/creating") == 1
