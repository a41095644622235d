"""The endpoints of the API, by noun. `PATHS` maps each path to its handler."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tornado.iostream import StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from saltlite import __version__
from saltlite.api import link
from saltlite.api.clients import (
    Clients,
    Lowstate,
    logged_in,
    logged_out,
    read_login,
    read_lowstate,
    read_lowstates,
)
from saltlite.api.console import DOCS_PATHS, START, ConsoleFiles, send
from saltlite.api.endpoint import COOKIE, TOKEN_HEADER, Endpoint, SlowDownError
from saltlite.api.feeds import GZIP_HEAD, Watcher, packed
from saltlite.api.fleet import FLEET_PATHS
from saltlite.api.formats import HTML, BodyError
from saltlite.api.install import INSTALL_PATHS
from saltlite.api.metrics import fleet_metrics
from saltlite.api.openapi import document
from saltlite.api.web_app import send_app
from saltlite.api.wheel import Wheel
from saltlite.config.api import CLIENTS
from saltlite.errors import LoginError, RefusedError, SaltliteError, UnreachableError, UsageError
from saltlite.model.ids import parse_jid, parse_minion_id

log = logging.getLogger(__name__)


LOGINS_MAX = 10
"""Logins of one request."""
STRICT = "handling=strict"
"""The preference of clients that want errors where Salt's API is lenient."""


class Caller(Endpoint):
    """The base of endpoints that run lowstates or log in."""

    def clients(self) -> Clients:
        """The clients that run this request's lowstates."""
        origin = f"API from {self.address}"
        saltgui = self.context.config.saltgui
        return Clients(self.context.link, self.context.runners, origin, strict=self.is_strict, saltgui=saltgui)

    @property
    def is_strict(self) -> bool:
        """Whether the client asks for errors where Salt's API is lenient (RFC 7240)."""
        preferred = self.request.headers.get("Prefer", "").lower().replace(";", ",").split(",")
        return STRICT in (one.strip() for one in preferred)

    def lowstates(self, **fields: Any) -> list[Lowstate]:
        """The lowstates of the body with these fields, all checked before the first one runs. Raises UsageError,
        BodyError."""
        enabled = self.context.config.netapi_enable_clients
        rows = [{**row, **fields} if isinstance(row, dict) else row for row in read_lowstates(self.body())]
        return [read_lowstate(row, enabled, strict=self.is_strict) for row in rows]

    def limit_logins(self) -> None:
        """Raises SlowDownError above the login rate of this address."""
        wait_s = self.context.logins.take(self.address, time.monotonic())
        if wait_s:
            raise SlowDownError("logins from this address", wait_s)

    async def log_in(self, given: Any) -> dict[str, Any]:
        """The master's answer to one login. Raises LoginError, UsageError."""
        fields = read_login(given)
        self.limit_logins()
        return await self.context.link.call("", "login", **fields)


class Root(Caller):
    """/: lowstates with a token."""

    def check_query(self) -> None:
        """A page for browsers reads its parameters itself."""
        if not self._shows_app():
            super().check_query()

    async def get(self) -> None:
        """The enabled clients; for a browser the page of `app`, or the console."""
        if self._shows_app():
            await send_app(self)
            return
        if self.kind == HTML and self.context.config.console:
            send(self, START)
            return
        enabled = self.context.config.netapi_enable_clients
        self.answer({"return": "Welcome", "clients": [name for name in CLIENTS if name in enabled]})

    async def post(self) -> None:
        token = self.token()
        await self.clients().run_each(self.lowstates(), token, self.returned)
        self.answer({"return": self.returned})

    def _shows_app(self) -> bool:
        return self.kind == HTML and self.request.method in ("GET", "HEAD") and bool(self.context.config.app)


