"""Batches, as an operator uses them: -b, --batch-wait, --failhard, on real daemons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet import Fleet

pytestmark = pytest.mark.e2e
NAMES = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with_fleet = Fleet(tmp_path_factory.mktemp("fleet"))
    try:
        with_fleet.start_master()
        with_fleet.join(*NAMES)
        yield with_fleet
    finally:
        with_fleet.close()


def spans(trace: Path) -> list[tuple[float, float]]:
    """When each function was entered and left, from what they wrote down themselves."""
    return sorted(tuple(map(float, line.split()[:2])) for line in trace.read_text().splitlines())  # type: ignore[misc]


SPAN = "import time; b = time.time(); time.sleep(0.3); open({!r}, 'a').write('%f %f\\n' % (b, time.time()))"


def test_no_more_than_the_size_run_at_once_and_all_run(fleet: Fleet, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    said = fleet.cli("-b", "2", "--out", "json", "*", "cmd.run", f'python3 -c "{SPAN.format(str(trace))}"')
    assert (said.code, sorted(said.json())) == (0, list(NAMES)), said
    at = spans(trace)
    assert len(at) == len(NAMES)
    most = max(sum(begun <= other < ended for begun, ended in at) for other, _ in at)
    assert most == 2


def test_a_pause_follows_each_minion(fleet: Fleet, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    command = f'python3 -c "{SPAN.format(str(trace))}"'
    said = fleet.cli("-b", "50%", "--batch-wait", "1s", "-L", "a,b", "--out", "json", "cmd.run", command)
    assert said.code == 0, said
    (first, second) = spans(trace)
    assert second[0] - first[1] >= 0.9


def test_failhard_ends_the_batch_and_says_whom_it_left_out(fleet: Fleet) -> None:
    said = fleet.cli("-b", "1", "--failhard", "--out", "json", "*", "test.retcode", "3")
    assert said.code == 4, said
    assert list(said.json()) == ["a"]
    for name in NAMES[1:]:
        assert f"{name}: the batch ended when a failed (--failhard)" in said.err


def test_a_batch_goes_on_when_the_master_was_killed_in_the_middle(fleet: Fleet) -> None:
    jid = fleet.publish("*", "test.sleep", "0.5", "--async", "-b", "1")
    fleet.wait_state(jid, "b", "queued", "received", "running")
    fleet.daemons["master"].kill_whole()
    fleet.restart_master()
    for name in NAMES:
        assert fleet.wait_state(jid, name, "returned", "lost", "expired") == "returned"
