"""How a job ended: the exit code, and for each target that did not return one true sentence and what to do.

A resource is reached through its managing minion, so sentences about reaching, acknowledging and refusing name that
minion.
"""

from __future__ import annotations

import time

from saltlite.cli import exitcodes
from saltlite.cli.options import format_duration, parse_duration
from saltlite.cli.targets import natural_key, targets_text
from saltlite.errors import UsageError

TYPE_CHECKING = False  # importing typing takes as long as the rest of the command line
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saltlite.client.follower import Progress, Published

UNKNOWN = "unknown"
"""The state of a requested name that no accepted minion or resource has."""

LINES_MAX = 10
"""At most this many targets have a line each for the same sentence; more share one line."""

_WATCH = "saltlite job watch {jid}"
_AGAIN = "saltlite job rerun {jid} --missing"

# For each state other than `returned`: the sentence, the exit code, and a command that helps.
_STATES = {
    "planned": ("its turn in the batches has not come", exitcodes.MISSING, _WATCH),
    "queued": ("did not acknowledge the job", exitcodes.MISSING, _WATCH),
    "received": ("has the job and did not start it yet", exitcodes.MISSING, _WATCH),
    "running": ("has the job", exitcodes.MISSING, _WATCH),
    "refused": ("refused the job", exitcodes.REFUSED, ""),
    "expired": ("not reached before the delivery time was over", exitcodes.MISSING, _AGAIN),
    "cancelled": ("killed by an operator", exitcodes.FAILED, _AGAIN),
    "timed_out": ("killed at the end of its run time", exitcodes.FAILED, _AGAIN),
    "interrupted": ("the job's process ended without a result", exitcodes.FAILED, _AGAIN),
    "lost": ("came back with another disk, which knows nothing of the job", exitcodes.MISSING, _AGAIN),
    "revoked": ("its key was revoked before it returned", exitcodes.MISSING, ""),
}

_OF_ITS_MINION = frozenset({"queued", "received", "running", "refused", "expired"})
"""States whose sentence is about the managing minion of a resource and begins with its name."""

_ABOUT_ITS_MINION = frozenset({"lost", "revoked"})
"""States whose reason is about that minion and does not name it."""

_REASON_SAYS_ALL = frozenset({"cancelled", "timed_out", "interrupted", "revoked", "lost"})
_OPEN = ("planned", "queued", "received", "running")


class Known:
    """What else is known when a job is summed up. `now` is seconds since 1970; the others are durations in seconds."""

    __slots__ = ("absences", "now", "seen_ago", "waited_s")

    def __init__(
        self,
        *,
        now: float,
        waited_s: float,
        seen_ago: Mapping[str, float | None] | None = None,
        absences: Mapping[str, str] | None = None,
    ) -> None:
        self.now = now
        self.waited_s = waited_s
        self.seen_ago = seen_ago or {}
        """How long ago the master last saw each minion; None for one that has no session any more."""
        self.absences = absences or {}
        """Why each of the latter has none, where that is known."""


class Missing:
    """One target, or unknown name, without a return."""

    __slots__ = ("hint", "id", "last_seen", "name", "reason", "state")

    def __init__(
        self, target: str, state: str, reason: str, *, name: str = "", last_seen: float | None = None, hint: str = ""
    ) -> None:
        self.id = target
        self.name = name or target
        """Its display name."""
        self.state = state
        self.reason = reason
        self.last_seen = last_seen
        """When its minion was last seen, in seconds since 1970; None if unknown."""
        self.hint = hint
        """A command that helps, or ""."""


RETCODE_MAX = 255
"""The highest exit code of a process."""


