"""The move of a master with real minions to another host, by the page: `python -m tests.bench.bench_move [MINIONS]`.

Not run by pytest. Both hosts are folders of this one. While the master moves, a job runs on all minions but one, ends
there while no master is, and one job waits for the minion that is away. The JSON document has seconds and counts.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.bench.measure import machine, rounded
from tests.support.fleet import Fleet, wait_until, write_config

MINIONS = 200
JOIN_AT_ONCE = 6
"""Minions that start at the same time."""
JOIN_S = 300.0
BACK_S = 600.0
JOB_S = 300.0
AWAY = "m1"
"""The minion that is stopped before the move and starts again after it."""


def start(fleet: Fleet, minions: int) -> list[str]:
    """Start the master and the minions; their ids."""
    fleet.start_master("old")
    token = fleet.token("--uses", str(minions), master="old")
    names = [f"m{number}" for number in range(1, minions + 1)]
    for first in range(0, minions, JOIN_AT_ONCE):
        some = names[first : first + JOIN_AT_ONCE]
        for name in some:
            fleet.start_minion(name, join_token=token, master=fleet.address("old"), log_level="warning")
        wait_until(lambda some=some: fleet.up("old") >= set(some), f"{some} are up", JOIN_S)  # type: ignore[misc]  # waits here
        fleet._remember_module_index()
    return names


def published(fleet: Fleet, target: str, *call: str) -> str:
    """The jid of a job that the old master has stored."""
    said = fleet.cli(target, *call, "--async", master="old")
    if said.code:
        raise RuntimeError(said.err)
    return said.out.split()[-1]


def states(fleet: Fleet, jid: str) -> Counter[str]:
    """How many targets of the job are in which state, by the new master."""
    job = fleet.cli("job", "show", jid, "--out", "json", master="new").json()
    return Counter(row["state"] for row in job["targets"])


def measure(folder: Path, minions: int) -> dict[str, object]:
    """Move the master of that many minions; what the document has."""
    fleet = Fleet(folder)
    try:
        names = start(fleet, minions)
        ended = published(fleet, "*", "test.ping")
        wait_until(
            lambda: not fleet.cli("job", "list", "--state", "open", "--out", "json", master="old").json()["jobs"],
            "the ping ends",
            JOB_S,
        )
        fleet.daemons.pop(AWAY).stop()
        wait_until(lambda: AWAY not in fleet.up("old"), f"{AWAY} is away")
        waits = published(fleet, AWAY, "test.ping")
        runs = published(
            fleet, f"* and not {AWAY}", "cmd.run", f"while [ ! -e '{folder}/go' ]; do sleep 10; done; echo done", "-C"
        )
        wait_until(lambda: running(fleet, runs) == minions - 1, "the job runs on all", JOB_S)

        began = time.perf_counter()
        fleet.daemons.pop("old").stop()
        backup = fleet.cli("backup", str(folder / "master.backup"), master="old")
        (folder / "go").touch()
        # The name in `master:` leads to the new host now: here that is the same port.
        fleet._ports["new"] = fleet._ports["old"]
        lines = (folder / "old/master").read_text().splitlines()
        options = {name: json.loads(value) for name, _, value in (line.partition(": ") for line in lines)}
        write_config(folder / "new", "master", options | {"root_dir": str(folder / "new/root")})
        restore = fleet.cli("restore", str(folder / "master.backup"), "--keep-options", master="new")
        fleet.restart_master("new")
        served = time.perf_counter() - began
        fleet.restart_minion(AWAY)
        wait_until(lambda: fleet.up_now("new") >= set(names), "all are back", BACK_S)
        back = time.perf_counter() - began
        jobs = (ended, runs, waits)
        wait_until(lambda: all(set(states(fleet, jid)) == {"returned"} for jid in jobs), "all jobs have ended", JOB_S)
        ping = fleet.cli("*", "test.ping", "--out", "json", master="new")
        answered = sum(answer is True for answer in ping.json().values())
        found = {
            name: dict(states(fleet, jid)) for name, jid in zip(("ended", "running", "waiting"), jobs, strict=True)
        }
    finally:
        fleet.close()
    return {
        "minions": minions,
        "backup": backup.out.strip().partition(": ")[2],
        "codes": [backup.code, restore.code],
        "until_the_new_master_serves_s": rounded(served),
        "until_all_are_back_s": rounded(back),
        "jobs": found,
        "answered": answered,
    }


def running(fleet: Fleet, jid: str) -> int:
    """On how many minions the job runs, by the old master."""
    job = fleet.cli("job", "show", jid, "--out", "json", master="old").json()
    return sum(row["state"] == "running" for row in job["targets"])


def main(words: list[str]) -> int:
    """Print the document; the exit code is 1 unless every minion answers the new master and no result is missing."""
    minions = int(words[0]) if words else MINIONS
    with tempfile.TemporaryDirectory(prefix="saltlite-bench-") as folder:
        found = measure(Path(folder), minions)
    print(json.dumps({"machine": machine(), **found}, indent=2))
    ended = {"ended": {"returned": minions}, "running": {"returned": minions - 1}, "waiting": {"returned": 1}}
    return 0 if found["answered"] == minions and found["jobs"] == ended else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
