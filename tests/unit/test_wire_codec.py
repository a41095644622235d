"""What the codec takes and what it refuses, at and beyond each limit (rules R9 and R10)."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
import pytest

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.wire import codec
from saltlite.wire.limits import (
    FRAME_MAX,
    KIB,
    MESSAGE_ARRAY,
    MESSAGE_CONTAINERS,
    MESSAGE_DEPTH,
    MESSAGE_MAP,
    MESSAGE_STRING,
)


def refusal(data: bytes, limits: codec.Limits = codec.PROTOCOL) -> str:
    with pytest.raises(RemoteProtocolError) as caught:
        codec.decode(data, limits)
    return caught.value.reason


def nested(levels: int, start: object = 0) -> Any:
    value = start
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**63),
        2**64 - 1,
        1.5,
        "",
        "grüße",
        b"\x00\xff",
        [],
        {},
        {"t": "job", "a": [1, {"b": None}], 7: "seven"},
    ],
    ids=repr,
)
def test_a_value_comes_back(value: object) -> None:
    assert codec.decode(codec.encode(value)) == value


def test_a_tuple_comes_back_as_a_list() -> None:
    assert codec.decode(codec.encode((1, 2))) == [1, 2]


@pytest.mark.parametrize("pad", ["", "x" * 2000], ids=["small", "large"])
def test_depth_is_allowed_up_to_its_limit(pad: str) -> None:
    data = msgpack.packb(nested(MESSAGE_DEPTH, pad))
    assert codec.decode(data) == nested(MESSAGE_DEPTH, pad)
    assert refusal(msgpack.packb(nested(MESSAGE_DEPTH + 1, pad))) == "too-deep"


def test_depth_counts_maps_and_arrays_alike() -> None:
    value: Any = 0
    for level in range(MESSAGE_DEPTH + 1):
        value = {"k": value} if level % 2 else [value]
    assert refusal(msgpack.packb(value)) == "too-deep"


def test_text_that_looks_like_containers_is_not_counted_as_depth() -> None:
    text = "áâãäåæçèéêëìíîïðñòóôõö" * 5  # its UTF-8 is full of bytes that begin a map or an array elsewhere
    assert codec.decode(codec.encode([text])) == [text]


@pytest.mark.parametrize("levels", [1000, 5000, 100_000])
def test_very_deep_nesting_is_refused(levels: int) -> None:
    assert refusal(b"\x91" * levels + b"\xc0") == "too-deep"


@pytest.mark.parametrize(
    ("fits", "too_large"),
    [
        (dict.fromkeys(range(MESSAGE_MAP)), dict.fromkeys(range(MESSAGE_MAP + 1))),
        ([0] * MESSAGE_ARRAY, [0] * (MESSAGE_ARRAY + 1)),
        ("s" * MESSAGE_STRING, "s" * (MESSAGE_STRING + 1)),
        (b"b" * MESSAGE_STRING, b"b" * (MESSAGE_STRING + 1)),
    ],
    ids=["map", "array", "string", "binary"],
)
def test_each_size_is_allowed_up_to_its_limit(fits: object, too_large: object) -> None:
    assert codec.decode(msgpack.packb(fits)) == fits
    assert refusal(msgpack.packb(too_large)) == "malformed"


def test_total_size_is_allowed_up_to_its_limit() -> None:
    limits = dataclasses.replace(codec.PROTOCOL, total=10)
    assert codec.decode(msgpack.packb("x" * 9), limits) == "x" * 9
    assert refusal(msgpack.packb("x" * 10), limits) == "oversize"
    with pytest.raises(LocalProtocolError, match="send less"):
        codec.encode("x" * 10, limits)


def test_containers_are_allowed_up_to_their_limit() -> None:
    rows = MESSAGE_CONTAINERS // 4 - 2
    value: list[Any] = [[{} for _ in range(rows)] for _ in range(4)]
    while sum(len(row) for row in value) < MESSAGE_CONTAINERS - 5:
        value[0].append({})
    assert codec.decode(msgpack.packb(value)) == value
    value[0].append({})
    assert refusal(msgpack.packb(value)) == "too-many"


def test_a_megabyte_of_empty_maps_is_stopped_before_it_fills_the_memory() -> None:
    array = b"\xdd" + (1_000_000).to_bytes(4, "big")
    data = b"\x92" + (array + b"\x80" * 1_000_000) * 2
    tracemalloc.start()
    try:
        assert refusal(data, codec.RETURN) == "too-many"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 160 * KIB * KIB


@pytest.mark.parametrize("claim", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"])
def test_a_false_claim_of_size_reserves_nothing(claim: bytes) -> None:
    tracemalloc.start()
    try:
        assert refusal(claim, codec.RETURN) == "malformed"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < KIB * KIB


@pytest.mark.parametrize("pad", ["", "x" * 2000], ids=["small", "large"])
def test_a_key_twice_in_one_map_is_refused(pad: str) -> None:
    one = msgpack.packb("t") + msgpack.packb(pad)
    assert refusal(b"\x82" + one + one) == "duplicate-key"


@pytest.mark.parametrize("key", [b"\xc0", b"\xc3", b"\xcb" + bytes(8), b"\xc4\x01k", b"\x90", b"\x80", b"\x91\x80"])
def test_a_key_that_is_neither_string_nor_integer_is_refused(key: bytes) -> None:
    assert refusal(b"\x81" + key + b"\x01") == "bad-key"


@pytest.mark.parametrize(
    "data",
    [
        msgpack.packb(msgpack.ExtType(5, b"")),
        msgpack.packb(msgpack.ExtType(5, b"xx")),
        msgpack.packb(msgpack.Timestamp(1)),
        b"\xc7\x00\xff",
    ],
    ids=["empty", "small", "timestamp", "empty timestamp"],
)
def test_extension_types_are_refused(data: bytes) -> None:
    assert refusal(data) in {"extension", "malformed"}


def test_bytes_after_the_value_are_refused() -> None:
    assert refusal(codec.encode({"t": "heartbeat"}) + b"\xc0") == "trailing-bytes"


@pytest.mark.parametrize("data", [b"", b"\x81", b"\xc1", b"\xa2x", b"\xa1\xff", b"\xcf\x00"])
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    assert refusal(data) == "malformed"


@pytest.mark.parametrize(
    "value",
    [{1, 2}, object(), 2**64, "\ud800", [print]],
    ids=["set", "object", "big", "surrogate", "function"],
)
def test_a_value_that_cannot_travel_is_refused_with_a_sentence(value: object) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be sent"):
        codec.encode(value)


def test_a_cycle_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(LocalProtocolError, match="cannot be sent"):
        codec.encode(value)


@pytest.mark.parametrize("value", [{1.5: 1}, {None: 1}, nested(20), [0] * 5000, msgpack.ExtType(1, b"x")], ids=str)
def test_encode_checked_refuses_what_the_peer_would_refuse(value: object) -> None:
    with pytest.raises(LocalProtocolError, match="cannot be sent"):
        codec.encode_checked(value, codec.PROTOCOL)


def test_encode_checked_gives_the_bytes_of_encode() -> None:
    assert codec.encode_checked({"a": [1]}, codec.PROTOCOL) == codec.encode({"a": [1]})


def test_a_return_of_sixteen_mebibytes_passes_the_return_limits_and_a_frame_does_not() -> None:
    data = codec.encode(b"x" * (16 * KIB * KIB), codec.RETURN)
    assert len(codec.decode(data, codec.RETURN)) == 16 * KIB * KIB
    assert refusal(data) == "oversize"
    assert len(data) > FRAME_MAX


def test_a_local_message_can_carry_a_whole_return() -> None:
    body = codec.encode(b"x" * (16 * KIB * KIB), codec.RETURN)
    data = codec.encode({"returns": [{"id": "a", "body": body}]}, codec.LOCAL)
    assert codec.decode(data, codec.LOCAL)["returns"][0]["body"] == body
