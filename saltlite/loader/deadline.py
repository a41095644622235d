"""A time limit for the code of a module that runs while it is loaded: its body, `__init__` and `__virtual__`.

The alarm of the process interrupts the main thread; a module that is loaded in another thread, or that loops inside
a C library, is left to the job's own time limit. A file that is loaded because another one's body asks for it has
its own time, and the other one's clock stands still meanwhile.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

LOAD_SECONDS = 30.0
"""Each of body, `__init__` and `__virtual__` has this long."""

_AGAIN_SECONDS = 1.0
"""A module that swallows the alarm hears it again after this time."""


class DeadlineError(BaseException):
    """The code did not end in time. No Exception, so that a module's own `except Exception` does not swallow it."""

    def __init__(self) -> None:
        super().__init__(f"it did not end within {LOAD_SECONDS:g} s")


@contextlib.contextmanager
def load_deadline() -> Iterator[None]:
    """Raises DeadlineError inside the block after LOAD_SECONDS."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    outer_handler = signal.signal(signal.SIGALRM, _ring)
    outer_left, outer_interval = signal.setitimer(signal.ITIMER_REAL, LOAD_SECONDS, _AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # None: a handler that is no Python function, and cannot be set again from here.
        signal.signal(signal.SIGALRM, signal.SIG_DFL if outer_handler is None else outer_handler)
        if outer_left or outer_interval:
            signal.setitimer(signal.ITIMER_REAL, outer_left or outer_interval, outer_interval)


def _ring(_signum: int, _frame: FrameType | None) -> None:
    raise DeadlineError
