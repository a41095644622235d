"""`salt.cloud`: `CloudClient` for programs, and the package of drivers. Its `libcloudfuncs` is
`saltlite.cloud.api.libcloudfuncs`.
"""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    # By its name, because clouds are a higher layer, and drivers import this package without needing the client.
    if name == "CloudClient":
        return importlib.import_module("saltlite.cloud.program.app").CloudClient
    raise AttributeError(f"saltlite has no salt.cloud.{name}")
