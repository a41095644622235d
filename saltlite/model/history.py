"""The job history: filters for past jobs, and the rows of jobs and targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from saltlite.model.ids import Jid, TargetId
from saltlite.model.job import TERMINAL, Return, Target, TargetState


class Outcome(StrEnum):
    """What became of one (jid, target), as an operator asks for it."""

    OPEN = "open"  # not settled
    OK = "ok"  # returned, with retcode 0
    MISSING = "missing"  # settled without the function having run to an end: expired, cancelled, lost, revoked
    FAILED = "failed"  # refused, killed by its time limit, interrupted, or returned with another retcode


BAD_STATES = frozenset({TargetState.REFUSED, TargetState.TIMED_OUT, TargetState.INTERRUPTED})


def outcome_of(state: TargetState, retcode: int | None = None) -> Outcome:
    """The outcome that a state stands for; `retcode` is that of the return, None without one.

    A return that comes after its target was settled otherwise still says what became of it.
    """
    if state in BAD_STATES or (retcode is not None and retcode != 0):
        return Outcome.FAILED
    if state not in TERMINAL:
        return Outcome.OPEN
    if state is TargetState.RETURNED:
        return Outcome.OK
    return Outcome.MISSING


def outcome_of_return(ret: Return) -> Outcome:
    """The outcome that a return stands for."""
    return outcome_of(ret.state, ret.retcode)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs. What is None or empty does not narrow; times are wall-clock seconds since 1970."""

    minion: TargetId | None = None
    """A minion, with the resources that it manages, or one resource."""
    fun: str = ""
    """A shell-style glob; a job of several functions is found by any of them."""
    user: str = ""
    since: float | None = None
    """Made at this time or later."""
    until: float | None = None
    """Made before this time."""
    outcome: Outcome | None = None
    """FAILED, MISSING, OPEN: at least one target is. OK: every target is. With `minion` only its targets count."""
    before: Jid | None = None
    """The cursor: only jobs with a lower jid, which is where the page before ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSummary:
    """One job without its body and its target list. `counts` and `outcomes` name only what there is."""

    jid: Jid
    fun: str
    target: Target
    user: str
    uid: int
    origin: str
    created_at: float
    deliver_ms: int
    run_ms: int
    cancelled_at: float | None
    """When an operator ended it; None when nobody did."""
    cancelled_by: str
    counts: Mapping[TargetState, int]
    outcomes: Mapping[Outcome, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDetail:
    """How far one target has come with one job, and its return without the body.

    `retcode`, `started_at` (the minion's wall clock) and `duration_ms` are None without a return.
    """

    id: TargetId
    state: TargetState
    reason: str
    changed_at: float
    outcome: Outcome
    retcode: int | None
    started_at: float | None
    duration_ms: int | None
