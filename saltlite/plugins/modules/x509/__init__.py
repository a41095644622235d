"""Create, read and verify certificates, requests, revocation lists and keys.

Input is the path of a file on this minion or its content: PEM, DER, or either in hexadecimal or base64 (after
``b64:``), for certificates and private keys also PKCS #12 and PKCS #7. Of several certificates in a file the first is
used. Certificates are signed with a key of this minion, or by another minion (``ca_server``).
Private keys are returned only by ``create_private_key`` and ``encode_private_key`` without ``path``, by
``encode_certificate`` to PKCS #12, and by ``get_pem_entry`` on request.

:maintainer:    The saltlite authors
:maturity:      new
:platform:      all
"""

from __future__ import annotations

import glob
import os
from typing import Any

from saltlite.decorators import note
from saltlite.errors import CommandExecutionError, SaltInvocationError

from .loading import content, entries, load_certificate, load_crl, load_private_key, load_public_key, load_request

from .writing import (  # isort: skip
    create_certificate, create_crl, create_csr, create_private_key, encode_certificate, encode_crl, encode_csr,
    encode_private_key, get_signing_policy, sign_remote_certificate, write_pem,
)  # fmt: skip

__all__ = [
    "create_certificate", "create_crl", "create_csr", "create_private_key", "encode_certificate", "encode_crl",
    "encode_csr", "encode_private_key", "expired", "expires", "get_pem_entries", "get_pem_entry",
    "get_private_key_size", "get_public_key", "get_signing_policy", "read_certificate", "read_certificates",
    "read_crl", "read_csr", "sign_remote_certificate", "verify_crl", "verify_private_key", "verify_signature",
    "will_expire", "write_pem",
]  # fmt: skip


def read_certificate(certificate: str) -> dict[str, Any]:
    """Return the fields of a certificate: ``subject``, ``issuer``, ``not_after``, ``fingerprints``, ``extensions`` and
    more. Times are UTC.

    CLI Example: ``saltlite '*' x509.read_certificate /etc/pki/tls/certs/web.crt``
    """
    from cryptography.hazmat.primitives import hashes

    from . import extensions

    cert = load_certificate(certificate)
    key = cert.public_key()
    return {
        "version": cert.version.value + 1,
        **_key_size(key),
        "serial_number": extensions.pairs(cert.serial_number),
        "fingerprints": {
            kind.name: extensions.pairs(cert.fingerprint(kind))
            for kind in (hashes.SHA1(), hashes.SHA256(), hashes.MD5())  # noqa: S303 - as people have noted them down
        },
        "subject": extensions.name(cert.subject),
        "subject_hash": extensions.name_hash(cert.subject),
        "subject_str": cert.subject.rfc4514_string(),
        "issuer": extensions.name(cert.issuer),
        "issuer_hash": extensions.name_hash(cert.issuer),
        "issuer_str": cert.issuer.rfc4514_string(),
        "not_before": cert.not_valid_before_utc.strftime(extensions.TIME),
        "not_after": cert.not_valid_after_utc.strftime(extensions.TIME),
        "public_key": _pem(key),
        "extensions": extensions.described(_extensions(cert)),
        "signature_algorithm": _algorithm(cert),
    }


def read_certificates(glob_path: str) -> dict[str, Any]:
    """Return the fields of the certificates in all files that match a glob, by path; other files are skipped.

    CLI Example: ``saltlite '*' x509.read_certificates '/etc/pki/tls/certs/*.crt'``
    """
    found = {}
    for path in _files(glob_path):
        try:
            found[path] = read_certificate(path)
        except SaltInvocationError:
            continue
    return found