class Run(Caller):
    """/run: lowstates, each with its own token or credentials."""

    async def post(self) -> None:
        lowstates = self.lowstates()
        for low in lowstates:
            if not low.token and low.login is None:
                raise LoginError("a lowstate for /run has `token`, or `eauth`, `username` and `password`")
        for low in lowstates:
            if not low.token:
                self.limit_logins()
            token = await logged_in(self.context.link, low)
            try:
                await self.clients().run_each([low], token, self.returned)
            finally:
                if not low.token:
                    await logged_out(self.context.link, token)
        self.answer({"return": self.returned})


class Login(Caller):
    """/login: a name and a password for a token."""

    def get(self) -> None:
        raise LoginError("log in with POST /login: eauth, username and password")

    async def post(self) -> None:
        """Log in. A token or cookie of the request is ignored."""
        given = self.body()
        rows = given if isinstance(given, list) else [given]
        if len(rows) != 1:
            raise UsageError("one login at a time: POST /token takes several")
        answer = await self.log_in(rows[0])
        self.set_header(TOKEN_HEADER, answer["token"])
        secure = not self.context.config.disable_ssl
        self.set_cookie(COOKIE, answer["token"], httponly=True, secure=secure, samesite="Strict", path="/")
        names = ("token", "start", "expire", "user", "eauth", "perms")
        self.answer({"return": [{name: answer[name] for name in names}]})


class Logout(Caller):
    """/logout: revoke the token."""

    async def post(self) -> None:
        await self.context.link.call(self.token(), "logout")
        self.clear_cookie(COOKIE, path="/")
        self.answer({"return": "Your token has been cleared"})


class Token(Caller):
    """/token: tokens for /run, one for each login of the body."""

    async def post(self) -> None:
        given = self.body()
        rows = given if isinstance(given, list) else [given]
        if not 1 <= len(rows) <= LOGINS_MAX:
            raise UsageError(f"one request has 1 to {LOGINS_MAX} logins")
        found = []
        for row in rows:
            answer = await self.log_in(row)
            found.append(
                {"name": answer["user"], **{key: answer[key] for key in ("start", "expire", "eauth", "token")}}
            )
        self.answer(found)


# -- minions, jobs and keys

KEY_FIELDS = frozenset({"mid", "eauth", "username", "password", "sharedsecret"})
"""Fields of the body of POST /keys."""
JOBS_SHOWN = 1000
"""The newest jobs in GET /jobs."""


class Minions(Caller):
    """/minions."""

    async def get(self) -> None:
        """The grains of all minions, by a job."""
        await self.clients().run_each([Lowstate("local", "grains.items", tgt="*")], self.token(), self.returned)
        self.answer({"return": self.returned})

    async def post(self) -> None:
        """Publish jobs without waiting; `client` is always local_async."""
        token = self.token()
        await self.clients().run_each(self.lowstates(client="local_async"), token, self.returned)
        links = [{"href": f"/jobs/{one['jid']}"} for one in self.returned if isinstance(one, dict) and one]
        self.answer({"return": self.returned, "_links": {"jobs": links}}, 202)


class Minion(Caller):
    """/minions/<id>: the grains of one minion, by a job."""

    async def get(self, minion: str) -> None:
        low = Lowstate("local", "grains.items", tgt=minion, tgt_type="list")
        await self.clients().run_each([low], self.token(), self.returned)
        self.answer({"return": self.returned})


class Jobs(Endpoint):
    """/jobs and /jobs/<jid>."""

    async def get(self, jid: str | None = None) -> None:
        """The newest jobs, or one job with its returns."""
        token = self.token()
        if jid is None:
            answer = await self.context.link.call(token, "job_list", limit=JOBS_SHOWN)
            self.answer({"return": [{row["jid"]: _listed(row) for row in answer["jobs"]}]})
            return
        job = (await self.context.link.call(token, "job_show", jid=parse_jid(jid)))["job"]
        returned = await link.returned(self.context.link, token, jid)
        values = {name: row["ret"] for name, row in returned.items()}
        rows = {name: {**row, "return": row["ret"]} for name, row in returned.items()}
        info = {**_listed(job), "jid": jid, "Minions": [row["id"] for row in job["targets"]], "Result": rows}
        if "metadata" in job:
            info["Metadata"] = job["metadata"]
        self.answer({"info": [info], "return": [values]})


