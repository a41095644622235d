"""What the job verbs share: which job is meant, and how a job is described."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from saltlite.cli.columns import shorter
from saltlite.cli.durations import format_duration
from saltlite.cli.targets import targets_text, written_target
from saltlite.errors import UsageError
from saltlite.model.ids import parse_jid
from saltlite.model.labels import labels
from saltlite.model.printable import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from saltlite.cli.options import Parsed
    from saltlite.model.ids import Jid

JobRow = dict[str, Any]
"""One job as the master lists it: jid, fun, tgt, tgt_type, user, origin, created_at, counts, outcomes ..."""

TARGET_MAX = 40
"""Characters of a target in a list of jobs: a list target may have thousands."""

CALL_MAX = 2000
"""Characters of one call in a text for people."""

_OUTCOMES = ("ok", "failed", "missing", "open")


def jid_in(parsed: Parsed, verb: str) -> Jid:
    """The one word of the command line, which is a job id. Raises UsageError."""
    if len(parsed.words) != 1:
        raise UsageError(f"say which job: saltlite job {verb} JID")
    return parse_jid(parsed.words[0])


def target_text(job: Mapping[str, Any]) -> str:
    """The target as it is typed on a command line, cut short."""
    return shorter(written_target(job["tgt"], job["tgt_type"]), TARGET_MAX)


def amount(targets: Sequence[Mapping[str, Any]]) -> str:
    """How many targets these are, of the rows of `job_show`: `12 targets: 2 minions, 10 resources`."""
    resources = sum("minion" in row for row in targets)
    return targets_text(len(targets) - resources, resources)


def names_of(job: JobRow) -> dict[str, str]:
    """What people call each target of a job, as `job_show` tells it."""
    ids: tuple[list[str], list[str]] = ([], [])
    for row in job["targets"]:
        ids["minion" in row].append(row["id"])
    return labels(*ids)


def took_text(milliseconds: int) -> str:
    """A run time: `20ms`, `1.2s`, `4m`."""
    if milliseconds < 1000:
        return f"{milliseconds}ms"
    return f"{milliseconds / 1000:.1f}s" if milliseconds < 60_000 else format_duration(milliseconds / 1000)


def result_text(job: Mapping[str, Any]) -> str:
    """`3 ok, 1 failed`, and whether an operator killed it."""
    outcomes = job["outcomes"]
    parts = [f"{outcomes[name]} {name}" for name in _OUTCOMES if outcomes.get(name)]
    return ", ".join([*parts, *(["killed"] if job["cancelled_at"] is not None else [])]) or "no targets"


def call_text(fun: str, args: list[Any], kwargs: Mapping[str, Any]) -> str:
    """One call as it could be typed: plain words as they are, everything else as JSON."""
    words = [fun, *map(_word, args), *(f"{name}={_word(value)}" for name, value in kwargs.items())]
    return shorter(printable(" ".join(words)), CALL_MAX)


def _word(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and value and " " not in value:
        return value
    return json.dumps(value, ensure_ascii=False, default=repr)
