"""How long a `saltlite` command takes: `python tests/bench/bench_cli.py` prints medians as JSON.

Wall and CPU milliseconds (user and system) of whole processes: an interpreter that does nothing, `--help`,
and one job on two minions against a master that answers at once from this process.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.bench.fleet import install_command  # noqa: E402 - the path above is needed for it
from tests.integration.fakemaster import FakeMaster, good_job  # noqa: E402 - the same

ROUNDS = 15


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(argv: list[str]) -> dict[str, float]:
    """Median wall and CPU milliseconds of one command line."""
    walls, cpus = [], []
    for _ in range(ROUNDS):
        before, began = _children_cpu_s(), time.perf_counter()
        subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        walls.append(time.perf_counter() - began)
        cpus.append(_children_cpu_s() - before)
    return {
        "wall_ms": round(statistics.median(walls) * 1e3, 1),
        "cpu_ms": round(statistics.median(cpus) * 1e3, 1),
    }


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder, FakeMaster(Path(folder), good_job) as master:
        install_command(Path(folder, "installed"))
        saltlite = [str(Path(folder, "installed/bin/saltlite"))]
        result = {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "cpus": os.cpu_count(),
            "load": round(os.getloadavg()[0], 2),
            "rounds": ROUNDS,
            "bare_python": measure([sys.executable, "-c", "pass"]),
            "bare_python_without_site": measure([sys.executable, "-I", "-S", "-c", "pass"]),
            "help": measure([*saltlite, "--help"]),
            "job": measure([*saltlite, "-c", master.config_dir, "*", "test.ping"]),
        }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
