"""The master certificate: how a minion that pins only the fleet key knows a master.

Encoded, all integers big endian, one encoding for each certificate:

    u8 version=1 | fleet_public 32 | static_public 32 | job_public 32 | u64 serial | u64 epoch
    | u64 not_before | u64 not_after | u8 length of name | name, UTF-8 | signature 64

The Ed25519 signature (RFC 8032) of the fleet key covers a domain prefix and every byte before it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from saltlite.errors import LocalProtocolError, RemoteProtocolError
from saltlite.model.keys import fingerprint_bytes

CERTIFICATE_MAX_DAYS = 90
"""Days from not_before to not_after: how long a stolen master key is of use at most."""

NAME_MAX = 64
"""Bytes of the master's name, UTF-8."""

BUILD_DATE_S = 1_763_683_200
"""No certificate is judged as of an earlier day than this build's, whatever the minion's clock says."""

SIGNATURE_BYTES = 64
PUBLIC_BYTES = 32

_VERSION = 1
_DOMAIN = b"saltlite master certificate 1\0"
_FIXED = struct.Struct(">B32s32s32sQQQQB")
_MAX_S = CERTIFICATE_MAX_DAYS * 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateTerms:
    """What a fleet key is asked to sign for one master.

    `static_public` is the master's X25519 key, `job_public` its Ed25519 key for job bodies, 32 bytes each;
    `serial` tells certificates of one fleet apart, `epoch` rises when older ones must no longer be believed;
    `not_before` and `not_after` are seconds since 1970, the first and the last second of validity.
    """

    static_public: bytes
    job_public: bytes
    name: str
    serial: int
    epoch: int
    not_before: int
    not_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MasterCertificate(CertificateTerms):
    """Signed terms. Nothing in one is to be believed before `verify` has returned."""

    fleet_public: bytes
    signature: bytes

    def encode(self) -> bytes:
        """The bytes that travel: at most 258."""
        return _content(self.fleet_public, self) + self.signature

    @classmethod
    def decode(cls, data: bytes) -> MasterCertificate:
        """The certificate in `data`, not yet verified. Raises RemoteProtocolError("bad-certificate")."""
        if not _FIXED.size < len(data) <= _FIXED.size + NAME_MAX + SIGNATURE_BYTES:
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
        """Return if the fleet with this 25-byte fingerprint vouches for the certificate at `now_s`.

        `now_s` is seconds since 1970; if the clock may be wrong, the later of it and the build date.
        Raises RemoteProtocolError with the reason `wrong-fleet`, `bad-signature`, `bad-lifetime`,
        `not-yet-valid`, `expired` or `old-epoch`.
        """
        if fingerprint_bytes(self.fleet_public) != fleet_fingerprint:
            raise RemoteProtocolError("wrong-fleet", "the master belongs to another fleet than the pinned one")
        try:
            Ed25519PublicKey.from_public_bytes(self.fleet_public).verify(
                self.signature, _DOMAIN + _content(self.fleet_public, self)
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


def issue(fleet_private: bytes, terms: CertificateTerms) -> MasterCertificate:
    """Sign `terms` with the fleet's raw 32-byte Ed25519 seed.

    Raises LocalProtocolError when the terms could not be encoded, or are longer than CERTIFICATE_MAX_DAYS.
    """
    _check_terms(terms)
    if len(fleet_private) != PUBLIC_BYTES:
        raise LocalProtocolError(f"an Ed25519 seed has {PUBLIC_BYTES} bytes, not {len(fleet_private)}")
    key = Ed25519PrivateKey.from_private_bytes(fleet_private)
    fleet_public = key.public_key().public_bytes_raw()
    return MasterCertificate(
        static_public=terms.static_public,
        job_public=terms.job_public,
        name=terms.name,
        serial=terms.serial,
        epoch=terms.epoch,
        not_before=terms.not_before,
        not_after=terms.not_after,
        fleet_public=fleet_public,
        signature=key.sign(_DOMAIN + _content(fleet_public, terms)),
    )


def _content(fleet_public: bytes, terms: CertificateTerms) -> bytes:
    name = terms.name.encode()
    return (
        _FIXED.pack(
            _VERSION,
            fleet_public,
            terms.static_public,
            terms.job_public,
            terms.serial,
            terms.epoch,
            terms.not_before,
            terms.not_after,
            len(name),
        )
        + name
    )


def _check_terms(terms: CertificateTerms) -> None:
    if len(terms.static_public) != PUBLIC_BYTES or len(terms.job_public) != PUBLIC_BYTES:
        raise LocalProtocolError(f"the public keys of a certificate have {PUBLIC_BYTES} bytes")
    if not is_name(terms.name):
        raise LocalProtocolError(f"the name of a master has 1 to {NAME_MAX} bytes that can be shown")
    numbers = (terms.serial, terms.epoch, terms.not_before, terms.not_after)
    if not all(0 <= number < 2**64 for number in numbers):
        raise LocalProtocolError("the numbers of a certificate are not negative, and have 64 bits")
    if not 0 < terms.not_after - terms.not_before <= _MAX_S:
        raise LocalProtocolError(f"a certificate is valid for more than 0 and at most {CERTIFICATE_MAX_DAYS} days")


def is_name(name: str) -> bool:
    """Whether a master can be called that: 1 to NAME_MAX bytes that can be shown."""
    return name.isprintable() and 1 <= len(name.encode()) <= NAME_MAX
