"""How a job ended: the exit code, and one true sentence for each minion that did not return."""

from __future__ import annotations

from saltlite.cli import exitcodes
from saltlite.cli.durations import format_duration

TYPE_CHECKING = False  # typing costs as much start-up time as all of the command line
if TYPE_CHECKING:
    from saltlite.client.waiting import Progress

# How each state other than `returned` is told, and the exit code that it stands for.
_STATES = {
    "queued": ("did not acknowledge the job", exitcodes.MISSING),
    "received": ("has the job and did not start it yet", exitcodes.MISSING),
    "running": ("still running", exitcodes.MISSING),
    "refused": ("refused the job", exitcodes.REFUSED),
    "expired": ("not reached before the delivery time was over", exitcodes.MISSING),
    "cancelled": ("killed by an operator", exitcodes.FAILED),
    "timed_out": ("killed at the end of its run time", exitcodes.FAILED),
    "interrupted": ("the job's process ended without a result", exitcodes.FAILED),
    "lost": ("came back with another disk, which knows nothing of the job", exitcodes.MISSING),
    "revoked": ("its key was revoked before it returned", exitcodes.MISSING),
}

_REASON_SAYS_ALL = frozenset({"cancelled", "timed_out", "interrupted", "revoked", "lost"})


def exit_code(progress: Progress) -> int:
    """The code for the whole job; of several the first in WORST_FIRST."""
    codes = {_STATES.get(progress.states[m], ("", exitcodes.MISSING))[1] for m in progress.missing()}
    if any(reply.state == "returned" and reply.failed() for reply in progress.replies.values()):
        codes.add(exitcodes.FAILED)
    if progress.published.unknown:
        codes.add(exitcodes.MISSING)
    return next((code for code in exitcodes.WORST_FIRST if code in codes), exitcodes.OK)


def open_minions(progress: Progress) -> list[str]:
    """The minions on which the job may still go on."""
    return [m for m in progress.missing() if progress.states[m] in ("queued", "received", "running")]


def missing_lines(progress: Progress, *, waited_s: float, now: float) -> list[str]:
    """`id: why`, sorted by id. `now` is wall-clock seconds since 1970."""
    why = {m: _why(progress, m, waited_s, now) for m in progress.missing()}
    why |= progress.published.unknown
    return [f"{m}: {reason}" for m, reason in sorted(why.items())]


def failed_lines(progress: Progress) -> list[str]:
    """One line for each minion whose function failed, sorted by id; its return says how."""
    failed = [reply for reply in progress.replies.values() if reply.state == "returned" and reply.failed()]
    return [f"{reply.id}: failed with retcode {reply.retcode}" for reply in sorted(failed, key=lambda reply: reply.id)]


def _why(progress: Progress, minion: str, waited_s: float, now: float) -> str:
    state, away = progress.states[minion], progress.published.away
    if state == "queued" and minion in away:
        last_seen = away[minion]
        if last_seen is None:
            return "never connected"
        return f"not connected (last seen {format_duration(now - last_seen)} ago)"
    if state == "queued":
        return f"did not acknowledge the job within {format_duration(waited_s)}"
    if state == "returned":
        return "returned, but the master does not have the return"
    said = _STATES.get(state, (state,))[0]
    reason = progress.reasons.get(minion)
    if reason and state in _REASON_SAYS_ALL:
        return reason
    return f"{said}: {reason}" if reason else said
