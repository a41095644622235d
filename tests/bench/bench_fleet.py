"""The whole product against its targets, as one JSON document: `python tests/bench/bench_fleet.py [CASE …]`.

Not run by pytest. Every case starts its own fleet of real daemons on loopback, without root's help. `salt` in the
document is what Salt 3008.3 needed for the same work on a machine like the reference one (2 cores). Figures of a
machine with other work on it say little: `others_percent` is that work's share of the machine during the case.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from saltlite.client.follower import Progress, WaitPolicy
from saltlite.client.local import JobCall, LocalClient
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.ids import parse_minion_id
from saltlite.model.keys import KeyRecord, KeyState, fingerprint
from saltlite.wire.noise import public_of
from tests.bench.fleet import BenchFleet, wait_until
from tests.bench.measure import Figure, IdleCpu, Others, alone_mib, cpu_s, machine, pss_mib, rounded, timed, title
from tests.bench.swarm import minion_name, private_key

CLI_RUNS = 20
STARTS = 5
FLEET_RUNS = 10
REAL_MINIONS = 25
SIMULATED = 2000
SWARM_RUNS = 5
A_PROCESS = 5000
"""Simulated minions of one process: each has several descriptors, and a process 20,000."""
JOBS_S = 5.0
JOBS_RUNS = 3
CLIENTS = 8
CUSTOM_MODULE = "def ping():\n    return True\n"
"""A module of an operator: each job that uses it gets a process of its own."""
SETTLE_S = 4.0
"""Until a fleet that has just started is idle."""
IDLE_S = 20.0

FIGURES = {
    "cli_ping_wall": Figure("s", 0.12, "0.84"),
    "cli_ping_client_cpu": Figure("s", 0.08, "0.71"),
    "cli_help_wall": Figure("s", 0.06, "0.29"),
    "master_start_to_first_answer": Figure("s", 1.0, "4.2"),
    "minion_start_to_first_answer": Figure("s", 0.8, "1.5"),
    "ping_25_minions_wall": Figure("s", 0.35, "2.2"),
    "jobs_sequential": Figure("jobs/s", 100, "8", at_least=True),
    "jobs_8_clients": Figure("jobs/s", 200, "9", at_least=True),
    "cpu_of_a_job": Figure("ms", 7, "-"),
    "cpu_of_a_custom_job": Figure("ms", 11, "-"),
    "minion_idle_pss": Figure("MiB", 40, "74"),
    "master_idle_pss": Figure("MiB", 110, "256"),
    "minion_idle_cpu": Figure("% of a core", 0.1, "0.7"),
    "link_a_connected_minion": Figure("KiB", 32, "-"),
    "ping_2000_simulated_wall": Figure("s", 1.5, "1.5-2.7 with 200"),
}

Report = dict[str, Any]


def figure(name: str, samples: list[float]) -> Report:
    """One figure for the document."""
    return {name: FIGURES[name].report(samples)}


def cli(fleet: BenchFleet) -> Report:
    """`saltlite '*' test.ping` on one minion, and `saltlite --help`."""
    fleet.start_master()
    fleet.join(["m"])
    ping, help_text = fleet.command("*", "test.ping"), fleet.command("--help")
    for command in (ping, help_text):
        timed(command)
    pings = [timed(ping) for _ in range(CLI_RUNS)]
    helps = [timed(help_text) for _ in range(CLI_RUNS)]
    bad = [run.out for run in pings if run.code != 0 or "True" not in run.out]
    return {
        **figure("cli_ping_wall", [run.wall_s for run in pings]),
        **figure("cli_ping_client_cpu", [run.cpu_s for run in pings]),
        **figure("cli_help_wall", [run.wall_s for run in helps]),
        "failed": bad,
    }


def starts(fleet: BenchFleet) -> Report:
    """From the start of the program to the first answer: to a client, and to a job that was published before."""
    masters, minions = [], []
    fleet.start_master()
    fleet.join(["m"])
    for _ in range(STARTS):
        fleet.stop("master")
        masters.append(fleet.start_master())
    wait_until(lambda: fleet.up() == {"m"}, "the minion is back")
    for _ in range(STARTS):
        fleet.stop("m")
        wait_until(lambda: not fleet.up(), "the minion is gone")
        began = time.perf_counter()
        fleet.launch_minion("m")
        with fleet.client() as client:
            answer = client.cmd("m", "test.ping", timeout=20)
        minions.append(time.perf_counter() - began)
        if answer != {"m": True}:
            raise RuntimeError(f"the minion answered {answer}")
    return figure("master_start_to_first_answer", masters) | figure("minion_start_to_first_answer", minions)


def real(fleet: BenchFleet) -> Report:
    """25 minions, each with its processes."""
    fleet.start_master(handshakes_per_address=1000)
    fleet.join([f"m{number:02d}" for number in range(REAL_MINIONS)])
    time.sleep(SETTLE_S)
    walls = [_ping_all(fleet, REAL_MINIONS) for _ in range(FLEET_RUNS + 1)][1:]
    return figure("ping_25_minions_wall", walls)


def jobs(fleet: BenchFleet) -> Report:
    """Jobs one after another through the client library, from one process and from eight."""
    fleet.start_master()
    fleet.join(["m"])
    _jobs_for(fleet.socket_path, 1.0)
    cost: Report = {}
    one, eight = [], []
    for _ in range(JOBS_RUNS):
        before, client_before = _cpu_of(fleet), time.process_time()
        count, seconds = _jobs_for(fleet.socket_path, JOBS_S)
        after, client_after = _cpu_of(fleet), time.process_time()
        one.append(count / seconds)
        cost = {name: rounded((after[name] - before[name]) / count * 1000) for name in before}
        cost["client"] = rounded((client_after - client_before) / count * 1000)
    for _ in range(JOBS_RUNS):
        with multiprocessing.get_context("spawn").Pool(CLIENTS) as pool:
            pool.starmap(_jobs_for, [(fleet.socket_path, 0.2)] * CLIENTS)
            done = pool.starmap(_jobs_for, [(fleet.socket_path, JOBS_S)] * CLIENTS)
        eight.append(sum(count / seconds for count, seconds in done))
    processes = _processes_of_jobs(fleet)
    return {
        **figure("jobs_sequential", one),
        **figure("jobs_8_clients", eight),
        "cpu_ms_a_sequential_job": cost,
        "processes_of_20_jobs": processes,
    }


def custom_jobs(fleet: BenchFleet) -> Report:
    """CPU of all daemons for a job, of a shipped function and of a custom module, in turns."""
    plugins = fleet.folder / "plugins"
    (plugins / "modules").mkdir(parents=True)
    (plugins / "modules/custom.py").write_text(CUSTOM_MODULE)
    fleet.start_master()
    fleet.join(["m"], module_dirs=[str(plugins)])
    cost: dict[str, list[float]] = {"test.ping": [], "custom.ping": []}
    for fun in cost:
        _jobs_for(fleet.socket_path, 1.0, fun)
    for _ in range(JOBS_RUNS):
        for fun, samples in cost.items():
            before = sum(_cpu_of(fleet).values())
            count, _ = _jobs_for(fleet.socket_path, JOBS_S, fun)
            samples.append((sum(_cpu_of(fleet).values()) - before) / count * 1000)
    return figure("cpu_of_a_job", cost["test.ping"]) | figure("cpu_of_a_custom_job", cost["custom.ping"])


def idle(fleet: BenchFleet) -> Report:
    """What a fleet costs that has nothing to do."""
    fleet.start_master(worker_threads=4)
    fleet.join(["m"])
    with fleet.client() as client:
        client.cmd("m", "test.ping")
    time.sleep(SETTLE_S)
    cpu = IdleCpu(fleet.pids("m"))
    time.sleep(IDLE_S)
    used_s = cpu.used_s(fleet.pids("m"))
    master, minion = pss_mib(fleet.pids("master")), pss_mib(fleet.pids("m"))
    return {
        **figure("minion_idle_pss", [sum(minion.values())]),
        **figure("master_idle_pss", [sum(master.values())]),
        **figure("minion_idle_cpu", [used_s / IDLE_S * 100]),
        "minion_alone_mib": rounded(alone_mib(fleet.pids("m"))),
        "master_alone_mib": rounded(alone_mib(fleet.pids("master"))),
        "minion_processes_mib": {name: rounded(size) for name, size in minion.items()},
        "master_processes_mib": {name: rounded(size) for name, size in master.items()},
    }


def swarm(fleet: BenchFleet) -> Report:
    """2,000 simulated minions in one process, with a job waiting for them when they come; then pings of all.

    A client is shown a return only when it was committed.
    """
    fleet.start_master(handshakes_per_address=5000)
    accept_simulated(fleet.store_path, SIMULATED)
    alone = _link_mib(fleet)
    with fleet.client() as client:
        waiting = client.publish(JobCall("*", "test.ping"), follow=True)
        progress = Progress(waiting, now=time.monotonic())
        began = time.perf_counter()
        launch_swarm(fleet, "swarm", range(SIMULATED))()
        connected_s = time.perf_counter() - began
        returned = sum(reply.value is True for reply in client.watch(progress, WaitPolicy(30, away_s=30)))
        caught_up_s = time.perf_counter() - began
    if returned != SIMULATED:
        raise RuntimeError(f"{returned} minions returned the job that waited for them")
    time.sleep(SETTLE_S)
    connected = _link_mib(fleet)
    before = _cpu_of(fleet)
    walls = [_ping_all(fleet, SIMULATED) for _ in range(SWARM_RUNS)]
    after = _cpu_of(fleet)
    master = pss_mib(fleet.pids("master"))
    return {
        **figure("ping_2000_simulated_wall", walls),
        "connected_s": rounded(connected_s),
        "waiting_job_returned_by_all_s": rounded(caught_up_s),
        **figure("link_a_connected_minion", [(connected - alone) / SIMULATED * 1024]),
        "link_a_minion_after_pings_kib": rounded((_link_mib(fleet) - alone) / SIMULATED * 1024),
        "cpu_s_a_ping": {name: rounded((after[name] - before[name]) / SWARM_RUNS) for name in before},
        "master_processes_mib": {name: rounded(size) for name, size in master.items()},
    }


def _link_mib(fleet: BenchFleet) -> float:
    return sum(size for name, size in pss_mib(fleet.pids("master")).items() if name.startswith("master link"))


CASES: dict[str, Callable[[BenchFleet], Report]] = {
    case.__name__: case for case in (cli, starts, real, jobs, custom_jobs, idle, swarm)
}


def _ping_all(fleet: BenchFleet, count: int) -> float:
    run = timed(fleet.command("*", "test.ping", "--out", "json"))
    answers = json.loads(run.out) if run.code == 0 else {}
    if len(answers) != count or not all(answer is True for answer in answers.values()):
        raise RuntimeError(f"{len(answers)} of {count} answered, exit {run.code}: {run.out[-500:]}")
    return run.wall_s


def _jobs_for(socket_path: str, seconds: float, fun: str = "test.ping") -> tuple[int, float]:
    """(jobs, seconds) of a function that returns True, one after another."""
    count = 0
    began = time.perf_counter()
    with LocalClient(socket_path) as client:
        while time.perf_counter() - began < seconds:
            answer = client.cmd("m", fun)
            if answer != {"m": True}:
                raise RuntimeError(f"the minion answered {answer}")
            count += 1
    return count, time.perf_counter() - began


def _processes_of_jobs(fleet: BenchFleet) -> int:
    """How many different processes ran 20 jobs: the shell's parent is the process of the job."""
    with fleet.client() as client:
        return len({client.cmd("m", "cmd.run", ["echo $PPID"], {"python_shell": True})["m"] for _ in range(20)})


