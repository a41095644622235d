"""Which resource types there are on this minion, by its pillar and its configuration."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from saltlite.config.minion import RESOURCE_PILLAR_KEY, MinionConfig
from saltlite.errors import UsageError
from saltlite.model.srn import check_resource_type

log = logging.getLogger(__name__)


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
