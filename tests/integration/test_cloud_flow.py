"""The listings of "Writing Cloud Driver Modules", whose `create()` deploys by itself, on a real sshd of loopback."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from saltlite.cloud.api import port
from saltlite.cloud.deploy.bootstrap import DeployError
from saltlite.cloud.deploy.upload import text_of
from saltlite.cloud.program.drivers import Driver, Drivers
from saltlite.cloud.program.files import LoadedCloud
from saltlite.cloud.program.program import opts_of
from saltlite.cloud.rules.catalogue import Catalogue, Level, Profile, Provider, Settings, composed, merged
from saltlite.config.cloud import CloudConfig
from saltlite.config.master import MasterConfig
from tests.support import sshd
from tests.support.cloud import DeployingProgram
from tests.support.deploy_target import TOKEN, Target

pytestmark = pytest.mark.skipif(sshd.SSHD is None, reason="there is no sshd: install openssh-server")

FLOW = Path(__file__).parents[1] / "data" / "clouds" / "flow.py"


class Making(DeployingProgram):
    """As the real program, it adds what it knows of the machine to what the driver passes."""

    of_machine: Mapping[str, Any] = MappingProxyType({})

    def bootstrap(self, vm_: dict[str, Any], opts: Any) -> dict[str, Any]:
        return super().bootstrap(merged(vm_, self.of_machine), opts)

    def script(self, vm_: Any) -> str:
        return text_of(vm_.get("script") or "")


@contextlib.contextmanager
def flow(target: Target, folder: Path, **settings: Any) -> Iterator[tuple[Driver, Making, dict[str, Any]]]:
    """The driver, its program, and a machine of it with these settings in its profile."""
    (folder / "drivers").mkdir()
    (folder / "conf").mkdir()
    shutil.copy(FLOW, folder / "drivers")
    provider = Provider("lab", "flow", Settings({"driver": "flow", "ssh_host": "127.0.0.1"}))
    of_core = ("name", "profile", "provider", "driver")
    given = {name: value for name, value in target.vm().items() if name not in of_core}
    given["private_key"] = given.pop("key_filename")
    profile = Profile("shop", provider, Settings({**given, **settings}))
    config = CloudConfig(cachedir=str(folder / "cache"), cloud_dirs=[str(folder / "drivers")])
    loaded = LoadedCloud(config, Settings({}), Catalogue({"lab": {"flow": provider}}, {"shop": profile}))
    program = Making(opts_of(loaded, MasterConfig(), str(folder / "conf")))
    vm_ = composed("web1", profile, [Level("profile", profile.settings)])
    program.of_machine = {**vm_, "join_token": TOKEN}
    with port.running(program):
        yield Drivers(program.opts).of(provider), program, vm_


def test_the_steps_of_the_document_make_a_machine_a_minion(target: Target, tmp_path: Path) -> None:
    with flow(target, tmp_path) as (driver, program, vm_):
        made = driver.call("create", vm_)
        assert made["deployed"] is True
        assert '"id": "web1"' in (target.conf / "minion.d/90-cloud.conf").read_text()
        assert len(target.processes()) == 1
        assert list((target.folder / "tmp").iterdir()) == []
        names = [tag.rpartition("/")[2] for tag in program.tags()]
        # The second `deploying` is that of `deploy_script`; a command fires each of them once.
        assert names == ["creating", "requesting", "deploying", "deploying", "created"]
        assert TOKEN not in str(program.events)
        assert driver.machines_selected() == {"web1": {"id": "1", "state": "running", "public_ips": ["127.0.0.1"],
                                                       "private_ips": []}}  # fmt: skip


def test_the_folder_of_the_upload_is_made_and_removed_again(target: Target, tmp_path: Path) -> None:
    with flow(target, tmp_path, tmp_dir=f"{target.folder}/tmp/.saltcloud/deeper") as (driver, _program, vm_):
        driver.call("create", vm_)
        assert list((target.folder / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("owner", "mode", "below", "why"),
    [
        (65534, 0o1777, "", "belongs to another user"),
        (65534, 0o755, "/missing/deeper", "belongs to another user"),
        (0, 0o777, "", "other users may write to"),
        (0, 0o775, "/missing", "other users may write to"),
    ],
)
def test_a_folder_that_another_user_could_replace_does_not_get_the_upload(
    owner: int, mode: int, below: str, why: str, target: Target, tmp_path: Path
) -> None:
    other = target.folder / "tmp/.saltcloud"
    other.mkdir()
    other.chmod(mode)
    shutil.chown(other, owner, owner)
    with (
        flow(target, tmp_path, tmp_dir=f"{other}{below}") as (driver, _program, vm_),
        pytest.raises(Exception, match="no folder can be made in ") as caught,
    ):
        driver.call("create", vm_)
    assert why in str(caught.value)
    assert str(other) in str(caught.value)
    assert list(other.iterdir()) == []
    assert not target.conf.exists()


def test_a_script_of_the_operator_arrives_as_its_text(target: Target, tmp_path: Path) -> None:
    own = tmp_path / "mine.sh"
    own.write_text(f'#!/bin/sh\nshift 2; printf "%s" "$1 $SECRET" >{target.folder}/said\n')
    settings = {"script": str(own), "script_args": "one", "script_env": {"SECRET": "two"}}
    with flow(target, tmp_path, **settings) as (driver, program, vm_):
        driver.call("create", vm_)
        assert (target.folder / "said").read_text() == "one two"
        assert [data["script"] for _tag, data in program.events if "script" in data] == ["mine.sh"]


def test_a_text_that_is_no_file_is_run_and_not_shown(target: Target, tmp_path: Path) -> None:
    text = f"#!/bin/sh\necho planted-in-the-text >&2\ntouch {target.folder}/there\nexit 5\n"
    with flow(target, tmp_path, script=text) as (driver, program, vm_):
        failed = r"the deploy script failed at .*: planted-in-the-text \(exit code 5\)"
        with pytest.raises(DeployError, match=failed) as caught:
            driver.call("create", vm_)
        assert (target.folder / "there").exists()
        assert "touch" not in str(caught.value) + str(caught.value.left)
        assert [data["script"] for _tag, data in program.events if "script" in data] == ["the text of script"]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"make_master": True}, "make_master, which is not possible: a master is not installed by"),
        ({"win_installer": "setup.exe"}, "no minion for Windows"),
    ],
)
def test_what_cannot_be_deployed_is_refused_before_the_login(
    settings: dict[str, Any], named: str, target: Target, tmp_path: Path
) -> None:
    before = target.server.logins()
    with flow(target, tmp_path, **settings) as (driver, _program, vm_), pytest.raises(Exception, match=named):
        driver.call("create", vm_)
    assert target.server.logins() == before
