"""`saltlite demo`: a fleet in a folder that is removed at the end, to try things on or to run one command.

One master, some minions and, if asked for, the API with its console, over real ZeroMQ on loopback and without root.
They are the real daemons, forked from this process; the minions' keys are accepted by join token. With --masters there
are several masters on a PostgreSQL server that the demo starts, and one of them is killed while a job runs.
"""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from saltlite.cli import exitcodes
from saltlite.cli.commands import command_table
from saltlite.cli.job_options import JOB, TARGET_AND_FUNCTION
from saltlite.cli.main import split_command
from saltlite.cli.options import Option
from saltlite.cli.targets import nodeset
from saltlite.cli.verbs.demo_masters import DemoDatabase, join_first, show_loss
from saltlite.client.local import LocalClient
from saltlite.config.apart import begin_reading_minion
from saltlite.config.load import load_api, load_master
from saltlite.config.paths import master_socket, require_path
from saltlite.errors import SaltliteError, StartupError, UsageError
from saltlite.model.dataclass import dataclass
from saltlite.platform.process import set_parent_death_signal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.cli.console import Console


MINIONS = 3
MINIONS_OF_SEVERAL = 10
"""The same with several masters."""
MASTERS_MAX = 5
MINIONS_MAX = 50
"""Each takes about 30 MiB and, for a moment, half a processor."""
START_S = 20.0
"""How long the fleet may take to be up before the demo gives up; each minion above MINIONS adds START_MINION_S."""
START_MINION_S = 2.0
USER = "demo"
"""Who logs in to the console; the password is a new one each time."""
STOP_S = 8.0
POLL_S = 0.01
TOKEN_S = 300.0


@dataclass(frozen=True, slots=True)
class Timings:
    """How long the steps took, in seconds."""

    master_s: float
    minions_s: float


@dataclass(frozen=True, slots=True)
class ConsoleLogin:
    """How to log in to the console."""

    port: int
    password: str

    @property
    def url(self) -> str:
        """Its address on this machine."""
        return f"http://127.0.0.1:{self.port}/"


