"""Resource types that ship, loaded and called as the minion does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from saltlite.loader.resource_types import ResourceType, find_type


class TypeHere:
    """One type with its slots, after `init`. `pillar` may be replaced key by key."""

    def __init__(self, kind: str, cachedir: Path, pillar: Any, opts: Mapping[str, Any] | None = None) -> None:
        given: dict[str, Any] = {"id": "m1", "cachedir": str(cachedir), **(opts or {})}
        self._grains: dict[str, dict[str, Any]] = {}
        self.type = ResourceType(find_type(kind, given), given, {}, {"resources": {kind: pillar}}, minion={})
        self.type.init()

    def has_pillar(self, pillar: Mapping[str, Any]) -> None:
        """Let the type see another pillar."""
        self.type.refresh({}, pillar)

    def ids(self) -> list[str]:
        """What `discover` finds."""
        found: list[str] = self.type.discover()
        return found

    def on(self, resource_id: str) -> Callable[..., Any]:
        """What calls `slot.function` on one resource: `on("web-1")("test.ping")`."""

        def call(function: str, *args: Any, **kwargs: Any) -> Any:
            with self.type.entered(resource_id, self._grains.get(resource_id, {})):
                return self.type.slots[function](*args, **kwargs)

        return call

    def refresh(self, resource_id: str) -> dict[str, Any]:
        """Collect the grains of a resource, which its slots then see."""
        with self.type.entered(resource_id, {}):
            found: dict[str, Any] = self.type.grains()
        self._grains[resource_id] = found
        return found
