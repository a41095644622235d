"""msgpack with limits: what may be in a message, and how large.

Allowed are plain values (`saltlite.model.plain`). Refused: extension types, other keys, a key twice in one map, bytes
after the value, and anything above the Limits. Contract of the encoding itself: the msgpack specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.model.plain import DEPTH_MAX, KEY_MAX
from saltlite.wire.limits import (
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
    """How large a value may be. `depth` counts maps and arrays inside each other (a bare number has 0);
    `map` and `array` count entries of one of them, `containers` all maps and arrays together; `string`,
    `binary` and `total` are bytes.
    """

    depth: int
    map: int
    array: int
    string: int
    binary: int
    containers: int
    total: int


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
"""The data of an event in the store; who may write one has smaller limits."""

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

_SMALL = 1024
"""Bytes up to which counting possible container headers is cheaper than counting containers."""

_NOT_CONTAINERS = bytes(i for i in range(256) if not (0x80 <= i <= 0x9F or 0xDC <= i <= 0xDF))


def encode(value: object, limits: Limits = PROTOCOL) -> bytes:
    """The msgpack bytes of a value that saltlite itself has put together.

    Only the total size is checked. Raises LocalProtocolError when it cannot be encoded or is too large.
    Use encode_checked for what a user gave.
    """
    try:
        data: bytes = msgpack.packb(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise LocalProtocolError(f"a value cannot be sent: {error}") from error
    if len(data) > limits.total:
        raise LocalProtocolError(f"a value makes {len(data)} bytes, the limit is {limits.total}: send less at once")
    return data


def encode_checked(value: object, limits: Limits) -> bytes:
    """The msgpack bytes of a value of any origin, such that decode with the same limits accepts them.

    Raises LocalProtocolError with a sentence that names what is wrong.
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
    # Every map and array has a header byte of its own, so that their number bounds the depth as well. Bytes
    # of strings may look like one; then the exact count decides.
    if size <= _SMALL and len(data.translate(None, _NOT_CONTAINERS)) <= limits.depth <= limits.containers:
        return _unpack(data, limits, None)
    value = _unpack(data, limits, _Budget(limits.containers, size))
    _check_depth(value, limits.depth)
    return value


class _Budget:
    """Counts containers while they are built, so that a flood of them stops before it fills the memory."""

    __slots__ = ("_left", "_long_keys")

    def __init__(self, containers: int, size: int) -> None:
        self._left = containers
        self._long_keys = size > KEY_MAX

    def array(self, items: list[Any]) -> list[Any]:
        self._spend()
        return items

    def map(self, pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        self._spend()
        if self._long_keys:
            for key, _ in pairs:
                if type(key) is str and len(key) > KEY_MAX:
                    raise RemoteProtocolError("bad-key", f"a map key has at most {KEY_MAX} characters, not {len(key)}")
        return _map(pairs)

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise RemoteProtocolError("too-many", "the message has too many maps and arrays")


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
    """Refuse more than `depth` levels of containers; level by level, so that the cost is linear."""
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
