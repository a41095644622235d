"""msgpack with limits, and the documents that a minion and its master exchange.

A message may hold plain values only (`saltlite.model.plain`). The decoder refuses extension types, other map keys,
duplicate keys, bytes after the value, and anything above the given `Limits`.

A document (grains, resources, a pillar) is one map, encoded with its keys in a fixed order. The same content has the
same bytes on both sides, so a digest identifies it. It travels in pieces and is checked as a whole by its SHA-256.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.model.dataclass import dataclass
from saltlite.model.plain import DEPTH_MAX, INT_MAX, INT_MIN, KEY_MAX, digits, free_key, key_of
from saltlite.model.sha256 import sha256
from saltlite.wire.framing import packed
from saltlite.wire.limits import (
    DOC_MAX,
    EVENT_DATA_MAX,
    FRAME_MAX,
    KIB,
    MESSAGE_ARRAY,
    MESSAGE_CONTAINERS,
    MESSAGE_DEPTH,
    MESSAGE_MAP,
    MESSAGE_STRING,
    MIB,
    RETURN_MAX,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a value. `depth` counts nested maps and arrays (a bare number has 0); `map` and `array` limit the
    entries of one, `values` those of all together, `containers` the number of all; `string`, `binary` and `total` are
    bytes, and limit the values where `values` is not given."""

    depth: int
    map: int
    array: int
    string: int
    binary: int
    containers: int
    total: int
    values: int = 2**63


PROTOCOL = Limits(
    depth=MESSAGE_DEPTH,
    map=MESSAGE_MAP,
    array=MESSAGE_ARRAY,
    string=MESSAGE_STRING,
    binary=MESSAGE_STRING,
    containers=MESSAGE_CONTAINERS,
    total=FRAME_MAX,
)
"""Messages between master and minion, and requests of clients."""

RETURN = Limits(
    depth=DEPTH_MAX,
    map=1_000_000,
    array=1_000_000,
    string=RETURN_MAX,
    binary=RETURN_MAX,
    containers=1_000_000,
    total=RETURN_MAX + 64 * KIB,
)
"""The body of one return."""

EVENT = Limits(
    depth=MESSAGE_DEPTH,
    map=MESSAGE_MAP,
    array=MESSAGE_ARRAY,
    string=EVENT_DATA_MAX,
    binary=EVENT_DATA_MAX,
    containers=MESSAGE_CONTAINERS,
    total=EVENT_DATA_MAX,
)
"""The data of an event that a minion sends."""

STORED = Limits(
    depth=DEPTH_MAX,
    map=1_000_000,
    array=1_000_000,
    string=RETURN_MAX,
    binary=RETURN_MAX,
    containers=1_000_000,
    total=RETURN_MAX + 64 * KIB,
)
"""The data of an event in the store; its writers have smaller limits."""

LOCAL = Limits(
    depth=DEPTH_MAX + MESSAGE_DEPTH,
    map=1_000_000,
    array=1_000_000,
    string=RETURN_MAX,
    binary=RETURN_MAX + 64 * KIB,
    containers=1_000_000,
    total=64 * MIB,
)
"""Messages on the Unix socket of one machine, which may carry whole returns."""

USER_VALUES = 8 * KIB
"""Entries of all maps and arrays of one request."""

USER = Limits(
    depth=LOCAL.depth,
    map=USER_VALUES,
    array=USER_VALUES,
    string=MIB,
    binary=MIB,
    containers=USER_VALUES,
    total=MIB,
    values=USER_VALUES,
)
"""Requests of users who are not operators. A value of one byte takes up to 200 bytes of the master's memory."""

_SMALL = 1024
"""Bytes up to which counting possible container headers is faster than counting containers."""

_NOT_CONTAINERS = bytes(i for i in range(256) if not (0x80 <= i <= 0x9F or 0xDC <= i <= 0xDF))


