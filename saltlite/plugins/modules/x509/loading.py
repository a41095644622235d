"""Input of the module: certificates, requests, revocation lists and keys, from a file or from their content.

`cryptography` is imported when it is needed (40 ms).
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

if TYPE_CHECKING:
    from cryptography import x509

FILE_BYTES_MAX = 16 * 1024 * 1024
"""Maximum file size; the largest revocation lists have a few MiB."""

_ENTRY = re.compile(
    rb"-----BEGIN (?P<kind>[0-9A-Z ]+)-----\s++"
    rb"(?P<headers>(?:[A-Za-z-]++: [^\r\n]*+\r?\n)*+)"
    rb"(?P<body>[A-Za-z0-9+/=\s]++)-----END (?P=kind)-----"
)
"""The quantifiers are possessive, so that a hostile file cannot cause quadratic time."""


def content(given: Any) -> bytes:
    """Return the bytes of a file or of the given content. Raises SaltInvocationError and CommandExecutionError."""
    if isinstance(given, bytes):
        return given
    text = str(given)
    if "-----BEGIN" in text:
        return text.replace("\\n", "\n").encode()
    if "\0" not in text and os.path.isfile(text):
        return _file(text)
    try:
        if text.startswith("b64:"):
            return base64.b64decode(text[4:], validate=True)
        return bytes.fromhex(text) or base64.b64decode(text, validate=True)
    except ValueError:
        pass
    try:
        if len(text) > 64:
            return base64.b64decode("".join(text.split()), validate=True)
    except binascii.Error:
        pass
    # A longer text can be a damaged private key, which must not appear in a message.
    named = repr(text) if len(text) <= 80 else f"A text of {len(text)} characters"
    raise SaltInvocationError(
        f"{named} is neither a file on this minion nor PEM, nor hexadecimal digits or base64 of anything."
    )


def _file(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be read: {error.strerror}.") from error
    if len(data) > FILE_BYTES_MAX:
        raise CommandExecutionError(
            f"{path} has more than {FILE_BYTES_MAX} bytes, which is too large for a certificate."
        )
    return data


def entries(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Iterate over the PEM entries: kind and text, with lines of 64 characters."""
    # The input may be a single line.
    spread = re.sub(rb"(-----(?:BEGIN|END) [0-9A-Z ]+-----)", rb"\n\1\n", data)
    for match in _ENTRY.finditer(spread):
        body = b"".join(match["body"].split())
        headers = match["headers"] and match["headers"].replace(b"\r\n", b"\n") + b"\n"
        lines = b"".join(body[at : at + 64] + b"\n" for at in range(0, len(body), 64))
        kind = match["kind"]
        yield kind.decode(), b"-----BEGIN %b-----\n%b%b-----END %b-----\n" % (kind, headers, lines, kind)


def load_certificate(given: Any, passphrase: str | None = None) -> x509.Certificate:
    """Load a certificate, also the first of a PKCS #7 or PKCS #12 container. Raises SaltInvocationError."""
    from cryptography import x509

    def pem(entry: bytes) -> x509.Certificate:
        if not entry.startswith(b"-----BEGIN PKCS7"):
            return x509.load_pem_x509_certificate(entry)
        from cryptography.hazmat.primitives.serialization import pkcs7

        return pkcs7.load_pem_pkcs7_certificates(entry)[0]

    def der(data: bytes) -> x509.Certificate:
        try:
            return x509.load_der_x509_certificate(data)
        except ValueError:
            found = _contained_certificate(data, passphrase)
            if found is None:
                raise
            return found

    found: x509.Certificate = _loaded(
        given, "certificate", ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE", "PKCS7"), pem, der
    )
    return found


