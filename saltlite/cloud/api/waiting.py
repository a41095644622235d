"""Waiting for what a provider does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from saltlite.cloud.api.exceptions import SaltCloudExecutionTimeout

Found = TypeVar("Found")


def wait_until(
    ask: Callable[[], Found | None],
    lacking: str,
    *,
    seconds: float,
    interval_s: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Found:
    """The first answer of `ask` that is not None; asked at once, after each interval, and at the end.

    Raises SaltCloudExecutionTimeout after `seconds`: "<lacking> after <seconds> s". What `ask` raises goes through.
    """
    end = clock() + seconds
    while True:
        found = ask()
        if found is not None:
            return found
        left = end - clock()
        if left <= 0:
            raise SaltCloudExecutionTimeout(f"{lacking} after {seconds:g} s")
        sleep(min(interval_s, left))
