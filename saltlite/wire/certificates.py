"""Master certificates, and the succession of fleet keys: how a minion that pins a fleet key authenticates a master.

A certificate, all integers big endian, with one encoding only:

    u8 version=1 | fleet_public 32 | static_public 32 | job_public 32 | u64 serial | u64 epoch
    | u64 not_before | u64 not_after | u8 length of name | name, UTF-8 | signature 64

The Ed25519 signature (RFC 8032) of the fleet key covers a domain prefix and every byte before it.

A succession record replaces one fleet key by another:

    u8 version=1 | old_public 32 | new_public 32 | u64 serial | u64 time | by_old 64 | by_new 64

Both signatures cover a domain prefix and every byte before `by_old`. The old key authorises the successor; the new key
proves that its holder made the record. In a chain of records each starts with the key in which the one before it ends,
serial numbers rise by one, and no key occurs twice. The chain travels with the certificate, and the minion follows it
from the key that it pins.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.model.dataclass import dataclass
from saltlite.model.keys import fingerprint_bytes
from saltlite.wire.limits import MASTER_NAME_MAX, SUCCESSION_BYTES
from saltlite.wire.primitives import InvalidSignature, ed25519_private, ed25519_public

CERTIFICATE_MAX_DAYS = 90
"""Days from not_before to not_after: the longest time for which a stolen master key is of use."""

BUILD_DATE_S = 1_763_683_200
"""A certificate is never checked for a time before this build, whatever the minion's clock says."""

SIGNATURE_BYTES = 64
PUBLIC_BYTES = 32

_VERSION = 1
_DOMAIN = b"saltlite master certificate 1\0"
_FIXED = struct.Struct(">B32s32s32sQQQQB")
_MAX_S = CERTIFICATE_MAX_DAYS * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateContent:
    """The content of a certificate, which a fleet key signs.

    `static_public` is the master's X25519 key, `job_public` its Ed25519 key for job bodies, 32 bytes each; `serial`
    identifies the certificate in its fleet, `epoch` rises to invalidate older ones; `not_before` and `not_after` are
    the first and the last second of validity, since 1970.
    """

    static_public: bytes
    job_public: bytes
    name: str
    serial: int
    epoch: int
    not_before: int
    not_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterCertificate(CertificateContent):
    """The content with its signature. Do not use it before `verify` has returned."""

    fleet_public: bytes
    signature: bytes

    def encode(self) -> bytes:
        """The encoded certificate: at most 258 bytes."""
        return _certificate_content(self.fleet_public, self) + self.signature

    @classmethod
    def decode(cls, data: bytes) -> MasterCertificate:
        """The certificate in `data`, not yet verified. Raises RemoteProtocolError("bad-certificate")."""
        if not _FIXED.size < len(data) <= _FIXED.size + MASTER_NAME_MAX + SIGNATURE_BYTES:
            raise RemoteProtocolError("bad-certificate", f"it has {len(data)} bytes")
        version, fleet, static, job, serial, epoch, not_before, not_after, length = _FIXED.unpack_from(data)
        if version != _VERSION or len(data) != _FIXED.size + length + SIGNATURE_BYTES:
            raise RemoteProtocolError("bad-certificate", "its version or its length is wrong")
        try:
            name = data[_FIXED.size : _FIXED.size + length].decode()
        except UnicodeDecodeError:
            raise RemoteProtocolError("bad-certificate", "its name is not UTF-8") from None
        if not is_name(name):
            raise RemoteProtocolError("bad-certificate", "its name cannot be shown")
        return cls(
            static_public=static,
            job_public=job,
            name=name,
            serial=serial,
            epoch=epoch,
            not_before=not_before,
            not_after=not_after,
            fleet_public=fleet,
            signature=data[-SIGNATURE_BYTES:],
        )

    def verify(self, fleet_fingerprint: bytes, now_s: int, minimum_epoch: int = 0) -> None:
        """Return if the fleet with this 25-byte fingerprint has signed the certificate, and it is valid at `now_s`.

        `now_s` is seconds since 1970; if the clock may be wrong, the later of it and the build date. Raises
        RemoteProtocolError with the reason `wrong-fleet`, `bad-signature`, `bad-lifetime`, `not-yet-valid`, `expired`
        or `old-epoch`.
        """
        if fingerprint_bytes(self.fleet_public) != fleet_fingerprint:
            raise RemoteProtocolError("wrong-fleet", "the master belongs to another fleet than the pinned one")
        try:
            ed25519_public(self.fleet_public).verify(
                self.signature, _DOMAIN + _certificate_content(self.fleet_public, self)
            )
        except (InvalidSignature, ValueError):
            raise RemoteProtocolError("bad-signature", "the fleet key did not sign this certificate") from None
        if not 0 < self.not_after - self.not_before <= _MAX_S:
            raise RemoteProtocolError("bad-lifetime", f"a certificate is valid for {CERTIFICATE_MAX_DAYS} days at most")
        if now_s < self.not_before:
            raise RemoteProtocolError("not-yet-valid", f"it is valid {self.not_before - now_s} s from now")
        if now_s > self.not_after:
            raise RemoteProtocolError("expired", f"it expired {now_s - self.not_after} s ago")
        if self.epoch < minimum_epoch:
            raise RemoteProtocolError("old-epoch", f"epoch {self.epoch}, but {minimum_epoch} was seen already")


