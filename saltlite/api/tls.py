"""The certificate of the API: the configured one, or one that it makes for itself."""

from __future__ import annotations

import datetime
import ipaddress
import os
import socket
import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from saltlite.config.api import ApiConfig
from saltlite.platform.privileges import private_dir, read_secret, write_secret
from saltlite.platform.tls_files import OWN_FILE, read_tls

LASTS = datetime.timedelta(days=3650)
"""Callers pin its fingerprint, so it is not renewed."""


def context_of(config: ApiConfig) -> tuple[ssl.SSLContext, str]:
    """What connections are wrapped with, and the SHA-256 fingerprint of the certificate, as `AB:CD:…`.

    Called before root's rights are given up: the key stays root's. Raises StartupError.
    """
    certificate, key = config.ssl_crt, config.ssl_key
    if not certificate:
        certificate, key = _own(config.pki_dir), ""
    context, first = read_tls(certificate, key)
    # Tickets cost memory for each connection, and 1,000 of them may be open.
    context.num_tickets = 1
    return context, first.fingerprint(hashes.SHA256()).hex(":").upper()


def _own(folder: str) -> str:
    private_dir(folder, os.geteuid(), os.getegid())
    path = os.path.join(folder, OWN_FILE)
    if read_secret(path) is None:
        write_secret(path, self_signed(socket.gethostname(), datetime.datetime.now(datetime.UTC)))
    return path


def self_signed(host: str, now: datetime.datetime) -> bytes:
    """A new key and its certificate for this host and for loopback, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64] or "localhost")])
    names: list[x509.GeneralName] = [
        x509.DNSName(one) for one in dict.fromkeys((host, "localhost")) if one.isascii() and one
    ]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + LASTS)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
