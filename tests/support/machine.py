"""Machines out of text files: what `/proc`, `/etc` and programs said somewhere, and what a function makes of it.

A file is made of sections, each with a head:

    === call status.loadavg ARGUMENT...      the call, its arguments in JSON
    === grains {...}                         grains of the machine, in JSON
    === file /proc/loadavg                   a file of the machine; its text stands below
    === words /proc/1/cmdline ["init"]       a file of words, each with a NUL at its end
    === link /etc/localtime TARGET           a symbolic link
    === folder /run/systemd/system           an empty folder
    === program ["df", "-P"]                 a program with its arguments; below it what it prints
    === returns                              below it the answer, in JSON
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from saltlite.cloud.drivers._namespaces import folders_of
from saltlite.errors import CommandNotFoundError
from saltlite.loader.call import Outcome, call
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from saltlite.plugins.modules import _machinefiles, _programs
from tests.support.fleet import wait_until

INDEX = build_index(search_layers({}))


@dataclass(slots=True)
class Machine:
    """A machine in a folder, and the programs that it has."""

    root: Path
    grains: dict[str, Any] = field(default_factory=dict)
    programs: dict[tuple[str, ...], str | _programs.Ended] = field(default_factory=dict)
    ran: list[list[str]] = field(default_factory=list)

    def write(self, path: str, text: str = "") -> Path:
        """A file below the root."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode("utf-8", "surrogateescape"))
        return place

    def read(self, path: str) -> str:
        return (self.root / path.lstrip("/")).read_text("utf-8", "surrogateescape")

    def outcome(self, fun: str, *args: Any, **kwargs: Any) -> Outcome:
        """Call as a job does."""
        opts = {"cachedir": "/cache"}
        return call(Loader(INDEX, opts, self.grains, {}), fun, args, kwargs)

    def __call__(self, fun: str, *args: Any, **kwargs: Any) -> Any:
        outcome = self.outcome(fun, *args, **kwargs)
        assert outcome.retcode == 0, outcome.value
        return outcome.value

    def run(self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float | None = None) -> _programs.Ended:
        """Stands for `_programs.run`."""
        self.ran.append(list(argv))
        known = self.programs.get(tuple(argv))
        if known is None:
            raise CommandNotFoundError(argv[0])
        return known if not isinstance(known, str) else _programs.Ended(argv[0], 0, known, "")

    def find(self, name: str) -> str | None:
        """Stands for `_programs.find`."""
        return f"/usr/bin/{name}" if any(argv[0] == name for argv in self.programs) else None


def machine_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """An empty machine that the modules of this process see."""
    machine = Machine(folder)
    monkeypatch.setattr(_machinefiles, "ROOT", str(folder))
    monkeypatch.setattr(_programs, "run", machine.run)
    monkeypatch.setattr(_programs, "find", machine.find)
    return machine


@dataclass(frozen=True, slots=True)
class Recorded:
    """A call and its answer."""

    fun: str
    args: list[Any]
    returns: Any


