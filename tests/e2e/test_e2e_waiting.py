"""What the command line does while a job runs: follow it, be interrupted, or not wait at all."""

from __future__ import annotations

import re
import signal

import pytest

from tests.e2e.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e


def running_jid(fleet: Fleet, minion: str) -> str:
    """The jid of the one job that this minion runs, as soon as the master knows."""
    jid = next(iter(wait_until(lambda: fleet.running_jobs(minion), "the job runs")))
    fleet.wait_state(jid, minion, "running")
    return jid


def end(fleet: Fleet, jid: str, *minions: str) -> None:
    """Leave the fleet as it was."""
    assert fleet.cli("job", "kill", jid).code == 0
    for minion in minions:
        fleet.wait_state(jid, minion, "cancelled")


def test_interrupting_the_command_line_leaves_the_job_running(shared: Fleet) -> None:
    following = shared.start_cli("a", "test.sleep", "30")
    jid = running_jid(shared, "a")

    following.send_signal(signal.SIGINT)

    _, err = following.communicate(timeout=15)
    assert following.returncode == 130
    assert f"saltlite job kill {jid}" in err
    assert "Traceback" not in err
    assert jid in shared.running_jobs("a")
    end(shared, jid, "a")


def test_async_prints_the_jid_and_does_not_wait(shared: Fleet) -> None:
    said = shared.cli("--async", "[ab]", "test.sleep", "30")

    found = re.search(r"\b\d{20}\b", said.out)
    assert said.code == 0
    assert found is not None, said
    states = shared.states(found[0])
    assert set(states) == {"a", "b"}
    assert "returned" not in states.values()
    end(shared, found[0], "a", "b")


def test_killing_a_job_that_has_ended_is_refused_with_a_sentence(shared: Fleet) -> None:
    jid = shared.publish("a", "test.ping")
    shared.wait_state(jid, "a", "returned")

    said = shared.cli("job", "kill", jid)

    assert (said.code, said.out) == (3, "")
    assert "nothing to kill" in said.err
