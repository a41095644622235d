"""The benches of everyday work in about three minutes: `python -m tests.bench [COMMIT] [--rounds N] [--json FILE]`.

This tree and a commit (the one before HEAD unless it is named) are measured in turns, so that other work on the machine
meets both. Each side is a process that runs the benches of its own tree against daemons of its own tree: a master with
an access list and nodegroups, one minion, and the API. Salt, Ansible and pyinfra take their turns in the rows that they
have too, when their commands are on PATH. The ratio of a row is the median over the rounds of `other / this tree`,
turned around for rates: above 1, this tree is better. Machine noise is the spread of a loop that does the same each
time: distrust wall times and rates when it is above some 15 %. CPU time is that of getrusage and /proc.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import saltlite
from tests.bench import bench_api, bench_fleet, measure
from tests.bench.counts import REALISTIC
from tests.support.api import Api, user_file
from tests.support.fleet import ME, Fleet, free_port, wait_until, write_config

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 7
COMMANDS = 3
"""Runs of one command in a turn."""
SECONDS = 0.6
"""How long a turn of jobs or requests lasts."""
CLIENTS = 8
LOOP = 1_500_000
"""Steps of the calibration loop, some 50 ms."""
RATE = "/s"
"""In the unit of a row: more is better."""
PYTHON = ("-e", f"ansible_python_interpreter={sys.executable}")
"""So that Ansible does not look for one each time."""
PING, CALL = "'*' test.ping", "call --local test.ping"
Figures = dict[str, float]
"""Row -> figure; a row ends with its unit."""


class Subject(Protocol):
    """What is measured in turns."""

    def turn(self, case: str) -> Figures:
        """The figures of one turn of a case; none where it has no such case."""


def command(name: str, argv: list[str], expected: str = "") -> Figures:
    """Medians of a command that has to succeed."""
    runs = [measure.timed(argv) for _ in range(COMMANDS)]
    for run in runs:
        if run.code or expected not in run.out:
            raise RuntimeError(f"{argv} ended with {run.code}: {run.out[-500:]}")
    return {
        f"{name}: wall, ms": statistics.median(run.wall_s for run in runs) * 1e3,
        f"{name}: CPU, ms": statistics.median(run.cpu_s for run in runs) * 1e3,
    }


# -- one side


class Site:
    """Daemons of the tree that this process imports, and the cases."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.fleet = Fleet(folder)
        stack.callback(self.fleet.close)
        plugins = folder / "plugins"
        (plugins / "modules").mkdir(parents=True)
        (plugins / "modules/custom.py").write_text(bench_fleet.CUSTOM_MODULE)
        self._options = REALISTIC | {
            "auth_file": user_file(folder / "users", "fred"),
            "external_auth": {"file": {"fred": ["test.*"]}},
        }
        self.fleet.start_master(**self._options)
        self.fleet.join("m", module_dirs=[str(plugins)])
        url = self.fleet.start_api(requests_per_address=100_000, logins_per_address=100_000)
        self.api = Api(url).log_in("fred")
        self.pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(CLIENTS))
        self.socket = self.fleet.socket_path()
        (folder / "alone/root/var/cache/saltlite/minion").mkdir(parents=True)
        write_config(folder / "alone", "minion", {"root_dir": str(folder / "alone/root"), "id": "alone", "user": ME})
        self.cases: dict[str, Callable[[], Figures]] = {
            PING: lambda: command(PING, self.argv("*", "test.ping"), "True"),
            "key list": lambda: command("key list", self.argv("key", "list")),
            "job list": lambda: command("job list", self.argv("job", "list")),
            "--help": lambda: command("--help", self.argv("--help")),
            CALL: lambda: command(CALL, self.argv("call", "--local", "test.ping", config="alone"), "True"),
            "jobs": self.jobs,
            "jobs, custom module": lambda: self.jobs("custom.ping", ", custom module"),
            "jobs, 8 clients": self.many_jobs,
            "API": self.requests,
            "starts": self.starts,
            "memory": self.memory,
        }
        self.warm()

    def warm(self) -> None:
        """Write the bytecode, fill the caches."""
        for case in list(self.cases)[:8]:
            self.cases[case]()

    def argv(self, *words: str, config: str = "master") -> list[str]:
        """A `saltlite` command on this fleet."""
        return [str(Path(sys.executable).parent / "saltlite"), *words, "-c", str(self.fleet.folder / config)]

    def cpu_s(self) -> float:
        """CPU seconds of all daemons so far."""
        return measure.cpu_s(pid for daemon in self.fleet.daemons.values() for pid in measure.family(daemon.pid))

    def jobs(self, fun: str = "test.ping", what: str = "") -> Figures:
        """One job after another."""
        before = self.cpu_s()
        count, seconds = bench_fleet._jobs_for(self.socket, SECONDS, fun)
        spent_ms = (self.cpu_s() - before) / count * 1e3
        return {f"jobs, 1 client{what}: jobs/s": count / seconds, f"jobs, 1 client{what}: CPU of daemons, ms": spent_ms}

    def many_jobs(self) -> Figures:
        """Jobs of several clients."""
        done = self.pool.starmap(bench_fleet._jobs_for, [(self.socket, SECONDS)] * CLIENTS)
        return {f"jobs, {CLIENTS} clients: jobs/s": sum(count / seconds for count, seconds in done)}

    def requests(self) -> Figures:
        """`test.ping` through the API."""
        bench_api.SECONDS = SECONDS
        bench_api.EXPECTED = {"return": [{"m": True}]}
        return {f"API, {n} clients: requests/s": bench_api.rate(self.api, n) for n in (1, CLIENTS)}

    def starts(self) -> Figures:
        """From the start of a daemon to its first answer."""
        fleet = self.fleet
        fleet.daemons["master"].stop()
        began = time.perf_counter()
        fleet.start_master(**self._options)
        master_s = time.perf_counter() - began
        wait_until(lambda: "m" in fleet.up(), "the minion is back")
        fleet.daemons["m"].stop()
        wait_until(lambda: not fleet.up(), "the minion is gone")
        began = time.perf_counter()
        fleet.restart_minion("m")
        with fleet.client() as client:
            answer = client.cmd("m", "test.ping", timeout=60)
        minion_s = time.perf_counter() - began
        if answer != {"m": True}:
            raise RuntimeError(f"the minion answered {answer}")
        return {"start of the master: wall, ms": master_s * 1e3, "start of the minion: wall, ms": minion_s * 1e3}

    def memory(self) -> Figures:
        """What each daemon takes on a machine of its own."""
        sizes = {name: measure.alone_mib(measure.family(self.fleet.daemons[name].pid)) for name in ("master", "m")}
        return {"memory of the master: MiB": sizes["master"], "memory of the minion: MiB": sizes["m"]}


