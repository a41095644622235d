"""Durations as people type them and as they read them."""

from __future__ import annotations

from saltlite.errors import UsageError

_DAY_S = 86400.0

DURATION_MAX_S = 365 * _DAY_S
"""The longest duration that is taken: a longer one is a mistyped one."""


def parse_duration(text: str) -> float:
    """Seconds in `30`, `30s`, `1.5m`, `2h`, `1d` or `250ms`, at most DURATION_MAX_S. Raises UsageError."""
    from saltlite.config import values  # its regular expressions are not needed for a help text

    seconds = values.parse_duration(text)
    if seconds > DURATION_MAX_S:
        raise UsageError(f"{text!r} is too long: a duration is at most {DURATION_MAX_S / _DAY_S:g}d")
    return seconds


def format_duration(seconds: float) -> str:
    """The duration in its largest whole unit, as in `45s`, `4m`, `3h`, `12d`; below a second `0.3s`."""
    if seconds < 1:
        return f"{max(0.0, round(seconds, 1)):g}s"
    for unit, size in (("d", _DAY_S), ("h", 3600.0), ("m", 60.0)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
