"""Successions: how a minion that pins one fleet key comes to believe the next one.

A record says that one fleet key takes the place of another. Encoded, all integers big endian:

    u8 version=1 | old_public 32 | new_public 32 | u64 serial | u64 time | by_old 64 | by_new 64

Both signatures are Ed25519 (RFC 8032) over a domain prefix of their own and every byte before `by_old`. That of the
old key authorises the successor. That of the new key proves that whoever made the record holds the new key, so that
nobody can be made the successor of a fleet without knowing it.

A chain is records in a row: each begins with the key in which the one before it ends, the serial numbers rise by one,
and no key comes twice. It travels with the master's certificate, and the minion walks it from the key that it pins.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.model.keys import fingerprint_bytes
from saltlite.wire.limits import SUCCESSION_BYTES

_VERSION = 1
_BY_OLD = b"saltlite fleet succession 1, by the old key\0"
_BY_NEW = b"saltlite fleet succession 1, by the new key\0"
_CONTENT = struct.Struct(">B32s32sQQ")
_SIGNATURE_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """One record. Nothing in it is to be believed before `verify` has returned.

    `old_public` and `new_public` are Ed25519 keys of 32 bytes, `serial` counts the successions of a fleet from 1,
    `time` is when the record was made, seconds since 1970, by the clock of that master: for people, never judged.
    """

    old_public: bytes
    new_public: bytes
    serial: int
    time: int
    by_old: bytes
    by_new: bytes

    def encode(self) -> bytes:
        """The bytes that travel: SUCCESSION_BYTES."""
        return _content(self.old_public, self.new_public, self.serial, self.time) + self.by_old + self.by_new

    @classmethod
    def decode(cls, data: bytes) -> Succession:
        """The record in `data`, not yet verified. Raises RemoteProtocolError("bad-succession")."""
        if len(data) != SUCCESSION_BYTES:
            raise RemoteProtocolError("bad-succession", f"a record has {SUCCESSION_BYTES} bytes, not {len(data)}")
        version, old, new, serial, time = _CONTENT.unpack_from(data)
        if version != _VERSION:
            raise RemoteProtocolError("bad-succession", f"there is no version {version} of it")
        by_old = data[_CONTENT.size : _CONTENT.size + _SIGNATURE_BYTES]
        return cls(
            old_public=old, new_public=new, serial=serial, time=time, by_old=by_old, by_new=data[-_SIGNATURE_BYTES:]
        )

    def verify(self) -> None:
        """Return if both keys signed the record; raises RemoteProtocolError("bad-succession")."""
        content = _content(self.old_public, self.new_public, self.serial, self.time)
        try:
            Ed25519PublicKey.from_public_bytes(self.old_public).verify(self.by_old, _BY_OLD + content)
            Ed25519PublicKey.from_public_bytes(self.new_public).verify(self.by_new, _BY_NEW + content)
        except (InvalidSignature, ValueError):
            raise RemoteProtocolError("bad-succession", f"record {self.serial} has a false signature") from None


def succeed(old_private: bytes, new_private: bytes, *, serial: int, time: int) -> Succession:
    """The record by which the key of the second 32-byte seed takes the place of the first one's.

    Raises LocalProtocolError for a seed of another length, for twice the same key, and for numbers out of range.
    """
    if len(old_private) != 32 or len(new_private) != 32:
        raise LocalProtocolError("an Ed25519 seed has 32 bytes")
    if old_private == new_private:
        raise LocalProtocolError("a fleet key cannot take the place of itself")
    if not (1 <= serial < 2**64 and 0 <= time < 2**64):
        raise LocalProtocolError("the serial number of a succession begins at 1, and its numbers have 64 bits")
    old, new = Ed25519PrivateKey.from_private_bytes(old_private), Ed25519PrivateKey.from_private_bytes(new_private)
    old_public, new_public = old.public_key().public_bytes_raw(), new.public_key().public_bytes_raw()
    content = _content(old_public, new_public, serial, time)
    return Succession(
        old_public=old_public,
        new_public=new_public,
        serial=serial,
        time=time,
        by_old=old.sign(_BY_OLD + content),
        by_new=new.sign(_BY_NEW + content),
    )


def encode_chain(records: Sequence[Succession]) -> bytes:
    """The records behind each other."""
    return b"".join(record.encode() for record in records)


def decode_chain(data: bytes) -> tuple[Succession, ...]:
    """The records of a chain, oldest first. That they follow each other was checked, no signature was.

    Raises RemoteProtocolError("bad-succession").
    """
    if len(data) % SUCCESSION_BYTES:
        raise RemoteProtocolError("bad-succession", f"{len(data)} bytes are no whole number of records")
    starts = range(0, len(data), SUCCESSION_BYTES)
    records = tuple(Succession.decode(data[start : start + SUCCESSION_BYTES]) for start in starts)
    for before, after in pairwise(records):
        if after.old_public != before.new_public or after.serial != before.serial + 1:
            raise RemoteProtocolError("bad-succession", f"record {after.serial} does not follow {before.serial}")
    keys = {record.new_public for record in records} | {record.old_public for record in records[:1]}
    if records and len(keys) != len(records) + 1:
        raise RemoteProtocolError("bad-succession", "a key comes twice")
    return records


def successors(pinned: bytes, fleet_public: bytes, chain: bytes) -> tuple[bytes, ...]:
    """The fingerprints (25 bytes each) that lead from the pinned one to that of `fleet_public`, without the pinned one.

    Empty when `fleet_public` is the pinned key itself. Every record on the way is verified.
    Raises RemoteProtocolError with the reason `wrong-fleet` (the chain does not lead there) or `bad-succession`.
    """
    fleet = fingerprint_bytes(fleet_public)
    if fleet == pinned:
        return ()
    records = decode_chain(chain)
    ways = [index for index, record in enumerate(records) if fingerprint_bytes(record.old_public) == pinned]
    if not ways or records[-1].new_public != fleet_public:
        raise RemoteProtocolError("wrong-fleet", "the master belongs to another fleet than the pinned one")
    for record in records[ways[0] :]:
        record.verify()
    return tuple(fingerprint_bytes(record.new_public) for record in records[ways[0] :])


def _content(old_public: bytes, new_public: bytes, serial: int, time: int) -> bytes:
    return _CONTENT.pack(_VERSION, old_public, new_public, serial, time)