def serve() -> None:
    """Be one side: a line with a case comes in on stdin, its figures go out as a line of JSON."""
    if not Path(saltlite.__file__).is_relative_to(Path.cwd()):
        raise RuntimeError(f"{saltlite.__file__} is not of {Path.cwd()}")
    out, sys.stdout = sys.stdout, sys.stderr
    with tempfile.TemporaryDirectory(prefix="saltlite-bench-") as folder, ExitStack() as stack:
        site = Site(Path(folder), stack)
        print(json.dumps(list(site.cases)), file=out, flush=True)
        for line in sys.stdin:
            print(json.dumps(site.cases[line.rstrip("\n")]()), file=out, flush=True)


class Side:
    """A process that serves one tree."""

    def __init__(self, tree: Path, stack: ExitStack) -> None:
        paths = os.pathsep.join(map(str, (tree, tree / "daemons")))
        self._process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-P", __file__, "--serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=tree,
                env={**os.environ, "PYTHONPATH": paths},
            )
        )
        self.cases: list[str] = self._read()

    def turn(self, case: str) -> Figures:
        """As Subject says."""
        assert self._process.stdin is not None
        print(case, file=self._process.stdin, flush=True)
        figures: Figures = self._read()
        return figures

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a side ended with {self._process.wait(60)}; its errors are above")
        return json.loads(line)


# -- others


class Program:
    """A tool that needs no daemon, in the row of the ping."""

    def __init__(self, *argv: str) -> None:
        self._argv = list(argv)

    def turn(self, case: str) -> Figures:
        """As Subject says."""
        return command(PING, self._argv) if case == PING else {}


