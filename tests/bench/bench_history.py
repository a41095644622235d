"""How fast a long history is listed; prints JSON. By hand: `python tests/bench/bench_history.py [jobs] [targets]`."""

from __future__ import annotations

import json
import os
import sys
import tempfile

from saltlite.master.store.ports import ReturnCommit
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.ids import MinionId
from saltlite.model.job import JobFilter, Return, TargetOutcome, TargetState
from saltlite.model.keys import KeyRecord, KeyState
from tests.bench.bench_store import BODY, IDS, NOW, Jobs, fingerprint_of, median_ms

LIMIT = 50


def fill(store: SqliteStore, jobs: int, targets: int) -> None:
    """So many jobs, all of them returned; on one of a thousand something failed."""
    made = Jobs()
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


def main() -> None:
    """Measure and print."""
    jobs, targets = (int(text) for text in (*sys.argv[1:], *("10000", "100")[len(sys.argv) - 1 :]))
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(f"{folder}/store.db")
        fill(store, jobs, targets)
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
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
