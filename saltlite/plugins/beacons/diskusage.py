"""Events about file systems that are fuller than a limit, in percent.

Mount points are regular expressions for the whole path; the first that matches counts::

    beacons:
      diskusage:
        - /: 63%
        - '/srv/.*': 90%

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from saltlite.plugins.beacons import _settings

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%?")


def validate(config: Any) -> tuple[bool, str]:
    """Check the configuration."""
    problem = _settings.problem_of_list(config, "diskusage")
    for mount, limit in {} if problem else _limits(config):
        try:
            re.compile(mount)
        except re.error as error:
            problem = f"{mount!r} is no regular expression for a mount point: {error}"
        if not _PERCENT.fullmatch(str(limit)):
            problem = f"The limit of {mount} is a number of percent, as in 63%."
    return (False, problem) if problem else _settings.VALID


def beacon(config: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An event for each file system that is fuller than its limit."""
    found = []
    usage = __salt__["disk.usage"]()
    for mount, row in sorted(usage.items()):
        limit = next((limit for pattern, limit in _limits(config) if re.fullmatch(pattern, mount)), None)
        percent = str(row.get("capacity", "")).rstrip("%")
        if limit is None or not percent.isdigit():
            continue
        read = _PERCENT.fullmatch(str(limit))
        if read is not None and float(percent) >= float(read[1]):
            found.append({"diskusage": float(percent), "mount": mount})
    return found


def _limits(config: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    return [(mount, limit) for one in config for mount, limit in one.items() if not mount.startswith("_")]
