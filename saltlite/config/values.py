"""Values with a spelling of their own, which option files and command lines share: durations.

Nothing here is costly to import.
"""

from __future__ import annotations

import math
import re

from saltlite.errors import UsageError

LOG_LEVELS = ("all", "garbage", "trace", "debug", "profile", "info", "warning", "error", "critical", "quiet")
STATE_OUTPUTS = tuple(f"{mode}{by}" for mode in ("full", "terse", "mixed", "changes") for by in ("", "_id"))
"""How the results of states are shown."""
DAY = 86_400.0
"""Seconds of a day."""

_UNIT_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)?", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds in `250ms`, `30s`, `5m`, `1h`, `2d`, `1.5h` or a plain number of seconds. Raises UsageError."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise UsageError(f"{text[:40]!r} is not a duration: write 250ms, 30s, 5m, 1h or 2d")
    return float(match[1]) * _UNIT_SECONDS[match[2] or "s"]


def is_bare_number(text: str) -> bool:
    """Whether a duration that `parse_duration` takes is written without its unit."""
    return not text.endswith(tuple(_UNIT_SECONDS))


def seconds_of_unit(unit: str) -> float:
    """The seconds of `d`, `h`, `m`, `s` or `ms`."""
    return _UNIT_SECONDS[unit]


def spell_duration(seconds: float) -> str:
    """A duration in the largest unit that leaves a whole number: `5m`, not `300s`."""
    for unit, size in _UNIT_SECONDS.items():
        count = seconds / size
        if seconds and math.isclose(count, round(count), rel_tol=1e-12) and round(count):
            return f"{round(count)}{unit}"
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"