def exit_code(progress: Progress, *, passthrough: bool = False) -> int:
    """The code for the whole job; of several the first in WORST_FIRST.

    With `passthrough` it is the highest return code of the functions instead of FAILED, if one has failed.
    """
    states = {progress.states[m] for m in progress.missing()}
    codes = {_STATES[state][1] if state in _STATES else exitcodes.MISSING for state in states}
    if progress.failed():
        codes.add(exitcodes.FAILED)
    if progress.published.unknown:
        codes.add(exitcodes.MISSING)
    code = next((code for code in exitcodes.WORST_FIRST if code in codes), exitcodes.OK)
    if passthrough and code == exitcodes.FAILED and (failed := progress.failed()):
        highest = max(progress.retcodes[target] for target in failed)
        return highest if 0 < highest <= RETCODE_MAX else RETCODE_MAX
    return code


def open_targets(progress: Progress) -> list[str]:
    """The targets on which the job may still run."""
    return [target for target in progress.missing() if progress.states[target] in _OPEN]


def amount(progress: Progress, targets: Sequence[str]) -> str:
    """The number of these targets: `2 minions`, `1 resource`, `12 targets: 2 minions, 10 resources`."""
    resources = sum(target in progress.published.managing for target in targets)
    return targets_text(len(targets) - resources, resources)


def missing(progress: Progress, known: Known) -> list[Missing]:
    """The targets without a return and why, sorted by name."""
    found = [missing_one(progress, target, known) for target in progress.missing()]
    found += [Missing(name, UNKNOWN, reason) for name, reason in progress.published.unknown.items()]
    return sorted(found, key=lambda one: natural_key(one.name))


def missing_one(progress: Progress, target: str, known: Known) -> Missing:
    """Why this target has not returned."""
    published, state = progress.published, progress.states[target]
    carrier = published.carrier(target)
    hint = _STATES[state][2].format(jid=published.jid) if state in _STATES else ""
    last_seen = published.away.get(carrier) if progress.is_away(target) else None
    if state == "queued" and known.seen_ago.get(carrier) is not None:
        last_seen = known.now - (known.seen_ago[carrier] or 0.0)
    name, why = published.name(target), _why(progress, target, known)
    return Missing(target, state, why, name=name, last_seen=last_seen, hint=hint)


def notes(progress: Progress) -> list[tuple[str, str]]:
    """Targets that sent a note with their return, for example that a function is deprecated."""
    returned = sorted(progress.states.keys() - progress.missing(), key=natural_key)
    return [(progress.published.name(one), note) for one in returned if (note := progress.reasons.get(one, ""))]


def failures(progress: Progress) -> list[tuple[str, str]]:
    """Targets whose function failed, and how, sorted by id."""
    return [
        (progress.published.name(target), f"failed with retcode {progress.retcodes[target]}")
        for target in sorted(progress.failed(), key=natural_key)
    ]


def lines(rows: Sequence[tuple[str, str]], kind: str = "minions") -> list[str]:
    """`name: sentence` for each pair; more than LINES_MAX with the same sentence share one line.

    Sentences that differ only in how long ago something was count as the same, because a large fleet has many minions
    that went away at different times; their line has the shortest and the longest time. `kind` is their noun: minions,
    resources, targets.
    """
    if len(rows) <= LINES_MAX:
        return [f"{name}: {sentence}" for name, sentence in rows]
    from saltlite.cli.targets import nodeset

    groups: dict[tuple[str, str], dict[str, str]] = {}
    for name, sentence in rows:
        before, ago, behind = _around_time(sentence)
        groups.setdefault((before, behind), {})[name] = ago
    many = {around: agos for around, agos in groups.items() if len(agos) > LINES_MAX}
    shared = []
    for (before, behind), agos in many.items():
        times = sorted(set(agos.values()), key=lambda ago: parse_duration(ago or "0"))
        ago = times[0] if len(times) == 1 else f"{times[0]} to {times[-1]}"
        shared.append(f"{len(agos)} {kind}: {before}{ago}{behind}: {nodeset(agos)}")
    named = {name for agos in many.values() for name in agos}
    return [f"{name}: {sentence}" for name, sentence in rows if name not in named] + sorted(shared)


