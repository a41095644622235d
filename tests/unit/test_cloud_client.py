"""What callers of `CloudClient`, who may have no shell on this host, cannot have done there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from saltlite.client.local import LocalClient
from saltlite.cloud.client import CloudClient
from saltlite.core.cloud.foreign import of_this_host
from saltlite.errors import CommandExecutionError


def client(folder: Path) -> CloudClient:
    """With a configuration of nothing but its folders; no master is asked."""
    (folder / "cloud").write_text(f"root_dir: {folder}\n")
    (folder / "master").write_text(f"root_dir: {folder}\n")
    (folder / "cloud.maps.d").mkdir()
    return CloudClient(str(folder), LocalClient(str(folder / "no-socket")))


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
    for ask in (
        lambda: asked.profile("small", ["a"], **{name: value}),
        lambda: asked.map_run("web.map", **{name: value}),
        lambda: asked.action("start", ["a"], **{name: value}),
        lambda: asked.function("create_keypair", "lab", **{name: value}),
    ):
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
    with pytest.raises(CommandExecutionError, match=r"is no name of a map: say that of a file in cloud\.maps\.d"):
        client(tmp_path).map_run(name)


def test_a_map_of_the_folder_is_read(tmp_path: Path) -> None:
    asked = client(tmp_path)
    (tmp_path / "cloud.maps.d/web.map").write_text("nowhere: [web1]\n")
    with pytest.raises(CommandExecutionError, match="nowhere"):
        asked.map_run("web.map")


def test_destroy_is_no_action(tmp_path: Path) -> None:
    with pytest.raises(CommandExecutionError, match=r"cloud\.destroy"):
        client(tmp_path).action("destroy", ["a"])
