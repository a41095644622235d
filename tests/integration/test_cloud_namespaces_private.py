"""What a machine of the driver `local` does not see of this host, wherever the master has its files."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from saltlite.cloud.program.files import load_cloud
from saltlite.cloud.program.program import opts_of
from saltlite.config.load import load_master
from tests.support.cloud import loaded, machine
from tests.support.machine import needs_machines

pytestmark = [needs_machines, pytest.mark.usefixtures("own_network")]

FOLDERS = {"pki_dir": "keys", "data_dir": "store", "cachedir": "made", "sock_dir": "door"}


@pytest.fixture
def host() -> Iterator[Path]:
    """A folder that machines see, as /tmp is not."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def driver(host: Path, tmp_path: Path) -> Iterator[Any]:
    """The driver, as the program of a master sets it up that has its files in odd places."""
    settings: dict[str, Any] = {name: str(host / folder) for name, folder in FOLDERS.items()}
    settings["pillar_roots"] = {"base": [str(host / "pillar")]}
    for folder in (*FOLDERS.values(), "pillar", "other"):
        (host / folder).mkdir()
        (host / folder / "file").write_text("x")
    config = tmp_path / "config"
    config.mkdir()
    (config / "master").write_text(json.dumps(settings))
    (config / "cloud").write_text(json.dumps({"cachedir": str(host / "machines")}))
    opts = opts_of(load_cloud(str(config)), load_master(str(config)).config, str(config))
    wanted = {name: value for name, value in opts.items() if name not in ("providers", "profiles", "query.selection")}
    with loaded("local", {}, **wanted) as (driver, _program):
        yield driver
        for name in driver.list_nodes():
            driver.destroy(name)


def seen(driver: Any, folder: str | Path) -> list[str]:
    """What a command in web1 finds in a folder."""
    code, out, err = driver._machines().run("web1", ["ls", "-A", str(folder)])
    assert code == 0, err
    return str(out).split()


def test_the_folders_of_the_master_are_empty_wherever_they_are(driver: Any, host: Path) -> None:
    driver.create(machine("local", "web1", deploy=False))
    private = [*FOLDERS.values(), "pillar", "machines"]
    assert {folder: seen(driver, host / folder) for folder in private} == {folder: [] for folder in private}
    assert seen(driver, host / "other") == ["file"]


def test_homes_and_host_keys_are_not_seen_but_the_saltlite_that_runs_here_is(driver: Any) -> None:
    driver.create(machine("local", "web1", deploy=False))
    lent = {Path(path).resolve() for path in (sys.prefix, sys.base_prefix, __file__)}
    for folder in ("/home", "/root", "/etc/ssh"):
        if Path(folder).is_dir():
            wanted = {path.relative_to(folder).parts[0] for path in lent if path.is_relative_to(folder)}
            assert set(seen(driver, folder)) <= wanted
    argv = [sys.executable, "-c", "import cryptography; print('runs')"]
    assert driver._machines().run("web1", argv)[1] == "runs\n"


def test_what_is_asked_for_is_lent_all_the_same(driver: Any) -> None:
    driver.create(machine("local", "web1", deploy=False, show_folders=["/etc/ssh"]))
    assert seen(driver, "/etc/ssh") == sorted(path.name for path in Path("/etc/ssh").iterdir())


def test_a_private_folder_that_is_made_later_is_not_seen_either(driver: Any, host: Path) -> None:
    later = host / "deep" / "later"
    driver.__opts__["master_folders"].append(str(later))
    driver.create(machine("local", "web1", deploy=False))
    later.mkdir(parents=True)
    (later / "file").write_text("x")
    assert seen(driver, later) == []


def test_an_interpreter_that_is_named_by_a_link_is_lent_by_that_name(
    driver: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "interpreters" / "3.11.7").mkdir(parents=True)
    (tmp_path / "interpreters" / "3.11").symlink_to(tmp_path / "interpreters" / "3.11.7")
    (tmp_path / "interpreters" / "3.11.7" / "file").write_text("x")
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "interpreters" / "3.11"))
    driver.create(machine("local", "web1", deploy=False))
    assert seen(driver, tmp_path / "interpreters" / "3.11" / "") == ["file"]
