"""Wait before the function is called, so that many minions do not do the same at one moment.

How long follows from the id of the target: a share of ``splaytime`` that is the same each time, and spread evenly over
a fleet. The wait ends with the job: a kill and a run time limit reach it as they reach a function.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from saltlite.decorators.notes import note
from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__

SAFE_OPTS = {"splaytime": float}

DEFAULT_S = 300.0
"""Where neither the configuration nor the caller says a time."""
SHARES = 8192
"""So many different delays there are."""


def execute(
    opts: Mapping[str, Any],
    data: Mapping[str, Any],
    func: Callable[..., Any] | str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> None:
    """Wait, once a job, and pass the call on.

    CLI Example::

        saltlite --module-executors='[splay, direct_call]' --executor-opts='{splaytime: 30}' '*' test.version
    """
    seconds = delay(opts, data)
    if __context__.get("splay.waited") == data["jid"]:
        return
    __context__["splay.waited"] = data["jid"]
    note(f"splay: the call was delayed by {seconds:.1f} s")
    time.sleep(seconds)


def delay(opts: Mapping[str, Any], data: Mapping[str, Any]) -> float:
    """How many seconds the target waits."""
    splaytime = float(opts.get("splaytime", DEFAULT_S))
    if not math.isfinite(splaytime) or splaytime <= 0:
        raise SaltInvocationError(f"splaytime is a number of seconds above 0, not {splaytime:g}")
    most = opts.get("splay_max")
    if "splaytime" in data["executor_opts"] and most is not None and splaytime > most:
        raise SaltInvocationError(f"splaytime may be {most:g} s at most here (option splay_max), not {splaytime:g}")
    return splaytime * _share(str(data["id"]))


def _share(text: str) -> float:
    """A share of 1 that follows from the text: Bob Jenkins' one-at-a-time hash, of 32 bits."""
    value = 0
    for byte in text.encode():
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    value = (value + (value << 15)) & 0xFFFFFFFF
    return value % SHARES / SHARES
