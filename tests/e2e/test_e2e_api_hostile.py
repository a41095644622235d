"""The HTTP API and those who mean it harm: slow, giant and malformed requests, pages of others."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from tests.e2e.served import PING, connection, plain_connection, rest_of, said, serve, status_of, works
from tests.support.api import PASSWORD, Api
from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """A fleet and its API, which waits one second for whoever is slow."""
    with serve(tmp_path_factory.mktemp("hostile"), request_timeout="1s") as both:
        yield both


@pytest.fixture(scope="module")
def url(served: tuple[Fleet, str]) -> str:
    """Where the API is."""
    return served[1]


@pytest.fixture(scope="module")
def admin(url: str) -> Api:
    """The API on behalf of somebody who may everything."""
    return Api(url).log_in("admin")


# -- slow ones


def test_a_connection_that_says_nothing_is_hung_up_on(url: str) -> None:
    with plain_connection(url) as sock:
        assert rest_of(sock) == b""


def test_a_tls_handshake_that_stops_is_hung_up_on(url: str) -> None:
    with plain_connection(url) as sock:
        sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # the first bytes of a ClientHello
        assert rest_of(sock) == b""


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n186a0\r\n",
    ],
    ids=["header", "body", "chunk"],
)
def test_who_sends_a_byte_now_and_then_is_hung_up_on(url: str, head: bytes) -> None:
    with connection(url) as sock:
        sock.sendall(head)
        sock.settimeout(0.1)
        began = time.monotonic()
        while time.monotonic() < began + 60:
            try:
                sock.sendall(b"x")
                if sock.recv(4096) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        assert time.monotonic() - began < 60


def test_who_does_not_read_is_hung_up_on(url: str) -> None:
    with plain_connection(url) as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with Api(url).tls.wrap_socket(plain) as sock:
            ask = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 500
            sock.sendall(ask)
            wait_until(lambda: _is_over(url, sock.getsockname()[1]), "the API gave up on who does not read")


def _is_over(url: str, port: int) -> bool:
    """Whether the kernel has no connection of the API's with that port any more."""
    api_port = int(url.rpartition(":")[2])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    pairs = {
        (row[1].rpartition(":")[2], row[2].rpartition(":")[2]) for row in rows if row[3] in ("01", "04", "08", "0B")
    }
    return (f"{api_port:04X}", f"{port:04X}") not in pairs


# -- large ones


@pytest.mark.parametrize(
    "head",
    [
        b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999999\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffff0\r\n",
        b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Large: " + b"x" * 70_000 + b"\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X-Many: 1\r\n" * 20_000 + b"\r\n",
        b"\x00" * 40_000,
        b"GET /\xff\xfe HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Auth-Token\r\n\r\n",
    ],
    ids=[
        "length", "huge", "negative", "chunk", "both", "twice", "header", "path", "headers", "zeros", "bytes", "colon",
    ],
)  # fmt: skip
def test_what_is_too_large_or_no_request_is_not_taken(url: str, admin: Api, head: bytes) -> None:
    assert status_of(said(url, head)) in (0, 400, 413, 431)
    assert works(admin)


def test_a_body_that_never_ends_is_cut_off(url: str, admin: Api) -> None:
    with connection(url) as sock:
        sock.sendall(b"POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        sent = 0
        try:
            while sent < 64 * 1024 * 1024:
                sock.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
                sent += 0x10000
        except OSError:
            pass
    assert sent < 32 * 1024 * 1024
    assert works(admin)


def test_a_body_is_as_large_as_is_configured(url: str, admin: Api) -> None:
    head = b"POST /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
    assert b"a body is" not in said(url, head % 1_048_577 + b" " * 1_048_577)
    assert b"not JSON" in said(url, head % 1_048_576 + b" " * 1_048_576)


def test_a_hook_has_a_limit_of_its_own(admin: Api) -> None:
    assert admin.post("/hook/large", {"x": "y" * 70_000}).status == 413


# -- malformed ones


@pytest.mark.parametrize(
    "kind", ["application/json", "application/x-yaml", "application/x-www-form-urlencoded", "text/plain"]
)
@pytest.mark.parametrize(
    "body", [b"\xff", b"a=%ff", b"\xed\xa0\x80", b"\x00", b"a: &a [*a]", b"{", b"!!python/object:x {}"]
)
def test_what_is_no_text_is_400_in_every_format(admin: Api, kind: str, body: bytes) -> None:
    answer = admin.ask("POST", "/", body, Content_Type=kind)
    assert (answer.status, answer.json()["status"]) == (400, 400)


@pytest.mark.parametrize("path", ["/minions", "/keys", "/jobs", "/hook", "", "/events", "/stats"])
@pytest.mark.parametrize("odd", ["%ff", "%00", "%0a", "..%2f", "%ed%a0%80", "*"])
def test_an_odd_path_is_no_error_of_the_api(admin: Api, path: str, odd: str) -> None:
    for method, body in (("GET", None), ("POST", b"{}")):
        assert admin.ask(method, f"{path}/{odd}", body, Content_Type="application/json").status < 500


@pytest.mark.parametrize("token", ["\xff" * 40, "a b", "\x01", "{}", "None", "0" * 200])
def test_a_token_that_is_none_is_401(url: str, token: str) -> None:
    request = f"GET /stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Auth-Token: {token}\r\n\r\n"
    assert status_of(said(url, request.encode("latin-1"))) in (400, 401)


@pytest.mark.parametrize(
    "login",
    [
        {"eauth": "file", "username": "admin\x00", "password": PASSWORD},
        {"eauth": "../file", "username": "admin", "password": PASSWORD},
        {"eauth": "file", "username": ["admin"], "password": PASSWORD},
        {"eauth": "file", "username": "admin", "password": {"$ne": ""}},
        {"eauth": "file", "username": "a" * 100_000, "password": "b" * 100_000},
        {"eauth": "file", "username": "admin:", "password": PASSWORD},
        {"eauth": "", "username": "", "password": ""},
    ],
)
def test_a_login_that_is_none_lets_nobody_in(url: str, login: object) -> None:
    assert Api(url).post("/login", login).status in (400, 401)


# -- other people's pages


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/", [PING]),
        ("POST", "/minions", [PING]),
        ("POST", "/run", [PING]),
        ("POST", "/keys", {"mid": "c"}),
        ("POST", "/hook/x", {}),
        ("POST", "/logout", None),
    ],
)
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/x-www-form-urlencoded"])
def test_a_cookie_alone_changes_nothing(admin: Api, method: str, path: str, body: object, kind: str) -> None:
    content = b"client=local&tgt=a&fun=test.ping" if "form" in kind else json.dumps(body).encode()
    answer = Api(admin.url).ask(method, path, content, Cookie=f"session_id={admin.token}", Content_Type=kind)
    assert answer.status == 401
    assert works(admin)


