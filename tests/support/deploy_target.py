"""A host of loopback with a real sshd, on which a stand-in for the minion says at once that it has a session."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from saltlite import __version__
from saltlite.cloud.api import port
from tests.support.cloud import DeployingProgram
from tests.support.sshd import Sshd, start_sshd

TOKEN = "slj1.abcdefgh.tokenid.aaaabbbbccccdddd"

# What a deployment sees of a minion: its version, a process under this name, and the file that says `ready`.
MINION = f"""#!/bin/sh
[ "$1" != --version ] || {{ echo "saltlite-minion {__version__}"; exit 0; }}
data=$(sed -n 's/^"data_dir": "\\(.*\\)"$/\\1/p' "$2/minion.d/90-cloud.conf")
mkdir -p "$data"
echo '{{"phase": "ready", "reason": ""}}' >"$data/status.json"
while :; do sleep 1; done
"""


@dataclass
class Target:
    """The machine: the sshd, and folders that are its own."""

    server: Sshd
    folder: Path

    @property
    def conf(self) -> Path:
        return self.folder / "etc"

    def vm(self, **more: Any) -> dict[str, Any]:
        """Settings that work, and these."""
        return {
            "name": "web1",
            "profile": "shop",
            "provider": "lab:saltify",
            "driver": "saltify",
            "ssh_host": "127.0.0.1",
            "ssh_port": self.server.port,
            "key_filename": str(self.server.key),
            "ssh_timeout": 5,
            "wait_for_passwd_maxtries": 1,
            "install": "none",
            "install_dir": str(self.folder / "venv"),
            "minion_dir": str(self.conf),
            "tmp_dir": str(self.folder / "tmp"),
            "start_timeout": 5,
            "join_token": TOKEN,
            "minion": {
                "user": "root",
                "pki_dir": str(self.folder / "var/pki"),
                "data_dir": str(self.folder / "var/data"),
                "cachedir": str(self.folder / "var/cache"),
                "log_file": "",
            },
            **more,
        }

    def put_minion(self, text: str = MINION) -> None:
        path = self.folder / "venv/bin/saltlite-minion"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def processes(self) -> list[int]:
        """Minions of this machine that run."""
        wanted = str(self.folder / "venv/bin/saltlite-minion").encode()
        found = []
        for entry in os.listdir("/proc"):
            if entry.isdecimal():
                try:
                    if wanted in Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0"):
                        found.append(int(entry))
                except OSError:
                    continue
        return found

    def left(self) -> set[str]:
        """Everything below its folder but what was there before."""
        return {
            str(path.relative_to(self.folder))
            for path in self.folder.rglob("*")
            if path.relative_to(self.folder).parts[0] not in {"venv", "tmp"} or path.parent.name == "tmp"
        }


@pytest.fixture(scope="module")
def sshd_of_targets() -> Iterator[Sshd]:
    """The sshd for all tests of a file."""
    with tempfile.TemporaryDirectory(prefix="sshd-") as folder:
        Path(folder).chmod(0o711)
        running = start_sshd(Path(folder) / "sshd")
        yield running
        running.stop()


@pytest.fixture
def target(sshd_of_targets: Sshd) -> Iterator[Target]:
    """A machine with the stand-in installed."""
    with tempfile.TemporaryDirectory(prefix="saltlite-target-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        (folder / "tmp").mkdir(mode=0o777)
        (folder / "tmp").chmod(0o1777)
        made = Target(sshd_of_targets, folder)
        made.put_minion()
        yield made
        for pid in made.processes():
            os.kill(pid, 9)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[DeployingProgram]:
    """The program that runs drivers."""
    config = tmp_path / "config"
    (config / "cloud.deploy.d").mkdir(parents=True)
    made = DeployingProgram({"cachedir": str(tmp_path / "cache"), "config_dir": str(config), "providers": {}})
    with port.running(made):
        yield made
