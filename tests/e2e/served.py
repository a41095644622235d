"""A fleet with its API for tests that have one of their own, and connections to it on which anything can be said."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.api import Api, user_file
from tests.support.fleet import Fleet

GRANTED: dict[str, Any] = {
    "file": {
        "admin": [".*", "@runner", "@wheel", "@jobs", "@event", "@executor", "@hook"],
        "fred": [{"a": ["test.*"]}],
    }
}
"""`fred` may run test functions on `a` only; `eve` has a password and no right."""

PING = {"client": "local", "tgt": "a", "fun": "test.ping"}
END_S = 60.0
"""Within this a connection that was given up has ended: several times what the tests configure."""


@contextlib.contextmanager
def serve(folder: Path, *, master: Any = None, **options: Any) -> Iterator[tuple[Fleet, str]]:
    """A fleet with the minions `a` and `b`, and the address of its API with these options; `master` are those of its
    master."""
    fleet = Fleet(folder)
    try:
        users = user_file(fleet.folder / "users", "admin", "fred", "eve")
        fleet.start_master(auth_file=users, external_auth=GRANTED, **(master or {}))
        fleet.join("a", "b")
        yield fleet, fleet.start_api(**{"logins_per_address": 1000, **options})
    finally:
        fleet.close()


def plain_connection(url: str) -> socket.socket:
    """A TCP connection to the API's port."""
    place = urllib.parse.urlsplit(url)
    return socket.create_connection((place.hostname or "", place.port or 0), timeout=END_S)


@contextlib.contextmanager
def connection(url: str) -> Iterator[ssl.SSLSocket]:
    """A TLS connection on which nothing was said yet."""
    with Api(url).tls.wrap_socket(plain_connection(url)) as sock:
        yield sock


def said(url: str, request: bytes) -> bytes:
    """All that the API answers to these bytes until it hangs up."""
    with connection(url) as sock:
        with contextlib.suppress(OSError):  # it may hang up before it has taken all
            sock.sendall(request)
        return rest_of(sock)


def status_of(answer: bytes) -> int:
    """The status of the first answer in these bytes; 0 when there is none."""
    words = answer.split(b" ", 2)
    return int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/1.") else 0


def rest_of(sock: socket.socket) -> bytes:
    """What comes until the other side hangs up, hard or not; the test fails when it does not."""
    found, deadline = b"", time.monotonic() + END_S
    while True:
        assert time.monotonic() < deadline, f"the connection is still open after {END_S:g} s"
        try:
            part = sock.recv(65536)
        except (ConnectionError, ssl.SSLError):
            return found
        if not part:
            return found
        found += part


def works(api: Api) -> bool:
    """Whether the API does what it is there for."""
    return bool(api.low(**PING).json()["return"] == [{"a": True}])
