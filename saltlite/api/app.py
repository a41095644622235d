"""The API's composition root: reads the key, listens, gives up root's rights, and serves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from saltlite.api.endpoint import NothingHere, Office
from saltlite.api.feed import Feeds
from saltlite.api.fleet import Jobs, Key, Keys, Minion, Minions
from saltlite.api.hook import Hook
from saltlite.api.link import MasterLink
from saltlite.api.monitor import Openapi, Prometheus, Stats
from saltlite.api.runners import Runners
from saltlite.api.sessions import Login, Logout, Root, Run, Token
from saltlite.api.tls import context_of
from saltlite.api.watch import Events, Ws
from saltlite.config.api import ApiConfig
from saltlite.config.paths import master_socket
from saltlite.errors import StartupError
from saltlite.limits import ConnectionLimiter
from saltlite.platform import systemd
from saltlite.platform.privileges import account_of, drop_to, private_dir, start_log
from saltlite.platform.process import raise_open_files

log = logging.getLogger(__name__)

HEADERS_MAX = 32 * 1024
"""Bytes of a request's headers."""
BACKLOG = 512
SPARE_FILES = 512
"""Descriptors beside those of connections: the master's socket, feeds, runners."""
STOP_S = 5.0
"""How long requests that are under way have at the end."""
WS_MESSAGE_MAX = 1024


PATHS: dict[str, type[Any]] = {
    r"/": Root,
    r"/run": Run,
    r"/login": Login,
    r"/logout": Logout,
    r"/token": Token,
    r"/minions": Minions,
    r"/minions/([^/]+)": Minion,
    r"/jobs(?:/([^/]+))?": Jobs,
    r"/keys": Keys,
    r"/keys/([^/]+)": Key,
    r"/events": Events,
    r"/ws(?:/(.*))?": Ws,
    r"/hook(?:/(.*))?": Hook,
    r"/stats": Stats,
    r"/metrics": Prometheus,
    r"/openapi\.json": Openapi,
}
"""Every path there is."""


class Server(HTTPServer):
    """Counts connections, and takes no more than there may be."""

    def bound(self, limiter: ConnectionLimiter[Any]) -> None:
        """Where connections are counted."""
        self._limiter = limiter

    def handle_stream(self, stream: Any, address: Any) -> None:
        """Called by tornado for each connection."""
        if self._limiter.add(stream, str(address[0]) if address else "").admitted:
            super().handle_stream(stream, address)
        else:
            stream.close()

    def on_close(self, server_conn: Any) -> None:
        """Called by tornado for each connection on which there is no more HTTP."""
        super().on_close(server_conn)
        # One that has become a WebSocket is still open, and leaves when that ends.
        if server_conn.stream.closed():
            self._limiter.remove(server_conn.stream)


def run_api(config: ApiConfig, config_dir: str) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartupError when it cannot start."""
    account = account_of(config.user)
    start_log(config.log_level, config.log_file, account)
    # Its warnings are about bytes of strangers, who could fill the log with them.
    if config.log_level != "debug":
        logging.getLogger("tornado.general").setLevel(max(logging.ERROR, logging.getLogger().level))
    context, digest = (None, "") if config.disable_ssl else context_of(config)
    sockets = _listen(config)
    raise_open_files(config.connections_max + SPARE_FILES)
    # systemd makes it for root; runners keep what they know of machines in it.
    folder = os.environ.get("CACHE_DIRECTORY", "").partition(":")[0]
    if folder:
        private_dir(folder, account.uid, account.gid)
    drop_to(config.user)
    os.umask(0o077)
    if digest:
        print(f"saltlite-api: the certificate's SHA-256 fingerprint is {digest}", file=sys.stderr)  # noqa: T201 - for people
        log.info("the certificate's SHA-256 fingerprint is %s", digest)
    asyncio.run(_serve(config, os.path.abspath(config_dir), sockets, context))


def _listen(config: ApiConfig) -> list[socket.socket]:
    try:
        sockets = bind_sockets(config.port, config.interface, backlog=BACKLOG)
        for one in sockets:
            # Each connection has it from here: who does not read what it asked for holds nothing for longer.
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(config.request_timeout * 1000))
    except OSError as error:
        raise StartupError(
            f"{config.interface}:{config.port} cannot be listened on ({error.strerror}): another program may have it, "
            "or set `interface` and `port`"
        ) from error
    return sockets


def make_server(office: Office, context: Any) -> Server:
    """The HTTP server, which listens to nothing yet."""
    config = office.config
    application = Application(
        [(pattern, kind, {"office": office}) for pattern, kind in PATHS.items()],
        default_handler_class=NothingHere,
        default_handler_args={"office": office},
        log_function=lambda _handler: None,
        websocket_ping_interval=20,
        websocket_max_message_size=WS_MESSAGE_MAX,
    )
    server = Server(
        application,
        ssl_options=context,
        idle_connection_timeout=config.request_timeout,
        body_timeout=config.request_timeout,
        max_body_size=config.max_request_body_size,
        max_buffer_size=config.max_request_body_size + HEADERS_MAX,
        max_header_size=HEADERS_MAX,
        chunk_size=16 * 1024,
    )
    server.bound(office.connections)
    return server


async def _serve(config: ApiConfig, config_dir: str, sockets: list[socket.socket], context: Any) -> None:
    link = MasterLink(master_socket(config.sock_dir), _trusted(config_dir))
    office = Office(config, link, Runners(link, config_dir, config.runner_timeout), Feeds(link))
    server = make_server(office, context)
    server.add_sockets(sockets)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stopping.set)
    watchdog = asyncio.ensure_future(_feed_watchdog())
    log.info("the API is ready")
    systemd.notify(["READY=1", f"STATUS=listens on port {config.port}"])
    await stopping.wait()
    systemd.notify(["STOPPING=1"])
    server.stop()
    watchdog.cancel()
    try:
        async with asyncio.timeout(STOP_S):
            await server.close_all_connections()
    except TimeoutError:
        log.info("some connections were still open")
    link.close()


def _trusted(config_dir: str) -> frozenset[int]:
    """Who may have started the master that is talked to: root, and the owner of the configuration."""
    found = {0}
    with contextlib.suppress(OSError):
        found.add(os.stat(config_dir).st_uid)
    return frozenset(found)


async def _feed_watchdog() -> None:
    interval_s = systemd.watchdog_interval_s()
    while interval_s is not None:
        systemd.notify(["WATCHDOG=1"])
        await asyncio.sleep(interval_s)
