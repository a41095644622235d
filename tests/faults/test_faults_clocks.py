"""A wall clock that jumps by a day, on either side, in the middle of jobs."""

from __future__ import annotations

import random
import time

import pytest

from tests.faults.rig import MINIONS, REPEATS, FaultFleet
from tests.support.fleet import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

DAY_S = 86_400.0


@pytest.mark.parametrize("seed", range(REPEATS))
@pytest.mark.parametrize("days", [1, -1])
@pytest.mark.parametrize("machine", ["master", "a"])
def test_the_guarantees_hold_when_a_clock_jumps(hurt: FaultFleet, machine: str, days: int, seed: int) -> None:
    chance = random.Random(f"clock {machine} {days} {seed}")
    asked = [hurt.ask(seconds=chance.uniform(0, 0.6)) for _ in range(3)]
    time.sleep(chance.uniform(0, 0.3))  # the fault: its instant is chance
    hurt.set_clock(machine, days * DAY_S)
    try:
        asked += [hurt.ask(seconds=chance.uniform(0, 0.2)) for _ in range(2)]
        if chance.random() < 0.5:
            hurt.kill_group(chance.choice(("master", *MINIONS)))
        wait_until(lambda: revived(hurt) and all(future.done() for future in asked), "all is answered with that clock")
    finally:
        hurt.set_clock(machine, 0)

    asked += [hurt.ask() for _ in range(2)]
    hurt.settle(asked)
    hurt.verdict()


@pytest.mark.parametrize("days", [1, -1])
def test_a_job_that_waits_for_a_minion_when_the_clock_jumps_ends_once(hurt: FaultFleet, days: int) -> None:
    hurt.kill_group("a")
    wait_until(lambda: "a" not in hurt.up(), "a is away")
    asked = hurt.ask("a", follow=False)
    asked.result()
    hurt.set_clock("master", days * DAY_S)
    try:
        hurt.settle([asked])
    finally:
        hurt.set_clock("master", 0)

    hurt.verdict()


def revived(fleet: FaultFleet) -> bool:
    """Start again what died; always true."""
    fleet.revive()
    return True
