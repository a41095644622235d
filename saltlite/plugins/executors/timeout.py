"""Interrupt a function that takes too long, and report that to the caller.

The limit is the option ``call_timeout``; a caller may lower it. It interrupts Python code, waits, and programs that
Python waits for. Code inside an extension ends with the job, whose limit is ``run_timeout``.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import math
import signal
from types import FrameType
from typing import TYPE_CHECKING, Any

from saltlite.errors import SaltInvocationError
from saltlite.model.execution import CallEnded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.loader.hints import __opts__
    from saltlite.plugins.executors import Function, Values

SAFE_OPTS = {"call_timeout": float}
STAYS = True

AGAIN_S = 1.0
"""Seconds after which a function that swallowed the interruption is interrupted again."""


def execute(opts: Values, data: Values, func: Function, args: Sequence[Any], kwargs: Values) -> None:
    """Start the timer and pass the call on.

    CLI Example::

        saltlite --module-executors='[timeout, direct_call]' --executor-opts='{call_timeout: 5}' '*' cmd.run 'sync'
    """
    seconds = limit(opts, data)
    if not seconds:
        return

    def late(_signum: int, _frame: FrameType | None) -> None:
        raise CallEnded(f"{data['fun']} was ended, because it took longer than {seconds:g} s (executor timeout)")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN_S)


def limit(opts: Values, data: Values) -> float:
    """Return the limit in seconds; 0 for none."""
    seconds, configured = float(opts.get("call_timeout") or 0), float(__opts__.get("call_timeout") or 0)
    if not math.isfinite(seconds) or seconds < 0:
        raise SaltInvocationError(f"call_timeout is a number of seconds, not {seconds:g}")
    if "call_timeout" in data["executor_opts"] and configured and not 0 < seconds <= configured:
        raise SaltInvocationError(f"call_timeout may be {configured:g} s at most here, not {seconds:g}")
    return seconds


def finish(opts: Values, data: Values) -> None:
    """Stop the timer."""
    del opts, data
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
