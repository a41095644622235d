"""The text of a crontab: which of its lines are jobs that are looked after here, and how they are written.

Lines stand in a crontab in their order, and what is not changed is written as it was read. Below the line `TAG` jobs
and variables are looked after; a comment above a job belongs to it, and may hold its identifier. What is no job there
is kept and left alone. It knows nothing of users and programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

TAG = "# Lines below here are managed by Salt, do not edit"
"""Salt's line, so that a crontab may be looked after by both."""

IDENTIFIER = "SALT_CRON_IDENTIFIER"
DISABLED = "#DISABLED#"
EMPTY = '""'
"""How an empty variable is written."""
TIMES = ("minute", "hour", "daymonth", "month", "dayweek")

_ENV = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")


@dataclass(slots=True)
class Entry:
    """A job (`minute` … or `spec` in `values`), a variable (`name` and `value`), or lines of something else."""

    values: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    """As they were read; empty for what is new or has changed."""

    @property
    def kind(self) -> str:
        """The key of `cron.list_tab` that it belongs to, or "" for something else."""
        keys = {"minute": "crons", "spec": "special", "name": "env"}
        return next((kind for key, kind in keys.items() if key in self.values), "")

    def matches(self, cmd: str, identifier: str | None) -> bool:
        """Whether a job is the one that is meant: by identifier, or where it has none by its command."""
        if self.kind not in {"crons", "special"}:
            return False
        own = self.values["identifier"]
        return own == identifier if own is not None else bool(self.values["cmd"] == cmd)

    def text(self) -> list[str]:
        """Its lines."""
        if self.lines or not self.values:
            return self.lines
        if self.kind == "env":
            return [f"{self.values['name']}={self.values['value'] or EMPTY}"]
        when = [self.values[key] for key in ("spec", *TIMES) if key in self.values]
        switch = DISABLED if self.values["commented"] else ""
        return [*self._comment(), f"{switch}{' '.join(when)} {self.values['cmd']}"]

    def _comment(self) -> list[str]:
        comment, identifier = self.values["comment"], self.values["identifier"]
        if comment is None and identifier is None:
            return []
        lines = [f"# {line}".rstrip() for line in (comment or "").rstrip().split("\n")]
        return lines if identifier is None else [*lines[:-1], f"{lines[-1]} {IDENTIFIER}:{identifier}"]


@dataclass(slots=True)
class Crontab:
    """A crontab; `before` are the lines above `TAG`."""

    before: list[str]
    entries: list[Entry]

    def of_kind(self, *kinds: str) -> Iterator[Entry]:
        """The entries of these kinds, in the order of the kinds."""
        for kind in kinds:
            yield from (one for one in self.entries if one.kind == kind)

    def add(self, entry: Entry) -> None:
        """A job goes to the end, a variable above all jobs: it holds for what follows it."""
        place = len(self.entries)
        if entry.kind == "env":
            jobs = (number for number, one in enumerate(self.entries) if one.kind in {"crons", "special"})
            place = next(jobs, place)
        self.entries.insert(place, entry)

    def text(self) -> str:
        """The whole file."""
        return "".join(
            f"{line}\n" for line in [*self.before, TAG, *[line for one in self.entries for line in one.text()]]
        )


def split(text: str) -> list[str]:
    """The lines of a text. cron parts them by line feeds alone, and `str.splitlines` by characters of commands too."""
    return text.removesuffix("\n").split("\n") if text else []


def parse(text: str) -> Crontab:
    """The crontab with this text."""
    lines = split(text)
    if TAG not in lines:
        return Crontab(lines, [])
    start = lines.index(TAG)
    return Crontab(lines[:start], list(_entries(lines[start + 1 :])))


def _entries(lines: list[str]) -> Iterator[Entry]:
    above: list[str] = []
    for line in lines:
        values = _job(line)
        if values is not None:
            yield Entry({**values, **_said(above)}, [*above, line])
            above = []
        elif line.startswith("#"):
            above.append(line)
        else:
            if above:
                yield Entry(lines=above)
                above = []
            match = _ENV.fullmatch(line)
            variable = {"name": match[1], "value": match[2]} if match else {}
            yield Entry(variable, [line])
    if above:
        yield Entry(lines=above)


def _job(line: str) -> dict[str, Any] | None:
    commented = line.startswith(DISABLED)
    line = line.removeprefix(DISABLED)
    if line.startswith("@"):
        words = line.split(None, 1)
        return {"spec": words[0], "cmd": words[1], "commented": commented} if len(words) == 2 else None
    words = line.split(None, len(TIMES))
    if line.startswith("#") or len(words) <= len(TIMES) or _ENV.fullmatch(line):
        return None
    return {**dict(zip(TIMES, words, strict=False)), "cmd": words[-1], "commented": commented}


def _said(above: list[str]) -> dict[str, str | None]:
    """Comment and identifier of a job, from the lines above it."""
    if not above:
        return {"comment": None, "identifier": None}
    identifier: str | None = None
    texts = []
    for line in above:
        text, mark, rest = line.lstrip("# ").partition(IDENTIFIER)
        if mark and rest.startswith(":"):
            identifier = rest[1:]
        texts.append(text.rstrip() if mark else text)
    return {"comment": "\n".join(texts), "identifier": identifier}