def _listed(job: Mapping[str, Any]) -> dict[str, Any]:
    began = datetime.fromtimestamp(job["created_at"], UTC)
    return {
        "Function": job["fun"],
        "Arguments": [argument for call in job.get("calls", ()) for argument in call[1]],
        "Target": job["tgt"],
        "Target-type": job["tgt_type"],
        "User": job["user"],
        "StartTime": began.strftime("%Y, %b %d %H:%M:%S.%f"),
    }


class Keys(Caller):
    """/keys."""

    async def get(self) -> None:
        """The ids of all keys by list."""
        self.answer({"return": await Wheel(self.context.link, self.token()).list_all()})

    async def post(self) -> None:
        """Create a join token for one use by a future minion with this id.

        Salt returns a key pair that the master made and accepted. Here a private key never leaves the machine that made
        it, so a new machine gets the right to join under its id instead.
        """
        given = self.body()
        has_login = isinstance(given, dict) and ("username" in given or "eauth" in given)
        token = "" if has_login else self.token()
        if not isinstance(given, dict) or not KEY_FIELDS.issuperset(given):
            raise UsageError(
                "POST /keys takes mid, the id of a minion, and eauth, username and password without a token"
            )
        if wrong := [field for field, value in given.items() if not isinstance(value, str)]:
            raise UsageError(f"POST /keys: `{wrong[0]}` is not a text")
        name = parse_minion_id(given.get("mid"))
        token = token or (await self.log_in(given))["token"]
        try:
            made = await Wheel(self.context.link, token).token_create(name)
        finally:
            if has_login:
                await logged_out(self.context.link, token)
        self.answer({"return": {"mid": name, **made}})


class Key(Endpoint):
    """/keys/<id>."""

    async def get(self, minion: str) -> None:
        """The fingerprints of the keys of one id, by list, as Salt spells them."""
        self.answer({"return": await Wheel(self.context.link, self.token()).finger_of(minion)})


# -- webhooks: requests of other programs become events

HOOK_MAX = 64 * 1024
"""Bytes of a webhook's body, which is stored as an event."""
_SECRET = {"authorization", "cookie", "proxy-authorization", TOKEN_HEADER.lower()}
"""Headers that are removed from events."""


class Hook(Endpoint):
    """/hook and /hook/<anything>: an event `salt/netapi/hook/<path>` of the body."""

    async def post(self, path: str | None = None) -> None:
        token = "" if self.context.config.webhook_disable_auth else self.token()
        wait_s = self.context.hooks.take("", time.monotonic())
        if wait_s:
            raise SlowDownError("hooks", wait_s)
        if len(self.request.body) > HOOK_MAX:
            raise BodyError(f"the body of a hook has at most {HOOK_MAX} bytes", 413)
        headers = {name: value for name, value in self.request.headers.items() if name.lower() not in _SECRET}
        try:
            await self.context.link.call(
                token,
                "hook",
                path=(path or "").strip("/"),
                data={"headers": headers, "body": self._body(), "post": self._form()},
            )
        except (LoginError, RefusedError):
            # Callers without rights must not use up the rate of others.
            self.context.hooks.give_back("")
            raise
        self.answer({"success": True})

    def _body(self) -> Any:
        """The value of a JSON or YAML body, else its text."""
        try:
            return self.body() if self.request.body else ""
        except BodyError:
            return self.request.body.decode("utf-8", "replace")

    def _form(self) -> dict[str, Any]:
        """The fields of a form."""
        found = self._body()
        is_form = self.request.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded")
        return found if is_form and isinstance(found, dict) else {}


# -- the API itself