def _contained_certificate(data: bytes, passphrase: str | None) -> x509.Certificate | None:
    """Return the first certificate of a container in DER, or None if the bytes are no container."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import pkcs7, pkcs12

    with contextlib.suppress(ValueError, UnsupportedAlgorithm):
        opened = pkcs12.load_pkcs12(data, secret_bytes(passphrase))
        if opened.cert is not None:
            return opened.cert.certificate
    with contextlib.suppress(ValueError, UnsupportedAlgorithm):
        return next(iter(pkcs7.load_der_pkcs7_certificates(data)), None)
    return None


def secret_bytes(passphrase: Any) -> bytes | None:
    """Return a passphrase as the bytes that `cryptography` needs; numbers, which the command line makes, as text."""
    if passphrase is None or isinstance(passphrase, bytes):
        return passphrase
    return str(passphrase).encode()


def load_request(given: Any) -> x509.CertificateSigningRequest:
    """Load a certificate request. Raises SaltInvocationError."""
    from cryptography import x509

    kinds = ("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST")
    pem, der = x509.load_pem_x509_csr, x509.load_der_x509_csr
    found: x509.CertificateSigningRequest = _loaded(given, "certificate request", kinds, pem, der)
    return found


def load_crl(given: Any) -> x509.CertificateRevocationList:
    """Load a revocation list. Raises SaltInvocationError."""
    from cryptography import x509

    pem, der = x509.load_pem_x509_crl, x509.load_der_x509_crl
    found: x509.CertificateRevocationList = _loaded(given, "revocation list", ("X509 CRL",), pem, der)
    return found


def load_private_key(given: Any, passphrase: str | None = None) -> Any:
    """Load a private key, also that of a PKCS #12 container.

    Raises SaltInvocationError, or CommandExecutionError if a passphrase is missing or superfluous.
    """
    from cryptography.hazmat.primitives import serialization

    secret = secret_bytes(passphrase)

    def load(how: Callable[..., Any], data: bytes) -> Any:
        try:
            return how(data, secret)
        except TypeError as error:
            wants = "has a passphrase, and none" if passphrase is None else "has no passphrase, but one"
            raise CommandExecutionError(f"The private key {wants} was given.") from error

    def der(data: bytes) -> Any:
        try:
            return load(serialization.load_der_private_key, data)
        except ValueError:
            from cryptography.hazmat.primitives.serialization import pkcs12

            with contextlib.suppress(ValueError):
                key = pkcs12.load_pkcs12(data, secret).key
                if key is not None:
                    return key
            raise

    return _loaded(given, "private key", ("PRIVATE KEY",), partial(load, serialization.load_pem_private_key), der)


def load_public_key(given: Any, passphrase: str | None = None) -> Any:
    """Load a public key, or take it from a certificate, a request or a private key.

    Raises CommandExecutionError.
    """
    from cryptography.hazmat.primitives import serialization

    data = content(given)
    kinds = {kind for kind, _entry in entries(data)}
    if any(kind.endswith("PRIVATE KEY") for kind in kinds):
        return load_private_key(data, passphrase).public_key()
    ways: list[Callable[[], Any]] = [
        lambda: _loaded(
            data, "public key", ("PUBLIC KEY",), serialization.load_pem_public_key, serialization.load_der_public_key
        ),
        lambda: load_certificate(data, passphrase).public_key(),
        lambda: load_private_key(data, passphrase).public_key(),
        lambda: load_request(data).public_key(),
    ]
    for way in ways:
        try:
            return way()
        except SaltInvocationError:
            continue
    raise CommandExecutionError("Could not load key as certificate, public key, private key or CSR")


def _loaded(
    given: Any, what: str, kinds: tuple[str, ...], pem: Callable[[bytes], Any], der: Callable[[bytes], Any]
) -> Any:
    """Load the first PEM entry of these kinds, or DER bytes."""
    from cryptography.exceptions import UnsupportedAlgorithm

    data = content(given)
    found = list(entries(data))
    mine = next((entry for kind, entry in found if kind in kinds or kind.endswith(" " + kinds[0])), None)
    if found and mine is None:
        others = ", ".join(sorted({kind.lower() for kind, _entry in found}))
        raise SaltInvocationError(f"A {what} is needed, and this is a {others}.")
    try:
        return der(data) if mine is None else pem(mine)
    except (ValueError, UnsupportedAlgorithm) as error:
        reason = str(error).split(". ")[0].rstrip(".")[:200]
        raise SaltInvocationError(f"This is not a readable {what}: {reason}.") from error
