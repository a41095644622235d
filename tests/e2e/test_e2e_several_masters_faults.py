"""Masters that share a database, when one of them stands still and goes on later, and when the database does.

`SALTLITE_STANDS_STILL=60` has a master stand still for so many seconds, in place of 3 and 10.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: saltlite[postgres]")

from tests.support.fleet import ME, Fleet, wait_until
from tests.support.postgres import running_server
from tests.support.several_masters import MASTERS, Site, returned

pytestmark = pytest.mark.e2e

HOME = "two"
HOMES = dict.fromkeys(("fay", "ida", "ned"), HOME)
"""Minions whose names give them this home, so that none goes to another master by itself."""
STILL_S = [float(part) for part in os.environ.get("SALTLITE_STANDS_STILL", "3,10").split(",")]

PLUGIN = """
import os, time

FOLDER = {folder!r}

def told(what):
    with open(FOLDER + "/told", "a") as file:
        file.write(what + "\\n")
    while os.path.exists(FOLDER + "/hold"):
        time.sleep(0.02)

def returner(ret):
    if ret["fun"] == "test.echo":
        told("returner " + ret["jid"] + " " + ret["id"])
"""
"""A returner and a runner that write down what they were called for, and wait while they are held."""
HOOKS: dict[str, Any] = {"run": {"event": "app/run", "as": ME, "runner": {"fun": "mine.told", "arg": ["runner {n}"]}}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_server() as server:
        fleet = Fleet(tmp_path_factory.mktemp("faults"))
        for kind in ("returners", "runners"):
            (fleet.folder / "own" / kind).mkdir(parents=True)
            (fleet.folder / "own" / kind / "mine.py").write_text(PLUGIN.format(folder=str(fleet.folder)))
        try:
            own: dict[str, Any] = {
                "module_dirs": [str(fleet.folder / "own")],
                "master_returners": ["mine"],
                "hooks": HOOKS,
            }
            yield Site(fleet, server, HOMES, **own)
        finally:
            fleet.close()


def publish(site: Site, minion: str, *words: str, master: str = "one") -> str:
    """The jid."""
    answer = returned(site.fleet.cli("--async", "--out", "json", minion, *words, master=master))
    jid: str = answer["jid"]
    return jid


def restart_at(site: Site, minion: str, *masters: str) -> None:
    """Start a minion again; it knows these masters only, until one of them tells it of the others."""
    site.fleet.daemons[minion].stop()
    (site.fleet.root(minion) / "var/lib/saltlite/minion/masters.json").unlink(missing_ok=True)
    site.fleet.start_minion(minion, master=[site.fleet.address(name) for name in masters])


def wait_session(site: Site, master: str, *minions: str) -> None:
    """Wait until these minions have their sessions there."""
    wait_until(lambda: {site.sessions().get(one) for one in minions} == {master}, f"{minions} are at {master}")


def state(site: Site, jid: str) -> str:
    return site.server.sql(f"SELECT state FROM job_targets WHERE jid = '{jid}'")  # noqa: S608 - a jid


def claims(site: Site) -> list[str]:
    """Who has which minion, since which handshake, and when it left if it did."""
    sql = "SELECT id, master, run, handshake, up, end_reason FROM minions ORDER BY id"
    return site.server.sql(sql).splitlines()


# -- a master stands still


@pytest.mark.timeout(240)
@pytest.mark.parametrize("seconds", STILL_S)
def test_a_master_that_wakes_takes_no_minion_back_and_changes_no_job(
    seconds: float, site: Site, tmp_path: Path
) -> None:
    """It wakes when jobs of minions that it had are queued, sent, running and returned."""
    fleet, runs, go = site.fleet, tmp_path / "runs", tmp_path / "go"
    for minion in HOMES:
        if site.sessions().get(minion) != HOME:
            restart_at(site, minion, HOME)
    wait_session(site, HOME, *HOMES)
    jobs = {
        "returned": publish(site, "fay", "cmd.run", f"echo returned >> {runs}"),
        "running": publish(
            site, "fay", "cmd.run", f"echo running >> {runs}; while [ ! -e {go} ]; do sleep 0.1; done; echo done"
        ),
    }
    wait_until(lambda: fleet.running_jobs("fay").get(jobs["running"]), "it runs")
    wait_until(lambda: state(site, jobs["returned"]) == "returned", "it has returned")
    mworkers = fleet.daemons[HOME].children("MWorker")
    handshakes = fleet.daemons["ned"].log().count("connection: handshake")
    try:
        # It has half of a handshake with ned, and goes on with that when ned has left.
        for pid in mworkers:
            os.kill(pid, signal.SIGSTOP)
        restart_at(site, "ned", HOME)
        wait_until(lambda: fleet.daemons["ned"].log().count("connection: handshake") > handshakes, "ned asks it")
        with site.standing_still(HOME):
            still_since = time.monotonic()
            jobs["queued"] = publish(site, "ida", "cmd.run", f"echo queued >> {runs}")
            fleet.daemons["ida"].stop()
            for minion in ("fay", "ned"):
                restart_at(site, minion, "three", "one")
            wait_session(site, "three", "fay", "ned")
            os.kill(fleet.daemons["ned"].pid, signal.SIGSTOP)
            jobs["sent"] = publish(site, "ned", "cmd.run", f"echo sent >> {runs}")
            moved = claims(site)
            wait_until(lambda: time.monotonic() - still_since >= seconds, "it stood still", seconds + 60)
            assert [state(site, jobs[one]) for one in ("queued", "sent", "running")] == ["queued", "queued", "running"]
        wait_until(lambda: fleet.cli("fay", "test.ping", master=HOME).code == 0, "it acts again")
        assert [row for row in claims(site) if not row.startswith("ida|")] == [
            row for row in moved if not row.startswith("ida|")
        ]
        assert [state(site, jobs[one]) for one in ("queued", "sent", "running")] == ["queued", "queued", "running"]
    finally:
        os.kill(fleet.daemons["ned"].pid, signal.SIGCONT)
    go.touch()
    restart_at(site, "ida", "three", "one")
    for name, jid in jobs.items():
        wait_until(lambda jid=jid: state(site, jid) == "returned", f"the job that was {name} has returned")  # type: ignore[misc]
        assert site.server.sql(f"SELECT count(*) FROM returns WHERE jid = '{jid}'") == "1"  # noqa: S608 - a jid
    assert Counter(runs.read_text().split()) == dict.fromkeys(jobs, 1)
    for name in MASTERS:
        assert site.ping(name) == dict.fromkeys(HOMES, True)


# -- two masters do the work of all for a moment


def told(site: Site, what: str) -> Counter[str]:
    """What the plug-in was called for, and how often."""
    path = site.fleet.folder / "told"
    lines = path.read_text().splitlines() if path.exists() else []
    return Counter(line.removeprefix(f"{what} ") for line in lines if line.startswith(what))


def test_a_returner_of_a_master_that_stood_still_repeats_what_it_was_at_and_no_return_is_missed(site: Site) -> None:
    hold = site.fleet.folder / "hold"
    hold.touch()
    jid = publish(site, "*", "test.echo", "x")
    (first,) = wait_until(lambda: told(site, "returner"), "the returner has begun")
    wanted = {f"{jid} {minion}" for minion in HOMES}
    stopped = site.holder("returner mine")
    with site.standing_still(stopped):
        hold.unlink()
        wait_until(lambda: set(told(site, "returner")) == wanted, "another master has taken the work over")
        assert site.holder("returner mine") != stopped
    site.wait_joined(stopped)
    later = publish(site, "*", "test.echo", "y", master=stopped)
    wanted |= {f"{later} {minion}" for minion in HOMES}
    wait_until(lambda: set(told(site, "returner")) == wanted, "it goes on")
    times = told(site, "returner")
    assert times[first] == 2
    assert {times[one] for one in wanted if one.startswith(jid)} <= {1, 2}
    assert {times[one] for one in wanted if one.startswith(later)} == {1}


def test_a_runner_of_a_master_that_stood_still_is_begun_once(site: Site) -> None:
    hold = site.fleet.folder / "hold"
    hold.touch()

    def fire(master: str, number: int) -> None:
        assert site.fleet.cli("runner", "event.send", "app/run", f'{{"n": "{number}"}}', master=master).code == 0

    fire("one", 1)
    wait_until(lambda: told(site, "runner") == {"1": 1}, "the runner has begun")
    stopped = site.holder("hooks")
    other = next(name for name in MASTERS if name != stopped)
    with site.standing_still(stopped):
        hold.unlink()
        fire(other, 2)
        wait_until(lambda: told(site, "runner")["2"] == 1, "another master has taken the work over")
        assert site.holder("hooks") != stopped
    site.wait_joined(stopped)
    fire(stopped, 3)
    wait_until(lambda: told(site, "runner")["3"], "it goes on")
    assert told(site, "runner") == {"1": 1, "2": 1, "3": 1}
