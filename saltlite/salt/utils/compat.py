"""`salt.utils.compat`: functions that Python once had."""

from __future__ import annotations

import copy
import importlib
from types import ModuleType
from typing import Any


def deepcopy_bound(name: Any) -> Any:
    """A deep copy, also of a method with its object."""
    return copy.deepcopy(name)


def cmp(x: Any, y: Any) -> int:
    """-1, 0 or 1; for two dicts 0 if they are equal, else -1."""
    if isinstance(x, dict) and isinstance(y, dict):
        return 0 if x == y else -1
    return int(x > y) - int(x < y)


def reload(mod: ModuleType) -> ModuleType:
    return importlib.reload(mod)
