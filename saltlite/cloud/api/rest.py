"""JSON over HTTPS with a deadline, for drivers of providers that have no client library.

    api = Rest("https://api.example.com/v2", "Example", headers={"Authorization": f"Bearer {token}"})
    api.get("machines", {"page": 1})

Certificates are always verified, against the authorities of this host or of SSL_CERT_FILE. Proxies come from the
environment (HTTPS_PROXY, NO_PROXY). Redirects are not followed, because they would send the credentials in the headers
to another host. Plain `http:` is accepted for loopback addresses only.

GET, PUT and DELETE are repeated after every transient fault. A POST is repeated only if it certainly was not carried
out: the provider refused it for its rate (429), or no connection was made. The waits double, have jitter, and follow
Retry-After. A socket timeout covers one read only, so every read of an answer is also bounded by the deadline.
"""

from __future__ import annotations

import http.client
import io
import json
import random
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from saltlite.cloud.api.exceptions import SaltCloudExecutionFailure


class PastDeadlineError(Exception):
    """The answer was not complete at the deadline. Not an OSError, which callers would treat as a transient fault."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When an answer must be complete, in seconds of `clock`, and the time limit of each read."""

    at: float
    silence_s: float
    clock: Callable[[], float]

    def wait_s(self) -> float:
        """The time limit of the next read. Raises PastDeadlineError after the deadline."""
        left = self.at - self.clock()
        if left <= 0:
            raise PastDeadlineError
        return min(self.silence_s, left)


class TimedRequest(urllib.request.Request):
    """A request with a deadline, for `opener_of`."""

    def __init__(self, address: str, *, data: bytes | None, method: str, deadline: Deadline) -> None:
        super().__init__(address, data=data, method=method)
        self.deadline = deadline


def opener_of(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """The opener of TimedRequests. Certificates are verified, by this host's authorities or those of SSL_CERT_FILE."""
    return urllib.request.build_opener(_Plain(), _Protected(context=ssl.create_default_context()), *handlers)


class _Plain(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_timed(http.client.HTTPConnection, req), req)


class _Protected(urllib.request.HTTPSHandler):
    def __init__(self, *, context: ssl.SSLContext) -> None:
        super().__init__(context=context)
        self._own_context = context

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_timed(http.client.HTTPSConnection, req), req, context=self._own_context)


def _timed(kind: type[http.client.HTTPConnection], request: urllib.request.Request) -> Any:
    """The class of connections whose answers are read up to the deadline of the request."""
    assert isinstance(request, TimedRequest)  # noqa: S101 - only redirects would make others, and are not followed
    deadline = request.deadline

    class Answer(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *rest: Any, **more: Any) -> None:
            super().__init__(sock, *rest, **more)
            self.fp = io.BufferedReader(_Pieces(self.fp.detach(), sock, deadline))

    class Connection(kind):  # type: ignore[valid-type,misc]  # which of the two is known to the caller
        response_class = Answer

    return Connection


class _Pieces(io.RawIOBase):
    """Reads from a socket up to the deadline."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: Deadline) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        self._sock.settimeout(self._deadline.wait_s())
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            # Raises PastDeadlineError if it was the deadline that shortened the time limit.
            self._deadline.wait_s()
            raise

    def close(self) -> None:
        self._raw.close()
        super().close()


SILENCE_S = 30.0
"""The time limit of a connection and of each read, in seconds."""
TOTAL_S = 120.0
"""The time limit of one request with all its attempts and waits, in seconds."""
ATTEMPTS = 5
FIRST_WAIT_S = 0.5
BODY_BYTES_MAX = 32 << 20
"""The largest accepted answer."""

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_PIECE = 1 << 16
_SECONDS = re.compile(r"[0-9]{1,9}")
_TEXT_MAX = 300


class RestError(SaltCloudExecutionFailure):
    """A failed request. `status` is the HTTP status, 0 without an answer; `unclear`: a request that changes something
    may have been carried out nevertheless.
    """

    def __init__(self, text: str, *, status: int = 0, unclear: bool = False) -> None:
        super().__init__(text)
        self.status = status
        self.unclear = unclear


class _Fault(Exception):  # noqa: N818 - of one attempt; only the last one becomes an error
    """A failed attempt, and whether it may be repeated."""

    def __init__(
        self, text: str, *, status: int = 0, passing: bool = False, carried_out: bool = True, wait_s: float = 0.0
    ) -> None:
        """`carried_out`: the request may have been carried out; `wait_s`: the provider's Retry-After."""
        super().__init__(text)
        self.status = status
        self.passing = passing
        self.carried_out = carried_out
        self.wait_s = wait_s

    def error(self, method: str) -> RestError:
        return RestError(str(self), status=self.status, unclear=self.carried_out and method != "GET")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_asked: Any, **_more: Any) -> None:
        """Returning None makes the redirect itself the answer, and its status an error."""


