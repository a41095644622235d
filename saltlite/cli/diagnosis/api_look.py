"""Looking at the API of this machine: its configuration, its certificate, its port, the socket of its master."""

from __future__ import annotations

import os
import socket
import ssl

from cryptography.hazmat.primitives import hashes

from saltlite.cli.diagnosis import look
from saltlite.cli.diagnosis.evidence import ApiEvidence, TlsSeen
from saltlite.config.api import ApiConfig
from saltlite.config.load import load_api
from saltlite.config.paths import master_socket
from saltlite.errors import ConfigError, StartupError
from saltlite.platform.tls_files import OWN_FILE, read_tls

CONNECT_S = 5.0
"""How long the port, and the socket of the master, may take to answer."""

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - nothing listens here


def look_at_api(config_dir: str) -> ApiEvidence:
    """Everything that the checks of an API want to know. Raises nothing that could have been foreseen."""
    try:
        config = load_api(config_dir).config
    except ConfigError as error:
        around = look.around("api", config_dir, None, {}, str(error).split("\n"))
        return ApiEvidence(around, None, None, "", "", "", "")
    host = _ANY.get(config.interface, config.interface)
    served, port_problem = _port(host, config)
    return ApiEvidence(
        around=look.around("api", config_dir, config, _paths(config), []),
        config=config,
        tls=None if config.disable_ssl else _tls(config),
        address=f"[{host}]:{config.port}" if ":" in host else f"{host}:{config.port}",
        port_problem=port_problem,
        served=served,
        master_problem=_master(master_socket(config.sock_dir)),
    )


def _paths(config: ApiConfig) -> dict[str, str]:
    if config.disable_ssl:
        return {}
    if config.ssl_crt:
        return {"ssl_crt": config.ssl_crt, "ssl_key": config.ssl_key or config.ssl_crt}
    return {"pki_dir": config.pki_dir, f"pki_dir/{OWN_FILE}": os.path.join(config.pki_dir, OWN_FILE)}


def _tls(config: ApiConfig) -> TlsSeen | None:
    """The certificate as the API will read it; it makes one where none is configured."""
    certificate, key = config.ssl_crt, config.ssl_key
    if not certificate:
        certificate, key = os.path.join(config.pki_dir, OWN_FILE), ""
        if not os.path.lexists(certificate):
            return None
    readable = all(os.access(path, os.R_OK) or not os.path.exists(path) for path in (certificate, key or certificate))
    try:
        _context, found = read_tls(certificate, key)
    except StartupError as error:
        return TlsSeen(certificate, key or certificate, str(error) if readable else "", None, None, "")
    return TlsSeen(
        certificate,
        key or certificate,
        "",
        int(found.not_valid_before_utc.timestamp()),
        int(found.not_valid_after_utc.timestamp()),
        found.fingerprint(hashes.SHA256()).hex(),
    )


def _port(host: str, config: ApiConfig) -> tuple[str, str]:
    """The fingerprint of the certificate that answers, and why nothing does."""
    try:
        with socket.create_connection((host, config.port), CONNECT_S) as plain:
            if config.disable_ssl:
                return "", ""
            with _any_certificate().wrap_socket(plain) as secured:
                return _fingerprint(secured.getpeercert(binary_form=True) or b""), ""
    except OSError as error:
        return "", str(getattr(error, "reason", None) or error.strerror or error)


def _any_certificate() -> ssl.SSLContext:
    """A client that believes every certificate: which one it is, is what is asked. Nothing secret is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _fingerprint(certificate: bytes) -> str:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(certificate)
    return digest.finalize().hex()


def _master(where: str) -> str:
    """Why the socket of the master does not answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(CONNECT_S)
            line.connect(where)
    except OSError as error:
        return f"{where}: {error.strerror or error}"
    return ""
