"""Creates certificates, requests, revocation lists and keys, and converts them from one encoding to another."""

from __future__ import annotations

import base64
import copy
import os
import stat
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from saltlite.decorators import note
from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules._safe_files import Access, checked_path, read_whole, regular, write_whole

from . import remote
from .loading import content, entries, load_certificate, load_crl, load_private_key, load_request, secret_bytes

if TYPE_CHECKING:
    from saltlite.loader.hints import __pillar__, __salt__

DIGESTS = (
    "sha1", "sha224", "sha256", "sha384", "sha512", "sha512_224", "sha512_256", "sha3_224", "sha3_256", "sha3_384",
    "sha3_512",
)  # fmt: skip
_CERTIFICATE_ENCODINGS = ("der", "pem", "pkcs7_der", "pkcs7_pem", "pkcs12")

_SIGNING = (
    "signing_private_key", "signing_private_key_passphrase", "signing_cert", "private_key", "private_key_passphrase",
    "public_key", "csr", "subject", "serial_number", "not_before", "not_after", "days_valid",
)  # fmt: skip
_LONG_NAMES = {
    "commonName": "CN", "localityName": "L", "stateOrProvinceName": "ST", "organizationName": "O",
    "organizationUnitName": "OU", "givenName": "GN", "surname": "SN", "Email": "MAIL", "emailAddress": "MAIL",
    "serialNumber": "SERIALNUMBER", "X509v3 Basic Constraints": "basicConstraints", "X509v3 Key Usage": "keyUsage",
    "X509v3 Extended Key Usage": "extendedKeyUsage", "X509v3 Subject Key Identifier": "subjectKeyIdentifier",
    "X509v3 Authority Key Identifier": "authorityKeyIdentifier",
    "X509v3 Issuer Alternative Name": "issuerAltName", "issuserAltName": "issuerAltName",
    "Authority Information Access": "authorityInfoAccess", "X509v3 Subject Alternative Name": "subjectAltName",
    "X509v3 CRL Distribution Points": "crlDistributionPoints",
    "X509v3 Issuing Distribution Point": "issuingDistributionPoint",
    "X509v3 Certificate Policies": "certificatePolicies", "X509v3 Policy Constraints": "policyConstraints",
    "X509v3 Inhibit Any Policy": "inhibitAnyPolicy", "X509v3 Name Constraints": "nameConstraints",
    "OCSP No Check": "noCheck", "TLS Feature": "tlsfeature", "X509v3 CRLNumber": "cRLNumber",
    "X509v3 Delta CRL Indicator": "deltaCRLIndicator", "x509v3 Freshest CRL": "freshestCRL",
    "Netscape Comment": "nsComment", "Netscape Certificate Type": "nsCertType", "algorithm": "digest",
    "bits": "keysize",
}  # fmt: skip
"""Names of Salt's former `x509` module, and those of today."""
_FORMER = ("text", "version", "serial_bits", "cipher", "verbose", "pkcs12_embed_private_key")
"""Arguments of Salt's former module, which have no effect."""


def create_private_key(
    algo: str = "rsa", keysize: int | None = None, passphrase: str | None = None, encoding: str = "pem",
    pkcs12_encryption_compat: bool = False, path: str | None = None, raw: bool = False, **kwargs: Any,
) -> str | bytes:  # fmt: skip
    """Create a private key, and return it or write it to ``path``.

    ``algo`` is ``rsa`` (2048, 3072 or 4096 bits, default 2048), ``ec`` (256, 384 or 521 bits, default 256), ``ed25519``
    or ``ed448``. ``encoding`` is ``pem`` (PKCS #8), ``der`` or ``pkcs12``; the last two are returned in base64, or as
    bytes with ``raw``. ``passphrase`` encrypts the key; ``pkcs12_encryption_compat`` uses a weaker encryption that old
    systems can read. A new file has the mode 0600; an existing one keeps its owner, group and the mode for both.

    CLI Example: ``saltlite '*' x509.create_private_key algo=ec keysize=384 path=/etc/pki/web.key``
    """
    from . import signing

    _check_encoding(encoding, ("der", "pem", "pkcs12"))
    extra = _short_names(kwargs)
    keysize = extra.pop("keysize", keysize)
    _refuse_unknown(extra)
    key = signing.new_private_key(algo, keysize)
    data = _private_key_bytes(key, encoding, passphrase, compatible=pkcs12_encryption_compat)
    if path is None:
        return _shown(data, encoding, raw=raw)
    return _put(path, data, "PEM" if encoding == "pem" else "Private key", secret=True)


