"""`salt.serializers.msgpack`"""

from __future__ import annotations

from typing import Any

from saltlite.salt.serializers import DeserializationError, SerializationError
from saltlite.salt.utils import msgpack

__all__ = ["available", "deserialize", "serialize"]

available = True


def deserialize(stream_or_string: Any, **options: Any) -> Any:
    """What bytes or an open file mean. Raises DeserializationError."""
    try:
        options.setdefault("use_list", True)
        options.setdefault("raw", False)
        if hasattr(stream_or_string, "read"):
            return msgpack.load(stream_or_string, **options)
        return msgpack.loads(stream_or_string, **options)
    except Exception as error:
        raise DeserializationError(error) from error


def serialize(obj: Any, **options: Any) -> Any:
    """The bytes, or None if they were written to the open file `fp`. Raises SerializationError."""
    try:
        file = options.pop("fp", None)
        return msgpack.dumps(obj, **options) if file is None else msgpack.dump(obj, file, **options)
    except Exception as error:
        raise SerializationError(error) from error
