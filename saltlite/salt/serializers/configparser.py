"""`salt.serializers.configparser`: sections of a file of `configparser`, as a dict of dicts."""

from __future__ import annotations

import configparser
import io
from typing import Any

from saltlite.salt.serializers import DeserializationError, SerializationError

__all__ = ["available", "deserialize", "serialize"]

available = True


def deserialize(stream_or_string: Any, **options: Any) -> dict[str, dict[str, str]]:
    """What a text or an open file means. Raises DeserializationError."""
    parser = configparser.ConfigParser(**options)
    try:
        parser.read_file(stream_or_string if hasattr(stream_or_string, "read") else io.StringIO(stream_or_string))
        return {name: dict(parser.items(name)) for name in parser.sections()}
    except Exception as error:
        raise DeserializationError(error) from error


def serialize(obj: Any, **options: Any) -> str | None:
    """The text, or None if it was written to the open file `fp`. Raises SerializationError."""
    if not isinstance(obj, dict):
        raise SerializationError(f"configparser can only serialize dictionaries, not {type(obj)}")
    try:
        file = options.pop("fp", None)
        parser = configparser.ConfigParser(**options)
        parser.read_dict(obj)
        text = io.StringIO()
        parser.write(file or text)
    except Exception as error:
        raise SerializationError(error) from error
    return None if file else text.getvalue()
