"""Values of banks as bytes: what is accepted, and how large it may be. Every driver stores these bytes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from saltlite.errors import LocalProtocolError, RemoteProtocolError, UsageError
from saltlite.targeting.banks import DIGEST_MAX, VALUE_DEPTH_MAX, Value
from saltlite.wire.codec import Limits, decode, encode_checked


def encoded(value: Mapping[str, Any], most: int, depth: int = VALUE_DEPTH_MAX) -> bytes:
    """The value in msgpack, at most `most` bytes, and `depth` levels deep. Raises UsageError with the reason."""
    try:
        return encode_checked(dict(value), limits_of(most, depth))
    except LocalProtocolError as error:
        raise UsageError(f"this cannot be cached: {error}") from None


def decoded(data: bytes, most: int, depth: int = VALUE_DEPTH_MAX) -> Value | None:
    """The value in these bytes; None when they are none."""
    try:
        value = decode(data, limits_of(most, depth))
    except RemoteProtocolError:
        return None
    return value if isinstance(value, dict) else None


def check_digest(digest: str) -> str:
    """`digest`, when it can be kept with a value. Raises UsageError."""
    if len(digest) > DIGEST_MAX or not digest.isascii() or "\0" in digest:
        raise UsageError(f"a digest has at most {DIGEST_MAX} ASCII characters")
    return digest


_EMPTY = (None,)


def leaves_of(content: Mapping[Any, Any], depth: int = VALUE_DEPTH_MAX) -> int:
    """How many plain values, empty maps and empty lists are in it: what an index may have to take up of it.

    Raises UsageError where maps and lists are inside each other for more than `depth` levels.
    """
    count, level = 0, [content.values() or _EMPTY]
    for _ in range(depth):
        below: list[Any] = []
        for values in level:
            count += len(values)
            for value in values:
                if isinstance(value, dict):
                    below.append(value.values() or _EMPTY)
                elif isinstance(value, list):
                    below.append(value or _EMPTY)
        if not below:
            return count
        count -= len(below)
        level = below
    raise UsageError(f"this cannot be cached: there are more than {depth} levels of maps and lists")


@cache
def limits_of(most: int, depth: int) -> Limits:
    """Limits of a value: only its size and its depth have some of their own."""
    return Limits(depth=depth, map=most, array=most, string=most, binary=most, containers=most, total=most)
