"""kill -9 at each named point, of the process or of the whole daemon: no guarantee breaks."""

from __future__ import annotations

import random

import pytest

from tests.faults.points import MASTER, POINTS
from tests.faults.rig import LONG, MINIONS, FaultFleet
from tests.support.fleet import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

REPEATS = 3 if LONG else 2
"""For each of the 36 points; every run draws its own victim and count of calls."""
JOBS = 3


@pytest.mark.parametrize("seed", range(REPEATS))
@pytest.mark.parametrize("point", POINTS)
def test_the_guarantees_hold_when_it_is_killed(hurt: FaultFleet, point: str, seed: int) -> None:
    chance = random.Random(f"{point} {seed}")
    daemon = "master" if POINTS[point].daemon == MASTER else chance.choice(MINIONS)
    victim = "group" if chance.random() < 0.3 else "process"
    hurt.arm(daemon, point, victim=victim, count=chance.choice((1, 1, 2, 3)))

    asked = [hurt.ask(seconds=chance.uniform(0, 0.2)) for _ in range(JOBS)]

    def somebody_died() -> bool:
        if hurt.armed(daemon, point) and all(future.done() for future in asked):
            asked.append(hurt.ask(seconds=chance.uniform(0, 0.2)))
        return not hurt.armed(daemon, point)

    wait_until(somebody_died, f"{daemon} is killed {point}")
    hurt.settle(asked)
    hurt.verdict()
