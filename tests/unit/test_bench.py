"""The benches of everyday work: who is measured when, and what the table says of it."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.bench import __main__ as bench


class Scripted:
    """A subject whose figures grow with each turn."""

    def __init__(self, name: str, cases: dict[str, bench.Figures], turns: list[str]) -> None:
        self._name = name
        self._cases = cases
        self._turns = turns

    def turn(self, case: str) -> bench.Figures:
        if case in self._cases:
            self._turns.append(f"{case} {self._name}")
        return self._cases.get(case, {})


def test_subjects_take_turns_and_the_other_one_begins_in_the_next_round() -> None:
    turns: list[str] = []
    subjects: dict[str, bench.Subject] = {
        "new": Scripted("new", {"ping": {"ping: wall, ms": 10.0}, "jobs": {"jobs/s": 200.0}}, turns),
        "old": Scripted("old", {"ping": {"ping: wall, ms": 20.0}, "jobs": {"jobs/s": 100.0}}, turns),
        "Salt": Scripted("Salt", {"ping": {"ping: wall, ms": 150.0}}, turns),
    }
    rows, noise = bench.measured(subjects, ["ping", "jobs"], 2)
    assert turns == [
        "ping Salt", "ping old", "ping new", "jobs old", "jobs new",
        "ping new", "ping old", "ping Salt", "jobs new", "jobs old",
    ]  # fmt: skip
    assert noise >= 0
    heading, ping, jobs = bench.table(rows, list(subjects))
    assert heading.split() == ["new", "old", "Salt"]
    assert ping.split()[-3:] == ["10", "2.00", "15.00"]
    assert jobs.split()[-3:] == ["200", "2.00", "-"]  # more is better, and Salt has no such row


def test_a_ratio_is_that_of_the_middle_round() -> None:
    assert bench.ratio("ping: CPU, ms", [10, 10, 10], [11, 12, 90]) == pytest.approx(1.2)
    assert bench.ratio("jobs/s", [10, 10, 10], [5, 8, 1]) == pytest.approx(2.0)


def test_a_command_that_fails_ends_the_run() -> None:
    with pytest.raises(RuntimeError, match="ended with 1"):
        bench.command("x", ["false"])
    with pytest.raises(RuntimeError, match="ended with 0: no"):
        bench.command("x", ["echo", "no"], "yes")


def test_the_commit_to_compare_with_is_a_worktree_that_goes_again() -> None:
    if subprocess.run(["git", "rev-parse", "HEAD"], cwd=bench.ROOT, capture_output=True, check=False).returncode:
        pytest.skip("this is no clone of the repository")
    with bench.worktree("HEAD") as tree:
        assert Path(tree, "saltlite/__init__.py").is_file()
    assert not tree.exists()


def test_a_tool_that_is_installed_but_fails_takes_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, code in (("ansible", 3), ("pyinfra", 0)):
        (tmp_path / name).write_text(f"#!/bin/sh\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with ExitStack() as stack:
        assert list(bench.others(tmp_path, stack)) == ["pyinfra"]
    assert "Ansible takes no part: ['ansible'," in capsys.readouterr().err