def _around_time(sentence: str) -> tuple[str, str, str]:
    """The sentence before, in and behind the time that it gives, as in `(last seen 4m ago)`."""
    for words in ("last seen ", "running for "):
        before, found, rest = sentence.partition(words)
        ago = rest[: next((at for at, char in enumerate(rest) if char in " ,;:)"), len(rest))]
        if found and _is_duration(ago):
            return before + found, ago, rest[len(ago) :]
    return sentence, "", ""


def _is_duration(text: str) -> bool:
    """False for other text: a minion's words can be in the sentence."""
    try:
        return parse_duration(text) >= 0.0
    except UsageError:
        return False


def delivery_end(published: Published) -> float:
    """Until when the job waits to reach its targets, in seconds since 1970; its id has the time of the publish."""
    from calendar import timegm  # slow to import, and not needed when all minions are connected

    jid = published.jid
    fields = [int(jid[start:end]) for start, end in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 12), (12, 14))]
    return timegm((*fields, 0, 0, 0)) + published.deliver_s


def local_time(when: float, now: float) -> str:
    """The local time of day, with the date unless that is today's."""
    there, here = time.localtime(when), time.localtime(now)
    return time.strftime("%H:%M:%S" if there[:3] == here[:3] else "%Y-%m-%d %H:%M:%S", there)


def summary(progress: Progress, missing_count: int) -> dict[str, int]:
    """Counts: `targeted`, `resources` among them, `returned`, `failed` among them, and `missing`, which includes
    unknown names.
    """
    targeted = len(progress.states) + len(progress.published.unknown)
    return {
        "targeted": targeted,
        "resources": len(progress.published.managing),
        "returned": targeted - missing_count,
        "failed": len(progress.failed()),
        "missing": missing_count,
    }


def _why(progress: Progress, target: str, known: Known) -> str:
    state = progress.states[target]
    manager = progress.published.manager(target)
    if progress.is_away(target):
        return _away(progress.published, progress.published.carrier(target), manager, known)
    if state == "returned":
        return "returned, but the master does not have the return"
    reason = progress.reasons.get(target, "")
    if reason and state in _REASON_SAYS_ALL:
        return f"managed by {manager}: {reason}" if manager and state in _ABOUT_ITS_MINION else reason
    sentence = _STATES[state][0] if state in _STATES else state
    if state == "queued":
        sentence, reason = _silent(progress.published.carrier(target), known), ""
    elif state == "running" and target in progress.moved_at:
        sentence = f"has the job, running for {format_duration(known.now - progress.moved_at[target])}"
    carrier = progress.published.carrier(target)
    if state in ("received", "running") and known.seen_ago.get(carrier, 0.0) is None:
        why = known.absences.get(carrier, "")
        sentence = f"{sentence}, and is not connected any more{why and f': {why}'}"
    if manager and state in _OF_ITS_MINION:
        sentence = f"its managing minion {manager} {'was ' if state == 'expired' else ''}{sentence}"
    return f"{sentence}: {reason}" if reason else sentence


def _away(published: Published, minion: str, manager: str, known: Known) -> str:
    last_seen, why = published.away[minion], published.absences.get(minion, "")
    if last_seen is None:
        return f"its managing minion {manager} never connected" if manager else "never connected"
    is_not = f"its managing minion {manager} is not connected" if manager else "not connected"
    return f"{is_not}{why and f': {why}'} (last seen {format_duration(known.now - last_seen)} ago)"


def _silent(minion: str, known: Known) -> str:
    sentence = f"did not acknowledge the job within {format_duration(known.waited_s)}"
    if minion not in known.seen_ago:
        return sentence
    ago, why = known.seen_ago[minion], known.absences.get(minion, "")
    gone = f"not connected any more: {why}" if why else "its connection is gone"
    return f"{sentence} ({gone if ago is None else f'last seen {format_duration(ago)} ago'})"
