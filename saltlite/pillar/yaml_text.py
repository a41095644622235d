"""The YAML of pillar files, to plain data, with `file:line:col` in front of every mistake.

Read as the configuration is, with two differences that hands which know Salt expect: `yes`, `no`, `on` and `off` are
booleans, and a key that is a whole number is one.
"""

from __future__ import annotations

from typing import Any

from saltlite.config.yamlfile import Map, PlacedError, Scalar, Sequence, Written, parse, resolve
from saltlite.errors import RenderError

_BOOLEANS = {
    **{word: True for text in ("yes", "on") for word in (text, text.capitalize(), text.upper())},
    **{word: False for text in ("no", "off") for word in (text, text.capitalize(), text.upper())},
}


def read_yaml(text: str, name: str) -> Any:
    """The data in `text`, None when it is empty. Raises RenderError, which repeats no value."""
    try:
        written, twice = parse(text.encode("utf-8", "surrogatepass"))
    except PlacedError as error:
        raise _misread(name, error) from error
    if twice:
        raise _misread(name, twice[0])
    return None if written is None else _value(written)


def _misread(name: str, error: PlacedError) -> RenderError:
    return RenderError(f"{name}:{error.where.line}:{error.where.column}: {error}")


def _value(written: Written) -> Any:
    match written:
        case Scalar():
            return written.text if written.quoted else _BOOLEANS.get(written.text, resolve(written.text))
        case Sequence():
            return [_value(item) for item in written.items]
        case Map():
            return {_key(key): _value(value) for key, value in written.pairs}


def _key(key: Scalar) -> str | int:
    value = key.text if key.quoted else resolve(key.text)
    return value if type(value) is int else key.text
