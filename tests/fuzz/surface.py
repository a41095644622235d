"""What a surface is, and what its inputs are made of."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Protocol

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

INPUT_MAX = 64 * 1024
"""Bytes of one input."""


class Surface(Protocol):
    """One harness. `run` raises for defects only: every error that the surface promises is taken care of in it."""

    def seeds(self) -> Sequence[bytes]:
        """Inputs that are well formed, and reach the parts that others are to be mutated into."""
        ...

    def run(self, data: bytes) -> None:
        """Read these bytes as the product does."""
        ...

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        """Other bytes, like these."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...


PLAIN: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 255, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.0, -0.0, 1.5, 1e308,
    float("inf"), float("-inf"), float("nan"), "", " ", "*", "a", "\0", "\n", "é", "\u202e", "\ud800", "a" * 300,
    "../../etc/passwd", "1", "1.5", "true", "null", "[]", b"", b"\xff\xfe\0", b"a" * 100, [], {}, [[]], {"a": {}},
    {1: 2}, {"": ""}, [None], [1, "a"], {"a": [1, {"b": None}]},
)  # fmt: skip
"""Values that have been trouble somewhere."""

_DEPTH = 70


def packed(value: Any) -> bytes:
    """A value in msgpack; halves of surrogate pairs stay what they are, which is no UTF-8."""
    data: bytes = msgpack.packb(value, unicode_errors="surrogatepass", default=str)
    return data


def unpacked(data: bytes) -> Any:
    """The value, None where there is none."""
    try:
        return msgpack.unpackb(data, strict_map_key=False, unicode_errors="surrogateescape")
    except Exception:  # noqa: BLE001 - any bytes may come
        return None


def mutate_value(value: Any, rng: random.Random, words: Sequence[Any] = ()) -> Any:
    """The value with one to four changes at random places; `words` are what the surface takes."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        value = _changed(value, rng, [*PLAIN, *words] if rng.random() < 0.5 or not words else words, 0)
    return value


def _changed(value: Any, rng: random.Random, words: Sequence[Any], depth: int) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.85 and depth < _DEPTH:
        return _changed_map(value, rng, words, depth)
    if isinstance(value, list) and value and rng.random() < 0.8 and depth < _DEPTH:
        items, at = list(value), rng.randrange(len(value))
        match rng.randrange(6):
            case 0:
                del items[at]
            case 1:
                items.insert(at, rng.choice(words))
            case 2:
                items += items[: 1 + at]
            case _:
                items[at] = _changed(items[at], rng, words, depth + 1)
        return items
    return _changed_leaf(value, rng, words)


def _changed_map(value: dict[Any, Any], rng: random.Random, words: Sequence[Any], depth: int) -> dict[Any, Any]:
    entries, key = dict(value), rng.choice(list(value))
    match rng.randrange(8):
        case 0:
            del entries[key]
        case 1:
            entries[_key(rng.choice(words))] = rng.choice(words)
        case 2:
            entries[_key(rng.choice(words))] = entries.pop(key)
        case _:
            entries[key] = _changed(entries[key], rng, words, depth + 1)
    return entries


def _key(value: Any) -> Any:
    return str(value) if isinstance(value, list | dict) else value


def _changed_leaf(value: Any, rng: random.Random, words: Sequence[Any]) -> Any:
    chance = rng.randrange(8)
    if chance == 0:
        for _ in range(rng.choice((1, 3, 20, 66, 200))):
            value = [value] if rng.random() < 0.7 else {"a": value}
        return value
    if isinstance(value, bool) or value is None:
        return rng.choice(words)
    if isinstance(value, int) and chance < 5:
        changed = value + rng.choice((1, -1, 2**31, -value, 2**63 - 1 - value))
        return max(-(2**63), min(2**64 - 1, changed))
    if isinstance(value, str) and chance < 5:
        return mutate_text(value, rng, [word for word in words if isinstance(word, str)])
    if isinstance(value, bytes) and chance < 5:
        return mutate_bytes(value, rng)
    return rng.choice(words)


def mutate_text(text: str, rng: random.Random, words: Sequence[str]) -> str:
    """The text with one change: a word in it, a part of it gone, doubled or moved, a letter of another kind."""
    begin = rng.randrange(len(text) + 1)
    end = min(len(text), begin + rng.choice((0, 1, 4, 20, 100)))
    match rng.randrange(6):
        case 0 if words:
            return text[:begin] + rng.choice(words) + text[begin:]
        case 1 if words:
            return text[:begin] + rng.choice(words) + text[end:]
        case 2:
            return text[:begin] + text[end:]
        case 3:
            return text[:begin] + text[begin:end] * rng.choice((2, 10, 50)) + text[end:]
        case 4:
            at = rng.randrange(len(text) + 1)
            return text[:begin] + text[end:][:at] + text[begin:end] + text[end:][at:]
    return text[:begin] + chr(rng.choice((0, 9, 10, 32, 34, 39, 58, 123, 0x85, 0x2028, 0xE9, 0x1F600))) + text[end:]


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to eight changes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(6):
            case 0:
                changed[at:at] = rng.randbytes(rng.choice((1, 4, 8, 32)))
            case 1:
                del changed[at : at + rng.choice((1, 4, 16, 100))]
            case 2 if at < len(changed):
                changed[at] ^= 1 << rng.randrange(8)
            case 3:
                size = rng.choice((1, 2, 4, 8))
                changed[at : at + size] = rng.choice((0, 1, 2**31, 2**32 - 1, 127, 128)).to_bytes(8, "big")[-size:]
            case 4:
                other = rng.randrange(len(changed) + 1)
                changed[at:at] = changed[other : other + rng.choice((4, 16, 100))]
            case _:
                changed[at : at + 1] = rng.randbytes(1)
    return bytes(changed[:INPUT_MAX])
