"""`salt.config`: what drivers of clouds and modules ask of the configuration.

The settings of drivers are looked up by `saltlite.cloud.api.config`, which is above this package and imported at the
first use.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Any

log = logging.getLogger(__name__)

DEFAULT_HASH_TYPE = "sha256"

_OF_DRIVERS = frozenset({"get_cloud_config_value", "is_profile_configured", "is_provider_configured"})


def check_driver_dependencies(driver: str, dependencies: Mapping[str, Any]) -> bool:
    """Whether all dependencies of a driver are true; each one that is not is logged."""
    missing = [name for name, found in dependencies.items() if not found]
    for name in missing:
        log.warning("Missing dependency: '%s'. The %s driver requires '%s' to be installed.", name, driver, name)
    return not missing


def __getattr__(name: str) -> Any:
    if name in _OF_DRIVERS:
        return getattr(import_module("saltlite.cloud.api.config"), name)
    raise AttributeError(f"saltlite has no salt.config.{name}; install Salt beside saltlite, or do without it")
