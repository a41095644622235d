"""Waiting until a machine lets somebody in: it may still be starting, and its users may come later than its sshd."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from saltlite.cloud.api.exceptions import SaltCloudExecutionFailure, SaltCloudExecutionTimeout, SaltCloudPasswordError
from saltlite.resources.types.ssh._faults import NotReachedError

T = TypeVar("T")

PAUSE_MIN_S = 0.2
PAUSE_MAX_S = 3.0
DENIED_PAUSE_S = 2.0
"""Between logins that are denied: some machines shut out who tries fast."""


def until_let_in(
    attempt: Callable[[], T],
    *,
    within_s: float,
    denials: int,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Any] = time.sleep,
) -> T:
    """What the first attempt that is let in gives. `denials`: how many logins may be denied.

    Raises SaltCloudPasswordError when they all were, SaltCloudExecutionTimeout when the time is up, and
    SaltCloudExecutionFailure for what does not get better by waiting, such as another host key than the known one.
    """
    deadline = clock() + within_s
    pause_s = PAUSE_MIN_S
    while True:
        try:
            return attempt()
        except NotReachedError as error:
            if error.denied:
                denials -= 1
                if denials <= 0:
                    raise SaltCloudPasswordError(str(error)) from error
            elif not error.passing:
                raise SaltCloudExecutionFailure(str(error)) from error
            this_s = DENIED_PAUSE_S if error.denied else pause_s
            if clock() + this_s > deadline:
                raise SaltCloudExecutionTimeout(f"{str(error).rstrip('.')}; tried for {within_s:g} s.") from error
        sleep(this_s)
        pause_s = min(pause_s * 1.5, PAUSE_MAX_S)
