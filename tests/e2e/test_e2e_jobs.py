"""What becomes of a job: its processes, its time limit, and what the caller is told when it does not wait."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.fleet import Fleet, alive, wait_until

pytestmark = pytest.mark.e2e

NAPS = "sleep 1000 & sleep 1000"
"""A shell with two children, one of which it does not wait for."""


def naps(fleet: Fleet) -> list[int]:
    """The pids of the fleet's `sleep 1000` processes."""
    return [pid for pid in fleet.processes() if _argv(pid) == b"sleep\x001000\x00"]


def _argv(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_a_job_is_its_own_process_group_and_kill_ends_everything_in_it(shared: Fleet) -> None:
    jid = shared.publish("a", "cmd.run", NAPS)
    wait_until(lambda: len(naps(shared)) == 2, "both sleeps run")
    pids = naps(shared)
    (job,) = shared.job_processes()
    groups = {os.getpgid(pid) for pid in [job, *pids]}
    assert groups == {job}
    assert job != os.getpgid(shared.daemons["a"].pid)

    said = shared.cli("job", "kill", jid)

    assert (said.code, said.out) == (0, "a: asked to kill it\n")
    shared.wait_state(jid, "a", "cancelled")
    wait_until(lambda: not any(map(alive, [job, *pids])), "the whole tree is gone")


def test_who_follows_a_killed_job_is_told_so(shared: Fleet) -> None:
    following = shared.start_cli("--out", "json", "a", "test.sleep", "1000")
    jid = wait_until(lambda: _running_jid(shared, "test.sleep"), "the job runs")

    assert shared.cli("job", "kill", jid).code == 0

    out, err = following.communicate(timeout=15)
    assert (following.returncode, out) == (4, "{}\n"), err
    assert "a: killed by an operator" in err


def test_killing_a_job_that_has_ended_is_refused_with_a_sentence(shared: Fleet) -> None:
    jid = shared.publish("a", "test.ping")
    shared.wait_state(jid, "a", "returned")

    said = shared.cli("job", "kill", jid)

    assert (said.code, said.out) == (3, "")
    assert "nothing to kill" in said.err


def test_the_run_time_limit_is_kept_by_the_minion(shared: Fleet) -> None:
    began = time.monotonic()

    said = shared.cli("--run-timeout", "1", "--out", "json", "a", "cmd.run", NAPS)

    took_s = time.monotonic() - began
    assert (said.code, said.out) == (4, "{}\n"), said
    assert "a: killed: it reached its run time limit" in said.err
    assert 1.0 <= took_s < 6.0
    wait_until(lambda: not naps(shared), "its processes are gone")


def test_a_job_that_ignores_sigterm_is_killed_all_the_same(shared: Fleet) -> None:
    said = shared.cli("--run-timeout", "1", "a", "cmd.run", "trap '' TERM; sleep 1000; sleep 1000")

    assert said.code == 4, said
    wait_until(lambda: not naps(shared), "its processes are gone")


def test_interrupting_the_command_line_leaves_the_job_running(shared: Fleet) -> None:
    following = shared.start_cli("a", "test.sleep", "2")
    jid = wait_until(lambda: _running_jid(shared, "test.sleep"), "the job runs")

    following.send_signal(signal.SIGINT)

    _out, err = following.communicate(timeout=15)
    assert following.returncode == 130
    assert f"saltlite job kill {jid}" in err
    assert "Traceback" not in err
    assert shared.wait_state(jid, "a", "returned", "cancelled", "interrupted") == "returned"


def test_async_prints_the_jid_and_does_not_wait(shared: Fleet) -> None:
    said = shared.cli("--async", "*", "test.sleep", "3")

    found = re.search(r"\b\d{20}\b", said.out)
    assert said.code == 0
    assert found is not None, said
    states = shared.states(found[0])
    assert set(states) == {"a", "b"}
    assert "returned" not in states.values()
    for minion in ("a", "b"):
        shared.wait_state(found[0], minion, "returned")


def _running_jid(fleet: Fleet, fun: str) -> str:
    with fleet.store() as store:
        for event in reversed(list(store.events(0, 10**6))):
            if event.tag.endswith("/new") and event.tag.startswith("salt/job/"):
                jid = event.tag.split("/")[2]
                job = store.job(jid)  # type: ignore[arg-type] # a tag has only jids
                if job is not None and job.fun == fun and "running" in fleet.states(jid).values():
                    return jid
    return ""
