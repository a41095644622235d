"""X25519, Ed25519 and ChaCha20-Poly1305: keys and ciphers from their raw bytes.

They are imported from the compiled part of `cryptography`. Its public modules also load all other kinds of keys, which
costs each process 1 MiB and a third of the load time of `cryptography`. If the compiled part has another structure, the
public modules are used.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature, InvalidTag

try:
    from cryptography.hazmat.bindings._rust import openssl

    ChaCha20Poly1305 = openssl.aead.ChaCha20Poly1305
    x25519_private, x25519_public = openssl.x25519.from_private_bytes, openssl.x25519.from_public_bytes
    ed25519_private, ed25519_public = openssl.ed25519.from_private_bytes, openssl.ed25519.from_public_bytes
except (ImportError, AttributeError):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    x25519_private, x25519_public = X25519PrivateKey.from_private_bytes, X25519PublicKey.from_public_bytes
    ed25519_private, ed25519_public = Ed25519PrivateKey.from_private_bytes, Ed25519PublicKey.from_public_bytes

__all__ = [
    "ChaCha20Poly1305",
    "InvalidSignature",
    "InvalidTag",
    "ed25519_private",
    "ed25519_public",
    "x25519_private",
    "x25519_public",
]
