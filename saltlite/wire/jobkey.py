"""Signatures of a master's job key (Ed25519, RFC 8032): what minions act on is signed with it, each kind in its domain.

A domain is a text that stands before what is signed, so that a signature over one kind of thing is none over another.
"""

from __future__ import annotations

import functools

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from saltlite.errors import LocalProtocolError

SEED_BYTES = 32
SIGNATURE_BYTES = 64
_PUBLIC_KEYS_KEPT = 16
"""Public keys that a process remembers: a minion trusts one a master."""


def sign(seed: bytes, domain: bytes, content: bytes) -> bytes:
    """The 64-byte signature of the holder of `seed` over `content` in that domain."""
    if len(seed) != SEED_BYTES:
        raise LocalProtocolError(f"an Ed25519 seed has {SEED_BYTES} bytes, not {len(seed)}")
    return _private_key(seed).sign(domain + content)


def is_signed(public: bytes, domain: bytes, content: bytes, signature: bytes) -> bool:
    """Whether the holder of `public` (32 bytes) signed exactly `content` in exactly that domain."""
    try:
        _public_key(public).verify(signature, domain + content)
    except (InvalidSignature, ValueError):
        return False
    return True


@functools.lru_cache(1)
def _private_key(seed: bytes) -> Ed25519PrivateKey:
    # A process signs with one key, and to make the key of its seed costs as much as to sign.
    return Ed25519PrivateKey.from_private_bytes(seed)


@functools.lru_cache(_PUBLIC_KEYS_KEPT)
def _public_key(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)
