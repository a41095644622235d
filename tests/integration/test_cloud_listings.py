"""Drivers made of libcloud as the loader loads them, and as commands ask them: ours, and the listing for authors."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from saltlite.cloud.api import port
from saltlite.cloud.program.drivers import Drivers
from saltlite.cloud.rules.catalogue import Provider, Settings
from tests.support.cloud import Program, machine

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("libcloud") is None, reason="needs Apache Libcloud: pip install 'saltlite[cloud]'"
)

SHOWN = {
    "created_at": None,
    "extra": {"foo": "bar"},
    "id": "2",
    "image": "",
    "name": "dummy-2",
    "private_ips": [],
    "public_ips": ["127.0.0.1"],
    "size": "",
    "state": "running",
}
LISTED = Path(__file__).parents[1] / "data" / "clouds" / "listed.py"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration with the listing for authors as a driver, and a provider of it and one of ours."""
    drivers = tmp_path / "drivers"
    drivers.mkdir(mode=0o755)
    shutil.copy(LISTED, drivers)
    for name, options in (
        ("master", {"root_dir": str(tmp_path / "root")}),
        ("cloud", {"cloud_dirs": [str(drivers)], "query.selection": ["id", "extra"]}),
        (
            "cloud.providers",
            {
                "listed": {"driver": "listed", "creds": "one"},
                "ours": {"driver": "libcloud", "libcloud_provider": "dummy", "key": "two"},
            },
        ),
    ):
        (tmp_path / name).write_text(json.dumps(options), encoding="utf-8")
    return tmp_path


def said(folder: Path, command: str, *words: str) -> Any:
    """What a command prints, as data."""
    done = subprocess.run(
        [sys.executable, "-m", "saltlite", command, "-c", str(folder), "--out", "json", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("provider", ["listed", "ours"])
def test_the_driver_keeps_the_contract_of_drivers(folder: Path, provider: str) -> None:
    answer = said(folder, "cloud-check", provider)
    assert answer["bad"] == 0
    assert len(answer["tests"]) > 30


def test_all_providers_are_asked_at_once(folder: Path) -> None:
    answer = said(folder, "cloud", "-Q")
    assert {alias: list(drivers) for alias, drivers in answer.items()} == {"listed": ["listed"], "ours": ["libcloud"]}
    assert answer["listed"]["listed"] == answer["ours"]["libcloud"]


def test_the_functions_of_the_listing_answer_by_the_listings_connection(folder: Path) -> None:
    assert said(folder, "cloud", "-S")["listed"]["listed"]["dummy-1"] == {"id": "1", "extra": {"foo": "bar"}}
    assert said(folder, "cloud", "--list-sizes", "listed")["listed"]["listed"]["Small"]["ram"] == 128
    assert said(folder, "cloud", "--provider", "listed", "-a", "show_instance", "dummy-2") == {
        "listed": {"listed": {"dummy-2": SHOWN}}
    }


def test_the_listing_makes_and_destroys_a_machine_by_the_loader(tmp_path: Path) -> None:
    drivers = tmp_path / "drivers"
    drivers.mkdir()
    shutil.copy(LISTED, drivers)
    settings = {"driver": "listed", "creds": "one"}
    opts = {"cloud_dirs": [str(drivers)], "providers": {"lab": {"listed": settings}}, "profiles": {}}
    driver, program = Drivers(opts).of(Provider("lab", "listed", Settings(settings))), Program(opts)
    with port.running(program):
        made = driver.call("create", machine("listed", "web1", size="Small", image="Ubuntu 9.10"))
        assert made == {"id": "3", "deployed": True}
        assert program.deployed[0]["ssh_host"] == driver.machines()["dummy-3"]["public_ips"][0]
        assert driver.call("destroy", "dummy-3", call="action") is True
    assert program.tags() == [
        "salt/cloud/web1/creating",
        "salt/cloud/web1/deploying",
        "salt/cloud/dummy-3/destroying",
        "salt/cloud/dummy-3/destroyed",
    ]