def test_a_cookie_that_was_planted_before_a_login_is_not_let_in_by_it(url: str) -> None:
    planted = "f" * 64
    login = {"eauth": "file", "username": "admin", "password": PASSWORD}
    answer = Api(url).post("/login", login, Cookie=f"session_id={planted}")
    assert planted not in answer.headers["Set-Cookie"]
    assert Api(url).get("/stats", Cookie=f"session_id={planted}").status == 401


def test_a_websocket_with_a_cookie_opens_for_no_other_page(admin: Api) -> None:
    async def opened(origin: str) -> None:
        headers = {"Cookie": f"session_id={admin.token}", "Origin": origin}
        request = HTTPRequest(admin.url.replace("http", "ws", 1) + "/ws", headers=headers, ssl_options=admin.tls)
        there = await websocket_connect(request)
        there.close()
        while await there.read_message() is not None:
            pass
        await asyncio.sleep(0)

    for origin in ("https://evil.example", "null", admin.url + ".evil.example", admin.url + "@evil.example"):
        with pytest.raises(HTTPClientError) as refused:
            asyncio.run(opened(origin))
        assert refused.value.code == 403
    asyncio.run(opened(admin.url))


def test_pages_elsewhere_may_read_nothing(admin: Api) -> None:
    for method, path in (("GET", "/"), ("GET", "/nowhere"), ("OPTIONS", "/login"), ("GET", "/stats")):
        headers = admin.ask(method, path, Origin="https://evil.example").headers
        assert not [name for name in headers if name.lower().startswith("access-control")]


def test_pages_of_a_configured_origin_may_read_and_are_sent_no_cookie(served: tuple[Fleet, str]) -> None:
    api = Api(served[0].start_api(cors_origins=["https://ops.example"]))
    allowed = api.ask("OPTIONS", "/login", Origin="https://ops.example").headers
    assert allowed["Access-Control-Allow-Origin"] == "https://ops.example"
    assert "X-Auth-Token" in allowed["Access-Control-Allow-Headers"]
    assert allowed["Access-Control-Allow-Credentials"] is None
    for origin in ("https://ops.example.evil", "http://ops.example", "null"):
        assert api.get("/", Origin=origin).headers["Access-Control-Allow-Origin"] is None


# -- methods


@pytest.mark.parametrize(
    "path", ["/", "/minions", "/minions/a", "/jobs", "/keys", "/keys/a", "/metrics", "/openapi.json"]
)
def test_head_is_get_without_its_body(admin: Api, path: str) -> None:
    head, get = admin.ask("HEAD", path), admin.get(path)
    assert (head.status, head.body, head.headers["Content-Type"]) == (200, "", get.headers["Content-Type"])


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/", "GET, POST, HEAD, OPTIONS"),
        ("/login", "GET, POST, HEAD, OPTIONS"),
        ("/keys", "GET, POST, HEAD, OPTIONS"),
        ("/jobs", "GET, HEAD, OPTIONS"),
        ("/events", "GET, OPTIONS"),
        ("/ws", "GET, OPTIONS"),
        ("/logout", "POST, OPTIONS"),
    ],
)
def test_options_say_what_a_path_takes_and_all_else_is_405(admin: Api, path: str, methods: str) -> None:
    assert admin.ask("OPTIONS", path).headers["Allow"] == methods
    for method in {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH"} - set(methods.split(", ")):
        answer = admin.ask(method, path)
        assert (answer.status, answer.headers["Allow"]) == (405, methods)


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "BREW", "get"])
def test_other_methods_are_405(url: str, method: str) -> None:
    answer = said(url, f"{method} / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    assert status_of(answer) in (0, 400, 405)
