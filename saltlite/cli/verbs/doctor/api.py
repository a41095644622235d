"""`doctor` for the API: collect evidence from its configuration, certificate and sockets, and check it."""

from __future__ import annotations

import os
import shlex
import socket
import ssl
from collections.abc import Callable, Iterator

from cryptography.hazmat.primitives import hashes

from saltlite.cli.options import format_duration
from saltlite.cli.verbs.doctor import checks
from saltlite.cli.verbs.doctor.checks import Finding, ok, problem, warning
from saltlite.cli.verbs.doctor.host import ApiEvidence, PathSeen, Sort, TlsSeen, look_around
from saltlite.config.api import ApiConfig
from saltlite.config.load import load_api
from saltlite.config.paths import master_socket
from saltlite.errors import ConfigError, StartupError
from saltlite.model.masters import format_address
from saltlite.platform.tls_files import OWN_FILE, read_tls

CONNECT_S = 5.0
"""How long the port, and the master's socket, may take to answer."""

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - nothing listens here


def look_at_api(config_dir: str) -> ApiEvidence:
    """The evidence for the checks of an API. Foreseeable errors become evidence."""
    try:
        config = load_api(config_dir).config
    except ConfigError as error:
        around = look_around("api", config_dir, None, {}, str(error).split("\n"))
        return ApiEvidence(around, None, None, "", "", "", "")
    host = _ANY.get(config.interface, config.interface)
    served, port_problem = _port(host, config)
    return ApiEvidence(
        around=look_around("api", config_dir, config, _paths(config), []),
        config=config,
        tls=None if config.disable_ssl else _tls(config),
        address=format_address(host, config.port),
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
    """The certificate as the API will read it; the API makes one where none is configured."""
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
    """The fingerprint of the certificate on the port, and why there is none."""
    try:
        with socket.create_connection((host, config.port), CONNECT_S) as plain:
            if config.disable_ssl:
                return "", ""
            with _any_certificate().wrap_socket(plain) as secured:
                return _fingerprint(secured.getpeercert(binary_form=True) or b""), ""
    except OSError as error:
        return "", str(getattr(error, "reason", None) or error.strerror or error)


def _any_certificate() -> ssl.SSLContext:
    """A client context that accepts every certificate, because only its fingerprint is wanted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _fingerprint(certificate: bytes) -> str:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(certificate)
    return digest.finalize().hex()


def _master(where: str) -> str:
    """Why the master's socket does not answer."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(CONNECT_S)
            connection.connect(where)
    except OSError as error:
        return f"{where}: {error.strerror or error}"
    return ""


LOOPBACK = ("127.", "::1", "localhost")
"""Prefixes of addresses that only this machine reaches."""

_RESTART = "saltlite-api"


def _check_config(seen: ApiEvidence) -> Iterator[Finding]:
    yield from checks.check_configuration(seen.around)
    yield from checks.check_user(seen.around)
    yield from checks.check_rights(seen.around)


def _check_running(seen: ApiEvidence) -> Iterator[Finding]:
    pid = seen.around.pid
    if not seen.port_problem:
        yield ok("api", f"it answers on {seen.address}" + (f" (pid {pid})" if pid is not None else ""))
    elif pid is None:
        yield problem("api", "the API does not run here", checks.start(seen.around, "saltlite-api"))
    else:
        yield problem(
            "api", f"it runs (pid {pid}), and does not answer on {seen.address}: {seen.port_problem}", "ss -ltnp"
        )
    yield from checks.check_unit(seen.around, runs=pid is not None)


def _check_master(seen: ApiEvidence) -> Iterator[Finding]:
    if seen.master_problem:
        yield problem("master", f"requests are answered 503: the master does not answer on {seen.master_problem}")
    else:
        yield ok("master", "its socket can be reached")


def _check_plain(seen: ApiEvidence) -> Iterator[Finding]:
    if seen.config is None or not seen.config.disable_ssl:
        return
    if seen.config.interface.startswith(LOOPBACK):
        yield ok("tls", "disable_ssl: only this machine reaches the port, and a proxy here has to bring TLS")
    else:
        yield problem(
            "tls",
            f"disable_ssl: passwords and tokens cross the network unencrypted, on {seen.config.interface}; set "
            "`interface: 127.0.0.1` behind a proxy, or remove disable_ssl",
        )


def _check_files(seen: ApiEvidence) -> Iterator[Finding]:
    """Whether the files of TLS exist, are private, and can be used."""
    if seen.config is None or seen.config.disable_ssl:
        return
    if not seen.config.ssl_crt:
        yield from _own_file(seen)
    for name in ("ssl_crt", "ssl_key"):
        found = seen.around.paths.get(name)
        if found is not None and found.sort is Sort.MISSING and (name == "ssl_crt" or seen.config.ssl_key):
            yield problem("tls", f"'{name}' names {found.path}, which does not exist: the API cannot start")
            return
    key = seen.around.paths.get("ssl_key")
    if key is not None:
        yield from _key_file(key)
    if seen.tls is not None and seen.tls.problem:
        yield problem("tls", f"{seen.tls.problem}: the API cannot start with it")


def _own_file(seen: ApiEvidence) -> Iterator[Finding]:
    yield from checks.check_secrets(seen.around, "pki_dir", (OWN_FILE,))
    if seen.around.paths[f"pki_dir/{OWN_FILE}"].sort is Sort.MISSING:
        yield warning("tls", "there is no certificate yet: the API makes one when it starts")


def _key_file(key: PathSeen) -> Iterator[Finding]:
    if key.sort is Sort.FILE and key.mode & checks.OTHERS:
        yield problem(
            "tls",
            f"others may read the private key in {key.path} (mode {key.mode:04o}); make it private, and replace it "
            "if someone may have read it",
            f"chmod 600 {shlex.quote(key.path)}",
        )


def _check_certificate(seen: ApiEvidence) -> Iterator[Finding]:
    """Whether callers accept the certificate, and whether the one in the file is served."""
    tls = seen.tls
    if tls is None or tls.not_before is None or tls.not_after is None:
        return
    left = tls.not_after - seen.around.now
    if seen.around.now < tls.not_before:
        wait = format_duration(tls.not_before - seen.around.now)
        yield problem(
            "tls", f"{tls.certificate} is not valid for another {wait}: it, or this machine's clock, is wrong"
        )
    elif left < 0:
        yield problem("tls", f"{tls.certificate} expired {format_duration(-left)} ago: callers refuse it")
    elif left < checks.CERTIFICATE_LOW_S:
        yield warning("tls", f"{tls.certificate} expires in {format_duration(left)}")
    else:
        yield ok("tls", f"{tls.certificate} and its key fit and are valid for another {format_duration(left)}")
    if seen.served and seen.served != tls.fingerprint:
        yield warning(
            "tls",
            f"what answers on {seen.address} has another certificate than {tls.certificate}: it was renewed since the "
            "API started, or something else has the port",
            checks.start(seen.around, _RESTART),
        )


def _check_machine(seen: ApiEvidence) -> Iterator[Finding]:
    yield from checks.check_disks(seen.around)
    yield from checks.check_clock(seen.around)


CHECKS: tuple[Callable[[ApiEvidence], Iterator[Finding]], ...] = (
    _check_config,
    _check_running,
    _check_master,
    _check_plain,
    _check_files,
    _check_certificate,
    _check_machine,
)


def check_api(seen: ApiEvidence) -> list[Finding]:
    """The findings of all checks; without a valid configuration only those about it."""
    if seen.config is None:
        return list(_check_config(seen))
    return [finding for check in CHECKS for finding in check(seen)]
