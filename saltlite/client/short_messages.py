"""MessagePack for the few short messages of one command, without the extension module.

Loading msgpack takes a command several times as long as these messages take here, because the package imports datetime.
Where this codec returns NOT_SHORT the caller uses msgpack: for anything long, deep, damaged or of an unusual type. So
it never refuses a message, and what it returns is exactly what msgpack would return with the options of
`saltlite.client.connection`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing takes as long as the rest of the client
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Reader = Callable[[bytes, int, int, int], tuple[Any, int]]

SHORT_BYTES = 32 * 1024
"""A longer message is for msgpack, which takes 5 ms to load and decodes fifty times as fast."""

DEPTH_MAX = 16
"""Levels of lists and maps."""

NOT_SHORT: Any = object()
"""The answer for a message that msgpack has to encode or decode."""


class _NotShortError(Exception):
    """The message is not for this codec."""


def pack(message: dict[str, Any]) -> bytes:
    """The message as msgpack packs it, or NOT_SHORT."""
    out = bytearray()
    try:
        _pack(message, out, 0)
    except (_NotShortError, ValueError):  # ValueError: text that is not UTF-8
        return NOT_SHORT  # type: ignore[no-any-return]  # the sentinel has every type
    return bytes(out)


def _pack(value: Any, out: bytearray, depth: int) -> None:
    kind = type(value)
    if kind is str:
        text = value.encode()
        if len(text) < 32:
            out.append(0xA0 | len(text))
        else:
            _length(len(text), 0xD9, out)
        out += text
    elif kind is dict:
        _count(len(value), 0x80, 0xDE, out, depth)
        for key, item in value.items():
            _pack(key, out, depth + 1)
            _pack(item, out, depth + 1)
    elif kind in (list, tuple):
        _count(len(value), 0x90, 0xDC, out, depth)
        for item in value:
            _pack(item, out, depth + 1)
    elif value is None:
        out.append(0xC0)
    elif kind is bool:
        out.append(0xC3 if value else 0xC2)
    elif kind is int:
        _pack_int(value, out)
    else:
        raise _NotShortError


def _length(size: int, first: int, out: bytearray) -> None:
    """The header of a text of that many bytes; `first` is the code for a length of one byte."""
    if len(out) + size > SHORT_BYTES:
        raise _NotShortError
    if size < 256:
        out += bytes((first, size))
    else:
        out.append(first + 1)
        out += size.to_bytes(2, "big")


def _count(size: int, fixed: int, code: int, out: bytearray, depth: int) -> None:
    if depth >= DEPTH_MAX or len(out) + size > SHORT_BYTES:
        raise _NotShortError
    if size < 16:
        out.append(fixed | size)
    else:
        out.append(code)
        out += size.to_bytes(2, "big")


def _pack_int(value: int, out: bytearray) -> None:
    if -32 <= value < 128:
        out.append(value & 0xFF)
        return
    code, bits = (0xCC, value.bit_length()) if value >= 0 else (0xD0, (~value).bit_length() + 1)
    for step, size in enumerate((1, 2, 4, 8)):
        if bits <= 8 * size:
            out.append(code + step)
            out += value.to_bytes(size, "big", signed=value < 0)
            return
    raise _NotShortError


def unpack(message: bytes) -> Any:
    """The value that msgpack unpacks, or NOT_SHORT."""
    if len(message) > SHORT_BYTES:
        return NOT_SHORT
    try:
        value, end = _unpack(message, 0, 0)
    except (_NotShortError, IndexError, TypeError):  # TypeError: a list as the key of a map
        return NOT_SHORT
    return value if end == len(message) else NOT_SHORT


def _unpack(message: bytes, at: int, depth: int) -> tuple[Any, int]:
    """The value that begins at `at`, and where the next one begins."""
    code = message[at]
    at += 1
    if code < 0x80:
        return code, at
    if code >= 0xE0:
        return code - 0x100, at
    read: Reader
    if code < 0xC0:
        read, mask = (_map, 0x0F) if code < 0x90 else (_list, 0x0F) if code < 0xA0 else (_text, 0x1F)
        return read(message, at, code & mask, depth)
    if code in _CONSTANTS:
        return _CONSTANTS[code], at
    if code not in _READERS:
        raise _NotShortError
    read, size = _READERS[code]
    number = int.from_bytes(_slice(message, at, size), "big", signed=read is _negative)
    return read(message, at + size, number, depth)


def _slice(message: bytes, at: int, size: int) -> bytes:
    if at + size > len(message):
        raise _NotShortError
    return message[at : at + size]


# Readers take the message, the place behind the header, the number in the header, and the depth.


def _positive(_message: bytes, at: int, number: int, _depth: int) -> tuple[int, int]:
    return number, at


def _negative(_message: bytes, at: int, number: int, _depth: int) -> tuple[int, int]:
    return number, at


def _float(_message: bytes, at: int, bits: int, _depth: int) -> tuple[float, int]:
    """The IEEE 754 number with these 64 bits, by its hexadecimal form: struct would be another extension module."""
    sign, exponent, fraction = "-" if bits >> 63 else "", bits >> 52 & 0x7FF, bits & (1 << 52) - 1
    if exponent == 0x7FF:
        raise _NotShortError  # an infinity, or not a number
    return float.fromhex(f"{sign}0x{min(exponent, 1)}.{fraction:013x}p{max(exponent, 1) - 1023}"), at


def _text(message: bytes, at: int, size: int, _depth: int) -> tuple[str, int]:
    return _slice(message, at, size).decode("utf-8", "replace"), at + size


def _binary(message: bytes, at: int, size: int, _depth: int) -> tuple[bytes, int]:
    return _slice(message, at, size), at + size


def _list(message: bytes, at: int, count: int, depth: int) -> tuple[list[Any], int]:
    if depth >= DEPTH_MAX:
        raise _NotShortError
    items = []
    for _ in range(count):
        item, at = _unpack(message, at, depth + 1)
        items.append(item)
    return items, at


def _map(message: bytes, at: int, count: int, depth: int) -> tuple[dict[Any, Any], int]:
    if depth >= DEPTH_MAX:
        raise _NotShortError
    items = {}
    for _ in range(count):
        key, at = _unpack(message, at, depth + 1)
        items[key], at = _unpack(message, at, depth + 1)
    return items, at


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_READERS: dict[int, tuple[Reader, int]] = {
    0xC4: (_binary, 1), 0xC5: (_binary, 2),
    0xCB: (_float, 8),
    0xCC: (_positive, 1), 0xCD: (_positive, 2), 0xCE: (_positive, 4), 0xCF: (_positive, 8),
    0xD0: (_negative, 1), 0xD1: (_negative, 2), 0xD2: (_negative, 4), 0xD3: (_negative, 8),
    0xD9: (_text, 1), 0xDA: (_text, 2),
    0xDC: (_list, 2),
    0xDE: (_map, 2),
}  # fmt: skip
"""Codes with the number of the header behind them: who reads on, and how many bytes that number has."""
