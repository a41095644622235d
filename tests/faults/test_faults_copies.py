"""Two machines with one identity, as when the image of a virtual machine was copied with its minion in it."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator

import pytest

from tests.faults.rig import REPEATS, FaultFleet
from tests.support.fleet import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

SENT_AWAY = "another machine uses this minion's key"


def copy_minion(fleet: FaultFleet, name: str, copy: str) -> None:
    """Copy a stopped minion with its key, its journal and its id to another folder; the copy can be started."""
    shutil.copytree(fleet.root(name), fleet.root(copy), ignore=shutil.ignore_patterns("*.ipc"))
    config = (fleet.folder / name / "minion").read_text()
    (fleet.folder / copy / "minion").write_text(config.replace(str(fleet.root(name)), str(fleet.root(copy))))
    (fleet.folder / copy / "minion").chmod(0o600)


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultFleet]:
    """A master and the minions `a` and `b`; nobody else uses it."""
    fleet = FaultFleet(tmp_path_factory.mktemp("copied"))
    try:
        fleet.start("a", "b")
        yield fleet
    finally:
        fleet.close()


@pytest.mark.parametrize("seed", range(REPEATS))
def test_a_job_runs_once_though_a_copy_of_its_minion_comes_meanwhile(alone: FaultFleet, seed: int) -> None:
    alone.daemons["a"].stop()
    copy_minion(alone, "a", "copy")
    alone.restart_minion("a")
    alone.ready()
    chance = random.Random(f"copy {seed}")
    alone.note("fault", what="copied", who="a")
    alone.restart_minion("copy")
    asked = []
    for _ in range(6):
        time.sleep(chance.uniform(0, 0.2))  # the fault: where the copy has got by then is chance
        asked.append(alone.ask("a", seconds=1.0))

    alone.settle(asked)
    alone.verdict()
    assert {state for future in asked for state in alone.states(future.result()).values()} == {"returned"}


def test_of_two_minions_with_one_identity_one_is_sent_away_and_each_job_runs_once(alone: FaultFleet) -> None:
    alone.daemons["a"].stop()
    copy_minion(alone, "a", "copy")
    alone.restart_minion("a")
    alone.restart_minion("copy")
    wait_until(lambda: any(SENT_AWAY in alone.daemons[name].log() for name in ("a", "copy")), "one is sent away")

    for seed in range(REPEATS):
        chance = random.Random(f"copies {seed}")
        asked = [alone.ask("a", seconds=chance.uniform(0, 1.0)) for _ in range(4)]
        alone.settle(asked)
        alone.verdict()
        assert {state for future in asked for state in alone.states(future.result()).values()} == {"returned"}
