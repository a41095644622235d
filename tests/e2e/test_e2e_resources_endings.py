"""What becomes of jobs on resources when something ends: their minion, its key, a process in the middle, the master."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from saltlite.cli import exitcodes
from saltlite.model.plain import labels
from tests.support.fleet import Daemon, Fleet, wait_until
from tests.support.resource_fleet import DECLARED, MINIONS, OF_MA, PROBES, Site

pytestmark = pytest.mark.e2e

COUNT = 300
BEGUN = 50
"""So many have been called when something is killed; a call takes CALL_S, and some 32 are made at once."""
CALL_S = 0.1
SETTLED = {"returned", "interrupted"}


@pytest.fixture
def site(fleet: Fleet) -> Site:
    """Fixture F."""
    return Site(fleet, *MINIONS)


@pytest.fixture
def many(fleet: Fleet) -> Site:
    """A minion `ma` with COUNT dummies."""
    site = Site(fleet, "ma")
    site.declare("ma", {"dummy": {"count": COUNT}})
    site.refresh("ma")
    assert len(site.owners()) == COUNT
    return site


# -- a minion that is away, or gone


def test_what_an_away_minion_manages_is_named_with_it_in_every_format(site: Site) -> None:
    assert site.fleet.daemons["ma"].stop() == 0
    wait_until(lambda: "ma" not in site.fleet.up(), "ma is away")
    names = labels(MINIONS, [*OF_MA, "dummy:dummy-11", "dummy:shared"])
    missing = {"ma", *(names[srn] for srn in OF_MA)}
    said = site.fleet.cli("-t", "15", "--out", "json", "*", "test.ping")
    assert (said.code, said.json().keys() & missing) == (exitcodes.MISSING, set())
    rows = dict(line.split(": ", 1) for line in said.err.splitlines() if " not connected" in line)
    assert rows.keys() == missing
    assert {name for name, why in rows.items() if "its managing minion ma is not connected" in why} == missing - {"ma"}
    full = site.fleet.cli("-t", "15", "--out", "json-full", "*", "test.ping").json()
    assert full["missing"].keys() == missing
    assert {row["srn"] for row in full["missing"].values() if row.get("minion") == "ma"} == set(OF_MA)


def test_an_away_minion_that_is_named_alone_is_one_row(site: Site) -> None:
    assert site.fleet.daemons["ma"].stop() == 0
    wait_until(lambda: "ma" not in site.fleet.up(), "ma is away")
    said = site.fleet.cli("-t", "1", "--out", "json-full", "ma", "test.ping")
    assert (said.code, list(said.json()["missing"])) == (exitcodes.MISSING, ["ma"])


def test_a_job_for_what_an_away_minion_manages_runs_when_it_is_back(site: Site) -> None:
    site.fleet.daemons["ma"].stop()
    wait_until(lambda: "ma" not in site.fleet.up(), "ma is away")
    trace = site.trace()
    jid = site.fleet.publish("dummy-01", "trace.mark", str(trace))
    site.fleet.restart_minion("ma")
    assert site.fleet.wait_state(jid, "dummy:dummy-01", "returned")
    assert trace.read_text().split() == ["dummy:dummy-01"]


def test_the_resources_of_a_deleted_key_are_targets_of_nothing_at_once(site: Site) -> None:
    assert site.fleet.cli("key", "delete", "ma", "--yes").code == 0
    assert site.run("-C", "T@dummy", "test.ping") == {"dummy-11": True, "shared": True}
    for words in (("-G", "role:probe"), ("-C", "T@probe"), ("dummy-01",)):
        assert site.fleet.cli(*words, "test.ping").code == exitcodes.NOTHING_MATCHED
    assert set(site.owners().values()) == {"mb"}


def test_a_restarted_master_knows_the_resources_of_minions_that_are_away(site: Site) -> None:
    site.fleet.daemons["ma"].stop()
    site.fleet.daemons["master"].kill_whole()
    site.fleet.restart_master()
    for words in (("-C", "T@probe"), ("-G", "role:probe")):
        assert site.fleet.cli("match", "--out", "json", *words).json()["resources"] == {"ma": list(PROBES)}


def test_a_type_is_shut_down_with_its_minion(site: Site) -> None:
    notes = site.trace()
    site.declare("ma", DECLARED["ma"], probe_notes=str(notes))
    site.refresh("ma")
    assert site.fleet.daemons["ma"].stop() == 0
    assert notes.read_text().splitlines()[-1] == "shutdown"


def test_one_registration_is_one_event(site: Site) -> None:
    def told() -> list[object]:
        with site.fleet.store() as store:
            return [event.data for event in store.events(0, 10**6) if event.tag == "resource/refresh/mc"]

    before = told()
    site.declare("mc", {"probe": ["fresh"]})
    site.refresh("mc")
    assert site.run("fresh", "test.ping") == {"fresh": True}
    assert told()[len(before) :] == [{"Resource cache refresh": "mc"}]


# -- in the middle of a job on many


def begin(site: Site) -> tuple[str, Path]:
    """(jid, trace) of a job on all dummies, some of which have been called."""
    trace = site.trace()
    words = ("-C", "T@dummy", "trace.mark", str(trace), str(CALL_S))
    jid: str = site.fleet.cli("--async", "--out", "json", *words).json()["jid"]
    wait_until(lambda: len(trace.read_text().split()) >= BEGUN, f"{BEGUN} were called")
    return jid, trace


def endings(site: Site, jid: str) -> dict[str, str]:
    """SRN -> its state, when all have one that is the last."""
    wait_until(lambda: set(site.fleet.states(jid).values()) <= SETTLED, "every target is settled")
    return site.fleet.states(jid)


def kill_type(site: Site) -> None:
    os.kill(site.fleet.daemons["ma"].child("salt-dummy"), signal.SIGKILL)


def kill_job_server(site: Site) -> None:
    daemon = site.fleet.daemons["ma"]
    os.kill(daemon.pid, signal.SIGKILL)
    daemon.ended()
    site.fleet.restart_minion("ma")


def kill_minion(site: Site) -> None:
    site.fleet.daemons["ma"].kill_whole()
    site.fleet.restart_minion("ma")


def kill_minion_link(site: Site) -> None:
    _kill_children(site.fleet.daemons["ma"], "minion link")


def kill_mworkers(site: Site) -> None:
    _kill_children(site.fleet.daemons["master"], "MWorker")


def kill_master_link(site: Site) -> None:
    _kill_children(site.fleet.daemons["master"], "master link")


def kill_master(site: Site) -> None:
    site.fleet.daemons["master"].kill_whole()
    site.fleet.restart_master()


def _kill_children(daemon: Daemon, name: str) -> None:
    for pid in daemon.children(name):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("kill", [kill_type, kill_job_server, kill_minion])
def test_whoever_is_killed_beside_the_calls_there_is_no_doubt_about_any(
    many: Site, kill: Callable[[Site], None]
) -> None:
    jid, trace = begin(many)
    kill(many)
    states = endings(many, jid)
    executed = trace.read_text().split()
    returned = {srn for srn, state in states.items() if state == "returned"}
    assert len(states) == COUNT
    assert len(set(executed)) == len(executed), "nothing was called twice"
    assert returned <= set(executed), "whatever has returned was called"
    assert len(returned) < COUNT, "it was killed in time"
    assert many.run("dummy-1", "test.ping") == {"dummy-1": True}
    assert many.fleet.states(jid) == states, "what is settled stays as it is"


@pytest.mark.parametrize("kill", [kill_minion_link, kill_mworkers, kill_master_link, kill_master])
def test_whoever_is_killed_on_the_way_every_call_is_made_once_and_returns(
    many: Site, kill: Callable[[Site], None]
) -> None:
    jid, trace = begin(many)
    kill(many)
    assert set(endings(many, jid).values()) == {"returned"}
    assert sorted(trace.read_text().split()) == sorted(f"dummy:dummy-{number}" for number in range(1, COUNT + 1))


def test_a_device_whose_program_is_frozen_delays_no_other_and_answers_when_it_goes_on(site: Site) -> None:
    note = site.fleet.folder / "program"
    frozen = site.fleet.publish("p1", "test.program", str(note), "0.3")
    wait_until(lambda: note.exists() and note.read_text(), "the program runs")
    os.kill(int(note.read_text()), signal.SIGSTOP)
    assert site.run("-C", "T@probe and not p1", "test.ping") == {"p2": True, "shared": True}
    behind = site.fleet.publish("p1", "test.ping")
    assert site.fleet.wait_state(behind, "probe:p1", "running")
    os.kill(int(note.read_text()), signal.SIGCONT)
    assert site.fleet.wait_state(frozen, "probe:p1", "returned")
    assert site.fleet.wait_state(behind, "probe:p1", "returned")