def create_certificate(  # noqa: PLR0913, PLR0917 - Salt's signature
    ca_server: str | None = None, signing_policy: str | None = None, encoding: str = "pem",
    append_certs: list[str] | str | None = None, pkcs12_passphrase: str | None = None,
    pkcs12_encryption_compat: bool = False, pkcs12_friendlyname: str | None = None, path: str | None = None,
    overwrite: bool = True, raw: bool = False, **kwargs: Any,
) -> str | bytes:  # fmt: skip
    """Create a certificate, and return it or write it to ``path``.

    ``signing_private_key`` signs it (``signing_private_key_passphrase``), for the authority ``signing_cert``; without
    an authority the certificate is self-signed. Its key is that of ``private_key`` (``private_key_passphrase``),
    ``public_key`` or ``csr``, whose extensions are taken over. Further arguments:

    - ``subject``: text (``CN=web,O=Example,C=DE``), list or map; or ``C ST L STREET O OU CN MAIL SN GN UID
      SERIALNUMBER`` one by one
    - ``days_valid`` (365), ``not_before``, ``not_after`` (``2026-01-31 12:00:00``, UTC), ``serial_number``, ``digest``
      (sha256)
    - extensions by name, as a text for OpenSSL, a list or a map, with ``critical`` at will: ``basicConstraints keyUsage
      extendedKeyUsage subjectKeyIdentifier authorityKeyIdentifier issuerAltName authorityInfoAccess subjectAltName
      crlDistributionPoints certificatePolicies policyConstraints inhibitAnyPolicy nameConstraints noCheck tlsfeature``
    - ``copypath``: a folder that gets a copy ``<serial number>.crt``, with ``prepend_cn`` ``<CN>-<serial number>.crt``

    ``signing_policy`` names a map under ``x509_signing_policies`` in the pillar, the minion's configuration or the
    grains, the first that has it; its values prevail. ``encoding`` is ``pem``, ``der``, ``pkcs7_pem``, ``pkcs7_der`` or
    ``pkcs12`` (with the private key). ``append_certs`` follow the certificate. ``overwrite=False`` keeps an existing
    file.

    ``ca_server`` is a minion that signs, by a ``signing_policy`` of its own, whose ``minions`` is a glob of ids. The
    private key stays here. The master's option ``peer`` must let this minion publish ``x509.sign_remote_certificate``
    there.

    CLI Example::

        saltlite web1 x509.create_certificate ca_server=ca1 signing_policy=www private_key=/etc/pki/web.key CN=web
        saltlite '*' x509.create_certificate signing_private_key=/etc/pki/ca.key CN=CA basicConstraints='CA:TRUE'
    """
    _check_encoding(encoding, _CERTIFICATE_ENCODINGS)
    if encoding == "der" and append_certs:
        raise SaltInvocationError("DER holds one certificate: append_certs needs another encoding.")
    if path and not overwrite and os.path.lexists(checked_path(path)):
        return f"The file at {path} exists and overwrite was set to false"
    details = _short_names(kwargs)
    if ca_server is None:
        details = _with_policy(details, signing_policy)
        if not details.get("signing_private_key"):
            raise SaltInvocationError("A certificate needs signing_private_key, the key that signs it.")
    if encoding == "pkcs12" and (ca_server or details.get("signing_cert")) and not details.get("private_key"):
        raise SaltInvocationError("PKCS #12 holds a certificate with its key: private_key is missing.")
    if ca_server is None:
        cert, key = _made(details)
    else:
        copies = details.pop("copypath", None), details.pop("prepend_cn", False)
        cert, key = remote.certificate_by(ca_server, signing_policy, _known(details))
        _copy(cert, *copies)
    data = _certificate_bytes(
        cert, encoding, _certificates(append_certs), key if encoding == "pkcs12" else None,
        pkcs12_passphrase, pkcs12_friendlyname, compatible=pkcs12_encryption_compat,
    )  # fmt: skip
    if path is None:
        return _shown(data, encoding, raw=raw)
    return _put(path, data, "PEM" if encoding == "pem" else "Certificate", secret=encoding == "pkcs12")


