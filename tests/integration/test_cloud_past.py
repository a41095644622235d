"""Hosts that were deployed before and whose minion is dead are deployed again, over a real sshd of loopback."""

from __future__ import annotations

import os
import shutil
import signal
from typing import Any

import pytest

from saltlite import __version__
from saltlite.cloud.deploy import upload
from saltlite.cloud.deploy.bootstrap import DeployError, bootstrap, retire
from tests.support import sshd
from tests.support.cloud import DeployingProgram
from tests.support.deploy_target import MINION, Target
from tests.support.fleet import wait_until

pytestmark = [
    pytest.mark.skipif(sshd.SSHD is None, reason="there is no sshd: install openssh-server"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a minion of the user root needs root"),
]

INSTALLS = {"install": "wheel", "deploy_timeout": 60}


@pytest.fixture
def small_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    """What pip installs there is the stand-in for the minion, in a wheel without requirements."""
    info = f"saltlite-{__version__}.dist-info"
    files = {
        f"saltlite-{__version__}.data/scripts/saltlite-minion": MINION.encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: saltlite\nVersion: {__version__}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    wheel = upload.Wheel(f"saltlite-{__version__}-py3-none-any.whl", upload._zip(files, info))
    monkeypatch.setattr(upload, "own_wheel", lambda: wheel)
    monkeypatch.setattr(upload, "requirements", lambda: ())


def deploy_with_virtualenv(target: Target, program: DeployingProgram) -> None:
    """Deploy, as if this deployment had made the virtualenv, too; then the minion dies."""
    bootstrap(target.vm(), program.opts)
    made = target.conf / "cloud/made"
    made.write_text(f"{made.read_text()}tree {target.folder}/venv\n")
    die(target)


def die(target: Target) -> None:
    for pid in target.processes():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: target.processes() == [], "the minion is dead")


def test_a_dead_minion_is_replaced_and_its_virtualenv_is_used_again(target: Target, program: DeployingProgram) -> None:
    deploy_with_virtualenv(target, program)
    inode = (target.folder / "venv/bin/saltlite-minion").stat().st_ino
    assert bootstrap(target.vm(install="wheel"), program.opts)["deployed"]
    assert (target.folder / "venv/bin/saltlite-minion").stat().st_ino == inode
    assert len(target.processes()) == 1
    # What the first deployment made is still known as such.
    assert retire(target.vm(), program.opts) == ()
    assert not (target.folder / "venv").exists()
    assert target.left() == set()


def test_a_deployment_that_fails_on_such_a_host_leaves_nothing_of_both(
    target: Target, program: DeployingProgram
) -> None:
    deploy_with_virtualenv(target, program)
    with pytest.raises(DeployError, match="exit code 4"):
        bootstrap(target.vm(inline_script=["exit 4"]), program.opts)
    assert not (target.folder / "venv").exists()
    assert target.left() == set()


def test_a_host_that_was_rebooted_has_another_process_under_the_old_number(
    target: Target, program: DeployingProgram
) -> None:
    deploy_with_virtualenv(target, program)
    # The reboot emptied /tmp, and gave the number of the minion to something else.
    (target.conf / "cloud/pid").write_text(f"{os.getpid()}\n")
    assert bootstrap(target.vm(), program.opts)["deployed"]
    assert len(target.processes()) == 1


@pytest.mark.usefixtures("small_wheel")
def test_an_older_version_is_replaced(target: Target, program: DeployingProgram) -> None:
    target.put_minion(MINION.replace(__version__, "0.0.1"))
    deploy_with_virtualenv(target, program)
    assert bootstrap(target.vm(**INSTALLS), program.opts)["deployed"]
    assert (target.folder / "venv/pyvenv.cfg").exists()
    assert f"saltlite-minion {__version__}" in (target.folder / "venv/bin/saltlite-minion").read_text()
    assert retire(target.vm(), program.opts) == ()
    assert not (target.folder / "venv").exists()


@pytest.mark.usefixtures("small_wheel")
def test_half_an_installation_is_completed(target: Target, program: DeployingProgram) -> None:
    shutil.rmtree(target.folder / "venv")
    assert bootstrap(target.vm(**INSTALLS), program.opts)["deployed"]
    die(target)
    # The list is lost, a package is listed and incomplete, and the interpreter of the virtualenv was removed.
    shutil.rmtree(target.conf)
    (target.folder / "venv/bin/saltlite-minion").unlink()
    for link in (target.folder / "venv/bin").glob("python*"):
        link.unlink()
        link.symlink_to("/nowhere/python")
    assert bootstrap(target.vm(**INSTALLS), program.opts)["deployed"]
    assert len(target.processes()) == 1


def test_the_upload_of_a_command_that_died_is_removed_by_the_next(target: Target, program: DeployingProgram) -> None:
    deploy_with_virtualenv(target, program)
    dead = target.folder / "tmp/saltlite-cloud.web1.AAAAAAAA"
    dead.mkdir()
    (dead / "join_token").write_text("secret\n")
    made = target.conf / "cloud/made"
    made.write_text(f"by {dead}\n" + made.read_text().partition("\n")[2])
    bootstrap(target.vm(), program.opts)
    assert list((target.folder / "tmp").iterdir()) == []


def test_a_running_minion_is_replaced_where_the_settings_say_so(target: Target, program: DeployingProgram) -> None:
    bootstrap(target.vm(), program.opts)
    (first,) = target.processes()
    with pytest.raises(DeployError, match="destroy that one first, or set replace_minion: true"):
        bootstrap(target.vm(), program.opts)
    assert target.processes() == [first]
    changed: dict[str, Any] = {**target.vm()["minion"], "id": "another"}
    assert bootstrap(target.vm(replace_minion=True, minion=changed), program.opts)["deployed"]
    assert first not in target.processes()
    assert '"id": "another"' in (target.conf / "minion.d/90-cloud.conf").read_text()
