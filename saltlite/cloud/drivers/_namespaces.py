"""Machines made of this host's namespaces: their own processes, mounts, host name and network, and a disk in memory.

    <folder>/<name>/machine.json    what it is; written before anything else of it
    <folder>/<name>/running.json    its process 1; written before that process does anything
    <folder>/<name>/disk            a tmpfs with everything that it wrote; there until it is destroyed

If the process that makes a machine is killed at any moment, the folder still names what is left, and `destroy` removes
it. A machine keeps running after the process that made it. It is no sandbox for hostile programs: its root is this
host's root with fewer capabilities.

The network is a veth pair with a /30. The host's end is named after its network, and interface names are unique in the
kernel, so whoever creates the pair has reserved the network. Memory and processes are limited by control groups
(cgroup v1 or v2) where the host has them.

Contract: namespaces(7), overlayfs, tmpfs and cgroups in the kernel's documentation. Needs root, and ip(8).
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import ipaddress
import json
import logging
import os
import re
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from saltlite.cloud.drivers import _namespaces_inside as machine_inside
from saltlite.errors import MachineError
from saltlite.platform.process import start_ticks

log = logging.getLogger(__name__)


# -- control groups

ROOT = "/sys/fs/cgroup"
EMPTY_S = 2.0
"""Seconds until a group must be empty after its last process ended."""

_FILES = {"memory": ("memory.limit_in_bytes", "memory.max"), "pids": ("pids.max", "pids.max")}
"""Controller -> the file with its limit, in version 1 and in version 2."""


def limit(name: str, memory: int, processes: int) -> str:
    """Make the control group `name` with limits for memory (bytes) and processes.

    Returns its folders with ":" between them, "" if the host supports no limits.
    """
    found: list[str] = []
    for controller, most in (("memory", memory), ("pids", processes)):
        folder = _limited(name, controller, most, found)
        if not folder:
            log.info("This host has no control group for %s: %s may use as much as there is.", controller, name)
        elif folder not in found:
            found.append(folder)
    return ":".join(found)


def _limited(name: str, controller: str, most: int, kept: list[str]) -> str:
    """The folder of the group with this limit, "" for none. `kept` are folders already in use."""
    parents = (f"{ROOT}/{controller}", ROOT)
    for parent, file in zip(parents, _FILES[controller], strict=True):
        if not os.path.exists(f"{parent}/cgroup.procs"):
            continue
        folder = f"{parent}/{name}"
        try:
            os.makedirs(folder, exist_ok=True)
            with open(f"{folder}/{file}", "w", encoding="ascii") as limit_file:
                limit_file.write(str(most))
        except OSError as error:
            if folder not in kept:
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
            log.debug("There is no limit of %s below %s: %s.", controller, parent, error.strerror)
        else:
            return folder
    return ""


def drop_limit(name: str) -> None:
    """Remove the group `name` after its processes ended; a missing group is no error."""
    deadline = time.monotonic() + EMPTY_S
    for folder in folders_of(name):
        while os.path.isdir(folder):
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise MachineError(f"the control group {folder} cannot be removed: {error.strerror}") from error
                time.sleep(0.005)


def folders_of(name: str) -> list[str]:
    """The possible folders of the group `name`."""
    return [*(f"{ROOT}/{controller}/{name}" for controller in _FILES), f"{ROOT}/{name}"]


# -- network

PREFIX = 30
TRIES_MAX = 4096
"""Networks that are tried before all count as taken."""
GONE_S = 5.0


@dataclass(frozen=True, slots=True)
class Cable:
    """One network of four addresses: the host's end has the first one, the machine's the second one."""

    network: ipaddress.IPv4Network

    @property
    def interface(self) -> str:
        """The host's end."""
        return f"slm{int(self.network.network_address):08x}"

    @property
    def gateway(self) -> str:
        """The host's address."""
        return str(self.network[1])

    @property
    def address(self) -> str:
        """The machine's address."""
        return str(self.network[2])


def cable_of(network: str) -> Cable:
    """The cable of `a.b.c.d/30`, as it was recorded."""
    return Cable(ipaddress.IPv4Network(network))


