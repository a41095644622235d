"""A master of three is drained under load: how long any minion has no session, and by how much a job is delayed.

`python -m tests.bench.bench_drain [MINIONS]` prints one JSON document, and ends with 1 if a limit was not met; not run
by pytest. Minions, masters and database are those of `tests.bench.bench_masters`. A client of the drained master and
one of another master run `test.ping` on all minions, one after the other, from before the drain until after every
minion has moved.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from typing import Any

from tests.bench.bench_masters import MASTERS, Site, running_site
from tests.bench.measure import Others, machine, rounded

MINIONS = 1_000
DRAINED = "two"
GAP_MAX_S = 1.0
DELAY_MAX_S = 2.0
JOBS_BEFORE = 5
"""Jobs of each client before the drain: what they take is what the others are compared with."""
WAIT_S = "60"


class Load:
    """A client that runs one job after the other on all minions."""

    def __init__(self, site: Site, master: str) -> None:
        self.took: list[tuple[float, float]] = []
        """When each job began, and how long it took, in monotonic seconds."""
        self.failed: list[str] = []
        self._site = site
        self._master = master
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.is_set():
            began = time.monotonic()
            said = self._site.fleet.cli("-t", WAIT_S, "*", "test.ping", "--out", "json", master=self._master)
            if said.code or len(said.json()) != self._site.minions:
                self.failed.append(said.err[-500:])
            self.took.append((began, time.monotonic() - began))

    def end(self) -> None:
        """Wait for its last job."""
        self._ends.set()
        self._thread.join()


def measure(site: Site) -> dict[str, Any]:
    """Drain one master under the load of two clients."""
    site.start_crowds()
    site.until(lambda: site.all_back() and site.stored(), "all minions are there")
    clients = [Load(site, master) for master in (MASTERS[0], DRAINED)]
    try:
        site.until(lambda: all(len(client.took) >= JOBS_BEFORE for client in clients), "jobs ran before")
        moved = site.counts()[DRAINED]
        gap_before_s = site.longest_gap_s()
        drained_at = time.monotonic()
        assert site.fleet.cli("master", "drain", DRAINED, master=MASTERS[0]).code == 0
        site.until(lambda: not site.counts()[DRAINED], "all minions have moved")
        moved_at = time.monotonic()
        after = [len(client.took) for client in clients]
        site.until(lambda: all(len(one.took) > n + 1 for one, n in zip(clients, after, strict=True)), "jobs ran after")
    finally:
        for client in clients:
            client.end()
    before = [took for client in clients for began, took in client.took if began + took < drained_at]
    during = [took for client in clients for began, took in client.took if began + took >= drained_at]
    delay_s = max(during) - statistics.median(before)
    failed = [sentence for client in clients for sentence in client.failed]
    gap_s = site.longest_gap_s()
    return {
        "moved": moved,
        "moved_s": rounded(moved_at - drained_at),
        "longest_gap_s": {"before": rounded(gap_before_s), "after": rounded(gap_s)},
        "job_before_s": {"median": rounded(statistics.median(before)), "max": rounded(max(before)), "n": len(before)},
        "job_since_s": {"median": rounded(statistics.median(during)), "max": rounded(max(during)), "n": len(during)},
        "longest_delay_s": rounded(delay_s),
        "failed": failed,
        "met": gap_s <= GAP_MAX_S and delay_s <= DELAY_MAX_S and not failed,
    }


def main(minions: int) -> int:
    """Measure; the exit code is 1 when a limit was not met."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    limits = {"longest_gap_s": GAP_MAX_S, "longest_delay_s": DELAY_MAX_S}
    document: dict[str, Any] = {"machine": machine(), "minions": minions, "limits": limits}
    others = Others()
    with running_site(minions) as site:
        document.update(measure(site))
    document["others_percent"] = others.share_percent()
    print(json.dumps(document, indent=2))
    return 0 if document["met"] else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else MINIONS))
