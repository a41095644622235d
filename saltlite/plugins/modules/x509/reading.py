"""What certificates, requests, revocation lists and keys say."""

from __future__ import annotations

import glob
import os
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

from . import sources


def read_certificate(certificate: str) -> dict[str, Any]:
    """
    What a certificate says: ``subject``, ``issuer``, ``not_after``, ``fingerprints``, ``extensions`` and more.

    Times are UTC.

    CLI Example::

        saltlite '*' x509.read_certificate /etc/pki/tls/certs/web.crt
    """
    from cryptography.hazmat.primitives import hashes

    from . import shown

    cert = sources.certificate(certificate)
    key = cert.public_key()
    return {
        "version": cert.version.value + 1,
        **_key_size(key),
        "serial_number": shown.pairs(cert.serial_number),
        "fingerprints": {
            kind.name: shown.pairs(cert.fingerprint(kind))
            for kind in (hashes.SHA1(), hashes.SHA256(), hashes.MD5())  # noqa: S303 - as people have noted them down
        },
        "subject": shown.name(cert.subject),
        "subject_hash": shown.name_hash(cert.subject),
        "subject_str": cert.subject.rfc4514_string(),
        "issuer": shown.name(cert.issuer),
        "issuer_hash": shown.name_hash(cert.issuer),
        "issuer_str": cert.issuer.rfc4514_string(),
        "not_before": cert.not_valid_before_utc.strftime(shown.TIME),
        "not_after": cert.not_valid_after_utc.strftime(shown.TIME),
        "public_key": _pem(key),
        "extensions": shown.extensions(_extensions(cert)),
        "signature_algorithm": _algorithm(cert),
    }


def read_certificates(glob_path: str) -> dict[str, Any]:
    """
    What the certificates in all files that match a glob say, by path. What is no certificate is left out.

    CLI Example::

        saltlite '*' x509.read_certificates '/etc/pki/tls/certs/*.crt'
    """
    found = {}
    for path in _files(glob_path):
        try:
            found[path] = read_certificate(path)
        except SaltInvocationError:
            continue
    return found


def read_csr(csr: str) -> dict[str, Any]:
    """
    What a certificate request says.

    CLI Example::

        saltlite '*' x509.read_csr /etc/pki/web.csr
    """
    from cryptography import x509

    from . import shown

    asked = sources.request(csr)
    key = asked.public_key()
    return {
        **_key_size(key),
        "subject": shown.name(asked.subject),
        "subject_hash": shown.name_hash(asked.subject),
        "subject_str": asked.subject.rfc4514_string(),
        "public_key_hash": shown.pairs(x509.SubjectKeyIdentifier.from_public_key(key).digest),
        "extensions": shown.extensions(_extensions(asked)),
    }


def read_crl(crl: str) -> dict[str, Any]:
    """
    What a revocation list says: its ``issuer``, its times, and ``revoked_certificates`` by serial number.

    CLI Example::

        saltlite '*' x509.read_crl /etc/pki/ca.crl
    """
    from . import shown

    read = sources.revocations(crl)
    revoked = {
        shown.pairs(one.serial_number).replace(":", ""): {
            "revocation_date": one.revocation_date_utc.strftime(shown.TIME),
            "extensions": shown.extensions(_extensions(one)),
        }
        for one in read
    }
    later = read.next_update_utc
    return {
        "issuer": shown.name(read.issuer),
        "last_update": read.last_update_utc.strftime(shown.TIME),
        "next_update": later.strftime(shown.TIME) if later else None,
        "revoked_certificates": revoked,
        "extensions": shown.extensions(_extensions(read)),
        "signature_algorithm": _algorithm(read),
    }


def get_public_key(key: str, passphrase: str | None = None, asObj: Any = None) -> str:  # noqa: ARG001, N803 - Salt's name
    """
    The public key of a certificate, a request or a private key, as PEM.

    CLI Example::

        saltlite '*' x509.get_public_key /etc/pki/web.key
    """
    return _pem(sources.public_key(key, passphrase))


