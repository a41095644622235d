"""What callers of `CloudClient`, who may have no shell on this host, cannot have done there."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.client.local import LocalClient
from saltlite.cloud.program.app import CloudClient, open_program
from saltlite.cloud.program.program import Program
from saltlite.cloud.rules.catalogue import Profile, Provider, Settings, of_this_host
from saltlite.errors import CommandExecutionError
from tests.support.cloud import DRIVER
from tests.support.modules import loader_over, write


@pytest.fixture(autouse=True)
def _restored_logs() -> Iterator[None]:
    """An open program takes its secrets out of what all handlers write, and those of this process outlive the test."""
    before = {handler: handler.filters[:] for handler in logging.getLogger().handlers}
    yield
    for handler, filters in before.items():
        handler.filters = filters


def client(folder: Path) -> CloudClient:
    """With a configuration of nothing but its folders; no master is asked."""
    (folder / "cloud").write_text(f"root_dir: {folder}\n")
    (folder / "master").write_text(f"root_dir: {folder}\n")
    (folder / "cloud.maps.d").mkdir()
    return CloudClient(str(folder), LocalClient(str(folder / "no-socket")), foreign=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssh_options", ["ProxyCommand=touch x"]),
        ("file_map", {"/etc/shadow": "/tmp/x"}),
        ("wheel_dir", "wheels"),
        ("script", "/etc/shadow"),
        ("script", "../../shadow"),
        ("userdata_file", "x"),
        ("key_filename", "x"),
        ("private_key", "x"),
        ("ssh_known_hosts", "x"),
        ("ssh_agent", True),
        ("show_folders", ["/root"]),
        ("hide_folders", []),
        ("image", "/root"),
        ("image", "~/x"),
        ("some_new_setting", [{"a": "/etc/shadow"}]),
        ("file", "x"),
    ],
)
def test_settings_about_this_host_are_refused_wherever_they_can_be_given(tmp_path: Path, name: str, value: Any) -> None:
    asked = client(tmp_path)
    asks: tuple[Callable[[], Any], ...] = (
        lambda: asked.profile("small", ["a"], **{name: value}),
        lambda: asked.map_run("web.map", **{name: value}),
        lambda: asked.action("start", ["a"], **{name: value}),
        lambda: asked.function("create_keypair", "lab", **{name: value}),
    )
    for ask in asks:
        with pytest.raises(CommandExecutionError, match="not taken from callers; write them into the profile"):
            ask()


def test_settings_about_the_machine_are_taken() -> None:
    settings = {
        "size": "small", "image": "debian-cloud/debian-12", "minion_dir": "/etc/saltlite", "tmp_dir": "/var/tmp",
        "script": "mine", "script_args": "-x", "inline_script": ["/bin/true"], "preflight_cmds": ["/bin/true"],
        "ssh_host": "192.0.2.1", "keyname": "k",
        "minion": {"pki_dir": "/etc/x", "log_file": "/var/log/x"}, "grains": {"place": "/srv"},
    }  # fmt: skip
    assert of_this_host(settings) == []


@pytest.mark.parametrize("name", ["/etc/shadow", "../cloud.providers", "", ".."])
def test_a_map_is_named_and_stands_in_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(CommandExecutionError, match=r"is not a name of a map: .* a file in cloud\.maps\.d"):
        client(tmp_path).map_run(name)


def test_a_map_of_the_folder_is_read(tmp_path: Path) -> None:
    asked = client(tmp_path)
    (tmp_path / "cloud.maps.d/web.map").write_text("nowhere: [web1]\n")
    with pytest.raises(CommandExecutionError, match="nowhere"):
        asked.map_run("web.map")


def test_destroy_is_no_action(tmp_path: Path) -> None:
    with pytest.raises(CommandExecutionError, match=r"cloud\.destroy"):
        client(tmp_path).action("destroy", ["a"])


def test_providers_and_profiles_are_listed_without_their_secrets(tmp_path: Path) -> None:
    (tmp_path / "master").write_text(f"root_dir: {tmp_path}\n")
    (tmp_path / "cloud").write_text("")
    (tmp_path / "cloud.providers").write_text("lab: {driver: local, password: planted-password}\n")
    (tmp_path / "cloud.profiles").write_text("small: {provider: lab, size: small, password: planted-password}\n")
    for name in ("cloud.providers", "cloud.profiles"):
        (tmp_path / name).chmod(0o600)
    asked = CloudClient(str(tmp_path), LocalClient(str(tmp_path / "no-socket")), foreign=True)
    assert asked.list_providers() == {"lab": {"local": {"written": f"{tmp_path}/cloud.providers:1"}}}
    found = asked.list_profiles("lab")
    assert found["lab"]["local"]["small"]["size"] == "small"
    assert "planted-password" not in str(found)
    with pytest.raises(CommandExecutionError, match="there is no provider 'nowhere'"):
        asked.list_profiles("nowhere")


# -- the program that it opens


def opened(folder: Path, **options: str) -> Program:
    """By a configuration with these options, and a provider with a secret."""
    (folder / "master").write_text(f"root_dir: {folder}\n")
    (folder / "cloud").write_text("".join(f"{name}: {value}\n" for name, value in options.items()))
    (folder / "cloud.providers").write_text("lab: {driver: local, password: planted-password}\n")
    (folder / "cloud.providers").chmod(0o600)
    return open_program(str(folder), LocalClient(str(folder / "no-socket")), lambda _machine, _text: None)


def test_what_a_service_keeps_is_in_the_folder_that_systemd_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CACHE_DIRECTORY", f"{tmp_path}/service:/other")
    assert opened(tmp_path).opts["cachedir"] == f"{tmp_path}/service/cloud"
    assert opened(tmp_path, cachedir=f"{tmp_path}/said").opts["cachedir"] == f"{tmp_path}/said"


def test_no_log_line_has_a_secret_once_the_program_is_open(tmp_path: Path) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign] # a handler of one line
    logging.getLogger().addHandler(handler)
    try:
        opened(tmp_path)
        logging.getLogger("driver").error("logged in with %s", "planted-password")
    finally:
        logging.getLogger().removeHandler(handler)
    assert lines == ["logged in with ***"]


def test_files_with_secrets_that_others_can_read_are_named(tmp_path: Path) -> None:
    options = {"defaults": "{ssh_password: planted}", "root_dir": str(tmp_path)}
    assert opened(tmp_path, **options).exposed() == [str(tmp_path / "cloud")]
    (tmp_path / "cloud").chmod(0o640)
    assert opened(tmp_path, **options).exposed() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to a group that it is not in")
def test_a_group_that_is_not_the_owners_counts_as_others(tmp_path: Path) -> None:
    program, path = opened(tmp_path), tmp_path / "cloud.providers"
    path.chmod(0o640)
    assert program.exposed() == []
    os.chown(path, 0, 12345)
    assert program.exposed() == [str(path)]


def test_a_map_with_secrets_that_others_can_read_is_told_when_it_is_used(tmp_path: Path) -> None:
    said: list[str] = []
    program = opened(tmp_path)
    program.forked(lambda _machine, text: said.append(text))
    path = tmp_path / "web.map"
    path.write_text("")
    path.chmod(0o644)
    for name in ("a", "b"):
        settings = Settings({"ssh_password": "planted"}, {"ssh_password": f"{path}:1"})
        program.machine(name, Profile("p", Provider("lab", "local", Settings({})), Settings({})), settings)
    assert said == [f"other users can read {path}, which has secrets: chmod 600 {path}"]


def own_client(folder: Path) -> CloudClient:
    """That of a program on the master's host, with the driver of "Writing Cloud Driver Modules" and one provider."""
    drivers = folder / "drivers"
    drivers.mkdir(mode=0o755)
    shutil.copy(DRIVER, drivers)
    (folder / "machines").mkdir()
    (folder / "master").write_text(f"root_dir: {folder}\n")
    (folder / "cloud").write_text(f"root_dir: {folder}\ncloud_dirs: [{drivers}]\n")
    (folder / "cloud.providers").write_text(f"lab: {{driver: scripted, folder: {folder}/machines}}\n")
    (folder / "cloud.profiles").write_text("small: {provider: lab, image: any, size: small, deploy: false}\n")
    return CloudClient(path=str(folder / "cloud"))


