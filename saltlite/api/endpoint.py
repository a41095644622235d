"""What all endpoints share: authentication, rate limits, formats, errors, and the metrics of the API itself."""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import re
import time
from collections.abc import Callable, Coroutine
from dataclasses import field
from typing import Any

from tornado.web import HTTPError, RequestHandler

from saltlite.api.clients import Runners
from saltlite.api.documentation import Documentation
from saltlite.api.feeds import Feeds
from saltlite.api.formats import JSON, BodyError, answer_type, content_type, parsed, rendered, rendered_error
from saltlite.api.link import NO_TOKEN, MasterLink
from saltlite.api.metrics import Metrics
from saltlite.api.runner_calls import FollowedCalls
from saltlite.config.api import ApiConfig
from saltlite.errors import (
    LoginError,
    NoTargetError,
    RefusedError,
    SaltliteError,
    UnreachableError,
    UsageError,
)
from saltlite.limits import ConnectionLimiter, RateLimiter, network_of
from saltlite.model.dataclass import dataclass

log = logging.getLogger(__name__)

COOKIE = "session_id"
"""Salt's name."""
TOKEN_HEADER = "X-Auth-Token"  # noqa: S105 - the name of a header
BURST_S = 10.0
"""Seconds of the allowed rate that may arrive at once."""
RETRY_MAX_S = 3600

_TOKEN = re.compile(r"[0-9a-zA-Z._-]{1,200}", re.ASCII)
_SENTENCES = {
    404: "there is no such path: GET /openapi.json lists the paths",
    405: "this path does not take this method: GET /openapi.json lists its methods",
    413: "the body is too large",
}


class SlowDownError(SaltliteError):
    """A rate limit was exceeded."""

    def __init__(self, what: str, wait_s: float) -> None:
        super().__init__(f"too many {what}: try again in {max(1, math.ceil(wait_s))}s")
        self.wait_s = wait_s


SHARED_S = 1.0
"""How long callers who may see the same get the same answer."""
SHARED_MAX = 64