def issue(fleet_private: bytes, content: CertificateContent) -> MasterCertificate:
    """Sign `content` with the fleet's raw 32-byte Ed25519 seed.

    Raises LocalProtocolError when the content cannot be encoded, or is valid for longer than CERTIFICATE_MAX_DAYS.
    """
    _check_content(content)
    if len(fleet_private) != PUBLIC_BYTES:
        raise LocalProtocolError(f"an Ed25519 seed has {PUBLIC_BYTES} bytes, not {len(fleet_private)}")
    key = ed25519_private(fleet_private)
    fleet_public = key.public_key().public_bytes_raw()
    return MasterCertificate(
        static_public=content.static_public,
        job_public=content.job_public,
        name=content.name,
        serial=content.serial,
        epoch=content.epoch,
        not_before=content.not_before,
        not_after=content.not_after,
        fleet_public=fleet_public,
        signature=key.sign(_DOMAIN + _certificate_content(fleet_public, content)),
    )


def _certificate_content(fleet_public: bytes, content: CertificateContent) -> bytes:
    name = content.name.encode()
    return (
        _FIXED.pack(
            _VERSION,
            fleet_public,
            content.static_public,
            content.job_public,
            content.serial,
            content.epoch,
            content.not_before,
            content.not_after,
            len(name),
        )
        + name
    )


def _check_content(content: CertificateContent) -> None:
    if len(content.static_public) != PUBLIC_BYTES or len(content.job_public) != PUBLIC_BYTES:
        raise LocalProtocolError(f"the public keys of a certificate have {PUBLIC_BYTES} bytes")
    if not is_name(content.name):
        raise LocalProtocolError(f"the name of a master has 1 to {MASTER_NAME_MAX} bytes that can be shown")
    numbers = (content.serial, content.epoch, content.not_before, content.not_after)
    if not all(0 <= number < 2**64 for number in numbers):
        raise LocalProtocolError("the numbers of a certificate are not negative, and have 64 bits")
    if not 0 < content.not_after - content.not_before <= _MAX_S:
        raise LocalProtocolError(f"a certificate is valid for more than 0 and at most {CERTIFICATE_MAX_DAYS} days")


def is_name(name: str) -> bool:
    """Whether this is a valid name of a master: 1 to MASTER_NAME_MAX printable bytes."""
    return name.isprintable() and 1 <= len(name.encode()) <= MASTER_NAME_MAX


# -- Successions


_BY_OLD = b"saltlite fleet succession 1, by the old key\0"
_BY_NEW = b"saltlite fleet succession 1, by the new key\0"
_CONTENT = struct.Struct(">B32s32sQQ")
_SIGNATURE_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Succession:
    """One record. Do not use it before `verify` has returned.

    `old_public` and `new_public` are Ed25519 keys of 32 bytes, `serial` counts the successions of a fleet from 1,
    `time` is seconds since 1970 by the clock of that master, for people only.
    """

    old_public: bytes
    new_public: bytes
    serial: int
    time: int
    by_old: bytes
    by_new: bytes

    def encode(self) -> bytes:
        """The encoded record: SUCCESSION_BYTES."""
        return _succession_content(self.old_public, self.new_public, self.serial, self.time) + self.by_old + self.by_new

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
        content = _succession_content(self.old_public, self.new_public, self.serial, self.time)
        try:
            ed25519_public(self.old_public).verify(self.by_old, _BY_OLD + content)
            ed25519_public(self.new_public).verify(self.by_new, _BY_NEW + content)
        except (InvalidSignature, ValueError):
            raise RemoteProtocolError("bad-succession", f"record {self.serial} has a false signature") from None


def succeed(old_private: bytes, new_private: bytes, *, serial: int, time: int) -> Succession:
    """The record by which the key of the second 32-byte seed replaces that of the first one.

    Raises LocalProtocolError for a seed of another length, for equal keys, and for numbers out of range.
    """
    if len(old_private) != 32 or len(new_private) != 32:
        raise LocalProtocolError("an Ed25519 seed has 32 bytes")
    if old_private == new_private:
        raise LocalProtocolError("a fleet key cannot take the place of itself")
    if not (1 <= serial < 2**64 and 0 <= time < 2**64):
        raise LocalProtocolError("the serial number of a succession begins at 1, and its numbers have 64 bits")
    old, new = ed25519_private(old_private), ed25519_private(new_private)
    old_public, new_public = old.public_key().public_bytes_raw(), new.public_key().public_bytes_raw()
    content = _succession_content(old_public, new_public, serial, time)
    return Succession(
        old_public=old_public,
        new_public=new_public,
        serial=serial,
        time=time,
        by_old=old.sign(_BY_OLD + content),
        by_new=new.sign(_BY_NEW + content),
    )


def encode_chain(records: Sequence[Succession]) -> bytes:
    """The concatenated records."""
    return b"".join(record.encode() for record in records)


def decode_chain(data: bytes) -> tuple[Succession, ...]:
    """The records of a chain, oldest first. Their order is checked, their signatures are not. Raises
    RemoteProtocolError("bad-succession")."""
    if len(data) % SUCCESSION_BYTES:
        raise RemoteProtocolError("bad-succession", f"{len(data)} bytes are not a whole number of records")
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
    """The fingerprints (25 bytes each) from the pinned one, which is excluded, to that of `fleet_public`.

    Empty when `fleet_public` is the pinned key. Every record on the way is verified. Raises RemoteProtocolError with
    the reason `wrong-fleet` (the chain does not lead there) or `bad-succession`.
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


def _succession_content(old_public: bytes, new_public: bytes, serial: int, time: int) -> bytes:
    return _CONTENT.pack(_VERSION, old_public, new_public, serial, time)
