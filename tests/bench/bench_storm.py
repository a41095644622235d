"""Ten thousand minions on one master, and what a storm of their reconnects does to the others, as one JSON document:
`python -m tests.bench.bench_storm [MINIONS]`.

Not run by pytest. The minions are simulated, thousands in a process, and speak the real wire; the master is the real
daemon. All of them come from one address, so the limit of handshakes for an address is raised. In a storm their
processes are killed and come back at once, while jobs for minions that stay are run one after the other. The machine is
shared by master and minions: on two cores the minions' side takes more than half of it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from saltlite.client.local import LocalClient
from tests.bench.bench_fleet import accept_simulated, launch_crowd, launch_swarm
from tests.bench.fleet import BenchFleet
from tests.bench.measure import Figure, IdleCpu, Others, machine, pss_mib, rounded, timed
from tests.bench.swarm import minion_name

MINIONS = 10_000
STEADY = 20
"""Minions that stay connected, and are asked during the storm."""
PINGS = 3
QUIET_S = 10.0
IDLE_S = 20.0

FIGURES = {
    "connected": Figure("s", 12.0, "30-40 s of one core for 10,000, by its key exchange alone"),
    "back_after_a_storm": Figure("s", 12.0, "-"),
    "ping_of_all": Figure("s", 2.5, "1.5-2.7 with 200"),
    "job_in_a_storm_p99": Figure("ms", 1000, "-"),
    "master_pss": Figure("MiB", 450, "-"),
    "master_idle_cpu": Figure("% of a core", 3.0, "-"),
}


def storm(fleet: BenchFleet, minions: int) -> dict[str, Any]:
    """All figures, on a fleet of which nothing runs yet."""
    fleet.start_master(handshakes_per_address=10_000)
    accept_simulated(fleet.store_path, minions + STEADY)
    steady = range(minions, minions + STEADY)
    launch_swarm(fleet, "steady", steady)()
    began = time.perf_counter()
    launch_crowd(fleet, minions)
    connected_s = time.perf_counter() - began
    pings = [_ping_all(fleet, minions + STEADY) for _ in range(PINGS)]
    with _asking(fleet.socket_path, steady) as quiet_ms:
        time.sleep(QUIET_S)
    with _asking(fleet.socket_path, steady) as storm_ms:
        for name in [name for name in fleet.daemons if name.startswith("crowd")]:
            fleet.daemons.pop(name).kill()
        began = time.perf_counter()
        launch_crowd(fleet, minions)
        back_s = time.perf_counter() - began
    pings.append(_ping_all(fleet, minions + STEADY))
    cpu = IdleCpu(fleet.pids("master"))
    time.sleep(IDLE_S)
    idle = cpu.used_s(fleet.pids("master")) / IDLE_S * 100
    master = pss_mib(fleet.pids("master"))
    return {
        **_figure("connected", [connected_s]),
        **_figure("back_after_a_storm", [back_s]),
        **_figure("ping_of_all", pings),
        **_figure("job_in_a_storm_p99", [_quantile(storm_ms, 0.99)]),
        **_figure("master_pss", [sum(master.values())]),
        **_figure("master_idle_cpu", [idle]),
        "jobs_quiet_ms": _spread(quiet_ms),
        "jobs_in_the_storm_ms": _spread(storm_ms),
        "master_processes_mib": {name: rounded(size) for name, size in master.items()},
    }


def _ping_all(fleet: BenchFleet, count: int) -> float:
    run = timed(fleet.command("*", "test.ping", "--out", "json"))
    if run.code != 0 or list(json.loads(run.out).values()) != [True] * count:
        said = [line[:300] for line in run.out.splitlines() if not line.endswith("true,")]
        raise RuntimeError(f"not all of {count} answered, exit {run.code}: {said[:12]}")
    return run.wall_s


@contextmanager
def _asking(socket_path: str, numbers: range) -> Iterator[list[float]]:
    """Milliseconds of jobs for one minion after another, as long as the block runs."""
    taken: list[float] = []
    over = threading.Event()

    def ask() -> None:
        with LocalClient(socket_path) as client:
            while not over.is_set():
                name = minion_name(numbers[len(taken) % len(numbers)])
                began = time.perf_counter()
                if client.cmd(name, "test.ping", timeout=30) != {name: True}:
                    raise RuntimeError(f"{name} did not answer")
                taken.append((time.perf_counter() - began) * 1000)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield taken
    finally:
        over.set()
        thread.join()


def _quantile(samples: list[float], share: float) -> float:
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * share))]


def _spread(samples: list[float]) -> dict[str, float]:
    shares = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    return {"jobs": len(samples), **{name: rounded(_quantile(samples, share)) for name, share in shares.items()}}


def _figure(name: str, samples: list[float]) -> dict[str, Any]:
    return {name: FIGURES[name].report(samples)}


def main(words: list[str]) -> int:
    """Print the document; the exit code."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    minions = int(words[0]) if words else MINIONS
    others = Others()
    with BenchFleet() as fleet:
        report = storm(fleet, minions)
        document = {"machine": machine(), "minions": minions, "others_percent": others.share_percent(), **report}
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
