"""kill -9 of each process at instants that nobody chose, in the middle of jobs: no guarantee breaks."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

import pytest

from tests.faults.rig import MINIONS, REPEATS, FaultFleet
from tests.support.fleet import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

JOBS = 4
LONGEST_JOB_S = 0.6
WITHIN_S = 0.5
"""The kill comes so long after the first client has asked, at most."""

VICTIMS: dict[str, Callable[[FaultFleet, random.Random], None]] = {
    "an MWorker": lambda fleet, chance: fleet.signal("master", f"MWorker-{chance.randrange(2)}", signal.SIGKILL),
    "the link": lambda fleet, _: fleet.signal("master", "master link", signal.SIGKILL),
    "maintenance": lambda fleet, _: fleet.signal("master", "maintenance", signal.SIGKILL),
    "the supervisor": lambda fleet, _: fleet.signal("master", "", signal.SIGKILL),
    "the whole master": lambda fleet, _: fleet.kill_group("master"),
    "a minion's network process": lambda fleet, chance: fleet.signal(
        chance.choice(MINIONS), "minion link", signal.SIGKILL
    ),
    "a job server": lambda fleet, chance: fleet.signal(chance.choice(MINIONS), "", signal.SIGKILL),
    "a whole minion": lambda fleet, chance: fleet.kill_group(chance.choice(MINIONS)),
    "a job's process": lambda fleet, chance: fleet.kill_job(chance.choice(MINIONS)),
    "everything": lambda fleet, _: fleet.kill_group("master", *MINIONS),
}


@pytest.mark.parametrize("seed", range(REPEATS))
@pytest.mark.parametrize("victim", VICTIMS)
def test_the_guarantees_hold_when_it_is_killed_at_any_instant(hurt: FaultFleet, victim: str, seed: int) -> None:
    chance = random.Random(f"{victim} {seed}")
    asked = [hurt.ask(seconds=chance.uniform(0, LONGEST_JOB_S)) for _ in range(JOBS)]
    time.sleep(chance.uniform(0, WITHIN_S))  # the fault: its instant is chance

    VICTIMS[victim](hurt, chance)

    hurt.settle(asked)
    hurt.verdict()


@pytest.mark.parametrize("seed", range(REPEATS))
def test_a_publish_that_is_repeated_while_the_master_dies_runs_once(hurt: FaultFleet, seed: int) -> None:
    chance = random.Random(f"publish {seed}")
    asked = []
    for _ in range(3):
        asked += [hurt.ask(follow=False) for _ in range(4)]
        time.sleep(chance.uniform(0, 0.05))  # the fault: its instant is chance
        hurt.kill_group("master")
        hurt.ready()

    hurt.settle(asked)

    hurt.verdict()
    jids = [future.result() for future in asked]
    assert len(set(jids)) == len(asked)
    assert {state for jid in jids for state in hurt.states(jid).values()} == {"returned"}


@pytest.mark.parametrize("seed", range(REPEATS))
def test_a_storm_of_kills_breaks_no_guarantee(hurt: FaultFleet, seed: int) -> None:
    chance = random.Random(f"storm {seed}")
    asked = []
    for _ in range(8):
        asked += [hurt.ask(seconds=chance.uniform(0, LONGEST_JOB_S)) for _ in range(2)]
        time.sleep(chance.uniform(0, 0.3))  # the fault: its instant is chance
        VICTIMS[chance.choice(list(VICTIMS))](hurt, chance)
        hurt.revive()

    hurt.settle(asked)

    hurt.verdict()


def test_a_result_that_was_on_disk_when_everything_died_is_shown_once(hurt: FaultFleet) -> None:
    asked = hurt.ask("a", 0.2, size=300_000)
    wait_until(lambda: any(event.kind == "spooled" for event in hurt.fresh()), "the result is on disk")

    hurt.kill_group("a", "master")

    hurt.settle([asked])
    hurt.verdict()
    assert hurt.states(asked.result()) == {"a": "returned"}
