"""How long the tab key takes: `python tests/bench/bench_completion.py` prints medians as JSON.

Wall milliseconds, and CPU milliseconds (user and system), of the whole process that a shell starts, against a
real master with 5,000 minions in its store, which have four different sets of functions, and 200 jobs.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sqlite3
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from saltlite.client.local import JobCall  # noqa: E402 - as above
from saltlite.loader.index import build_index  # noqa: E402 - as above
from saltlite.loader.search_path import search_layers  # noqa: E402 - as above
from saltlite.master.store.ports import FunctionSet, MinionRow  # noqa: E402 - as above
from saltlite.master.store.sqlite import SqliteStore  # noqa: E402 - the path above is needed for it
from saltlite.model.ids import MinionId  # noqa: E402 - as above
from saltlite.model.keys import KeyRecord, KeyState, fingerprint  # noqa: E402 - as above
from saltlite.model.signature import by_name  # noqa: E402 - as above
from tests.bench.fleet import BIN, BenchFleet  # noqa: E402 - as above

MINIONS = 5000
SETS = 4
JOBS = 200
ROUNDS = 25

LINES = {
    "command": ["key", "acc"],
    "options": ["key", "list", "--"],
    "target": ["web12"],
    "every_target": [""],
    "module": ["web1", ""],
    "function": ["web1", "pkg.in"],
    "argument": ["web1", "cmd.run", ""],
    "key": ["key", "revoke", "web4"],
    "jid": ["job", "kill", "2"],
}


def fill(path: str) -> None:
    """Five thousand minions, as they would be after their first session."""
    texts = list(build_index(search_layers({})).function_texts({}))
    now = time.time()
    store = SqliteStore(path)
    with store.write() as tx:
        for number in range(SETS):
            more = [*texts, f"extra{number}.run(name:str)"]
            tx.put_functions(FunctionSet(f"{number:064x}", by_name(more), whole=True))
        rows = []
        for number in range(MINIONS):
            minion = MinionId(f"web{number}")
            public = minion.encode().ljust(32, b".")
            key = fingerprint(public)
            tx.put_key(KeyRecord(minion, key, public, KeyState.ACCEPTED, "192.0.2.1", now, now, number))
            functions = f"{number % SETS:064x}"
            rows.append(MinionRow(minion, key, "192.0.2.1", "1", "b", "i", functions, up=False, last_seen=now))
        tx.claim(rows)
    store.close()


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(argv: list[Any]) -> dict[str, float]:
    """Medians of one command line, and how many lines it printed."""
    walls, cpus, lines = [], [], 0
    for _ in range(ROUNDS):
        before, began = _children_cpu_s(), time.perf_counter()
        done = subprocess.run(argv, check=True, capture_output=True)
        walls.append(time.perf_counter() - began)
        cpus.append(_children_cpu_s() - before)
        lines = len(done.stdout.splitlines())
    return {
        "wall_ms": round(statistics.median(walls) * 1e3, 1),
        "cpu_ms": round(statistics.median(cpus) * 1e3, 1),
        "lines": lines,
    }


def main() -> None:
    """Measure and print."""
    with BenchFleet() as fleet:
        fleet.start_master()
        fleet.stop("master")
        fill(fleet.store_path)
        fleet.start_master()
        with fleet.client() as client:
            for _ in range(JOBS):
                client.publish(JobCall("web1*", "test.ping", deliver_ms=1))
        # As operators write it, which is read without a YAML parser; the fleet's own is JSON.
        config = fleet.folder / "plain"
        config.mkdir()
        (config / "master").write_text(f"sock_dir: {Path(fleet.socket_path).parent}\n")
        found = {
            name: measure([BIN / "saltlite", "__complete", "--", "-c", config, *words]) for name, words in LINES.items()
        }
        bare = measure([sys.executable, "-c", "pass"])
    result = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "sqlite": sqlite3.sqlite_version,
        "minions": MINIONS,
        "jobs": JOBS,
        "rounds": ROUNDS,
        "bare_python": bare,
        **found,
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
