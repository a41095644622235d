"""`salt.utils.dateutils`: dates."""

from __future__ import annotations

import contextlib
import datetime
from importlib import import_module
from typing import Any

from saltlite.salt.utils.decorators.jinja import jinja_filter


def date_cast(date: Any) -> datetime.datetime:
    """A time, seconds since 1970 (also as text), or what the library timelib understands, as local time; None is now.

    Raises RuntimeError for anything else, ValueError with timelib.
    """
    if date is None:
        return datetime.datetime.now()  # noqa: DTZ005 - Salt's dates are local and have no zone
    if isinstance(date, datetime.datetime):
        return date
    parse = _timelib() if isinstance(date, str) else None
    try:
        if parse is not None:
            with contextlib.suppress(ValueError):  # it may be a number
                found: datetime.datetime = parse(date.encode())
                return found
        return datetime.datetime.fromtimestamp(float(date))  # noqa: DTZ006 - as above
    except (ValueError, TypeError, OverflowError, OSError) as error:
        if parse is not None:
            raise ValueError(f"Unable to parse {date}") from error
        raise RuntimeError(f"Unable to parse {date}. Consider installing timelib") from error


def _timelib() -> Any:
    """The function that reads any date, or None."""
    try:
        return import_module("timelib").strtodatetime
    except ImportError:
        return None


@jinja_filter("date_format")
@jinja_filter("strftime")
def strftime(date: Any = None, format: str = "%Y-%m-%d") -> str:
    """A date as text; see `date_cast` for what counts as one."""
    return date_cast(date).strftime(format)


def total_seconds(td: datetime.timedelta) -> float:
    return td.total_seconds()
