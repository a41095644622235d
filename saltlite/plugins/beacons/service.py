"""Events about services: whether each is running.

``services`` maps names to settings: ``onchangeonly`` sends an event only when the state changes, ``delay`` only after
so many seconds in the new state, ``emitatstartup: false`` not for the first state; ``uncleanshutdown`` is a pid file
that a crash leaves behind; ``is_running_state`` sends only one of both states::

    beacons:
      service:
        - services:
            nginx: {onchangeonly: true, delay: 5}

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saltlite.plugins.beacons import _settings

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __salt__

_SEEN = "service.seen"


def validate(config: Any) -> tuple[bool, str]:
    """Check the configuration."""
    problem = _settings.problem_of_list(config, "service")
    services: Any = {} if problem else _settings.settings(config).get("services")
    if not problem and (not isinstance(services, Mapping) or not services):
        problem = "The beacon service needs `services`, a map from names to settings."
    elif not problem and not all(about is None or isinstance(about, Mapping) for about in services.values()):
        problem = "The settings of a service are a map."
    return (False, problem) if problem else _settings.VALID


def beacon(config: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events that are due."""
    seen: dict[str, tuple[bool, float]] = __context__.setdefault(_SEEN, {})
    found = []
    for name, given in _settings.settings(config)["services"].items():
        about = given or {}
        running = bool(__salt__["service.status"](name))
        state: dict[str, Any] = {"running": running}
        if not running and about.get("uncleanshutdown"):
            state["uncleanshutdown"] = os.path.exists(about["uncleanshutdown"])
        if isinstance(about.get("is_running_state"), bool) and about["is_running_state"] is not running:
            continue
        if about.get("onchangeonly") is not True or _is_due(seen, name, running, about):
            found.append({name: state, "service_name": name, "tag": name})
    return found


def _is_due(seen: dict[str, tuple[bool, float]], name: str, running: bool, about: Mapping[str, Any]) -> bool:
    """Whether a change is reported now. `seen` has the last state and since when it waits for its event, 0 for not."""
    now, delay = time.monotonic(), float(about.get("delay") or 0)
    known, since = seen.get(name, (None, 0.0))
    if known is not running:
        if known is None and about.get("emitatstartup", True) is False:
            seen[name] = running, 0.0
            return False
        since = now
    due = since > 0 and now - since >= delay
    seen[name] = running, 0.0 if due else since
    return due
