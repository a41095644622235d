"""A line that is cut both ways, one way, or torn, in the middle of jobs and large results."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from tests.faults.proxy import TO_MASTER, TO_MINION, Proxy
from tests.faults.rig import LASTS_S, REPEATS, TEST_S, FaultFleet
from tests.support.fleet import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(TEST_S)]

LARGE = 3_000_000
"""Bytes of a result that travels in many parts."""


@pytest.fixture
def line(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FaultFleet, Proxy]]:
    """A master, the minion `a` behind a proxy, and `b` with a line of its own."""
    fleet = FaultFleet(tmp_path_factory.mktemp("line"))
    proxy = Proxy(int(fleet.address().rpartition(":")[2]))
    try:
        fleet.start("b")
        fleet.join("a", master=f"127.0.0.1:{proxy.port}")
        yield fleet, proxy
    finally:
        proxy.close()
        fleet.close()


@pytest.mark.parametrize(
    "directions", [(TO_MASTER, TO_MINION), (TO_MASTER,), (TO_MINION,)], ids=["both-ways", "to-master", "to-minion"]
)
def test_the_guarantees_hold_when_the_line_is_cut(line: tuple[FaultFleet, Proxy], directions: tuple[str, ...]) -> None:
    fleet, proxy = line
    for seed in range(REPEATS):
        chance = random.Random(f"{directions} {seed}")
        asked = [fleet.ask(seconds=chance.uniform(0, 1.0), size=chance.choice((0, LARGE))) for _ in range(2)]
        time.sleep(chance.uniform(0, 0.5))  # the fault: its instant is chance
        fleet.note("fault", what=f"cut {' and '.join(directions)}", who="a")

        proxy.cut(*directions)
        # The first lasts longer than anybody waits for a heartbeat, the others may end before it is noticed.
        asked.append(fleet.ask(seconds=chance.uniform(0, 0.3)))
        time.sleep(LASTS_S if seed == 0 else chance.uniform(0.2, LASTS_S / 2))  # the fault itself
        proxy.mend()

        fleet.settle(asked)
        fleet.verdict()


def test_the_guarantees_hold_when_connections_are_reset_again_and_again(line: tuple[FaultFleet, Proxy]) -> None:
    fleet, proxy = line
    for seed in range(REPEATS):
        chance = random.Random(f"tear {seed}")
        asked = []
        for _ in range(4):
            latest = fleet.ask(seconds=chance.uniform(0, 0.3), size=chance.choice((0, LARGE)))
            asked.append(latest)
            wait_passed(proxy, proxy.passed[TO_MASTER] + chance.randrange(LARGE), latest)
            fleet.note("fault", what="reset", who="a")
            proxy.tear()
        fleet.settle(asked)
        fleet.verdict()


def wait_passed(proxy: Proxy, count: int, asked: Future[str]) -> None:
    """Wait until so many bytes went to the master, or the client has its answer."""
    wait_until(lambda: proxy.passed[TO_MASTER] >= count or asked.done(), "bytes or an answer came")


def test_other_minions_answer_while_one_is_cut_off(line: tuple[FaultFleet, Proxy]) -> None:
    fleet, proxy = line
    proxy.cut(TO_MASTER, TO_MINION)
    try:
        with fleet.client() as client:
            answers = [client.cmd("b", "test.ping") for _ in range(5)]
    finally:
        proxy.mend()
    # The line is mended after the last answer only: none of them waited for it.
    assert answers == [{"b": True}] * 5
