"""The handshake against published vectors, against another implementation, and against damage."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from noise.connection import Keypair, NoiseConnection  # type: ignore[import-untyped]  # it ships no types

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.wire.noise import MESSAGE_MAX, PAYLOAD_MAX, PROTOCOL_NAME, Handshake, Role, private_key, public_of

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "noise_vectors.json").read_text())["vectors"]
PROLOGUE = b"a prologue"
PAYLOADS = (b"", b"who the responder is", b"who the initiator is")


def key(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def initiator(prologue: bytes = PROLOGUE) -> Handshake:
    return Handshake(Role.INITIATOR, private_key(key("is")), prologue, key("ie"))


def responder(prologue: bytes = PROLOGUE) -> Handshake:
    return Handshake(Role.RESPONDER, private_key(key("rs")), prologue, key("re"))


def run(first: Handshake, second: Handshake, damage: tuple[int, int] | None = None) -> None:
    """The three messages; `damage` is (message, byte) to flip one bit of on the way."""
    sides = (first, second)
    for number, payload in enumerate(PAYLOADS):
        message = bytearray(sides[number % 2].write(payload))
        if damage is not None and damage[0] == number:
            message[damage[1]] ^= 0x80
        sides[1 - number % 2].read(bytes(message))


def reason_of(caught: pytest.ExceptionInfo[RemoteProtocolError]) -> str:
    return caught.value.reason


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector["source"]))
def test_every_byte_equals_the_published_vector(vector: dict[str, Any]) -> None:
    get = {name: bytes.fromhex(value) for name, value in vector.items() if name[:4] in ("init", "resp")}
    sides = (
        Handshake(Role.INITIATOR, private_key(get["init_static"]), get["init_prologue"], get["init_ephemeral"]),
        Handshake(Role.RESPONDER, private_key(get["resp_static"]), get["resp_prologue"], get["resp_ephemeral"]),
    )
    wire, read = [], []
    for number, message in enumerate(vector["messages"][:3]):
        wire.append(sides[number % 2].write(bytes.fromhex(message["payload"])))
        read.append(sides[1 - number % 2].read(wire[-1]))
    ciphers = (sides[0].split(), sides[1].split())
    for number, message in enumerate(vector["messages"][3:], start=3):
        wire.append(ciphers[number % 2][0].encrypt(b"", bytes.fromhex(message["payload"])))
        read.append(ciphers[1 - number % 2][1].decrypt(b"", wire[-1]))

    assert [part.hex() for part in wire] == [message["ciphertext"] for message in vector["messages"]]
    assert [part.hex() for part in read] == [message["payload"] for message in vector["messages"]]
    assert sides[0].hash == sides[1].hash
    assert sides[0].hash.hex() == vector.get("handshake_hash", sides[0].hash.hex())


def other(role: Role) -> Any:
    """The same side, by an independent implementation."""
    connection = NoiseConnection.from_name(PROTOCOL_NAME)
    if role is Role.INITIATOR:
        connection.set_as_initiator()
        connection.set_keypair_from_private_bytes(Keypair.STATIC, key("is"))
    else:
        connection.set_as_responder()
        connection.set_keypair_from_private_bytes(Keypair.STATIC, key("rs"))
    connection.set_prologue(PROLOGUE)
    connection.start_handshake()
    return connection


def test_our_initiator_talks_to_an_independent_responder() -> None:
    ours, theirs = initiator(), other(Role.RESPONDER)
    theirs.read_message(ours.write(b""))
    assert ours.read(bytes(theirs.write_message(b"certificate"))) == b"certificate"
    assert theirs.read_message(ours.write(b"identity")) == b"identity"
    assert ours.remote_static == public_of(key("rs"))
    sending, receiving = ours.split()
    assert theirs.decrypt(sending.encrypt(b"", b"there")) == b"there"
    assert receiving.decrypt(b"", bytes(theirs.encrypt(b"and back"))) == b"and back"


def test_our_responder_talks_to_an_independent_initiator() -> None:
    ours, theirs = responder(), other(Role.INITIATOR)
    ours.read(bytes(theirs.write_message()))
    assert theirs.read_message(ours.write(b"certificate")) == b"certificate"
    assert ours.read(bytes(theirs.write_message(b"identity"))) == b"identity"
    assert ours.remote_static == public_of(key("is"))
    assert ours.hash == theirs.get_handshake_hash()
    sending, receiving = ours.split()
    assert theirs.decrypt(sending.encrypt(b"", b"there")) == b"there"
    assert receiving.decrypt(b"", bytes(theirs.encrypt(b"and back"))) == b"and back"


def test_a_flipped_bit_anywhere_never_completes_with_both_sides_agreeing() -> None:
    sizes = (32, 96 + len(PAYLOADS[1]), 64 + len(PAYLOADS[2]))
    for number, size in enumerate(sizes):
        for position in range(size):
            first, second = initiator(), responder()
            with pytest.raises(RemoteProtocolError) as caught:
                run(first, second, (number, position))
            assert reason_of(caught) == "bad-handshake"
            # A flip in message 3 can only be seen by its reader, the responder: it must not accept.
            assert not second.finished


def test_neither_static_key_nor_a_sealed_payload_is_on_the_wire() -> None:
    first, second = initiator(), responder()
    wire = [first.write(b"")]
    second.read(wire[0])
    wire.append(second.write(PAYLOADS[1]))
    first.read(wire[1])
    wire.append(first.write(PAYLOADS[2]))
    seen = b"".join(wire)
    assert not any(secret in seen for secret in (public_of(key("is")), public_of(key("rs")), *PAYLOADS[1:]))


def test_a_plain_payload_of_message_one_is_authenticated_later() -> None:
    first, second = initiator(), responder()
    message = first.write(b"hint")
    second.read(message[:-1] + b"!")
    reply = second.write(b"")
    with pytest.raises(RemoteProtocolError, match="tag"):
        first.read(reply)


def test_another_prologue_fails_at_the_first_sealed_message() -> None:
    first, second = initiator(b"saltlite/2 fleet a"), responder(b"saltlite/2 fleet b")
    second.read(first.write(b""))
    with pytest.raises(RemoteProtocolError) as caught:
        first.read(second.write(b""))
    assert reason_of(caught) == "bad-handshake"


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_message_cut_anywhere_fails(number: int) -> None:
    first, second = initiator(), responder()
    sides = (first, second)
    for step in range(number):
        sides[1 - step % 2].read(sides[step % 2].write(PAYLOADS[step]))
    whole = sides[number % 2].write(PAYLOADS[number])
    shortest = 32 if number == 0 else len(whole)
    for size in range(shortest):
        reader = replay(Role.RESPONDER if number % 2 == 0 else Role.INITIATOR, number)
        with pytest.raises(RemoteProtocolError) as caught:
            reader.read(whole[:size])
        assert reason_of(caught) == "bad-handshake"


def replay(role: Role, until: int) -> Handshake:
    """A fresh side that stands before message `until`."""
    sides = (initiator(), responder())
    for step in range(until):
        sides[1 - step % 2].read(sides[step % 2].write(PAYLOADS[step]))
    return sides[0] if role is Role.INITIATOR else sides[1]


# Points of small order on Curve25519, as listed in RFC 7748's security considerations and in the public lists
# of the curve's authors: the shared secret with each of them is zero for every private key.
WEAK_POINTS = (
    bytes(32),
    b"\x01" + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    bytes.fromhex("ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
    bytes.fromhex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"),
)


@pytest.mark.parametrize("point", WEAK_POINTS, ids=lambda point: point.hex()[:8])
def test_a_weak_ephemeral_key_of_the_initiator_is_refused(point: bytes) -> None:
    second = responder()
    second.read(point)
    with pytest.raises(RemoteProtocolError) as caught:
        second.write(b"certificate")
    assert reason_of(caught) == "bad-handshake"
    with pytest.raises(LocalProtocolError, match="failed"):
        second.write(b"certificate")


@pytest.mark.parametrize("point", WEAK_POINTS, ids=lambda point: point.hex()[:8])
def test_a_weak_ephemeral_key_of_the_responder_is_refused(point: bytes) -> None:
    first = initiator()
    first.write(b"")
    with pytest.raises(RemoteProtocolError, match="weak"):
        first.read(point + bytes(64))


def test_calls_out_of_turn_are_refused_and_change_nothing() -> None:
    first, second = initiator(), responder()
    with pytest.raises(LocalProtocolError):
        first.read(b"")
    with pytest.raises(LocalProtocolError):
        second.write(b"")
    message = first.write(b"")
    with pytest.raises(LocalProtocolError):
        first.write(b"")
    second.read(message)
    with pytest.raises(LocalProtocolError):
        second.read(message)
    first.read(second.write(b""))
    second.read(first.write(b""))
    assert first.finished
    assert second.finished


def test_a_finished_handshake_takes_no_further_message() -> None:
    first, second = initiator(), responder()
    run(first, second)
    with pytest.raises(LocalProtocolError, match="finished"):
        first.write(b"")
    with pytest.raises(LocalProtocolError, match="finished"):
        second.read(b"")


def test_a_failed_handshake_is_dead() -> None:
    first, second = initiator(), responder()
    second.read(first.write(b""))
    good = second.write(b"")
    with pytest.raises(RemoteProtocolError):
        first.read(good[:-1] + bytes((good[-1] ^ 1,)))
    with pytest.raises(LocalProtocolError, match="failed"):
        first.read(good)
    with pytest.raises(LocalProtocolError):
        _ = first.remote_static
    with pytest.raises(LocalProtocolError):
        first.split()
    assert not first.finished


def test_keys_and_hash_are_not_given_out_before_the_end() -> None:
    first, second = initiator(), responder()
    second.read(first.write(b""))
    first.read(second.write(b""))
    assert first.remote_static == public_of(key("rs"))
    with pytest.raises(LocalProtocolError):
        _ = second.remote_static
    with pytest.raises(LocalProtocolError):
        _ = first.hash
    with pytest.raises(LocalProtocolError):
        first.split()


def test_session_keys_are_given_out_once() -> None:
    first, second = initiator(), responder()
    run(first, second)
    first.split()
    with pytest.raises(LocalProtocolError):
        first.split()


def test_the_longest_payload_fits_every_message_and_one_byte_more_is_refused() -> None:
    first, second = initiator(), responder()
    payload = b"p" * PAYLOAD_MAX
    sides = (first, second)
    for number in range(3):
        writer, reader = sides[number % 2], sides[1 - number % 2]
        with pytest.raises(LocalProtocolError):
            writer.write(payload + b"p")
        message = writer.write(payload)
        assert len(message) <= MESSAGE_MAX
        assert reader.read(message) == payload


def test_a_message_above_the_limit_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="too long"):
        responder().read(bytes(MESSAGE_MAX + 1))


def test_a_key_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="32 bytes"):
        public_of(b"short")