class SharedAnswers:
    """Answers about the jobs that callers may see, by view: many consoles ask for them at the same moment."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, asyncio.Future[Any]]] = {}

    async def get(self, view: str, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """The answer to `ask`, or that of another caller with this view in the last SHARED_S; "" means no view."""
        if not view:
            return await ask()
        now = time.monotonic()
        known = self._kept.get(view)
        if known is None or now - known[0] >= SHARED_S:
            self._kept = {name: one for name, one in self._kept.items() if now - one[0] < SHARED_S}
            if len(self._kept) >= SHARED_MAX:
                return await ask()
            known = self._kept[view] = now, asyncio.ensure_future(ask())
            return await known[1]
        try:
            return await asyncio.shield(known[1])
        except (SaltliteError, asyncio.CancelledError):
            if not known[1].done():
                raise  # this caller has gone
            # The error is that of the other caller.
            return await ask()


@dataclass(slots=True)
class AppContext:
    """The state that all endpoints share."""

    config: ApiConfig
    link: MasterLink
    runners: Runners
    feeds: Feeds
    metrics: Metrics = field(default_factory=Metrics)
    documentation: Documentation = field(default_factory=Documentation)
    shared: SharedAnswers = field(default_factory=SharedAnswers)
    runner_calls: FollowedCalls = field(default_factory=FollowedCalls)
    fleet_metrics: tuple[float, str] | None = None
    """When the figures of the fleet were asked for without a login, and their text."""
    requests: RateLimiter = field(init=False)
    logins: RateLimiter = field(init=False)
    hooks: RateLimiter = field(init=False)
    connections: ConnectionLimiter[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.connections = ConnectionLimiter(
            self.config.connections_max, self.config.connections_per_address, displaces=False
        )
        self.requests = RateLimiter(self.config.requests_per_address, self.config.requests_per_address * BURST_S)
        self.logins = RateLimiter(self.config.logins_per_address / 60, self.config.logins_per_address)
        self.hooks = RateLimiter(self.config.webhooks_per_second, self.config.webhooks_per_second * BURST_S)


def status_of(error: SaltliteError) -> int:
    """The HTTP status of an error."""
    match error:
        case BodyError():
            return error.status
        case SlowDownError():
            return 429
        case LoginError():
            return 401
        case RefusedError():
            return 403
        case UsageError() | NoTargetError():
            return 400
        case UnreachableError():
            return 503
    return 502  # the master failed, for example because its disk is full


class Endpoint(RequestHandler):
    """The base of all endpoints. `QUERY` names the parameters that the URL may have."""

    QUERY: frozenset[str] = frozenset()
    ENDLESS = False
    """Whether GET streams for as long as the caller reads; then there is no HEAD."""

    context: AppContext
    kind: str

    def initialize(self, context: AppContext) -> None:
        """Called by tornado for each request."""
        self.context = context
        self.kind = JSON
        self.returned: list[Any] = []
        """Results of the request so far: an error of a later part does not hide them."""

    def set_default_headers(self) -> None:
        """Called by tornado first, and again before an error is written."""
        self.set_header("Server", "saltlite-api")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")

    def prepare(self) -> None:
        """Called by tornado before the method: checks format, origin, rate and parameters."""
        kind = answer_type(self.request.headers.get("Accept", ""))
        self.kind = kind or JSON
        self._allow_origin()
        wait_s = self.context.requests.take(self.address, time.monotonic())
        if wait_s:
            raise SlowDownError("requests from this address", wait_s)
        if kind is None and not self.streams():
            raise BodyError("the answer is application/json or application/x-yaml; Accept allows neither", 406)
        self.check_query()

    def check_query(self) -> None:
        """Raises UsageError if the URL has parameters that are not in QUERY."""
        unknown = {name for name in self.request.query_arguments if name not in self.QUERY}
        if unknown or (self.request.query and not self.request.query_arguments and not self.QUERY):
            raise UsageError("this path takes no parameters in its URL; send a token in the header X-Auth-Token")

    def streams(self) -> bool:
        """Whether the answer has its own format, whatever Accept says."""
        return False

    @property
    def address(self) -> str:
        """The caller's network, to which limits apply."""
        return network_of(self.request.remote_ip or "")

    def token(self) -> str:
        """The caller's token, from its header, from `Authorization: Bearer`, or from the cookie. Raises LoginError.

        A foreign page can make its visitor's browser send the cookie. It is accepted for reads, whose answer the page
        cannot see, and from pages of this origin, which browsers name in a header that no page can set.
        """
        given = self.request.headers.get(TOKEN_HEADER, "")
        kind, _, bearer = self.request.headers.get("Authorization", "").partition(" ")
        if not given and kind.lower() == "bearer":
            given = bearer.strip()
        if not given and (
            self.request.method in ("GET", "HEAD") or self.request.headers.get("Sec-Fetch-Site") == "same-origin"
        ):
            given = self.get_cookie(COOKIE) or ""
        if not _TOKEN.fullmatch(given):
            raise LoginError(NO_TOKEN)
        return str(given)

    def compute_etag(self) -> str | None:
        """None: answers are not cached."""
        return None

    def body(self) -> Any:
        """The body's value. Raises BodyError."""
        return parsed(self.request.body, self.request.headers.get("Content-Type", ""))

    def answer(self, value: Any, status: int = 200) -> None:
        """Send a value in the requested format."""
        self.set_status(status)
        self.set_header("Content-Type", content_type(self.kind))
        self.finish(rendered(value, self.kind))

    async def head(self, *path: str) -> None:
        """GET without its body, which tornado drops; not for streams."""
        get: Any = self.get
        if "HEAD" not in _methods(type(self)):
            raise HTTPError(405)
        answer = get(*path)
        if answer is not None:
            await answer

    def options(self, *_path: str) -> None:
        """CORS preflight, without a login."""
        self.set_header("Allow", ", ".join(_methods(type(self))))
        self.set_status(204)
        self.finish()

    def _allow_origin(self) -> None:
        origin = self.request.headers.get("Origin", "")
        self.set_header("Vary", "Origin")
        if origin and any(
            hmac.compare_digest(origin.encode(), one.encode()) for one in self.context.config.cors_origins
        ):
            self.set_header("Access-Control-Allow-Origin", origin)
            self.set_header(
                "Access-Control-Allow-Headers", f"{TOKEN_HEADER}, Content-Type, Accept, Prefer, Last-Event-ID"
            )
            self.set_header("Access-Control-Allow-Methods", ", ".join(_methods(type(self))))
            self.set_header("Access-Control-Expose-Headers", TOKEN_HEADER)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Called by tornado for an exception."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, SaltliteError):
            status, sentence = status_of(error), str(error)
        else:
            status, sentence = status_code, _SENTENCES.get(status_code, self._reason)
        self.set_status(status)
        if isinstance(error, SlowDownError):
            self.set_header("Retry-After", str(min(RETRY_MAX_S, max(1, math.ceil(error.wait_s)))))
        if status == 401:
            self.set_header("WWW-Authenticate", 'Session realm="saltlite"')
        if status == 405:
            self.set_header("Allow", ", ".join(_methods(type(self))))
        self._allow_origin()
        body, kind = rendered_error(sentence, status, self.kind, self.returned)
        self.set_header("Content-Type", kind)
        self.finish(body)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log defects with their traceback, and expected errors as one line."""
        if isinstance(value, SaltliteError | HTTPError):
            log.info("%s %s: %s", self.request.method, self.request.path, value)
        else:
            log.error("%s %s", self.request.method, self.request.path, exc_info=(typ, value, tb))

    def on_finish(self) -> None:
        """Called by tornado when the answer was sent."""
        self.context.metrics.answered(
            type(self).__name__.lower(), str(self.request.method), self.get_status(), self.request.request_time()
        )


class NotFound(Endpoint):
    """All other paths: 404."""

    def prepare(self) -> None:
        """Raises 404."""
        super().prepare()
        raise HTTPError(404)


def _methods(kind: type[Endpoint]) -> list[str]:
    named = ("GET", "POST")
    own = [name for name in named if getattr(kind, name.lower()) is not getattr(RequestHandler, name.lower())]
    return [*own, *(["HEAD"] if "GET" in own and not kind.ENDLESS else []), "OPTIONS"]
