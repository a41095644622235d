"""The parts of a deployment that need no machine: waiting, wheels, uploads, Windows, what a shell reads."""

from __future__ import annotations

import io
import os
import re
import stat
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from saltlite import __version__
from saltlite.cloud.api import port
from saltlite.cloud.api.exceptions import (
    SaltCloudConfigError,
    SaltCloudExecutionFailure,
    SaltCloudExecutionTimeout,
    SaltCloudPasswordError,
)
from saltlite.cloud.deploy import settings, upload
from saltlite.cloud.deploy.bootstrap import DENIED_PAUSE_S, PAUSE_MAX_S, script_text, until_let_in
from saltlite.cloud.deploy.offer import INSTALLER, bundle_of
from saltlite.cloud.deploy.settings import Readings, deployment_of
from saltlite.cloud.deploy.upload import BYTES_MAX, Upload
from saltlite.errors import RefusedError, UsageError
from saltlite.resources.types.ssh._client import NotReachedError
from tests.support.cloud import Program


class Clock:
    """A clock that passes by sleeping only."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def waited(attempts: list[Any], **limits: Any) -> tuple[Any, Clock]:
    """What comes of attempts that end so, one after the other; the last one again and again."""
    clock = Clock()

    def attempt() -> Any:
        ending = attempts.pop(0) if len(attempts) > 1 else attempts[0]
        if isinstance(ending, Exception):
            raise ending
        return ending

    given = {"within_s": 60.0, "denials": 3} | limits
    return until_let_in(attempt, clock=lambda: clock.now, sleep=clock.sleep, **given), clock


STARTING = NotReachedError("web1: connection refused.", passing=True)
DENIED = NotReachedError("web1: permission denied.", denied=True)


def test_a_machine_that_starts_is_tried_with_growing_pauses() -> None:
    got, clock = waited([*[STARTING] * 12, "in"])
    assert got == "in"
    assert clock.slept == sorted(clock.slept)
    assert clock.slept[-1] == PAUSE_MAX_S


def test_a_machine_that_never_comes_up_costs_its_time_and_no_more() -> None:
    clock = Clock()

    def refuse() -> None:
        raise STARTING

    with pytest.raises(SaltCloudExecutionTimeout, match=r"connection refused; tried for 60 s\."):
        until_let_in(refuse, within_s=60, denials=1, clock=lambda: clock.now, sleep=clock.sleep)
    assert 60 - PAUSE_MAX_S <= clock.now <= 60


def test_a_login_may_be_denied_as_often_as_is_said() -> None:
    got, clock = waited([DENIED, DENIED, "in"])
    assert (got, clock.slept) == ("in", [DENIED_PAUSE_S] * 2)
    with pytest.raises(SaltCloudPasswordError, match="permission denied"):
        waited([DENIED, DENIED, DENIED, "in"])


def test_what_does_not_get_better_by_waiting_ends_it_at_once() -> None:
    with pytest.raises(SaltCloudExecutionFailure, match="host key changed"):
        waited([NotReachedError("web1: host key changed."), "in"])


def test_the_wheel_of_saltlite_holds_what_is_imported_and_installs(tmp_path: Path) -> None:
    made = upload.own_wheel()
    assert made.name == f"saltlite-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(io.BytesIO(made.data)) as archive:
        assert archive.testzip() is None
        names = set(archive.namelist())
        recorded = {line.split(",")[0] for line in _text(archive, "RECORD").splitlines()}
        entry_points = _text(archive, "entry_points.txt")
        command = archive.getinfo(f"saltlite-{__version__}.data/scripts/saltlite")
        archive.extractall(tmp_path)  # noqa: S202 - made here
    assert recorded == names
    assert {"saltlite/minion/processes/app.py", "saltlite_minion.py", "saltlite/cloud/deploy/deploy.sh"} <= names
    assert not any("__pycache__" in name for name in names)
    assert "saltlite-minion = saltlite_minion:main" in entry_points
    mode = command.external_attr >> 16
    assert stat.S_ISREG(mode)  # pip makes it executable only then
    assert mode & 0o111
    said = subprocess.run(
        [sys.executable, "-S", "-c", "import saltlite; print(saltlite.__version__, saltlite.__file__)"],
        cwd="/",  # a folder of modules otherwise, which would come first
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == [__version__, str(tmp_path / "saltlite/__init__.py")]


def test_every_requirement_travels_to_a_machine_of_the_same_kind_only() -> None:
    here = upload.this_kind()
    names = {each.name.split("-")[0].lower() for each in upload.travelling(here, "")[0]}
    assert {"saltlite", "pyzmq", "msgpack", "pyyaml", "cryptography", "cffi", "tornado"} <= names
    for other in (upload.Kind("cpython-312-x86_64-linux-gnu", here.libc), upload.Kind(here.abi, (2, 1))):
        wheels, complete = upload.travelling(other, "")
        assert not complete
        assert {each.name.split("-")[0] for each in wheels} <= {"saltlite", "pip"}


def test_the_wheels_of_a_folder_travel_to_machines_of_another_kind(tmp_path: Path) -> None:
    (tmp_path / "some-1.0-py3-none-any.whl").write_bytes(b"x")
    (tmp_path / "saltlite-0.0.0-py3-none-any.whl").write_bytes(b"old")
    (tmp_path / "notes.txt").write_text("no wheel")
    wheels, complete = upload.travelling(upload.Kind("cpython-313-aarch64-linux-gnu", (2, 36)), str(tmp_path))
    assert complete
    names = [each.name for each in wheels]
    assert "some-1.0-py3-none-any.whl" in names
    assert "saltlite-0.0.0-py3-none-any.whl" not in names
    assert "notes.txt" not in names


@pytest.mark.parametrize("name", ["", "wheels", "wheels/x-1-py3-none-any.whl"])
def test_no_bundle_has_wheels_that_others_may_have_put_there(tmp_path: Path, name: str) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "wheels").mkdir(mode=0o755)
    (tmp_path / "wheels/x-1-py3-none-any.whl").touch(0o644)
    (tmp_path / name).chmod(0o777)
    with pytest.raises(RefusedError, match=f"others may write to {tmp_path / name},"):
        bundle_of(str(tmp_path / "wheels"))


def test_the_installer_names_a_command_without_the_token_and_takes_no_id_of_the_environment() -> None:
    text = resources.files("saltlite.cloud.deploy").joinpath(INSTALLER).read_text(encoding="utf-8")

    def run(script: str) -> str:
        done = subprocess.run(
            ["sh", "-c", script], capture_output=True, text=True, check=False, env={**os.environ, "ID": "web9"}
        )
        return done.stdout + done.stderr

    assert "| JOIN_TOKEN=... sudo --preserve-env=JOIN_TOKEN sh\n" in run(f"id() {{ echo 1; }}\n{text}")
    assert run(f'{text.rstrip().removesuffix("main")}echo "${{ID-none}}"') == "none\n"


def test_the_unit_starts_the_command_that_was_installed() -> None:
    lines = upload.unit_text("/srv/venv/bin/saltlite-minion", "/srv/conf").splitlines()
    assert "ExecStart=/srv/venv/bin/saltlite-minion -c /srv/conf" in lines
    assert "Type=notify" in lines


def test_an_upload_belongs_to_nobody_and_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_text("content")
    os.mkfifo(tmp_path / "tree/pipe")
    upload = Upload()
    upload.add("secret", "text")
    upload.add_tree("files/1/tree", str(tmp_path / "tree"))
    with tarfile.open(fileobj=io.BytesIO(upload.stream())) as tar:
        members = {member.name: member for member in tar.getmembers()}
    assert set(members) == {"secret", "files/1/tree", "files/1/tree/file"}
    assert members["secret"].mode == 0o600
    assert {(member.uid, member.uname) for member in members.values()} == {(0, "")}


def test_an_upload_has_a_limit(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(BYTES_MAX + 1)
    with pytest.raises(SaltCloudExecutionFailure, match="more than 512 MiB"):
        Upload().add_tree("large", str(large))


@pytest.mark.parametrize("value", ["plain", "", "it's", 'a "b" $HOME `id` \\', "two\nlines", "-n", "ä"])
def test_a_shell_reads_settings_as_they_are(value: str) -> None:
    text = upload.assignments({"VALUE": value}) + 'printf %s "$VALUE"'
    said = subprocess.run(["/bin/sh", "-c", text], capture_output=True, check=True)
    assert said.stdout.decode() == value


def test_windows_parameters_are_read_and_the_deployment_refused() -> None:
    vm_ = {"name": "win1", "ssh_host": "192.0.2.9", "win_username": "Admin", "win_password": "hidden-here"}
    assert settings.is_windows(vm_)
    assert not settings.is_windows({"name": "web1", "win_password": "alone"})
    given = settings.parameters({**vm_, "use_winrm": False, "win_deploy_auth_retries": 3})
    assert (given["port"], given["auth_retries"], given["auth_retry_delay"]) == (445, 3, 1.0)
    refused = str(settings.refuse(vm_))
    assert "WinRM port 5986 as Admin" in refused
    assert "hidden-here" not in refused
    with pytest.raises(SaltCloudConfigError, match="win_deploy_auth_retries is 0"):
        settings.parameters({**vm_, "win_deploy_auth_retries": 0})


@pytest.mark.parametrize(
    ("driver", "settings", "offered"),
    [
        ("openstack", {"password": "of-the-api"}, None),
        ("openstack", {"password": "of-the-machine"}, "of-the-machine"),
        ("openstack", {"ssh_password": "of-the-api"}, "of-the-api"),
        ("saltify", {"password": "of-the-api"}, "of-the-api"),
    ],
)
def test_what_a_provider_is_logged_in_to_with_is_offered_to_no_machine(
    driver: str, settings: dict[str, Any], offered: str | None, tmp_path: Path
) -> None:
    opts = {"cachedir": str(tmp_path), "providers": {"lab": {driver: {"password": "of-the-api", "port": 5000}}}}
    vm_ = {"name": "web1", "provider": f"lab:{driver}", "ssh_host": "192.0.2.1", "port": 5000, **settings}
    with port.running(Program(opts)):
        host = deployment_of(vm_, opts).login.host
    assert (host.passwd, host.port) == (offered, 22)


def test_the_text_of_a_script_needs_no_machine(tmp_path: Path) -> None:
    assert "wait_until_it_works" in script_text({"name": "web1"}, {})
    (tmp_path / "mine.sh").write_text("echo mine\n")
    opts = {"deploy_scripts_search_path": [str(tmp_path)]}
    assert script_text({"name": "web1", "script": "mine"}, opts) == "echo mine\n"


@pytest.mark.parametrize(("value", "seconds"), [(30, 30.0), (0.5, 0.5), ("5m", 300.0), (None, 7.0)])
def test_times_are_seconds_or_text(value: Any, seconds: float) -> None:
    assert Readings({"name": "web1", "ssh_timeout": value}).seconds("ssh_timeout", 7.0) == seconds


@pytest.mark.parametrize(
    "read",
    [
        lambda read: read.seconds("x", 1.0),
        lambda read: read.whole("x", 1, 10),
        lambda read: read.flag("x"),
        lambda read: read.path("x", "/"),
        lambda read: read.mapping("x"),
    ],
)
def test_a_setting_of_another_kind_is_named_with_its_profile(read: Callable[[Readings], Any]) -> None:
    with pytest.raises(SaltCloudConfigError, match=r"^web1: the setting x .*\(profile shop\)$"):
        read(Readings({"name": "web1", "profile": "shop", "x": "what"}))


def _text(archive: zipfile.ZipFile, name: str) -> str:
    return archive.read(f"saltlite-{__version__}.dist-info/{name}").decode()


def test_a_setting_of_the_command_line_stays_text_unless_its_reader_takes_another_type() -> None:
    assert [settings.typed("ssh_username", text) for text in ("0123", "true", "9" * 5000)] == [
        "0123", "true", "9" * 5000,
    ]  # fmt: skip
    assert (settings.typed("ssh_port", "2222"), settings.typed("sudo", "False")) == (2222, False)
    for name, text in (("ssh_port", "9" * 5000), ("ssh_port", "²"), ("sudo", "yes")):
        with pytest.raises(UsageError, match=f"{name}=.*: it must be") as caught:
            settings.typed(name, text)
        assert len(str(caught.value)) < 200
    assert settings.credentials_of("https://[me:planted") == ("https://[me:planted",)
    source = Path(settings.__file__).read_text(encoding="utf-8")
    assert set(re.findall(r'read\.flag\("(\w+)"', source)) <= set(settings.FLAGS)
    assert set(re.findall(r'read\.whole\("(\w+)"', source)) <= set(settings.NUMBERS)
