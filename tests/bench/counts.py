"""What everyday work costs in things that can be counted: `python -m tests.bench.counts [--write]`.

Time depends on the machine and on what else it does; counts of system calls, syncs, SQL statements, new processes,
imported modules, processes that wake up and the page faults of a command do not. They are compared with `counts.json`,
which is committed beside this file. The system calls of a command are those beyond the start of an interpreter that
does nothing: in how many folders that looks for libraries depends on the processor. A count that is more than
TOLERANCE above its figure fails the run (exit code 1);
`--write` sets new figures, and the diff shows what changed.

A master with one minion and the command line run as real processes under strace. Each count is the lowest of ROUNDS
rounds, because timers and retries only ever add to it.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from saltlite.client.follower import Progress, WaitPolicy
from saltlite.client.local import JobCall, LocalClient
from tests.bench.bench_api import connection, post
from tests.bench.bench_fleet import CUSTOM_MODULE
from tests.bench.fleet import BenchFleet, free_port, wait_until
from tests.bench.measure import title
from tests.bench.statements import read
from tests.support.api import Api, user_file
from tests.support.fleet import answers

FIGURES = Path(__file__).with_name("counts.json")
TOLERANCE = 1.03
"""Above a committed figure by 3 %: what a change may cost without saying so."""
SLACK = 0.3
"""Absolute difference that no small count fails for."""
ROUNDS = 3
JOBS = 40
"""A multiple of the processes that a minion forks at once."""
CUSTOM = "custom.ping"
API_JOB = json.dumps({"client": "local", "tgt": "min", "fun": "test.ping"})
API_RUNNER = json.dumps({"client": "runner", "fun": "manage.up"})
CLIENTS = 8
SETTLE_S = 3.0
REALISTIC: dict[str, Any] = {
    "publisher_acl": {"web*": ["test.*", "@wheel"], "daemon": [{"G@os:Debian": ["pkg.*"]}]},
    "nodegroups": {"web": "L@a,b", "all": "*"},
}
"""What most masters have in their configuration, so that reading it counts."""
SYNCS = ("fsync", "fdatasync")
FORKS = ("clone", "clone3", "fork", "vfork")
_SUMMARY = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+(\w+)$", re.MULTILINE)


@contextmanager
def counted(pids: list[int], out: Path) -> Iterator[Counter[str]]:
    """System calls of these processes and all that they start, by name, when the block has ended."""
    calls: Counter[str] = Counter()
    attached = [word for pid in pids for word in ("-p", str(pid))]
    strace = subprocess.Popen(["strace", "-f", "-c", "-o", str(out), *attached], stderr=subprocess.PIPE, text=True)
    assert strace.stderr is not None
    for _ in pids:
        strace.stderr.readline()
    try:
        yield calls
    finally:
        strace.send_signal(signal.SIGINT)
        strace.wait(30)
        calls.update(_table(out))


def of_command(command: list[str]) -> Counter[str]:
    """System calls of a command, by name. Raises CalledProcessError when it fails."""
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(
            ["strace", "-f", "-c", "-o", out.name, *command], check=True, stdout=subprocess.DEVNULL, timeout=120
        )
        return _table(Path(out.name))


def imports_of(command: list[str]) -> int:
    """Modules that Python imports for a command."""
    profiled = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run(command, env=profiled, check=True, capture_output=True, text=True, timeout=120)
    return done.stderr.count("import time:") - 1  # the heading


def faults_of(command: list[str]) -> int:
    """Page faults of a command that need no disk: what it maps, reads and allocates for the first time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before


def imports_of_daemons() -> dict[str, int]:
    """Modules that all processes of a master, and of a minion, import until the minion has run a job."""
    os.environ["PYTHONPROFILEIMPORTTIME"] = "1"
    try:
        with BenchFleet() as fleet:
            fleet.start_master(**REALISTIC)
            fleet.join(["min"])
            with fleet.client() as client:
                ping(client)
            outputs = {name: (fleet.folder / name / "output").read_text() for name in ("master", "min")}
    finally:
        del os.environ["PYTHONPROFILEIMPORTTIME"]
    return {name: text.count("import time:") for name, text in outputs.items()}


def _table(out: Path) -> Counter[str]:
    return Counter({name: int(count) for count, name in _SUMMARY.findall(out.read_text()) if name != "total"})


