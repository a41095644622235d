"""Which resource types there are on this minion, by its pillar and its configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.config.minion import RESOURCE_PILLAR_KEY, MinionConfig
from saltlite.errors import UsageError
from saltlite.model.ids import check_resource_type

log = logging.getLogger(__name__)

KEYS_SHOWN = 10
"""Keys of the pillar of a type that a sentence names …"""
KEY_SHOWN = 40
"""… and the characters of one of them."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What the configuration says of resources: see the options of these names."""

    pillar_key: str
    places: int
    timeout_s: float
    type_limits: Mapping[str, int]

    def types_in(self, pillar: Mapping[str, Any]) -> list[str]:
        """The names of the types that the pillar declares, sorted. What is none is left out, with a warning."""
        key = self._key()
        if not self.pillar_key:
            log.warning("option resource_pillar_key is empty, and %s is used", key)
        declared = pillar.get(key)
        if declared is not None and not isinstance(declared, Mapping):
            log.warning("pillar key %s declares no resources: it has to be a map of types", key)
        names = []
        for name in declared if isinstance(declared, Mapping) else ():
            try:
                names.append(check_resource_type(name))
            except UsageError as error:
                log.warning("pillar key %s: %s", key, error)
        return sorted(names)

    def settings_of(self, name: str, pillar: Mapping[str, Any]) -> Any:
        """What the pillar says of that type; None without it."""
        declared = pillar.get(self._key())
        return declared.get(name) if isinstance(declared, Mapping) else None

    def looked_at(self, name: str, pillar: Mapping[str, Any]) -> str:
        """Which key of the pillar declares the resources of a type, and what is there; for people."""
        settings = self.settings_of(name, pillar)
        if isinstance(settings, Mapping) and settings:
            keys = [str(key)[:KEY_SHOWN] for key in settings]
            more = f" and {len(keys) - KEYS_SHOWN} more" if len(keys) > KEYS_SHOWN else ""
            what = f"which has the keys {', '.join(keys[:KEYS_SHOWN])}{more}"
        elif isinstance(settings, list | tuple) and settings:
            what = f"which is a list of {len(settings)}"
        else:
            what = "which is empty" if not settings else f"which is {type(settings).__name__}, and no map"
        return f"pillar {self._key()}:{name}, {what}"

    def nothing_declared(self, pillar: Mapping[str, Any] | None) -> str:
        """Why there is no type; for people."""
        if pillar is None:
            return "no pillar has come from the master yet"
        there = "declares no resource types" if self._key() in pillar else "is not there"
        return f"pillar {self._key()} {there}"

    def _key(self) -> str:
        return self.pillar_key or RESOURCE_PILLAR_KEY

    def places_of(self, name: str) -> int:
        """How many resources of that type are called at once."""
        return min(self.places, self.type_limits.get(name, self.places))


def declared_by(config: MinionConfig) -> Declared:
    """What this configuration says."""
    return Declared(
        config.resource_pillar_key, config.resource_workers, config.resource_timeout, config.resource_type_limits
    )
