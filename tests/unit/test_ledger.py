"""What a run of the tests reports: durations, failures, skips, and tests in quarantine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import LONGEST

ROOT = Path(__file__).parents[2]
TESTS = """
import os, pytest

assert "PYTEST_ADDOPTS" not in os.environ, "programs that tests start would get the options of this run"

@pytest.mark.quarantine("a race of two sockets")
def test_races(): assert 0

@pytest.mark.quarantine("a race that is mended")
def test_raced(): pass

@pytest.mark.skip(reason="no such program")
def test_program(): pass

def test_passes(): pass

def test_fails(): assert {outcome}
"""


def ran(folder: Path, *, outcome: bool) -> tuple[int, dict[str, Any]]:
    """The exit code and the ledger of a run of TESTS."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  quarantine(cause): x\n")
    (folder / "test_some.py").write_text(TESTS.format(outcome=outcome))
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider"]
    words = ["-c", str(folder / "pytest.ini"), f"--ledger={folder}/ledger.json", str(folder / "test_some.py")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugins, *words], cwd=ROOT, capture_output=True, timeout=60,
        check=False, env=os.environ | {"PYTEST_ADDOPTS": "-v"},
    )  # fmt: skip
    return done.returncode, json.loads((folder / "ledger.json").read_text())


def names(found: dict[str, str]) -> list[str]:
    return [nodeid.rpartition("::")[2] for nodeid in found]


@pytest.mark.parametrize("outcome", [True, False])
def test_a_failure_in_quarantine_is_reported_with_its_cause_and_does_not_fail_the_run(
    tmp_path: Path, *, outcome: bool
) -> None:
    code, ledger = ran(tmp_path, outcome=outcome)
    assert code == (0 if outcome else 1)
    assert names(ledger["failed"]) == ([] if outcome else ["test_fails"])
    assert names(ledger["quarantined"]) == ["test_races"]
    assert "a race of two sockets" in next(iter(ledger["quarantined"].values()))
    assert names(ledger["skipped"]) == ["test_program"]
    assert ledger["passed"] == (3 if outcome else 2)
    assert len(ledger["slowest_tests"]) == 5


def test_the_files_that_begin_first_are_there() -> None:
    assert [path for path in LONGEST if not (ROOT / path).is_file()] == []
