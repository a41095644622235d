"""The API's composition root: it reads the TLS key, listens, gives up root's rights, and serves."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import logging
import os
import signal
import socket
import ssl
import sys
from collections.abc import Callable
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from saltlite.api.clients import Runners
from saltlite.api.endpoint import AppContext, NotFound
from saltlite.api.endpoints import PATHS
from saltlite.api.feeds import Feeds
from saltlite.api.link import MasterLink
from saltlite.api.web_app import web_app_paths
from saltlite.config.api import ApiConfig
from saltlite.config.paths import master_socket
from saltlite.errors import StartupError
from saltlite.limits import ConnectionLimiter
from saltlite.platform import supervision
from saltlite.platform.privileges import account_of, drop_to, private_dir, read_secret, start_log, write_secret
from saltlite.platform.process import raise_open_files
from saltlite.platform.tls_files import OWN_FILE, read_tls

log = logging.getLogger(__name__)


# -- the certificate: the configured one, or one that the API makes for itself

LASTS = datetime.timedelta(days=3650)
"""Clients pin its fingerprint, so it is not renewed."""


def context_of(config: ApiConfig) -> tuple[ssl.SSLContext, str]:
    """The TLS context, and the SHA-256 fingerprint of the certificate, as `AB:CD:…`.

    Called before root's rights are given up: the key stays root's. Raises StartupError.
    """
    certificate, key = config.ssl_crt, config.ssl_key
    if not certificate:
        certificate, key = _own(config.pki_dir), ""
    tls, first = read_tls(certificate, key)
    # Each ticket costs memory, and there may be 1,000 connections.
    tls.num_tickets = 1
    return tls, first.fingerprint(hashes.SHA256()).hex(":").upper()


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


HEADERS_MAX = 32 * 1024
"""Bytes of a request's headers."""
BACKLOG = 512
SPARE_FILES = 512
"""Descriptors for other uses than connections: the master's socket, feeds, runners."""
STOP_S = 5.0
"""How long open requests may take at the stop."""
WS_MESSAGE_MAX = 1024


class Server(HTTPServer):
    """An HTTP server that limits connections."""

    def bound(self, limiter: ConnectionLimiter[Any]) -> None:
        """Set the limiter of connections."""
        self._limiter = limiter

    def handle_stream(self, stream: Any, address: Any) -> None:
        """Called by tornado for each connection."""
        if self._limiter.add(stream, str(address[0]) if address else "").admitted:
            super().handle_stream(stream, address)
        else:
            stream.close()

    def on_close(self, server_conn: Any) -> None:
        """Called by tornado when HTTP ends on a connection."""
        super().on_close(server_conn)
        # A WebSocket is still open, and is removed when it ends.
        if server_conn.stream.closed():
            self._limiter.remove(server_conn.stream)


def run_api(config: ApiConfig, config_dir: str, on_ready: Callable[[], None] = lambda: None) -> None:
    """Serve until SIGTERM or SIGINT; `on_ready` is called when requests are answered. Raises StartupError."""
    account = account_of(config.user)
    start_log(config.log_level, config.log_file, account, config.log_format)
    # Anyone could fill the log with its warnings about malformed bytes.
    if config.log_level != "debug":
        logging.getLogger("tornado.general").setLevel(max(logging.ERROR, logging.getLogger().level))
    tls, digest = (None, "") if config.disable_ssl else context_of(config)
    sockets = _listen(config)
    raise_open_files(config.connections_max + SPARE_FILES)
    # systemd creates it for root; runners cache their data about machines in it.
    folder = os.environ.get("CACHE_DIRECTORY", "").partition(":")[0]
    if folder:
        private_dir(folder, account.uid, account.gid)
    drop_to(config.user)
    os.umask(0o077)
    if digest:
        print(f"saltlite-api: the certificate's SHA-256 fingerprint is {digest}", file=sys.stderr)  # noqa: T201 - for people
        log.info("the certificate's SHA-256 fingerprint is %s", digest)
    asyncio.run(_serve(config, os.path.abspath(config_dir), sockets, tls, on_ready))


def _listen(config: ApiConfig) -> list[socket.socket]:
    try:
        sockets = bind_sockets(config.port, config.interface, backlog=BACKLOG)
        for one in sockets:
            # Connections inherit it, so that a peer that does not read is disconnected.
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(config.request_timeout * 1000))
    except OSError as error:
        raise StartupError(
            f"{config.interface}:{config.port} cannot be listened on ({error.strerror}): another program may have it, "
            "or set `interface` and `port`"
        ) from error
    return sockets


def make_server(context: AppContext, tls: Any) -> Server:
    """The HTTP server, not listening yet."""
    config = context.config
    paths = {**PATHS, **web_app_paths(config)}
    application = Application(
        # Clients of Salt's API may end a path with a slash.
        [
            (pattern if pattern == "/" else f"{pattern}/?", kind, {"context": context})
            for pattern, kind in paths.items()
        ],
        default_handler_class=NotFound,
        default_handler_args={"context": context},
        log_function=lambda _handler: None,
        websocket_ping_interval=20,
        websocket_max_message_size=WS_MESSAGE_MAX,
    )
    server = Server(
        application,
        ssl_options=tls,
        idle_connection_timeout=config.request_timeout,
        body_timeout=config.request_timeout,
        max_body_size=config.max_request_body_size,
        max_buffer_size=config.max_request_body_size + HEADERS_MAX,
        max_header_size=HEADERS_MAX,
        chunk_size=16 * 1024,
    )
    server.bound(context.connections)
    return server


async def _serve(
    config: ApiConfig, config_dir: str, sockets: list[socket.socket], tls: Any, on_ready: Callable[[], None]
) -> None:
    link = MasterLink(master_socket(config.sock_dir), _trusted(config_dir))
    context = AppContext(config, link, Runners(link, config_dir, config.runner_timeout), Feeds(link))
    server = make_server(context, tls)
    server.add_sockets(sockets)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopping.set)
    watchdog = asyncio.ensure_future(_feed_watchdog())
    log.info("the API is ready")
    if supervision.notify(["READY=1", f"STATUS=listens on port {config.port}"]):
        # Only a service builds the reference in advance: a short run may never need it.
        context.documentation.begin()
    on_ready()
    await stopping.wait()
    supervision.notify(["STOPPING=1"])
    server.stop()
    watchdog.cancel()
    try:
        async with asyncio.timeout(STOP_S):
            await server.close_all_connections()
    except TimeoutError:
        log.info("some connections were still open")
    context.runners.close()
    link.close()


def _trusted(config_dir: str) -> frozenset[int]:
    """The uids that may run the master: root, and the owner of the configuration."""
    found = {0}
    with contextlib.suppress(OSError):
        found.add(os.stat(config_dir).st_uid)
    return frozenset(found)


async def _feed_watchdog() -> None:
    interval_s = supervision.watchdog_interval_s()
    while interval_s is not None:
        supervision.notify(["WATCHDOG=1"])
        await asyncio.sleep(interval_s)
