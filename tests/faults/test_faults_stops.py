"""SIGSTOP: a process that hangs and comes back as if nothing had been. Nothing is concluded from its silence."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import pytest

from tests.faults.rig import LASTS_S, MINIONS, TEST_S, FaultFleet
from tests.support.fleet import title, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(TEST_S)]

REPEATS = 5

ON_MASTER = ("MWorker-0", "master link", "", "maintenance")
ON_MINION = ("minion link", "", "saltlite-job")


def pid_of(fleet: FaultFleet, daemon: str, child: str) -> int:
    """One process of that daemon; its first one for ""."""
    first = fleet.daemons[daemon].pid
    if child == "saltlite-job":
        return next(pid for pid in fleet.running_jobs(daemon).values() if title(pid) == child)
    return fleet.daemons[daemon].child(child) if child else first


@pytest.mark.parametrize("seed", range(REPEATS))
def test_the_guarantees_hold_when_processes_of_both_sides_stop_for_a_while(hurt: FaultFleet, seed: int) -> None:
    chance = random.Random(f"stop {seed}")
    # Over the seeds each process of both sides has its turn.
    minion = chance.choice(MINIONS)
    victims = [("master", ON_MASTER[seed % len(ON_MASTER)]), (minion, ON_MINION[seed % len(ON_MINION)])]
    asked = [hurt.ask(seconds=2.0), hurt.ask(seconds=LASTS_S + 1)]
    wait_until(lambda: len(hurt.running_jobs(minion)) == 2, f"both jobs run on {minion}")
    pids = [pid_of(hurt, *victim) for victim in victims]

    for pid, victim in zip(pids, victims, strict=True):
        hurt.note("fault", what="SIGSTOP", who=" ".join(victim))
        os.kill(pid, signal.SIGSTOP)
    try:
        asked += [hurt.ask(seconds=chance.uniform(0, 0.3)) for _ in range(2)]
        time.sleep(LASTS_S)  # the fault itself
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    hurt.settle(asked)
    hurt.verdict()


@pytest.mark.parametrize("child", ["minion link", ""])
def test_a_job_for_a_stopped_minion_waits_and_runs_once_when_it_goes_on(hurt: FaultFleet, child: str) -> None:
    pid = pid_of(hurt, "a", child)
    hurt.note("fault", what="SIGSTOP", who=f"a {child}")
    os.kill(pid, signal.SIGSTOP)
    try:
        asked = hurt.ask("a")
        wait_until(lambda: any(event.kind == "published" for event in hurt.fresh()), "the job is published")
        time.sleep(LASTS_S / 2)  # the fault itself
        assert not any(event.kind == "entered" for event in hurt.fresh())
    finally:
        os.kill(pid, signal.SIGCONT)

    hurt.settle([asked])
    assert hurt.states(asked.result()) == {"a": "returned"}
    assert sum(event.kind == "entered" for event in hurt.fresh()) == 1
    hurt.verdict()
