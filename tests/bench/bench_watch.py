"""What it costs to watch a large job and to advance a large batch: `python -m tests.bench.bench_watch [TARGETS]`.

Prints one JSON document: CPU milliseconds, medians. All targets run before the first returns. Not run by pytest.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from saltlite.master.handlers.jobs import PAGE, JobFollower
from saltlite.master.processes.context import Follow
from saltlite.master.store.ports import PartRow, ReturnCommit, TargetRow
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.ids import MinionId
from saltlite.model.job import Batch, Job, Return, TargetState
from tests.bench import bench_store as bench
from tests.bench.bench_store import NOW, fingerprint_of

BODY = b"\xc3"
STEP = 1000
"""Targets of the batch that get their turn between two figures."""


def cpu_ms(action: Callable[[], object]) -> float:
    """CPU milliseconds of one call."""
    began = time.process_time()
    action()
    return (time.process_time() - began) * 1000


def put_returns(store: SqliteStore, job: Job, ids: Sequence[MinionId]) -> None:
    rets = [(minion, Return(job.jid, minion, TargetState.RETURNED, 0, BODY, NOW, 12)) for minion in ids]
    with store.write() as tx:
        tx.put_returns([ReturnCommit(fingerprint_of(minion), ret) for minion, ret in rets], NOW)


def put_job(store: SqliteStore, job: Job) -> JobFollower:
    """Store it; the stream of a client that watches it from the beginning."""
    with store.write() as tx:
        tx.put_job(job)
    master: Any = SimpleNamespace(store=store, clock=SimpleNamespace(monotonic=time.monotonic))
    return JobFollower(master, Follow(job.jid, 0, False, job))


def watched(store: SqliteStore, job: Job) -> dict[str, float]:
    """Tellings of a job of which every target runs, a page of returns each."""
    stream = put_job(store, job)
    with store.write() as tx:
        tx.set_parts([PartRow(job.jid, minion, TargetState.RUNNING, "", NOW) for minion in job.minions])
    figures = {"telling_that_all_run_ms": cpu_ms(stream.news)}
    tellings, puts = [], []
    for at in range(0, len(job.minions), PAGE):
        puts.append(cpu_ms(lambda ids=job.minions[at : at + PAGE]: put_returns(store, job, ids)))  # type: ignore[misc]  # a default binds it
        tellings.append(cpu_ms(stream.news))
    counting = [cpu_ms(lambda: store.open_targets(job.jid)) for _ in range(9)]
    return figures | {
        "telling_of_500_returns_ms": statistics.median(tellings),
        "put_returns_of_500_ms": statistics.median(puts),
        "open_targets_ms": statistics.median(counting),
    }


def in_turns(store: SqliteStore, job: Job) -> dict[str, float]:
    """What is asked whenever the batch may go on, over its whole course."""
    stream = put_job(store, job)
    stream.news()
    asked: dict[str, Callable[[], object]] = {
        "batch_telling_ms": stream.news,
        "batch_standing_ms": lambda: store.standing(job.jid, NOW - 60, NOW + 1, NOW + 1),
        "batches_among_ms": lambda: store.batches([job.jid]),
        "next_planned_ms": lambda: store.next_planned(job.jid, 100),
    }
    spent: dict[str, list[float]] = {name: [] for name in asked}
    for at in range(0, len(job.minions), STEP):
        ids = job.minions[at : at + STEP]
        with store.write() as tx:
            tx.set_targets([(job.jid, TargetRow(minion, TargetState.QUEUED, "", NOW)) for minion in ids])
        put_returns(store, job, ids[: STEP // 2])
        for name, action in asked.items():
            spent[name].append(cpu_ms(action))
        put_returns(store, job, ids[STEP // 2 :])
    return {name: statistics.median(times) for name, times in spent.items()}


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000
    bench.IDS = tuple(MinionId(f"web{n:06d}.example.net") for n in range(count))
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(f"{folder}/store.db")
        bench.fill_keys(store)
        jobs = bench.Jobs()
        figures = watched(store, jobs.make(count))
        figures |= in_turns(store, replace(jobs.make(count), batch=Batch(100, 0, False)))
        store.close()
    print(json.dumps({"targets": count} | {name: round(value, 3) for name, value in figures.items()}, indent=2))


if __name__ == "__main__":
    main()
