"""A client of the HTTP API for tests: requests over TLS that is not verified, event streams, users of a file."""

from __future__ import annotations

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

PASSWORD = "a password of tests"
WAIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Said:
    """One answer."""

    status: int
    body: str
    headers: Message

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


def user_file(path: Path, *users: str) -> str:
    """A file for `auth_file` in which every user has PASSWORD; its path."""
    lines = []
    for user in users:
        # As little memory and time as Argon2 allows: its strength is not what these tests are about.
        hashed = Argon2id(salt=os.urandom(16), length=32, iterations=1, lanes=1, memory_cost=8)
        lines.append(f"{user}:{hashed.derive_phc_encoded(PASSWORD.encode())}\n")
    path.touch(mode=0o600)
    path.write_text("".join(lines))
    return str(path)


class Api:
    """The API at `url`, on behalf of the holder of `token`."""

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url
        self.token = token
        self.tls = ssl.create_default_context()
        self.tls.check_hostname = False
        self.tls.verify_mode = ssl.CERT_NONE

    def log_in(self, user: str) -> Api:
        """The API on behalf of a user of `user_file`."""
        said = self.post("/login", {"eauth": "file", "username": user, "password": PASSWORD})
        assert said.status == 200, said
        return Api(self.url, said.json()["return"][0]["token"])

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Said:
        """One request; `_` in the names of headers stands for `-`."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            names.setdefault("X-Auth-Token", self.token)
        request = urllib.request.Request(self.url + path, body, names, method=method)
        try:
            with urllib.request.urlopen(request, context=self._context(), timeout=WAIT_S) as answer:
                return Said(answer.status, answer.read().decode(), answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return Said(error.code, error.read().decode(), error.headers)

    def get(self, path: str, **headers: str) -> Said:
        """GET."""
        return self.ask("GET", path, None, **headers)

    def post(self, path: str, value: Any, **headers: str) -> Said:
        """POST a value as JSON."""
        return self.ask("POST", path, json.dumps(value).encode(), Content_Type="application/json", **headers)

    def low(self, **lowstate: Any) -> Said:
        """POST one lowstate to /."""
        return self.post("/", lowstate)

    @contextmanager
    def events(self, after: int | None = None) -> Iterator[Iterator[dict[str, Any]]]:
        """The stream of /events, which has begun: `id`, `tag` and `data` of each."""
        headers = {"X-Auth-Token": self.token, **({} if after is None else {"Last-Event-ID": str(after)})}
        request = urllib.request.Request(self.url + "/events", headers=headers)
        with urllib.request.urlopen(request, context=self._context(), timeout=WAIT_S) as answer:
            assert answer.readline() == b"retry: 400\n"
            yield _events(answer)

    def _context(self) -> ssl.SSLContext | None:
        return self.tls if self.url.startswith("https") else None


def _events(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    event: dict[str, Any] = {}
    for raw in lines:
        name, _, value = raw.decode().rstrip("\n").partition(": ")
        if name == "data":
            yield {**event, **json.loads(value)}
        elif name == "id":
            event = {"id": int(value)}
