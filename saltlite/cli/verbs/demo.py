"""`saltlite demo`: a fleet in a temporary folder, to try things on or to run one command.

One master and three minions, over real ZeroMQ on loopback and without root. They are the real daemons, forked from this
process; their keys are accepted by join token. Tests may use `DemoFleet` as well.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.job_options import JOB, TARGET_AND_FUNCTION
from saltlite.cli.main import split_command
from saltlite.client.local import LocalClient
from saltlite.config.apart import begin_reading_minion
from saltlite.config.load import load_master
from saltlite.config.paths import master_socket
from saltlite.errors import SaltliteError, StartupError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.platform.process import set_parent_death_signal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


MINIONS = ("demo-1", "demo-2", "demo-3")
START_S = 20.0
"""How long the fleet may take to be up before the demo gives up."""
STOP_S = 8.0
POLL_S = 0.01
TOKEN_S = 300.0


@dataclass(frozen=True, slots=True)
class Timings:
    """How long the steps took, in seconds."""

    master_s: float
    minions_s: float


class DemoFleet:
    """Starts on entering, is gone without a trace after leaving. Raises StartupError."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="saltlite-demo-")
        self.timings = Timings(0.0, 0.0)
        self._pids: list[int] = []

    @property
    def config_dir(self) -> str:
        """The master's configuration folder: what `saltlite -c` takes."""
        return os.path.join(self.folder, "master")

    def __enter__(self) -> DemoFleet:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop every process, minions first, and remove the folder."""
        for pid in reversed(self._pids):
            _signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        for pid in self._pids:
            while os.waitpid(pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > deadline:
                    _signal(pid, signal.SIGKILL)
                time.sleep(POLL_S)
        self._pids.clear()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        began = time.monotonic()
        port = _free_port()
        self._write("master", f"interface: 127.0.0.1\nport: {port}\nhandshakes_per_address: 100\n")
        self._launch("master", _run_master)
        master_up = time.monotonic()
        with LocalClient(master_socket(load_master(self.config_dir).config.sock_dir)) as client:
            answer = client.call("token_create", uses=len(MINIONS), expires_s=TOKEN_S, id_glob="demo-*")
            for minion in MINIONS:
                config = f"id: {minion}\nmaster: 127.0.0.1:{port}\njoin_token: {answer['token']}\n"
                self._write(minion, config)
                self._launch(minion, _run_minion)
            self._wait_until_up(client)
        self.timings = Timings(master_up - began, time.monotonic() - master_up)

    def _wait_until_up(self, client: LocalClient) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            rows = client.call("minions")["minions"]
            if sum(row["state"] == "up" for row in rows) == len(MINIONS):
                return
            time.sleep(POLL_S)
        raise StartupError(f"the minions did not come up within {START_S:g} s; their logs: {self._logs()}")

    def _write(self, name: str, options: str) -> None:
        folder = os.path.join(self.folder, name)
        os.mkdir(folder, 0o700)
        user = pwd.getpwuid(os.geteuid()).pw_name
        common = f"root_dir: {folder}/root\nuser: {user}\nlog_level: info\n"
        kind = "master" if name == "master" else "minion"
        if kind == "master":
            common += f"link_user: {user}\n"
        # Created private: a minion's file has its join token in it.
        descriptor = os.open(os.path.join(folder, kind), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(common + options)

    def _launch(self, name: str, run: Callable[[str, Callable[[], None]], None]) -> None:
        """Fork a daemon and wait until it is ready."""
        reading, writing = os.pipe2(os.O_CLOEXEC)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _become(os.path.join(self.folder, name), writing, parent, run)
        os.close(writing)
        self._pids.append(pid)
        with os.fdopen(reading, "rb") as pipe:
            line = pipe.readline().decode(errors="replace").strip()
        if line != "ready":
            raise StartupError(f"{name}: {line or 'it ended without a message'}; the logs: {self._logs()}")

    def _logs(self) -> str:
        return os.path.join(self.folder, "*", "root", "var", "log", "saltlite")


def _become(config_dir: str, pipe: int, parent: int, run: Callable[[str, Callable[[], None]], None]) -> None:
    """A daemon's whole life in its forked process; it never returns."""
    status = 1
    try:
        # Out of the terminal's reach: Ctrl-C is for the demo, which stops its daemons in order.
        os.setsid()
        set_parent_death_signal(signal.SIGTERM, parent)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        run(config_dir, lambda: _say(pipe, "ready"))
        status = 0
    except SaltliteError as error:
        _say(pipe, str(error))
    except BaseException as error:  # noqa: BLE001 - named supervision point: the last frame of a forked daemon
        _say(pipe, f"{type(error).__name__}: {error}")
    finally:
        os._exit(status)


def _run_master(config_dir: str, on_ready: Callable[[], None]) -> None:
    from saltlite.master.processes.app import run_master

    run_master(load_master(config_dir).config, config_dir, on_ready)


def _run_minion(config_dir: str, on_ready: Callable[[], None]) -> None:
    from saltlite.minion.processes.start import run_minion

    run_minion(*begin_reading_minion(config_dir)(), on_ready)


def _say(pipe: int, line: str) -> None:
    os.write(pipe, line.replace("\n", " ").encode() + b"\n")
    os.close(pipe)


def _signal(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def command_for(config_dir: str) -> str:
    """How to call `saltlite` on this fleet from another terminal."""
    program = os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "saltlite")
    return f"{program if os.path.exists(program) else 'saltlite'} -c {config_dir}"


def run(argv: Sequence[str], console: Console) -> int:
    """Start the fleet, run the command after `--` (or wait for Ctrl-C), stop it; the command's exit code."""
    own, job = _split(argv)
    parsed = command_table("demo").parse(own)
    if parsed.words:
        raise UsageError(f"write the command for the demo fleet after --, as in: demo -- {' '.join(parsed.words)}")
    _check(job)
    # A closed terminal or a `kill` cleans up, as Ctrl-C does. In the background of a script, SIGINT was ignored.
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.default_int_handler)
    console.note("starting a master and three minions in a temporary folder ...")
    with DemoFleet() as fleet:
        timings = fleet.timings
        console.note(
            f"master up after {timings.master_s:.2f} s; {', '.join(MINIONS)} joined by token "
            f"and up after another {timings.minions_s:.2f} s"
        )
        if job:
            return _run_job(fleet, job, console)
        return _stay(fleet, console)


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    words = list(argv)
    if "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _check(job: Sequence[str]) -> None:
    """Raise for wrong options of the job before a fleet is started for it."""
    name, rest = split_command(job)
    if name is None:
        JOB.parse(rest, words_before_arguments=TARGET_AND_FUNCTION)


def _run_job(fleet: DemoFleet, job: Sequence[str], console: Console) -> int:
    from saltlite.cli.main import run as run_command

    console.note(f"saltlite {' '.join(job)}")
    return run_command(["-c", fleet.config_dir, *job], console)


def _stay(fleet: DemoFleet, console: Console) -> int:
    command = command_for(fleet.config_dir)
    console.note("")
    console.note("Try in a second terminal:")
    for example in ("'*' test.ping", "'*' pkg.list_installed", "demo-1 cmd.run 'uname -a'", "key list"):
        console.note(f"  {command} {example}")
    console.note("")
    try:
        console.note("Ctrl-C stops the fleet and removes it.")
        signal.pause()
    except KeyboardInterrupt:
        console.note("stopping ...")
    return exitcodes.OK
