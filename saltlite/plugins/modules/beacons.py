"""Beacons of this minion: list and change them.

Beacons come from the option ``beacons``, from the pillar ``beacons``, which goes first, and from these functions, whose
changes go before both. A change is stored on the minion (not with ``persist=False``).

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__, __timers__, __utils__

__func_alias__ = {"list_": "list"}


def list_(
    return_yaml: bool = True,
    include_pillar: bool = True,
    include_opts: bool = True,
    **kwargs: Any,  # noqa: ARG001 - Salt's signature: `timeout` has no effect here
) -> Any:
    """Return the configured beacons, as text in YAML, or with ``return_yaml=False`` as a map.

    CLI Example::

        saltlite '*' beacons.list
        saltlite '*' beacons.list include_pillar=False return_yaml=False
    """
    found = _ask("list")
    beacons: dict[str, Any] = {
        name: config
        for name, config in found["beacons"].items()
        if (include_pillar if found["sources"][name] == "pillar" else include_opts)
    }
    if not found["enabled"]:
        beacons["enabled"] = False
    return _shown(beacons) if return_yaml else beacons


def list_available(return_yaml: bool = True, **kwargs: Any) -> Any:  # noqa: ARG001 - as above
    """Return the beacons that can be configured here.

    CLI Example: ``saltlite '*' beacons.list_available``
    """
    beacons = sorted({name.partition(".")[0] for name in __salt__.of_type("beacons") if name.endswith(".beacon")})
    return _shown(beacons) if return_yaml else beacons


def add(name: str, beacon_data: Any, **kwargs: Any) -> dict[str, Any]:
    """Add a beacon; ``beacon_data`` is its configuration, a list of maps. ``test`` changes nothing.

    CLI Example::

        saltlite '*' beacons.add load "[{averages: {1m: [0.0, 2.0]}}, {interval: 60}]"
    """
    if name in _ask("list")["beacons"]:
        return _result(True, f"Beacon {name} is already configured.")
    problem = _problem(name, beacon_data)
    if problem:
        return _result(False, f"Beacon {name} configuration invalid, not adding.\n{problem}")
    if kwargs.get("test"):
        return _result(True, f"Beacon: {name} would be added.")
    return _set(name, beacon_data, kwargs, f"Added beacon: {name}.")


def modify(name: str, beacon_data: Any, **kwargs: Any) -> dict[str, Any]:
    """Replace the configuration of a beacon.

    CLI Example: ``saltlite '*' beacons.modify load "[{averages: {1m: [0.0, 4.0]}}]"``
    """
    current = _ask("list")["beacons"].get(name)
    if current is None:
        return _result(False, f"Beacon {name} is not configured.")
    problem = _problem(name, beacon_data)
    if problem:
        return _result(False, f"Beacon {name} configuration invalid, not modifying.\n{problem}")
    if current == beacon_data:
        return _result(True, f"Job {name} in correct state")
    if kwargs.get("test"):
        return _result(True, f"Beacon: {name} would be modified.")
    return _set(name, beacon_data, kwargs, f"Modified beacon: {name}.")


def delete(name: str, **kwargs: Any) -> dict[str, Any]:
    """Delete a beacon.

    CLI Example: ``saltlite '*' beacons.delete load``
    """
    if name not in _ask("list")["beacons"]:
        return _result(False, f"Beacon {name} is not configured.")
    if kwargs.get("test"):
        return _result(True, f"Beacon: {name} would be deleted.")
    return _set(name, None, kwargs, f"Deleted beacon: {name}.")


def enable(**kwargs: Any) -> dict[str, Any]:
    """Enable beacons.

    CLI Example: ``saltlite '*' beacons.enable``
    """
    return _switch(kwargs, enabled=True)


def disable(**kwargs: Any) -> dict[str, Any]:
    """Disable all beacons.

    CLI Example: ``saltlite '*' beacons.disable``
    """
    return _switch(kwargs, enabled=False)


def enable_beacon(name: str, **kwargs: Any) -> dict[str, Any]:
    """Enable a beacon.

    CLI Example: ``saltlite '*' beacons.enable_beacon load``
    """
    return _switch_beacon(name, kwargs, enabled=True)


def disable_beacon(name: str, **kwargs: Any) -> dict[str, Any]:
    """Disable a beacon.

    CLI Example: ``saltlite '*' beacons.disable_beacon load``
    """
    return _switch_beacon(name, kwargs, enabled=False)


def save(**kwargs: Any) -> dict[str, Any]:
    """Store changes that were made with ``persist=False``.

    CLI Example: ``saltlite '*' beacons.save``
    """
    return _result(True, "Beacons would be saved.") if kwargs.get("test") else _done("save", {}, "Beacons saved.")


def reset(**kwargs: Any) -> dict[str, Any]:
    """Drop all changes: the beacons are those of the configuration and the pillar.

    CLI Example: ``saltlite '*' beacons.reset``
    """
    if kwargs.get("test"):
        return _result(True, "Beacons would be reset.")
    return _done("reset", {}, "Beacon configuration reset.")


def _ask(operation: str, **fields: Any) -> dict[str, Any]:
    if not isinstance(__timers__, Callable):  # type: ignore[arg-type]  # an empty dict where no minion runs
        raise CommandExecutionError("This call has no minion with beacons.")
    return __timers__("beacons", operation, fields)


def _problem(name: str, config: Any) -> str:
    """Why this is no configuration of the beacon; "" if it is one."""
    if not isinstance(config, list) or not all(isinstance(one, Mapping) for one in config):
        return "The configuration of a beacon is a list of maps."
    module = next((one["beacon_module"] for one in config if "beacon_module" in one), name)
    beacons = __salt__.of_type("beacons")
    if f"{module}.beacon" not in beacons:
        return f'Beacon "{module}" is not available.'
    if f"{module}.validate" not in beacons:
        return ""
    common = {"interval", "enabled", "disable_during_state_run", "run_once", "beacon_module"}
    own = [{key: value for key, value in one.items() if key not in common} for one in config]
    valid, comment = beacons[f"{module}.validate"]([one for one in own if one])
    return "" if valid else str(comment)


def _switch(kwargs: dict[str, Any], *, enabled: bool) -> dict[str, Any]:
    word = "enabled" if enabled else "disabled"
    if kwargs.get("test"):
        return _result(True, f"Beacons would be {word}.")
    asked = {"enabled": enabled, "persist": kwargs.get("persist", True)}
    return _done("enable", asked, f"{word.capitalize()} beacons on minion.")


def _switch_beacon(name: str, kwargs: dict[str, Any], *, enabled: bool) -> dict[str, Any]:
    word = "enabled" if enabled else "disabled"
    config = _ask("list")["beacons"].get(name)
    if config is None:
        return _result(False, f"Beacon {name} is not currently configured.")
    if kwargs.get("test"):
        return _result(True, f"Beacon {name} would be {word}.")
    rest = [{key: value for key, value in one.items() if key != "enabled"} for one in config]
    new = [*(one for one in rest if one), {"enabled": enabled}]
    return _set(name, new, kwargs, f"{word.capitalize()} beacon {name} on minion.")


def _set(name: str, config: Any, kwargs: dict[str, Any], comment: str) -> dict[str, Any]:
    return _done("set", {"name": name, "config": config, "persist": kwargs.get("persist", True)}, comment)


def _done(operation: str, fields: dict[str, Any], comment: str) -> dict[str, Any]:
    try:
        _ask(operation, **fields)
    except CommandExecutionError as error:
        return _result(False, str(error))
    return _result(True, comment)


def _result(result: bool, comment: str) -> dict[str, Any]:  # noqa: FBT001, RUF100 - a value
    return {"comment": comment, "result": result}


def _shown(beacons: Any) -> Any:
    if not beacons:
        return {"beacons": {}}
    return __utils__["yaml.safe_dump"]({"beacons": beacons}, default_flow_style=False)