def play(path: Path, machine: Machine) -> Recorded:
    """Make the machine of a file; the call of the file, not yet made."""
    fun, args, returns = "", [], None
    for head, rest, body in sections(path.read_text("utf-8")):
        match head:
            case "call":
                fun, _, text = rest.partition(" ")
                args = _values(text)
            case "grains":
                machine.grains.update(json.loads(rest))
            case "file":
                machine.write(rest, body)
            case "words":
                where, _, words = rest.partition(" ")
                machine.write(where, "".join(f"{word}\0" for word in json.loads(words)))
            case "link":
                where, _, target = rest.partition(" ")
                place = machine.root / where.lstrip("/")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(target)
            case "folder":
                (machine.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "program":
                machine.programs[tuple(json.loads(rest))] = body
            case "returns":
                returns = json.loads(body)
            case _:
                raise AssertionError(f"{path.name}: there are no sections {head!r}")
    return Recorded(fun, args, returns)


def sections(text: str) -> list[tuple[str, str, str]]:
    """Kind, rest of the head, and text of each section."""
    parts = re.split(r"^=== (\w+)(?: (.*))?\n", text, flags=re.MULTILINE)
    return list(zip(parts[1::3], (part or "" for part in parts[2::3]), parts[3::3], strict=True))


def _values(text: str) -> list[Any]:
    """JSON values one behind the other."""
    decoder, values, text = json.JSONDecoder(), [], text.strip()
    while text:
        value, end = decoder.raw_decode(text)
        values.append(value)
        text = text[end:].strip()
    return values


# -- What machines of namespaces need, and what they leave on this host: for tests that may leave nothing.


def why_no_machines() -> str:
    """Why no machine can be made here; empty when one can."""
    if platform.system() != "Linux":
        return "machines are made of Linux' namespaces"
    if os.geteuid() != 0:
        return "only root makes machines of namespaces"
    if shutil.which("ip") is None:
        return "there is no ip(8) here"
    tried = subprocess.run(
        ["unshare", "--mount", "--pid", "--net", "--uts", "--fork", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"this host makes no namespaces: {tried.stderr.strip()}" if tried.returncode else ""


WHY_NOT = why_no_machines()
needs_machines = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "machines can be made")


def traces(folder: Path, within_s: float = 20.0) -> list[str]:
    """What there is of machines whose folder is `folder`, or is below it: processes, mounts and files.

    A machine of somebody else that starts just now has every mount of this host for a moment: this looks again until
    nothing is found, or the time is over.
    """
    deadline = time.monotonic() + within_s
    while True:
        found = [str(path) for path in folder.rglob("*")] if folder.is_dir() else []
        found += [f"process {pid}, or mounts that it sees" for pid in _seeing(str(folder))]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def _seeing(folder: str) -> list[str]:
    """The processes that have a mount at or from below the folder."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if folder in Path(f"/proc/{pid}/mountinfo").read_text():
                found.append(pid)
    return found


def traces_of(uid: str) -> list[str]:
    """What there is of one machine that belongs to the kernel: its interface and control group."""
    return [group for group in folders_of(f"saltlite-machine-{uid}") if os.path.isdir(group)] + [
        name for name, label in labels().items() if uid in label
    ]


def labels() -> dict[str, str]:
    """Interface of this process's network namespace -> what is written on it."""
    said = subprocess.run(["ip", "-json", "link", "show"], capture_output=True, text=True, check=True).stdout
    return {row["ifname"]: row.get("ifalias", "") for row in json.loads(said)}


def end_stale_machines() -> list[str]:
    """End the machines of runs of pytest that are over, such as killed ones; the labels of those machines.

    The lock of pytest in the folder of its run names the process, which must be gone. With its processes a machine
    loses its network, and so the host's namespace the interface.
    """
    ended = []
    every = [group for folder in folders_of("") if os.path.isdir(folder) for group in os.listdir(folder)]
    for label in {group for group in every if group.startswith("saltlite-machine-")}:
        groups = [group for group in folders_of(label) if os.path.isdir(group)]
        pids = {int(pid) for group in groups for pid in Path(group, "cgroup.procs").read_text().split()}
        runs = {run for pid in pids for run in _runs_of(pid)}
        if runs and not any(map(_goes_on, runs)):
            ended.append(label)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for group in groups:
                wait_until(partial(_removed, group), f"{group} is removed")
    return ended


def _runs_of(pid: int) -> set[Path]:
    """The folders of the runs of pytest that a process has mounts from."""
    with contextlib.suppress(OSError):
        mounts = Path(f"/proc/{pid}/mountinfo").read_text()
        return {Path(found) for found in re.findall(r"/[^\s,:=]*/pytest-of-[^/\s]+/pytest-\d+(?=/)", mounts)}
    return set()


def _goes_on(run: Path) -> bool:
    """Whether the process that pytest's lock names is alive. A run that ended in order has removed its lock."""
    with contextlib.suppress(OSError, ValueError):
        return Path("/proc", str(int((run / ".lock").read_text()))).exists()
    return not run.is_dir()  # then it is none that can be judged


def _removed(group: str) -> bool:
    with contextlib.suppress(OSError):
        os.rmdir(group)
    return not os.path.isdir(group)


# -- A Python that another user can run: a way to start a command so that the path to the interpreter is open to all.
#
# A developer's interpreter often lives in a folder that is closed to other users. The command is then started in its
# own mount namespace, in which the first closed folder of the path holds only what is needed.


OTHER = "nobody"

_OPEN = """
set -e
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
for pair in $1; do
    closed=${pair%%=*} needed=${pair#*=}
    mkdir -p "$work/x"; mount --bind "$needed" "$work/x"
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$needed"; mount --bind "$work/x" "$needed"; umount "$work/x"
done
umount "$work"; rmdir "$work"
shift
exec "$@"
"""


def closed_folders() -> dict[Path, Path]:
    """Closed folder -> the folder below it that the interpreter needs."""
    found: dict[Path, Path] = {}
    for needed in {Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2]}:
        real = needed.resolve()
        closed = [one for one in reversed(real.parents) if not one.stat().st_mode & stat.S_IXOTH]
        if closed:
            found[closed[0]] = real
    return found


def opening() -> list[str | Path]:
    """What to put in front of a command."""
    pairs = " ".join(f"{closed}={needed}" for closed, needed in closed_folders().items())
    return ["unshare", "-m", "sh", "-c", _OPEN, "sh", pairs] if pairs else []


def why_not() -> str:
    """Why no other user can call functions here; empty when one can."""
    if os.geteuid() != 0:
        return "only root may become another user without a rule in sudoers"
    if shutil.which("sudo") is None:
        return "there is no sudo on this machine"
    tried = subprocess.run(
        [*opening(), "sudo", "-n", "-u", OTHER, "--", sys.executable, "-c", "import msgpack"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"{OTHER} cannot run {sys.executable}: {tried.stderr.strip()[-200:]}" if tried.returncode else ""