class _TooMuchError(Exception):
    """An answer above BODY_BYTES_MAX."""


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Rest:
    """The API of one provider. It is thread-safe."""

    def __init__(
        self,
        root: str,
        provider: str,
        *,
        headers: Mapping[str, str],
        silence_s: float = SILENCE_S,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`root` is the address of the API, `provider` its name in messages; `headers` are sent with every request.

        Raises RestError for an address to which credentials must not be sent.
        """
        parts = urllib.parse.urlsplit(root)
        here = parts.hostname in _LOOPBACK
        if parts.scheme not in ({"http", "https"} if here else {"https"}) or not parts.hostname:
            raise RestError(f"{root!r} is not an address of an API: it must begin with https://")
        self._root = root.rstrip("/")
        self._provider = provider
        self._headers = dict(headers)
        self._silence_s = silence_s
        self._sleep = sleep
        self._clock = clock
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if here:
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = opener_of(*handlers)

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """The data of the answer to a GET. Raises RestError."""
        return self._ask("GET", path, params=params)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The data of the answer to a POST of `body` as JSON. Raises RestError."""
        return self._ask("POST", path, body=body)

    def delete(self, path: str) -> Any:
        """The data of the answer to a DELETE, usually None. Raises RestError."""
        return self._ask("DELETE", path)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        deadline = Deadline(self._clock() + TOTAL_S, self._silence_s, self._clock)
        wait_s = FIRST_WAIT_S
        attempt = 1
        while True:
            try:
                return self._attempt(self._request(method, path, params, body, deadline))
            except _Fault as fault:
                again = fault.passing and (method in _REPEATABLE or not fault.carried_out)
                pause_s = max(fault.wait_s, wait_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load only
                if not again or attempt == ATTEMPTS or self._clock() + pause_s > deadline.at:
                    raise fault.error(method) from fault.__cause__
            self._sleep(pause_s)
            wait_s *= 2
            attempt += 1

    def _request(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        deadline: Deadline,
    ) -> TimedRequest:
        address = f"{self._root}/{path.lstrip('/')}"
        if params:
            address += "?" + urllib.parse.urlencode(params)
        sent = None if body is None else json.dumps(body).encode()
        request = TimedRequest(address, data=sent, method=method, deadline=deadline)
        request.add_header("Accept", "application/json")
        request.add_header("User-Agent", "saltlite")
        if sent is not None:
            request.add_header("Content-Type", "application/json")
        for name, value in self._headers.items():
            request.add_unredirected_header(name, value)
        return request

    def _attempt(self, request: TimedRequest) -> Any:
        """The data of the answer. Raises _Fault."""
        try:
            with self._opener.open(request, timeout=request.deadline.wait_s()) as answer:
                return self._data(self._read(answer), answer.headers.get_content_type())
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error) from None
        except PastDeadlineError:
            raise _Fault(f"{self._provider} is not done answering after {TOTAL_S:g} s") from None
        except _TooMuchError as error:
            raise _Fault(f"{self._provider} {error}") from None
        except (OSError, http.client.HTTPException) as error:
            raise self._silence(error) from error

    def _read(self, answer: _Readable) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := answer.read(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > BODY_BYTES_MAX:
                raise _TooMuchError(f"answers with more than {BODY_BYTES_MAX >> 20} MiB")
        return b"".join(pieces)

    def _data(self, body: bytes, kind: str) -> Any:
        if not body:
            return None
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            text = f"{self._provider} answers with {len(body)} bytes of {kind} that are no JSON"
            raise _Fault(f"{text}: is its address right?") from None

    def _refusal(self, error: urllib.error.HTTPError) -> _Fault:
        """The error of an answer with an error status."""
        status = error.code
        try:
            detail = _message(self._read(error))
        except (_TooMuchError, PastDeadlineError, OSError, http.client.HTTPException):
            detail = ""
        wait_s = _retry_after(error.headers.get("Retry-After"))
        sentence = _MEANINGS.get(status, "refuses" if status < 500 else "has an internal error").format(
            wait=f", for {wait_s:g} s more" if wait_s else ""
        )
        return _Fault(
            f"{self._provider} {sentence} (HTTP {status})" + (f": {detail}" if detail else ""),
            status=status,
            passing=status in _PASSING,
            carried_out=status >= 500 or status == 408,
            wait_s=wait_s,
        )

    def _silence(self, error: Exception) -> _Fault:
        """The error of a missing answer."""
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        host = urllib.parse.urlsplit(self._root).netloc
        if isinstance(reason, ssl.SSLCertVerificationError):
            text = f"{host} shows a certificate that is not trusted here ({reason.verify_message}); nothing was sent"
            return _Fault(f"{self._provider}: {text}", carried_out=False)
        if isinstance(reason, TimeoutError):
            return _Fault(f"{self._provider} did not answer for {self._silence_s:g} s: is {host} up?", passing=True)
        never = isinstance(reason, ConnectionRefusedError | socket.gaierror)
        why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        return _Fault(f"{self._provider} cannot be reached at {host}: {why}", passing=True, carried_out=not never)


_MEANINGS: Mapping[int, str] = {
    401: "does not know these credentials: are the token and the account right?",
    403: "does not allow that to these credentials",
    404: "knows nothing of the sort",
    422: "cannot do that as it was asked",
    429: "says that it is asked too often{wait}",
    503: "is not available{wait}",
}


def _message(body: bytes) -> str:
    """The message in the body of an error: under `message`, `error` or `detail`, possibly nested."""
    try:
        detail = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    while isinstance(detail, dict):
        detail = next((detail[key] for key in ("message", "error", "detail") if detail.get(key)), None)
    if not isinstance(detail, str):
        return ""
    text = "".join(letter if letter.isprintable() else " " for letter in detail).strip()
    return text if len(text) <= _TEXT_MAX else text[:_TEXT_MAX] + "…"


def _retry_after(text: str | None) -> float:
    """The seconds of a Retry-After header; 0 without one, and for a date, because clocks may differ."""
    found = _SECONDS.fullmatch(text.strip()) if text else None
    return float(found[0]) if found else 0.0
