"""`salt.utils.environment`: variables that the configuration sets for a module."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any


def get_module_environment(env: Mapping[str, Any] | None = None, function: str | None = None) -> dict[str, Any]:
    """The variables of `system-environment: {modules: {pkg: {_: {A: b}, install: {…}}}}` in options and pillar.

    `env` is the `globals()` of the module, and `_` stands for all its functions.
    """
    space = env or {}
    path = space.get("__file__", "")
    section = os.path.basename(os.path.dirname(path))
    stem = os.path.basename(path).split(".")[0]
    names = [name for name in dict.fromkeys((space.get("__virtualname__"), stem)) if name]
    found: dict[str, Any] = {}
    for source in (space.get("__opts__", {}), space.get("__pillar__", {})):
        modules = source.get("system-environment", {}).get(section, {})
        for name in names:
            for part in ("_", function):
                if part is not None:
                    found.update(modules.get(name, {}).get(part, {}))
    return found