def create_csr(
    private_key: str, private_key_passphrase: str | None = None, digest: str = "sha256", encoding: str = "pem",
    path: str | None = None, raw: bool = False, **kwargs: Any,
) -> str | bytes:  # fmt: skip
    """Create a certificate request for a private key, and return it or write it to ``path``.

    ``subject`` and extensions are given as to ``create_certificate``. ``encoding`` is ``pem`` or ``der``.

    CLI Example: ``saltlite '*' x509.create_csr /etc/pki/web.key CN=web.example.org path=/etc/pki/web.csr``
    """
    from . import extension_syntax, signing

    _check_encoding(encoding, ("der", "pem"))
    details = _short_names(kwargs)
    digest = _checked_digest(details.pop("digest", digest))
    subject = details.pop("subject", None)
    _refuse_unknown(details, _detail_names())
    ignored = [name for name in extension_syntax.OF_CERTIFICATES if name in details]
    ignored = [name for name in ignored if name not in extension_syntax.OF_REQUESTS]
    if ignored:
        note(f"Not part of a request, and ignored: {', '.join(ignored)}.")
    key = load_private_key(private_key, private_key_passphrase)
    data = _der_or_pem(signing.request(details, key=key, digest=digest, subject=subject), encoding)
    if path is None:
        return _shown(data, encoding, raw=raw)
    return _put(path, data, "PEM" if encoding == "pem" else "CSR")


def create_crl(  # noqa: PLR0913, PLR0917 - Salt's signature
    signing_private_key: str, revoked: list[Any], signing_cert: str | None = None,
    signing_private_key_passphrase: str | None = None, include_expired: bool = False, days_valid: float | None = None,
    digest: str = "sha256", encoding: str = "pem", extensions: dict[str, Any] | None = None, path: str | None = None,
    raw: bool = False, **kwargs: Any,
) -> str | bytes:  # fmt: skip
    """Create a revocation list, and return it or write it to ``path``.

    ``revoked`` is a list of maps with ``certificate`` or ``serial_number``, and at will ``revocation_date``,
    ``not_after`` (``2026-01-31 12:00:00``, UTC) and ``extensions`` (``CRLReason``, ``invalidityDate``,
    ``certificateIssuer``). Expired certificates are omitted without ``include_expired``. ``extensions`` of the list are
    ``authorityKeyIdentifier authorityInfoAccess cRLNumber deltaCRLIndicator freshestCRL issuerAltName
    issuingDistributionPoint``. It is valid for ``days_valid`` (100) days.

    CLI Example::

        saltlite '*' x509.create_crl /etc/pki/ca.key '[{certificate: /etc/pki/www.crt}]' signing_cert=/etc/pki/ca.crt
    """
    from . import signing

    _check_encoding(encoding, ("der", "pem"))
    _refuse_unknown(_short_names(kwargs))
    digest = _checked_digest(digest)
    made = signing.revocation_list(
        [_revocation(each) for each in revoked] if isinstance(revoked, list | tuple) else revoked,
        key=load_private_key(signing_private_key, signing_private_key_passphrase), signing_cert=signing_cert,
        include_expired=include_expired, days_valid=days_valid, digest=digest, extensions=extensions,
    )  # fmt: skip
    data = _der_or_pem(made, encoding)
    if path is None:
        return _shown(data, encoding, raw=raw)
    return _put(path, data, "PEM" if encoding == "pem" else "CRL")


