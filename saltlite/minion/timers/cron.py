"""Computes the next time of cron expressions, and of the times of day and dates of `when`. Times are local, without a
zone.

The standard five fields need no library: minute, hour, day of the month, month and day of the week, each with lists,
ranges, steps and names. If both days are restricted, one of them is enough, as in cron.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta

from saltlite.errors import UsageError
from saltlite.model.dataclass import dataclass

DAYS_MAX = 366 * 8 + 2
"""Days that are searched for the next time: every date comes within eight years, the 29 February included."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("weekday", 0, 7, _WEEKDAYS),
)
_ANY_TIME = datetime.combine(date(2000, 1, 1), time())
_NICKNAMES = {
    "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression. Weekdays count from 0, Sunday."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool
    """Both days are restricted, so one of them is enough."""

    @property
    def each_hour(self) -> bool:
        """Whether it runs in all hours of its days."""
        return len(self.hours) == 24

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The times behind `moment`, in order; none if no such date exists."""
        for number in range(DAYS_MAX):
            day = moment.date() + timedelta(days=number)
            if not self._has(day):
                continue
            for hour in self.hours:
                for minute in self.minutes:
                    found = datetime.combine(day, time(hour, minute))
                    if found > moment:
                        yield found

    def _has(self, day: date) -> bool:
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (in_month or in_week if self.either_day else in_month and in_week)


def parse_cron(text: str) -> Cron:
    """Parse an expression such as `*/15 8-17 * * mon-fri` or `@daily`. Raises UsageError."""
    words = _NICKNAMES.get(text.strip().lower(), text).split()
    if len(words) != len(_FIELDS):
        raise UsageError(f"{text[:80]!r} is not a cron expression: it has five fields, as in '0 2 * * mon-fri'")
    minutes, hours, days, months, weekdays = (
        _field(word.lower(), *field) for word, field in zip(words, _FIELDS, strict=True)
    )
    both = not words[2].startswith("*") and not words[4].startswith("*")
    weekdays = {day % 7 for day in weekdays}
    cron = Cron(
        tuple(sorted(minutes)), tuple(sorted(hours)), frozenset(days), frozenset(months), frozenset(weekdays), both
    )
    if next(cron.after(_ANY_TIME), None) is None:
        raise UsageError(f"the cron expression {text[:80]!r} names a date that does not exist")
    return cron


def _field(word: str, name: str, low: int, high: int, names: tuple[str, ...]) -> set[int]:
    found: set[int] = set()
    for part in word.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if first == "*" and not dash:
            begin, end = low, high
        else:
            begin = _number(first, name, low, high, names)
            end = _number(last, name, low, high, names) if dash else high if step else begin
        stride = int(step) if step.isascii() and step.isdigit() and len(step) < 4 else 0
        if ("/" in part and not stride) or begin > end:
            raise UsageError(f"{part[:40]!r} is not a {name} of a cron expression")
        found.update(range(begin, end + 1, stride or 1))
    return found


def _number(word: str, name: str, low: int, high: int, names: tuple[str, ...]) -> int:
    if word[:3] in names and word.isalpha():
        return names.index(word[:3]) + low
    if word.isascii() and word.isdigit() and len(word) < 4 and low <= int(word) <= high:
        return int(word)
    raise UsageError(f"{word[:40]!r} is not a {name} of a cron expression")


# -- `when`: a time of day, a weekday with a time of day, or a date with a time of day


_WHEN = re.compile(
    r"(?:(?P<weekday>[a-z]{3,9})\s+|(?P<date>\d{4}-\d{1,2}-\d{1,2}|\d{1,2}/\d{1,2}/\d{4})(?:\s+|t))?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2})(?::(?P<second>\d{2}))?)?\s*(?P<half>[ap]m)?",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class When:
    """A time of day: each day, on a weekday (from 0, Sunday), or on one date."""

    at: time
    weekday: int | None = None
    day: date | None = None

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The times behind `moment`, in order."""
        if self.day is not None:
            once = datetime.combine(self.day, self.at)
            yield from [once] if once > moment else []
            return
        for number in range(DAYS_MAX):
            day = moment.date() + timedelta(days=number)
            found = datetime.combine(day, self.at)
            if found > moment and self.weekday in (None, day.isoweekday() % 7):
                yield found


def parse_when(text: str) -> When:
    """Parse `5:00pm`, `17:00`, `Monday 5:00pm`, `2026-01-31 17:00` or `1/31/2026 5pm`. Raises UsageError."""
    read = _WHEN.fullmatch(text.strip())
    if read is None or (read["minute"] is None and read["half"] is None):
        raise UsageError(f"{text[:80]!r} is not a time: write 17:00, 5:00pm, Monday 17:00 or 2026-01-31 17:00")
    hour = int(read["hour"])
    if read["half"]:
        if not 1 <= hour <= 12:
            raise UsageError(f"{text[:80]!r} is not a time: there is no hour {hour} {read['half']}")
        hour = hour % 12 + (12 if read["half"].lower() == "pm" else 0)
    weekday = (read["weekday"] or "").lower()[:3]
    if weekday and weekday not in _WEEKDAYS:
        raise UsageError(f"{text[:80]!r} is not a time: {read['weekday']!r} is no day of the week")
    try:
        at = time(hour, int(read["minute"] or 0), int(read["second"] or 0))
        day = _date(read["date"]) if read["date"] else None
    except ValueError as error:
        raise UsageError(f"{text[:80]!r} is not a time: {error}") from None
    return When(at, _WEEKDAYS.index(weekday) if weekday else None, day)


def _date(text: str) -> date:
    if "/" in text:
        month, day, year = map(int, text.split("/"))
    else:
        year, month, day = map(int, text.split("-"))
    return date(year, month, day)