def of_jobs(fleet: BenchFleet, client: LocalClient, pids: list[int]) -> dict[str, float]:
    """Counts of one `test.ping` that a client waits for, in all processes of master and minion."""
    ping(client)
    statements = read(fleet.statements)
    with tempfile.TemporaryDirectory() as folder, counted(pids, Path(folder, "out")) as calls:
        for _ in range(JOBS):
            ping(client)
    return {
        "SQL statements": (read(fleet.statements) - statements) / JOBS,
        "system calls": calls.total() / JOBS,
        "syncs": sum(calls[name] for name in SYNCS) / JOBS,
        "new processes": sum(calls[name] for name in FORKS) / JOBS,
        "writes to files": calls["pwrite64"] / JOBS,
    }


def mworkers_awake(fleet: BenchFleet, client: LocalClient) -> float:
    """How many MWorkers one `test.ping` wakes up: each counts by its share of the jobs for which it woke up."""
    mworkers = [pid for pid in fleet.pids("master") if title(pid).startswith("MWorker")]
    before = {pid: wake_ups(pid) for pid in mworkers}
    for _ in range(JOBS):
        ping(client)
    return sum(min(1.0, (wake_ups(pid) - before[pid]) / JOBS) for pid in mworkers)


def wake_ups(pid: int) -> int:
    """How often the process has gone to sleep so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches:"))


def statements_of_many(fleet: BenchFleet) -> float:
    """SQL statements of one `test.ping` while CLIENTS clients wait for theirs."""
    before = read(fleet.statements)

    def work() -> None:
        with fleet.client() as client:
            for _ in range(JOBS):
                ping(client)

    threads = [threading.Thread(target=work) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (read(fleet.statements) - before) / JOBS / CLIENTS


def wait_until_reaped(parents: list[int]) -> None:
    """Wait for the end of the children that have ended: their page faults are counted when their parent reaps them."""
    wait_until(lambda: not any(zombies_of(set(parents))), "processes that have ended are reaped")


def zombies_of(parents: set[int]) -> Iterator[int]:
    """The children of these processes that have ended and were not reaped."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) in parents:
                yield int(stat.parent.name)


def of_custom_jobs(fleet: BenchFleet, client: LocalClient) -> dict[str, float]:
    """Counts of one job of a custom module on the minion `own`, whose fork server runs already: of all processes, and
    the page faults of the minion's."""
    ping(client, "own", CUSTOM)
    wait_until_reaped(fleet.pids("own"))
    faults = sum(map(minor_faults, fleet.pids("own")))
    for _ in range(JOBS):
        ping(client, "own", CUSTOM)
    wait_until_reaped(fleet.pids("own"))
    faults = sum(map(minor_faults, fleet.pids("own"))) - faults
    pids = [*fleet.pids("master"), *fleet.pids("own")]
    with tempfile.TemporaryDirectory() as folder, counted(pids, Path(folder, "out")) as calls:
        for _ in range(JOBS):
            ping(client, "own", CUSTOM)
    return {
        "page faults of the minion": faults / JOBS,
        "system calls": calls.total() / JOBS,
        "new processes": sum(calls[name] for name in FORKS) / JOBS,
    }


def of_api(fleet: BenchFleet, api: Api) -> dict[str, float]:
    """Counts of one `test.ping` by the API, whose connection is open, and of a runner that is not its login's first."""
    there = connection(api)
    pids = fleet.pids("api")

    def run(body: str) -> None:
        answer = post(there, api.token, body=body)
        if answer.get("return") not in ([{"min": True}], [["min"]]):
            raise RuntimeError(f"the API answered {answer}")

    run(API_JOB)
    statements = read(fleet.statements)
    for _ in range(JOBS):
        run(API_JOB)
    statements = read(fleet.statements) - statements
    run(API_RUNNER)
    found = {"a job by the API: SQL statements": statements / JOBS}
    for name, body, counts in (
        ("a job by the API: requests to the master", API_JOB, ("sendto",)),
        ("a runner by the API: new processes", API_RUNNER, FORKS),
    ):
        with tempfile.TemporaryDirectory() as folder, counted(pids, Path(folder, "out")) as calls:
            for _ in range(JOBS):
                run(body)
        found[name] = sum(calls[one] for one in counts) / JOBS
    there.close()
    return found