def room(text: str) -> ipaddress.IPv4Network:
    """The address range of the machines, as in "10.231.0.0/16". Raises MachineError for an invalid one."""
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise MachineError(f"{text!r} is not a range of addresses, such as 10.231.0.0/16: {error}") from error
    if network.prefixlen > PREFIX:
        raise MachineError(f"{text} is too small: a machine needs a /{PREFIX}")
    return network


def connect(pid: int, label: str, cables: Iterator[Cable]) -> Cable:
    """Connect the machine with process 1 `pid` by the first free cable; returns that cable.

    `label` is written on the host's end. Raises MachineError when none is free, or when the kernel refuses.
    """
    for cable in cables:
        if _exists(cable):
            continue
        output = _ip(
            f"link add {cable.interface} type veth peer name eth0 netns {pid}",
            f"link set {cable.interface} alias {label}",
        )
        if not output:
            _take_no_routes(cable)
            output = _ip(
                f"addr add {cable.gateway}/{PREFIX} dev {cable.interface}",
                f"link set {cable.interface} up",
            )
        if not output:
            return cable
        if "File exists" not in output:
            raise MachineError(f"the machine cannot be connected: {output}")
    raise MachineError("every network of the range is taken: set `network` of the provider to a larger one")


def free_cables(room: ipaddress.IPv4Network, first: str, taken: Collection[str]) -> Iterator[Cable]:
    """The cables to try: `first` unless it is "", then the untaken rest of the range."""
    if first:
        yield cable_of(first)
    others = (network for network in room.subnets(new_prefix=PREFIX) if str(network) not in taken)
    for _, network in zip(range(TRIES_MAX), others, strict=False):
        yield Cable(network)


def disconnect(network: str, label: str) -> None:
    """Remove the pair if the host's end has this label; a missing pair is no error. Raises MachineError if it stays."""
    cable = cable_of(network)
    if _label(cable) != label:
        return
    output = _ip(f"link del {cable.interface}")
    deadline = time.monotonic() + GONE_S
    while _exists(cable) and _label(cable) == label:
        if time.monotonic() > deadline:
            raise MachineError(f"the interface {cable.interface} cannot be removed: {output or 'it stays'}")
        time.sleep(0.005)


def _take_no_routes(cable: Cable) -> None:
    """Disable IPv6 on the host's end, so that router advertisements of the machine set no routes on the host.

    Call it before the interface is up. Contract: disable_ipv6 in the kernel's documentation of ip-sysctl.
    Raises MachineError.
    """
    path = f"/proc/sys/net/ipv6/conf/{cable.interface}/disable_ipv6"
    try:
        with open(path, "w", encoding="ascii") as setting:
            setting.write("1")
    except FileNotFoundError:
        pass  # This host speaks none anyway.
    except OSError as error:
        raise MachineError(f"{path} cannot be set, and a machine could give this host routes: {error}") from error


def _exists(cable: Cable) -> bool:
    return any(name == cable.interface for _, name in socket.if_nameindex())


def _label(cable: Cable) -> str:
    # Not from /sys, which has the interfaces of the network namespace in which it was mounted.
    done = _run_ip("-json", "link", "show", "dev", cable.interface)
    return str(json.loads(done.stdout)[0].get("ifalias", "")) if done.returncode == 0 else ""


def _ip(*lines: str) -> str:
    """Run lines of ip(8) up to the first failure; returns its message, "" without one."""
    done = _run_ip("-batch", "-", lines="\n".join(lines) + "\n")
    return "" if done.returncode == 0 else " ".join(done.stderr.split())


def _run_ip(*arguments: str, lines: str = "") -> subprocess.CompletedProcess[str]:
    command = ["ip", *arguments]
    try:
        return subprocess.run(command, input=lines, text=True, errors="replace", capture_output=True, check=False)
    except FileNotFoundError as error:
        raise MachineError("this host has no `ip`: install iproute2") from error


