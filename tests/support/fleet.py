"""A fleet of real daemons in a temporary folder: started, watched, and ended process by process.

What belongs here: starting and stopping, waiting on conditions, and looking at what the daemons did from outside:
through the command line, the client library, `/proc` and the store. What does not: what the tests expect.

Every process of a fleet inherits one mark in its environment, by which it is found again, jobs that outlived
their minion included; only processes with that mark are ever signalled.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import pwd
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from saltlite.client.connection import ConnectionLostError
from saltlite.client.local import LocalClient
from saltlite.errors import SaltliteError
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.ids import parse_jid
from tests.support.fleet_watcher import MARK, mark, watch

T = TypeVar("T")

BIN = Path(sys.executable).parent
ORDINARY_COMMAND = BIN / "saltlite-cli"
"""`saltlite` without the shell script of that name. The kernel opens its interpreter with the rights that setpriv still
has, which may be needed: an interpreter below /root is closed to the users that the tests become."""
WAIT_S = 60.0
"""How long a condition may take: more than anything that works needs, on a machine with ten times the load too."""
STOP_S = 8.0
TOKEN_S = 3600.0
POLL_S = 0.01
POLL_SHARE, POLL_MAX_S = 4, 0.2
"""A look that takes long, as one that starts a command, is repeated after so many times its own duration, and after
POLL_MAX_S at the latest: what is waited for needs the processor more."""
PORTS = range(17000, 32000)
"""Below the kernel's range for outgoing connections, one of which could take a port between two daemons."""
MODULE_DIR = Path(__file__).parents[1] / "e2e"
"""Its folder `modules` has execution modules that every minion of a test fleet gets."""
MODULE_INDEX = "var/cache/saltlite/minion/index/modules"
"""Below a minion's root_dir: what its modules offer."""
ME = pwd.getpwuid(os.geteuid()).pw_name

_numbers = itertools.count(1)


class _Ports:
    """The ports that this process gives to its daemons: a part of PORTS that no other process of tests has.

    A daemon that starts, or starts again, would else find its port taken by the daemon of a test beside it. The name
    of an abstract socket is the lock: it is free again when this process has ended.
    """

    PARTS = 50

    def __init__(self) -> None:
        size = len(PORTS) // self.PARTS
        self._lock = socket.socket(socket.AF_UNIX)
        for part in range(self.PARTS):
            with contextlib.suppress(OSError):
                self._lock.bind(f"\0saltlite-test-ports-{part}")
                break
        else:
            raise AssertionError(f"{self.PARTS} processes run tests with daemons")
        self._next = itertools.cycle(PORTS[part * size : (part + 1) * size])

    def take(self) -> int:
        """One on which no process listens."""
        while True:
            port = next(self._next)
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port


_ports = functools.cache(_Ports)


def wait_until(look: Callable[[], T], what: str, within_s: float = WAIT_S) -> T:
    """The first true answer of `look`; the test fails with `what` when there is none in time."""
    deadline = time.monotonic() + within_s
    while True:
        began = time.monotonic()
        found = look()
        if found:
            return found
        now = time.monotonic()
        assert now < deadline, f"not within {within_s:g} s: {what}"
        time.sleep(min(max(POLL_S, POLL_SHARE * (now - began)), POLL_MAX_S))


def done_once(go: Path) -> str:
    """A command for `cmd.run` that ends, and prints "done", when there is such a file."""
    return f"while [ ! -e {go} ]; do sleep 0.1; done; echo done"


def free_port() -> int:
    """A TCP port that nobody listens on, and that no other process of tests takes."""
    return _ports().take()


def slower() -> float:
    """How many times as long as on an idle host something may take here: tests run beside each other, on a machine of
    any speed. What is wrong waits for a time limit, of a minute or more."""
    return max(10.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))


def write_config(folder: Path, kind: str, options: dict[str, Any]) -> None:
    """Write `folder/kind`; JSON values are YAML."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    path = folder / kind
    path.touch(mode=0o600)
    path.write_text("".join(f"{name}: {json.dumps(value)}\n" for name, value in options.items()))


def answers(port: int) -> bool:
    """Whether a program reads what is sent to that port of loopback.

    It takes more than a port that listens: the API listens while it is root, and serves as its own user.
    """
    with socket.socket() as probe:
        probe.settimeout(1)
        try:
            probe.connect(("127.0.0.1", port))
            probe.sendall(b"neither TLS nor HTTP\r\n\r\n")
            probe.recv(1)
        except ConnectionResetError:
            return True
        except OSError:
            return False
        return True


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid: int) -> list[int]:
    """The living children of a process."""
    with contextlib.suppress(FileNotFoundError):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [child for child in map(int, found) if alive(child)]
    return []


def title(pid: int) -> str:
    """The name that `ps -o comm` shows; "" when the process is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    return ""