def counts_of_api() -> dict[str, float]:
    """The counts of a master with one minion and the API."""
    with BenchFleet() as fleet:
        users = user_file(fleet.folder / "users", "admin")
        fleet.start_master(count_statements=True, auth_file=users, external_auth={"file": {"admin": [".*", "@runner"]}})
        fleet.join(["min"])
        port = free_port()
        fleet.start_api(port)
        wait_until(lambda: answers(port), "the API answers")
        time.sleep(SETTLE_S)
        api = Api(f"https://127.0.0.1:{port}").log_in("admin")
        rounds = [of_api(fleet, api) for _ in range(ROUNDS)]
    return {name: min(one[name] for one in rounds) for name in rounds[0]}


def minor_faults(pid: int) -> int:
    """Page faults without a disk, of a process and of the children that it has waited for; 0 once it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[7]) + int(fields[8])


def join_with_custom_module(fleet: BenchFleet, client: LocalClient) -> None:
    """Start the minion `own`, and run jobs of its module until its fork server is at work."""
    modules = fleet.folder / "plugins/modules"
    modules.mkdir(parents=True)
    (modules / "custom.py").write_text(CUSTOM_MODULE)
    fleet.join(["own"], module_dirs=[str(modules.parent)])
    for _ in range(JOBS):
        ping(client, "own", CUSTOM)


def ping(client: LocalClient, minion: str = "min", fun: str = "test.ping") -> None:
    """One job, to its end."""
    progress = Progress(client.publish(JobCall(minion, fun), follow=True), now=time.monotonic())
    if [reply.value for reply in client.watch(progress, WaitPolicy(30, away_s=30))] != [True]:
        raise RuntimeError("the minion did not answer")


def measured() -> dict[str, float]:
    """Every count under its name, the lowest of all rounds."""
    lowest: dict[str, float] = {}

    def note(name: str, count: float) -> None:
        lowest[name] = min(count, lowest.get(name, count))

    for _ in range(ROUNDS):
        of_daemons = imports_of_daemons()
        note("the master with its processes: imports", of_daemons["master"])
        note("the minion with its processes: imports", of_daemons["min"])
    with BenchFleet() as fleet:
        fleet.start_master(count_statements=True, **REALISTIC)
        fleet.join(["min"])
        time.sleep(SETTLE_S)
        minion = str(fleet.folder / "min")
        commands: dict[str, Callable[[], list[str]]] = {
            "saltlite '*' test.ping": lambda: fleet.command("*", "test.ping"),
            "saltlite key list": lambda: fleet.command("key", "list"),
            "saltlite job list": lambda: fleet.command("job", "list"),
            "saltlite --help": lambda: fleet.command("--help"),
            "saltlite call test.ping": lambda: [fleet.command()[0], "call", "-c", minion, "test.ping"],
        }
        for name, command in commands.items():
            subprocess.run(command(), check=True, stdout=subprocess.DEVNULL, timeout=120)  # writes the bytecode
            note(f"{name}: imports", imports_of(command()))
        start = of_command([sys.executable, "-I", "-S", "-c", ""]).total()
        with fleet.client() as client:
            for _ in range(ROUNDS):
                for name, command in commands.items():
                    note(f"{name}: system calls", of_command(command()).total() - start)
                    note(f"{name}: page faults", faults_of(command()))
                for name, count in of_jobs(fleet, client, [*fleet.pids("master"), *fleet.pids("min")]).items():
                    note(f"a job: {name}", count)
                note("a job: MWorkers that wake up", mworkers_awake(fleet, client))
                note(f"a job of {CLIENTS} clients: SQL statements", statements_of_many(fleet))
            join_with_custom_module(fleet, client)
            for _ in range(ROUNDS):
                for name, count in of_custom_jobs(fleet, client).items():
                    note(f"a job of a custom module: {name}", count)
    return lowest | counts_of_api()


def main(words: list[str]) -> int:
    """Print the counts beside the committed ones; the exit code."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    counts = {name: round(count, 2) for name, count in measured().items()}
    if words == ["--write"]:
        FIGURES.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
        return 0
    figures: dict[str, float] = json.loads(FIGURES.read_text(encoding="utf-8"))
    over = 0
    for name, count in counts.items():
        figure = figures.get(name, 0.0)
        more = count > figure * TOLERANCE and count > figure + SLACK
        over += more
        print(f"{'MORE' if more else 'ok':5} {name:45} {count:10.2f}  committed {figure:10.2f}")
    if over:
        print(
            f"{over} counts are more than {TOLERANCE - 1:.0%} above `{FIGURES.name}`; mend that, or commit new figures"
        )
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
