"""What a job leaves behind in its process is found, whatever it is."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import pytest

from saltlite.minion.jobs import process_state
from saltlite.minion.jobs.process_state import ProcessState
from tests.support.left_behind import CASES, HARMLESS


@cache
def found() -> dict[str, str]:
    """The difference that each function left, as a program saw it that forks for each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.left_behind"], capture_output=True, text=True, timeout=60, check=True
    )
    differences: dict[str, str] = json.loads(done.stdout)
    return differences


@pytest.mark.parametrize("name", CASES)
def test_a_process_that_a_function_has_changed_is_told_from_one_as_before(name: str) -> None:
    assert found()[name] != ""


@pytest.mark.parametrize("name", HARMLESS)
def test_a_process_whose_function_left_nothing_is_as_before(name: str) -> None:
    assert found()[name] == ""


def test_a_process_ends_after_so_many_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    state = ProcessState({})
    monkeypatch.setattr(process_state, "JOBS_MAX", 1)
    assert state.difference() == "the number of its jobs"


def test_a_state_that_cannot_be_read_counts_as_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_args: int) -> int:
        raise PermissionError

    state = ProcessState({})
    monkeypatch.setattr("os.getpriority", refused)
    assert state.difference() == "something that cannot be read (PermissionError)"
