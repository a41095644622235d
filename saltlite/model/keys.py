"""Keys and their states, fingerprints, join tokens.

The state table of one key (research: "Master, one key"):

    (unknown) -> pending | accepted | conflict
    pending   -> accepted | rejected
    accepted  -> revoked
    rejected  -> accepted            by an operator who changed their mind
    conflict  -> accepted | rejected only after the holder of the id is revoked or deleted

Any state ends by `delete`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from saltlite.errors import UsageError
from saltlite.model.ids import MinionId

Fingerprint = NewType("Fingerprint", str)
"""Forty base32 letters in eight groups of five: the first 200 bits of SHA-256 over a public key."""

FINGERPRINT_BYTES = 25
_FINGERPRINT = re.compile(r"[A-Z2-7]{40}", re.ASCII)


class KeyState(StrEnum):
    """What the master thinks of a minion's key."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    REVOKED = "revoked"
    CONFLICT = "conflict"


TRANSITIONS: dict[KeyState, frozenset[KeyState]] = {
    KeyState.PENDING: frozenset({KeyState.ACCEPTED, KeyState.REJECTED}),
    KeyState.ACCEPTED: frozenset({KeyState.REVOKED}),
    KeyState.REJECTED: frozenset({KeyState.ACCEPTED}),
    KeyState.REVOKED: frozenset(),
    KeyState.CONFLICT: frozenset({KeyState.ACCEPTED, KeyState.REJECTED}),
}


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One minion key as the store holds it. Times are wall-clock seconds since 1970."""

    id: MinionId
    fingerprint: Fingerprint
    public: bytes
    state: KeyState
    address: str
    first_seen: float
    changed_at: float
    epoch: int
    how: str = ""
    """Why it has this state: `token k3f9…`, `preaccepted`, `operator root`, `first contact` …"""


def fingerprint_bytes(public: bytes) -> bytes:
    """The 25 bytes that a fingerprint spells: what the wire carries and minions pin."""
    return hashlib.sha256(public).digest()[:FINGERPRINT_BYTES]


def fingerprint(public: bytes) -> Fingerprint:
    """The fingerprint of a public key, as people compare it: `ABCDE-FGHIJ-…`, eight groups."""
    return format_fingerprint(fingerprint_bytes(public))


def format_fingerprint(raw: bytes) -> Fingerprint:
    """Spell the 25 bytes of a fingerprint."""
    text = base64.b32encode(raw).decode("ascii")
    return Fingerprint("-".join(text[i : i + 5] for i in range(0, 40, 5)))


def parse_fingerprint(text: object) -> Fingerprint:
    """The fingerprint in `text`; case, hyphens, spaces and a leading `SHA256:` do not matter.

    Raises UsageError when it is not forty base32 letters.
    """
    bare = str(text).strip().removeprefix("SHA256:").replace("-", "").replace(" ", "").upper()
    if not _FINGERPRINT.fullmatch(bare):
        raise UsageError(
            f"{str(text)[:60]!r} is not a fingerprint: it has eight groups of five letters, "
            "as `saltlite key finger` prints them"
        )
    return format_fingerprint(base64.b32decode(bare))


def unspell_fingerprint(text: Fingerprint) -> bytes:
    """The 25 bytes behind a fingerprint that parse_fingerprint made."""
    return base64.b32decode(text.replace("-", ""))


@dataclass(frozen=True, slots=True)
class JoinToken:
    """`slj1.<fleet fingerprint>.<token id>.<secret>`: pins the fleet and authorises one join.

    The secret is never stored and never sent: the master keeps `saltlite.wire.joinproof.token_public()`, and minions
    send a proof. The text form must not be logged.
    """

    fleet: Fingerprint
    token_id: str
    secret: str

    def text(self) -> str:
        """The token as it is handed to a minion."""
        return f"slj1.{self.fleet.replace('-', '')}.{self.token_id}.{self.secret}"

    def __repr__(self) -> str:
        return f"JoinToken({self.token_id}, secret hidden)"


_TOKEN = re.compile(r"slj1\.([A-Z2-7]{40})\.([a-z0-9]{8})\.([a-z2-7]{32})", re.ASCII)


def parse_token(text: str) -> JoinToken:
    """The join token in `text`. Raises UsageError without repeating the text, which is a secret."""
    match = _TOKEN.fullmatch(text.strip())
    if not match:
        raise UsageError(
            "the join token is not one: it starts with slj1. and is printed by `saltlite key token create`"
        )
    return JoinToken(parse_fingerprint(match[1]), match[2], match[3])
