"""Ed25519 signatures (RFC 8032): with a master's job key, with a join token, and over the answers of a master.

Each kind of content is signed in its own domain, a prefix of what is signed, so that a signature of one kind is never
valid for another.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from saltlite.errors import LocalProtocolError
from saltlite.model.ids import MinionId
from saltlite.model.keys import JoinToken, unspell_fingerprint
from saltlite.model.sha256 import sha256
from saltlite.wire import codec
from saltlite.wire.limits import PROOF_BYTES
from saltlite.wire.messages import NONCE_BYTES, Message
from saltlite.wire.primitives import InvalidSignature, ed25519_private, ed25519_public

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

BUNDLE_DOMAIN = b"saltlite bundle 1\0"
"""The domain of signatures by the fleet key over the manifest of a bundle of saltlite."""
SEED_BYTES = 32
SIGNATURE_BYTES = 64
_PUBLIC_KEYS_KEPT = 16
"""Cached public keys: a minion trusts one for each master."""


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
    # A process signs with one key, and deriving the key from its seed costs as much as a signature.
    return ed25519_private(seed)


@functools.lru_cache(_PUBLIC_KEYS_KEPT)
def _public_key(public: bytes) -> Ed25519PublicKey:
    return ed25519_public(public)


# -- Join tokens
#
# A join token never travels. Its secret is stretched to an Ed25519 seed, whose public key is in the master's store. The
# minion signs its id and its static public key with it, and sends the id of the token and the signature:
#
#     token id, 8 ASCII characters | signature 64 over: domain | u8 length of id | id | static public key 32
#
# A process of the master that sees the proof can use it only for the same key and id. The seed depends on the fleet, so
# a proof is valid in one fleet only.


TOKEN_ID_CHARACTERS = 8

_SEED_DOMAIN = b"saltlite join token 1\0"
_PROOF_DOMAIN = b"saltlite join proof 1\0"


def token_public(token: JoinToken) -> bytes:
    """The 32-byte Ed25519 public key that the store keeps of a token."""
    return _private(token).public_key().public_bytes_raw()


def prove(token: JoinToken, minion: MinionId, static_public: bytes) -> bytes:
    """The PROOF_BYTES for this id and key; `static_public` is the minion's X25519 key."""
    return token.token_id.encode("ascii") + _private(token).sign(_claim(minion, static_public))


def token_of(proof: bytes) -> str:
    """The id of the token of a proof; "" for an invalid proof."""
    if len(proof) != PROOF_BYTES:
        return ""
    return proof[:TOKEN_ID_CHARACTERS].decode("ascii", "replace")


def proves(public: bytes, proof: bytes, minion: MinionId, static_public: bytes) -> bool:
    """Whether the holder of the token with that public key signed this id and this key."""
    if len(proof) != PROOF_BYTES:
        return False
    try:
        key = ed25519_public(public)
        key.verify(proof[TOKEN_ID_CHARACTERS:], _claim(minion, static_public))
    except (InvalidSignature, ValueError):
        return False
    return True


def _private(token: JoinToken) -> Ed25519PrivateKey:
    parts = unspell_fingerprint(token.fleet) + token.token_id.encode("ascii") + b"\0" + token.secret.encode("ascii")
    return ed25519_private(sha256(_SEED_DOMAIN + parts))


def _claim(minion: MinionId, static_public: bytes) -> bytes:
    name = minion.encode("ascii")
    return _PROOF_DOMAIN + bytes([len(name)]) + name + static_public


# -- Signed answers
#
# An MWorker signs what it tells a minion about files and its pillar, and what it answers to an `ask`, so that the link
# process cannot forge it. A request that needs a signed answer carries a nonce from the minion's job server, which
# accepts no other answer. The signature covers a domain prefix and the msgpack list
#
#     [minion id, nonce, fields of the request in the order of their names, fields of the answer likewise]
#
# without the fields `n`, `nonce` and `sig`, and with the SHA-256 of `data` in its place. So an answer fits one
# request of one minion, once.
#
# Two kinds of answers are not signed: pieces of content whose size and SHA-256 a signed answer has named (the whole is
# checked against these), and `busy`, which only asks for another attempt. What a minion sends (`file_put`, `doc_put`,
# `event`) is confirmed without a signature.


BUSY = "busy"

_DOMAIN = b"saltlite answer 1\0"
_BESIDE = frozenset({"n", "nonce", "sig"})
"""Fields that the signature does not cover."""


def needs_signature(question: Message) -> bool:
    """Whether the answer to that request must be signed by a master."""
    match question["t"]:
        case "file_request":
            return bool(question["operation"] != "read")
        case "doc_get" | "ask":
            return not question["sha256"]
        case _:
            return False


def with_nonce(question: Message, entropy: Callable[[int], bytes]) -> Message:
    """The request with a nonce, if its answer must be signed."""
    return {**question, "nonce": entropy(NONCE_BYTES)} if needs_signature(question) else question


def signed(seed: bytes, minion: str, question: Message, answer: Message) -> Message:
    """The answer with the signature of the job key, if the request needs one."""
    if not needs_signature(question) or answer["state"] == BUSY:
        return answer
    return {**answer, "sig": sign(seed, _DOMAIN, _statement(minion, question, answer))}


def is_believed(keys: Iterable[bytes], minion: str, question: Message, answer: Message) -> bool:
    """Whether that answer to that request is valid; `keys` are the job keys of masters."""
    if not needs_signature(question) or answer["state"] == BUSY:
        return True
    if len(question["nonce"]) != NONCE_BYTES:
        return False
    content = _statement(minion, question, answer)
    return any(is_signed(key, _DOMAIN, content, answer["sig"]) for key in keys)


def _statement(minion: str, question: Message, answer: Message) -> bytes:
    return codec.encode([minion, question["nonce"], _fields(question), _fields(answer)], codec.LOCAL)


def _fields(message: Message) -> list[Any]:
    fields = [[name, message[name]] for name in sorted(message) if name not in _BESIDE]
    return [[name, sha256(value) if name == "data" else value] for name, value in fields]
