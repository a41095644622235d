"""The records of the registry's log: one row each, checked by a CRC, never changed once they are committed.

    u32  size of the record in bytes, a multiple of 8, with the kind in its three low bits
    u16  bytes of the key      u16  bytes of the value
    key (an SRN, UTF-8), value (JSON, UTF-8), zeros up to the size
    u32  CRC-32 of everything before it

All numbers are little-endian. No record says where it stands, so they are moved as they are. The CRC stands at the
end because the CRC of a whole record is then one constant: it is checked without taking the record apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from struct import Struct
from typing import Protocol
from zlib import crc32

from saltlite.errors import DamagedError, StoreError

PUT = 1
DELETE = 2
LAST = 4
"""Flag of the record that ends a transaction: without it, what stands before it was never acknowledged."""

KIND = 7
HEAD = Struct("<IHH")
RECORD_MIN = HEAD.size + 8
RECORD_MAX = 4096
"""Bytes of one record: a key has at most 320, a value some hundred."""

WHOLE = 0x2144DF1C
"""CRC-32 of anything that is followed by its own CRC-32."""

OWNERS_KEPT = 65_536
"""Values that are taken apart once only: there is one for each type of each minion."""

Change = tuple[bytes, bytes | None]
"""A key with its new value, or with None when it goes."""


class Mapped(Protocol):
    """Bytes of a file, in memory or mapped."""

    def __getitem__(self, part: slice, /) -> bytes: ...

    def __len__(self) -> int: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...


def payload(minion: str, resource_type: str) -> bytes:
    """The value of a row: `{"m": <minion id>, "t": <type>}` as JSON without spaces."""
    return json.dumps({"m": minion, "t": resource_type}, separators=(",", ":")).encode()


@lru_cache(maxsize=OWNERS_KEPT)
def owner_in(value: bytes) -> tuple[str, str]:
    """Minion and type in a row's value. Raises DamagedError."""
    try:
        row = json.loads(value)
        minion, resource_type = row["m"], row["t"]
    except (ValueError, TypeError, KeyError, RecursionError):
        minion = resource_type = None
    if not isinstance(minion, str) or not isinstance(resource_type, str):
        raise DamagedError(f"the registry holds a row that names no owner: {value[:80]!r}")
    return minion, resource_type


def is_possible(key: bytes, value: bytes) -> bool:
    """Whether a registry can have written that row: a text whose type is the one that its value names."""
    try:
        key.decode()
        return key.startswith(owner_in(value)[1].encode() + b":")
    except (DamagedError, UnicodeDecodeError):
        return False


def encoded(changes: Sequence[Change]) -> list[bytes]:
    """One transaction, of one change at least: a record for each, in order.

    Raises StoreError when a row is too long for a record.
    """
    lines: list[bytes] = []
    known: bytes | None = b"no value yet"
    shapes: dict[int, tuple[bytes, bytes]] = {}
    for key, value in changes:
        # Rows of one minion differ by their keys only, so what surrounds a key is made once for each length.
        if value != known:
            known, shapes = value, {}
        if (shape := shapes.get(len(key))) is None:
            shape = shapes[len(key)] = _shape(key, value, 0)
        line = shape[0] + key + shape[1]
        lines.append(line + crc32(line).to_bytes(4, "little"))
    before, after = _shape(*changes[-1], LAST)
    line = before + changes[-1][0] + after
    lines[-1] = line + crc32(line).to_bytes(4, "little")
    return lines


def _shape(key: bytes, value: bytes | None, flags: int) -> tuple[bytes, bytes]:
    """What stands before the key, and between the key and the CRC."""
    body = value or b""
    used = HEAD.size + len(key) + len(body) + 4
    size = (used + 7) & ~7
    if size > RECORD_MAX:
        raise StoreError(f"the row {key[:80]!r} has {size} bytes, and the registry takes {RECORD_MAX}: shorten the id")
    kind = (DELETE if value is None else PUT) | flags
    return HEAD.pack(size | kind, len(key), len(body)), body + bytes(size - used)


def read(log: Mapped, at: int, end: int) -> tuple[int, int, bytes, bytes | None]:
    """The record at that offset: its size, its flags, key, and value (None for a delete).

    Raises DamagedError when there is no whole record between `at` and `end`.
    """
    if at + RECORD_MIN <= end:
        word, keys, values = HEAD.unpack_from(log, at)
        size = word & ~KIND
        record = log[at : at + size] if RECORD_MIN <= size <= RECORD_MAX and at + size <= end else b""
        if record and crc32(record) == WHOLE:
            middle = HEAD.size + keys
            return (
                size,
                word & KIND,
                record[HEAD.size : middle],
                record[middle : middle + values] if word & PUT else None,
            )
    raise DamagedError(f"the registry's record at byte {at} is damaged")


def changes_in(log: Mapped, start: int, end: int) -> Iterator[Change]:
    """What happened between two offsets, in order. Raises DamagedError at a record that is not whole."""
    unpack, head, at = HEAD.unpack_from, HEAD.size, start
    # The loop behind a full build of the views: `read` in place, for it runs a million times.
    while at < end:
        word, keys, values = unpack(log, at) if at + RECORD_MIN <= end else (0, 0, 0)
        size = word & ~KIND
        record = log[at : at + size]
        if crc32(record) != WHOLE or at + size > end or size < RECORD_MIN:
            raise DamagedError(f"the registry's record at byte {at} is damaged")
        middle = head + keys
        yield record[head:middle], record[middle : middle + values] if word & PUT else None
        at += size


def whole_records(log: Mapped, start: int, end: int) -> Iterator[tuple[int, int, bytes, bytes | None]]:
    """Every record that is whole, with its offset and its flags; over damage it goes on at the next whole record."""
    at = start
    while at + RECORD_MIN <= end:
        try:
            size, flags, key, value = read(log, at, end)
        except DamagedError:
            at += 8
            continue
        yield at, flags, key, value
        at += size
