"""`salt.config`: what drivers of clouds and modules ask of the configuration.

The settings of drivers are looked up by `saltlite.cloud.api.config`, which is above this package and imported at the
first use.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from saltlite.config.paths import DEFAULT_CONFIG_DIR

log = logging.getLogger(__name__)

SALTS_FOLDER = "/etc/salt"
DEFAULT_HASH_TYPE = "sha256"

_OF_DRIVERS = frozenset({"get_cloud_config_value", "is_profile_configured", "is_provider_configured"})


def check_driver_dependencies(driver: str, dependencies: Mapping[str, Any]) -> bool:
    """Whether all dependencies of a driver are true; each one that is not is logged."""
    missing = [name for name, found in dependencies.items() if not found]
    for name in missing:
        log.warning("Missing dependency: '%s'. The %s driver requires '%s' to be installed.", name, driver, name)
    return not missing


def folder_of(path: str) -> str:
    """The configuration folder that a path of Salt's configuration means here: a file or a folder. Salt's own folder
    means that of saltlite."""
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    return DEFAULT_CONFIG_DIR if folder.rstrip("/") in ("", SALTS_FOLDER) else folder


def master_config(path: str, *_unused: Any, **_more: Any) -> dict[str, Any]:
    """The options of the master whose configuration is at the path, without secrets. Raises ConfigError.

    The further arguments of Salt name defaults, which are saltlite's own.
    """
    from saltlite.config.load import load_master
    from saltlite.config.opts import opts_of

    config = load_master(folder_of(path)).config
    return opts_of(config, f"{config.master_name or socket.gethostname()}_master")


client_config = master_config


def minion_config(path: str, *_unused: Any, **_more: Any) -> dict[str, Any]:
    """The options of the minion whose configuration is at the path, as `master_config`."""
    from saltlite.config.load import load_minion
    from saltlite.config.opts import opts_of

    config = load_minion(folder_of(path)).config
    return opts_of(config, config.id or socket.gethostname())


def __getattr__(name: str) -> Any:
    if name in _OF_DRIVERS:
        return getattr(import_module("saltlite.cloud.api.config"), name)
    raise AttributeError(f"saltlite has no salt.config.{name}; install Salt beside saltlite, or do without it")
