"""The API's composition root: reads the key, listens, gives up root's rights, and serves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections import Counter
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from saltlite.adapters import systemd
from saltlite.adapters.privileges import account_of, drop_to, start_log
from saltlite.adapters.process import raise_open_files
from saltlite.config.api import ApiConfig
from saltlite.config.paths import master_socket
from saltlite.errors import StartupError
from saltlite.netapi.endpoint import NothingHere, Office
from saltlite.netapi.feed import Feeds
from saltlite.netapi.fleet import Jobs, Keys, Minions
from saltlite.netapi.hook import Hook
from saltlite.netapi.link import MasterLink
from saltlite.netapi.monitor import Openapi, Prometheus, Stats
from saltlite.netapi.runners import Runners
from saltlite.netapi.sessions import Login, Logout, Root, Run, Token
from saltlite.netapi.tls import context_of
from saltlite.netapi.watch import Events, Ws

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
    r"/minions(?:/([^/]+))?": Minions,
    r"/jobs(?:/([^/]+))?": Jobs,
    r"/keys(?:/([^/]+))?": Keys,
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

    def bound(self, most: int, most_of_one: int) -> None:
        """How many connections, and how many of one address."""
        self._most, self._most_of_one = most, most_of_one
        self._open: Counter[str] = Counter()
        self._count = 0

    def handle_stream(self, stream: Any, address: Any) -> None:
        """Called by tornado for each connection."""
        host = str(address[0]) if address else ""
        if self._count >= self._most or self._open[host] >= self._most_of_one:
            stream.close()
            return
        self._open[host] += 1
        self._count += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: Any) -> None:
        """Called by tornado for each connection that is over."""
        super().on_close(server_conn)
        host = str(server_conn.context.address[0]) if server_conn.context.address else ""
        self._count -= 1
        self._open[host] -= 1
        if not self._open[host]:
            del self._open[host]


def run_api(config: ApiConfig, config_dir: str) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartupError when it cannot start."""
    account = account_of(config.user)
    start_log(config.log_level, config.log_file, account)
    context, digest = (None, "") if config.disable_ssl else context_of(config)
    sockets = _listen(config)
    raise_open_files(config.connections_max + SPARE_FILES)
    drop_to(config.user)
    os.umask(0o077)
    if digest:
        print(f"saltlite-api: the certificate's SHA-256 fingerprint is {digest}", file=sys.stderr)  # noqa: T201 - for people
        log.info("the certificate's SHA-256 fingerprint is %s", digest)
    asyncio.run(_serve(config, os.path.abspath(config_dir), sockets, context))


def _listen(config: ApiConfig) -> list[socket.socket]:
    try:
        return bind_sockets(config.port, config.interface, backlog=BACKLOG)
    except OSError as error:
        raise StartupError(
            f"{config.interface}:{config.port} cannot be listened on ({error.strerror}): another program may have it, "
            "or set `interface` and `port`"
        ) from error


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
    server.bound(config.connections_max, config.connections_per_address)
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
