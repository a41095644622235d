"""Documents: what a minion holds and its master keeps a copy of (grains, resources), and what it is given (pillar).

A document is one map, as msgpack with its keys in one order, so that the same content is the same bytes on both sides
and a digest stands for it. It travels in pieces (`doc_put`, `doc_get`), and is checked as a whole by its SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any

from saltlite.errors import RemoteProtocolError
from saltlite.model.plain import INT_MAX, INT_MIN, digits, free_key, key_of
from saltlite.wire.codec import Limits, decode, encode_checked
from saltlite.wire.limits import DOC_MAX, MIB

CONTAINERS_MAX = 400_000
"""Maps and lists in one document: a minion with 100,000 resources has a map for the grains of each. They take a hundred
times their bytes in memory, and a document of nothing else would be read for a minute."""

DOCUMENT = Limits(
    depth=64,
    map=1_000_000,
    array=1_000_000,
    string=MIB,
    binary=MIB,
    containers=CONTAINERS_MAX,
    total=DOC_MAX,
)
"""One document."""

DIGEST_DIGITS = 32


def encode_document(content: Mapping[Any, Any]) -> bytes:
    """The bytes of a document. What msgpack has no word for becomes text, as in an answer of a job.

    Raises LocalProtocolError with a sentence when it is larger or deeper than a document may be.
    """
    return encode_checked(_ordered(content, DOCUMENT.depth), DOCUMENT)


def decode_document(data: bytes) -> dict[Any, Any]:
    """The map in `data`, of whatever origin. Raises RemoteProtocolError."""
    content = decode(data, DOCUMENT)
    if not isinstance(content, dict):
        raise RemoteProtocolError("bad-document", "it is no map")
    return content


def document_digest(data: bytes) -> str:
    """What stands for a document in `digest`: 32 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()[:DIGEST_DIGITS]


def _ordered(value: object, levels: int) -> object:
    """The value with the keys of its maps sorted, and made of nothing but what a document may hold."""
    if isinstance(value, str):
        return str(value).encode("utf-8", "replace").decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if value is None or isinstance(value, bool | float | bytes):
        return value
    if isinstance(value, int):
        return int(value) if INT_MIN <= value <= INT_MAX else digits(value)
    if levels and isinstance(value, Mapping):
        pairs = _with_plain_keys(value)
        return {key: _ordered(pairs[key], levels - 1) for key in sorted(pairs, key=lambda key: (type(key) is int, key))}
    if levels and isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [_ordered(item, levels - 1) for item in items]
    # What is nested too deeply is left as it is, for the encoder to refuse.
    return value if isinstance(value, Mapping | list | tuple) else str(value)


def _with_plain_keys(value: Mapping[Any, Any]) -> dict[str | int, Any]:
    """The map with the keys that a document may have; none replaces another."""
    pairs: dict[str | int, Any] = {}
    for key, item in value.items():
        name = key_of(key)
        if isinstance(name, str):
            name = free_key(name.encode("utf-8", "replace").decode(), pairs)
        pairs[name if name not in pairs else free_key(str(name), pairs)] = item
    return pairs
