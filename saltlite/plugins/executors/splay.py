"""Delay the function, so that many minions do not run it at the same moment.

The delay is a fixed share of ``splaytime`` that follows from the id of the target, spread evenly over a fleet. A kill
or a run time limit of the job ends the delay too.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from saltlite.decorators import note
from saltlite.errors import SaltInvocationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.loader.hints import __context__
    from saltlite.plugins.executors import Function, Values

SAFE_OPTS = {"splaytime": float}

DEFAULT_S = 300.0
"""The default of `splaytime`, in seconds."""
SHARES = 8192
"""The number of different delays."""


def execute(opts: Values, data: Values, func: Function, args: Sequence[Any], kwargs: Values) -> None:
    """Wait once per job and pass the call on.

    CLI Example::

        saltlite --module-executors='[splay, direct_call]' --executor-opts='{splaytime: 30}' '*' test.version
    """
    seconds = delay(opts, data)
    if __context__.get("splay.waited") == data["jid"]:
        return
    __context__["splay.waited"] = data["jid"]
    note(f"splay: the call was delayed by {seconds:.1f} s")
    time.sleep(seconds)


def delay(opts: Values, data: Values) -> float:
    """Return the delay of the target in seconds."""
    splaytime = float(opts.get("splaytime", DEFAULT_S))
    if not math.isfinite(splaytime) or splaytime <= 0:
        raise SaltInvocationError(f"splaytime is a number of seconds above 0, not {splaytime:g}")
    most = opts.get("splay_max")
    if "splaytime" in data["executor_opts"] and most is not None and splaytime > most:
        raise SaltInvocationError(f"splaytime may be {most:g} s at most here (option splay_max), not {splaytime:g}")
    return splaytime * _share(str(data["id"]))


def _share(text: str) -> float:
    """Hash the text to a number from 0 to 1: Bob Jenkins' one-at-a-time hash, 32 bits."""
    value = 0
    for byte in text.encode():
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    value = (value + (value << 15)) & 0xFFFFFFFF
    return value % SHARES / SHARES
