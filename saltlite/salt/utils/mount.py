"""`salt.utils.mount`: mounts that a minion remembers in its cache folder."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from saltlite.salt.utils import yaml
from saltlite.salt.utils.files import fopen

log = logging.getLogger(__name__)


def get_cache(opts: Mapping[str, Any]) -> str:
    """The path of the file."""
    return os.path.join(opts["cachedir"], "mounts")


def read_cache(opts: Mapping[str, Any]) -> Any:
    """What the file holds; empty without one."""
    try:
        with fopen(get_cache(opts), "rb") as file:
            return yaml.safe_load(file)
    except OSError:
        return {}


def write_cache(cache: Any, opts: Mapping[str, Any]) -> bool:
    """Whether the file could be written."""
    try:
        with fopen(get_cache(opts), "wb") as file:
            file.write(yaml.safe_dump(cache).encode())
    except OSError as error:
        log.error("Failed to cache mounts: %s", error)
        return False
    return True
