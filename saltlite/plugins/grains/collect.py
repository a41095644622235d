"""Collects all grains of a minion into one dict."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

log = logging.getLogger(__name__)

Source = Callable[[], dict[str, Any]]


def shipped_sources() -> tuple[Source, ...]:
    """The functions that find grains, in the order in which they are called."""
    # Imported by those who call them: the minion does so in a child, and needs 0.7 MiB less.
    from saltlite.plugins.grains import core, network  # noqa: PLC0415 - see above

    return (
        core.operating_system,
        core.kernel,
        core.first_process,
        core.python,
        core.process,
        core.machine_id,
        core.locale_info,
        core.processors,
        core.memory,
        core.graphics,
        core.firmware,
        core.virtual,
        network.names,
        network.interfaces,
        network.gateways,
        network.resolver,
    )


def collect(opts: Mapping[str, Any], sources: Sequence[Source] = ()) -> dict[str, Any]:
    """Return the grains of this machine, overlaid by those of the option `grains`; `id` is the minion's id.

    Without `sources` the shipped ones find them. A source that raises is logged and skipped.
    """
    grains: dict[str, Any] = {}
    for source in sources or shipped_sources():
        try:
            grains.update(source())
        except Exception:  # supervision point: one odd file in /proc must not cost the other grains
            log.warning("The grains of %s could not be collected.", source.__name__, exc_info=True)
    if opts.get("id"):
        grains["id"] = opts["id"]
    grains.update(opts.get("grains") or {})
    return grains


# --- Static grains: the file `grains` beside the configuration ---

FILE = "grains"

FILE_BYTES_MAX = 1024 * 1024
"""A larger file is not read, because grains are sent to the master and to every job."""


def static_grains(opts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of the file; empty when it is missing or unreadable. Read errors are logged."""
    path = _static_path(opts)
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
    return _parsed(path, text)


def static_grains_version(opts: Mapping[str, Any]) -> tuple[int, ...]:
    """Return a value that changes with the file; empty when there is no file."""
    try:
        now = os.stat(_static_path(opts))
    except OSError:
        return ()
    return now.st_ino, now.st_mtime_ns, now.st_size


def _static_path(opts: Mapping[str, Any]) -> str:
    conf_file = opts.get("conf_file")
    return os.path.join(os.path.dirname(conf_file), FILE) if conf_file else ""


def _parsed(path: str, text: bytes) -> dict[str, Any]:
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
