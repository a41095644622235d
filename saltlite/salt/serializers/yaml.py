"""`salt.serializers.yaml`"""

from __future__ import annotations

import io
from typing import Any

from saltlite.salt.serializers import DeserializationError, SerializationError
from saltlite.salt.utils import yaml

__all__ = ["available", "deserialize", "serialize"]

available = True


def deserialize(stream_or_string: Any, **options: Any) -> Any:
    """What a text, bytes or an open file means. Raises DeserializationError."""
    try:
        return yaml.load(stream_or_string, **options)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        buffer = stream_or_string if isinstance(stream_or_string, str) else ""
        line = None if mark is None else mark.line + 1
        raise DeserializationError(getattr(error, "problem", None) or str(error), line, buffer) from error
    except Exception as error:
        raise DeserializationError(error) from error


def serialize(obj: Any, **options: Any) -> Any:
    """The text, or None if it was written to the open file `stream`. Raises SerializationError."""
    try:
        stream = options.pop("stream", None)
        text = yaml.safe_dump(obj, **options)
    except Exception as error:
        raise SerializationError(error) from error
    if stream is not None:
        stream.write(text if isinstance(stream, io.TextIOBase) else text.encode())
        return None
    if text.endswith("...\n"):
        return text[:-5]  # the end of a document behind a single value
    return text[:-1] if text.endswith("\n") else text
