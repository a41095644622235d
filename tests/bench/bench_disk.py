"""Jobs a second where a sync of the disk takes 2 ms, as one JSON document: `python -m tests.bench.bench_disk [MS]`.

Not run by pytest. Master and minion run under strace, which delays the end of each fsync and fdatasync, in parallel for
all processes as a disk with a queue does. Other system calls are not stopped, so they cost what they always cost.
`syncs_a_job` counts those of master and minion together. On a machine with other work the rates mean little; with 20 ms
a sync, they are those of the disk alone.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import sys

from saltlite.client.local import LocalClient
from tests.bench.bench_fleet import CLIENTS, JOBS_RUNS, JOBS_S, _jobs_for
from tests.bench.fleet import BenchFleet
from tests.bench.measure import Figure, Others, machine, rounded

SYNC_MS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
SYNCS = "fsync,fdatasync"
FIRST = "prctl"
"""What each process and thread of ours calls when it begins. strace stops a process at every system call until the
first one of those that it traces, and most processes never sync."""
_SYNC = re.compile(rf"\b({SYNCS.replace(',', '|')})\(")

FIGURES = {
    "jobs_sequential": Figure("jobs/s", 90, "-", at_least=True),
    "jobs_8_clients": Figure("jobs/s", 250, "-", at_least=True),
}


class SlowDisk(BenchFleet):
    """A fleet whose syncs take SYNC_MS longer."""

    def _launch(self, program: list[str], name: str, config: str = "") -> None:
        strace = ["strace", "-D", "-f", "-q", "--seccomp-bpf", "-o", str(self.folder / name / "syncs")]
        injected = ["-e", f"trace={SYNCS},{FIRST}", "-e", f"inject={SYNCS}:delay_exit={SYNC_MS * 1000}"]
        super()._launch([*strace, *injected, *program], name, config)

    def syncs(self) -> int:
        """How many there were so far, in all daemons."""
        return sum(len(_SYNC.findall((self.folder / name / "syncs").read_text())) for name in self.daemons)


def main() -> None:
    """Measure and print."""
    others = Others()
    one, eight, syncs = [], [], {}
    with SlowDisk() as fleet:
        fleet.start_master()
        fleet.join(["m"])
        with LocalClient(fleet.socket_path) as client:
            client.cmd("m", "test.ping")
        with multiprocessing.get_context("spawn").Pool(CLIENTS) as pool:
            pool.starmap(_jobs_for, [(fleet.socket_path, 0.5)] * CLIENTS)
            for _ in range(JOBS_RUNS):
                before = fleet.syncs()
                count, seconds = _jobs_for(fleet.socket_path, JOBS_S)
                between = fleet.syncs()
                done = pool.starmap(_jobs_for, [(fleet.socket_path, JOBS_S)] * CLIENTS)
                one.append(count / seconds)
                eight.append(sum(jobs / taken_s for jobs, taken_s in done))
                syncs = {
                    "1_client": rounded((between - before) / count),
                    f"{CLIENTS}_clients": rounded((fleet.syncs() - between) / sum(jobs for jobs, _ in done)),
                }
    report = {
        "machine": machine(),
        "sync_ms": SYNC_MS,
        "others_percent": others.share_percent(),
        "jobs_sequential": FIGURES["jobs_sequential"].report(one),
        "jobs_8_clients": FIGURES["jobs_8_clients"].report(eight),
        "syncs_a_job": syncs,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