def encode(value: object, limits: Limits = PROTOCOL) -> bytes:
    """The msgpack bytes of a value that saltlite itself has built.

    Only the total size is checked. Raises LocalProtocolError when it cannot be encoded or is too large. Use
    encode_checked for values of users.
    """
    try:
        data = packed(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalProtocolError(f"a value cannot be sent: {error}") from error
    if len(data) > limits.total:
        raise LocalProtocolError(f"a value makes {len(data)} bytes, the limit is {limits.total}: send less at once")
    return data


def encode_checked(value: object, limits: Limits) -> bytes:
    """The msgpack bytes of any value, such that decode with the same limits accepts them.

    Raises LocalProtocolError with a sentence about the error.
    """
    data = encode(value, limits)
    try:
        decode(data, limits)
    except RemoteProtocolError as error:
        raise LocalProtocolError(f"a value cannot be sent: {error}") from error
    return data


def decode(data: bytes, limits: Limits = PROTOCOL) -> Any:
    """The value in `data`. Arrays become lists.

    Raises RemoteProtocolError with the reason `oversize`, `too-deep`, `too-many`, `duplicate-key`, `bad-key`,
    `extension`, `trailing-bytes` or `malformed` (which includes a string, array or map above its own limit).
    """
    size = len(data)
    if size > limits.total:
        raise RemoteProtocolError("oversize", f"{size} bytes, the limit is {limits.total}")
    # Every map and array has a header byte, so their number also bounds the depth. Bytes of strings may look like one;
    # then the exact count decides.
    if size <= _SMALL and len(data.translate(None, _NOT_CONTAINERS)) <= limits.depth <= limits.containers:
        return _unpack(data, limits, None)
    value = _unpack(data, limits, _Budget(limits, size))
    _check_depth(value, limits.depth)
    return value


class _Budget:
    """Counts containers and values while they are built, so that decoding stops before too many fill the memory."""

    __slots__ = ("_containers", "_long_keys", "_values")

    def __init__(self, limits: Limits, size: int) -> None:
        self._containers = limits.containers
        self._values = limits.values
        self._long_keys = size > KEY_MAX

    def array(self, items: list[Any]) -> list[Any]:
        self._spend(len(items))
        return items

    def map(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        self._spend(len(pairs))
        if self._long_keys:
            for key, _ in pairs:
                if type(key) is str and len(key) > KEY_MAX:
                    raise RemoteProtocolError("bad-key", f"a map key has at most {KEY_MAX} characters, not {len(key)}")
        return _map(pairs)

    def _spend(self, values: int) -> None:
        self._containers -= 1
        self._values -= values
        if self._containers < 0:
            raise RemoteProtocolError("too-many", "the message has too many maps and arrays")
        if self._values < 0:
            raise RemoteProtocolError("too-many", "the maps and arrays of the message have too many entries together")


def _unpack(data: bytes, limits: Limits, budget: _Budget | None) -> object:
    size = len(data)
    try:
        return msgpack.unpackb(
            data,
            strict_map_key=False,  # _map is stricter about types, and allows integers
            object_pairs_hook=_map if budget is None else budget.map,
            list_hook=None if budget is None else budget.array,
            ext_hook=_refuse_extension,
            # Nothing has more entries than the message has bytes: a false header must not reserve memory.
            max_map_len=min(limits.map, size),
            max_array_len=min(limits.array, size),
            max_str_len=limits.string,
            max_bin_len=limits.binary,
            max_ext_len=0,
        )
    except msgpack.ExtraData:
        raise RemoteProtocolError("trailing-bytes", "there are bytes after the message") from None
    except msgpack.StackError:
        raise RemoteProtocolError("too-deep", "the message is nested too deeply") from None
    except (msgpack.UnpackException, ValueError) as error:
        raise RemoteProtocolError("malformed", str(error)) from None


def _map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    for key, _ in pairs:
        if type(key) is not str and type(key) is not int:
            raise RemoteProtocolError("bad-key", f"a map key is a string or an integer, not {type(key).__name__}")
    built = dict(pairs)
    if len(built) != len(pairs):
        raise RemoteProtocolError("duplicate-key", "a map has a key twice")
    return built


def _refuse_extension(code: int, data: bytes) -> object:
    raise RemoteProtocolError("extension", f"extension type {code} with {len(data)} bytes")


def _check_depth(value: object, depth: int) -> None:
    """Refuse more than `depth` levels of containers, level by level in linear time."""
    level: list[Any] = [value] if type(value) in _CONTAINERS else []
    for _ in range(depth):
        if not level:
            return
        level = [
            item
            for container in level
            for item in (container.values() if type(container) is dict else container)
            if type(item) in _CONTAINERS
        ]
    if level:
        raise RemoteProtocolError("too-deep", f"the message has more than {depth} levels")


_CONTAINERS = frozenset({dict, list})


# -- Documents


CONTAINERS_MAX = 400_000
"""Maps and lists in one document: a minion with 100,000 resources has a map for the grains of each. They take a hundred
times their bytes in memory, and a document of nothing else would take a minute to read."""

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
    """The bytes of a document, the same for equal content: keys are sorted.

    Values that msgpack does not know become text, as in a return. Raises LocalProtocolError with a
    sentence when the document exceeds a limit.
    """
    return encode_checked(_plain(content, DOCUMENT.depth, _sorted_keys), DOCUMENT)


def encode_pillar(content: Mapping[Any, Any]) -> bytes:
    """As `encode_document`, with the keys in the order of the files: templates and states go through them in it."""
    return encode_checked(_plain(content, DOCUMENT.depth, list), DOCUMENT)


def decode_document(data: bytes) -> dict[Any, Any]:
    """The map in `data`. Raises RemoteProtocolError."""
    content = decode(data, DOCUMENT)
    if not isinstance(content, dict):
        raise RemoteProtocolError("bad-document", "it is not a map")
    return content


def document_digest(data: bytes) -> str:
    """The digest of a document in `digest` messages: 32 hexadecimal digits."""
    return sha256(data).hex()[:DIGEST_DIGITS]


_Keys = dict[str | int, Any]


def _sorted_keys(pairs: _Keys) -> list[str | int]:
    return sorted(pairs, key=lambda key: (type(key) is int, key))


def _plain(value: object, levels: int, keys: Callable[[_Keys], list[str | int]]) -> object:
    """The value with map keys in the order of `keys`, and only types that a document may have."""
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
        return {key: _plain(pairs[key], levels - 1, keys) for key in keys(pairs)}
    if levels and isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [_plain(item, levels - 1, keys) for item in items]
    # Values that are nested too deeply stay, and the encoder refuses them.
    return value if isinstance(value, Mapping | list | tuple) else str(value)


def _with_plain_keys(value: Mapping[Any, Any]) -> dict[str | int, Any]:
    """The map with valid keys, without losing an entry."""
    pairs: dict[str | int, Any] = {}
    for key, item in value.items():
        name = key_of(key)
        if isinstance(name, str):
            name = free_key(name.encode("utf-8", "replace").decode(), pairs)
        pairs[name if name not in pairs else free_key(str(name), pairs)] = item
    return pairs
