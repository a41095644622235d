"""Values as JSON can say them."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """The value with bytes as text, and numbers that are none as their names."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
