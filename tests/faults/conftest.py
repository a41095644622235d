"""Faults of real processes: daemons are killed, stopped, cut off and lied to, and the guarantees G1 to G9 are checked.

    points.py    where a process can be made to die or a disk call to fail, by name
    launch.py    starts the real daemons with those functions wrapped; the product itself has no hooks
    rig.py       a fleet that is hurt, its clients, and the verdict of `tests.support.guarantees` over all notes
    proxy.py     a TCP connection that can be cut, one way or both
    modules/     the execution module whose entries are counted

A scenario breaks something while clients publish and follow jobs, ends the fault, starts what died again (as
systemd would), waits until every job has ended, and has the history checked. It waits on conditions, with a
bound; the only pauses are those that are the fault itself: how long a process stays stopped, a line cut.

Each scenario runs REPEATS times, with instants and victims drawn from its seed. Times that only pace the fleet
(heartbeats, back-off) are shorter than the product's: `points.PACE`. With SALTLITE_FAULTS_LONG=1 they are the
product's, what lasts 5 s lasts 60, and REPEATS are more.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.rig import MINIONS, FaultFleet
from tests.support.fleet import Fleet


@pytest.fixture(scope="module")
def fleets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[FaultFleet]]:
    """The fleets that the scenarios of one file have used; the last is the one to go on with."""
    made: list[FaultFleet] = []
    try:
        yield made
        if made and made[-1].sound:
            made[-1].verdict()
    finally:
        for fleet in made:
            fleet.close()


@pytest.fixture
def hurt(fleets: list[FaultFleet], tmp_path_factory: pytest.TempPathFactory) -> FaultFleet:
    """A master and two minions, up and unharmed. Scenarios share them, for as long as no guarantee broke."""
    if not fleets or not fleets[-1].sound:
        if fleets:
            fleets[-1].close()
        fleets.append(FaultFleet(tmp_path_factory.mktemp("hurt")))
        fleets[-1].start(*MINIONS)
    fleet = fleets[-1]
    fleet.sound = False
    fleet.ready()
    return fleet


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment] # a wrapper is given what the hook returned
    if report.failed:
        for fleet in Fleet.running:
            report.sections.append(("daemons of the fleet", fleet.logs()))
    return report  # type: ignore[return-value] # as above
