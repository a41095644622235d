"""The surfaces: a module each, with a class that is named in SURFACES."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.fuzz.surface import Surface

SURFACES = {
    "verbs": "Verbs",
    "messages": "Messages",
    "api": "Api",
    "config": "Config",
    "socket_path": "SocketPath",
    "pillar": "Pillar",
    "registry": "RegistryBytes",
    "spool": "SpoolFiles",
    "journal": "JournalFile",
}
"""Name of the module -> name of its class."""


def open_surface(name: str, folder: Path) -> Surface:
    """The harness of that surface; `folder` is its own, and empty."""
    module = importlib.import_module(f"tests.fuzz.surfaces.{name}")
    surface: Surface = getattr(module, SURFACES[name])(folder)
    return surface
