"""Masters and minions by the hundred, and whatever can break: G1 to G9 hold in every seed.

`SALTLITE_SEEDS` says how many seeds are run, by default as many as test_simulation_mutants.py needs to see each of its
bugs; `SALTLITE_SEED_START` which is the first: a search for new failures takes thousands that no run has had yet. A
seed that fails is shown whole by `python -m tests.simulation --seed N --trace`, and belongs into seeds.txt once it is
understood.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from tests.simulation.story import Outcome, play
from tests.support.guarantees import Violation, report

SEEDS = int(os.environ.get("SALTLITE_SEEDS", "40"))
START = int(os.environ.get("SALTLITE_SEED_START", "0"))
CHUNK = 10
FIRST = 12
"""Seeds that several tests look at."""
REMEMBERED = [
    (int(line.split()[0]), " ".join(line.split()[1:]))
    for line in (Path(__file__).parent / "seeds.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


@functools.cache
def first_of(seed: int) -> Outcome:
    """The run of one of the FIRST seeds."""
    return play(seed)


@functools.cache
def violations_of(seed: int) -> list[Violation]:
    """What a run has violated. Most seeds that once found something are among the first too."""
    return (first_of(seed) if seed < FIRST else play(seed)).violations


@pytest.mark.parametrize("first", range(START, START + SEEDS, CHUNK))
def test_every_guarantee_holds_whatever_breaks(first: int) -> None:
    for seed in range(first, min(first + CHUNK, START + SEEDS)):
        violations = violations_of(seed)
        assert not violations, f"seed {seed}: {report(violations)}"


@pytest.mark.parametrize(("seed", "found"), REMEMBERED)
def test_what_a_seed_once_found_stays_mended(seed: int, found: str) -> None:
    violations = violations_of(seed)
    assert not violations, f"seed {seed}, which once found: {found}\n{report(violations)}"


def test_a_seed_repeats_its_run_to_the_last_event() -> None:
    first, second = first_of(5), play(5)
    assert first.steps == second.steps
    assert first.fleet.history.events == second.fleet.history.events


def test_the_runs_do_break_things_and_do_run_jobs() -> None:
    kinds: dict[str, int] = {}
    faults: set[str] = set()
    for seed in range(FIRST):
        outcome = first_of(seed)
        faults |= set(outcome.faults)
        for event in outcome.fleet.history.events:
            kinds[event.kind] = kinds.get(event.kind, 0) + 1
    assert len(faults) >= 12
    assert all(kinds[kind] > 50 for kind in ("published", "entered", "spooled", "stored", "shown", "closed"))
