"""A certificate with its private key, read from PEM files for a server."""

from __future__ import annotations

import ssl

from cryptography import x509

from saltlite.errors import StartupError

OWN_FILE = "self-signed.pem"
"""In the API's pki_dir: the key and certificate that it makes for itself where none is configured."""


def read_tls(certificate: str, key: str) -> tuple[ssl.SSLContext, x509.Certificate]:
    """What connections are wrapped with, and the first certificate of the file.

    `key` is "" where the private key is in the file of the certificate. Raises StartupError for files that cannot be
    read, hold no such thing, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key or None, password=_refuse_password)
        with open(certificate, "rb") as file:
            first = x509.load_pem_x509_certificate(file.read())
    except (OSError, ValueError) as error:
        # Of errors of OpenSSL `reason` is what a person can read, and strerror a sentence with a line of its source.
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise StartupError(f"the certificate {certificate} cannot be used: {reason}") from error
    return context, first


def _refuse_password() -> str:
    raise ValueError("its key is encrypted; a daemon has nobody to ask for the password")