class Salt:
    """A master of Salt with one minion: no log files, keys taken at once, no grains asked again."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        publish, back = free_port(), free_port()
        shared = {"user": ME, "log_level": "error", "log_level_logfile": "quiet", "publish_port": publish}
        options: dict[str, dict[str, Any]] = {
            "master": {"interface": "127.0.0.1", "ret_port": back, "auto_accept": True, "worker_threads": 2},
            "minion": {"id": "m", "master": "127.0.0.1", "master_port": back, "master_alive_interval": 0},
        }
        for kind, own in options.items():
            root = folder / kind
            write_config(root, kind, {"root_dir": str(root / "root"), **shared, **own})
            process = subprocess.Popen(
                [f"salt-{kind}", "-c", str(root)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait, 60)
            stack.callback(process.terminate)
        self._ping = ["salt", "-c", str(folder / "master"), "*", "test.ping"]
        self._call = ["salt-call", "-c", str(folder / "minion"), "--local", "test.ping"]
        wait_until(lambda: "True" in measure.timed(self._ping).out, "Salt's minion answers", 120)

    def turn(self, case: str) -> Figures:
        """As Subject says."""
        argv = {PING: self._ping, CALL: self._call}.get(case)
        return command(case, argv, "True") if argv else {}


def others(folder: Path, stack: ExitStack) -> dict[str, Subject]:
    """The tools that are installed."""
    found: dict[str, Subject] = {}
    if shutil.which("salt-master"):
        found["Salt"] = Salt(folder, stack)
    if shutil.which("ansible"):
        found["Ansible"] = Program("ansible", "all", "-i", "localhost,", "-c", "local", "-m", "ping", *PYTHON)
    if shutil.which("pyinfra"):
        found["pyinfra"] = Program("pyinfra", "-y", "@local", "exec", "--", "true")
    for name, subject in list(found.items()):
        try:
            subject.turn(PING)
        except RuntimeError as error:
            print(f"{name} takes no part: {error}", file=sys.stderr)
            del found[name]
    return found


# -- the run


@contextlib.contextmanager
def worktree(commit: str) -> Iterator[Path]:
    """A folder with the files of a commit."""
    with tempfile.TemporaryDirectory(prefix="saltlite-bench-") as folder:
        place = Path(folder, "tree")
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", place, commit], cwd=ROOT, check=True)
        try:
            yield place
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", place], cwd=ROOT, check=True)


def calibrated() -> float:
    """Seconds of a loop that does the same each time."""
    began = time.perf_counter()
    sum(range(LOOP))
    return time.perf_counter() - began


def measured(subjects: dict[str, Subject], cases: list[str], rounds: int) -> tuple[dict[str, dict[str, Any]], float]:
    """Row -> subject -> one figure a round, and the noise of the machine in percent."""
    rows: dict[str, dict[str, Any]] = {}
    loops = []
    for number in range(rounds):
        for case in cases:
            loops.append(calibrated())
            order = list(subjects) if number % 2 else list(reversed(subjects))
            for name in order:
                for row, value in subjects[name].turn(case).items():
                    rows.setdefault(row, {}).setdefault(name, []).append(value)
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    tenths = statistics.quantiles(loops, n=10)
    return rows, (tenths[-1] - tenths[0]) / statistics.median(loops) * 100


def ratio(row: str, own: list[float], other: list[float]) -> float:
    """How many times better `own` is."""
    quotients = [theirs / ours for ours, theirs in zip(own, other, strict=True)]
    middle = statistics.median(quotients)
    return 1 / middle if row.endswith(RATE) else middle


def table(rows: dict[str, dict[str, Any]], names: list[str]) -> Iterator[str]:
    """The figures of this tree, and the ratio of each other subject to them."""
    yield f"{'':52}{names[0]:>12}" + "".join(f"{name:>12}" for name in names[1:])
    for row, found in rows.items():
        cells = [f"{ratio(row, found[names[0]], found[name]):.2f}" if name in found else "-" for name in names[1:]]
        yield f"{row:52}{statistics.median(found[names[0]]):12.4g}" + "".join(f"{cell:>12}" for cell in cells)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Benches of everyday work.")
    parser.add_argument("commit", nargs="?", default="HEAD~1", help="what to compare with; HEAD~1 unless it is given")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"turns of each bench; {ROUNDS} unless it is given")
    parser.add_argument("--json", metavar="FILE", help="write all samples there")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if asked.serve:
        serve()
        return
    known = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{asked.commit}^{{commit}}"],
        cwd=ROOT,
        check=False,
        stdout=subprocess.DEVNULL,
    )
    if known.returncode:
        parser.error(f"{asked.commit} is no commit of this clone; name another one")
    began = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="saltlite-bench-")))
        tree = stack.enter_context(worktree(asked.commit))
        load = measure.Others()
        this, before = Side(ROOT, stack), Side(tree, stack)
        subjects: dict[str, Subject] = {"this tree": this, asked.commit: before, **others(folder, stack)}
        cases = [case for case in this.cases if case in before.cases]
        rows, noise = measured(subjects, cases, asked.rounds)
        share = load.share_percent()
    print("\n".join(table(rows, list(subjects))))
    print(f"machine noise {noise:.0f} %, other work on the machine {share:.0f} %, {time.monotonic() - began:.0f} s")
    if asked.json:
        document = {"machine": measure.machine(), "noise_percent": noise, "others_percent": share, "rows": rows}
        Path(asked.json).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
