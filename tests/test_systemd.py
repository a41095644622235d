"""The units: read by systemd itself, and lived in by the daemon as far as that goes without a systemd that runs.

And the container file, which nothing here can build: what it copies and starts has to be there.
"""

import configparser
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from saltlite.config.api import ApiConfig
from saltlite.config.master import MasterConfig
from saltlite.master.processes.app import OPEN_FILES
from tests.support.fleet import WAIT_S, free_port

ROOT = Path(__file__).parent.parent
DAEMONS = ["saltlite-api", "saltlite-master", "saltlite-minion"]


def service(daemon: str) -> configparser.SectionProxy:
    """The [Service] section of a unit that this repository ships."""
    unit = configparser.RawConfigParser()
    # Directives of systemd are case-sensitive.
    unit.optionxform = str  # type: ignore[assignment,method-assign] # the documented way to say so
    unit.read_string((ROOT / "systemd" / f"{daemon}.service").read_text())
    return unit["Service"]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp(prefix="saltlite-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not on this machine")
@pytest.mark.parametrize("daemon", DAEMONS)
def test_systemd_finds_nothing_wrong_with_the_unit(daemon: str, tmp_path: Path) -> None:
    text = (ROOT / "systemd" / f"{daemon}.service").read_text()
    unit = tmp_path / f"{daemon}.service"
    # A script that is missing would be found out, so it is the installed one.
    script = Path(sys.executable).parent / daemon
    if not script.exists():
        pytest.skip(f"{daemon} is not installed: install the package again")
    unit.write_text(text.replace(service(daemon)["ExecStart"], str(script)))
    verdict = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False, timeout=60
    )
    assert (verdict.returncode, verdict.stderr) == (0, "")


@pytest.mark.parametrize("daemon", DAEMONS)
def test_a_unit_starts_what_the_install_of_the_readme_puts_there(daemon: str) -> None:
    venv = re.search(r"python3 -m venv (/\S+)", (ROOT / "saltlite" / "docs" / "install.md").read_text())
    assert venv is not None
    assert service(daemon)["ExecStart"] == f"{venv[1]}/bin/{daemon}"


def test_the_unit_of_the_master_allows_as_many_minions_as_the_link_process_asks_for() -> None:
    assert int(service("saltlite-master")["LimitNOFILE"]) == OPEN_FILES
    # `several-masters.md` says that four masters serve 100,000 minions, of which three are left when one is lost.
    assert OPEN_FILES > 100_000 / 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has capabilities to leave out")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not on this machine")
def test_a_master_with_only_the_capabilities_of_its_unit_serves_feeds_the_watchdog_and_stops(open_folder: Path) -> None:
    capabilities = service("saltlite-master")["CapabilityBoundingSet"].split()
    bounding = ",".join(["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in capabilities)])
    (open_folder / "master").write_text(
        f"root_dir: {open_folder}\nuser: nobody\nlink_user: daemon\ninterface: 127.0.0.1\nport: {free_port()}\n"
        "log_file: ''\n"
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(open_folder / "notify"))
        systemd.settimeout(WAIT_S)
        daemon = Path(sys.executable).parent / "saltlite-master"
        master = subprocess.Popen(
            ["setpriv", "--bounding-set", bounding, "--no-new-privs", daemon, "-c", open_folder],
            env={**os.environ, "NOTIFY_SOCKET": str(open_folder / "notify"), "WATCHDOG_USEC": "200000"},
        )
        try:
            assert systemd.recv(4096).startswith(b"READY=1\n")
            # The first comes with READY; the second because the supervisor's loop turns.
            assert [systemd.recv(4096) for _ in range(2)] == [b"WATCHDOG=1"] * 2
            master.send_signal(signal.SIGTERM)
            assert master.wait(WAIT_S) == 0
        finally:
            # Its children end with it: the kernel tells them.
            master.kill()
            master.wait()


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="systemd-sysusers is not on this machine")
def test_the_users_file_makes_the_users_that_the_master_becomes(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    users = ROOT / "systemd" / "saltlite.sysusers.conf"
    done = subprocess.run(
        ["systemd-sysusers", f"--root={tmp_path}", users], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    made = [line.split(":") for line in (tmp_path / "etc" / "passwd").read_text().splitlines()]
    defaults = MasterConfig()
    assert {defaults.user, defaults.link_user} <= {fields[0] for fields in made}
    assert len({fields[2] for fields in made}) == len(made)


def test_the_container_file_names_only_what_is_there() -> None:
    text = (ROOT / ".ci/Containerfile").read_text()
    shipped = re.findall(r"/opt/saltlite/share/saltlite/((?:systemd|conf)/\S+)", text)
    sources = re.findall(r"/source/(\S+)", text)
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert len(shipped) == 4
    assert [path for path in (*shipped, *sources) if not (ROOT / path).exists()] == []
    commands = re.findall(r'CMD \["(.+)"\]', text)
    assert set(commands) <= set(scripts)
    ports = {MasterConfig().port, ApiConfig().port}
    assert {int(port) for port in re.findall(r"EXPOSE (.+)", text)[0].split()} == ports
    packages = re.findall(r"--no-install-recommends ([a-z0-9 -]+)", text)
    if shutil.which("apt-cache"):
        for name in " ".join(packages).split():
            assert subprocess.run(["apt-cache", "show", name], capture_output=True, check=False).stdout, name
