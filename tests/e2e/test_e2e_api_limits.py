"""What the HTTP API is started with: its certificate, its user, and limits for connections and for what is asked."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shutil
import socket
import ssl
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.e2e.served import PING, connection, plain_connection, rest_of, serve, works
from tests.support.api import Api
from tests.support.fleet import Fleet, wait_until

pytestmark = pytest.mark.e2e

NOBODY = pwd.getpwnam("nobody")
STARTED_CONNECTIONS = 8
"""connections_max of the API that is flooded, the least that there is."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fleet, str]]:
    """A fleet and its API, which waits one second for whoever is slow."""
    with serve(tmp_path_factory.mktemp("limits"), request_timeout="1s") as both:
        yield both


@pytest.fixture(scope="module")
def url(served: tuple[Fleet, str]) -> str:
    """Where the API is."""
    return served[1]


@pytest.fixture(scope="module")
def admin(url: str) -> Api:
    """The API on behalf of somebody who may everything."""
    return Api(url).log_in("admin")


# -- TLS


def test_the_fingerprint_that_is_printed_is_that_of_the_certificate(served: tuple[Fleet, str]) -> None:
    fleet, url = served
    port = int(url.rpartition(":")[2])
    with connection(url) as sock:
        certificate = sock.getpeercert(binary_form=True) or b""
    digest = hashlib.sha256(certificate).hexdigest().upper()
    said_at_start = re.findall(r"fingerprint is ([0-9A-F:]{95})", fleet.daemons[f"api-{port}"].log())
    assert {one.replace(":", "") for one in said_at_start} == {digest}


def test_the_certificate_of_the_first_start_is_that_of_the_next(served: tuple[Fleet, str]) -> None:
    fleet, first = served
    second = fleet.start_api()
    certificates = set()
    for url in (first, second):
        with connection(url) as sock:
            certificates.add(sock.getpeercert(binary_form=True))
    assert len(certificates) == 1
    key = fleet.root("master") / "etc/saltlite/pki/api/self-signed.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_old_tls_and_no_tls_get_no_answer(url: str) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, OSError)), plain_connection(url) as sock:
        old.wrap_socket(sock)
    with plain_connection(url) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"Welcome" not in rest_of(sock)


# -- too many


def test_who_cannot_speak_tls_or_http_fills_no_log(served: tuple[Fleet, str]) -> None:
    url = served[0].start_api(log_level="warning")
    daemon = served[0].daemons[f"api-{url.rpartition(':')[2]}"]
    before = daemon.log()
    for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 100, b"\x16\x03\x01\x00\x05hello"):
        with plain_connection(url) as sock:
            sock.sendall(nonsense)
            rest_of(sock)
    with connection(url) as sock:
        sock.sendall(b"nonsense\r\n\r\n")
        rest_of(sock)
    assert daemon.log() == before


def test_connections_above_the_limit_are_closed_and_room_that_is_made_is_used(served: tuple[Fleet, str]) -> None:
    url = served[0].start_api(connections_max=STARTED_CONNECTIONS, request_timeout="60s")
    with ExitStack() as stack:
        held = [stack.enter_context(connection(url)) for _ in range(STARTED_CONNECTIONS)]
        with plain_connection(url) as sock:
            assert rest_of(sock) == b""
        held[0].close()
        wait_until(lambda: _welcomed(url), "there is room again")


def test_connections_of_one_address_have_a_limit_of_their_own(served: tuple[Fleet, str]) -> None:
    url = served[0].start_api(connections_per_address=2, request_timeout="60s", interface="0.0.0.0")  # noqa: S104
    port = url.rpartition(":")[2]
    with connection(url), connection(url):
        assert not _welcomed(url)
        assert _welcomed(f"https://127.0.0.2:{port}", bind="127.0.0.2")


def _welcomed(url: str, bind: str = "127.0.0.1") -> bool:
    """Whether a new connection from an address is answered."""
    port = int(url.rpartition(":")[2])
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10, source_address=(bind, 0)) as plain,
            Api(url).tls.wrap_socket(plain) as sock,
        ):
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return b"Welcome" in rest_of(sock)
    except OSError:
        return False


