"""From what a caller gives to an object of `cryptography`, which is imported when it is needed: 40 ms."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError

if TYPE_CHECKING:
    from cryptography import x509

FILE_BYTES_MAX = 16 * 1024 * 1024
"""A larger file is no certificate; the largest revocation lists have a few MiB."""

_ENTRY = re.compile(
    rb"-----BEGIN (?P<kind>[0-9A-Z ]+)-----\s++"
    rb"(?P<headers>(?:[A-Za-z-]++: [^\r\n]*+\r?\n)*+)"
    rb"(?P<body>[A-Za-z0-9+/=\s]++)-----END (?P=kind)-----"
)
"""Nothing is tried twice: a file of somebody else must not take time by its length squared."""


def content(given: Any) -> bytes:
    """The bytes of a file, or those that are given. Raises SaltInvocationError for neither, CommandExecutionError."""
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
    raise SaltInvocationError(
        f"{text[:80]!r} is neither a file on this minion nor PEM, nor hexadecimal digits or base64 of anything."
    )


def _file(path: str) -> bytes:
    try:
        with open(path, "rb") as stream:
            data = stream.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise CommandExecutionError(f"{path} cannot be read: {error.strerror}.") from error
    if len(data) > FILE_BYTES_MAX:
        raise CommandExecutionError(f"{path} has more than {FILE_BYTES_MAX} bytes: that is no certificate.")
    return data


def entries(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The kind and the whole of each entry of PEM, with lines of 64 characters."""
    # Somebody may have put all of it into one line.
    spread = re.sub(rb"(-----(?:BEGIN|END) [0-9A-Z ]+-----)", rb"\n\1\n", data)
    for match in _ENTRY.finditer(spread):
        body = b"".join(match["body"].split())
        headers = match["headers"] and match["headers"].replace(b"\r\n", b"\n") + b"\n"
        lines = b"".join(body[at : at + 64] + b"\n" for at in range(0, len(body), 64))
        kind = match["kind"]
        yield kind.decode(), b"-----BEGIN %b-----\n%b%b-----END %b-----\n" % (kind, headers, lines, kind)


def certificate(given: Any) -> x509.Certificate:
    """Raises SaltInvocationError for what is none."""
    from cryptography import x509

    found: x509.Certificate = _loaded(
        given, "certificate", ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"),
        x509.load_pem_x509_certificate, x509.load_der_x509_certificate,
    )  # fmt: skip
    return found


def request(given: Any) -> x509.CertificateSigningRequest:
    """Raises SaltInvocationError for what is none."""
    from cryptography import x509

    kinds = ("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST")
    pem, der = x509.load_pem_x509_csr, x509.load_der_x509_csr
    found: x509.CertificateSigningRequest = _loaded(given, "certificate request", kinds, pem, der)
    return found


def revocations(given: Any) -> x509.CertificateRevocationList:
    """Raises SaltInvocationError for what is none."""
    from cryptography import x509

    pem, der = x509.load_pem_x509_crl, x509.load_der_x509_crl
    found: x509.CertificateRevocationList = _loaded(given, "revocation list", ("X509 CRL",), pem, der)
    return found


def private_key(given: Any, passphrase: str | None) -> Any:
    """A private key. Raises SaltInvocationError for what is none, CommandExecutionError for a wrong passphrase."""
    from cryptography.hazmat.primitives import serialization

    secret = None if passphrase is None else str(passphrase).encode()

    def load(how: Callable[..., Any], data: bytes) -> Any:
        try:
            return how(data, secret)
        except TypeError as error:
            wants = "has a passphrase, and none" if passphrase is None else "has no passphrase, but one"
            raise CommandExecutionError(f"The private key {wants} was given.") from error

    pem, der = serialization.load_pem_private_key, serialization.load_der_private_key
    return _loaded(given, "private key", ("PRIVATE KEY",), partial(load, pem), partial(load, der))


def public_key(given: Any, passphrase: str | None = None) -> Any:
    """The public key that is given, or that of a certificate, of a request or of a private key.

    Raises CommandExecutionError for what is none of them.
    """
    from cryptography.hazmat.primitives import serialization

    data = content(given)
    kinds = {kind for kind, _entry in entries(data)}
    if any(kind.endswith("PRIVATE KEY") for kind in kinds):
        return private_key(data, passphrase).public_key()
    ways: list[Callable[[], Any]] = [
        lambda: _loaded(
            data, "public key", ("PUBLIC KEY",), serialization.load_pem_public_key, serialization.load_der_public_key
        ),
        lambda: certificate(data).public_key(),
        lambda: private_key(data, passphrase).public_key(),
        lambda: request(data).public_key(),
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
    """What the first entry of these kinds is, or the bytes themselves."""
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
        raise SaltInvocationError(f"This is no {what} that can be read: {reason}.") from error
