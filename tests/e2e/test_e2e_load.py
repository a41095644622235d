"""Much at once, and large things: everything comes back, once, and what was cut off is said to be."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from saltlite.client.connection import Connection
from saltlite.client.local import JobCall
from saltlite.master.protocol.sessions import DELIVERIES_MAX
from tests.bench.bench_fleet import accept_simulated
from tests.support.fleet import Fleet, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

MIB = 1024 * 1024
CROWD = 300
"""Simulated minions that come and go at once."""
JOBS = DELIVERIES_MAX + 36
"""More than are on their way to one minion at once: the others have to be asked for."""


def test_output_that_is_too_long_for_a_return_says_how_much_was_dropped(shared: Fleet) -> None:
    said = shared.cli("a", "cmd.run", f"head -c {20 * MIB} /dev/zero | tr '\\0' x", "--out", "json")
    assert said.code == 0, said.err
    kept, _, note = said.json()["a"].partition("\n")
    assert note == f"[{20 * MIB - len(kept)} more bytes of output were dropped: {len(kept)} are kept]"


def test_while_a_large_return_is_under_way_others_are_answered(shared: Fleet) -> None:
    jid = shared.publish("a", "cmd.run", f"head -c {15 * MIB} /dev/zero | tr '\\0' x")
    with shared.client() as client:
        answers = [client.cmd("[ab]", "test.ping", timeout=60) for _ in range(10)]
    assert all(answer == {"a": True, "b": True} for answer in answers)
    shared.wait_state(jid, "a", "returned")


def test_jobs_for_an_away_minion_all_run_in_order_when_it_comes(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    fleet.join("a", jobs_max=1)
    fleet.daemons["a"].stop()
    wait_until(lambda: not fleet.up(), "a is away")
    trace = tmp_path / "trace"
    with fleet.client() as client:
        jids = [client.cmd_async("a", "cmd.run", [f"echo {n} >> {trace}"]) for n in range(JOBS)]
    assert set().union(*(fleet.states(jid).values() for jid in jids[:3])) == {"queued"}
    fleet.restart_minion("a")
    fleet.wait_state(jids[-1], "a", "returned")
    assert trace.read_text().split() == [str(n) for n in range(JOBS)]


def test_a_job_that_two_follow_is_told_to_each_of_them_once(shared: Fleet) -> None:
    with shared.client() as client:
        jid = client.publish(JobCall("[ab]", "test.sleep", arg=[0.3])).jid
    assert [told_of(shared, jid), told_of(shared, jid)] == [["a", "b"], ["a", "b"]]


def told_of(fleet: Fleet, jid: str) -> list[str]:
    """The minions whose returns somebody sees who follows the job to its end, in order of their names."""
    rows: list[str] = []
    with contextlib.closing(Connection(fleet.socket_path())) as connection:
        connection.send({"v": 1, "verb": "follow", "jid": jid, "after": 0})
        while message := connection.receive(10):
            rows += [row["id"] for row in message.get("returns", ())]
            if message.get("end"):
                return sorted(rows)
    raise AssertionError(f"the stream of job {jid} did not end")


def test_connections_that_came_and_went_leave_no_descriptor_open(fleet: Fleet) -> None:
    link = fleet.start_master().child("master link")
    port = int(fleet.address().rpartition(":")[2])
    start = open_files(link)
    for _ in range(5):
        dialled = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
        wait_until(lambda: open_files(link) >= start + 10, "the link has taken the connections")
        for connection in dialled:
            connection.close()
        wait_until(lambda: open_files(link) <= start, "the link has closed what strangers left")
    fleet.join("a")
    # The master knows a moment before the minion does, which must not be killed in between: its lines are counted.
    fleet.wait_log("a", "connection: ready")
    for turn in range(2, 7):
        fleet.daemons["a"].kill_whole()
        fleet.restart_minion("a")
        fleet.wait_log("a", "connection: ready", times=turn)
    fleet.daemons["a"].stop()
    wait_until(lambda: open_files(link) <= start, "the link has closed what the minion left")


def open_files(pid: int) -> int:
    """How many descriptors a process has."""
    return len(os.listdir(f"/proc/{pid}/fd"))


@contextmanager
def load(fleet: Fleet) -> Iterator[subprocess.Popen[bytes]]:
    """A process of simulated minions; it writes a line when all of them are connected."""
    port = fleet.address().rpartition(":")[2]
    command = [sys.executable, "-m", "tests.bench.swarm", port, fleet.fleet_id(), str(CROWD)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        try:
            yield process
        finally:
            process.kill()


def test_jobs_for_a_minion_that_stays_go_on_in_a_storm_of_reconnects(fleet: Fleet) -> None:
    """G11: hundreds are gone at once, and come back at once."""
    fleet.start_master(handshakes_per_address=CROWD)
    fleet.join("a")
    accept_simulated(str(fleet.root("master") / "var/lib/saltlite/master/store.sqlite"), CROWD)
    with load(fleet) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"ready\n"
    answers = []
    with load(fleet) as second, fleet.client() as client:
        assert second.stdout is not None
        os.set_blocking(second.stdout.fileno(), False)
        while not second.stdout.read():
            answers.append(client.cmd("a", "test.ping", timeout=60))
        wait_until(lambda: len(fleet.up()) == CROWD + 1, "all of them are back")
    assert len(answers) > 1
    assert all(answer == {"a": True} for answer in answers)
