"""Jobs that were: listed, shown, watched, run again, ended while a minion is away; events by cursor; status."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from saltlite import __version__
from tests.support.fleet import ME, Fleet, alive, wait_until

pytestmark = pytest.mark.e2e

ALL = 1_000_000
"""More events than the shared fleet has at the end of a run."""


def test_a_job_is_found_by_what_it_ran_and_shown_with_who_ran_it_and_what_came_back(shared: Fleet) -> None:
    assert shared.cli("*", "test.arg", "one", "two=2").code == 0
    listed = shared.cli("job", "list", "--fun", "test.ar?", "--since", "1h", "--state", "ok", "--out", "json").json()
    job = listed["jobs"][0]
    assert (job["fun"], job["tgt"], job["user"]) == ("test.arg", "*", ME)
    assert job["outcomes"] == {"ok": 2}
    said = shared.cli("job", "show", job["jid"], "--returns")
    assert said.code == 0, said.err
    assert "function: test.arg one two=2\n" in said.out
    assert f"by:       {ME}" in said.out
    shown = shared.cli("job", "show", job["jid"], "--returns", "--out", "json").json()
    assert shown["returns"]["a"]["args"] == ["one"]
    assert {target["id"]: target["retcode"] for target in shown["targets"]} == {"a": 0, "b": 0}


def test_failed_jobs_are_found_by_minion_and_run_again_only_where_they_failed(shared: Fleet, tmp_path: Path) -> None:
    said = shared.cli("a", "cmd.run", f"rm {tmp_path}/gone")
    assert said.code == 4
    job = shared.cli("job", "list", "--minion", "a", "--state", "failed", "-n", "1", "--out", "json").json()["jobs"][0]
    (tmp_path / "gone").touch()
    again = shared.cli("job", "rerun", job["jid"], "--failed", "--out", "json")
    assert again.code == 0, again.err
    assert again.json() == {"a": ""}
    assert shared.cli("job", "rerun", job["jid"], "--missing").code == 3


def test_a_password_reaches_its_function_and_nothing_else_has_it(shared: Fleet) -> None:
    secret = "sw0rdfish-and-chips"
    said = shared.cli("a", "shadow.gen_password", secret, "crypt_salt=saltsalt", "--out", "json")
    assert said.json() == {
        "a": shared.cli(
            "a", "shadow.gen_password", f"password={secret}", "crypt_salt=saltsalt", "--out", "json"
        ).json()["a"]
    }
    row = shared.cli("job", "list", "-n", "1", "--out", "json").json()["jobs"][0]
    every = [shared.cli("job", "show", row["jid"], *more).out for more in ([], ["--out", "json"])]
    every.append(shared.cli("runner", "jobs.list_jobs").out)
    with shared.store() as store:
        every += [repr(event) for event in store.events(0, ALL)]
    every += [daemon.log() for daemon in shared.daemons.values()]
    assert not [text for text in every if secret in text]
    assert "***" in every[0]
    again = shared.cli("job", "rerun", row["jid"])
    assert (again.code, "has secrets among its arguments" in again.err) == (6, True)


def test_a_secret_is_in_no_byte_of_the_store_when_its_job_has_ended(tmp_path: Path) -> None:
    secret = "sw0rdfish-and-more-chips"
    fleet = Fleet(tmp_path)
    try:
        fleet.start_master()
        fleet.join("a")
        running = fleet.publish("a", "shadow.gen_password", f"password={secret}", "crypt_salt=saltsalt")
        fleet.wait_state(running, "a", "returned")
        folder = fleet.root("master") / "var/lib/saltlite/master"

        def bytes_of_store() -> bytes:
            return b"".join(path.read_bytes() for path in folder.glob("*") if path.is_file())

        wait_until(lambda: secret.encode() not in bytes_of_store(), "the secret has left the store")
        said = fleet.cli("job", "show", running)
        assert "kept:     all arguments except secrets (***), which were deleted when the job ended\n" in said.out
        assert fleet.cli("job", "rerun", running).code == 6
        plain = fleet.publish("a", "test.echo", "plain-words")
        fleet.wait_state(plain, "a", "returned")
        assert fleet.cli("job", "rerun", plain, "--out", "json").json() == {"a": "plain-words"}
        assert fleet.daemons["master"].stop() == 0
        fleet.start_master(keep_job_args=False)
        wait_until(lambda: "withheld" in fleet.cli("job", "show", plain, "--out", "json").json(), "all arguments go")
        said = fleet.cli("job", "rerun", plain)
        assert (said.code, "were not kept when it ended (the master has keep_job_args: false)" in said.err) == (6, True)
        assert "function: test.echo ***" in fleet.cli("job", "show", plain).out
    finally:
        fleet.close()


def test_an_ended_job_can_be_watched_and_gives_what_it_gave(shared: Fleet) -> None:
    assert shared.cli("*", "test.echo", "hello", "--out", "json").json() == {"a": "hello", "b": "hello"}
    jid = shared.cli("job", "list", "--fun", "test.echo", "-n", "1", "--out", "json").json()["jobs"][0]["jid"]
    said = shared.cli("job", "watch", jid, "--out", "json")
    assert (said.code, said.json()) == (0, {"a": "hello", "b": "hello"})


def test_a_running_job_can_be_watched_to_its_end(shared: Fleet) -> None:
    jid = shared.publish("a", "test.sleep", "1")
    shared.wait_state(jid, "a", "running")
    said = shared.cli("job", "watch", jid, "--out", "json")
    assert (said.code, said.json()) == (0, {"a": True})


def test_a_job_for_a_minion_that_never_got_it_is_cancelled_at_once_and_never_runs(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start_master()
    fleet.join("web1")
    fleet.daemons["web1"].stop()
    wait_until(lambda: not fleet.up(), "web1 is away")
    trace = tmp_path / "trace"
    jid = fleet.publish("web1", "probe.enter", str(trace))
    said = fleet.cli("job", "kill", jid)
    assert (said.code, said.out) == (0, "web1: never received it, and will not\n")
    fleet.restart_minion("web1")
    fleet.wait_up("web1")
    assert fleet.cli("web1", "test.ping").code == 0
    assert not trace.exists()
    assert fleet.states(jid) == {"web1": "cancelled"}


def test_one_kill_is_enough_for_a_minion_that_runs_the_job_and_is_away(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("web1")
    jid = fleet.publish("web1", "test.sleep", "300")
    fleet.wait_state(jid, "web1", "running")
    pid = fleet.running_jobs("web1")[jid]
    fleet.daemons["web1"].kill_whole()
    wait_until(lambda: not fleet.up(), "web1 is away")
    said = fleet.cli("job", "kill", jid)
    assert (said.code, said.out) == (0, "web1: not connected; the kill reaches it when it is back\n")
    assert fleet.states(jid) == {"web1": "running"}, "nobody knows yet that it has ended"
    fleet.restart_minion("web1")
    fleet.wait_state(jid, "web1", "cancelled")
    assert not alive(pid)


def test_events_are_followed_through_a_restart_of_the_master_without_loss_or_repeat(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("web1")
    with fleet.start_cli("events", "salt/job/*", "--since", "0", "--count", "6", "--out", "jsonl") as watching:
        for _ in range(2):
            assert fleet.cli("web1", "test.ping").code == 0
        assert watching.stdout is not None
        first = watching.stdout.readline()  # it is connected
        fleet.daemons["master"].kill_whole()
        fleet.restart_master()
        fleet.wait_up("web1")
        assert fleet.cli("web1", "test.ping").code == 0
        out = first + watching.stdout.read()
        assert watching.wait(60) == 0
    events = [json.loads(line) for line in out.splitlines()]
    assert [event["tag"].split("/")[3] for event in events] == ["new", "ret"] * 3
    seqs = [event["seq"] for event in events]
    assert seqs == sorted(set(seqs))
    with fleet.store() as store:
        wanted = [event.seq for event in store.events(0, ALL) if event.tag.startswith("salt/job/")]
    assert seqs == wanted


def test_ctrl_c_ends_events_and_tells_where_to_go_on(shared: Fleet) -> None:
    with shared.start_cli("events", "salt/job/*/new", "--since", "1h", "--out", "jsonl") as watching:
        assert shared.cli("a", "test.ping").code == 0
        assert watching.stdout is not None
        seq = 0
        with shared.store() as store:
            last = max(event.seq for event in store.events(0, ALL) if event.tag.endswith("/new"))
        while seq < last:
            seq = json.loads(watching.stdout.readline())["seq"]
        watching.send_signal(signal.SIGINT)
        _, err = watching.communicate(timeout=60)
    assert watching.returncode == 130
    assert f"--since {last}" in err


def test_status_counts_who_is_up_away_and_pending_and_asks_the_link(fleet: Fleet) -> None:
    fleet.start_master()
    fleet.join("up1", "away1")
    fleet.start_minion("new1", fleet=fleet.fleet_id())
    fleet.wait_key("new1", "pending")
    os.kill(fleet.daemons["away1"].pid, signal.SIGTERM)
    wait_until(lambda: fleet.up() == {"up1"}, "away1 is away")
    fleet.publish("away1", "test.ping")
    said = fleet.cli("status", "--out", "json").json()
    assert said["counts"] == {"up": 1, "away": 1, "never": 0, "pending": 1}
    assert {row["id"]: row["state"] for row in said["minions"]} == {"up1": "up", "away1": "away", "new1": "pending"}
    assert said["master"]["version"] == __version__
    assert said["queues"] == {"targets": {"queued": 1}, "minions_away_with_jobs": 1}
    assert said["link"]["mworkers"] == said["master"]["mworkers"] == 2
    assert said["link"]["ready"] == 1
    assert said["link"]["pending"] == 1
    assert said["link"]["uncommitted"] == 0
    assert said["store"]["size"] > 0


def test_a_full_store_refuses_a_job_and_makes_room_from_the_oldest(fleet: Fleet) -> None:
    fleet.start_master(store_max=16)
    fleet.join("web1")
    maintenance = fleet.daemons["master"].child("maintenance")
    os.kill(maintenance, signal.SIGSTOP)
    jids = []
    for _ in range(2):
        assert fleet.cli("web1", "probe.big", "8500000", "--out", "quiet").code == 0
        jids.append(fleet.cli("job", "list", "-n", "1", "--out", "json").json()["jobs"][0]["jid"])
    refused = fleet.cli("web1", "test.ping")
    assert refused.code == 1
    assert "the store is full: it has reached store_max (16 MiB)" in refused.err
    os.kill(maintenance, signal.SIGCONT)
    wait_until(lambda: fleet.cli("web1", "test.ping").code == 0, "there is room again")
    assert fleet.cli("job", "show", jids[0]).code == 2, "the oldest is gone"
    fleet.wait_log("master", "made room in the store")
    with fleet.store() as store:
        # A job of which only a part went to make room is not left behind.
        assert not store.prune_due(1.0)
        assert store.returns(jids[0]) == []


def test_bad_input_is_one_sentence(shared: Fleet) -> None:
    lines = (
        ["job", "show", "20200101000000000000"],
        ["job", "watch", "1"],
        ["job", "list", "--since", "yesterdayish"],
        ["job", "list", "--minion", "WEB 1"],
        ["events", "--since", "999999999"],
        ["job", "rerun", "20200101000000000000"],
    )
    for line in lines:
        said = shared.cli(*line)
        assert said.code == 2, (line, said)
        assert said.err.count("\n") == 1, (line, said)
        assert "defect" not in said.err
