"""Resources through the whole system: who answers, who hangs, and what becomes of jobs when processes end."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet import Fleet, alive, wait_until

pytestmark = pytest.mark.e2e

SLEEP_S = 60


def declare(fleet: Fleet, **dummy: Any) -> None:
    """The pillar of every minion: resources of the type dummy."""
    folder = fleet.root("master") / "srv/pillar"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "top.sls").write_text("base:\n  '*': [all]\n")
    (folder / "all.sls").write_text(json.dumps({"resources": {"dummy": dummy}}))


def returns(fleet: Fleet, *words: str) -> dict[str, Any]:
    """target -> value, whatever the exit code."""
    said = fleet.cli(*words, "--out", "json")
    found: dict[str, Any] = said.json() if said.out else {}
    return found


def type_process(fleet: Fleet) -> int:
    """The process of the type dummy, on minion m."""
    return fleet.daemons["m"].child("salt-dummy")


@pytest.fixture
def dummies(fleet: Fleet) -> Fleet:
    """A minion `m` with the resources d1 to d20, of which d7 never answers."""
    declare(fleet, count=20, prefix="d", hang=["d7"])
    fleet.start_master()
    fleet.join("m", resource_timeout=4)
    wait_until(lambda: returns(fleet, "d20", "test.ping") == {"d20": True}, "the resources are registered")
    return fleet


def states(fleet: Fleet, jid: str, state: str) -> list[str]:
    return sorted(name for name, one in fleet.states(jid).items() if one == state)


def test_a_resource_that_hangs_delays_no_other_and_is_said_to_have_timed_out(dummies: Fleet) -> None:
    jid = dummies.publish("*", "test.ping")
    wait_until(lambda: len(states(dummies, jid, "returned")) == 20, "the minion and 19 resources have returned")
    assert not states(dummies, jid, "timed_out")
    assert dummies.wait_state(jid, "dummy:d7", "timed_out")
    assert returns(dummies, "d7,d1", "-L", "test.ping") == {"d1": True}


def test_a_function_that_the_type_lacks_runs_nowhere(dummies: Fleet) -> None:
    said = dummies.cli("d1", "cmd.run", "id")
    assert (said.code, "not supported for resource type 'dummy'" in said.err) == (2, True)


def test_grains_of_resources_and_of_their_minion_say_what_there_is(dummies: Fleet) -> None:
    assert returns(dummies, "d1", "grains.item", "resource_id") == {"d1": {"resource_id": "d1"}}
    assert sorted(returns(dummies, "m", "grains.get", "salt_resources")["m"]["dummy"])[:2] == ["d1", "d10"]


def test_a_refreshed_pillar_adds_and_removes_resources(dummies: Fleet) -> None:
    declare(dummies, resource_ids=["d1", "fresh"])
    assert returns(dummies, "m", "saltutil.refresh_pillar") == {"m": True}
    assert returns(dummies, "-C", "T@dummy", "test.ping") == {"d1": True, "fresh": True}


def test_the_event_resource_refresh_on_the_machine_registers_the_resources_anew(dummies: Fleet) -> None:
    declare(dummies, resource_ids=["d1", "fresh"])
    said = dummies.cli("call", "event.fire", "{}", "pillar_refresh", "--out", "json", master="m")
    assert (said.code, said.json()) == (0, {"local": True})
    said = dummies.cli("call", "event.fire", "{}", "resource_refresh", "--out", "json", master="m")
    assert (said.code, said.json()) == (0, {"local": True})
    assert returns(dummies, "-C", "T@dummy", "test.ping") == {"d1": True, "fresh": True}


def _sleep(fleet: Fleet, ids: str) -> str:
    """Publish a long sleep on these resources; the jid."""
    said = fleet.cli("--async", "--out", "json", "-L", ids, "test.sleep", str(SLEEP_S))
    jid: str = said.json()["jid"]
    return jid


@pytest.fixture
def patient(fleet: Fleet) -> Fleet:
    """A minion `m` with resources d1 and d2, whose calls have no time limit."""
    declare(fleet, count=2, prefix="d")
    fleet.start_master()
    fleet.join("m", resource_timeout=0)
    wait_until(lambda: returns(fleet, "d2", "test.ping") == {"d2": True}, "the resources are registered")
    return fleet


def test_a_type_process_that_is_killed_ends_its_calls_and_nothing_else(patient: Fleet) -> None:
    kept = patient.publish("m", "test.sleep", "3")
    jid = _sleep(patient, "d1,d2")
    patient.wait_state(jid, "dummy:d1", "running")
    killed = type_process(patient)
    os.kill(killed, signal.SIGKILL)
    assert patient.wait_state(jid, "dummy:d1", "interrupted")
    assert patient.wait_state(kept, "m", "returned")
    wait_until(lambda: returns(patient, "d1", "test.ping") == {"d1": True}, "the type is called again")
    assert type_process(patient) != killed


def test_a_killed_job_ends_on_its_resources_and_the_device_is_free_again(patient: Fleet) -> None:
    jid = _sleep(patient, "d1,d2")
    patient.wait_state(jid, "dummy:d1", "running")
    assert patient.cli("job", "kill", jid).code == 0
    assert patient.wait_state(jid, "dummy:d1", "cancelled")
    assert patient.wait_state(jid, "dummy:d2", "cancelled")
    wait_until(lambda: returns(patient, "d1", "test.ping") == {"d1": True}, "the device is called again")


def test_the_run_time_limit_of_a_job_holds_for_its_resources(patient: Fleet) -> None:
    said = patient.cli("--run-timeout", "1", "d1", "test.sleep", str(SLEEP_S))
    assert said.code == 4
    assert "run time limit" in said.err


def test_when_the_minion_is_killed_its_type_processes_go_too_and_the_calls_are_interrupted(patient: Fleet) -> None:
    jid = _sleep(patient, "d1")
    patient.wait_state(jid, "dummy:d1", "running")
    process = type_process(patient)
    os.kill(patient.daemons["m"].pid, signal.SIGKILL)
    patient.daemons["m"].ended()
    wait_until(lambda: not alive(process), "the type's process is gone")
    patient.restart_minion("m")
    assert patient.wait_state(jid, "dummy:d1", "interrupted")
    wait_until(lambda: returns(patient, "d1", "test.ping") == {"d1": True}, "the type is called again")


def test_a_minion_that_is_stopped_ends_the_calls_of_its_resources_and_says_so(patient: Fleet) -> None:
    jid = _sleep(patient, "d1")
    patient.wait_state(jid, "dummy:d1", "running")
    process = type_process(patient)
    assert patient.daemons["m"].stop() == 0
    assert not alive(process)
    patient.restart_minion("m")
    assert patient.wait_state(jid, "dummy:d1", "interrupted")


def test_a_type_of_ones_own_is_synced_found_and_called(patient: Fleet) -> None:
    folder = patient.root("master") / "srv/salt/_resources/mine"
    write(folder / "__init__.py", CONNECTION)
    write(folder / "modules/test.py", "def ping():\n    return 'mine'\n")
    pillar = patient.root("master") / "srv/pillar/all.sls"
    pillar.write_text(json.dumps({"resources": {"mine": ["x1"]}}))
    returns(patient, "m", "saltutil.refresh_pillar")
    returns(patient, "m", "saltutil.sync_all")
    assert returns(patient, "x1", "test.ping") == {"x1": "mine"}


CONNECTION = """
def init(opts):
    pass

def initialized():
    return True

def discover(opts):
    return __pillar__["resources"]["mine"]

def grains():
    return {"role": "mine"}
"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