def test_websockets_count_among_the_connections_for_as_long_as_they_are_open(
    served: tuple[Fleet, str], admin: Api
) -> None:
    url = served[0].start_api(connections_per_address=2, request_timeout="60s")
    with connection(url) as first, connection(url) as second:
        for sock in (first, second):
            sock.sendall(handshake(admin.token))
            assert sock.recv(4096).startswith(b"HTTP/1.1 101 ")
        assert not _welcomed(url)
        second.close()
        wait_until(lambda: _welcomed(url), "there is room again")


def test_who_leaves_in_the_middle_of_a_handshake_makes_no_room(served: tuple[Fleet, str], admin: Api) -> None:
    url = served[0].start_api(connections_per_address=2, request_timeout="60s")
    api = Api(url, admin.token)
    for _ in range(20):
        with connection(url) as sock:
            sock.sendall(handshake(admin.token))
    wait_until(lambda: _welcomed(url), "all of them have left")
    wait_until(lambda: api.get("/stats").json()["saltlite-api"]["connections"] == 1, "only who asks is counted")
    with connection(url), connection(url):
        assert not _welcomed(url)
    assert "Traceback" not in served[0].daemons[f"api-{url.rpartition(':')[2]}"].log()


def handshake(token: str) -> bytes:
    """The request of a WebSocket."""
    lines = [
        "GET /ws HTTP/1.1",
        "Host: x",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        f"X-Auth-Token: {token}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def test_a_flood_of_hooks_keeps_nobody_else_from_working(served: tuple[Fleet, str]) -> None:
    api = Api(served[0].start_api(webhooks_per_second=1)).log_in("admin")
    statuses = []
    for _ in range(40):
        statuses.append(api.post("/hook/flood", {"x": 1}).status)
        if len(statuses) % 10 == 0:
            assert works(api)
    assert set(statuses) == {200, 429}
    assert statuses.count(200) <= 20


def test_who_may_send_no_hooks_uses_up_none_of_those_of_others(served: tuple[Fleet, str]) -> None:
    url = served[0].start_api(webhooks_per_second=1)
    stranger, api = Api(url, "0" * 64), Api(url).log_in("admin")
    assert {stranger.post("/hook/flood", {}).status for _ in range(15)} == {401}
    assert api.post("/hook/one", {}).status == 200


def test_a_flood_of_requests_is_429_and_passes(served: tuple[Fleet, str]) -> None:
    api = Api(served[0].start_api(requests_per_address=2))
    statuses = [api.get("/").status for _ in range(40)]
    assert {200, 429} == set(statuses)
    wait_until(lambda: api.get("/").status == 200, "who waits is answered again")


def test_logins_of_one_address_are_slowed_down_whatever_the_path(served: tuple[Fleet, str]) -> None:
    api = Api(served[0].start_api(logins_per_address=2))
    wrong = {"eauth": "file", "username": "admin", "password": "wrong"}
    for path in ("/login", "/token", "/run", "/keys"):
        body = {**wrong, **PING} if path == "/run" else {**wrong, **({"mid": "c"} if path == "/keys" else {})}
        answer = api.post(path, body)
        assert answer.status == (401 if path in ("/login", "/token") else 429)
    assert int(answer.headers["Retry-After"]) >= 1


# -- rights of the process


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_started_as_root_it_becomes_its_user_and_can_get_nothing_back() -> None:
    folder = Path(tempfile.mkdtemp(prefix="saltlite-api-"))
    folder.chmod(0o755)
    fleet = Fleet(folder)
    try:
        url = fleet.start_api("alone", user="nobody")
        pid = fleet.daemons[f"api-{url.rpartition(':')[2]}"].pid
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        assert set(status["Uid"].split()) == {str(NOBODY.pw_uid)}
        assert set(status["Gid"].split()) == {str(NOBODY.pw_gid)}
        assert set(status["Groups"].split()) <= {str(NOBODY.pw_gid)}
        assert (int(status["CapEff"], 16), int(status["CapPrm"], 16), int(status["CapAmb"], 16)) == (0, 0, 0)
        assert status["NoNewPrivs"] == "1"
        key = fleet.root("alone") / "etc/saltlite/pki/api/self-signed.pem"
        assert (key.stat().st_uid, stat.S_IMODE(key.stat().st_mode)) == (0, 0o600)
        assert Api(url).get("/").status == 200
    finally:
        fleet.close()
        shutil.rmtree(folder)
