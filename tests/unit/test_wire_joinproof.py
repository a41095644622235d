"""The proof that comes with a join token: for one key, one id, one fleet, and whoever has the secret."""

from __future__ import annotations

from dataclasses import replace

import pytest

from saltlite.model.ids import MinionId
from saltlite.model.keys import JoinToken, fingerprint
from saltlite.wire.limits import PROOF_BYTES
from saltlite.wire.signatures import prove, proves, token_of, token_public

TOKEN = JoinToken(fingerprint(b"fleet"), "tok00001", "a" * 32)
WEB1 = MinionId("web1")
KEY = b"k" * 32
PROOF = prove(TOKEN, WEB1, KEY)


def test_a_proof_names_its_token_and_proves_the_key_and_the_id_that_it_was_made_for() -> None:
    assert len(PROOF) == PROOF_BYTES
    assert token_of(PROOF) == "tok00001"
    assert proves(token_public(TOKEN), PROOF, WEB1, KEY)


@pytest.mark.parametrize("at", range(8, PROOF_BYTES))
def test_no_bit_of_the_signature_may_differ(at: int) -> None:
    for bit in range(8):
        changed = bytearray(PROOF)
        changed[at] ^= 1 << bit
        assert not proves(token_public(TOKEN), bytes(changed), WEB1, KEY)


@pytest.mark.parametrize(
    ("minion", "key"),
    [("web2", KEY), ("web", b"1" + KEY[:31]), ("web1k", KEY[1:] + b"k"), ("web1", b"l" * 32), ("web1", KEY[:31])],
    ids=["id", "shorter id", "longer id", "key", "shorter key"],
)
def test_a_proof_is_of_one_id_and_one_key(minion: str, key: bytes) -> None:
    assert not proves(token_public(TOKEN), PROOF, MinionId(minion), key)


@pytest.mark.parametrize(
    "other",
    [replace(TOKEN, secret="b" * 32), replace(TOKEN, token_id="tok00002"), replace(TOKEN, fleet=fingerprint(b"x"))],
    ids=["secret", "id", "fleet"],
)
def test_another_secret_another_token_or_another_fleet_is_another_key(other: JoinToken) -> None:
    assert token_public(other) != token_public(TOKEN)
    assert not proves(token_public(other), PROOF, WEB1, KEY)


@pytest.mark.parametrize("nonsense", [b"", b"x", PROOF[:-1], PROOF + b"x", bytes(PROOF_BYTES), b"\xff" * PROOF_BYTES])
def test_what_is_no_proof_proves_nothing(nonsense: bytes) -> None:
    assert not proves(token_public(TOKEN), nonsense, WEB1, KEY)
    assert token_of(nonsense) in ("", "\x00" * 8, "\ufffd" * 8)


@pytest.mark.parametrize("public", [b"", b"x" * 31, b"\xff" * 32], ids=["none", "short", "no point"])
def test_what_is_no_public_key_is_proved_by_nothing(public: bytes) -> None:
    assert not proves(public, PROOF, WEB1, KEY)


def test_the_secret_is_not_in_the_proof() -> None:
    assert TOKEN.secret.encode() not in PROOF
