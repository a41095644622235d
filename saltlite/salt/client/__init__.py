"""`salt.client`: `LocalClient` and `get_local_client`, which are in `saltlite.client.salt_client`."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    # By its name, because the client is a higher layer.
    if name in ("LocalClient", "get_local_client"):
        return getattr(importlib.import_module("saltlite.client.salt_client"), name)
    raise AttributeError(f"saltlite has no salt.client.{name}; install Salt beside saltlite, or do without it")
