"""Builds and signs certificates, requests and revocation lists from the arguments of Salt's functions.

Imports `cryptography`, so it is loaded on use.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from typing import Any

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from saltlite.decorators import note
from saltlite.errors import SaltInvocationError, SaltliteError

from . import extension_syntax
from .extension_syntax import Parties
from .extensions import ATTRIBUTES
from .loading import load_certificate, load_private_key, load_public_key, load_request

_RSA_SIZES = (2048, 3072, 4096)
_CURVES = {256: ec.SECP256R1(), 384: ec.SECP384R1(), 521: ec.SECP521R1()}
_WITHOUT_DIGEST = (ed25519.Ed25519PrivateKey, ed448.Ed448PrivateKey)


def new_private_key(algo: str, keysize: Any) -> Any:
    """Generate a key. Raises SaltInvocationError for an unknown algorithm or size."""
    try:
        size = None if keysize is None else int(keysize)
    except (TypeError, ValueError):
        raise SaltInvocationError(f"keysize is a number of bits, not {keysize!r:.40}.") from None
    match algo:
        case "rsa":
            if (size or _RSA_SIZES[0]) not in _RSA_SIZES:
                raise SaltInvocationError(f"RSA keys have 2048, 3072 or 4096 bits, not {size}.")
            return rsa.generate_private_key(65537, size or _RSA_SIZES[0])
        case "ec":
            if (size or 256) not in _CURVES:
                raise SaltInvocationError(f"EC keys have 256, 384 or 521 bits, not {size}.")
            return ec.generate_private_key(_CURVES[size or 256])
        case "ed25519":
            return ed25519.Ed25519PrivateKey.generate()
        case "ed448":
            return ed448.Ed448PrivateKey.generate()
    raise SaltInvocationError(f"There is no algorithm {algo!r:.40} for keys, only rsa, ec, ed25519 and ed448.")


def certificate(  # noqa: PLR0913 - Salt's arguments
    details: Mapping[str, Any], *, digest: str, signing_private_key: Any, signing_private_key_passphrase: Any = None,
    signing_cert: Any = None, private_key: Any = None, private_key_passphrase: Any = None, public_key: Any = None,
    csr: Any = None, subject: Any = None, serial_number: Any = None, not_before: Any = None, not_after: Any = None,
    days_valid: Any = None,
) -> tuple[x509.Certificate, Any]:  # fmt: skip
    """Return a signed certificate, and the private key that belongs to it if that is known.

    `details` holds attributes of the subject and extensions. Raises SaltInvocationError, CommandExecutionError.
    """
    signer = load_private_key(signing_private_key, signing_private_key_passphrase)
    request = load_request(csr) if csr else None
    if request is not None and not request.is_signature_valid:
        raise SaltInvocationError("The signature of the request is not valid: it was changed after it was made.")
    issuer = load_certificate(signing_cert) if signing_cert else None
    own_key = None
    if issuer is None:
        own_key, key = signer, signer.public_key()
    elif private_key:
        own_key = load_private_key(private_key, private_key_passphrase)
        key = own_key.public_key()
    elif public_key:
        key = load_public_key(public_key)
    elif request is not None:
        key = request.public_key()
    else:
        raise SaltInvocationError("A certificate that signing_cert signs needs private_key, public_key or csr.")
    _check_pair(issuer, signer)
    name = extension_syntax.distinguished_name(subject or _attributes(details))
    now = datetime.datetime.now(datetime.UTC)
    until = now + _lifetime(days_valid, 365) if not not_after else extension_syntax.moment(not_after, "not_after")
    parties = Parties(key, signer.public_key(), issuer)
    try:
        builder = (
            x509.CertificateBuilder(name if issuer is None else issuer.subject, name, key)
            .serial_number(x509.random_serial_number() if serial_number is None else _serial(serial_number))
            .not_valid_before(extension_syntax.moment(not_before, "not_before") if not_before else now)
            .not_valid_after(until)
        )
        chosen = _chosen(extension_syntax.OF_CERTIFICATES, details, parties)
        for value, critical in chosen.values():
            builder = builder.add_extension(value, critical)
        for each in _requested(request, details):
            builder = builder.add_extension(each.value, each.critical)
        return builder.sign(signer, _digest(digest, signer)), own_key
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _refused("certificate", error) from error


def request(details: Mapping[str, Any], *, key: Any, digest: str, subject: Any = None) -> Any:
    """Return a signed request for this private key. Raises SaltInvocationError."""
    builder = x509.CertificateSigningRequestBuilder(
        extension_syntax.distinguished_name(subject or _attributes(details))
    )
    try:
        chosen = _chosen(extension_syntax.OF_REQUESTS, details, Parties(key.public_key()))
        for value, critical in chosen.values():
            builder = builder.add_extension(value, critical)
        return builder.sign(key, _digest(digest, key))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _refused("request", error) from error


def revocation_list(
    revoked: Any, *, key: Any, signing_cert: Any, include_expired: bool, days_valid: Any, digest: str, extensions: Any
) -> x509.CertificateRevocationList:
    """Return a signed revocation list. Raises SaltInvocationError."""
    if not signing_cert:
        raise SaltInvocationError("A revocation list needs signing_cert, whose subject is its issuer.")
    issuer = load_certificate(signing_cert)
    _check_pair(issuer, key)
    now = datetime.datetime.now(datetime.UTC)
    parties = Parties(None, key.public_key(), issuer)
    if not isinstance(revoked, list | tuple):
        raise SaltInvocationError("revoked is a list of maps, each with serial_number or certificate.")
    try:
        builder = x509.CertificateRevocationListBuilder(issuer.subject, now, now + _lifetime(days_valid, 100))
        for each in revoked:
            entry = _revocation(each, now, parties, include_expired=include_expired)
            if entry is not None:
                builder = builder.add_revoked_certificate(entry)
        given = _known(extensions or {}, extension_syntax.OF_REVOCATION_LISTS, "revocation lists")
        for value, critical in _chosen(given, given, parties).values():
            builder = builder.add_extension(value, critical)
        return builder.sign(key, _digest(digest, key))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _refused("revocation list", error) from error


def _revocation(
    given: Any, now: datetime.datetime, parties: Parties, *, include_expired: bool
) -> x509.RevokedCertificate | None:
    """Return the entry of a revoked certificate, or None if it has expired and is to be omitted."""
    if not isinstance(given, Mapping):
        raise SaltInvocationError("Each item of revoked is a map with serial_number or certificate.")
    until = extension_syntax.moment(given["not_after"], "not_after") if given.get("not_after") else None
    serial = given.get("serial_number")
    if given.get("certificate"):
        cert = load_certificate(given["certificate"])
        serial, until = cert.serial_number, cert.not_valid_after_utc
    if not serial:
        raise SaltInvocationError("Each item of revoked needs serial_number or certificate.")
    if until is not None and until < now and not include_expired:
        return None
    since = given.get("revocation_date")
    builder = x509.RevokedCertificateBuilder(
        _serial(serial), extension_syntax.moment(since, "revocation_date") if since else now
    )
    chosen = _known(given.get("extensions") or {}, extension_syntax.OF_REVOCATIONS, "entries of revocation lists")
    for value, critical in _chosen(chosen, chosen, parties).values():
        builder = builder.add_extension(value, critical)
    return builder.build()


def _known(given: Any, names: Collection[str], owners: str) -> dict[str, Any]:
    """Return the extensions that exist, and note the others, which Salt ignores too."""
    if not isinstance(given, Mapping):
        raise SaltInvocationError("extensions is a map of names to values.")
    for name in given:
        if name not in names:
            note(f"{name} was ignored: extensions of {owners} are {', '.join(names)}.")
    return {name: value for name, value in given.items() if name in names}


def _chosen(names: Collection[str], details: Mapping[str, Any], parties: Parties) -> dict[str, tuple[Any, bool]]:
    """Return the extensions that are given a value. A signing policy removes one by None."""
    return {
        name: extension_syntax.extension(name, details[name], parties)
        for name in names
        if details.get(name) is not None and details[name] is not False
    }


def _requested(request: x509.CertificateSigningRequest | None, details: Mapping[str, Any]) -> list[x509.Extension[Any]]:
    """Return the extensions of a request that a certificate takes over, because its arguments do not set them."""
    if request is None:
        return []
    from .extensions import EXTENSIONS

    wanted = {
        EXTENSIONS[name]
        for name in extension_syntax.OF_REQUESTS
        if details.get(name) is None
    }  # fmt: skip
    return [each for each in request.extensions if each.oid in wanted]


def _attributes(details: Mapping[str, Any]) -> dict[str, Any]:
    return {name: details[name] for name in ATTRIBUTES if details.get(name) is not None}


def _check_pair(issuer: x509.Certificate | None, signer: Any) -> None:
    if issuer is not None and issuer.public_key() != signer.public_key():
        raise SaltInvocationError("signing_private_key is not the key of signing_cert.")


def _lifetime(days: Any, default: int) -> datetime.timedelta:
    try:
        return datetime.timedelta(days=float(default if days is None else days))
    except (TypeError, ValueError, OverflowError):
        raise SaltInvocationError(f"days_valid is a number of days, not {days!r:.40}.") from None


def _serial(given: Any) -> int:
    """Return a serial number from an integer, or hexadecimal digits with or without colons."""
    if isinstance(given, int):
        return given
    try:
        return int.from_bytes(bytes.fromhex(str(given).replace(":", "")), "big")
    except ValueError:
        raise SaltInvocationError(
            f"{given!r:.80} is not a serial number: an integer, or pairs of hexadecimal digits."
        ) from None


def _digest(name: str, key: Any) -> Any:
    """Return the hash for signatures of this key; None for keys that have their own."""
    return None if isinstance(key, _WITHOUT_DIGEST) else getattr(hashes, name.upper())()


def _refused(what: str, error: Exception) -> SaltliteError:
    """Return the error for the caller: the sentence as it is, or with a beginning if `cryptography` wrote it."""
    if isinstance(error, SaltliteError):
        return error
    return SaltInvocationError(f"No {what} can be made of these arguments: {str(error).rstrip('.')}.")