def read_csr(csr: str) -> dict[str, Any]:
    """Return the fields of a certificate request.

    CLI Example: ``saltlite '*' x509.read_csr /etc/pki/web.csr``
    """
    from cryptography import x509

    from . import extensions

    asked = load_request(csr)
    key = asked.public_key()
    return {
        **_key_size(key),
        "subject": extensions.name(asked.subject),
        "subject_hash": extensions.name_hash(asked.subject),
        "subject_str": asked.subject.rfc4514_string(),
        "public_key_hash": extensions.pairs(x509.SubjectKeyIdentifier.from_public_key(key).digest),
        "extensions": extensions.described(_extensions(asked)),
    }


def read_crl(crl: str) -> dict[str, Any]:
    """Return the fields of a revocation list: ``issuer``, times, and ``revoked_certificates`` by serial number.

    CLI Example: ``saltlite '*' x509.read_crl /etc/pki/ca.crl``
    """

    from . import extensions

    read = load_crl(crl)
    revoked = {
        extensions.pairs(one.serial_number).replace(":", ""): {
            "revocation_date": one.revocation_date_utc.strftime(extensions.TIME),
            "extensions": extensions.described(_extensions(one)),
        }
        for one in read
    }
    later = read.next_update_utc
    return {
        "issuer": extensions.name(read.issuer),
        "last_update": read.last_update_utc.strftime(extensions.TIME),
        "next_update": later.strftime(extensions.TIME) if later else None,
        "revoked_certificates": revoked,
        "extensions": extensions.described(_extensions(read)),
        "signature_algorithm": _algorithm(read),
    }


def get_public_key(key: str, passphrase: str | None = None, asObj: Any = None) -> str:  # noqa: N803 - Salt's name
    """Return the public key of a certificate, a request or a private key, as PEM.

    CLI Example: ``saltlite '*' x509.get_public_key /etc/pki/web.key``
    """
    if asObj is not None:
        note("The argument asObj has no effect.")
    return _pem(load_public_key(key, passphrase))


def get_private_key_size(private_key: str, passphrase: str | None = None) -> int | None:
    """Return the bits of a private key; ``None`` for types of a fixed size.

    CLI Example: ``saltlite '*' x509.get_private_key_size /etc/pki/web.key``
    """
    size: int | None = getattr(load_private_key(private_key, passphrase), "key_size", None)
    return size


def verify_private_key(private_key: str, public_key: str, passphrase: str | None = None) -> bool:
    """Return whether a private key belongs to a public key, a certificate or a request.

    CLI Example: ``saltlite '*' x509.verify_private_key /etc/pki/web.key /etc/pki/web.crt``
    """
    mine = load_private_key(private_key, passphrase).public_key()
    return _pem(mine) == _pem(load_public_key(public_key))


def verify_signature(
    certificate: str, signing_pub_key: str | None = None, signing_pub_key_passphrase: str | None = None
) -> bool:
    """Return whether a certificate was signed by this key (or a certificate's key), by default its own.

    Names, times and the signer's permissions are not checked.

    CLI Example: ``saltlite '*' x509.verify_signature /etc/pki/web.crt signing_pub_key=/etc/pki/ca.crt``
    """
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    cert = load_certificate(certificate)
    key = load_public_key(signing_pub_key or certificate, signing_pub_key_passphrase)
    signed = (cert.signature, cert.tbs_certificate_bytes)
    try:
        how: Any = cert.signature_algorithm_parameters
        digest: Any = cert.signature_hash_algorithm
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(*signed, how, digest)
        elif isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(*signed, how)
        else:
            key.verify(*signed)
    except InvalidSignature:
        return False
    except (UnsupportedAlgorithm, AttributeError) as error:
        raise CommandExecutionError("The kind of this signature is not supported.") from error
    except TypeError:
        return False  # the key has another type than the signature
    return True


def verify_crl(crl: str, cert: str) -> bool:
    """Return whether a revocation list was signed by the key of a certificate.

    CLI Example: ``saltlite '*' x509.verify_crl /etc/pki/ca.crl /etc/pki/ca.crt``
    """
    listed, key = load_crl(crl), load_public_key(cert)
    try:
        return bool(listed.is_signature_valid(key))
    except TypeError:
        raise SaltInvocationError("Lists are signed with keys of other kinds than this one.") from None


