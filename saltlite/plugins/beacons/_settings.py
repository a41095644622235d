"""The configuration of a beacon, a list of maps, as one map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def settings(config: Any) -> dict[str, Any]:
    """The maps of the list as one."""
    found: dict[str, Any] = {}
    for one in config if isinstance(config, list) else [config]:
        if isinstance(one, Mapping):
            found.update(one)
    return found


def problem_of_list(config: Any, name: str) -> str:
    """Why `config` is no configuration of a beacon; "" if it is one."""
    if isinstance(config, list) and all(isinstance(one, Mapping) for one in config):
        return ""
    return f"The configuration of the beacon {name} is a list of maps."


VALID = True, "Valid beacon configuration"