class _Figures(Endpoint):
    """The base of /stats and /metrics."""

    async def check_access(self) -> None:
        """Raises LoginError without a valid token, unless `stats_disable_auth` is set."""
        if not self.context.config.stats_disable_auth:
            await self.context.link.call(self.token(), "whoami")

    def gauges(self) -> dict[str, float]:
        """Current values."""
        return {
            "connections": len(self.context.connections),
            "event_watchers": self.context.feeds.watchers,
            "uptime_seconds": time.time() - self.context.metrics.started_at,
        }


class Stats(_Figures):
    """/stats: figures as a value."""

    async def get(self) -> None:
        """Counts of requests by endpoint and status."""
        await self.check_access()
        metrics = self.context.metrics
        requests: dict[str, dict[str, int]] = {}
        for (endpoint, _method, status), count in sorted(metrics.requests.items()):
            row = requests.setdefault(endpoint, {})
            row[str(status)] = row.get(str(status), 0) + count
        self.answer({"saltlite-api": {"version": __version__, "requests": requests, **self.gauges()}})


METRICS_KEPT_S = 5.0
"""How long callers without a login get the same figures of the fleet, so that they cost the master little."""


class Prometheus(_Figures):
    """/metrics: figures for Prometheus."""

    def streams(self) -> bool:
        """The format is that of Prometheus, whatever Accept says."""
        return True

    async def get(self) -> None:
        """Figures of the API, and of the fleet for callers with the right to `manage.status`."""
        await self.check_access()
        text = self.context.metrics.exposed(self.gauges())
        with contextlib.suppress(RefusedError):
            text += await self._of_the_fleet()
        self.set_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.finish(text)

    async def _of_the_fleet(self) -> str:
        # Without a login the API asks as its own user, to whom publisher_acl of the master may grant the right.
        token = "" if self.context.config.stats_disable_auth else self.token()
        known, now = self.context.fleet_metrics, time.monotonic()
        if not token and known is not None and now - known[0] < METRICS_KEPT_S:
            return known[1]
        try:
            text = fleet_metrics(await self.context.link.call(token, "status", brief=True))
        except UnreachableError:
            return fleet_metrics(None)
        if not token:
            self.context.fleet_metrics = now, text
        return text


class Openapi(Endpoint):
    """/openapi.json: the OpenAPI document, without a login."""

    def get(self) -> None:
        self.answer(document())


# -- events: /events (server-sent events) and /ws (a WebSocket)

RETRY_MS = 400
"""Salt's value: the pause before a watcher reconnects."""
QUIET = b": quiet\n\n"
"""A comment, so that proxies and firewalls keep a connection without events."""
READY = "websocket client ready"
"""The first message of a client of /ws, as in Salt."""
READY_MAX_S = 30.0
_CURSOR_DIGITS = 18


class Events(Endpoint):
    """/events: events from now on, or after Last-Event-ID, until the token ends.

    Events of jobs have arguments, targets and returns as in Salt, unless `returns=false`. With `tag`, only events with
    this part in their tag.
    """

    QUERY = frozenset({"returns", "tag"})
    ENDLESS = True

    def streams(self) -> bool:
        """The format is text/event-stream."""
        return True

    _watcher: Watcher | None = None

    async def get(self) -> None:
        """Send events for as long as the caller reads them."""
        after, tag = self._cursor(), self.get_query_argument("tag", "")
        async with self.context.feeds.watch(self.token(), after, returns=self._returns()) as watcher:
            self._watcher = watcher
            packs = _takes_gzip(self.request.headers.get("Accept-Encoding", ""))
            self.set_header("Content-Type", "text/event-stream; charset=utf-8")
            self.set_header("X-Accel-Buffering", "no")
            self.set_header("Vary", "Origin, Accept-Encoding")
            begin = b"retry: %d\n\n" % RETRY_MS
            if packs:
                self.set_header("Content-Encoding", "gzip")
                begin = GZIP_HEAD + packed(begin)
            with contextlib.suppress(StreamClosedError):
                self.write(begin)
                await self.flush()
                await self._send_all(watcher, tag, packs)
        if not self._finished:
            self.finish()

    async def _send_all(self, watcher: Watcher, tag: str, packs: bool) -> None:
        quiet = packed(QUIET) if packs else QUIET
        try:
            while True:
                batch = await watcher.next()
                if watcher.closed:
                    return
                wanted = batch and batch.tagged(tag)
                self.write(quiet if wanted is None else wanted.packed if packs else wanted.text)
                # The next batch is taken when this one was sent.
                await self.flush()
        except SaltliteError as error:
            # The status was already sent; the caller reconnects and gets the error then.
            log.info("a stream of events has ended: %s", error)

    def on_connection_close(self) -> None:
        """Called by tornado when the caller has gone."""
        super().on_connection_close()
        if self._watcher is not None:
            self._watcher.close()

    def _returns(self) -> bool:
        given = self.get_query_argument("returns", "true")
        if given not in ("true", "false"):
            raise UsageError("`returns` is true or false")
        return given == "true"

    def _cursor(self) -> int | None:
        text = self.request.headers.get("Last-Event-ID", "").strip()
        if not text:
            return None
        if not (text.isascii() and text.isdigit()) or len(text) > _CURSOR_DIGITS:
            raise UsageError("Last-Event-ID is the number of an event, as the lines `id:` have them")
        return int(text)


