"""The grain `salt_resources`: which resources this minion manages."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

log = logging.getLogger(__name__)

GRAIN = "salt_resources"
INVENTORY_BYTES_MAX = 128 * 1024
"""Bytes of all ids: with more of them the grains would be larger than a master takes, and there is no such grain."""


def inventory_grain(inventory: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """{GRAIN: {type: [bare ids]}}, or nothing for no resources, and for more than fit."""
    if not inventory:
        return {}
    size = sum(len(bare_id.encode()) + 2 for ids in inventory.values() for bare_id in ids)
    if size > INVENTORY_BYTES_MAX:
        log.warning("there are too many resources for the grain %s, so it is left out: target them by T@ or M@", GRAIN)
        return {}
    return {GRAIN: {name: list(ids) for name, ids in inventory.items()}}
