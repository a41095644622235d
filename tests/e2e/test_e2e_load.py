"""Much at once, and large things: everything comes back, once, and what was cut off is said to be."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from saltlite.client.local import JobCall
from tests.e2e.fleet import Fleet, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

MIB = 1024 * 1024


def test_a_return_of_5_mib_comes_back_whole(shared: Fleet) -> None:
    with shared.client() as client:
        back = client.cmd("a", "cmd.run", [f"head -c {5 * MIB} /dev/zero | tr '\\0' x"], timeout=30)
    assert len(back["a"]) == 5 * MIB
    assert set(back["a"]) == {"x"}


def test_a_return_of_20_mib_is_cut_off_and_says_so(shared: Fleet) -> None:
    said = shared.cli("a", "cmd.run", f"head -c {20 * MIB} /dev/zero | tr '\\0' x", "--out", "json")
    assert said.code == 4, said.err
    assert 1000 < len(said.out) < 17 * MIB
    assert "truncated" in said.out or "truncated" in said.err


def test_while_a_large_return_is_under_way_others_are_answered(shared: Fleet) -> None:
    jid = shared.publish("a", "cmd.run", f"head -c {15 * MIB} /dev/zero | tr '\\0' x")
    with shared.client() as client:
        answers = [client.cmd("*", "test.ping", timeout=10) for _ in range(10)]
    assert all(answer == {"a": True, "b": True} for answer in answers)
    shared.wait_state(jid, "a", "returned")


def test_200_jobs_of_8_clients_at_once_all_return_to_whom_they_belong(shared: Fleet) -> None:
    answers: dict[tuple[int, int], object] = {}

    def run(number: int) -> None:
        with shared.client() as client:
            for turn in range(25):
                answers[number, turn] = client.cmd(["a", "b"], "test.echo", [f"{number}/{turn}"], tgt_type="list")

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    expected = {(n, t): {"a": f"{n}/{t}", "b": f"{n}/{t}"} for n in range(8) for t in range(25)}
    assert answers == expected


def test_a_burst_of_50_jobs_runs_four_at_a_time_each_once_and_none_is_lost(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    fleet.join("a", jobs_max=4)
    trace = tmp_path / "trace"
    script = f"echo + $$ >> {trace}; sleep 0.05; echo - $$ >> {trace}"
    with fleet.client() as client:
        jids = [client.cmd_async("a", "cmd.run", [script]) for _ in range(50)]
    assert len(set(jids)) == 50
    for jid in jids:
        fleet.wait_state(jid, "a", "returned")
    marks = [line.split()[0] for line in trace.read_text().splitlines()]
    assert (marks.count("+"), marks.count("-")) == (50, 50)
    at_once = [marks[: end + 1].count("+") - marks[: end + 1].count("-") for end in range(len(marks))]
    assert max(at_once) == 4


def test_jobs_for_an_away_minion_all_run_in_order_when_it_comes(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    fleet.join("a", jobs_max=1)
    fleet.daemons["a"].stop()
    wait_until(lambda: not fleet.up(), "a is away")
    trace = tmp_path / "trace"
    with fleet.client() as client:
        jids = [client.cmd_async("a", "cmd.run", [f"echo {n} >> {trace}"]) for n in range(150)]
    assert set().union(*(fleet.states(jid).values() for jid in jids[:3])) == {"queued"}
    fleet.restart_minion("a")
    for jid in jids:
        fleet.wait_state(jid, "a", "returned")
    assert trace.read_text().split() == [str(n) for n in range(150)]


def test_a_job_that_many_follow_is_told_to_each_once(shared: Fleet) -> None:
    with shared.client() as first, shared.client() as second:
        jid = first.publish(JobCall("*", "test.sleep", arg=[0.3])).jid
        told: list[list[str]] = []
        for client in (first, second):
            client.call("follow", jid=jid, after=0)
            rows: list[str] = []
            ended = False
            while not ended:
                assert client._connection is not None
                message = client._connection.receive(10)
                assert message is not None
                rows += [row["id"] for row in message["returns"]]
                ended = message.get("end") is True
            told.append(sorted(rows))
    assert told == [["a", "b"], ["a", "b"]]


def test_50_minions_that_came_and_went_leave_no_descriptor_open(fleet: Fleet) -> None:
    master = fleet.start_master()
    fleet.join("a")
    link = master.child("master link")

    def open_files() -> int:
        return len(os.listdir(f"/proc/{link}/fd"))

    fleet.daemons["a"].stop()
    wait_until(lambda: not fleet.up(), "a is away")
    start = open_files()
    for _ in range(3):
        fleet.restart_minion("a")
        fleet.wait_up("a")
        fleet.daemons["a"].stop()
        wait_until(lambda: not fleet.up(), "a is away")
    wait_until(lambda: open_files() <= start, "the link has closed what the minions left")
