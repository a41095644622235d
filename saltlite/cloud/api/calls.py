"""The checks at the top of a driver's functions: whether they were called in the way they are meant to be.

    def show_instance(name, call=None):
        only_action("show_instance", call)

`call` is "action" for `-a`, "function" for `-f`, and None or something else where the program itself asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.cloud.api.exceptions import SaltCloudSystemExit


def only_action(name: str, call: str | None) -> None:
    """Raises SaltCloudSystemExit unless the function was called for one machine."""
    if call != "action":
        raise SaltCloudSystemExit(f"The {name} action must be called with -a or --action.")


def only_function(name: str, call: str | None) -> None:
    """Raises SaltCloudSystemExit unless the function was called for a provider."""
    if call != "function":
        raise SaltCloudSystemExit(f"The {name} function must be called with -f or --function.")


def no_action(name: str, option: str, call: str | None) -> None:
    """Raises SaltCloudSystemExit if the function was called for one machine; `option` is how else it is called."""
    if call == "action":
        raise SaltCloudSystemExit(f"The {name} function must be called with -f or --function, or with {option}.")


def no_function(name: str, option: str, call: str | None) -> None:
    """Raises SaltCloudSystemExit if the function was called for a provider; `option` is how else it is called."""
    if call == "function":
        raise SaltCloudSystemExit(f"The {name} action must be called with {option}, -a or --action.")


def needed(kwargs: Mapping[str, Any] | None, key: str, name: str) -> str:
    """The value that a user gave as `key=value`. Raises SaltCloudSystemExit when there is none."""
    value = (kwargs or {}).get(key)
    if value is None or value == "":
        raise SaltCloudSystemExit(f"{name} needs {key}=VALUE behind the names")
    return str(value)
