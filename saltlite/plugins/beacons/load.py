"""Events about the load averages when one is below or above its limits.

``averages`` maps ``1m``, ``5m`` and ``15m`` to the lowest and the highest load. ``onchangeonly`` sends an event only
when a limit is crossed, and ``emitatstartup: false`` none at the start::

    beacons:
      load:
        - averages:
            1m: [0.0, 2.0]
            5m: [0.0, 1.5]
            15m: [0.1, 1.0]

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.plugins.beacons import _settings

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__

_TIMES = ("1m", "5m", "15m")
_LAST = "load.last"


def validate(config: Any) -> tuple[bool, str]:
    """Check the configuration."""
    problem = _settings.problem_of_list(config, "load")
    averages: Any = {} if problem else _settings.settings(config).get("averages")
    if not problem and (not isinstance(averages, Mapping) or not set(averages) & set(_TIMES)):
        problem = "The beacon load needs `averages`, a map of 1m, 5m or 15m."
    elif not problem and not all(_is_pair(averages[one]) for one in _TIMES if one in averages):
        problem = "Each average of the beacon load is a list of the lowest and the highest load."
    return (False, problem) if problem else _settings.VALID


def _is_pair(limits: Any) -> bool:
    return isinstance(limits, list) and len(limits) == 2 and all(isinstance(one, int | float) for one in limits)


def beacon(config: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The load averages, if an event is due."""
    about = _settings.settings(config)
    averages = dict(zip(_TIMES, os.getloadavg(), strict=True))
    beyond = {
        name: (load < about["averages"][name][0]) - (load > about["averages"][name][1])
        for name, load in averages.items()
        if name in about["averages"]
    }
    if about.get("onchangeonly") is not True:
        return [averages] if any(beyond.values()) else []
    last = __context__.get(_LAST)
    __context__[_LAST] = beyond
    if last is None:
        return [averages] if about.get("emitatstartup", True) and any(beyond.values()) else []
    return [averages] if beyond != last else []
