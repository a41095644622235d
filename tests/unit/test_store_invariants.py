"""The state of one target moves forward only, and the first end is final."""

from __future__ import annotations

import itertools

import pytest

from saltlite.master.store.ports import NEVER_RAN, TargetRow, advance, effective_state
from saltlite.model.ids import MinionId
from saltlite.model.job import TERMINAL, TargetState

ORDER = [TargetState.QUEUED, TargetState.RECEIVED, TargetState.RUNNING]


@pytest.mark.parametrize(("current", "heard"), list(itertools.product(ORDER, ORDER)))
def test_the_further_of_two_states_counts(current: TargetState, heard: TargetState) -> None:
    assert advance(current, heard) is max(current, heard, key=ORDER.index)


@pytest.mark.parametrize(("current", "heard"), list(itertools.product(ORDER, sorted(TERMINAL))))
def test_every_open_state_may_end_in_every_way(current: TargetState, heard: TargetState) -> None:
    assert advance(current, heard) is heard


@pytest.mark.parametrize(("current", "heard"), list(itertools.product(sorted(TERMINAL), TargetState)))
def test_an_end_is_final(current: TargetState, heard: TargetState) -> None:
    assert advance(current, heard) is current


@pytest.mark.parametrize("state", sorted(NEVER_RAN))
def test_what_ran_cannot_end_as_if_it_had_never_begun(state: TargetState) -> None:
    """Another disk, or another machine with its key: it was killed there, or refused, and may run on elsewhere."""
    heard = TargetRow(MinionId("web1"), state, "cancelled before it arrived", 1.0)
    lost = effective_state(TargetState.RUNNING, heard)
    assert (lost.state, "cancelled before it arrived" in lost.reason) == (TargetState.LOST, True)
    assert effective_state(TargetState.RECEIVED, heard) is heard
