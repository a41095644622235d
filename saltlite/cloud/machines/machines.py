"""Machines made of this host's namespaces: processes, mounts, host name and network of their own, and a disk in memory.

    <folder>/<name>/machine.json    what it is; there before anything else of it is
    <folder>/<name>/running.json    its process 1; there before that process does anything
    <folder>/<name>/disk            a tmpfs with all that it has written; there until it is destroyed

Whatever moment the program that makes a machine is killed at, the folder names what is left, and `destroy` removes it.
A machine needs nobody: it goes on when the program that has made it ends. What it is not is a prison for hostile
programs: its root is this host's root with fewer capabilities.

Contract: namespaces(7), overlayfs and tmpfs of the kernel's documentation. Needs root, and ip(8).
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from saltlite.cloud.machines import inside as machine_inside
from saltlite.cloud.machines.limits import drop_limit, limit
from saltlite.cloud.machines.net import PREFIX, cable_of, connect, disconnect, free_cables, room
from saltlite.errors import MachineError
from saltlite.platform.process import start_ticks

BOOT_S = 20.0
STOP_S = machine_inside.STOP_S + 3.0
KILL_S = 10.0
PUT_S = 60.0
PROCESSES_MAX = 1024
"""Processes and threads of one machine, so that none takes all that this host can have."""
NAME = re.compile(r"[a-z0-9]([a-z0-9_.-]{0,61}[a-z0-9])?")
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
}

_RECORD, _RUNNING = "machine.json", "running.json"
_ODD_IN_MOUNTS = re.compile(r"[,:\\\s]")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a machine is to be. `memory` and `disk` are bytes, and the disk is part of the memory.

    `image` is a folder that has a root; `hidden` are folders in it that the machine sees empty; `shown` are folders of
    this host that the machine sees at the same path, read-only. Paths are absolute and real (no links).
    `notes` are the maker's own notes: they come back with the machine.
    """

    name: str
    image: str
    memory: int
    disk: int
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as it is now. `state` is "running", "stopped" or "broken" (half made, or its disk is gone);
    `pid` is its process 1 as this host sees it, 0 for none; `created` is seconds since the epoch.
    """

    name: str
    uid: str
    state: str
    pid: int
    network: str
    memory: int
    disk: int
    created: float
    image: str
    notes: Mapping[str, str]

    @property
    def address(self) -> str:
        """Its address; "" before it has been started."""
        return cable_of(self.network).address if self.network else ""

    @property
    def gateway(self) -> str:
        """This host's address, as the machine sees it; "" before it has been started."""
        return cable_of(self.network).gateway if self.network else ""