def _takes_gzip(accepted: str) -> bool:
    """Whether Accept-Encoding names gzip, and does not refuse it."""
    for one in accepted.lower().split(","):
        name, _, weight = one.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "").rstrip("0.") != "q="
    return False


class Ws(WebSocketHandler, Endpoint):
    """/ws: events as messages of a WebSocket, after the client has sent READY."""

    QUERY = frozenset({"format_events"})
    ENDLESS = True

    _sending: asyncio.Task[None] | None = None
    _given: str = ""
    _stream: Any = None
    _late: asyncio.TimerHandle | None = None

    def streams(self) -> bool:
        """Messages have a format of their own."""
        return True

    def check_origin(self, origin: str) -> bool:
        """Only this origin and configured ones: a foreign page could use the cookie of its visitor."""
        return origin in self.context.config.cors_origins or super().check_origin(origin)

    async def get(self, *path: str) -> None:
        """Check the token, then open the WebSocket."""
        if any(path):
            raise UsageError("a token in the URL would be logged: send it in the header X-Auth-Token")
        self._given = self.token()
        connection: Any = self.request.connection
        self._stream = connection.stream
        await self.context.link.call(self._given, "whoami")
        await super().get()

    def open(self, *_path: str) -> None:
        """Called by tornado after the handshake."""
        self._late = asyncio.get_running_loop().call_later(READY_MAX_S, self._refuse_silent)

    def _refuse_silent(self) -> None:
        if self._sending is None:
            self.close(1008, f"send: {READY}")

    def on_message(self, message: str | bytes) -> None:
        """Start sending at the first READY."""
        if message == READY and self._sending is None:
            self._sending = asyncio.ensure_future(self._send())
        elif message != READY:
            self.close(1003, f"send: {READY}")

    def on_close(self) -> None:
        """Called by tornado at the end, perhaps before the handshake is over."""
        self.context.connections.remove(self._stream)
        if self._late is not None:
            self._late.cancel()
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self) -> None:
        try:
            async with self.context.feeds.watch(self._given, None) as watcher:
                while True:
                    batch = await watcher.next()
                    for event in batch.events if batch is not None else ():
                        await self.write_message(b"data: %s\n\n" % event.data)
        except LoginError as error:
            self.close(1008, str(error)[:100])
        except SaltliteError as error:
            self.close(1013, str(error)[:100])
        except (WebSocketClosedError, StreamClosedError):
            pass


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
    **FLEET_PATHS,
    **DOCS_PATHS,
    **INSTALL_PATHS,
    r"/console(?:/(.*))?": ConsoleFiles,
    r"/stats": Stats,
    r"/metrics": Prometheus,
    r"/openapi\.json": Openapi,
}
"""Path -> endpoint."""
