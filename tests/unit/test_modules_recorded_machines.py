"""What the modules of a machine make of what other machines said, a file of `tests/data/machines` a case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.machine import machine_in, play

CASES = sorted((Path(__file__).parents[1] / "data" / "machines").glob("*.txt"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_function_returns_what_was_recorded(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machine_in(tmp_path, monkeypatch)
    recorded = play(path, machine)
    value = machine(recorded.fun, *recorded.args)
    assert json.loads(json.dumps(value)) == recorded.returns