def encode_private_key(
    private_key: str, encoding: str = "pem", passphrase: str | None = None, private_key_passphrase: str | None = None,
    pkcs12_encryption_compat: bool = False, raw: bool = False,
) -> str | bytes:  # fmt: skip
    """Return a private key in another encoding, or with another passphrase: ``pem``, ``der`` or ``pkcs12``.

    ``private_key_passphrase`` opens it, ``passphrase`` encrypts what is returned.

    CLI Example: ``saltlite '*' x509.encode_private_key /etc/pki/web.key der``
    """
    _check_encoding(encoding, ("der", "pem", "pkcs12"))
    key = load_private_key(private_key, private_key_passphrase)
    return _shown(_private_key_bytes(key, encoding, passphrase, compatible=pkcs12_encryption_compat), encoding, raw=raw)


def encode_certificate(  # noqa: PLR0913, PLR0917 - Salt's signature
    certificate: str, encoding: str = "pem", append_certs: list[str] | str | None = None,
    private_key: str | None = None, private_key_passphrase: str | None = None, pkcs12_passphrase: str | None = None,
    pkcs12_encryption_compat: bool = False, pkcs12_friendlyname: str | None = None, raw: bool = False,
) -> str | bytes:  # fmt: skip
    """Return a certificate in another encoding, or with more certificates.

    ``encoding`` is ``pem``, ``der``, ``pkcs7_pem``, ``pkcs7_der`` or ``pkcs12`` (with the private key).

    CLI Example: ``saltlite '*' x509.encode_certificate /etc/pki/web.crt pem append_certs=/etc/pki/ca.crt``
    """
    _check_encoding(encoding, _CERTIFICATE_ENCODINGS)
    if encoding == "der" and append_certs:
        raise SaltInvocationError("DER holds one certificate: append_certs needs another encoding.")
    if encoding != "pkcs12" and private_key:
        raise SaltInvocationError("Only PKCS #12 holds a private key beside the certificate.")
    if encoding == "pkcs12" and not private_key:
        raise SaltInvocationError("PKCS #12 holds a certificate with its key: private_key is missing.")
    data = _certificate_bytes(
        load_certificate(certificate), encoding, _certificates(append_certs),
        load_private_key(private_key, private_key_passphrase) if private_key else None,
        pkcs12_passphrase, pkcs12_friendlyname, compatible=pkcs12_encryption_compat,
    )  # fmt: skip
    return _shown(data, encoding, raw=raw)


def encode_csr(csr: str, encoding: str = "pem", raw: bool = False) -> str | bytes:
    """Return a certificate request as ``pem`` or ``der``.

    CLI Example: ``saltlite '*' x509.encode_csr /etc/pki/web.csr der``
    """
    _check_encoding(encoding, ("der", "pem"))
    return _shown(_der_or_pem(load_request(csr), encoding), encoding, raw=raw)


def encode_crl(crl: str, encoding: str = "pem", raw: bool = False) -> str | bytes:
    """Return a revocation list as ``pem`` or ``der``.

    CLI Example: ``saltlite '*' x509.encode_crl /etc/pki/ca.crl der``
    """
    _check_encoding(encoding, ("der", "pem"))
    return _shown(_der_or_pem(load_crl(crl), encoding), encoding, raw=raw)


