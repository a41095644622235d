"""The clock and its twin."""

from __future__ import annotations

import time

import pytest

from saltlite.model.clock import Clock
from saltlite.platform.daemon import ManualClock, SystemClock


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()])
def test_both_clocks_give_entropy_of_the_length_asked_for_and_never_the_same_twice(clock: Clock) -> None:
    assert len(clock.entropy(32)) == 32
    assert clock.entropy(32) != clock.entropy(32)


@pytest.mark.parametrize("clock", [SystemClock(), ManualClock()])
def test_both_clocks_keep_jitter_in_its_bounds(clock: Clock) -> None:
    assert all(2.0 <= clock.uniform(2.0, 3.0) <= 3.0 for _ in range(100))


def test_the_system_clock_tells_the_time_of_the_machine() -> None:
    before = time.time()
    assert before <= SystemClock().wall() <= time.time()


def test_a_manual_clock_stands_still_until_time_is_let_pass() -> None:
    clock = ManualClock(wall=100.0, monotonic=5.0)
    assert (clock.wall(), clock.monotonic()) == (100.0, 5.0)
    clock.advance(2.5)
    assert (clock.wall(), clock.monotonic()) == (102.5, 7.5)


def test_a_wall_clock_that_jumps_leaves_the_monotonic_one_alone() -> None:
    clock = ManualClock(wall=100.0, monotonic=5.0)
    clock.jump_wall(-3600)
    assert (clock.wall(), clock.monotonic()) == (-3500.0, 5.0)


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="jump_wall"):
        ManualClock().advance(-1)


def test_manual_clocks_of_one_seed_give_the_same_run() -> None:
    first, second, other = ManualClock(seed=7), ManualClock(seed=7), ManualClock(seed=8)
    assert first.entropy(16) == second.entropy(16)
    assert first.uniform(0, 1) == second.uniform(0, 1)
    assert first.entropy(16) != other.entropy(16)
