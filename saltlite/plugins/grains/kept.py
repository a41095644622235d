"""The grains that somebody set on this minion: the file `grains` beside its configuration."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

log = logging.getLogger(__name__)

FILE = "grains"

FILE_BYTES_MAX = 1024 * 1024
"""A larger file is not read: it would be sent to the master, and travel with each job."""


def kept(opts: Mapping[str, Any]) -> dict[str, Any]:
    """What the file says, without any when there is none. A file that cannot be read is logged."""
    path = _path(opts)
    if not path:
        return {}
    try:
        with open(path, "rb") as stream:
            text = stream.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        log.warning("the grains of %s are missing: %s", path, error.strerror)
        return {}
    if len(text) > FILE_BYTES_MAX:
        log.warning("the grains of %s are missing: it has more than %d bytes", path, FILE_BYTES_MAX)
        return {}
    return _read(path, text)


def kept_version(opts: Mapping[str, Any]) -> tuple[int, ...]:
    """Something that is another when the file was changed; empty when there is none."""
    try:
        now = os.stat(_path(opts))
    except OSError:
        return ()
    return now.st_ino, now.st_mtime_ns, now.st_size


def _path(opts: Mapping[str, Any]) -> str:
    conf_file = opts.get("conf_file")
    return os.path.join(os.path.dirname(conf_file), FILE) if conf_file else ""


def _read(path: str, text: bytes) -> dict[str, Any]:
    import yaml  # noqa: PLC0415 - most minions have no such file

    try:
        found = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - both are safe loaders
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        log.warning("the grains of %s are missing: it is not YAML: %s", path, " ".join(str(error).split()))
        return {}
    if isinstance(found, dict):
        return {str(name): value for name, value in found.items()}
    if found is not None:
        log.warning("the grains of %s are missing: lines of `name: value` are needed there", path)
    return {}
