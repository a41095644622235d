"""`salt.serializers.tomlmod`: TOML. It is read by Python, and written by the library `toml`."""

from __future__ import annotations

import tomllib
from importlib import import_module
from typing import Any

from saltlite.salt.serializers import DeserializationError, SerializationError

__all__ = ["available", "deserialize", "serialize"]

available = True


def deserialize(stream_or_string: Any, **options: Any) -> dict[str, Any]:
    """What a text, bytes or an open file means. Raises DeserializationError."""
    try:
        text = stream_or_string.read() if hasattr(stream_or_string, "read") else stream_or_string
        return tomllib.loads(text.decode() if isinstance(text, bytes) else text, **options)
    except Exception as error:
        raise DeserializationError(error) from error


def serialize(obj: Any, **options: Any) -> Any:
    """The text, or None if it was written to the open file `file_out`. Raises SerializationError."""
    try:
        toml = import_module("toml")
        file = options.pop("file_out", None)
        return toml.dumps(obj, **options) if file is None else toml.dump(obj, file, **options)
    except Exception as error:
        raise SerializationError(error) from error
