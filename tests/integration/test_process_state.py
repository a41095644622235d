"""What a job leaves behind in its process is found, whatever it is."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import cache

import pytest

from tests.support.left_behind import CASES, HARMLESS


@cache
def found() -> dict[str, str]:
    """The difference that each function left, as a program saw it that forks for each."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.left_behind"], capture_output=True, text=True, timeout=50, check=True
    )
    differences: dict[str, str] = json.loads(done.stdout)
    return differences


@pytest.mark.parametrize("name", CASES)
def test_a_process_that_a_function_has_changed_is_told_from_one_as_before(name: str) -> None:
    assert found()[name] != ""


@pytest.mark.parametrize("name", HARMLESS)
def test_a_process_whose_function_left_nothing_is_as_before(name: str) -> None:
    assert found()[name] == ""
