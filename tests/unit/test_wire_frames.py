"""Outer frames: what a peer may put on the wire before anything is verified."""

from __future__ import annotations

import hashlib

import pytest

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.wire import frames
from saltlite.wire.limits import FRAME_MAX, FRAME_MAX_BEFORE_AUTH, REPLY_MAX

FLEET = hashlib.sha256(b"fleet").digest()[:25]
OTHER_FLEET = hashlib.sha256(b"other").digest()[:25]
E = bytes(range(32))


def refusal(frame: bytes) -> str:
    with pytest.raises(RemoteProtocolError) as caught:
        frames.parse(frame)
    return caught.value.reason


def parsed_hello(frame: bytes) -> frames.HelloFrame:
    hello = frames.parse(frame)
    assert isinstance(hello, frames.HelloFrame)
    return hello


def test_every_frame_reads_back_as_it_was_built() -> None:
    built = {
        frames.reply(b"r" * 96): frames.ReplyFrame(b"r" * 96),
        frames.auth(b"a" * 64): frames.AuthFrame(b"a" * 64),
        frames.busy(2**32 - 1): frames.BusyFrame(2**32 - 1),
        frames.query(): frames.QueryFrame(),
        frames.fleet(b"f" * 32): frames.FleetFrame(b"f" * 32),
    }
    assert [frames.parse(frame) for frame in built] == list(built.values())
    assert parsed_hello(frames.hello(E, FLEET)).message == E


def test_a_data_frame_shows_its_numbers_and_stays_whole() -> None:
    raw = frames.data_prefix(2**64 - 2) + (7).to_bytes(8, "big") + b"c" * 16
    assert frames.parse(raw) == frames.DataFrame(session=2**64 - 2, counter=7, raw=raw)


def test_the_layout_is_the_documented_one() -> None:
    assert frames.hello(E, FLEET)[:34] == b"\x02\x01" + E
    assert frames.busy(1000).hex() == "0205000003e8"
    assert frames.query().hex() == "0206"
    assert frames.data_prefix(1).hex() == "02040000000000000001"
    assert frames.prologue(FLEET) == b"saltlite/2" + FLEET


def test_hello_is_for_the_fleet_it_names_only() -> None:
    hello = parsed_hello(frames.hello(E, FLEET))
    assert frames.hello_is_for(hello, FLEET)
    assert not frames.hello_is_for(hello, OTHER_FLEET)


def test_hello_with_any_bit_flipped_is_for_nobody() -> None:
    raw = frames.hello(E, FLEET)
    for position in range(2, len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 1
        assert not frames.hello_is_for(parsed_hello(bytes(damaged)), FLEET)


@pytest.mark.parametrize("version", [0, 1, 3, 255])
def test_another_version_is_refused_whatever_follows(version: int) -> None:
    for raw in (frames.hello(E, FLEET), frames.data_prefix(1) + bytes(24), frames.query()):
        assert refusal(bytes((version,)) + raw[1:]) == "version"


@pytest.mark.parametrize("kind", [0, 8, 255])
def test_an_unknown_type_is_refused(kind: int) -> None:
    assert refusal(bytes((2, kind)) + bytes(40)) == "unknown-frame"


@pytest.mark.parametrize("raw", [b"", b"\x01"])
def test_less_than_a_header_is_refused(raw: bytes) -> None:
    assert refusal(raw) == "truncated"


# type, shortest and longest whole frame
BOUNDS = [
    (1, 50, 50),
    (2, 98, REPLY_MAX),
    (3, 66, FRAME_MAX_BEFORE_AUTH),
    (4, 34, FRAME_MAX),
    (5, 6, 6),
    (6, 2, 2),
    (7, 34, 34),
]


@pytest.mark.parametrize(("kind", "shortest", "longest"), BOUNDS)
def test_a_frame_is_read_within_its_bounds_and_refused_outside(kind: int, shortest: int, longest: int) -> None:
    head = bytes((2, kind))
    for size in (shortest, longest):
        frames.parse(head + bytes(size - 2))
    assert refusal(head + bytes(longest - 1)) == "oversize"
    if shortest > 2:
        assert refusal(head + bytes(shortest - 3)) == "truncated"


def test_a_frame_that_the_peer_would_refuse_is_not_built() -> None:
    for build, longest in ((frames.reply, REPLY_MAX), (frames.auth, FRAME_MAX_BEFORE_AUTH)):
        with pytest.raises(LocalProtocolError):
            build(bytes(longest - 1))
        with pytest.raises(LocalProtocolError):
            build(b"short")
    with pytest.raises(LocalProtocolError):
        frames.hello(E + b"x", FLEET)
    with pytest.raises(LocalProtocolError):
        frames.fleet(b"short")
    for retry_ms in (-1, 2**32):
        with pytest.raises(LocalProtocolError):
            frames.busy(retry_ms)


def test_a_fingerprint_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="25 bytes"):
        frames.prologue(FLEET + b"x")
    with pytest.raises(LocalProtocolError, match="25 bytes"):
        frames.hello(E, FLEET[:-1])
