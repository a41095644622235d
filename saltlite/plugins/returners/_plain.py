"""Values in a form that JSON can hold."""

from __future__ import annotations

import math
from typing import Any

from saltlite.model.plain import with_text_keys


def plain(value: Any) -> Any:
    """Return the value with bytes as text and NaN and infinities as their names."""
    if isinstance(value, dict):
        return with_text_keys(value, plain)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
