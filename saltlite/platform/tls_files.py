"""Reads the certificate and the private key of a server from PEM files."""

from __future__ import annotations

import ssl

from cryptography import x509

from saltlite.errors import StartupError

OWN_FILE = "self-signed.pem"
"""The file in the API's pki_dir with the key and certificate that it creates if none is configured."""


def read_tls(certificate: str, key: str) -> tuple[ssl.SSLContext, x509.Certificate]:
    """The context for connections, and the first certificate of the file.

    `key` is "" if the private key is in the file of the certificate. Raises StartupError for files that are unreadable
    or invalid, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key or None, password=_refuse_password)
        with open(certificate, "rb") as file:
            first = x509.load_pem_x509_certificate(file.read())
    except (OSError, ValueError) as error:
        # `reason` of an OpenSSL error is readable; its strerror names a line of source code.
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise StartupError(f"the certificate {certificate} cannot be used: {reason}") from error
    return context, first


def _refuse_password() -> str:
    raise ValueError("its key is encrypted, and a daemon cannot ask for the password")
