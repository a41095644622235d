"""Seals what masters keep in a store that they share, with a key that is not in it."""

from __future__ import annotations

import json
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

NONCE_BYTES = 12


class Seal:
    """Encrypts data for the store, and binds them to the place that they belong to."""

    def __init__(self, key: bytes) -> None:
        self._cipher = ChaCha20Poly1305(key)

    def seal(self, data: bytes, *about: object) -> bytes:
        """The sealed data; `about` are plain values."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, json.dumps(about).encode())

    def opened(self, sealed: bytes, *about: object) -> bytes:
        """The data. Raises ValueError if they were not sealed with this key and these values."""
        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], json.dumps(about).encode())
        except InvalidTag:
            raise ValueError("it was not sealed here") from None
