"""What hostile users, a hostile minion and thousands of strangers do to the others, as one JSON document:
`python -m tests.bench.bench_hostile [ROUNDS]`, as root.

Not run by pytest. The master and twenty minions are the real daemons; so is `saltlite 'min-*' test.ping`, which is
measured (`*` would wait for the hostile minion). Four local users with a right to one function on one minion, one
accepted minion and 3,000 connections from addresses of 127/8 (`tests/bench/hostile.py`) do what they can, in processes
of their own. They share the machine with the fleet, which no real attacker would; so half of the rounds give them a
lower priority. Rounds go by turns: quiet, attacked at low priority, quiet, attacked at the same priority.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from saltlite.model.keys import fingerprint
from saltlite.wire.noise import public_of
from tests.bench.fleet import BenchFleet
from tests.bench.hostile import ALLOWED, KINDS
from tests.bench.measure import Figure, Others, alone_mib, machine, pss_mib, rounded, timed

MINIONS = 20
ROUNDS = 4
PINGS = 6
"""In each part of a round."""
STRANGERS = 3000
USERS = ("daemon", "bin", "games", "nobody")
LOW = 10
"""The niceness of hostile processes in half of the rounds."""
WARM_S = 12.0
"""Until all strangers are connected, and queues are as long as they get."""
CALM_S = 4.0
TIMEOUT_S = 60

FIGURES = {
    "attacked_low_by_quiet": Figure("x", 3.0, "-"),
    "attacked_same_by_quiet": Figure("x", 3.0, "-"),
    "memory_by_quiet": Figure("x", 1.5, "-"),
}


class Attack:
    """The hostile processes, as long as the block runs."""

    def __init__(self, fleet: BenchFleet, nice: int) -> None:
        self._fleet = fleet
        self._nice = nice
        self._running: dict[str, subprocess.Popen[str]] = {}
        self.did: dict[str, Any] = {}

    def __enter__(self) -> Attack:
        address, fleet_id = f"127.0.0.1:{self._fleet.port}", self._fleet_id()
        for name, kind in zip(USERS, KINDS, strict=True):
            self._start(f"user {kind}", "user", self._fleet.socket_path, str(pwd.getpwnam(name).pw_uid), kind)
        self._start("minion", "minion", address, fleet_id, SEED.hex())
        self._start("strangers", "strangers", address, str(STRANGERS))
        return self

    def __exit__(self, *_exc: object) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for name, process in self._running.items():
            try:
                out, err = process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                out, err = process.communicate()
            self.did[name] = json.loads(out) if out.strip() else {"died": err[-300:]}

    def _start(self, name: str, *words: str) -> None:
        self._running[name] = subprocess.Popen(
            ["nice", "-n", str(self._nice), sys.executable, "-m", "tests.bench.hostile", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _fleet_id(self) -> str:
        with self._fleet.client() as client:
            return str(client.call("key_finger")["fleet"])


SEED = bytes(range(32))
"""The private key of the hostile minion."""


@contextmanager
def fleet_of_minions() -> Iterator[BenchFleet]:
    """The master with its minions, and the key of the hostile one accepted beforehand."""
    with BenchFleet() as fleet:
        fleet.folder.chmod(0o755)
        fleet.start_master(publisher_acl={name: [{ALLOWED: ["test.ping"]}] for name in USERS})
        names = [f"min-{number:02d}" for number in range(MINIONS)]
        for first in range(0, MINIONS, 4):
            fleet.join(names[first : first + 4])
        with fleet.client() as client:
            client.call("key_preaccept", id="traitor", fingerprint=fingerprint(public_of(SEED)))
        yield fleet


def ping(fleet: BenchFleet) -> tuple[float, bool]:
    """Seconds of one `saltlite 'min-*' test.ping`, and whether all minions answered."""
    run = timed(fleet.command("min-*", "test.ping", "--out", "json", "-t", str(TIMEOUT_S)), timeout_s=2 * TIMEOUT_S)
    with contextlib.suppress(ValueError):
        return run.wall_s, run.code == 0 and list(json.loads(run.out).values()) == [True] * MINIONS
    return run.wall_s, False


def part(fleet: BenchFleet) -> tuple[list[tuple[float, bool]], float]:
    """The pings of one part of a round, and the most memory that the master had meanwhile."""
    pings, most = [], 0.0
    for _ in range(PINGS):
        pings.append(ping(fleet))
        most = max(most, sum(pss_mib(fleet.pids("master")).values()))
    return pings, most


def measured(fleet: BenchFleet, rounds: int) -> dict[str, Any]:
    """Everything, on a fleet that is up."""
    pings: dict[str, list[tuple[float, bool]]] = {"quiet": [], "low": [], "same": []}
    memory: dict[str, list[float]] = {"quiet": [], "low": [], "same": []}
    alone: dict[str, list[float]] = {"quiet": [], "low": [], "same": []}
    did = []

    def note(name: str) -> None:
        taken, most = part(fleet)
        pings[name] += taken
        memory[name].append(most)
        alone[name].append(rounded(alone_mib(fleet.pids("master"))))
        told = " ".join(f"{seconds:.2f}{'' if whole else '!'}" for seconds, whole in taken)
        print(f"{name}: {told} s, {most:.0f} MiB", file=sys.stderr, flush=True)

    for _ in range(rounds):
        for name, nice in (("low", LOW), ("same", 0)):
            note("quiet")
            with Attack(fleet, nice) as attack:
                time.sleep(WARM_S)
                note(name)
            did.append({"niceness": nice, **attack.did})
            time.sleep(CALM_S)
    quiet = statistics.median(seconds for seconds, _whole in pings["quiet"])
    first = memory["quiet"][0]
    ratios = {name: [seconds / quiet for seconds, _whole in pings[name]] for name in ("low", "same")}
    return {
        "attacked_low_by_quiet": FIGURES["attacked_low_by_quiet"].report(ratios["low"]),
        "attacked_same_by_quiet": FIGURES["attacked_same_by_quiet"].report(ratios["same"]),
        "memory_by_quiet": FIGURES["memory_by_quiet"].report(
            [most / first for name in ("low", "same") for most in memory[name]]
        ),
        "pings_s": {name: spread(taken) for name, taken in pings.items()},
        "master_alone_mib": alone,
        "master_pss_mib": {name: [rounded(most) for most in sizes] for name, sizes in memory.items()},
        "attackers": did,
    }


def spread(taken: list[tuple[float, bool]]) -> dict[str, Any]:
    """Median and 95th percentile, and how many were answered by every minion."""
    seconds = sorted(wall_s for wall_s, _whole in taken)
    return {
        "n": len(taken),
        "whole": sum(whole for _wall_s, whole in taken),
        "median": rounded(statistics.median(seconds)),
        "p95": rounded(seconds[min(len(seconds) - 1, int(len(seconds) * 0.95))]),
        "max": rounded(seconds[-1]),
    }


def main(words: list[str]) -> int:
    """Print the document; the exit code."""
    if os.geteuid() != 0:
        print("run it as root: its hostile users are other users of this machine", file=sys.stderr)
        return 2
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    signal.signal(signal.SIGTERM, lambda *_args: sys.exit(1))  # what was started is ended
    others = Others()
    with fleet_of_minions() as fleet:
        report = measured(fleet, int(words[0]) if words else ROUNDS)
        document = {"machine": machine(), "minions": MINIONS, "others_percent": others.share_percent(), **report}
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
