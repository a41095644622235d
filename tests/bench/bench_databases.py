"""Durable returns and jobs a second of the SQLite store and the PostgreSQL store, by turns on the same machine.

`python -m tests.bench.bench_databases [ROUNDS]` prints one JSON document; not run by pytest. PROCESSES store returns of
600 bytes in batches of BATCH, as MWorkers do, and then publish jobs for one target. The server is one of this machine's
packages, on a Unix socket, with fsync. Wall time of one side says little on a busy machine: look at the ratios.
"""

from __future__ import annotations

import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

from saltlite.master.store.ports import ReturnCommit, Store
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.ids import MinionId, RequestId, jid_at
from saltlite.model.job import Job, Return, Target, TargetState
from saltlite.model.keys import KeyRecord, KeyState
from tests.bench.bench_store import BODY, NOW, fingerprint_of
from tests.support.postgres import opener_of_postgres, running_server

PROCESSES = 4
BATCH = 100
BATCHES = 40
"""Of each process and round."""
JOBS = 100
"""The same."""
IDS = tuple(MinionId(f"web{n:05d}.example.net") for n in range(PROCESSES * BATCH * BATCHES))
SPAWN = multiprocessing.get_context("spawn")


def opener(where: str) -> Callable[[], Store]:
    """How the store there is opened: a path, or the DSN of a database."""
    return (lambda: SqliteStore(where)) if where.startswith("/") else opener_of_postgres(where)


def job(number: int, ids: tuple[MinionId, ...]) -> Job:
    """Job `number` for these minions."""
    return Job(
        jid=jid_at(1_800_000_000_000_000 + number),
        request_id=RequestId(f"{number:032x}"),
        user="root",
        uid=0,
        fun="test.ping",
        target=Target("*"),
        created_at=NOW,
        deliver_ms=60_000,
        run_ms=0,
        body=BODY,
        signature=bytes(64),
        minions=ids,
    )


def work(where: str, process: int, round_: int, gate: Barrier, spent: Any) -> None:
    """One process of one round: its returns, then its jobs; puts the seconds of both."""
    store = opener(where)()
    jid = job(round_, ()).jid
    mine = IDS[process * BATCH * BATCHES : (process + 1) * BATCH * BATCHES]
    gate.wait()
    began = time.perf_counter()
    for at in range(0, len(mine), BATCH):
        rets = [
            (minion, Return(jid, minion, TargetState.RETURNED, 0, BODY, NOW, 12)) for minion in mine[at : at + BATCH]
        ]
        with store.write(appends_only=True) as tx:
            tx.put_returns([ReturnCommit(fingerprint_of(minion), ret) for minion, ret in rets], NOW)
    returned = time.perf_counter() - began
    gate.wait()
    began = time.perf_counter()
    for number in range(JOBS):
        with store.write(appends_only=True) as tx:
            tx.put_job(job(10**6 * (round_ + 1) + process * JOBS + number, (IDS[number],)))
    spent.put((returned, time.perf_counter() - began))
    store.close()


def one_round(where: str, number: int) -> tuple[float, float]:
    """Returns and jobs a second of all processes together."""
    store = opener(where)()
    with store.write() as tx:
        tx.put_job(job(number, IDS))
    store.close()
    gate, spent = SPAWN.Barrier(PROCESSES), SPAWN.Queue()
    processes = [SPAWN.Process(target=work, args=(where, n, number, gate, spent)) for n in range(PROCESSES)]
    for process in processes:
        process.start()
    took = [spent.get() for _ in processes]
    for process in processes:
        process.join()
    return len(IDS) / max(one[0] for one in took), PROCESSES * JOBS / max(one[1] for one in took)


def main() -> None:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(fsync="on", shared_buffers="512MB", autovacuum_naptime="10s") as server,
    ):
        places = {"sqlite": f"{folder}/store.db", "postgres": server.new_schema()}
        for where in places.values():
            store = opener(where)()
            with store.write() as tx:
                for one in IDS:
                    tx.put_key(
                        KeyRecord(one, fingerprint_of(one), bytes(32), KeyState.ACCEPTED, "10.0.0.1", NOW, NOW, 1)
                    )
            store.close()
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in places}
        for number in range(rounds):
            for name, where in places.items():
                found[name].append(one_round(where, number))
    figures: dict[str, Any] = {"processes": PROCESSES, "batch": BATCH, "rounds": rounds}
    for at, what in enumerate(("returns_per_s", "jobs_per_s")):
        for name, pairs in found.items():
            figures[f"{name}_{what}"] = [round(pair[at]) for pair in pairs]
        ratios = [ours[at] / other[at] for ours, other in zip(found["postgres"], found["sqlite"], strict=True)]
        figures[f"{what}_postgres_to_sqlite"] = round(statistics.median(ratios), 2)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
