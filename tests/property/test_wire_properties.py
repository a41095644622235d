"""The wire under inputs that nobody thought of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.wire import codec, frames, job_body, merkle
from saltlite.wire.certificates import MasterCertificate
from saltlite.wire.frames import SecureSession
from saltlite.wire.limits import FRAME_MAX_BEFORE_AUTH
from saltlite.wire.noise import Handshake, Role, private_key

keys = st.text() | st.integers(-(2**63), 2**64 - 1)
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
)
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=30)


def key(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def side(role: Role) -> Handshake:
    return Handshake(role, private_key(key("s" + role.value)), b"p", key("e" + role.value))


def sessions() -> tuple[SecureSession, SecureSession]:
    first, second = side(Role.INITIATOR), side(Role.RESPONDER)
    second.read(first.write(b""))
    first.read(second.write(b""))
    second.read(first.write(b""))
    return SecureSession(first), SecureSession(second)


def depth_of(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


def refusal(parse: Callable[[bytes], object], data: bytes) -> str:
    """Why `data` was refused, or nothing. Any other exception than a protocol error fails the test."""
    try:
        parse(data)
    except RemoteProtocolError as error:
        return error.reason
    return ""


@given(values)
def test_a_value_within_the_limits_comes_back_and_a_deeper_one_is_refused(value: Any) -> None:
    data = codec.encode(value)
    if depth_of(value) <= codec.PROTOCOL.depth:
        assert codec.decode(data) == value
    else:
        assert refusal(codec.decode, data) == "too-deep"


@given(values, st.integers(1, 6))
def test_encode_checked_takes_exactly_what_decode_takes(value: Any, depth: int) -> None:
    limits = codec.Limits(depth=depth, map=5, array=5, string=20, binary=20, containers=8, total=200)
    try:
        data = codec.encode_checked(value, limits)
    except LocalProtocolError:
        return
    assert codec.decode(data, limits) == value
    assert depth_of(value) <= depth


@given(st.binary(max_size=300))
def test_bytes_from_a_stranger_give_a_value_or_a_protocol_error(data: bytes) -> None:
    for parse in (codec.decode, frames.parse, MasterCertificate.decode, job_body.decode_body):
        refused = refusal(parse, data)
        assert refused == refusal(parse, data)
    assert refusal(side(Role.RESPONDER).read, data) == ("" if len(data) >= 32 else "bad-handshake")


@given(st.sampled_from(list(frames.FrameType)), st.binary(max_size=600))
def test_a_frame_that_parses_has_a_length_its_type_allows(kind: frames.FrameType, body: bytes) -> None:
    raw = bytes((2, kind)) + body
    refused = refusal(frames.parse, raw)
    assert refused in {"", "truncated", "oversize"}
    large = (frames.FrameType.DATA, frames.FrameType.REPLY)
    assert refused or kind in large or len(raw) <= FRAME_MAX_BEFORE_AUTH


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["deliver", "drop", "repeat", "flip", "cut"]),
            st.binary(max_size=40),
            st.integers(0, 10_000),
        ),
        max_size=25,
    )
)
def test_whatever_the_network_does_the_peer_reads_a_subsequence_of_what_was_sent(
    steps: list[tuple[str, bytes, int]],
) -> None:
    sender, receiver = sessions()
    delivered: list[bytes] = []
    read: list[bytes] = []
    old: list[bytes] = []
    for deed, plaintext, where in steps:
        frame = sender.seal(plaintext)
        if deed == "deliver":
            delivered.append(plaintext)
        elif deed == "flip":
            at = where % len(frame)
            frame = frame[:at] + bytes((frame[at] ^ (1 << where % 8),)) + frame[at + 1 :]
        elif deed == "cut":
            frame = frame[: where % len(frame)]
        elif deed == "repeat":
            frame = old[where % len(old)] if old else frame[:-1]
        if deed != "drop":
            try:
                read.append(receiver.open(frame))
            except RemoteProtocolError:
                assert deed != "deliver"
        if deed == "deliver":
            old.append(frame)
    assert read == delivered


@settings(max_examples=50)
@given(st.sets(st.text(min_size=1, max_size=10), min_size=1, max_size=70), st.text(min_size=1, max_size=10))
def test_a_proof_admits_exactly_the_audience(names: set[str], stranger: str) -> None:
    root, proofs = merkle.root(names), merkle.proofs(names)
    assert proofs.keys() == names
    assert all(merkle.admits(root, name, proof) for name, proof in proofs.items())
    if stranger not in names:
        assert not any(merkle.admits(root, stranger, proof) for proof in proofs.values())