def write_pem(text: str, path: str, overwrite: bool = True, pem_type: str | None = None) -> str:
    """Write the first PEM entry of a text or file, or the first of a type, reformatted, to a file.

    A new file has the mode 0600. With ``overwrite=False`` and the type ``CERTIFICATE``, private keys and DH parameters
    in the file are kept.

    CLI Example: ``saltlite '*' x509.write_pem /etc/pki/all.pem /etc/pki/web.crt pem_type=CERTIFICATE``
    """
    found = next((each for each in entries(content(text)) if pem_type in {None, each[0]}), None)
    if found is None:
        raise SaltInvocationError(f"It contains no PEM entry{f' of type {pem_type}' if pem_type else ''}.")
    kept: list[tuple[str, bytes]] = []
    place = checked_path(path)
    if pem_type == "CERTIFICATE" and not overwrite and regular(place) is not None:
        kept = list(entries(read_whole(place)))
    keys = [entry for kind, entry in kept if kind.endswith("PRIVATE KEY")]
    parameters = [entry for kind, entry in kept if kind == "DH PARAMETERS"]
    secret = bool(keys) or found[0].endswith("PRIVATE KEY")
    return _put(path, b"".join([*keys, found[1], *parameters]), "PEM", secret=secret)


def get_signing_policy(signing_policy: str, ca_server: str | None = None) -> dict[str, Any]:
    """Return a signing policy of this minion, without its private key and passphrase.

    Policies are maps under ``x509_signing_policies`` in the pillar, the minion's configuration or the grains.
    ``ca_server`` asks another minion for its own, as ``create_certificate`` does.

    CLI Example: ``saltlite '*' x509.get_signing_policy www``
    """
    if ca_server is not None:
        return _short_names(remote.asked(ca_server, signing_policy, {}, only_policy=True))
    policy = _short_names(_policy(signing_policy))
    return {
        name: value
        for name, value in policy.items()
        if name not in {"signing_private_key", "signing_private_key_passphrase"}
    }


def sign_remote_certificate(
    signing_policy: str, kwargs: dict[str, Any], get_signing_policy_only: bool = False, **more_kwargs: Any
) -> dict[str, Any]:
    """Sign a certificate for another minion, which calls this by ``x509.create_certificate ca_server=``. Returns a map
    of ``data``, the certificate, and ``errors``.

    ``kwargs`` are arguments of ``create_certificate``; files and keys are those of the policy. With
    ``get_signing_policy_only`` the policy is returned, without its private key.

    CLI Example: ``saltlite ca1 x509.sign_remote_certificate www '{}' get_signing_policy_only=True``
    """

    def sign(details: dict[str, Any]) -> str:
        details = _with_policy(_short_names(details), signing_policy)
        if not (details.get("signing_private_key") and details.get("signing_cert")):
            raise SaltInvocationError("The policy of an authority needs signing_private_key and signing_cert.")
        copies = details.pop("copypath", None), details.pop("prepend_cn", False)
        cert, _key = _made(details)
        remote.check_issued(cert, policy)
        _copy(cert, *copies)
        return _der_or_pem(cert, "pem").decode()

    user = str(more_kwargs.get("__pub_user", ""))
    policy = _short_names(_policy(signing_policy))
    return remote.answered(policy, kwargs, user, sign, only_policy=get_signing_policy_only is True)


# --- Arguments ---


def _check_encoding(encoding: str, known: Iterable[str]) -> None:
    if encoding not in known:
        raise CommandExecutionError(f"There is no encoding {encoding!r:.40} here, only {', '.join(known)}.")


def _checked_digest(digest: Any) -> str:
    name = "sha256" if digest is None else str(digest).lower()
    if name not in DIGESTS:
        raise CommandExecutionError(f"There is no digest {digest!r:.40}, only {', '.join(DIGESTS)}.")
    return name


