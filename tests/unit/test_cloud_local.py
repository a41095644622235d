"""The driver `local`, as far as it makes no machine: what it offers, and what it refuses with which words."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from saltlite.cloud.api.exceptions import SaltCloudConfigError, SaltCloudNotFound, SaltCloudSystemExit
from tests.support.cloud import loaded, machine


@pytest.fixture(autouse=True)
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who runs the driver says that he is root; nothing here needs it to be true."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def refusal(tmp_path: Path, **settings: Any) -> str:
    """What is said to a machine with these settings; nothing is made."""
    with loaded("local", {}, cachedir=str(tmp_path)) as (driver, program):
        with pytest.raises(SaltCloudConfigError) as early:
            driver.validate(machine("local", "web1", **settings))
        assert program.tags() == []
        with pytest.raises(SaltCloudConfigError, match=re.escape(str(early.value))) as raised:
            driver.create(machine("local", "web1", **settings))
        assert program.tags() == ["salt/cloud/web1/creating"]
        assert driver.list_nodes() == {}
    return str(raised.value)


def test_nothing_has_to_be_configured(tmp_path: Path) -> None:
    with loaded("local", {}, cachedir=str(tmp_path)) as (driver, _):
        assert driver.__virtual__() is True


def test_without_a_provider_the_driver_is_not_there(tmp_path: Path) -> None:
    with loaded("local", {}, cachedir=str(tmp_path)) as (driver, _):
        driver.__opts__["providers"].clear()
        assert driver.__virtual__() is False


def test_the_images_are_this_host_and_the_folders_of_image_dir(tmp_path: Path) -> None:
    (tmp_path / "images" / "debian").mkdir(parents=True)
    (tmp_path / "images" / "notes").write_text("no image")
    with loaded("local", {"image_dir": str(tmp_path / "images")}, cachedir=str(tmp_path)) as (driver, _):
        assert driver.avail_images() == {
            "debian": {"folder": str(tmp_path / "images" / "debian")},
            "host": {"folder": "/"},
        }
        assert driver.show_image({"image": "debian"}, call="function")["folder"] == str(tmp_path / "images" / "debian")


def test_an_image_dir_that_is_not_there_is_named(tmp_path: Path) -> None:
    with (
        loaded("local", {"image_dir": str(tmp_path / "none")}, cachedir=str(tmp_path)) as (driver, _),
        pytest.raises(SaltCloudConfigError, match=r"image_dir .*/none cannot be read: No such file"),
    ):
        driver.avail_images()


def test_sizes_are_memory_of_which_half_may_be_files(tmp_path: Path) -> None:
    with loaded("local", {}, cachedir=str(tmp_path)) as (driver, _):
        assert driver.avail_sizes()["small"] == {"ram": 256, "disk": 128}
        assert len(driver.avail_locations()) == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"size": "huge"}, "there is no size 'huge': take one of tiny, small, medium, large"),
        ({"image": "nowhere"}, "there is no image 'nowhere'"),
        ({"image": "/no/such/folder"}, "there is no image '/no/such/folder'"),
        ({"show_folders": ["/no/such"]}, "show_folders has '/no/such'"),
        ({"show_folders": "usr"}, "show_folders has 'usr'"),
        ({"hide_folders": [7]}, "hide_folders has 7"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_before_anything_is_made(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    assert words in refusal(tmp_path, **settings)


def test_a_range_of_addresses_that_is_none_is_named(tmp_path: Path) -> None:
    with (
        loaded("local", {"network": "10.231.0.1/8"}, cachedir=str(tmp_path)) as (driver, _),
        pytest.raises(SaltCloudSystemExit, match=r"'10\.231\.0\.1/8' is not a range of addresses"),
    ):
        driver.list_nodes()


def test_only_root_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with loaded("local", {}, cachedir=str(tmp_path)) as (driver, program):
        with pytest.raises(SaltCloudSystemExit, match="must run as root"):
            driver.create(machine("local", "web1"))
        assert program.events == []


@pytest.mark.parametrize("action", ["show_instance", "start", "stop", "reboot", "show_console"])
def test_an_action_names_its_flag_and_the_machine_that_is_not_there(tmp_path: Path, action: str) -> None:
    with loaded("local", {}, cachedir=str(tmp_path)) as (driver, _):
        with pytest.raises(SaltCloudSystemExit, match="must be called with -a or --action"):
            getattr(driver, action)("web1", call="function")
        with pytest.raises(SaltCloudNotFound, match="there is no machine 'web1' here"):
            getattr(driver, action)("web1", call="action")


@pytest.mark.parametrize(
    "function",
    ["list_nodes", "list_nodes_full", "list_nodes_select", "avail_images", "avail_sizes", "avail_locations"],
)
def test_a_listing_is_no_action(tmp_path: Path, function: str) -> None:
    with loaded("local", {}, cachedir=str(tmp_path)) as (driver, _):
        assert isinstance(getattr(driver, function)(call="function"), dict)
        if function != "list_nodes_select":
            with pytest.raises(SaltCloudSystemExit, match="-f or --function"):
                getattr(driver, function)(call="action")


def test_destroy_is_no_function_and_names_what_is_not_there(tmp_path: Path) -> None:
    with loaded("local", {}, cachedir=str(tmp_path)) as (driver, program):
        with pytest.raises(SaltCloudSystemExit, match="-d or --destroy"):
            driver.destroy("web1", call="function")
        with pytest.raises(SaltCloudNotFound, match="there is no machine 'web1' here"):
            driver.destroy("web1", call="action")
        assert program.events == []
