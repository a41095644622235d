"""The proof that comes with a join token: its holder wants exactly this key let in, under exactly this id.

A join token never travels. Its secret is stretched to an Ed25519 seed, whose public key the master's store keeps.
The minion signs its own id and static public key with it and sends the id of the token and the signature:

    token id, 8 ASCII characters | Ed25519 signature 64 over: domain | u8 length of id | id | static public key 32

The process of the master that ends the session sees the proof, and can do no more with it than the minion itself: it
proves nothing for another key or another id. The fleet is part of the seed, so a proof is of one fleet as well.
"""

from __future__ import annotations

import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from saltlite.model.ids import MinionId
from saltlite.model.keys import JoinToken, unspell_fingerprint
from saltlite.wire.limits import PROOF_BYTES

TOKEN_ID_CHARACTERS = 8

_SEED_DOMAIN = b"saltlite join token 1\0"
_PROOF_DOMAIN = b"saltlite join proof 1\0"


def token_public(token: JoinToken) -> bytes:
    """The 32-byte Ed25519 public key that the store keeps of a token."""
    return _private(token).public_key().public_bytes_raw()


def prove(token: JoinToken, minion: MinionId, static_public: bytes) -> bytes:
    """The PROOF_BYTES that let this key in under this id; `static_public` is the minion's X25519 key."""
    return token.token_id.encode("ascii") + _private(token).sign(_claim(minion, static_public))


def token_of(proof: bytes) -> str:
    """The id of the token that a proof names; "" for what is no proof."""
    if len(proof) != PROOF_BYTES:
        return ""
    return proof[:TOKEN_ID_CHARACTERS].decode("ascii", "replace")


def proves(public: bytes, proof: bytes, minion: MinionId, static_public: bytes) -> bool:
    """Whether the holder of the token with that public key signed exactly this id and this key."""
    if len(proof) != PROOF_BYTES:
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(public)
        key.verify(proof[TOKEN_ID_CHARACTERS:], _claim(minion, static_public))
    except (InvalidSignature, ValueError):
        return False
    return True


def _private(token: JoinToken) -> Ed25519PrivateKey:
    parts = unspell_fingerprint(token.fleet) + token.token_id.encode("ascii") + b"\0" + token.secret.encode("ascii")
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(_SEED_DOMAIN + parts).digest())


def _claim(minion: MinionId, static_public: bytes) -> bytes:
    name = minion.encode("ascii")
    return _PROOF_DOMAIN + bytes([len(name)]) + name + static_public
