"""The HTTP API: requests as bytes of a connection, or put together, answered by the real server over real handlers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tornado.iostream import IOStream
from tornado.web import HTTPError

from saltlite.api.app import make_server
from saltlite.api.clients import RunnerCall, Runners
from saltlite.api.endpoint import AppContext, Endpoint
from saltlite.api.feeds import Feeds
from saltlite.api.link import MasterLink, PooledConnection
from saltlite.client.connection import FleetClock
from saltlite.config.api import ApiConfig
from saltlite.errors import RefusedError, SaltliteError
from saltlite.master.handlers.events import EventStream
from saltlite.master.handlers.jobs import JobFollower
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.processes.context import Answer, Watch
from saltlite.wire import codec
from saltlite.wire.framing import pack
from tests.fuzz.site import JID, STRANGER, Site
from tests.fuzz.surface import mutate_bytes, mutate_text, mutate_value, packed, unpacked

ANSWER_S = 0.05
"""So long the server may take for an answer; jobs that nobody returns for are waited for longer, and left."""
LENGTH = struct.Struct(">I")
PATHS = (
    "/", "/run", "/login", "/logout", "/token", "/minions", "/minions/web1", "/jobs", "/jobs/" + JID, "/keys",
    "/keys/web1", "/events", "/ws", "/hook", "/hook/a/b", "/stats", "/metrics", "/openapi.json", "/nothing",
    "/jobs?x=1", "/%2e%2e/", "/minions/%00", "/keys?a=%ff",
)  # fmt: skip
METHODS = ("GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "FOO")
TYPES = (
    "application/json", "application/x-yaml", "application/x-www-form-urlencoded", "text/plain", "text/html",
    "multipart/form-data; boundary=x", "*/*", "text/*;q=0.1, application/*;q=x", "", "a/b;;q=1e400",
    "application/json;q=nan",
)  # fmt: skip
TOKEN = "TOKEN"
BODIES: tuple[str, ...] = (
    '[{"client": "local", "tgt": "web*", "fun": "test.ping", "arg": [1, "a=b"], "kwarg": {"k": 1}}]',
    '{"client": "local_async", "tgt": ["web1"], "tgt_type": "list", "fun": ["test.ping", "a.b"], "arg": [[], ["x"]]}',
    '{"client": "runner", "fun": "jobs.list_jobs"}',
    '{"client": "wheel", "fun": "key.list_all"}',
    '{"client": "local_batch", "tgt": "*", "fun": "test.ping", "batch": "50%", "timeout": 1}',
    '{"username": "bob", "password": "x", "eauth": "pam"}',
    '[{"client": "local", "username": "bob", "password": "x", "eauth": "pam", "tgt": "*", "fun": "test.ping"}]',
    '{"keysize": 2048, "mid": "web9", "force": true}',
    "username=bob&password=x&eauth=pam",
    "client=local&tgt=*&fun=test.ping&arg=1&arg=2&kwarg=a=1",
    "- client: local\n  tgt: '*'\n  fun: test.ping\n  kwarg: {a: 2027-01-01, b: !!set {x}, c: !!binary aGk=}\n",
    '{"a": 1, "1": {"b": [NaN, 1e400, 18446744073709551616, "\\ud800"]}}',
)
WORDS = (
    *PATHS, *TYPES, *METHODS, *BODIES, "client", "tgt", "fun", "arg", "kwarg", "local", "runner", "wheel", "batch",
    "list",
    "grain", "compound", "timeout", "full_return", "subset", "X-Auth-Token", "Accept", "Content-Type",
    "Last-Event-ID", "Origin", "Cookie", "session_id=TOKEN", "Transfer-Encoding", "chunked",
    "Content-Length", "Expect", "100-continue",
    "[" * 100, '{"a":' * 100, "&", "*", "*a", "\\ud800", "1e999", "Upgrade", "websocket", TOKEN,
)  # fmt: skip


class InProcessConnection(PooledConnection):
    """A connection to a master in this process: what is sent is answered at once."""

    def __init__(self, site: Site) -> None:
        super().__init__(FleetClock())
        self._site = site
        self._stream: Any = None
        self.connection_made(self)

    def write(self, frame: bytes) -> None:
        """Of the transport: one request."""
        self._stream = None
        try:
            answer = handle_request(self._site.master, STRANGER, codec.decode(frame[LENGTH.size :], codec.LOCAL))
            said = {"ok": True, **self._fields(answer)}
        except SaltliteError as error:
            login = {"login": True} if isinstance(error, RefusedError) else {}
            said = {"ok": False, "exit": error.exit_code, "error": str(error), **login}
        self._send(said)
        if self._stream is not None and (news := self._stream.news()) is not None:
            self._send(news)

    def resume_reading(self) -> None:
        """Of the transport."""

    def pause_reading(self) -> None:
        """Of the transport."""

    def close(self) -> None:
        """Of both."""

    def usable(self) -> bool:
        """Each request has its own."""
        return False

    def _fields(self, answer: Answer) -> dict[str, Any]:
        fields = answer.fields
        if answer.question is not None:
            answer.question.message(1)
            fields = answer.question.fields(None)
        if answer.login is not None:
            fields = answer.login.fields(())
        wanted = answer.follow
        if wanted is not None:
            master = self._site.master
            self._stream = EventStream(master, wanted) if isinstance(wanted, Watch) else JobFollower(master, wanted)
        return fields

    def _send(self, message: dict[str, Any]) -> None:
        data = pack(message)
        self.data_received(LENGTH.pack(len(data)) + data)


class InsideLink(MasterLink):
    """The way to that master."""

    def __init__(self, site: Site) -> None:
        super().__init__("/nowhere", frozenset())
        self._site = site

    async def connect(self) -> PooledConnection:
        return InProcessConnection(self._site)


class NoRunners(Runners):
    """Runners are processes of their own, and are announced only."""

    async def _carry_out(self, call: RunnerCall, jid: str) -> dict[str, Any]:
        return {"value": {"fun": call.fun}, "retcode": 0}


class Api:
    """The input is `[method, path, headers, body]`, or whatever a client may write into a connection."""

    def __init__(self, folder: Path) -> None:
        self._site = Site(folder)
        self._loop = asyncio.new_event_loop()
        self._failures: list[BaseException] = []
        self._loop.set_exception_handler(self._failed)
        self._log_exception = Endpoint.log_exception
        setattr(Endpoint, "log_exception", lambda _self, typ, error, trace: self._logged(typ, error, trace))  # noqa: B010
        self._loop.run_until_complete(self._open())

    def seeds(self) -> Sequence[bytes]:
        found = [["GET", path, {"X-Auth-Token": TOKEN, "Accept": TYPES[0]}, ""] for path in PATHS]
        found += [["POST", "/", {"X-Auth-Token": TOKEN, "Content-Type": _type_of(body)}, body] for body in BODIES]
        found += [["POST", path, {"X-Auth-Token": TOKEN, "Content-Type": TYPES[0]}, BODIES[0]] for path in PATHS]
        found += [
            ["POST", path, {"Content-Type": _type_of(body)}, body] for path in ("/login", "/run") for body in BODIES
        ]
        found.append(["GET", "/events", {"X-Auth-Token": TOKEN, "Last-Event-ID": "0"}, ""])
        raw = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        return [*map(packed, found), raw, b"GET / HTTP/1.0\r\n\r\n"]

    def run(self, data: bytes) -> None:
        if self._site.fresh() or not self._logged_in():
            self._loop.run_until_complete(self._close_all())
            self._loop.run_until_complete(self._open())
        self._failures.clear()
        sent = self._request(unpacked(data)) or data
        answer = self._loop.run_until_complete(self._ask(sent))
        status = answer.split(b" ", 2)[1] if answer.startswith(b"HTTP/1.1 ") else b""
        if self._failures:
            raise self._failures[0]
        assert status != b"500", answer[:300]

    def mutate(self, data: bytes, rng: random.Random) -> bytes:
        case = unpacked(data)
        if not isinstance(case, list) or rng.random() < 0.05:
            return mutate_bytes(data, rng)
        if rng.random() < 0.4 and case and isinstance(case[-1], str):
            words = [word for word in WORDS if isinstance(word, str)]
            return packed([*case[:-1], mutate_text(case[-1], rng, words)])
        return packed(mutate_value(case, rng, WORDS))

    def close(self) -> None:
        self._loop.run_until_complete(self._close_all())
        self._loop.close()
        setattr(Endpoint, "log_exception", self._log_exception)  # noqa: B010
        self._site.close()

    def _logged_in(self) -> bool:
        try:
            self._site.master.logins.holder(self._site.store, self._token, self._site.clock.wall())
        except SaltliteError:
            return False
        return True

    async def _open(self) -> None:
        config = ApiConfig()
        link = InsideLink(self._site)
        context = AppContext(config, link, NoRunners(link, "/nowhere", 1.0), Feeds(link))
        for pace in ("requests", "logins", "hooks"):
            setattr(getattr(context, pace), "_per_s", 1e9)  # noqa: B010 - the limits are not what is tried here
        self._server = make_server(context, None)
        login = {"v": 1, "verb": "login", "backend": "pam", "username": "ops", "password": "x"}
        answer = handle_request(self._site.master, STRANGER, login)
        assert answer.login is not None
        self._token = str(answer.login.fields(())["token"])

    async def _close_all(self) -> None:
        await self._server.close_all_connections()
        await self._leave()

    def _request(self, case: Any) -> bytes | None:
        if not isinstance(case, list) or len(case) != 4:
            return None
        method, path, headers, body = case
        content = body if isinstance(body, bytes) else str(body).encode("utf-8", "surrogatepass")
        lines = [f"{method} {path} HTTP/1.1", "Host: x", "Connection: close", f"Content-Length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()] if isinstance(headers, dict) else []
        text = "\r\n".join(lines).replace(TOKEN, self._token) + "\r\n\r\n"
        return text.encode("utf-8", "surrogatepass") + content

    async def _ask(self, sent: bytes) -> bytes:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self._server.handle_stream(IOStream(theirs), ("127.0.0.1", 1))
        loop = asyncio.get_running_loop()
        answer = b""
        try:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(ANSWER_S):
                    await loop.sock_sendall(ours, sent)
                    while len(answer) < 2**20 and (part := await loop.sock_recv(ours, 65536)):
                        answer += part
        finally:
            ours.close()
            await self._leave()
        return answer

    async def _leave(self) -> None:
        """End what this input has begun: jobs that are waited for, streams."""
        await asyncio.sleep(0)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _failed(self, _loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, SaltliteError | asyncio.CancelledError):
            self._failures.append(error)

    def _logged(self, _typ: Any, value: Any, _trace: Any) -> None:
        if not isinstance(value, SaltliteError | HTTPError):
            self._failures.append(value)


def _type_of(body: str) -> str:
    return TYPES[0] if body[:1] in "[{" else TYPES[1] if body[:1] == "-" else TYPES[2]
