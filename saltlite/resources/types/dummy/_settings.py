"""What the pillar says of dummy resources, checked once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.errors import CommandExecutionError

COUNT_MAX = 1_000_000
"""Counted resources of one minion."""

SECONDS_MAX = 86_400.0
"""The longest latency."""

_KNOWN = ("resource_ids", "count", "prefix", "latency", "latency_jitter", "failure_rate", "hang")


@dataclass(frozen=True, slots=True)
class Settings:
    """Which resources there are, and how they behave. Times are seconds, the rate is 0 to 1."""

    named: tuple[str, ...]
    count: int
    prefix: str
    latency_s: float
    jitter_s: float
    failure_rate: float
    hang: frozenset[str]

    @property
    def troubles(self) -> bool:
        """Whether a call does more than answer."""
        return bool(self.latency_s or self.jitter_s or self.failure_rate or self.hang)

    def ids(self) -> Iterator[str]:
        """Every id once: those with names, and those that are counted."""
        seen = dict.fromkeys(self.named)
        yield from seen
        for number in range(1, self.count + 1):
            if (counted := f"{self.prefix}{number}") not in seen:
                yield counted


def settings_of(pillar: object) -> Settings:
    """The value of the pillar's `dummy`. Raises CommandExecutionError that names what cannot be used."""
    given: Mapping[str, Any] = pillar if isinstance(pillar, Mapping) else {}
    for name in given:
        if name not in _KNOWN:
            raise CommandExecutionError(f"Pillar of dummy: {name!r} is not known; it may have {', '.join(_KNOWN)}.")
    return Settings(
        named=_texts(given, "resource_ids"),
        count=int(_number(given, "count", COUNT_MAX)),
        prefix=str(given.get("prefix", "dummy-")),
        latency_s=_number(given, "latency", SECONDS_MAX),
        jitter_s=_number(given, "latency_jitter", SECONDS_MAX),
        failure_rate=_number(given, "failure_rate", 1),
        hang=frozenset(_texts(given, "hang")),
    )


def _number(given: Mapping[str, Any], name: str, most: float) -> float:
    value = given.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise CommandExecutionError(f"Pillar of dummy: {name} is {value!r}; it must be a number from 0 to {most:g}.")
    return value


def _texts(given: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = given.get(name) or ()
    if not isinstance(value, list | tuple) or not all(isinstance(each, str | int) for each in value):
        raise CommandExecutionError(f"Pillar of dummy: {name} must be a list of ids.")
    return tuple(map(str, value))
