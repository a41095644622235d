"""The handshake: Noise_XX_25519_ChaChaPoly_SHA256, both roles, without IO.

It follows the Noise Protocol Framework, revision 34 (sections 5 and 7), and uses its names for tokens and steps. There
is one suite and no negotiation: another suite is another protocol version.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.model.sha256 import hmac_sha256, sha256
from saltlite.wire.limits import REPLY_MAX
from saltlite.wire.primitives import ChaCha20Poly1305, InvalidTag, x25519_private, x25519_public

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

PROTOCOL_NAME = b"Noise_XX_25519_ChaChaPoly_SHA256"
KEY_BYTES = 32
TAG_BYTES = 16


class Role(Enum):
    """A minion is the initiator, a master the responder."""

    INITIATOR = "initiator"
    RESPONDER = "responder"


class _Token(Enum):
    E = "e"
    S = "s"
    EE = "ee"
    ES = "es"
    SE = "se"


# The pattern XX. Even messages go from the initiator to the responder, odd ones back.
_PATTERN: tuple[tuple[_Token, ...], ...] = (
    (_Token.E,),
    (_Token.E, _Token.EE, _Token.S, _Token.ES),
    (_Token.S, _Token.SE),
)

# The key of each side in a Diffie-Hellman token: (initiator's, responder's).
_DH: dict[_Token, tuple[_Token, _Token]] = {
    _Token.EE: (_Token.E, _Token.E),
    _Token.ES: (_Token.E, _Token.S),
    _Token.SE: (_Token.S, _Token.E),
}

MESSAGE_MAX = REPLY_MAX - 2
"""Bytes of one handshake message: a frame without its two header bytes."""

PAYLOAD_MAX = MESSAGE_MAX - KEY_BYTES - (KEY_BYTES + TAG_BYTES) - TAG_BYTES
"""Bytes of payload that fit into every handshake message (the second one has the most overhead)."""

nonce_of: Callable[[int], bytes] = struct.Struct("<4xQ").pack
"""The 12-byte ChaCha20-Poly1305 nonce of a counter in Noise: four zero bytes, then little endian."""


def private_key(raw: bytes) -> X25519PrivateKey:
    """The key in these 32 bytes. To read it costs as much as one of the four multiplications of a handshake, as its
    public key is computed, so a master reads its own once. Raises LocalProtocolError if there are not 32."""
    if len(raw) != KEY_BYTES:
        raise LocalProtocolError(f"an X25519 private key has {KEY_BYTES} bytes, not {len(raw)}")
    return x25519_private(raw)


def public_of(private: bytes) -> bytes:
    """The X25519 public key (32 bytes) of a raw private key. Raises LocalProtocolError if that has not 32."""
    return private_key(private).public_key().public_bytes_raw()


class CipherState:
    """The key of one direction. `aead` is the cipher, for a session that counts its own frames.

    A (key, counter) pair must never encrypt twice: a user of `aead` counts from 0 and does not use this object any
    more.
    """

    __slots__ = ("_counter", "aead")

    def __init__(self, key: bytes) -> None:
        self.aead = ChaCha20Poly1305(key)
        self._counter = 0

    def encrypt(self, associated: bytes, plaintext: bytes) -> bytes:
        """Ciphertext and tag under the next counter."""
        sealed = self.aead.encrypt(nonce_of(self._counter), plaintext, associated)
        self._counter += 1
        return sealed

    def decrypt(self, associated: bytes, sealed: bytes) -> bytes:
        """The plaintext. Raises RemoteProtocolError("bad-handshake") if the tag is wrong."""
        try:
            plaintext = self.aead.decrypt(nonce_of(self._counter), sealed, associated)
        except InvalidTag:
            raise RemoteProtocolError("bad-handshake", "a tag does not match") from None
        self._counter += 1
        return plaintext


class Handshake:
    """One side of one handshake, without IO and clock.

    `static` is this side's key, of many handshakes; `ephemeral` must be 32 fresh random bytes, used for this one only.
    Both sides must agree on `prologue`. A call out of turn raises LocalProtocolError and has no effect. An
    invalid message of the peer raises RemoteProtocolError("bad-handshake"); after it no call has the keys any more, and
    each raises LocalProtocolError.
    """

    __slots__ = ("_ciphers", "_dead", "_hash", "_private", "_remote", "_role", "_step", "_symmetric")

    def __init__(self, role: Role, static: X25519PrivateKey, prologue: bytes, ephemeral: bytes) -> None:
        self._role = role
        self._private = {_Token.S: static, _Token.E: private_key(ephemeral)}
        self._remote: dict[_Token, bytes] = {}
        self._symmetric = _Symmetric(prologue)
        self._step = 0
        self._dead = False
        self._hash = b""
        self._ciphers: tuple[CipherState, CipherState] | None = None

    @property
    def finished(self) -> bool:
        """All three messages were exchanged, and both static keys are authenticated."""
        return self._step == len(_PATTERN)

    @property
    def remote_static(self) -> bytes:
        """The peer's static public key, 32 bytes: known after message 2 (initiator) or 3 (responder)."""
        if _Token.S not in self._remote:
            raise LocalProtocolError("the peer's static key is not known: the handshake has not brought it")
        return self._remote[_Token.S]

    @property
    def hash(self) -> bytes:
        """The handshake hash, 32 bytes: the same on both sides, and different for every handshake."""
        if not self.finished:
            raise LocalProtocolError("the handshake hash exists when all messages have passed")
        return self._hash

    def write(self, payload: bytes) -> bytes:
        """The next message to send. The payload is in the clear in message 1, encrypted in 2 and 3.

        Raises LocalProtocolError out of turn or when the payload is longer than PAYLOAD_MAX, and
        RemoteProtocolError("bad-handshake") when the peer's earlier key was weak.
        """
        self._expect(writing=True)
        if len(payload) > PAYLOAD_MAX:
            raise LocalProtocolError(f"a handshake payload has at most {PAYLOAD_MAX} bytes, not {len(payload)}")
        try:
            message = self._write(payload)
        except RemoteProtocolError:
            self._die()
            raise
        self._advance()
        return message

    def read(self, message: bytes) -> bytes:
        """The payload of the peer's next message.

        Raises LocalProtocolError out of turn, RemoteProtocolError("bad-handshake") for an invalid message.
        """
        self._expect(writing=False)
        try:
            payload = self._read(message)
        except RemoteProtocolError:
            self._die()
            raise
        self._advance()
        return payload

    def split(self) -> tuple[CipherState, CipherState]:
        """The ciphers for (sending, receiving) on this side; available once."""
        if self._ciphers is None:
            raise LocalProtocolError("the session keys exist once, after the last message of the handshake")
        ciphers, self._ciphers = self._ciphers, None
        return ciphers

    def _expect(self, *, writing: bool) -> None:
        if self._dead:
            raise LocalProtocolError("this handshake has failed; start a new one")
        if self.finished:
            raise LocalProtocolError("this handshake is finished; use the session")
        my_turn = (self._step % 2 == 0) is (self._role is Role.INITIATOR)
        if my_turn is not writing:
            raise LocalProtocolError(f"message {self._step + 1} of the handshake is the other side's to send")

    def _write(self, payload: bytes) -> bytes:
        parts = []
        for token in _PATTERN[self._step]:
            if token in _DH:
                self._mix_dh(token)
                continue
            public = self._private[token].public_key().public_bytes_raw()
            if token is _Token.E:
                self._symmetric.mix_hash(public)
                parts.append(public)
            else:
                parts.append(self._symmetric.encrypt_and_hash(public))
        parts.append(self._symmetric.encrypt_and_hash(payload))
        return b"".join(parts)

    def _read(self, message: bytes) -> bytes:
        if len(message) > MESSAGE_MAX:
            raise RemoteProtocolError("bad-handshake", "the message is too long")
        at = 0
        for token in _PATTERN[self._step]:
            if token in _DH:
                self._mix_dh(token)
                continue
            size = KEY_BYTES + (TAG_BYTES if token is _Token.S else 0)
            part = message[at : at + size]
            if len(part) != size:
                raise RemoteProtocolError("bad-handshake", "the message is too short")
            at += size
            if token is _Token.E:
                self._symmetric.mix_hash(part)
                self._remote[token] = part
            else:
                self._remote[token] = self._symmetric.decrypt_and_hash(part)
        return self._symmetric.decrypt_and_hash(message[at:])

    def _mix_dh(self, token: _Token) -> None:
        initiator, responder = _DH[token]
        mine, theirs = (initiator, responder) if self._role is Role.INITIATOR else (responder, initiator)
        try:
            shared = self._private[mine].exchange(x25519_public(self._remote[theirs]))
        except ValueError:
            # Noise leaves an all-zero result to the implementation; it means that the peer chose a point of
            # small order, so that the secret would not depend on our key.
            raise RemoteProtocolError("bad-handshake", "the peer's public key is a weak one") from None
        self._symmetric.mix_key(shared)

    def _advance(self) -> None:
        self._step += 1
        if self.finished:
            first, second = self._symmetric.split()
            self._hash = self._symmetric.hash
            self._ciphers = (first, second) if self._role is Role.INITIATOR else (second, first)
            self._forget()

    def _die(self) -> None:
        self._dead = True
        self._remote.clear()
        self._forget()

    def _forget(self) -> None:
        """Delete every secret that could decrypt recorded traffic later."""
        self._private.clear()
        self._symmetric = _Symmetric(b"")


