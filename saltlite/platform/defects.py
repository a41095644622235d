"""Defects of saltlite itself: an exception that no code expected costs the request that met it, and not the process.

A supervision point catches it, calls `log_defect`, answers DEFECT, and goes on. Transactions of the store end with the
exception, so that nothing half done stays behind.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

DEFECT: Final = "this is a defect of saltlite; its log has the details"
"""What the caller is told. The text of the exception may have values of others in it, so it is not told."""
TRACEBACK_EVERY_S: Final = 60.0
"""A traceback from the same place is written once in so many seconds; a client may ask for it thousands of times."""
PLACES_MAX: Final = 256
"""Places that are remembered."""

_logged: dict[tuple[str, str, int], tuple[float, int]] = {}
"""(kind of exception, file, line) -> when it was logged, and how many were left out since."""


def log_defect(where: str) -> None:
    """Log the exception that is being handled. `where` says whose request met it, without any value of it."""
    kind, error, trace = sys.exc_info()
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = (
        kind.__name__ if kind is not None else "",
        trace.tb_frame.f_code.co_filename if trace is not None else "",
        trace.tb_lineno if trace is not None else 0,
    )
    now = time.monotonic()
    logged_at, left_out = _logged.get(place, (-TRACEBACK_EVERY_S, 0))
    if now - logged_at < TRACEBACK_EVERY_S:
        _logged[place] = logged_at, left_out + 1
        return
    if len(_logged) >= PLACES_MAX:
        _logged.clear()
    _logged[place] = now, 0
    again = f" (and {left_out} times more since it was last logged)" if left_out else ""
    log.error("%s met a defect of saltlite: please report this%s", where, again, exc_info=error)


def supervised(where: str, work: Callable[[], None]) -> bool:
    """Do the work; False when it met a defect, which is logged then."""
    try:
        work()
    except Exception:  # noqa: BLE001 - named supervision point: the caller goes on with its next piece of work
        log_defect(where)
        return False
    return True
