"""A minion with several masters: it finds the one that lives, and goes to the other when its own is gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import Fleet, done_once, wait_until
from tests.support.modules import write

pytestmark = pytest.mark.e2e


def two_masters_and_a_minion(fleet: Fleet, **more: Any) -> None:
    """Two live masters of one fleet, `one` and `two`, and the minion `m`, up on `one` and accepted by both."""
    fleet.start_master("one")
    second = fleet.root("two") / "etc/saltlite/pki/master"
    second.mkdir(mode=0o700, parents=True)
    shutil.copy(fleet.root("one") / "etc/saltlite/pki/master/fleet.key", second)
    fleet.start_master("two")
    token = fleet.token(master="one")
    fleet.start_minion("m", master=[fleet.address("one"), fleet.address("two")], join_token=token, **more)
    fleet.wait_up("m", master="one")
    key = fleet.key_rows("one")[0]["fingerprint"]
    assert fleet.cli("key", "preaccept", "m", key, master="two").code == 0


def test_a_minion_goes_past_a_dead_master_to_a_live_one(fleet: Fleet) -> None:
    fleet.start_master()
    dead = fleet.address("dead")

    fleet.start_minion("m", master=[dead, fleet.address()], join_token=fleet.token())

    fleet.wait_up("m")
    assert fleet.cli("--out", "json", "m", "test.ping").json() == {"m": True}
    assert f"{dead} refused the connection" in fleet.daemons["m"].log()


SEEN = """
def f():
    return [__opts__["master_uri"], len(__opts__["master_list"])]
"""


def test_a_minion_goes_to_the_second_master_when_the_first_is_stopped(fleet: Fleet, tmp_path: Path) -> None:
    write(tmp_path, {"modules/seen": SEEN})
    # Under another name it makes another certificate, which is no reason to refuse the first one of the other.
    fleet.start_master("one", master_name="before")
    fleet.daemons["one"].stop()
    two_masters_and_a_minion(fleet, module_dirs=[str(tmp_path)])
    seen = fleet.cli("--out", "json", "m", "seen.f", master="one").json()["m"]
    assert seen == [f"tcp://{fleet.address('one')}", 2]

    assert fleet.daemons["one"].stop() == 0

    fleet.wait_up("m", master="two")
    assert fleet.cli("--out", "json", "m", "test.ping", master="two").json() == {"m": True}
    seen = fleet.cli("--out", "json", "m", "seen.f", master="two").json()["m"]
    assert seen == [f"tcp://{fleet.address('two')}", 2]


def test_a_result_is_kept_for_the_master_that_asked_for_it(fleet: Fleet, tmp_path: Path) -> None:
    go = tmp_path / "go"
    two_masters_and_a_minion(fleet)
    jid = fleet.cli("--async", "--out", "json", "m", "cmd.run", done_once(go), master="one").json()["jid"]
    wait_until(lambda: fleet.states(jid, "one")["m"] == "running", "the job runs")
    fleet.daemons["one"].kill_whole()
    fleet.wait_up("m", master="two")
    go.touch()
    wait_until(lambda: not fleet.running_jobs("m"), "the job has ended")
    assert fleet.cli("--out", "json", "m", "test.ping", master="two").json() == {"m": True}

    fleet.daemons["m"].stop()
    fleet.restart_master("one")
    fleet.restart_minion("m")

    wait_until(lambda: fleet.states(jid, "one")["m"] == "returned", "its result arrives at the master that asked")
