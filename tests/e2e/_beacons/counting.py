"""A beacon in the form that Salt documents: it counts its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__, __grains__


def validate(config: Any) -> tuple[bool, str]:
    return isinstance(config, list), "a list"


def beacon(_config: Any) -> list[dict[str, Any]]:
    __context__["count"] = __context__.get("count", 0) + 1
    return [{"tag": "first", "count": __context__["count"], "grain": __grains__["id"]}]
