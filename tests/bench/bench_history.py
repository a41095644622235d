"""How fast a long history is listed, and how long a publish takes while another process prunes it; prints JSON.

By hand: `python -m tests.bench.bench_history [jobs] [targets]`.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import time
from dataclasses import replace

from saltlite.master.processes.maintenance import PAUSE_S
from saltlite.master.store.ports import ReturnCommit
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.ids import MinionId
from saltlite.model.job import JobFilter, Return, TargetOutcome, TargetState
from saltlite.model.keys import KeyRecord, KeyState
from tests.bench.bench_store import BODY, IDS, NOW, Jobs, fingerprint_of, median_ms

LIMIT = 50
EVERY_S = 0.002
"""Between two publishes during a prune."""


def fill(store: SqliteStore, made: Jobs, jobs: int, targets: int) -> None:
    """So many jobs, all of them returned; on one of a thousand something failed."""
    with store.write() as tx:
        for minion in IDS[:targets]:
            tx.put_key(KeyRecord(minion, fingerprint_of(minion), bytes(32), KeyState.ACCEPTED, "10.0.0.1", NOW, NOW, 1))
    for number in range(jobs):
        job = made.make(targets)
        commits = [
            ReturnCommit(
                fingerprint_of(minion),
                Return(job.jid, minion, TargetState.RETURNED, int(number % 1000 == 0 == place), BODY[:50], NOW, 12),
            )
            for place, minion in enumerate(job.minions)
        ]
        with store.write() as tx:
            tx.put_job(job)
            tx.put_returns(commits, NOW)


def prune(path: str, before: float) -> None:
    """Prune as the maintenance process does, in a process of its own."""
    store = SqliteStore(path)
    while store.prune_due(before):
        with store.write() as tx:
            tx.prune(before)
        time.sleep(PAUSE_S)
    store.close()


def publish_during_prune(path: str, jobs: Jobs) -> dict[str, float]:
    """Publish single jobs for as long as all jobs before them are pruned; milliseconds of a transaction."""
    store = SqliteStore(path)
    taken_ms = []
    log_bytes = 0
    child = multiprocessing.get_context("spawn").Process(target=prune, args=(path, NOW + 1))
    child.start()
    began = time.perf_counter()
    while child.is_alive():
        job = replace(jobs.make(1), created_at=NOW + 10)
        start = time.perf_counter()
        with store.write() as tx:
            tx.job_of_request(job.request_id, job.uid)
            tx.put_job(job)
        taken_ms.append((time.perf_counter() - start) * 1000)
        log_bytes = max(log_bytes, store.disk_usage().log)
        time.sleep(EVERY_S)
    taken_ms.sort()
    usage = store.disk_usage()
    figures = {
        "prune_s": time.perf_counter() - began,
        "publishes": len(taken_ms),
        "publish_during_prune_p50_ms": taken_ms[len(taken_ms) // 2],
        "publish_during_prune_p99_ms": taken_ms[len(taken_ms) * 99 // 100],
        "publish_during_prune_max_ms": taken_ms[-1],
        "log_during_prune_bytes": log_bytes,
        "file_after_prune_bytes": usage.file,
        "free_after_prune_bytes": usage.free,
    }
    store.close()
    return figures


def main() -> None:
    """Measure and print."""
    jobs, targets = (int(text) for text in (*sys.argv[1:], *("10000", "100")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(f"{folder}/store.db")
        made = Jobs()
        fill(store, made, jobs, targets)
        newest = store.jobs(JobFilter(), 1)[0]
        filters = {
            "newest": JobFilter(),
            "of_a_minion": JobFilter(minion=IDS[targets // 2]),
            "of_a_minion_without_jobs": JobFilter(minion=MinionId("nobody")),
            "of_no_user": JobFilter(user="nobody"),
            "of_a_function_that_never_ran": JobFilter(fun="pkg.*"),
            "failed": JobFilter(outcome=TargetOutcome.FAILED),
            "missing": JobFilter(outcome=TargetOutcome.MISSING),
            "open": JobFilter(outcome=TargetOutcome.OPEN),
            "ok": JobFilter(outcome=TargetOutcome.OK),
        }
        figures: dict[str, object] = {
            f"list_{name}_ms": median_ms(lambda wanted=wanted: store.jobs(wanted, LIMIT), 9)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            for name, wanted in filters.items()
        }
        figures["details_ms"] = median_ms(lambda: store.target_details(newest.jid), 9)
        figures |= {"jobs": jobs, "targets": targets, "store_bytes": store.size(), "load": os.getloadavg()[0]}
        store.close()
        figures |= publish_during_prune(f"{folder}/store.db", made)
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