def get_private_key_size(private_key: str, passphrase: str | None = None) -> int | None:
    """
    The bits of a private key; ``None`` for a kind that has one size only.

    CLI Example::

        saltlite '*' x509.get_private_key_size /etc/pki/web.key
    """
    size: int | None = getattr(sources.private_key(private_key, passphrase), "key_size", None)
    return size


def verify_private_key(private_key: str, public_key: str, passphrase: str | None = None) -> bool:
    """
    Whether a private key is that of a public key, a certificate or a request.

    CLI Example::

        saltlite '*' x509.verify_private_key /etc/pki/web.key /etc/pki/web.crt
    """
    mine = sources.private_key(private_key, passphrase).public_key()
    return _pem(mine) == _pem(sources.public_key(public_key))


def verify_signature(
    certificate: str, signing_pub_key: str | None = None, signing_pub_key_passphrase: str | None = None
) -> bool:
    """
    Whether a certificate was signed by that key (of a certificate, too), or without one by its own.

    Nothing is said of names, times or of what the signer may sign.

    CLI Example::

        saltlite '*' x509.verify_signature /etc/pki/web.crt signing_pub_key=/etc/pki/ca.crt
    """
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    cert = sources.certificate(certificate)
    key = sources.public_key(signing_pub_key or certificate, signing_pub_key_passphrase)
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
        return False  # the signature is of another kind than the key
    return True


def verify_crl(crl: str, cert: str) -> bool:
    """
    Whether a revocation list was signed by the key of a certificate.

    CLI Example::

        saltlite '*' x509.verify_crl /etc/pki/ca.crl /etc/pki/ca.crt
    """
    listed, key = sources.revocations(crl), sources.public_key(cert)
    try:
        return bool(listed.is_signature_valid(key))
    except TypeError:
        raise SaltInvocationError("Lists are signed with keys of other kinds than this one.") from None


def expires(certificate: str, days: int = 0) -> bool:
    """
    Whether a certificate is no longer valid in that many days.

    CLI Example::

        saltlite '*' x509.expires /etc/pki/web.crt days=30
    """
    import datetime

    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=_days(days))
    return sources.certificate(certificate).not_valid_after_utc <= later


def expired(certificate: str) -> dict[str, Any]:
    """
    Whether a certificate is no longer valid: ``path`` (of a file), ``cn``, ``expired``.

    CLI Example::

        saltlite '*' x509.expired /etc/pki/web.crt
    """
    return {**_who(certificate), "expired": expires(certificate)}


def will_expire(certificate: str, days: int) -> dict[str, Any]:
    """
    Whether a certificate is no longer valid in that many days: ``check_days``, ``path`` (of a file), ``cn``,
    ``will_expire``.

    CLI Example::

        saltlite '*' x509.will_expire /etc/pki/web.crt days=30
    """
    return {"check_days": days, **_who(certificate), "will_expire": expires(certificate, days)}


def get_pem_entry(text: str, pem_type: str | None = None) -> bytes:
    """
    The first entry of PEM in a file or text, or the first of a type, with its lines as they should be.

    A private key is shown when its type is asked for, such as ``PRIVATE KEY``.

    CLI Example::

        saltlite '*' x509.get_pem_entry /etc/pki/web.pem pem_type=CERTIFICATE
    """
    for kind, entry in sources.entries(sources.content(text)):
        if kind == pem_type or (pem_type is None and "PRIVATE KEY" not in kind):
            return entry
    wanted = f"of type {pem_type}" if pem_type else "but for private keys, whose type has to be named"
    raise SaltInvocationError(f"There is no entry of PEM in it {wanted}.")


def get_pem_entries(glob_path: str) -> dict[str, bytes]:
    """
    The first entry of PEM of each file that matches a glob, by path. Files without one are left out.

    CLI Example::

        saltlite '*' x509.get_pem_entries '/etc/pki/*.crt'
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
    from . import shown

    found = {}
    if "\0" not in str(certificate) and os.path.isfile(str(certificate)):
        found["path"] = certificate
    subject = shown.name(sources.certificate(certificate).subject)
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