class Machines:
    """The machines below one folder, which no machine may see. `network` is the range of their addresses."""

    def __init__(self, folder: str, network: str) -> None:
        self._folder = os.path.realpath(folder)
        self._room = room(network)

    def names(self) -> list[str]:
        """The names that are taken, by broken machines too."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(self._folder) if NAME.fullmatch(name))
        return []

    def every(self) -> list[Machine]:
        """All machines, by name."""
        found = []
        for name in self.names():
            # It may be destroyed while this looks.
            with contextlib.suppress(MachineError):
                found.append(self.find(name))
        return found

    def find(self, name: str) -> Machine:
        """A machine. Raises MachineError for a name that no machine has."""
        if name not in self.names():
            raise MachineError(f"there is no machine {name!r} here")
        record, running = self._read(name, _RECORD), self._read(name, _RUNNING)
        pid = running["pid"] if running and running["ticks"] == start_ticks(running["pid"]) is not None else 0
        whole = os.path.ismount(self._path(name, "disk"))
        return Machine(
            name=name,
            uid=record.get("uid", ""),
            state="running" if pid else "stopped" if whole else "broken",
            pid=pid,
            network=record.get("network", ""),
            memory=record.get("memory", 0),
            disk=record.get("disk", 0),
            created=record.get("created", 0.0),
            image=record.get("image", ""),
            notes=dict(record.get("notes", ())),
        )

    def make(self, plan: Plan) -> Machine:
        """Make a machine and start it. Raises MachineError; what was made until then stays, for `destroy`."""
        _check_plan(plan)
        self._take(plan.name)
        with self._locked(plan.name):
            self._write(plan.name, _RECORD, {**asdict(plan), "uid": secrets.token_hex(8), "created": time.time()})
            disk = self._path(plan.name, "disk")
            os.mkdir(disk, 0o700)
            try:
                machine_inside.mount("saltlite-machine", disk, "tmpfs", 0, f"size={plan.disk},mode=700")
            except OSError as error:
                raise MachineError(f"the disk of {plan.name} cannot be mounted: {error.strerror}") from error
            self._boot(plan.name)
        return self.find(plan.name)

    def start(self, name: str) -> Machine:
        """Start a stopped machine; one that runs is left alone. Raises MachineError."""
        with self._locked(name):
            found = self.find(name)
            if found.state == "broken":
                raise MachineError(f"the disk of {name} is gone, as after a restart of this host: destroy it")
            if found.state == "stopped":
                self._boot(name)
        return self.find(name)

    def stop(self, name: str) -> Machine:
        """End its processes, hard after some seconds; its disk stays. A stopped one is left alone."""
        with self._locked(name):
            self._end(self.find(name), signal.SIGTERM, STOP_S)
        return self.find(name)

    def destroy(self, name: str) -> None:
        """Leave nothing of it. Raises MachineError when something does not go, and the name is then still taken."""
        with self._locked(name):
            found = self.find(name)
            self._end(found, signal.SIGKILL, KILL_S)
            drop_limit(_group(found.uid))
            disk = self._path(name, "disk")
            try:
                while os.path.ismount(disk):
                    machine_inside.unmount(disk)
                # Its record goes last: until then, what is left can be found.
                with contextlib.suppress(FileNotFoundError):
                    os.rmdir(disk)
                shutil.rmtree(self._path(name))
            except OSError as error:
                raise MachineError(f"{error.filename} cannot be removed: {error.strerror}") from error
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)

    def put(self, name: str, files: Mapping[str, tuple[bytes, int]]) -> None:
        """Write files in the machine, as its root: path -> content and mode. Raises MachineError."""
        rows = [
            {"path": path, "data": base64.b64encode(data).decode(), "mode": mode}
            for path, (data, mode) in files.items()
        ]
        done = self._inside(name, "put", (), json.dumps(rows).encode() + b"\n", PUT_S)
        if done.returncode != 0:
            said = (done.stdout or done.stderr).decode(errors="replace").strip()
            raise MachineError(f"{name} does not take files: {said.rpartition(chr(10))[2]}")

    def run(
        self, name: str, argv: Sequence[str], *, stdin: bytes = b"", within_s: float = 60.0
    ) -> tuple[int, str, str]:
        """Run a command as the machine's root, in its memory; exit code, stdout, stderr.

        Raises MachineError when the machine does not run, or the command takes longer.
        """
        done = self._inside(name, "enter", ("--", *argv), stdin, within_s)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def read_services(self, name: str) -> None:
        """Have process 1 look for new services (`machine_inside.SERVICES`) and start them."""
        found = self.find(name)
        _signal(found.pid, signal.SIGHUP)

    def _take(self, name: str) -> None:
        """Make the folder of a machine, which its name stands for."""
        while True:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            try:
                os.mkdir(self._path(name), 0o700)
            except FileExistsError as error:
                raise MachineError(f"there is already a machine {name!r} here") from error
            except FileNotFoundError:
                continue  # Somebody has just destroyed the last machine.
            return

    def _inside(
        self, name: str, mode: str, argv: Sequence[str], stdin: bytes, within_s: float
    ) -> subprocess.CompletedProcess[bytes]:
        found = self.find(name)
        if not found.pid:
            raise MachineError(f"{name} is {found.state}, and nothing runs on it: start it first")
        group = self._read(name, _RUNNING).get("group", "")
        command = [*_program(mode), str(found.pid), group, *argv]
        try:
            return subprocess.run(
                command, input=stdin, capture_output=True, env=ENVIRONMENT, timeout=within_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise MachineError(f"{argv[1] if argv else mode} has not ended on {name} in {within_s:g} s") from error

    # -- starting and ending

    def _boot(self, name: str) -> None:
        """Start process 1, connect it, and let it go on; it ends by itself when this process ends before that."""
        record = self._read(name, _RECORD)
        group = limit(_group(record["uid"]), record["memory"], PROCESSES_MAX)
        spec = {key: record[key] for key in ("name", "uid", "image", "hidden", "shown")}
        deadline = time.monotonic() + BOOT_S
        with _starting() as starter:
            _say(starter, {**spec, "group": group, "disk": self._path(name, "disk")})
            pid = int(_answer(starter, deadline))
            self._write(name, _RUNNING, {"pid": pid, "ticks": start_ticks(pid), "group": group})
            others = {self._read(other, _RECORD).get("network", "") for other in self.names() if other != name}
            free = free_cables(self._room, record.get("network", ""), others)
            cable = connect(pid, _group(record["uid"]), free)
            self._write(name, _RECORD, {**record, "network": str(cable.network)})
            _say(starter, {"address": cable.address, "prefix": PREFIX, "gateway": cable.gateway})
            said = _answer(starter, deadline)
            if said != "up":
                raise MachineError(f"{name} does not start: {said}")

    def _end(self, machine: Machine, signum: int, within_s: float) -> None:
        """End its processes and remove its cable."""
        if machine.pid:
            _signal(machine.pid, signum)
            if not _ended(machine.pid, within_s):
                _signal(machine.pid, signal.SIGKILL)
                if not _ended(machine.pid, KILL_S):
                    raise MachineError(f"process {machine.pid} of {machine.name} does not end")
        if machine.network:
            disconnect(machine.network, _group(machine.uid))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path(machine.name, _RUNNING))

    # -- records

    def _path(self, *names: str) -> str:
        return os.path.join(self._folder, *names)

    def _read(self, name: str, record: str) -> dict[str, Any]:
        """A record; empty when it was never written, or not as a whole before this host went down."""
        try:
            with open(self._path(name, record), encoding="utf-8") as file:
                found = json.load(file)
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _write(self, name: str, record: str, values: Mapping[str, Any]) -> None:
        path = self._path(name, record)
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(values, file)
        os.rename(f"{path}.new", path)

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Until the end of the block no other process starts, stops or destroys this machine."""
        try:
            folder = os.open(self._path(name), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, ValueError) as error:
            raise MachineError(f"there is no machine {name!r} here") from error
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


