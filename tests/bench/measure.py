"""What the benchmarks of daemons measure with: figures, memory and CPU of processes, the state of the machine.

Memory is PSS from `/proc/<pid>/smaps_rollup`: what processes share is counted once. CPU is user and system time.
"""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import statistics
import subprocess
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICKS_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Figure:
    """What is to be reached, in the unit of `unit`. `at_least`: more is better. `salt` is Salt 3008.3's figure."""

    unit: str
    target: float
    salt: str
    at_least: bool = False

    def report(self, samples: Sequence[float]) -> dict[str, Any]:
        """The document of one figure; the median decides whether it is met."""
        median = statistics.median(samples)
        return {
            "unit": self.unit,
            "n": len(samples),
            "min": rounded(min(samples)),
            "median": rounded(median),
            "max": rounded(max(samples)),
            "target": self.target,
            "met": median >= self.target if self.at_least else median <= self.target,
            "salt": self.salt,
        }


def rounded(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")


@dataclass(frozen=True, slots=True)
class Run:
    """One finished command: seconds on the clock, seconds of CPU, exit code, output."""

    wall_s: float
    cpu_s: float
    code: int
    out: str


def timed(command: Sequence[str], *, timeout_s: float = 120.0) -> Run:
    """Run a command to its end. Its CPU is that of all children waited for meanwhile: let it be the only one."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
        check=False,
    )
    wall_s = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(wall_s, used_s, done.returncode, done.stdout.decode(errors="replace"))


def family(pid: int) -> list[int]:
    """That process and all that descend from it."""
    found = [pid]
    for member in found:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for thread in Path(f"/proc/{member}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
    return found


def title(pid: int) -> str:
    """The name that `ps -o comm` shows."""
    return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")


def pss_mib(pids: Iterable[int]) -> dict[str, float]:
    """MiB of each process under its title and pid; processes that are gone are left out."""
    sizes = {}
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            kib = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
            sizes[f"{title(pid)} {pid}"] = kib / 1024
    return sizes


def alone_mib(pids: Iterable[int]) -> float:
    """MiB that these processes would take on a machine where nobody else runs Python: files counted once, in full.

    PSS gives most of libpython to whoever else has it mapped, so it falls with every other daemon of the machine.
    """
    anonymous_kib = 0
    files: dict[tuple[str, str], int] = {}
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for head, sizes in _mappings(Path(f"/proc/{pid}/smaps").read_text()):
                if head[4] != "0":
                    # One mapping of a file, by name and offset, whichever process has most of it in memory.
                    place = head[-1], head[2]
                    files[place] = max(files.get(place, 0), sizes["Rss"] - sizes["Anonymous"])
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            anonymous_kib += next(int(line.split()[1]) for line in rollup if line.startswith("Pss_Anon:"))
    return (anonymous_kib + sum(files.values())) / 1024


def _mappings(smaps: str) -> Iterator[tuple[list[str], dict[str, int]]]:
    """Each mapping of proc(5) smaps: the fields of its first line, and its sizes in KiB."""
    head: list[str] = []
    sizes: dict[str, int] = {}
    for line in smaps.splitlines():
        name, _, rest = line.partition(":")
        if " " in name:
            if head:
                yield head, sizes
            head, sizes = line.split(), {}
        elif rest.endswith(" kB"):
            sizes[name] = int(rest.split()[0])
    yield head, sizes


def cpu_s(pids: Iterable[int]) -> float:
    """Seconds that these processes, and children that they have waited for, have used so far."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS_S


class IdleCpu:
    """CPU of processes that do next to nothing: a tick is too coarse, so the living are measured to the nanosecond."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = tuple(pids)
        self._living = {pid: _on_cpu_s(pid) for pid in self._pids}
        self._reaped_s = sum(map(_reaped_s, self._pids))

    def used_s(self, pids: Iterable[int]) -> float:
        """Seconds since this was made, by the processes of then and those of now, and by children that ended."""
        living = sum(_on_cpu_s(pid) - self._living.get(pid, 0.0) for pid in pids)
        return living + sum(map(_reaped_s, self._pids)) - self._reaped_s


def machine() -> dict[str, Any]:
    """Where this runs, and how busy it is."""
    return {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


class Others:
    """The share of the machine that went to processes that are not ours: above some 15 % distrust the times."""

    def __init__(self) -> None:
        self._mark = time.monotonic(), _machine_s(), _own_s()

    def share_percent(self) -> float:
        """Since this was made. A killed child's time counts as somebody else's."""
        began, busy, own = self._mark
        seconds = (time.monotonic() - began) * (os.cpu_count() or 1)
        return rounded(max(0.0, (_machine_s() - busy) - (_own_s() - own)) / max(seconds, 1e-3) * 100)


def _machine_s() -> float:
    """Seconds of CPU that the whole machine has used since it started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle, iowait = fields[3], fields[4]
    return (sum(fields) - idle - iowait) / TICKS_S


def _own_s() -> float:
    """Seconds of CPU of this process, of the children it waited for, and of its living descendants."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime + cpu_s(family(os.getpid())[1:])


def _on_cpu_s(pid: int) -> float:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        threads = [int((thread / "schedstat").read_text().split()[0]) for thread in Path(f"/proc/{pid}/task").iterdir()]
        return sum(threads) / 1e9
    return 0.0


def _reaped_s(pid: int) -> float:
    """What children took that the process has waited for."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[13:15])) / TICKS_S
    return 0.0
