"""The returner `http` against real TLS servers: whom it believes, and where its token goes."""

from __future__ import annotations

import datetime
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from typing import Any

import pytest

from saltlite.api.app import self_signed
from saltlite.errors import CommandExecutionError
from saltlite.loader.index import build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers


class Server(ThreadingHTTPServer):
    """Takes everything, over TLS; keeps what it took, and its token."""

    def __init__(self, certificate: Path, address: str) -> None:
        super().__init__((address, 0), Post)
        self.took: list[tuple[str | None, Any]] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.socket = context.wrap_socket(self.socket, server_side=True)

    def server_bind(self) -> None:
        """Without a look at what this machine is called, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "here", self.server_address[1]

    def handle_error(self, *unused: object) -> None:
        """A client that does not believe us hangs up."""


class Post(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Server)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.took.append((self.headers["Authorization"], body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *unused: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Of 127.0.0.1 and localhost."""
    path = tmp_path / "server.pem"
    path.write_bytes(self_signed("logs.example.org", datetime.datetime.now(datetime.UTC)))
    return path


@contextmanager
def serving_at(address: str, certificate: Path) -> Iterator[Server]:
    made = Server(certificate, address)
    serving = threading.Thread(target=made.serve_forever, args=(0.02,))
    serving.start()
    yield made
    made.shutdown()
    serving.join()
    made.server_close()


def post(**settings: Any) -> Callable[[list[Any]], None]:
    """`http.return_many` with these settings."""
    opts = {"returner_config": {"http": settings}, "module_dirs": [], "extension_modules": ""}
    function: Callable[[list[Any]], None] = Loader(build_index(search_layers(opts, "returners")), opts, {}, {})[
        "http.return_many"
    ]
    return function


@pytest.fixture
def token(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text("s3cret\n")
    return str(path)


def test_a_server_that_its_configuration_trusts_gets_the_returns_and_the_token(certificate: Path, token: str) -> None:
    with serving_at("127.0.0.1", certificate) as server:
        url = f"https://127.0.0.1:{server.server_address[1]}/in"
        post(url=url, ca_file=str(certificate), token_file=token)([{"id": "web1"}])
    assert server.took == [("Bearer s3cret", {"returns": [{"id": "web1"}]})]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2"])
def test_a_server_with_a_certificate_of_strangers_or_of_another_host_gets_nothing(
    certificate: Path, token: str, host: str
) -> None:
    # At 127.0.0.2 the certificate is trusted, and is not for that address.
    trust = {"ca_file": str(certificate)} if host == "127.0.0.2" else {}
    sentence = "127.0.0.2'" if trust else "certificate verify failed"
    with serving_at(host, certificate) as server, pytest.raises(CommandExecutionError, match=sentence):
        post(url=f"https://{host}:{server.server_address[1]}/in", token_file=token, **trust)([{"id": "web1"}])
    assert server.took == []


def test_the_token_leaves_this_machine_by_tls_only(token: str) -> None:
    with pytest.raises(CommandExecutionError, match="use https"):
        post(url="http://192.0.2.1/in", token_file=token, timeout=1)([{}])