def uid_of(pid: int) -> int:
    """The effective user of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[2]) for line in lines if line.startswith("Uid:"))


@dataclass(frozen=True, slots=True)
class Said:
    """What a finished command left."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """stdout as one JSON document."""
        return json.loads(self.out)


class Daemon:
    """One started daemon. `config_dir` is what its `-c` names; `output` is its stdout and stderr."""

    cwd: Path | None = None
    """Where it is started; None for where the tests are."""

    def __init__(
        self, program: str, config_dir: Path, environment: dict[str, str], through: Sequence[str | Path] = ()
    ) -> None:
        self.program = program
        self.config_dir = config_dir
        self.output = config_dir / (f"output-{program}" if program == "saltlite-api" else "output")
        with self.output.open("ab") as output:
            self._began = output.tell()
            self.process = subprocess.Popen(
                [*through, *self.command(), "-c", config_dir],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=self.cwd,
                start_new_session=True,
            )

    def command(self) -> list[str | Path]:
        """The program, without its options."""
        return [BIN / self.program]

    @property
    def pid(self) -> int:
        """Its first process."""
        return self.process.pid

    def child(self, name: str) -> int:
        """The pid of the child with that title, as soon as there is one."""
        return wait_until(lambda: self.children(name), f"{self.program} has a child {name!r}")[0]

    def children(self, name: str) -> list[int]:
        """The pids of its living children whose title begins with `name`."""
        return [pid for pid in children_of(self.pid) if title(pid).startswith(name)]

    def said_since_its_start(self, words: str) -> bool:
        """Whether this process has logged these words; one before it, on the same configuration, does not count."""
        return words.encode() in self.output.read_bytes()[self._began :]

    def ended(self) -> int:
        """Its exit code, once it has ended."""
        wait_until(lambda: self.process.poll() is not None, f"{self.program} ends")
        return self.process.returncode

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.terminate()
        return self.ended()

    def kill_whole(self) -> None:
        """SIGKILL to it and to its children at once, as a power cut would; jobs are no children by then."""
        pids = [self.pid, *(pid for pid in children_of(self.pid) if title(pid) != "saltlite-job")]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.ended()
        wait_until(lambda: not any(map(alive, pids)), "killed processes are gone")

    def log(self) -> str:
        """All that it has logged and printed."""
        return self.output.read_text(errors="replace")


class Fleet:
    """One or more masters with their minions below `folder`. Leave it as a context manager, or call `close`."""

    running: list[Fleet] = []  # noqa: RUF012 - all fleets of this process: whose logs a failed test shows
    """Fleets that are not closed."""
    module_index = b""
    """The cache file of the first minion that this process has started, without which each minion parses all modules
    that ship: more than half of the processor time of its start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        watch()
        self.mark = mark(next(_numbers))
        self.daemons: dict[str, Daemon] = {}
        self.secrets: list[str] = []
        self.through: Sequence[str | Path] = ()
        """A command that masters and minions are started by; it must become the daemon."""
        self._ports: dict[str, int] = {}
        Fleet.running.append(self)

    # -- starting

    def start_master(self, name: str = "master", **options: Any) -> Daemon:
        """Write its configuration and start it; it is ready when this returns."""
        self._ports.setdefault(name, free_port())
        folder = self.folder / name
        defaults = {
            "root_dir": str(folder / "root"),
            "interface": "127.0.0.1",
            "port": self._ports[name],
            "user": ME,
            "log_level": "info",
            "worker_threads": 2,
            "handshakes_per_address": 200,
        }
        # The user that it has by default is no user of the machine that tests run on.
        defaults["link_user"] = options.get("user", ME)
        write_config(folder, "master", defaults | options)
        return self.restart_master(name)

    def restart_master(self, name: str = "master") -> Daemon:
        """Start it on the configuration that it has."""
        daemon = self._launch("saltlite-master", name)
        wait_until(lambda: self._ready_or_dead(daemon, name), f"{name} answers")
        return daemon

    def start_minion(self, name: str, **options: Any) -> Daemon:
        """Write its configuration and start it; it is up, or whatever it will be, some time later."""
        folder = self.folder / name
        defaults: dict[str, Any] = {
            "root_dir": str(folder / "root"),
            "id": name,
            "master": self.address(),
            "module_dirs": [str(MODULE_DIR)],
            "user": ME,
            "log_level": "info",
        }
        write_config(folder, "minion", {k: v for k, v in (defaults | options).items() if v is not None})
        if Fleet.module_index and not self.through and not options.keys() & {"user", "root_dir", "cachedir"}:
            self.place_module_index(name)
        return self.restart_minion(name)

    def place_module_index(self, name: str) -> None:
        """Give a minion that never ran what another one has found out about the modules that ship."""
        path = self.root(name) / MODULE_INDEX
        if not path.parent.parent.exists():
            for folder, mode in ((path.parents[2], 0o755), (path.parents[1], 0o700), (path.parents[0], 0o700)):
                folder.mkdir(mode, parents=True)
            Fleet.write_module_index(path)

    @staticmethod
    def write_module_index(path: Path) -> None:
        """Write `module_index`, if it is known, to a file that a minion believes."""
        if Fleet.module_index:
            path.touch(0o600)
            path.write_bytes(Fleet.module_index)

    def _remember_module_index(self) -> None:
        for name, daemon in self.daemons.items():
            path = self.root(name) / MODULE_INDEX
            if not Fleet.module_index and daemon.program == "saltlite-minion" and os.access(path, os.R_OK):
                Fleet.module_index = path.read_bytes()

    def start_api(self, master: str = "master", **options: Any) -> str:
        """Write its configuration beside the master's and start it; its address, once it answers."""
        folder, port = self.folder / master, free_port()
        defaults = {
            "root_dir": str(folder / "root"),
            "interface": "127.0.0.1",
            "port": port,
            "user": ME,
            "log_level": "info",
            "log_file": "",
        }
        write_config(folder, "api", defaults | options)
        daemon = self._launch("saltlite-api", master, as_name=f"api-{port}")
        wait_until(lambda: daemon.process.poll() is not None or answers(port), "the API answers")
        assert daemon.process.poll() is None, daemon.log()
        return f"{'http' if options.get('disable_ssl') else 'https'}://127.0.0.1:{port}"

    def restart_minion(self, name: str) -> Daemon:
        """Start it on the configuration that it has."""
        return self._launch("saltlite-minion", name)

    def join(self, *names: str, at: str = "master", **options: Any) -> None:
        """Start minions that are let in by a token of that master, and wait until they are up."""
        with self.client(at) as client:  # a command takes as much of the processor as all the rest of this
            answer = client.call("token_create", uses=len(names), expires_s=TOKEN_S, id_glob="*")
        token: str = answer["token"]
        self.secrets.append(token.rpartition(".")[2])
        for name in names:
            self.start_minion(name, **{"master": self.address(at), "join_token": token} | options)
        self.wait_up(*names, master=at)
        self._remember_module_index()

    def _launch(self, program: str, name: str, *, as_name: str = "") -> Daemon:
        through = () if program == "saltlite-api" else self.through
        daemon = Daemon(program, self.folder / name, self.environment(), through)
        self.daemons[as_name or name] = daemon
        return daemon

    def _ready_or_dead(self, daemon: Daemon, name: str) -> bool:
        assert daemon.process.poll() is None, f"{name} has ended: {daemon.log()}"
        # Processes of an earlier start that was killed may answer for a moment.
        return daemon.said_since_its_start("is ready") and self._answers(name)

    def _answers(self, name: str) -> bool:
        with contextlib.suppress(SaltliteError), self.client(name) as client:
            return bool(client.call("key_finger"))
        return False

    # -- where things are

    def address(self, name: str = "master") -> str:
        """host:port of a master."""
        return f"127.0.0.1:{self._ports.setdefault(name, free_port())}"

    def root(self, name: str) -> Path:
        """The root_dir of a daemon."""
        return self.folder / name / "root"

    def socket_path(self, name: str = "master") -> str:
        """Where the master takes clients."""
        return str(self.root(name) / "run/saltlite/master/master.ipc")

    def environment(self) -> dict[str, str]:
        """What every process of this fleet starts with."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SALTLITE", "NOTIFY"))}
        return kept | {MARK: self.mark}

    # -- asking

    def start_cli(self, *words: str, master: str = "master") -> subprocess.Popen[str]:
        """`saltlite -c … words`, running."""
        return subprocess.Popen(
            [BIN / "saltlite", "-c", self.folder / master, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment(),
        )

    def cli(self, *words: str, master: str = "master") -> Said:
        """`saltlite -c … words`, to its end."""
        with self.start_cli(*words, master=master) as process:
            try:
                out, err = process.communicate(timeout=WAIT_S + 10)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Said(process.returncode, out, err)

    def client(self, name: str = "master") -> LocalClient:
        """A client library object; the caller closes it."""
        return LocalClient(self.socket_path(name))

    def token(self, *options: str, master: str = "master") -> str:
        """A new join token, remembered as a secret."""
        text = self.cli("key", "token", "create", *options, master=master).out.strip()
        self.secrets.append(text.rpartition(".")[2])
        return text

    def fleet_id(self, master: str = "master") -> str:
        """The fingerprint that minions pin."""
        return (self.root(master) / "etc/saltlite/pki/master/fleet.id").read_text().strip()

    def keys(self, master: str = "master") -> dict[str, list[str]]:
        """id -> the states of its keys, sorted."""
        found: dict[str, list[str]] = {}
        for row in self.key_rows(master):
            found.setdefault(row["id"], []).append(row["state"])
        return {minion: sorted(states) for minion, states in found.items()}

    def key_rows(self, master: str = "master") -> list[dict[str, Any]]:
        """Every key as the master lists it."""
        with self.client(master) as client:
            rows: list[dict[str, Any]] = client.call("key_list")["keys"]
            return rows

    def up(self, master: str = "master") -> set[str]:
        """The minions that have a session."""
        with self.client(master) as client:
            return {row["id"] for row in client.call("minions")["minions"] if row["state"] == "up"}

    def absences(self) -> dict[str, str]:
        """Why each accepted minion that is not connected is not, by the status."""
        rows = self.cli("status", "--out", "json").json()["minions"]
        return {row["id"]: row["reason"] for row in rows if row["state"] in ("away", "never")}

    def up_now(self, master: str = "master") -> set[str]:
        """The same for a look that is repeated: none while the processes of the master start again."""
        try:
            return self.up(master)
        except ConnectionLostError:
            return set()

    def wait_up(self, *names: str, master: str = "master") -> None:
        """Wait until these minions have a session."""
        wait_until(lambda: set(names) <= self.up_now(master), f"{', '.join(names)} up")

    def wait_key(self, name: str, *states: str, master: str = "master") -> None:
        """Wait until the id has keys in exactly these states."""
        wait_until(lambda: self.keys(master).get(name) == sorted(states), f"{name} has keys {states}")

    def wait_log(self, name: str, text: str, times: int = 1) -> None:
        """Wait until a daemon has logged `text` so many times."""
        wait_until(lambda: self.daemons[name].log().count(text) >= times, f"{name} logs {text!r}")

    @contextlib.contextmanager
    def store(self, master: str = "master") -> Iterator[SqliteStore]:
        """The master's store, opened beside it."""
        store = SqliteStore(str(self.root(master) / "var/lib/saltlite/master/store.sqlite"))
        try:
            yield store
        finally:
            store.close()

    def states(self, jid: str, master: str = "master") -> dict[str, str]:
        """minion -> how far it has come with a job."""
        with self.store(master) as store:
            return {str(row.id): str(row.state) for row in store.targets(parse_jid(jid))}

    def wait_state(self, jid: str, minion: str, *states: str) -> str:
        """Wait until the minion's row of that job is in one of the states; which one."""
        return wait_until(
            lambda: next((state for state in (self.states(jid).get(minion, ""),) if state in states), ""),
            f"{minion} is {' or '.join(states)} with job {jid}",
        )

    def publish(self, target: str, fun: str, *words: str) -> str:
        """Publish without waiting; the jid."""
        said = self.cli("--async", "--out", "json", target, fun, *words)
        assert said.code == 0, said
        jid: str = said.json()["jid"]
        return jid

    def jobs_published(self) -> int:
        """How many jobs the master has ever committed."""
        with self.store() as store:
            return sum(
                event.tag.endswith("/new") and event.tag.startswith("salt/job/") for event in store.events(0, 10**6)
            )

    # -- processes

    def processes(self) -> list[int]:
        """All living processes that were started, directly or not, by this fleet."""
        mark = f"{MARK}={self.mark}".encode()
        found = []
        for entry in os.listdir("/proc"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if entry.isdigit() and mark in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    found.append(int(entry))
        return [pid for pid in found if alive(pid)]

    def running_jobs(self, name: str) -> dict[str, int]:
        """jid -> pid of the jobs that a minion says it runs now, as `saltutil.running` reads it."""
        found = {}
        for note in (self.root(name) / "var/lib/saltlite/minion/running").iterdir():
            with contextlib.suppress(FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError):
                found[note.name] = json.loads(note.read_text())["pid"]
        return {jid: pid for jid, pid in found.items() if not jid.endswith(".new")}

    def logs(self) -> str:
        """What every daemon said, for the report of a failed test."""
        return "\n".join(f"==== {name}\n{daemon.log()[-6000:]}" for name, daemon in self.daemons.items())

    def close(self) -> None:
        """End every process of the fleet, minions first, hard if need be."""
        if self not in Fleet.running:
            return
        Fleet.running.remove(self)
        for daemon in reversed(self.daemons.values()):
            if daemon.process.poll() is None:
                daemon.process.terminate()
        deadline = time.monotonic() + STOP_S
        while any(daemon.process.poll() is None for daemon in self.daemons.values()):
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for daemon in self.daemons.values():
            daemon.process.wait(STOP_S)


def run_daemon(program: str, config_dir: Path, *, limit_s: float = WAIT_S, command: Sequence[str] = ()) -> Said:
    """Run a daemon that is expected to end by itself; `command` is put in front, as in `setpriv …`."""
    done = subprocess.run(
        [*command, BIN / program, "-c", config_dir],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    return Said(done.returncode, done.stdout, done.stderr)
