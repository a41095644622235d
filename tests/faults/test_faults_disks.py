"""Full and broken disks under the store, the journal and the spool: what cannot be kept is refused, not lied about."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from saltlite.client.local import JobCall
from saltlite.errors import SaltliteError
from tests.faults.disks import MIB, empty, failing_syncs, fill, small_disk
from tests.faults.rig import REPEATS, FaultFleet
from tests.support.fleet import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

DISK = 32 * MIB
PADDING = "x" * 50_000
"""An argument that makes a job large, so that a few of them fill what is left of a disk."""
JOBS_MAX = 400
BODY = 300_000
"""Bytes of a return that finds no room on the master's full disk, and that the process of its job syncs."""
LARGE = 2 * MIB
"""Bytes of a return that finds no room in the spool."""

MASTER_DATA = "root/var/lib/saltlite/master"
MINION_DATA = "root/var/lib/saltlite/minion"


@pytest.fixture
def make_tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], tuple[FaultFleet, Path]]]:
    """Makes a fleet in which the data folder at that path below the fleet's is a disk of DISK bytes, and names it."""
    with contextlib.ExitStack() as after:

        def make(where: str) -> tuple[FaultFleet, Path]:
            fleet = FaultFleet(tmp_path_factory.mktemp("tight"))
            disk = after.enter_context(small_disk(fleet.folder / where, DISK))
            after.callback(fleet.close)
            fleet.start("a", "b")
            return fleet, disk

        yield make


def test_a_master_whose_disk_is_full_refuses_jobs_and_takes_returns_when_there_is_room(
    make_tight: Callable[[str], tuple[FaultFleet, Path]],
) -> None:
    fleet, disk = make_tight(f"master/{MASTER_DATA}")
    for seed in range(REPEATS):
        chance = random.Random(f"store {seed}")
        asked = [fleet.ask(seconds=chance.uniform(0.3, 0.6), size=BODY)]
        wait_until(lambda: any(event.kind == "entered" for event in fleet.fresh()), "the job has begun")
        fleet.note("fault", what="full", who="master")
        fill(disk, leave=chance.randrange(64) * 1024)
        try:
            assert "no space left" in refusal_of_a_publish(fleet)
            asked.append(fleet.ask())
            wait_until(lambda: any(event.kind == "spooled" for event in fleet.fresh()), "the job has ended")
        finally:
            empty(disk)
        fleet.settle(asked)
        fleet.verdict()
        assert set(fleet.states(asked[0].result()).values()) == {"returned"}


def refusal_of_a_publish(fleet: FaultFleet) -> str:
    """Publish jobs for a minion until the master cannot keep one more; what it says then."""
    with fleet.client() as client:
        for _ in range(JOBS_MAX):
            try:
                client.publish(JobCall("b", "test.echo", arg=[PADDING]))
            except SaltliteError as error:
                return str(error)
    raise AssertionError(f"{JOBS_MAX} jobs found room on a full disk")


def wait_felt(fleet: FaultFleet, asked: list[Future[str]], said: int) -> None:
    """Wait until the minion `a` says that its disk is full, has ended because of it, or has settled all jobs.

    `said`: so many characters of its log are from before.
    """
    daemon = fleet.daemons["a"]

    def look() -> bool:
        full = "No space left" in daemon.log()[said:]
        return full or daemon.process.poll() is not None or all(future.done() for future in asked)

    wait_until(look, "the full disk is felt")


@pytest.mark.parametrize("leave", [0, LARGE // 2], ids=["nothing-left", "no-room-for-the-result"])
def test_a_minion_whose_disk_is_full_loses_no_job_and_runs_none_twice(
    make_tight: Callable[[str], tuple[FaultFleet, Path]], leave: int
) -> None:
    fleet, disk = make_tight(f"a/{MINION_DATA}")
    for seed in range(REPEATS):
        chance = random.Random(f"journal {seed}")
        said = len(fleet.daemons["a"].log())
        fleet.note("fault", what="full", who="a")
        fill(disk, leave=leave)
        try:
            asked = [fleet.ask(seconds=chance.uniform(0, 0.3), size=chance.choice((0, LARGE))) for _ in range(3)]
            wait_felt(fleet, asked, said)
        finally:
            empty(disk)
        fleet.settle(asked)
        fleet.verdict()


@pytest.mark.parametrize("seed", range(REPEATS))
@pytest.mark.parametrize(
    ("point", "error"),
    [
        ("journal_write", "ENOSPC"),
        ("journal_write", "EIO"),
        ("journal_sync", "EIO"),
        ("spool_write", "ENOSPC"),
        ("spool_write", "EIO"),
        ("spool_sync", "EIO"),
    ],
)
def test_the_guarantees_hold_when_the_minions_disk_fails(hurt: FaultFleet, point: str, error: str, seed: int) -> None:
    chance = random.Random(f"{point} {error} {seed}")
    asked = [hurt.ask(seconds=chance.uniform(0, 0.3)) for _ in range(2)]
    hurt.fail("a", point, error)
    # A small result is synced only when the master does not confirm it in time.
    size = BODY if point == "spool_sync" else 0
    try:
        asked += [hurt.ask(seconds=chance.uniform(0, 0.2), size=size) for _ in range(2)]
        wait_until(lambda: any(event.fields.get("what") == f"{error} came" for event in hurt.fresh()), "it failed")
    finally:
        hurt.heal("a", point)

    hurt.settle(asked)
    hurt.verdict()


@pytest.mark.parametrize("seed", range(REPEATS))
def test_the_guarantees_hold_when_the_store_cannot_be_synced(hurt: FaultFleet, seed: int) -> None:
    chance = random.Random(f"EIO {seed}")
    master = hurt.daemons["master"]
    asked = [hurt.ask(seconds=chance.uniform(0, 0.5)) for _ in range(3)]
    hurt.note("fault", what="EIO at fsync", who="MWorkers")
    with failing_syncs([master.child("MWorker-0"), master.child("MWorker-1")]), hurt.client() as client:
        with pytest.raises(SaltliteError, match="could not read or write"):
            client.publish(JobCall("*", "test.ping"))
        asked += [hurt.ask() for _ in range(2)]

    hurt.settle(asked)
    hurt.verdict()
