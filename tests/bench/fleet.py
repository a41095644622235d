"""A fleet of real daemons for the benchmarks: started as an operator starts them, stopped process by process."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from saltlite.client.local import LocalClient
from saltlite.errors import SaltliteError
from tests.bench.measure import family

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
PORTS = range(16000, 17000)
"""Below the kernel's range for outgoing connections."""
START_S = 180.0
STOP_S = 10.0
POLL_S = 0.002
ME = pwd.getpwuid(os.geteuid()).pw_name


class BenchFleet:
    """One master with its minions in a temporary folder; leave it as a context manager."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="saltlite-bench-"))
        self.port = free_port()
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.statements = self.folder / "statements"
        """The file with the number of SQL statements of the master."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        for name in reversed(list(self.daemons)):
            self.stop(name)
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- daemons

    def start_master(self, *, count_statements: bool = False, **options: Any) -> float:
        """Start it; seconds from the start of its program to the first answered request."""
        self._configure("master", "master", interface="127.0.0.1", port=self.port, **options)
        began = time.perf_counter()
        counted = [sys.executable, "-m", "tests.bench.statements", str(self.statements)]
        self._launch(counted if count_statements else [str(BIN / "saltlite-master")], "master")
        wait_until(self._answers, "the master answers")
        return time.perf_counter() - began

    def join(self, names: Sequence[str], **options: Any) -> None:
        """Start minions with these options that a token lets in, and wait until they are up."""
        with self.client() as client:
            token = client.call("token_create", uses=len(names), expires_s=600.0, id_glob="*")["token"]
            for name in names:
                self._configure(name, "minion", id=name, master=f"127.0.0.1:{self.port}", join_token=token, **options)
                self.launch_minion(name)
        wait_until(lambda: self.up() >= set(names), "the minions are up")

    def start_api(self, port: int) -> None:
        """Start the API beside the master, without limits for how fast it may be asked."""
        paces = {"requests_per_address": 100_000, "logins_per_address": 100_000}
        self._configure("master", "api", interface="127.0.0.1", port=port, log_file="", **paces)
        self._launch([str(BIN / "saltlite-api")], "api", "master")

    def launch_minion(self, name: str) -> None:
        """Start a minion on the configuration that it has."""
        self._launch([str(BIN / "saltlite-minion")], name)

    def stop(self, name: str) -> None:
        """End a daemon by SIGTERM; what is left of it after STOP_S is killed."""
        process = self.daemons.pop(name)
        pids = family(process.pid)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_S)
            return
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(STOP_S)

    def pids(self, name: str) -> list[int]:
        """All processes of a daemon."""
        return family(self.daemons[name].pid)

    # -- asking

    @property
    def socket_path(self) -> str:
        """Where the master takes clients."""
        return str(self.folder / "master/root/run/saltlite/master/master.ipc")

    @property
    def store_path(self) -> str:
        """The master's SQLite file."""
        return str(self.folder / "master/root/var/lib/saltlite/master/store.sqlite")

    @property
    def cache_path(self) -> str:
        """Where the master has its banks."""
        return str(self.folder / "master/root/var/cache/saltlite/master")

    def client(self) -> LocalClient:
        """A client of the master."""
        return LocalClient(self.socket_path)

    def up(self) -> set[str]:
        """Ids of the minions that have a session."""
        with self.client() as client:
            return {row["id"] for row in client.call("minions")["minions"] if row["state"] == "up"}

    def command(self, *words: str) -> list[str]:
        """The command line of `saltlite WORDS` on this fleet, installed from this checkout as `pip install -e` does."""
        installed = self.folder / "installed/bin/saltlite"
        if not installed.exists():
            install_command(installed.parent.parent)
        return [str(installed), "-c", str(self.folder / "master"), *words]

    def _answers(self) -> bool:
        process = self.daemons["master"]
        if process.poll() is not None:
            raise RuntimeError(f"the master ended: {(self.folder / 'master/output').read_text()}")
        try:
            with self.client() as client:
                return "fleet" in client.call("key_finger")
        except SaltliteError:
            return False

    def _configure(self, name: str, kind: str, **options: Any) -> None:
        folder = self.folder / name
        folder.mkdir(mode=0o755, exist_ok=True)
        values = {"root_dir": str(folder / "root"), "user": ME, **options}
        if kind == "master":
            values.setdefault("link_user", values["user"])
        path = folder / kind
        path.touch(mode=0o600)
        path.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items()))

    def _launch(self, program: list[str], name: str, config: str = "") -> None:
        """`config` is the folder of its configuration, if that has another name."""
        with (self.folder / f"{name}.output" if config else self.folder / name / "output").open("ab") as output:
            self.daemons[name] = subprocess.Popen(
                [*program, "-c", str(self.folder / (config or name))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )


def install_command(prefix: Path) -> None:
    """Install the command from this checkout below `prefix`, for the interpreter that runs this.

    It is what `pip install -e` installs, but of today: a virtual environment may be older than the checkout.
    """
    (prefix / "bin").mkdir(parents=True)
    command = shutil.copy(ROOT / "saltlite/cli/saltlite.sh", prefix / "bin/saltlite")
    ordinary = prefix / "bin/saltlite-cli"
    ordinary.write_text(f"#!{sys.executable}\nimport sys\nfrom saltlite.cli.main import main\nsys.exit(main())\n")
    for script in (Path(command), ordinary):
        script.chmod(0o755)
    packages = prefix / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    packages.mkdir(parents=True)
    (packages / "_saltlite.pth").write_text(f"{ROOT}\n{ROOT / 'daemons'}\n")


def wait_until(look: Callable[[], bool], what: str) -> None:
    """Come back when `look` says yes. Raises RuntimeError after START_S."""
    deadline = time.monotonic() + START_S
    while not look():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {START_S:g} s: {what}")
        time.sleep(POLL_S)


def free_port() -> int:
    """A TCP port that nobody listens on."""
    for number in range(len(PORTS)):
        port = PORTS[(os.getpid() + number) % len(PORTS)]
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")