def expires(certificate: str, days: int = 0) -> bool:
    """Return whether a certificate expires within this many days.

    CLI Example: ``saltlite '*' x509.expires /etc/pki/web.crt days=30``
    """
    import datetime

    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=_days(days))
    return load_certificate(certificate).not_valid_after_utc <= later


def expired(certificate: str) -> dict[str, Any]:
    """Return whether a certificate has expired: ``path`` (of a file), ``cn``, ``expired``.

    CLI Example: ``saltlite '*' x509.expired /etc/pki/web.crt``
    """
    return {**_who(certificate), "expired": expires(certificate)}


def will_expire(certificate: str, days: int) -> dict[str, Any]:
    """Return whether a certificate expires within this many days: ``check_days``, ``path`` (of a file), ``cn``,
    ``will_expire``.

    CLI Example: ``saltlite '*' x509.will_expire /etc/pki/web.crt days=30``
    """
    return {"check_days": days, **_who(certificate), "will_expire": expires(certificate, days)}


def get_pem_entry(text: str, pem_type: str | None = None) -> bytes:
    """Return the first PEM entry in a file or text, or the first of a type, reformatted.

    A private key is returned only if its type is requested, such as ``PRIVATE KEY``.

    CLI Example: ``saltlite '*' x509.get_pem_entry /etc/pki/web.pem pem_type=CERTIFICATE``
    """
    for kind, entry in entries(content(text)):
        if kind == pem_type or (pem_type is None and "PRIVATE KEY" not in kind):
            return entry
    wanted = f"of type {pem_type}" if pem_type else "but for private keys, whose type has to be named"
    raise SaltInvocationError(f"It contains no PEM entry {wanted}.")


def get_pem_entries(glob_path: str) -> dict[str, bytes]:
    """Return the first PEM entry of each file that matches a glob, by path; other files are skipped.

    CLI Example: ``saltlite '*' x509.get_pem_entries '/etc/pki/*.crt'``
    """
    found = {}
    for path in _files(glob_path):
        try:
            found[path] = get_pem_entry(path)
        except SaltInvocationError:
            continue
    return found


def _files(pattern: str) -> list[str]:
    return [path for path in sorted(glob.glob(str(pattern))) if os.path.isfile(path)]


def _who(certificate: str) -> dict[str, Any]:

    from . import extensions

    found = {}
    if "\0" not in str(certificate) and os.path.isfile(str(certificate)):
        found["path"] = certificate
    subject = extensions.name(load_certificate(certificate).subject)
    return {**found, "cn": subject["CN"]} if "CN" in subject else found


def _days(days: Any) -> float:
    try:
        number = float(days)
    except (TypeError, ValueError):
        number = float("nan")
    if not abs(number) < 365_000:
        raise SaltInvocationError(f"days is a number of days, not {days!r:.40}.")
    return number


def _key_size(key: Any) -> dict[str, Any]:
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

    kinds = {
        "rsa": rsa.RSAPublicKey, "ec": ec.EllipticCurvePublicKey, "ed25519": ed25519.Ed25519PublicKey,
        "ed448": ed448.Ed448PublicKey,
    }  # fmt: skip
    kind = next((name for name, each in kinds.items() if isinstance(key, each)), None)
    return {"key_size": key.key_size if kind in {"rsa", "ec"} else None, "key_type": kind}


def _pem(key: Any) -> str:
    from cryptography.hazmat.primitives import serialization

    raw: bytes = key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return raw.decode()


def _extensions(owner: Any) -> Any:
    try:
        return owner.extensions
    except ValueError as error:
        raise CommandExecutionError(f"Its extensions cannot be read: {error}.") from error


def _algorithm(signed: Any) -> str:
    oid = signed.signature_algorithm_oid
    name: str = getattr(oid, "_name", "Unknown OID")
    return oid.dotted_string if name == "Unknown OID" else name
