"""All grains of a minion in one dict."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from saltlite.plugins.grains import core, hardware, network

log = logging.getLogger(__name__)

SOURCES: tuple[Callable[[], dict[str, Any]], ...] = (
    core.operating_system,
    core.kernel,
    core.first_process,
    core.python,
    core.process,
    core.machine_id,
    core.locale_info,
    hardware.processors,
    hardware.memory,
    hardware.firmware,
    hardware.virtual,
    network.names,
    network.interfaces,
    network.gateways,
    network.resolver,
)


def collect(opts: Mapping[str, Any], sources: tuple[Callable[[], dict[str, Any]], ...] = SOURCES) -> dict[str, Any]:
    """The grains of this machine, then those of the option `grains`, which win; `id` is the minion's id.

    A source that fails costs its own grains only, and is logged.
    """
    grains: dict[str, Any] = {}
    for source in sources:
        try:
            grains.update(source())
        except Exception:  # supervision point: one odd file in /proc must not cost the other grains
            log.warning("The grains of %s could not be collected.", source.__name__, exc_info=True)
    if opts.get("id"):
        grains["id"] = opts["id"]
    grains.update(opts.get("grains") or {})
    return grains