BOOT_S = 20.0
STOP_S = machine_inside.STOP_S + 3.0
KILL_S = 10.0
PUT_S = 60.0
PROCESSES_MAX = 1024
"""Processes and threads of one machine."""
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
    """The specification of a machine. `memory` and `disk` are bytes; the disk is part of the memory.

    `image` is a folder that has a root; `hidden` are folders in it that the machine sees empty; `shown` are folders of
    this host that the machine sees at the same path, read-only. Paths are absolute and real (no links).
    `notes` belong to the caller, and are returned with the machine.
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
    """The current state of a machine. `state` is "running", "stopped" or "broken" (half made, or its disk is gone);
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
    """The machines of one folder, which no machine may see. `network` is their address range."""

    def __init__(self, folder: str, network: str) -> None:
        self._folder = os.path.realpath(folder)
        self._room = room(network)

    def names(self) -> list[str]:
        """The names in use, also by broken machines."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(self._folder) if NAME.fullmatch(name))
        return []

    def every(self) -> list[Machine]:
        """All machines, by name."""
        found = []
        for name in self.names():
            # It may be destroyed concurrently.
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
        """Make a machine and start it. Raises MachineError; a half-made machine stays for `destroy`."""
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
        """Remove it completely. Raises MachineError if something stays; the name is then still in use."""
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
        """Write files in the machine as its root: path -> (content, mode). Raises MachineError."""
        rows = [
            {"path": path, "data": base64.b64encode(data).decode(), "mode": mode}
            for path, (data, mode) in files.items()
        ]
        done = self._inside(name, "put", (), json.dumps(rows).encode() + b"\n", PUT_S)
        if done.returncode != 0:
            output = (done.stdout or done.stderr).decode(errors="replace").strip()
            raise MachineError(f"{name} does not take files: {output.rpartition(chr(10))[2]}")

    def run(
        self, name: str, argv: Sequence[str], *, stdin: bytes = b"", within_s: float = 60.0
    ) -> tuple[int, str, str]:
        """Run a command as the machine's root; returns exit code, stdout, stderr.

        Raises MachineError if the machine does not run, or the command takes longer.
        """
        done = self._inside(name, "enter", ("--", *argv), stdin, within_s)
        return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")

    def read_services(self, name: str) -> None:
        """Make process 1 read `machine_inside.SERVICES` and start new services."""
        found = self.find(name)
        _signal(found.pid, signal.SIGHUP)

    def _take(self, name: str) -> None:
        """Reserve the name by making the folder of the machine."""
        while True:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            try:
                os.mkdir(self._path(name), 0o700)
            except FileExistsError as error:
                raise MachineError(f"there is already a machine {name!r} here") from error
            except FileNotFoundError:
                continue  # The last machine was just destroyed.
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
        """Start process 1, connect it, and let it continue; it ends by itself if this process ends first."""
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
            output = _answer(starter, deadline)
            if output != "up":
                raise MachineError(f"{name} does not start: {output}")

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
        """A record; empty if it was never written completely."""
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
        """An exclusive lock on this machine against start, stop and destroy in other processes."""
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
            f"{plan.name!r} is not a name for a machine: at most 63 of a-z, 0-9, '.', '_' and '-', which begin and end "
            "with a letter or digit"
        )
    for path in (plan.image, *plan.shown):
        if not os.path.isdir(path):
            raise MachineError(f"{path} is not a folder of this host")
    odd = _ODD_IN_MOUNTS.search(plan.image)
    if odd:
        raise MachineError(f"{plan.image} cannot be an image: its path has {odd[0]!r} in it")


def _group(uid: str) -> str:
    """The name of a machine's control group, and the label of its interface."""
    return f"saltlite-machine-{uid}"


def _program(mode: str) -> list[str]:
    return [sys.executable, "-I", "-S", machine_inside.__file__, mode]


@contextlib.contextmanager
def _starting() -> Iterator[subprocess.Popen[bytes]]:
    """The program that makes process 1; it is killed if the block fails."""
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
    """The next line of the starting machine. Raises MachineError with its error message."""
    assert starter.stdout is not None  # noqa: S101 - it was asked for
    assert starter.stderr is not None  # noqa: S101 - as above
    waiting = select.poll()
    waiting.register(starter.stdout, select.POLLIN)
    if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise MachineError(f"the machine has not started in {BOOT_S:g} s")
    line = os.read(starter.stdout.fileno(), 4096).decode(errors="replace").rstrip("\n")
    if not line:
        output = starter.stderr.read().decode(errors="replace").strip()
        raise MachineError(
            f"the machine does not start: {output.rpartition(chr(10))[2] or 'it ended without a message'}"
        )
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
