"""Load, memory and disks of hosts.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

import datetime
import shlex
import time
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

if TYPE_CHECKING:
    from saltlite.loader.hints import __resource_funcs__


def uptime() -> dict[str, Any]:
    """
    Since when the host runs.

    CLI Example: ``saltlite -C 'T@ssh' status.uptime``
    """
    seconds = int(_numbers("/proc/uptime")[0])
    since = int(time.time()) - seconds
    days, rest = divmod(seconds, 86_400)
    return {
        "seconds": seconds,
        "since_t": since,
        "since_iso": datetime.datetime.fromtimestamp(since, datetime.UTC).isoformat(),
        "days": days,
        "time": f"{rest // 3600}:{rest % 3600 // 60:02d}",
    }


def loadavg() -> dict[str, float]:
    """
    The load of the last 1, 5 and 15 minutes.

    CLI Example: ``saltlite -C 'T@ssh' status.loadavg``
    """
    return dict(zip(("1-min", "5-min", "15-min"), _numbers("/proc/loadavg"), strict=False))


def meminfo() -> dict[str, dict[str, str]]:
    """
    The memory as the kernel tells it: ``{name: {"value": number, "unit": "kB"}}``.

    CLI Example: ``saltlite web-1 status.meminfo``
    """
    found = {}
    for line in _output("cat /proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words:
            found[name] = {"value": words[0], **({"unit": words[1]} if len(words) > 1 else {})}
    return found


def diskusage(*args: str) -> dict[str, dict[str, int]]:
    """
    Bytes of the file systems, or of those that hold the named paths: ``{mount point: {"total", "available"}}``.

    CLI Example::

        saltlite web-1 status.diskusage
        saltlite web-1 status.diskusage / /srv
    """
    wrong = [path for path in args if not str(path).startswith("/")]
    if wrong:
        raise SaltInvocationError(f"{wrong[0]!r} is not an absolute path.")
    found = {}
    for line in _output(f"df -kP -- {shlex.join(args)}" if args else "df -kP").splitlines()[1:]:
        words = line.split(None, 5)
        if len(words) == 6 and words[1].isdecimal() and words[3].isdecimal():
            found[words[5]] = {"total": int(words[1]) * 1024, "available": int(words[3]) * 1024}
    return found


def _output(script: str) -> str:
    printed: bytes = __resource_funcs__["ssh.checked"](f"LC_ALL=C; export LC_ALL\n{script}")
    return printed.decode(errors="replace")


def _numbers(path: str) -> list[float]:
    """The numbers that the first words of a file are. Raises CommandExecutionError when the first is none."""
    found = []
    for word in _output(f"cat {path}").split()[:3]:
        try:
            found.append(float(word))
        except ValueError:
            break
    if not found:
        raise CommandExecutionError(f"The host's {path} has no number.")
    return found