def _check_plan(plan: Plan) -> None:
    if not NAME.fullmatch(plan.name):
        raise MachineError(
            f"{plan.name!r} is no name for a machine: at most 63 of a-z, 0-9, '.', '_' and '-', which begin and end "
            "with a letter or digit"
        )
    for path in (plan.image, *plan.shown):
        if not os.path.isdir(path):
            raise MachineError(f"{path} is no folder of this host")
    odd = _ODD_IN_MOUNTS.search(plan.image)
    if odd:
        raise MachineError(f"{plan.image} cannot be an image: its path has {odd[0]!r} in it")


def _group(uid: str) -> str:
    """What a machine's control group is called, and its interface labelled."""
    return f"saltlite-machine-{uid}"


def _program(mode: str) -> list[str]:
    return [sys.executable, "-I", "-S", machine_inside.__file__, mode]


@contextlib.contextmanager
def _starting() -> Iterator[subprocess.Popen[bytes]]:
    """The program that makes process 1; when the block fails, it is not waited for."""
    with subprocess.Popen(
        _program("boot"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        cwd="/",
        start_new_session=True,
    ) as starter:
        try:
            yield starter
        except BaseException:
            starter.kill()
            raise


def _say(starter: subprocess.Popen[bytes], values: Mapping[str, Any]) -> None:
    assert starter.stdin is not None  # noqa: S101 - it was asked for
    # When it has ended, `_answer` says why.
    with contextlib.suppress(BrokenPipeError):
        starter.stdin.write(json.dumps(values).encode() + b"\n")
        starter.stdin.flush()


def _answer(starter: subprocess.Popen[bytes], deadline: float) -> str:
    """The next line of the machine that starts. Raises MachineError with what it said instead."""
    assert starter.stdout is not None  # noqa: S101 - it was asked for
    assert starter.stderr is not None  # noqa: S101 - as above
    waiting = select.poll()
    waiting.register(starter.stdout, select.POLLIN)
    if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise MachineError(f"the machine has not started in {BOOT_S:g} s")
    line = os.read(starter.stdout.fileno(), 4096).decode(errors="replace").rstrip("\n")
    if not line:
        said = starter.stderr.read().decode(errors="replace").strip()
        raise MachineError(f"the machine does not start: {said.rpartition(chr(10))[2] or 'it ended without a word'}")
    return line


def _signal(pid: int, signum: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signum)


def _ended(pid: int, within_s: float) -> bool:
    """Whether the process ends in time; then all of its machine has ended."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        waiting = select.poll()
        waiting.register(process, select.POLLIN)
        return bool(waiting.poll(within_s * 1000))
    finally:
        os.close(process)