def _cpu_of(fleet: BenchFleet) -> dict[str, float]:
    """CPU seconds so far, by daemon; of the master by process."""
    found = {name: cpu_s(fleet.pids(name)) for name in fleet.daemons if name != "master"}
    for pid in fleet.pids("master"):
        kind = "MWorkers" if title(pid).startswith("MWorker") else title(pid)
        found[kind] = found.get(kind, 0.0) + cpu_s([pid])
    return found


def launch_swarm(fleet: BenchFleet, name: str, numbers: range) -> Callable[[], None]:
    """Start a process of simulated minions; what this returns waits until all of them are connected."""
    with fleet.client() as client:
        fingerprint_of_fleet = client.call("key_finger")["fleet"]
    command = [sys.executable, "-m", "tests.bench.swarm", str(fleet.port), fingerprint_of_fleet]
    with (fleet.folder / name).open("wb") as log:
        process = subprocess.Popen(
            [*command, str(len(numbers)), str(numbers.start)],
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=Path(__file__).parents[2],
        )
    fleet.daemons[name] = process

    def wait() -> None:
        if process.stdout is None or process.stdout.readline() != b"ready\n":
            raise RuntimeError(f"the swarm did not come up: {(fleet.folder / name).read_text()[-1000:]}")

    return wait


