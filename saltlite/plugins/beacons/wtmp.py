"""Events about logins and logouts, as ``/var/log/wtmp`` records them.

Without settings every user counts. ``users`` names those that do, with ``time_range``, a map of ``start`` and ``end``;
``defaults`` has one for the others::

    beacons:
      wtmp:
        - users: {root: {time_range: {start: 8pm, end: 6am}}}

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.plugins.beacons import _logins, _settings

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__

_FILE = "/var/log/wtmp"
_ACTIONS = {7: "login", 8: "logout"}
"""The types of records that count: a process of a user, and one that has ended."""


def validate(config: Any) -> tuple[bool, str]:
    """Check the configuration."""
    problem = _logins.problem(config, "wtmp")
    return (False, problem) if problem else _settings.VALID


def beacon(config: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The logins and logouts since the last call."""
    return _logins.added(_FILE, config, __context__, _ACTIONS)
