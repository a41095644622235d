"""`salt.utils.timeutil`: times as texts and numbers."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

_FORMATS = ("%H%M", "%Hh%M", "%I%p", "%I:%M%p", "%I:%M %p")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def utcnow() -> datetime:
    """The present time in UTC, without a zone."""
    return datetime.now(UTC).replace(tzinfo=None)


def utcfromtimestamp(timestamp: float) -> datetime:
    """Seconds since 1970 as a time in UTC, without a zone."""
    return datetime.fromtimestamp(timestamp, UTC).replace(tzinfo=None)


def get_timestamp_at(time_in: Any = None, time_at: Any = None) -> Any:
    """Seconds since 1970 of a time: `time_in` minutes from now, also as `2h30m` or `2:30`, or `time_at`, as `11:30pm`.

    Raises ValueError for a text that is no time.
    """
    if time_in:
        hours, minutes = 0, time_in
        if not isinstance(time_in, int):
            text = time_in.replace("h", ":").replace("m", "")
            first, colon, second = text.partition(":")
            hours, minutes = (int(first), int(second or 0)) if colon else (0, int(first))
        at = utcnow() + timedelta(hours=hours, minutes=minutes)
        return time.mktime(at.timetuple())
    if not time_at or isinstance(time_at, int | float):
        return time_at
    for form in _FORMATS:
        try:
            return time.mktime(datetime.strptime(time_at, form).timetuple())  # noqa: DTZ007 - it is local time
        except ValueError:
            continue
    raise ValueError(f"{time_at} does not match any of the accepted formats: {', '.join(_FORMATS)}")


def get_time_at(time_in: Any = None, time_at: Any = None, out_fmt: str = "%Y-%m-%dT%H:%M:%S") -> str:
    """As `get_timestamp_at`, as text."""
    return time.strftime(out_fmt, time.localtime(get_timestamp_at(time_in=time_in, time_at=time_at)))


def timestring_map(val: Any) -> float | None:
    """The seconds of a number or of a text such as `90s`, `5m`, `2h` or `1.5d`. Raises ValueError."""
    if val is None:
        return None
    try:
        return float(val)
    except ValueError:
        pass
    if not re.match(r"^\d+(?:\.\d+)?[smhd]$", val):
        raise ValueError(f"Invalid time string format: {val}")
    return float(val[:-1]) * _UNITS[val[-1]]