def launch_crowd(fleet: BenchFleet, minions: int) -> None:
    """Start processes of simulated minions, and wait until all of them are connected."""
    waits = [
        launch_swarm(fleet, f"crowd{first}", range(first, min(first + A_PROCESS, minions)))
        for first in range(0, minions, A_PROCESS)
    ]
    for wait in waits:
        wait()


def accept_simulated(store_path: str, count: int) -> None:
    """Accept the keys of that many simulated minions."""
    store = SqliteStore(store_path)
    now = time.time()
    with store.write() as writer:
        for number in range(count):
            public = public_of(private_key(number))
            name = parse_minion_id(minion_name(number))
            record = KeyRecord(
                name,
                fingerprint(public),
                public,
                KeyState.ACCEPTED,
                "127.0.0.1",
                now,
                now,
                writer.next_epoch(),
                "bench",
            )
            writer.put_key(record)
    store.close()


def main(names: list[str]) -> int:
    """Run these cases, or all; the exit code."""
    if unknown := set(names) - set(CASES):
        print(f"there is no case {', '.join(sorted(unknown))}: there are {', '.join(CASES)}", file=sys.stderr)
        return 2
    # Programs that were installed have their bytecode; a checkout gets it from the warm-up runs.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    document: dict[str, Any] = {"machine": machine(), "cases": {}}
    for name in names or CASES:
        others = Others()
        with BenchFleet() as fleet:
            report = CASES[name](fleet)
            document["cases"][name] = {"others_percent": others.share_percent(), **report}
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
