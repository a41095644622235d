"""`salt.utils.beacons`: configurations of beacons, which are lists of dicts."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any


def remove_hidden_options(config: list[dict[str, Any]], whitelist: Collection[str]) -> list[dict[str, Any]]:
    """The list without dicts that have a key which begins with `_` and is not in `whitelist`; it is changed."""
    config[:] = [one for one in config if not any(key.startswith("_") and key not in whitelist for key in one)]
    return config


def list_to_dict(config: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The dicts of the list as one."""
    found: dict[str, Any] = {}
    for one in config:
        found.update(one)
    return found
