"""How a job ends that did not return: its state, its code, its reason, and how the journal spells them.

A REFUSED record, and a DONE record of a job that left no result on disk, has the reason `state:text`.
"""

from __future__ import annotations

from saltlite.model.job import TargetState
from saltlite.wire.messages import REASON_MAX

CANCELLED_CODE = 143
TIMED_OUT_CODE = 124
INTERRUPTED_CODE = 1
CANCELLED_AHEAD = "cancelled before it arrived"
"""The reason of a job that was cancelled before the minion had heard of it."""
SEGMENT_UNREADABLE = "its result could not be read again from the minion's disk"
"""The reason of resources whose answers were lost with a segment."""

_DECIDED: dict[TargetState | None, tuple[TargetState, int, str]] = {
    TargetState.TIMED_OUT: (TargetState.TIMED_OUT, TIMED_OUT_CODE, "killed: it reached its run time limit"),
    TargetState.CANCELLED: (TargetState.CANCELLED, CANCELLED_CODE, "killed by an operator"),
}
"""What a job that was killed returns when it left nothing itself."""


def ending(decided: TargetState | None, why: str) -> tuple[TargetState, int, str]:
    """State, code and reason of a job that left no result: as it was decided, or interrupted with `why`."""
    return _DECIDED.get(decided, (TargetState.INTERRUPTED, INTERRUPTED_CODE, why[:REASON_MAX]))


def spelled(state: TargetState, reason: str) -> str:
    """What a record of the journal has as its reason."""
    return f"{state}:{reason[:REASON_MAX]}"


def read_spelled(text: str) -> tuple[TargetState, str]:
    """State and reason from what `spelled` made; other text is a refusal for that reason."""
    state, _, reason = text.partition(":")
    try:
        return TargetState(state), reason
    except ValueError:
        return TargetState.REFUSED, text


def disk_full(why: str) -> str:
    """The reason of a job that was refused because nothing can be remembered of it."""
    return f"the minion's disk is full ({why})"


def without_result(how: str) -> str:
    """The reason of a job whose process left nothing; `how` is a phrase such as "killed by SIGKILL"."""
    return f"its process ended without a result ({how})"


def result_unwritten(why: str) -> str:
    """The reason of a job whose result was made, and did not reach the disk."""
    return f"its result could not be written: {why}"
