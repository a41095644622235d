"""Encodes return values: any Python value becomes msgpack that every reader accepts (`saltlite.model.plain`).

    str                     unchanged; lone surrogates become U+FFFD
    bytes, bytearray …      bytes
    int beyond 64 bits      its digits as text
    tuple, set, view …      list; sets are sorted
    map, filter, zip …      list, as files written for Python 2 meant
    datetime, date, time    ISO 8601 text
    other objects           str() of them
    map keys                str and int unchanged; bytes are decoded, other keys become text; a duplicate gets ` (2)`;
                            keys longer than KEY_MAX are cut
    a cycle, DEPTH_MAX      replaced by a notice
    more than the limit     cut; a notice says how much is missing

Encoding never fails, so every job whose function returned has a return. The minion decides what to do with a return
that was cut (`saltlite.minion.jobs.returns`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, KeysView, Mapping, Sequence, Set, ValuesView
from datetime import date, datetime, time
from itertools import islice
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import RemoteProtocolError
from saltlite.model.dataclass import dataclass
from saltlite.model.plain import INT_MAX, INT_MIN, KEY_MAX, digits, free_key, is_plain_key, key_of

RETURN_MAX = 16 * 1024 * 1024
"""Bytes of one encoded return; a larger value is cut."""

DEPTH_MAX = 60
"""Nested containers; deeper ones become a notice."""

ITEMS_MAX = 1_000_000
"""Items of one list or map; further ones are cut."""

_LAZY = (map, filter, zip, enumerate, reversed)

_NOTICE_BYTES = 200
"""Space reserved for the notice of each nested level."""

NOTICES_BYTES = _NOTICE_BYTES * (DEPTH_MAX + 4)
"""Space reserved for all notices."""

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class EncodedValue:
    """An encoded value. If it is not `complete`, `size` is the least number of bytes that it would have."""

    body: bytes
    complete: bool
    size: int
    most_items: int
    """Items of its largest list or map."""

    def fits(self, limit: int) -> bool:
        """Whether it is complete and has at most `limit` bytes."""
        return self.complete and len(self.body) <= limit and self.most_items <= ITEMS_MAX


def encode_return(value: Any, limit: int = RETURN_MAX) -> bytes:
    """`value` as msgpack of at most `limit` bytes, which must be 16 KiB or more to have space for notices."""
    return _encode(value, _Cleaner(limit, ITEMS_MAX))


def encode_whole(value: Any, limit: int) -> EncodedValue:
    """`value` as msgpack, complete unless it exceeds `limit` bytes."""
    cleaner = _Cleaner(limit + NOTICES_BYTES, limit)
    body = _encode(value, cleaner)
    return EncodedValue(body, not cleaner.missing, len(body) + cleaner.missing, cleaner.most_items)


def _encode(value: Any, cleaner: _Cleaner) -> bytes:
    try:
        encoded: bytes = msgpack.packb(cleaner.clean(value), use_bin_type=True)
    except Exception as error:  # noqa: BLE001 - supervision point: values are foreign objects and run foreign code
        encoded = msgpack.packb(f"The function returned a value that cannot be encoded: {type(error).__name__}")
    return encoded


def decode_return(body: bytes, limit: int = RETURN_MAX) -> Any:
    """The value in `body`, which has at most `limit` bytes. Raises RemoteProtocolError for invalid bytes."""
    if len(body) > limit:
        raise RemoteProtocolError("oversize", f"a return of {len(body)} bytes")
    try:
        return msgpack.unpackb(body, raw=False, strict_map_key=False, ext_hook=_refuse_extension)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise RemoteProtocolError("bad-return", str(error)) from error


def _refuse_extension(code: int, data: bytes) -> Any:
    raise ValueError(f"extension type {code} of {len(data)} bytes")


class _Cleaner:
    """Turns a value into types of msgpack, and counts its encoded bytes."""

    def __init__(self, limit: int, items_max: int) -> None:
        self.missing = 0
        """Bytes that were cut, at least: an item that was cut counts as one."""
        self.most_items = 0
        self._limit = limit
        self._items_max = items_max
        self._left = limit - NOTICES_BYTES
        self._open: set[int] = set()

    def clean(self, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            self._left -= 1
            return value
        if isinstance(value, int):
            return self._int(int(value))
        if isinstance(value, float):
            self._left -= 9
            return float(value)
        if isinstance(value, str):
            return self._str(value)
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(bytes(value))
        if isinstance(value, Mapping):
            return self._nested(value, self._map)
        if isinstance(value, _LAZY):
            value = list(islice(value, self._items_max))
        if isinstance(value, Sequence | Set | KeysView | ValuesView):
            return self._nested(value, self._list)
        if isinstance(value, datetime | date | time):
            return self._str(value.isoformat())
        return self._str(_text(value))

    def _int(self, value: int) -> Any:
        if INT_MIN <= value <= INT_MAX:
            self._left -= 1 if -32 <= value < 128 else 9
            return value
        return self._str(digits(value))

    def _str(self, value: str) -> str:
        text = _SURROGATE.sub("\ufffd", value)
        size = len(text) if text.isascii() else len(text.encode())
        if size <= self._left - 5:
            self._left -= size + 5
            return text
        room = max(self._left - 5, 0)
        kept = text.encode()[:room].decode(errors="ignore")
        self._left = 0
        self.missing += size - room
        return f"{kept}[{size - room} of {size} bytes are missing: {self._why()}]"

    def _bytes(self, value: bytes) -> bytes | str:
        if len(value) <= self._left - 5:
            self._left -= len(value) + 5
            return value
        self.missing += len(value)
        return self._str(f"[{len(value)} bytes are missing: {self._why()}]")

    def _nested(self, value: Any, build: Any) -> Any:
        if id(value) in self._open:
            return self._str("[a value that contains itself]")
        if len(self._open) >= DEPTH_MAX:
            return self._str(f"[deeper than {DEPTH_MAX} levels]")
        self._open.add(id(value))
        try:
            self._left -= 5
            return build(value)
        finally:
            self._open.discard(id(value))

    def _list(self, value: Any) -> list[Any]:
        items: list[Any] = []
        for item in _sorted_set(value) if isinstance(value, Set) else value:
            if self._left <= 0 or len(items) >= self._items_max - 1:
                self.missing += len(value) - len(items)
                items.append(f"[{len(value) - len(items)} of {len(value)} items are missing: {self._why()}]")
                break
            items.append(self.clean(item))
        self.most_items = max(self.most_items, len(items))
        return items

    def _map(self, value: Mapping[Any, Any]) -> dict[Any, Any]:
        items: dict[Any, Any] = {}
        for key, item in value.items():
            if self._left <= 0 or len(items) >= self._items_max - 1:
                self.missing += len(value) - len(items)
                items[f"[{len(value) - len(items)} of {len(value)} entries are missing]"] = self._why()
                break
            items[self._key(key, items)] = self.clean(item)
        self.most_items = max(self.most_items, len(items))
        return items

    def _key(self, key: Any, taken: Mapping[Any, Any]) -> Any:
        name = key_of(key if isinstance(key, str | bytes | int) else _text(key))
        if isinstance(name, int):
            return free_key(str(self._int(name)), taken) if name in taken else self._int(name)
        return free_key(self._str(_shortened(name)), taken)

    def _why(self) -> str:
        return f"a return has at most {self._limit} bytes and {ITEMS_MAX} items"


def _sorted_set(value: Iterable[Any]) -> list[Any]:
    try:
        return sorted(value)
    except TypeError:
        return sorted(value, key=repr)


def _shortened(key: str) -> str:
    """The key, or its beginning with a notice if it is too long."""
    if is_plain_key(key):
        return str(key)
    kept = KEY_MAX - _NOTICE_BYTES
    return f"{key[:kept]}[{len(key) - kept} of {len(key)} characters are missing]"


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - a foreign object's own code
        return f"[a {type(value).__name__} whose text cannot be made: {type(error).__name__}]"
