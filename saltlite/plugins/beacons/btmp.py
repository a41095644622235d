"""Events about failed logins, as ``/var/log/btmp`` records them.

The settings are those of the beacon ``wtmp``. Only root can read the file::

    beacons:
      btmp: []

:maintainer:    The saltlite authors
:maturity:      new
:platform:      Linux
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from saltlite.plugins.beacons import _logins, _settings

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__

_FILE = "/var/log/btmp"
_ACTIONS = {6: "failed", 7: "failed"}
"""The types of records that count: a login that was not completed, and a process of a user."""


def validate(config: Any) -> tuple[bool, str]:
    """Check the configuration."""
    problem = _logins.problem(config, "btmp")
    return (False, problem) if problem else _settings.VALID


def beacon(config: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The failed logins since the last call."""
    return _logins.added(_FILE, config, __context__, _ACTIONS)