class DemoFleet:
    """Starts on entering, is gone without a trace after leaving. Raises StartupError.

    `folder` must not exist yet; the empty one means a temporary folder. `login` is for the console, None without it.
    """

    def __init__(
        self, minions: int = MINIONS, folder: str = "", *, with_console: bool = False, masters: int = 1
    ) -> None:
        self.masters = ("master", *(f"master-{number}" for number in range(2, masters + 1)))
        """The folders of the masters."""
        self.groups: dict[str, int] = {}
        """The process groups of the masters, by name."""
        self.minions = tuple(f"demo-{number}" for number in range(1, minions + 1))
        self.folder = _made(folder) if folder else tempfile.mkdtemp(prefix="saltlite-demo-")
        self.timings = Timings(0.0, 0.0)
        self.login = ConsoleLogin(_free_port(), secrets.token_urlsafe(12)) if with_console else None
        self._pids: list[int] = []
        self._database: DemoDatabase | None = None
        try:
            self._database = DemoDatabase(self.folder) if masters > 1 else None
        except BaseException:
            self.close()
            raise

    @property
    def config_dirs(self) -> list[str]:
        """The configuration folders of all masters."""
        return [os.path.join(self.folder, name) for name in self.masters]

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
        if self._database is not None:
            self._database.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        began = time.monotonic()
        if self._database is not None:
            self._database.start()
        ports = [self._start_master(name, number) for number, name in enumerate(self.masters, 1)]
        if self.login is not None:
            self._start_api(self.login)
        master_up = time.monotonic()
        with LocalClient(master_socket(load_master(self.config_dir).config.sock_dir)) as client:
            answer = client.call("token_create", uses=len(self.minions), expires_s=TOKEN_S, id_glob="demo-*")
            for number, minion in enumerate(self.minions):
                first = number % len(ports)
                addresses = [f"127.0.0.1:{port}" for port in (*ports[first:], *ports[:first])]
                config = f"id: {minion}\nmaster: [{', '.join(addresses)}]\njoin_token: {answer['token']}\n"
                self._write(minion, config)
                self._launch(minion, _run_minion)
            self._wait_until_up(client)
        self.timings = Timings(master_up - began, time.monotonic() - master_up)

    def _start_master(self, folder: str, number: int) -> int:
        """Start one; its port."""
        port = _free_port()
        options = f"interface: 127.0.0.1\nport: {port}\nhandshakes_per_address: 100\n"
        if self.login is not None:
            options += f"auth_file: {self.config_dir}/auth\n"
            options += f"external_auth: {{file: {{{USER}: ['.*', '@runner', '@wheel']}}}}\n"
        name = f"master-{number}"
        if self._database is not None:
            options += f"several_masters: true\ndatabase: {json.dumps(self._database.dsn)}\n"
            options += f"master_name: {name}\nmaster_address: 127.0.0.1:{port}\n"
        self._write(folder, options)
        if number > 1:
            further = load_master(os.path.join(self.folder, folder)).config
            join_first(load_master(self.config_dir).config, further, time.time())
        self._launch(folder, _run_master)
        self.groups[name] = self._pids[-1]
        return port

    def _start_api(self, login: ConsoleLogin) -> None:
        from saltlite.cli.verbs.auth import entry_of

        self._write_private("master/auth", entry_of(USER, login.password.encode()))
        options = f"root_dir: {self.config_dir}/root\nuser: {_user()}\ninterface: 127.0.0.1\nport: {login.port}\n"
        # Without TLS, because a browser would warn of a certificate that the API made; nothing leaves this machine.
        self._write_private("master/api", f"{options}disable_ssl: true\n")
        self._launch("master", _run_api)

    def _wait_until_up(self, client: LocalClient) -> None:
        start_s = START_S + START_MINION_S * max(0, len(self.minions) - MINIONS)
        deadline = time.monotonic() + start_s
        while time.monotonic() < deadline:
            rows = client.call("minions")["minions"]
            if sum(row["state"] == "up" for row in rows) == len(self.minions):
                return
            time.sleep(POLL_S)
        raise StartupError(f"the minions did not come up within {start_s:g} s; their logs: {self._logs()}")

    def _write(self, name: str, options: str) -> None:
        folder = os.path.join(self.folder, name)
        os.mkdir(folder, 0o700)
        common = f"root_dir: {folder}/root\nuser: {_user()}\nlog_level: info\n"
        kind = "master" if name in self.masters else "minion"
        if kind == "master":
            common += f"link_user: {_user()}\n"
        self._write_private(os.path.join(name, kind), common + options)

    def _write_private(self, path: str, text: str) -> None:
        """Create a file of the fleet's folder that only its owner can read: it may have a join token in it."""
        descriptor = os.open(os.path.join(self.folder, path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

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


def _run_api(config_dir: str, on_ready: Callable[[], None]) -> None:
    from saltlite.api.app import run_api

    run_api(load_api(config_dir).config, config_dir, on_ready)


def _say(pipe: int, line: str) -> None:
    os.write(pipe, line.replace("\n", " ").encode() + b"\n")
    os.close(pipe)


def _signal(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return


def _made(folder: str) -> str:
    """The absolute path of a new folder. Raises UsageError."""
    path = os.path.abspath(folder)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError as error:
        raise UsageError(
            f"{path} exists; the demo makes its folder, and removes it at the end: name another"
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be made: {error.strerror}") from error
    return path


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


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
    parsed = command_table(
        "demo",
        Option(
            "--minions", metavar="N", convert=_minion_count, help=f"how many minions, up to {MINIONS_MAX}: {MINIONS}"
        ),
        Option("--masters", metavar="N", convert=_master_count, help="several masters, of which one is killed"),
        Option("--dir", metavar="DIR", convert=require_path, help="the folder to make, instead of a temporary one"),
        Option("--console", help="start the API too, and print how to log in to its console in the browser"),
    ).parse(own)
    if job and parsed.on("console"):
        raise UsageError("--console is for a fleet that stays; leave it out, or the command after --")
    if parsed.words:
        raise UsageError(f"write the command for the demo fleet after --, as in: demo -- {' '.join(parsed.words)}")
    _check(job)
    masters, folder = parsed.options.get("masters", 1), parsed.options.get("dir", "")
    count = parsed.options.get("minions", MINIONS if masters == 1 else MINIONS_OF_SEVERAL)
    where = folder or "a temporary folder"
    what = "a master" if masters == 1 else f"PostgreSQL, {masters} masters"
    console.note(f"starting {what} and {count} minion{'s' if count > 1 else ''} in {where} ...")
    with (
        _ends_by_signals(),
        DemoFleet(count, folder, with_console=parsed.on("console"), masters=masters) as fleet,
    ):
        timings = fleet.timings
        console.note(
            f"{'master' if masters == 1 else 'masters'} up after {timings.master_s:.2f} s; "
            f"{nodeset(fleet.minions)} joined by token and up after another {timings.minions_s:.2f} s"
        )
        if job:
            return _run_job(fleet, job, console)
        code = show_loss(fleet.config_dirs, fleet.groups, console) if masters > 1 else exitcodes.OK
        return _stay(fleet, console) or code


@contextmanager
def _ends_by_signals() -> Iterator[None]:
    """A closed terminal or a `kill` cleans up, as Ctrl-C does. In the background of a script, SIGINT was ignored."""
    before = {
        signum: signal.signal(signum, signal.default_int_handler)
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler or signal.SIG_DFL)


def _minion_count(text: str) -> int:
    return _count(text, 1, MINIONS_MAX)


def _master_count(text: str) -> int:
    return _count(text, 2, MASTERS_MAX)


def _count(text: str, least: int, most: int) -> int:
    if text.isascii() and text.isdigit() and least <= int(text) <= most:
        return int(text)
    raise UsageError(f"{text!r} is not a whole number from {least} to {most}")


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
    if fleet.login is not None:
        console.note(f"The console: {fleet.login.url}")
        console.note(f"  log in by `file` as {USER}, with the password {fleet.login.password}")
        console.note("")
    console.note("Try in a second terminal:")
    more = ("key list",) if len(fleet.masters) == 1 else ("master list", "master drain master-1", "status")
    for example in ("'*' test.ping", "'*' pkg.list_installed", "demo-1 cmd.run 'uname -a'", *more):
        console.note(f"  {command} {example}")
    console.note("")
    try:
        console.note("Ctrl-C stops the fleet and removes it.")
        signal.pause()
    except KeyboardInterrupt:
        console.note("stopping ...")
    return exitcodes.OK
