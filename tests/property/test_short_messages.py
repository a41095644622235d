"""The codec of short messages and msgpack agree on every message that the codec takes."""

from __future__ import annotations

import math
from typing import Any

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from saltlite.client.short_messages import DEPTH_MAX, NOT_SHORT, SHORT_BYTES, pack, unpack

unhurried = settings(deadline=None, max_examples=150)

keys = st.one_of(st.text(max_size=12), st.integers(-(2**63), 2**64 - 1), st.booleans(), st.none())
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**65),
    st.builds(
        lambda bits, near, sign: sign * 2**bits + near, st.integers(4, 65), st.integers(-1, 1), st.sampled_from([1, -1])
    ),
    st.floats(),
    st.text(max_size=40),
    st.integers(30, 260).map("x".__mul__),
    st.integers(14, 300).map(lambda count: [None] * count),
    st.integers(14, 300).map(lambda count: dict.fromkeys(range(count))),
    st.just("\ud800"),
    st.binary(max_size=40),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.tuples(inner, inner), st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


def by_msgpack(message: bytes) -> Any:
    """What `saltlite.client.connection` asks msgpack for."""

    def refuse(_code: int, _data: bytes) -> Any:
        raise ValueError("extension")

    return msgpack.unpackb(message, strict_map_key=False, unicode_errors="replace", ext_hook=refuse, timestamp=1)


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types, signs of zeros and orders of maps."""
    return repr(one) == repr(other)


@unhurried
@given(st.dictionaries(keys, values, max_size=4))
def test_what_is_packed_here_has_the_bytes_of_msgpack(message: dict[Any, Any]) -> None:
    packed = pack(message)
    if packed is not NOT_SHORT:
        assert packed == msgpack.packb(message)


@unhurried
@given(values)
@example(-0.0)
@example(5e-324)
@example(2.2250738585072014e-308)
@example(1.7976931348623157e308)
def test_what_is_unpacked_here_is_what_msgpack_unpacks(value: Any) -> None:
    try:
        message = msgpack.packb(value)
    except (ValueError, OverflowError):
        return
    unpacked = unpack(message)
    if unpacked is not NOT_SHORT:
        assert same(unpacked, by_msgpack(message))


@settings(deadline=None, max_examples=1000)
@given(st.binary(max_size=60))
def test_any_bytes_are_unpacked_as_msgpack_unpacks_them_or_left_to_it(message: bytes) -> None:
    unpacked = unpack(message)
    if unpacked is not NOT_SHORT:
        assert same(unpacked, by_msgpack(message))


@unhurried
@given(values, st.data())
def test_a_damaged_message_is_left_to_msgpack_or_read_as_it_reads_it(value: Any, data: st.DataObject) -> None:
    try:
        message = bytearray(msgpack.packb(value))
    except (ValueError, OverflowError):
        return
    message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(message[: data.draw(st.integers(0, len(message)))])
    for damaged in (bytes(message), cut):
        unpacked = unpack(damaged)
        if unpacked is not NOT_SHORT:
            assert same(unpacked, by_msgpack(damaged))


def test_the_messages_of_a_plain_job_are_short() -> None:
    request = {
        "v": 1, "verb": "publish", "request_id": "0" * 32, "follow": True, "consent": [], "untyped": False, "tgt": "*",
        "tgt_type": "glob", "calls": [["test.ping", [], {}]], "origin": "pts/3",
    }  # fmt: skip
    answer = {
        "ok": True, "jid": "20260101000000000000", "minions": ["web1"], "resources": {}, "away": {"web1": 1.7e9},
        "unknown": {}, "skipped": [], "timeout_s": 5.0, "deliver_ms": 3_600_000, "outputter": "",
    }  # fmt: skip
    returned = {"returns": [{"id": "web1", "state": "returned", "retcode": 0, "body": b"\xc3", "duration_ms": 300}]}
    assert pack(request) == msgpack.packb(request)
    for message in (answer, returned, True):
        assert unpack(msgpack.packb(message)) == message


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("x" * SHORT_BYTES, id="long text"),
        pytest.param([0] * (SHORT_BYTES + 1), id="long list"),
        pytest.param(["x" * (SHORT_BYTES // 2)] * 3, id="long together"),
        pytest.param(2**64, id="large number"),
        pytest.param("\ud800", id="no UTF-8"),
        pytest.param(object(), id="unknown type"),
        pytest.param(1.5, id="float"),
        pytest.param(b"x", id="bytes"),
    ],
)
def test_what_this_codec_cannot_pack_is_left_to_msgpack(value: Any) -> None:
    assert pack({"value": value}) is NOT_SHORT


def test_a_deep_message_is_left_to_msgpack() -> None:
    value: dict[str, Any] = {}
    for _ in range(DEPTH_MAX):
        value = {"in": value}
    assert pack(value) is NOT_SHORT
    assert unpack(msgpack.packb(value)) is NOT_SHORT


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, {"long": b"x" * SHORT_BYTES}])
def test_what_this_codec_cannot_unpack_is_left_to_msgpack(value: Any) -> None:
    assert unpack(msgpack.packb(value)) is NOT_SHORT


@pytest.mark.parametrize("message", [b"\xd4\x01x", b"\xd6\xff\0\0\0\1", b"\x81\x90\x01", b"\xc1", b"", b"\x01\x01"])
def test_extensions_keys_that_are_lists_and_damage_are_left_to_msgpack(message: bytes) -> None:
    assert unpack(message) is NOT_SHORT
