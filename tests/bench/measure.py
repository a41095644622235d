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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TICKS_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Figure:
    """What is to be reached, in the unit of `unit`. `most`: the target is the highest good value, else the lowest."""

    unit: str
    target: float
    salt: str
    most: bool = True

    def report(self, samples: Sequence[float]) -> dict[str, Any]:
        """The document of one figure; met is judged by the median."""
        median = statistics.median(samples)
        met = median <= self.target if self.most else median >= self.target
        return {
            "unit": self.unit,
            "n": len(samples),
            "min": rounded(min(samples)),
            "median": rounded(median),
            "max": rounded(max(samples)),
            "target": self.target,
            "met": met,
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
    """Run a command to its end. Its CPU includes its own children's; start no other child meanwhile."""
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
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(wall_s, cpu_s, done.returncode, done.stdout.decode(errors="replace"))


def family(pid: int) -> list[int]:
    """That process and all that descend from it."""
    found = [pid]
    for member in found:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for thread in Path(f"/proc/{member}/task").iterdir():
                found += map(int, (thread / "children").read_text().split())
    return found


def pss_mib(pids: Iterable[int]) -> dict[str, float]:
    """MiB of each process under its title and pid; processes that are gone are left out."""
    sizes = {}
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            kib = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
            sizes[f"{_title(pid)} {pid}"] = kib / 1024
    return sizes


def cpu_s(pids: Iterable[int]) -> float:
    """Seconds that these processes, and children that they have waited for, have used so far."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / TICKS_S


def precise_cpu_s(pids: Iterable[int]) -> float:
    """Seconds on a CPU to the nanosecond, of living processes only: a tick is too coarse for an idle one."""
    total_ns = 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                total_ns += int((thread / "schedstat").read_text().split()[0])
    return total_ns / 1e9


def machine() -> dict[str, Any]:
    """Where this ran, and how busy it was."""
    return {
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "kernel": platform.release(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def busy_s() -> float:
    """Seconds of CPU that the whole machine has used since it started."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle, iowait = fields[3], fields[4]
    return (sum(fields) - idle - iowait) / TICKS_S


def own_s() -> float:
    """Seconds of CPU of this process, of the children it waited for, and of its living descendants."""
    mine = time.process_time()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine + children.ru_utime + children.ru_stime + cpu_s(family(os.getpid())[1:])


class Others:
    """The share of the machine that went to processes that are not ours: above some 15 % distrust the times."""

    def __init__(self) -> None:
        self._mark = time.monotonic(), busy_s(), own_s()

    def share_percent(self) -> float:
        """Since the last call, or since this was made. A killed child's time counts as somebody else's."""
        now = time.monotonic(), busy_s(), own_s()
        began, busy, own = self._mark
        self._mark = now
        seconds = (now[0] - began) * (os.cpu_count() or 1)
        return rounded(max(0.0, (now[1] - busy) - (now[2] - own)) / max(seconds, 1e-3) * 100)


def _title(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
