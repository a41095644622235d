"""`salt.serializers.json`"""

from __future__ import annotations

from typing import Any

from saltlite.salt.serializers import DeserializationError, SerializationError
from saltlite.salt.utils import json

__all__ = ["available", "deserialize", "serialize"]

available = True


def deserialize(stream_or_string: Any, **options: Any) -> Any:
    """What a text, bytes or an open file means. Raises DeserializationError."""
    try:
        if hasattr(stream_or_string, "read"):
            return json.load(stream_or_string, **options)
        return json.loads(stream_or_string, **options)
    except Exception as error:
        raise DeserializationError(error) from error


def serialize(obj: Any, **options: Any) -> Any:
    """The text, or None if it was written to the open file `fp`. Raises SerializationError."""
    try:
        return json.dump(obj, **options) if "fp" in options else json.dumps(obj, **options)
    except Exception as error:
        raise SerializationError(error) from error
