"""The states of a master's lease and of its draining."""

from __future__ import annotations

from itertools import product

import pytest

from saltlite.master.protocol.lease import Draining, LinkState

STEPS = ("after_grant", "after_lease", "after_reset", "after_restart")


@pytest.mark.parametrize(("state", "step"), list(product(LinkState, STEPS)))
def test_a_step_changes_the_lease_or_the_sessions_alone(state: LinkState, step: str) -> None:
    after = getattr(state, step)()
    if state is LinkState.UNKNOWN:
        assert after is state
        return
    has_lease = {"after_grant": True, "after_lease": False}.get(step, state.has_lease)
    is_stale = {"after_restart": True, "after_reset": False}.get(step, state.is_stale)
    assert (after.has_lease, after.is_stale) == (has_lease, is_stale)


def test_a_master_that_was_draining_when_it_was_fenced_drains_again_until_an_operator_ends_it() -> None:
    fenced = Draining.NO.after_renewal(is_stored=True).after_restart()
    assert fenced is fenced.after_renewal(is_stored=False) is fenced.after_restart() is Draining.AGAIN
    drained = fenced.after_renewal(is_stored=True)
    assert (drained, drained.after_renewal(is_stored=False)) == (Draining.YES, Draining.NO)
    assert Draining.NO.after_restart() is Draining.NO