def _short_names(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with the names of today, without those that have no effect any more and those of Salt's own."""
    found = {}
    for name, value in given.items():
        if name in _FORMER:
            note(f"The argument {name} has no effect.")
        elif name in _LONG_NAMES:
            note(f"{name} is deprecated: write {_LONG_NAMES[name]}.")
            found[_LONG_NAMES[name]] = value
        elif not name.startswith("_"):
            found[name] = value
    return found


def _detail_names() -> set[str]:
    from . import extension_syntax
    from .extensions import ATTRIBUTES

    return {*ATTRIBUTES, *extension_syntax.OF_CERTIFICATES}


def _refuse_unknown(given: Mapping[str, Any], known: Iterable[str] = ()) -> None:
    unknown = sorted(set(given).difference(known))
    if {"nsComment", "nsCertType"}.intersection(unknown):
        raise SaltInvocationError("The extensions nsComment and nsCertType are not supported.")
    if unknown:
        raise SaltInvocationError(f"Unknown arguments: {', '.join(unknown)}.")


def _known(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a certificate has. The others are noted: as in Salt, an authority does not refuse them."""
    names = {*_detail_names(), *_SIGNING, "digest"}
    if unknown := sorted(set(given).difference(names)):
        note(f"{', '.join(unknown)} was ignored: certificates have no such arguments.")
    return {name: value for name, value in given.items() if name in names}


def _revocation(given: Any) -> Any:
    """Return an item of `revoked` in the form of today: `{name: [{serial_number: …}, {reason: …}]}` is the former."""
    if not isinstance(given, Mapping):
        return given
    first = next(iter(given.values()), None)
    if len(given) == 1 and isinstance(first, list) and all(isinstance(each, Mapping) for each in first):
        note("Items of revoked are deprecated as lists of maps: write one map for each.")
        given = {name: value for each in first for name, value in each.items()}
    if "reason" not in given:
        return given
    note("reason is deprecated in revoked: write CRLReason under extensions.")
    rest = {name: value for name, value in given.items() if name != "reason"}
    return {**rest, "extensions": {**(given.get("extensions") or {}), "CRLReason": given["reason"]}}


def _policy(name: str | None) -> dict[str, Any]:
    """Return a signing policy, a map or a list of maps; empty if there is none of this name."""
    if name is None:
        return {}
    found = None
    for policies in (__pillar__.get("x509_signing_policies"), __salt__["config.get"]("x509_signing_policies", {})):
        found = found or (policies.get(name) if isinstance(policies, Mapping) else None)
    if isinstance(found, list):
        found = {key: value for each in found if isinstance(each, Mapping) for key, value in each.items()}
    return copy.deepcopy(dict(found)) if isinstance(found, Mapping) else {}


def _with_policy(given: dict[str, Any], name: str | None) -> dict[str, Any]:
    """Return the arguments with those of the signing policy in their place.

    A policy with attributes of the subject excludes `subject` of the caller. Two maps or two lists of `subject` are
    merged, with those of the policy first.
    """
    policy = _short_names(_policy(name))
    if name is not None and not policy:
        raise SaltInvocationError(f"There is no signing policy {name!r:.80}.")
    policy.pop("minions", None)
    mine, theirs = given.get("subject"), policy.get("subject")
    from .extensions import ATTRIBUTES

    if any(attribute in policy for attribute in ATTRIBUTES):
        given.pop("subject", None)
    elif isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        policy["subject"] = {**mine, **theirs}
    elif isinstance(mine, list) and isinstance(theirs, list):
        policy["subject"] = [*theirs, *mine]
    return {**given, **policy}


def _signed(details: dict[str, Any], arguments: dict[str, Any], digest: str) -> tuple[Any, Any]:
    from . import signing

    _refuse_unknown(details, _detail_names())
    return signing.certificate(details, digest=digest, **arguments)


def _made(details: dict[str, Any]) -> tuple[Any, Any]:
    """A certificate that a key of this minion signs, and its private key if that is known; with its copy."""
    digest = _checked_digest(details.pop("digest", None))
    copies = details.pop("copypath", None), details.pop("prepend_cn", False)
    arguments = {name: details.pop(name) for name in _SIGNING if name in details}
    cert, key = _signed(details, arguments, digest)
    _copy(cert, *copies)
    return cert, key


def _copy(cert: Any, folder: str | None, with_name: bool) -> None:
    if folder:
        _put(os.path.join(folder, _copy_name(cert, with_name)), _der_or_pem(cert, "pem"), "PEM")


def _certificates(given: list[str] | str | None) -> list[Any]:
    listed = [] if not given else given if isinstance(given, list) else [given]
    return [load_certificate(each) for each in listed]


def _copy_name(cert: Any, with_name: bool) -> str:
    """Return the name of the copy's file. Raises SaltInvocationError if the common name would lead elsewhere."""
    from .extensions import name

    common = str(name(cert.subject).get("CN", "")) if with_name else ""
    if "/" in common or "\0" in common:
        raise SaltInvocationError("prepend_cn needs a common name without slashes.")
    return f"{common}{'-' if common else ''}{cert.serial_number:x}.crt"


# --- Encodings ---


def _der_or_pem(made: Any, encoding: str) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    data: bytes = made.public_bytes(Encoding.PEM if encoding == "pem" else Encoding.DER)
    return data


def _private_key_bytes(key: Any, encoding: str, passphrase: Any, *, compatible: bool) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat, pkcs12

    lock = _encryption(passphrase, compatible=compatible and encoding == "pkcs12")
    if encoding == "pkcs12":
        return pkcs12.serialize_key_and_certificates(None, key, None, None, lock)
    data: bytes = key.private_bytes(Encoding.PEM if encoding == "pem" else Encoding.DER, PrivateFormat.PKCS8, lock)
    return data


def _certificate_bytes(
    cert: Any, encoding: str, more: list[Any], key: Any, passphrase: Any, friendly: str | None, *, compatible: bool
) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs7, pkcs12

    if encoding == "pkcs12":
        name = str(friendly).encode() if friendly else None
        return pkcs12.serialize_key_and_certificates(
            name, key, cert, more or None, _encryption(passphrase, compatible=compatible)
        )
    if encoding.startswith("pkcs7"):
        return pkcs7.serialize_certificates([cert, *more], Encoding.PEM if encoding == "pkcs7_pem" else Encoding.DER)
    return b"\n".join(_der_or_pem(each, encoding) for each in (cert, *more))


def _encryption(passphrase: Any, *, compatible: bool) -> Any:
    """Return how a private key is encrypted. Raises SaltInvocationError for an empty passphrase."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    secret = secret_bytes(passphrase)
    if secret is None:
        return NoEncryption()
    if not secret:
        raise SaltInvocationError("The passphrase is empty: leave it out for a key without one.")
    if not compatible:
        return BestAvailableEncryption(secret)
    return (
        PrivateFormat.PKCS12.encryption_builder()
        .kdf_rounds(50_000)
        .key_cert_algorithm(pkcs12.PBES.PBESv1SHA1And3KeyTripleDESCBC)
        .hmac_hash(hashes.SHA1())  # noqa: S303 - old systems read no other
        .build(secret)
    )


def _shown(data: bytes, encoding: str, *, raw: bool) -> str | bytes:
    """Return what the caller gets: PEM as text, other encodings in base64, or the bytes with `raw`."""
    if raw:
        return data
    return data.decode() if encoding in {"pem", "pkcs7_pem"} else base64.b64encode(data).decode()


def _put(path: str, data: bytes, what: str, *, secret: bool = False) -> str:
    """Write a file, and return a sentence about it.

    New PEM files and new files with a secret have the mode 0600. From an existing file that gets a secret, the
    permissions of all others are taken.
    """
    place = checked_path(path)
    access = None
    if secret:
        old = regular(place)
        access = Access(mode=0o600 if old is None else stat.S_IMODE(old.st_mode) & ~0o007)
    write_whole(place, data, access=access, new_mode=0o600 if what == "PEM" else None)
    return f"{what} written to {path}"
