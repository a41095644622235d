"""Resources through the whole product, as one JSON document: `python tests/bench/bench_resources.py [CASE …]`.

Not run by pytest. Every case starts a master with four MWorkers and one minion, real daemons on loopback, without
root's help; the resources are of the type `dummy`, without latency unless it says so. `salt` is what Salt 3008.3
needed for the same work on a machine like the reference one (2 cores). `others_percent` is the share of the machine
that went to other work meanwhile: above some 15 % distrust the times.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from saltlite.client.follower import Progress, WaitPolicy  # noqa: E402 - as above
from saltlite.client.local import JobCall  # noqa: E402 - the path above is needed for it
from tests.bench.fleet import BenchFleet, wait_until  # noqa: E402 - as above
from tests.bench.measure import Figure, Others, cpu_s, machine, pss_mib, rounded, timed, title  # noqa: E402 - as above

RUNS = 5
SIZES = (100, 1_000, 10_000)
HANGING = "d50"
GOOD = 99

FIGURES = {
    "registered_1000": Figure("s", 0.5, "5.3"),
    "registered_10000": Figure("s", 4.0, "66"),
    "ping_100": Figure("s", 0.3, "26, with 0 to 19 answers"),
    "ping_1000": Figure("s", 1.5, "-"),
    "ping_10000": Figure("s", 12.0, "-"),
    "p95_of_99_delayed_by_one_that_hangs": Figure("s", 0.06, "-"),
    "grain_of_one_in_10000": Figure("s", 0.2, "0.77 for the match alone"),
    "compound_of_9_in_10000": Figure("s", 0.2, "1.6 for the match alone"),
}

Report = dict[str, Any]


def figure(name: str, samples: Sequence[float]) -> Report:
    """One figure for the document."""
    return {name: FIGURES[name].report(samples)}


class Site:
    """One master, the minion `m`, and as many dummies as `declare` was told last."""

    def __init__(self, fleet: BenchFleet) -> None:
        self.fleet = fleet
        self._pillar = fleet.folder / "master/root/srv/pillar"
        self._pillar.mkdir(parents=True)
        (self._pillar / "top.sls").write_text("base: {m: [m]}\n")
        self.declare(count=1)
        fleet.start_master(worker_threads=4)
        fleet.join(["m"])
        wait_until(lambda: self.registered() == 1, "the first dummy is registered")

    def declare(self, **dummy: Any) -> None:
        """What the pillar of `m` says of its dummies; their ids are d1, d2, ..."""
        resources = {"resources": {"dummy": {"prefix": "d", **dummy}}}
        (self._pillar / "m.sls").write_text(json.dumps(resources))

    def registered(self) -> int:
        """How many dummies the master knows."""
        with self.fleet.client() as client:
            found: int = client.call("resource_stats")["types"].get("dummy", 0)
            return found

    def change(self, count: int, **dummy: Any) -> float:
        """Declare so many; seconds from telling the minion until the master selects all, and has their grains."""
        self.declare(count=count, **dummy)
        began = time.perf_counter()
        with self.fleet.client() as client:
            answer = client.cmd("m", "saltutil.refresh_pillar", timeout=60)
            if answer != {"m": True}:
                raise RuntimeError(f"the minion answered {answer}")
            wait_until(lambda: _visible(client.call("match", **_target("T@dummy"))) == count, f"{count} registered")
            found = client.call("match", **_target("G@dummy_grain_1:one"))
        taken_s = time.perf_counter() - began
        if _visible(found) != count:
            raise RuntimeError(f"{_visible(found)} of {count} have their grains")
        return taken_s

    def cpu(self) -> dict[str, float]:
        """CPU seconds so far, by process."""
        found: dict[str, float] = {}
        for name in self.fleet.daemons:
            for pid in self.fleet.pids(name):
                kind = "MWorkers" if title(pid).startswith("MWorker") else f"{name} {title(pid)}"
                found[kind] = found.get(kind, 0.0) + cpu_s([pid])
        return found


def registration(site: Site) -> Report:
    """From the change of the pillar to all of them visible, from none each time."""
    report: Report = {}
    for size in SIZES[1:]:
        samples = []
        for _ in range(RUNS):
            site.change(0)
            samples.append(site.change(size))
        report |= figure(f"registered_{size}", samples)
        again = [site.change(size) for _ in range(RUNS)]
        report[f"registered_{size}_again_s"] = rounded(sorted(again)[RUNS // 2])
    return report


def ping(site: Site) -> Report:
    """`saltlite -C T@dummy test.ping`, with every answer."""
    report: Report = {}
    command = site.fleet.command("-C", "T@dummy", "test.ping", "--out", "json")
    for size in SIZES:
        site.change(size)
        _all_true(command, size)
        before = site.cpu()
        runs = [_all_true(command, size) for _ in range(RUNS)]
        after = site.cpu()
        used = {name: rounded((after[name] - before.get(name, 0.0)) / RUNS) for name in after}
        report |= figure(f"ping_{size}", [wall_s for wall_s, _ in runs])
        report[f"ping_{size}_cpu_s"] = used | {"cli": rounded(sum(cpu for _, cpu in runs) / RUNS)}
    report["minion_processes_mib"] = {name: rounded(size) for name, size in pss_mib(site.fleet.pids("m")).items()}
    report["master_processes_mib"] = {name: rounded(size) for name, size in pss_mib(site.fleet.pids("master")).items()}
    return report


def hanging(site: Site) -> Report:
    """99 dummies of 50 ms, with and without one among them that never answers: when a client has their answers.

    That one has one of 32 places to itself, so the others may need one round of 50 ms more.
    """
    p95s: dict[bool, list[float]] = {}
    lasts: dict[bool, list[float]] = {}
    for hangs in (False, True):
        site.change(GOOD + hangs, latency=0.05, hang=[HANGING] if hangs else [])
        runs = [sorted(_arrivals(site)) for _ in range(RUNS)]
        p95s[hangs] = [run[int(GOOD * 0.95)] for run in runs]
        lasts[hangs] = [rounded(run[-1]) for run in runs]
    alone_s = sorted(p95s[False])[RUNS // 2]
    return {
        **figure("p95_of_99_delayed_by_one_that_hangs", [with_it_s - alone_s for with_it_s in p95s[True]]),
        "p95_of_99_alone_s": rounded(alone_s),
        "last_of_99_alone_s": lasts[False],
        "last_of_99_beside_it_s": lasts[True],
    }


def targets(site: Site) -> Report:
    """Few of many, by grain and by a compound target, through the command."""
    site.change(SIZES[-1])
    by_grain = site.fleet.command("-G", "resource_id:d77", "test.ping", "--out", "json")
    compound = "T@dummy:d777* and G@dummy_grain_2:two and not ( L@d7777,d7770 or M@web* )"
    by_compound = site.fleet.command("-C", compound, "test.ping", "--out", "json")
    report: Report = {}
    for name, command, count in (("grain_of_one", by_grain, 1), ("compound_of_9", by_compound, 9)):
        _all_true(command, count)
        report |= figure(f"{name}_in_10000", [_all_true(command, count)[0] for _ in range(RUNS * 2)])
    return report


CASES: dict[str, Callable[[Site], Report]] = {case.__name__: case for case in (registration, ping, hanging, targets)}


def _target(expression: str) -> dict[str, str]:
    return {"tgt": expression, "tgt_type": "compound"}


def _visible(answer: dict[str, Any]) -> int:
    return sum(map(len, answer["resources"].values()))


def _all_true(command: Sequence[str], count: int) -> tuple[float, float]:
    """(wall seconds, the client's CPU seconds) of a command that so many have answered with True."""
    run = timed(command)
    answers = json.loads(run.out) if run.code == 0 else {}
    if len(answers) != count or not all(answer is True for answer in answers.values()):
        raise RuntimeError(f"{len(answers)} of {count} answered, exit {run.code}: {run.out[-500:]}")
    return run.wall_s, run.cpu_s


def _arrivals(site: Site) -> list[float]:
    """Seconds from the publish until a client was shown each of the good ones; one that hangs is left behind."""
    found: list[float] = []
    with site.fleet.client() as client:
        began = time.perf_counter()
        job = client.publish(JobCall("T@dummy", "test.ping", tgt_type="compound"), follow=True)
        progress = Progress(job, now=time.monotonic())
        for reply in client.watch(progress, WaitPolicy(10, away_s=10)):
            if reply.value is True:
                found.append(time.perf_counter() - began)
            if len(found) == GOOD:
                break
    if len(found) != GOOD:
        raise RuntimeError(f"{len(found)} of {GOOD} answered")
    return found


def main(names: list[str]) -> int:
    """Run these cases, or all; the exit code."""
    if unknown := set(names) - set(CASES):
        print(f"there is no case {', '.join(sorted(unknown))}: there are {', '.join(CASES)}", file=sys.stderr)
        return 2
    # Programs that were installed have their bytecode; a checkout gets it from the warm-up runs.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    document: dict[str, Any] = {"machine": machine(), "cases": {}}
    for name in names or CASES:
        others = Others()
        with BenchFleet() as fleet:
            report = CASES[name](Site(fleet))
            document["cases"][name] = {"others_percent": others.share_percent(), **report}
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
