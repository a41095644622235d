"""Lower the priority of the function and its children, and limit their memory.

The options are ``nice_level``, ``nice_idle_io`` and ``nice_memory``. A caller may only lower the priority further. The
changes last until the end of the job, so they apply to the later functions of the same job too.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from saltlite.loader.hints import __opts__
    from saltlite.plugins.executors import Function, Values

SAFE_OPTS = {"nice_level": int}
STAYS = True
FOR_RESOURCES = False

LEAST = 19
"""The lowest priority."""

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30, "ppc64le": 273, "s390x": 282}
"""System call number by machine, from the kernel's tables."""
_WHO_PROCESS = 1
_IDLE = 3 << 13
"""I/O class 3 of ioprio_set(2)."""


def execute(opts: Values, data: Values, func: Function, args: Sequence[Any], kwargs: Values) -> None:
    """Lower the priority and pass the call on.

    CLI Example::

        saltlite --module-executors='[nice, direct_call]' --executor-opts='{nice_level: 19}' '*' cmd.run 'updatedb'
    """
    level, configured = opts.get("nice_level", 10), __opts__.get("nice_level", 10)
    if not configured <= level <= LEAST:
        raise SaltInvocationError(f"nice_level is from {configured} (as it is configured here) to {LEAST}, not {level}")
    if level > os.getpriority(os.PRIO_PROCESS, 0):
        os.setpriority(os.PRIO_PROCESS, 0, level)
    if opts.get("nice_idle_io"):
        _idle_io()
    memory = opts.get("nice_memory") or 0
    if memory:
        _limit_memory(memory)


def _idle_io() -> None:
    number = _IOPRIO_SET.get(platform.machine())
    if number is None or ctypes.CDLL(None).syscall(number, _WHO_PROCESS, 0, _IDLE) != 0:
        raise CommandExecutionError(
            f"nice_idle_io: this machine ({platform.machine()}) does not let a process have idle I/O; unset the option."
        )


def _limit_memory(most: int) -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
