"""The state of one (jid, minion): which moves there are.

Rules of this file: a state never goes back; a terminal state never changes; silence moves nothing. The store
applies the same rule in one comparison: a row takes a new state when its rank is higher and it is not
terminal.
"""

from __future__ import annotations

from saltlite.model.job import TERMINAL, TargetState

TERMINAL_RANK = 9

RANK: dict[TargetState, int] = {
    TargetState.QUEUED: 0,
    TargetState.RECEIVED: 1,
    TargetState.RUNNING: 2,
    **dict.fromkeys(TERMINAL, TERMINAL_RANK),
}


def advance(current: TargetState, heard: TargetState) -> TargetState:
    """The state after `heard` was reported: the further of the two, and the first terminal one."""
    return heard if RANK[heard] > RANK[current] else current
