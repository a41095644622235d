"""The state of one (jid, target): which moves there are.

Rules of this file: a state never goes back; a terminal state never changes; silence moves nothing. The store
applies the same rule in one comparison: a row takes a new state when its rank is higher and it is not
terminal. What a minion runs cannot end as if it had never begun there: a minion that says so does not know the
job, because its disk has an older state or another machine has its key, and the job is LOST.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from saltlite.master.store.ports import PartRow, TargetRow
from saltlite.model.job import TERMINAL, TargetState

TERMINAL_RANK = 9

RANK: dict[TargetState, int] = {
    TargetState.PLANNED: -1,
    TargetState.QUEUED: 0,
    TargetState.RECEIVED: 1,
    TargetState.RUNNING: 2,
    **dict.fromkeys(TERMINAL, TERMINAL_RANK),
}

NEVER_RAN = frozenset({TargetState.REFUSED, TargetState.EXPIRED, TargetState.CANCELLED})
"""Ends that a minion reports of a job whose function was not entered. One that was killed while it ran has a return."""

Heard = TypeVar("Heard", TargetRow, PartRow)


def believed(current: TargetState, heard: Heard) -> Heard:
    """What a minion's report amounts to, for a target in state `current`."""
    if current is TargetState.RUNNING and heard.state in NEVER_RAN:
        reason = f"the minion ran it and does not know it any more ({heard.reason})"
        return replace(heard, state=TargetState.LOST, reason=reason)
    return heard


def advance(current: TargetState, heard: TargetState) -> TargetState:
    """The state after `heard` was reported: the further of the two, and the first terminal one."""
    return heard if RANK[heard] > RANK[current] else current
