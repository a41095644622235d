"""What it costs to watch a large job and to advance a large batch, with the store in SQLite and in PostgreSQL:
`python -m tests.bench.bench_watch [TARGETS]`.

Prints one JSON document: CPU milliseconds, medians; those of PostgreSQL are this process and the server's processes for
its connections together. All targets run before the first returns. Not run by pytest.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from saltlite.master.handlers.jobs import PAGE, JobFollower
from saltlite.master.processes.context import Follow
from saltlite.master.store.ports import MinionRow, PartRow, ReturnCommit, Store, TargetRow
from saltlite.master.store.postgres import PostgresStore
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.ids import MinionId
from saltlite.model.job import Batch, Job, Return, TargetState
from tests.bench import bench_store as bench
from tests.bench.bench_store import NOW, fingerprint_of
from tests.support.postgres import running_server

BODY = b"\xc3"
CLAIMED = 200
STEP = 1000
"""Targets of the batch that get their turn between two figures."""


class Spent:
    """CPU milliseconds of calls of a store."""

    def __init__(self, store: Store) -> None:
        sides = (store._read_side, store._write_side) if isinstance(store, PostgresStore) else ()
        self._servers = [int(side.value("SELECT pg_backend_pid()")) for side in sides]
        """The processes of the server that work for this store."""

    def ms(self, action: Callable[[], object]) -> float:
        """Of one call."""
        began = self._now()
        action()
        return (self._now() - began) * 1000

    def _now(self) -> float:
        # The kernel counts them in nanoseconds there, and in `stat` in hundredths of a second.
        servers = (Path(f"/proc/{pid}/schedstat").read_text().split()[0] for pid in self._servers)
        return time.process_time() + sum(int(spent) for spent in servers) / 1e9


def put_returns(store: Store, job: Job, ids: Sequence[MinionId]) -> None:
    rets = [(minion, Return(job.jid, minion, TargetState.RETURNED, 0, BODY, NOW, 12)) for minion in ids]
    with store.write(appends_only=True) as tx:
        tx.put_returns([ReturnCommit(fingerprint_of(minion), ret) for minion, ret in rets], NOW)


def publish(store: Store, job: Job) -> None:
    with store.write(appends_only=job.batch is None) as tx:
        tx.put_job(job)


def claim(store: Store, rows: Sequence[MinionRow]) -> None:
    """These sessions have begun."""
    with store.write() as tx:
        tx.claim(rows)


def follower(store: Store, job: Job) -> JobFollower:
    """The stream of a client that watches the job from the beginning."""
    master: Any = SimpleNamespace(store=store, clock=SimpleNamespace(monotonic=time.monotonic))
    return JobFollower(master, Follow(job.jid, 0, False, job))


def watched(store: Store, spent: Spent, job: Job) -> dict[str, float]:
    """Tellings of a job of which every target runs, a page of returns each."""
    published = spent.ms(lambda: publish(store, job))
    stream = follower(store, job)
    with store.write() as tx:
        tx.set_parts([PartRow(job.jid, minion, TargetState.RUNNING, "", NOW) for minion in job.minions])
    figures = {"publish_ms": published, "telling_that_all_run_ms": spent.ms(stream.news)}
    tellings, puts = [], []
    for at in range(0, len(job.minions), PAGE):
        puts.append(spent.ms(lambda ids=job.minions[at : at + PAGE]: put_returns(store, job, ids)))  # type: ignore[misc]  # a default binds it
        tellings.append(spent.ms(stream.news))
    counting = [spent.ms(lambda: store.open_targets(job.jid)) for _ in range(9)]
    return figures | {
        "telling_of_500_returns_ms": statistics.median(tellings),
        "put_returns_of_500_ms": statistics.median(puts),
        "open_targets_ms": statistics.median(counting),
    }


def in_turns(store: Store, spent: Spent, job: Job) -> dict[str, float]:
    """What is asked whenever the batch may go on, over its whole course."""
    publish(store, job)
    stream = follower(store, job)
    stream.news()
    asked: dict[str, Callable[[], object]] = {
        "batch_telling_ms": stream.news,
        "batch_standing_ms": lambda: store.standing(job.jid, NOW - 60, NOW + 1, NOW + 1),
        "batches_among_ms": lambda: store.batches([job.jid]),
        "next_planned_ms": lambda: store.next_planned(job.jid, 100),
    }
    times: dict[str, list[float]] = {name: [] for name in asked}
    for at in range(0, len(job.minions), STEP):
        ids = job.minions[at : at + STEP]
        with store.write() as tx:
            tx.set_targets([(job.jid, TargetRow(minion, TargetState.QUEUED, "", NOW)) for minion in ids])
        put_returns(store, job, ids[: STEP // 2])
        for name, action in asked.items():
            times[name].append(spent.ms(action))
        put_returns(store, job, ids[STEP // 2 :])
    return {name: statistics.median(found) for name, found in times.items()}


def measured(store: Store, count: int) -> dict[str, float]:
    """All figures of one store, which is closed then."""
    bench.fill_keys(store)
    jobs, spent = bench.Jobs(), Spent(store)
    figures = watched(store, spent, jobs.make(count))
    known = [row for row in map(store.minion, bench.IDS[: 10 * CLAIMED]) if row is not None]
    rows = [replace(row, handshake=row.handshake + 1) for row in known]
    parts = [rows[at : at + CLAIMED] for at in range(0, len(rows), CLAIMED)]
    figures["claim_of_200_ms"] = statistics.median([spent.ms(lambda some=some: claim(store, some)) for some in parts])  # type: ignore[misc]  # a default binds it
    figures |= in_turns(store, spent, replace(jobs.make(count), batch=Batch(100, 0, False)))
    store.close()
    return {name: round(value, 3) for name, value in figures.items()}


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000
    bench.IDS = tuple(MinionId(f"web{n:06d}.example.net") for n in range(count))
    with tempfile.TemporaryDirectory() as folder, running_server(fsync="on") as server:
        found = {
            "sqlite": measured(SqliteStore(f"{folder}/store.db"), count),
            "postgres": measured(PostgresStore(server.new_schema(), master=1), count),
        }
    print(json.dumps({"targets": count} | found, indent=2))


if __name__ == "__main__":
    main()
