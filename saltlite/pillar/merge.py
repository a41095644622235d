"""The merging of pillar: maps are merged key by key, and whatever else comes later takes the place of what was there.

Contract: Salt's `pillar_source_merging_strategy: recurse`, which is its default for YAML, without `pillar_merge_lists`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(first: Mapping[Any, Any], later: Mapping[Any, Any]) -> dict[Any, Any]:
    """Both together; neither is changed."""
    result = dict(first)
    for key, value in later.items():
        before = result.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            result[key] = merged(before, value)
        else:
            result[key] = value
    return result
