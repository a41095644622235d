"""Moments as people type and read them: so long ago, or a date and a time of day where this machine is."""

from __future__ import annotations

import time
from datetime import datetime

from saltlite.cli.durations import format_duration, parse_duration
from saltlite.errors import UsageError


def parse_moment(text: str, now: float) -> float:
    """Seconds since 1970 of `2h` (so long before `now`), `2026-01-31`, `2026-01-31T23:59` or with an offset.

    A time without an offset is local. Raises UsageError.
    """
    try:
        return now - parse_duration(text)
    except UsageError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()  # local time is what a person means without an offset
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{text[:40]!r} is no time: write 30m, 2h, 1d, 2026-01-31 or 2026-01-31T23:59") from None


def format_moment(when: float, now: float) -> str:
    """Date, time of day and how long ago that was."""
    there = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when))
    return f"{there} ({format_duration(max(0.0, now - when))} ago)"
