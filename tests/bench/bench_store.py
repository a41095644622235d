"""How fast the SQLite store is; prints JSON. By hand: `python tests/bench/bench_store.py [folder]`."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial

from saltlite.master.store.ports import MinionRow, PartRow, ReturnCommit, Store
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.ids import Jid, MinionId, RequestId, TargetId, jid_at
from saltlite.model.job import PART_RESOURCES, Job, Return, Target, TargetState
from saltlite.model.keys import Fingerprint, KeyRecord, KeyState

FLEET = 10_000
NOW = 1_800_000_000.0
BODY = os.urandom(600)
IDS = tuple(MinionId(f"web{n:05d}.example.net") for n in range(FLEET))


def fingerprint_of(minion: MinionId) -> Fingerprint:
    """A stand-in of the right length."""
    return Fingerprint(f"{minion:A>47.47}")


def fill_keys(store: Store) -> None:
    """One accepted key and one session a minion."""
    with store.write() as tx:
        for minion in IDS:
            tx.put_key(KeyRecord(minion, fingerprint_of(minion), bytes(32), KeyState.ACCEPTED, "10.0.0.1", NOW, NOW, 1))
        tx.claim(
            [
                MinionRow(
                    id=minion,
                    fingerprint=fingerprint_of(minion),
                    address="10.0.0.1",
                    version="0.1",
                    boot_id="boot",
                    incarnation="disk",
                    functions=f"digest{n % 3}",
                    up=True,
                    last_seen=NOW,
                )
                for n, minion in enumerate(IDS)
            ]
        )


class Jobs:
    """Makes jobs with fresh ids."""

    def __init__(self) -> None:
        self._made = 0

    def make(self, targets: int, resources: Mapping[MinionId, tuple[TargetId, ...]] | None = None) -> Job:
        self._made += 1
        return Job(
            jid=jid_at(1_800_000_000_000_000 + self._made),
            request_id=RequestId(f"{self._made:032x}"),
            user="root",
            uid=0,
            fun="test.ping",
            target=Target("*"),
            created_at=NOW,
            deliver_ms=60_000,
            run_ms=0,
            body=BODY,
            signature=bytes(64),
            minions=IDS[:targets],
            resources=resources or {},
        )


def median_ms(action: Callable[[], object], times: int) -> float:
    """Median wall time of one call, in milliseconds."""
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        spent.append((time.perf_counter() - began) * 1000)
    return round(statistics.median(spent), 3)


def put_event(store: SqliteStore) -> None:
    with store.write() as tx:
        tx.put_event("salt/bench", {"n": 1}, NOW)


def put_job(store: SqliteStore, job: Job) -> Jid:
    with store.write() as tx:
        tx.put_job(job)
    return job.jid


def put_job_of(store: SqliteStore, jobs: Jobs, targets: int) -> Jid:
    return put_job(store, jobs.make(targets))


def put_returns(store: SqliteStore, jid: Jid, group: int) -> float:
    """Milliseconds a group, over one job of the whole fleet."""
    commits = [ReturnCommit(fingerprint_of(m), Return(jid, m, TargetState.RETURNED, 0, BODY, NOW, 12)) for m in IDS]
    groups = iter([commits[n : n + group] for n in range(0, FLEET, group)])

    def commit_one() -> None:
        with store.write() as tx:
            tx.put_returns(next(groups), NOW)

    return median_ms(commit_one, FLEET // group)


def of_resources(store: SqliteStore, jobs: Jobs) -> dict[str, object]:
    """Jobs for as many resources as there are minions, all managed by the first."""
    boss = IDS[0]
    srns = tuple(f"dummy:device-{n:05d}" for n in range(FLEET))
    made = [jobs.make(0, {boss: srns}) for _ in range(5)]
    put = iter(made)
    putting = median_ms(lambda: put_job(store, next(put)), len(made))
    jid = made[0].jid
    parts = [part for part, _minion in store.open_parts(jid)]
    reading = median_ms(lambda: store.open_jobs(boss, parts), 9)
    running = iter(parts)

    def move_one() -> None:
        with store.write() as tx:
            tx.set_parts([PartRow(next(running), boss, TargetState.RUNNING, "", NOW)])

    moving = median_ms(move_one, len(parts))
    returned = iter(range(0, FLEET, PART_RESOURCES))

    def return_one() -> None:
        of_part = srns[(first := next(returned)) : first + PART_RESOURCES]
        rets = [Return(jid, srn, TargetState.RETURNED, 0, BODY, NOW, 12) for srn in of_part]
        with store.write() as tx:
            tx.put_returns([ReturnCommit(fingerprint_of(boss), ret) for ret in rets], NOW)

    return {
        "put_job_ms": putting,
        "open_jobs_of_20_parts_ms": reading,
        "set_parts_of_500_ms": moving,
        "put_returns_of_500_ms": median_ms(return_one, len(parts)),
        "unsettled_with_40000_rows_ms": median_ms(lambda: store.unsettled(boss), 9),
    }


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        store = SqliteStore(f"{folder}/store.db")
        fill_keys(store)
        jobs = Jobs()
        expire_due_idle = median_ms(lambda: store.expire_due(NOW + 3600), 500)
        single = median_ms(lambda: put_event(store), 500)
        put = {n: median_ms(partial(put_job_of, store, jobs, n), 9) for n in (1, 1000, FLEET)}
        by_100 = put_returns(store, put_job(store, jobs.make(FLEET)), 100)
        wide = put_job(store, jobs.make(FLEET))
        by_1000 = put_returns(store, wide, 1000)
        unsettled = [jid for jid, _state in store.unsettled(IDS[FLEET // 2])]
        figures = {
            "single_commits_per_s": round(1000 / single),
            "returns_per_s_in_groups_of_100": round(100 * 1000 / by_100),
            "returns_per_s_in_groups_of_1000": round(1000 * 1000 / by_1000),
            "put_returns_1000_ms": by_1000,
            "put_job_ms_by_targets": put,
            "open_jobs_ms": median_ms(lambda: store.open_jobs(IDS[FLEET // 2], unsettled), 500),
            "unsettled_ms": median_ms(lambda: store.unsettled(IDS[FLEET // 2]), 500),
            "crowded_of_10000_ms": median_ms(lambda: store.crowded(IDS, 1000), 9),
            "expire_due_ms_with_nothing_queued": expire_due_idle,
            "expire_due_ms_with_99000_queued_and_none_to_expire": median_ms(lambda: store.expire_due(NOW + 3600), 9),
            "function_digests_of_10000_ms": median_ms(lambda: store.function_digests(IDS), 9),
            "minions_with_open_jobs_ms": median_ms(store.minions_with_open_jobs, 9),
            "accepted_ids_ms": median_ms(store.accepted_ids, 9),
            "targets_of_10000_ms": median_ms(lambda: store.targets(wide), 9),
            "for_10000_resources": of_resources(store, jobs),
            "machine": {
                "cpus": os.cpu_count(),
                "python": platform.python_version(),
                "sqlite": sqlite3.sqlite_version,
                "load": os.getloadavg()[0],
            },
        }
        store.close()
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
