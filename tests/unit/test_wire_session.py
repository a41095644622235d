"""Sessions: what is opened was sealed by the peer, once, in this order (guarantee S2)."""

from __future__ import annotations

import hashlib

import pytest

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.wire import frames
from saltlite.wire.frames import PLAINTEXT_MAX, SecureSession
from saltlite.wire.limits import CHUNK, FRAME_MAX
from saltlite.wire.noise import Handshake, Role, private_key, public_of


def key(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


def shaken(seed: str = "") -> tuple[Handshake, Handshake]:
    first = Handshake(Role.INITIATOR, private_key(key("is")), b"p", key("ie" + seed))
    second = Handshake(Role.RESPONDER, private_key(key("rs")), b"p", key("re" + seed))
    second.read(first.write(b""))
    first.read(second.write(b""))
    second.read(first.write(b""))
    return first, second


def pair(seed: str = "") -> tuple[SecureSession, SecureSession]:
    first, second = shaken(seed)
    return SecureSession(first), SecureSession(second)


def refusal(receiver: SecureSession, frame: bytes) -> str:
    with pytest.raises(RemoteProtocolError) as caught:
        receiver.open(frame)
    return caught.value.reason


def test_both_sides_open_what_the_other_sealed() -> None:
    minion, master = pair()
    assert master.open(minion.seal(b"up")) == b"up"
    assert minion.open(master.seal(b"down")) == b"down"
    assert master.open(minion.seal(b"")) == b""


def test_both_sides_have_the_same_id_and_know_the_proved_key_of_the_other() -> None:
    minion, master = pair()
    assert minion.id == master.id
    assert (minion.peer, master.peer) == (public_of(key("rs")), public_of(key("is")))


def test_the_id_is_derived_from_the_handshake_hash() -> None:
    first, second = shaken()
    expected = hashlib.sha256(b"session" + second.hash).digest()[:8]
    assert SecureSession(first).id.to_bytes(8, "big") == expected
    assert pair("again")[0].id != SecureSession(second).id


def test_a_frame_carries_its_session_and_a_rising_counter() -> None:
    minion, _ = pair()
    numbers = [frames.parse(minion.seal(b"x"))[:2] for _ in range(3)]  # type: ignore[index]  # all are Data
    assert numbers == [(minion.id, 0), (minion.id, 1), (minion.id, 2)]


def test_the_nonce_is_the_counter_as_noise_spells_it() -> None:
    first, second = shaken()
    minion = SecureSession(first)
    _, receiving = second.split()
    for plaintext in (b"zero", b"one"):
        frame = minion.seal(plaintext)
        assert receiving.decrypt(frame[:18], frame[18:]) == plaintext


def test_plaintext_is_not_on_the_wire() -> None:
    minion, _ = pair()
    assert b"secret" not in minion.seal(b"a secret in a message")


def test_a_frame_opens_once() -> None:
    minion, master = pair()
    frame = minion.seal(b"once")
    master.open(frame)
    assert refusal(master, frame) == "replay"


def test_an_older_frame_is_refused_after_a_newer_one() -> None:
    minion, master = pair()
    older, newer = minion.seal(b"older"), minion.seal(b"newer")
    assert master.open(newer) == b"newer"
    assert refusal(master, older) == "replay"


def test_a_lost_frame_leaves_a_gap_that_is_counted() -> None:
    minion, master = pair()
    minion.seal(b"lost")
    assert master.open(minion.seal(b"after")) == b"after"
    assert master.missed == 1


def test_a_flipped_bit_in_any_byte_is_refused_and_the_session_goes_on() -> None:
    minion, master = pair()
    frame = minion.seal(b"some plaintext")
    for position in range(len(frame)):
        damaged = bytearray(frame)
        damaged[position] ^= 0x01
        assert refusal(master, bytes(damaged)) in {"wrong-session", "bad-mac", "exhausted"}
    assert master.open(frame) == b"some plaintext"


def test_a_cut_frame_is_refused_and_the_session_goes_on() -> None:
    minion, master = pair()
    frame = minion.seal(b"some plaintext")
    for size in range(len(frame)):
        assert refusal(master, frame[:size]) in {"truncated", "bad-mac"}
    assert refusal(master, frame + b"\x00") == "bad-mac"
    assert master.open(frame) == b"some plaintext"


def test_a_frame_does_not_open_at_its_own_sender() -> None:
    minion, _ = pair()
    assert refusal(minion, minion.seal(b"echo")) == "bad-mac"


def test_a_frame_of_another_session_is_refused_even_under_this_session_s_id() -> None:
    _, master = pair()
    other, _ = pair("other")
    frame = other.seal(b"forged")
    assert refusal(master, frame) == "wrong-session"
    assert refusal(master, frames.data_prefix(master.id) + frame[10:]) == "bad-mac"


def test_the_largest_frame_fits_and_one_byte_more_is_refused() -> None:
    minion, master = pair()
    frame = minion.seal(b"x" * PLAINTEXT_MAX)
    assert len(frame) == FRAME_MAX
    assert len(master.open(frame)) == PLAINTEXT_MAX
    with pytest.raises(LocalProtocolError, match="cut it"):
        minion.seal(b"x" * (PLAINTEXT_MAX + 1))
    assert refusal(master, frame + b"x") == "oversize"


def test_a_chunk_and_the_message_around_it_fit_one_frame() -> None:
    minion, master = pair()
    chunk = b"x" * (CHUNK + 1024)
    assert master.open(minion.seal(chunk)) == chunk


def test_a_session_ends_after_its_last_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "SESSION_MAX_FRAMES", 2)
    minion, master = pair()
    master.open(minion.seal(b"first"))
    assert master.open(minion.seal(b"last")) == b"last"
    with pytest.raises(LocalProtocolError, match="new handshake"):
        minion.seal(b"one more")


def test_a_peer_that_counts_past_the_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    minion, master = pair()
    sealed = [minion.seal(b"x") for _ in range(3)]
    monkeypatch.setattr(frames, "SESSION_MAX_FRAMES", 2)
    assert refusal(master, sealed[2]) == "exhausted"


def test_no_session_comes_from_an_unfinished_handshake() -> None:
    with pytest.raises(LocalProtocolError):
        SecureSession(Handshake(Role.INITIATOR, private_key(key("is")), b"p", key("ie")))
