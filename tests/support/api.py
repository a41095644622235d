"""A client of the HTTP API for tests: requests over TLS that is not verified, event streams, users of a file."""

from __future__ import annotations

import gzip
import json
import os
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from saltlite import __version__
from saltlite.loader.call import Outcome, call
from saltlite.loader.dunders import LazyFunctions
from saltlite.loader.index import Index, build_index
from saltlite.loader.loader import Loader
from saltlite.loader.search_path import search_layers
from tests.support.fleet import WAIT_S

PASSWORD = "a password of tests"


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
                body = answer.read()
                is_packed = answer.headers.get("Content-Encoding") == "gzip"
                return Said(answer.status, (gzip.decompress(body) if is_packed else body).decode(), answer.headers)
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
    def events(self, after: int | None = None, tag: str = "") -> Iterator[Iterator[dict[str, Any]]]:
        """The stream of /events, which has begun: `id`, `tag` and `data` of each."""
        headers = {"X-Auth-Token": self.token, **({} if after is None else {"Last-Event-ID": str(after)})}
        request = urllib.request.Request(f"{self.url}/events?tag={urllib.parse.quote(tag)}", headers=headers)
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


# -- The master as a test plays it for runners.


INDEX: Index = build_index(search_layers({}, "runners"))
JID = "20260131235959123456"
CONFIG = {"timeout": 5.0, "file_roots": {"base": ["/srv/one", "/srv/two"]}, "hooks": {"h": {"fun": "a.b"}}}


def row(minion: str, state: str, version: str = __version__) -> dict[str, Any]:
    return {"id": minion, "state": state, "last_seen": 1.0, "address": "", "version": version}


class Client:
    """Plays the master: verb -> answer, or a function that makes it."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def call(self, verb: str, **fields: Any) -> dict[str, Any]:
        self.asked.append((verb, fields))
        answer = self.answers[verb]
        made: dict[str, Any] = answer(**fields) if callable(answer) else answer
        return made

    def cmd(self, *args: Any) -> dict[str, Any]:
        self.asked.append(("cmd", {"args": args}))
        made: dict[str, Any] = self.answers["cmd"]
        return made

    def run(self, *args: Any) -> dict[str, dict[str, Any]]:
        self.asked.append(("run", {"args": args}))
        codes = self.answers.get("retcodes", {})
        found = {name: (value, codes.get(name, 0)) for name, value in self.answers["cmd"].items()}
        return {name: {"return": value, "retcode": code, "success": not code} for name, (value, code) in found.items()}

    def time(self) -> float:
        return time.time()

    def returns(self, jid: str) -> dict[str, Any]:
        made: dict[str, Any] = self.answers["returns"][jid]
        return made

    def results(self, jid: str) -> dict[str, dict[str, Any]]:
        return {name: {"return": one, "retcode": 0, "success": True} for name, one in self.returns(jid).items()}


def run(client: Client, fun: str, *args: Any, cachedir: str = "", **kwargs: Any) -> Outcome:
    """Call a runner, with the shipped modules as those of this machine."""

    def execution() -> Loader:
        return Loader(build_index(search_layers({})), {"id": "here_master"}, {}, {})

    opts = {"cachedir": cachedir}
    own = {"__client__": client, "__execution__": LazyFunctions(execution), "__config__": CONFIG}
    loader = Loader(INDEX, opts, {}, {}, more=own)
    return call(loader, fun, args, kwargs, pub={"jid": JID, "fun": fun})


# -- An HTTP server on loopback that answers with what stands in a list, and writes down what it was asked.


@dataclass(frozen=True)
class Asked:
    """A request that came."""

    line: str
    """Such as `GET /v2/droplets?page=1`."""
    headers: Mapping[str, str]
    body: str


@dataclass
class Answers:
    """What is answered, in order, and what was asked.

    An answer is a map: `request`, the line that must come, anything where it is not there; `status`; `headers`; `body`,
    a text or data for JSON; `hang_up`, to close the connection instead. After the last one the last is repeated if
    `again` is in it.
    """

    planned: list[Mapping[str, Any]]
    asked: list[Asked] = field(default_factory=list)
    unplanned: list[str] = field(default_factory=list)
    address: str = ""

    def next(self, line: str) -> Mapping[str, Any]:
        """The answer to this request; one with status 599, which nobody expects, when another was planned."""
        if not self.planned or self.planned[0].get("request", line) != line:
            wanted = self.planned[0]["request"] if self.planned else "nothing more"
            self.unplanned.append(f"{line} came, {wanted} was planned")
            return {"status": 599, "body": {"message": self.unplanned[-1]}}
        return self.planned[0] if self.planned[0].get("again") else self.planned.pop(0)

    @property
    def lines(self) -> list[str]:
        """The first lines of all requests."""
        return [asked.line for asked in self.asked]


def recorded(path: Path) -> list[Mapping[str, Any]]:
    """The answers in a file."""
    answers: list[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return answers


def loopback_certificate(folder: Path) -> Path:
    """A new file with a certificate for 127.0.0.1, which no authority signed, and its key."""
    pem = folder / "tls.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
         "-subj", "/CN=x", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(pem), "-out", str(pem)],
        check=True, capture_output=True,
    )  # fmt: skip
    return pem


@contextmanager
def answering(planned: Sequence[Mapping[str, Any]], certificate: Path | None = None) -> Iterator[Answers]:
    """A server with these answers; at the end all of them must have been given, and nothing else been asked.

    With a certificate, in one file with its key, it speaks HTTPS.
    """
    answers = Answers(list(planned))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length).decode()
            line = f"{self.command} {self.path}"
            answers.asked.append(Asked(line, dict(self.headers), body))
            answer = answers.next(line)
            if answer.get("hang_up"):
                self.close_connection = True
                return
            said = answer.get("body", "")
            data = (said if isinstance(said, str) else json.dumps(said)).encode()
            self.send_response(answer.get("status", 200))
            headers = {"Content-Type": "application/json", "Content-Length": str(len(data))}
            for name, value in {**headers, **answer.get("headers", {})}.items():
                self.send_header(name, str(value))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_HEAD = do_POST = do_DELETE = do_PUT = _answer  # noqa: N815 - names of http.server

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as above
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    answers.address = f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield answers
        assert answers.unplanned == []
        assert [answer for answer in answers.planned if not answer.get("again")] == []
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