class _Symmetric:
    """Noise's SymmetricState: the chaining key, the transcript hash, and the cipher once there is a key."""

    __slots__ = ("_chaining", "_cipher", "hash")

    def __init__(self, prologue: bytes) -> None:
        # The name has exactly HASHLEN bytes, so that Noise takes it as it stands.
        self.hash = PROTOCOL_NAME
        self._chaining = PROTOCOL_NAME
        self._cipher: CipherState | None = None
        self.mix_hash(prologue)

    def mix_hash(self, data: bytes) -> None:
        self.hash = sha256(self.hash + data)

    def mix_key(self, material: bytes) -> None:
        self._chaining, key = _hkdf(self._chaining, material)
        self._cipher = CipherState(key)

    def encrypt_and_hash(self, plaintext: bytes) -> bytes:
        sealed = plaintext if self._cipher is None else self._cipher.encrypt(self.hash, plaintext)
        self.mix_hash(sealed)
        return sealed

    def decrypt_and_hash(self, sealed: bytes) -> bytes:
        plaintext = sealed if self._cipher is None else self._cipher.decrypt(self.hash, sealed)
        self.mix_hash(sealed)
        return plaintext

    def split(self) -> tuple[CipherState, CipherState]:
        first, second = _hkdf(self._chaining, b"")
        return CipherState(first), CipherState(second)


def _hkdf(chaining: bytes, material: bytes) -> tuple[bytes, bytes]:
    secret = hmac_sha256(chaining, material)
    first = hmac_sha256(secret, b"\x01")
    return first, hmac_sha256(secret, first + b"\x02")