def test_a_program_uses_salts_form(tmp_path: Path) -> None:
    asked = own_client(tmp_path)
    made = asked.profile("small", names="web1, web2", vm_overrides={"size": "large"}, ssh_password="pw")
    assert {name: one["password"] for name, one in made.items()} == {"web1": "pw", "web2": "pw"}
    assert asked.create("lab", ["bare1"], image="any", size="small", deploy=False)["bare1"]["state"] == "running"
    assert set(asked.query()["lab"]["scripted"]) == {"web1", "web2", "bare1"}
    assert asked.full_query()["lab"]["scripted"]["web1"]["image"] == "any"
    assert asked.select_query()["lab"]["scripted"]["web1"]["state"] == "running"
    assert set(asked.list_sizes("lab")["lab"]["scripted"]) == {"small", "large"}
    assert asked.list_images()["lab"]["scripted"] != {}
    assert asked.list_locations(provider="lab")["lab"]["scripted"] == {"here": {}}
    shown = asked.action(fun="show_instance", names=["web1"])
    assert shown["lab"]["scripted"]["web1"]["state"] == "running"
    assert asked.action("stop", instance="web1", kwargs={"how": "hard"}) == {
        "lab": {"scripted": {"web1": {"stopped": "web1", "how": {"how": "hard"}}}}
    }
    image = asked.action(fun="show_image", provider="lab", kwargs={"image": "ami-1"})
    assert image["lab"]["scripted"]["asked"]["ImageId.1"] == "ami-1"
    assert asked.extra_action("web1", "lab", "show_instance")["lab"]["scripted"]["web1"]["state"] == "stopped"
    (tmp_path / "my.map").write_text("small: [web1, web3]\n")
    assert set(asked.map_run(str(tmp_path / "my.map"))) == {"web3"}
    assert not asked.failed
    assert "no-such" in str(asked.profile("small", "no-such", size="no-such")["no-such"])
    assert asked.failed


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.profile("small", "a", vm_overrides="size=large"),
        lambda client: client.action("stop", "a", kwargs=["x"]),
        lambda client: client.action("stop"),
        lambda client: client.create("nowhere", "a"),
        lambda client: client.profile("small", "a", ssh_usrname="x"),
    ],
)
def test_what_a_program_asks_wrongly_is_one_sentence(tmp_path: Path, ask: Callable[[CloudClient], Any]) -> None:
    with pytest.raises(CommandExecutionError, match=r"as a map|which machines|no provider|did you mean"):
        ask(own_client(tmp_path))


def test_a_foreign_caller_of_actions_gets_no_function(tmp_path: Path) -> None:
    with pytest.raises(CommandExecutionError, match="say which machines"):
        client(tmp_path).action("show_image", provider="lab")


def test_salts_name_of_the_client_is_ours(tmp_path: Path) -> None:
    loader = loader_over(write(tmp_path, {"m": "import salt.cloud\ndef f():\n    return salt.cloud.CloudClient\n"}))
    assert loader["m.f"]() is CloudClient
