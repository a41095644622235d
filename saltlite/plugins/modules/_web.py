"""One HTTP request with limits of time and size, for `http` and `cp`.

Redirects carry no password to another server, and only HTTP and HTTPS are used. Imported on the first request (40 ms).
urllib3 would not shorten it: it replaces about 60 of these lines, has no limit for the total time or for unpacked size,
and forwards unknown headers on redirects.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from saltlite.errors import SaltInvocationError

REDIRECTS_MAX = 5

_BLOCK = 65_536
_WITHOUT_BODY = frozenset({204, 304})
_OF_THE_BODY = frozenset({"host", "content-length", "content-type"})
_FOR_ALL = frozenset({"accept", "accept-charset", "accept-encoding", "accept-language", "user-agent"})
"""Headers for other servers; any other may be a secret, such as `X-Api-Key`."""


class NoAnswerError(Exception):
    """There is no complete answer; the message is the reason."""


class Limits(NamedTuple):
    """Seconds to connect, seconds in total, and bytes of the unpacked answer."""

    connect_s: float
    whole_s: float
    body_bytes: int


class Answer(NamedTuple):
    """An answer; header names are in lower case, repeated headers are joined by commas."""

    status: int
    reason: str
    headers: dict[str, str]
    charset: str
    body: bytes


class Download(NamedTuple):
    """The begin of an answer, whose body is an iterator; header names are as in `Answer`."""

    status: int
    reason: str
    headers: dict[str, str]
    blocks: Iterator[bytes]


class Transport(NamedTuple):
    """How to reach a server: a factory of the TLS context (loading authorities takes 20 ms), the proxy (a URL or
    empty), and handlers of cookies."""

    tls: Callable[[], ssl.SSLContext]
    proxy: str = ""
    more: Iterable[urllib.request.BaseHandler] = ()


def send(
    url: str, method: str, data: bytes | None, headers: Mapping[str, str], *, transport: Transport, limits: Limits
) -> Answer:
    """Send a request and return the answer with any status.

    Raises SaltInvocationError for an invalid request, NoAnswerError without a complete answer.
    """
    with _exchange(url, method, data, headers, transport=transport, limits=limits) as exchange:
        return _answer(exchange)


@contextlib.contextmanager
def download(url: str, headers: Mapping[str, str], *, transport: Transport, limits: Limits) -> Iterator[Download]:
    """Request a file; its blocks are read within the context. Raises as `send` does, also while blocks are read."""
    with _exchange(url, "GET", None, headers, transport=transport, limits=limits) as exchange:
        stream = exchange.stream
        yield Download(_status(stream), str(stream.reason), _joined(stream.headers), _blocks(exchange))


class _Exchange(NamedTuple):
    """An answer that is being read."""

    method: str
    stream: Any
    limits: Limits
    is_over: Callable[[], bool]

    def length(self) -> int | None:
        """The announced bytes of the body; None if they are unknown."""
        if self.method == "HEAD" or _status(self.stream) in _WITHOUT_BODY:
            return 0  # a length is that of the body of another answer
        text = self.stream.headers.get("Content-Length", "")
        return int(text) if text.isdecimal() else None


@contextlib.contextmanager
def _exchange(
    url: str, method: str, data: bytes | None, headers: Mapping[str, str], *, transport: Transport, limits: Limits
) -> Iterator[_Exchange]:
    until = time.monotonic() + limits.whole_s
    connections: list[http.client.HTTPConnection] = []
    over = threading.Event()

    def cut() -> None:
        over.set()
        for connection in connections:
            with contextlib.suppress(OSError):
                if connection.sock:
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def is_over() -> bool:
        return over.is_set() or time.monotonic() > until

    timer = threading.Timer(limits.whole_s, cut)
    timer.daemon = True
    timer.start()
    try:
        with _reasons(is_over, limits):
            request = urllib.request.Request(url, data=data, method=method)  # noqa: S310 - the opener has no other scheme
            for name, value in headers.items():
                request.add_unredirected_header(name, value)
            with _opened(request, transport, connections, min(limits.connect_s, limits.whole_s)) as stream:
                _raise_if(over.is_set())  # an answer that was cut off in its headers looks like an empty one
                yield _Exchange(method, stream, limits, is_over)
                _raise_if(over.is_set())
    finally:
        timer.cancel()


@contextlib.contextmanager
def _reasons(is_over: Callable[[], bool], limits: Limits) -> Iterator[None]:
    """Turn errors of the connection into sentences."""
    try:
        yield
    except (http.client.InvalidURL, UnicodeError, ValueError) as error:
        if isinstance(error, SaltInvocationError):
            raise
        raise SaltInvocationError(f"This is not a valid HTTP request: {error}") from error
    except (OSError, http.client.HTTPException, EOFError) as error:
        if is_over():
            raise NoAnswerError(f"There was no whole answer within {limits.whole_s:g} s.") from error
        raise NoAnswerError(_reason(error)) from error


def tls_context(ca_bundle: Any, verify: Any, cert: Any) -> ssl.SSLContext:
    """How servers are verified: with `verify` False not at all. Raises SaltInvocationError."""
    try:
        context = ssl.create_default_context(cafile=str(ca_bundle) if ca_bundle else None)
        if verify is False:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if cert:
            context.load_cert_chain(*([str(each) for each in cert] if isinstance(cert, list | tuple) else [str(cert)]))
    except (OSError, ValueError) as error:
        raise SaltInvocationError(f"ca_bundle or cert cannot be used: {error}") from error
    return context


def proxy_for(url: str, options: Mapping[str, Any]) -> str:
    """The URL of the proxy that the minion's options name for this server, or an empty text."""
    host, port = options.get("proxy_host"), options.get("proxy_port")
    if not host or not port or urlsplit(url).hostname in (options.get("no_proxy") or ()):
        return ""
    login = ""
    if options.get("proxy_username") and options.get("proxy_password"):
        login = f"{quote(str(options['proxy_username']), '')}:{quote(str(options['proxy_password']), '')}@"
    return f"http://{login}{host}:{port}"


def without_login(url: str) -> tuple[str, str, str]:
    """The URL without credentials, and these: the name and the password, decoded."""
    scheme, mark, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    login, at, host = place.rpartition("@")
    if not (mark and at):
        return url, "", ""
    name, _, secret = login.partition(":")
    return f"{scheme}{mark}{host}{slash}{path}", unquote(name), unquote(secret)


def basic_login(name: str, secret: str) -> str:
    """The header `Authorization` of a name and a password."""
    return f"Basic {base64.b64encode(f'{name}:{secret}'.encode()).decode()}"


def _raise_if(late: bool) -> None:
    if late:
        raise TimeoutError


@contextlib.contextmanager
def _opened(
    request: urllib.request.Request, transport: Transport, connections: list[http.client.HTTPConnection], timeout: float
) -> Iterator[Any]:
    opener = urllib.request.OpenerDirector()
    opener.addheaders = []
    proxies = {"http": transport.proxy, "https": transport.proxy} if transport.proxy else {}
    for handler in (
        urllib.request.ProxyHandler(proxies), _Plain(connections), _Protected(connections, transport.tls), _Redirects(),
        urllib.request.HTTPDefaultErrorHandler(), urllib.request.HTTPErrorProcessor(), _NoOther(), *transport.more,
    ):  # fmt: skip
        opener.add_handler(handler)
    try:
        stream: Any = opener.open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        stream = error
    with contextlib.closing(stream):
        yield stream


def _answer(exchange: _Exchange) -> Answer:
    stream, most = exchange.stream, exchange.limits.body_bytes
    body = b"".join(_blocks(exchange))
    headers = _joined(stream.headers)
    charset = stream.headers.get_content_charset() or "utf-8"
    return Answer(
        _status(stream), str(stream.reason), headers, charset,
        _unpacked(body, headers.get("content-encoding", ""), most),
    )  # fmt: skip


def _blocks(exchange: _Exchange) -> Iterator[bytes]:
    """The body, as it is sent. Raises NoAnswerError, never OSError, which the writer of the blocks raises itself."""
    stream, most = exchange.stream, exchange.limits.body_bytes
    with _reasons(exchange.is_over, exchange.limits):
        length = exchange.length()
        if length is not None and length > most:
            raise NoAnswerError(f"The answer has {length} bytes, and {most} are the limit.")
        size = 0
        while block := stream.read1(_BLOCK) if hasattr(stream, "read1") else stream.read(_BLOCK):
            size += len(block)
            if size > most:
                raise NoAnswerError(f"The answer has more than {most} bytes.")
            _raise_if(exchange.is_over())
            yield block
        if length is not None and size < length:
            raise NoAnswerError(f"The answer broke off after {size} of {length} bytes.")


def _status(stream: Any) -> int:
    return int(stream.status if hasattr(stream, "status") else stream.code)


def _joined(given: Any) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in given.items():
        key = name.lower()
        headers[key] = f"{headers[key]}, {value}" if key in headers else value
    return headers


def _unpacked(body: bytes, coding: str, most: int) -> bytes:
    """Decompress the answer; some servers compress without being asked."""
    if coding.strip().lower() not in {"gzip", "x-gzip", "deflate"} or not body:
        return body
    unpacker = zlib.decompressobj(wbits=47 if "gzip" in coding.lower() or body[:1] == b"\x78" else -15)
    try:
        plain = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise NoAnswerError(f"The answer cannot be unpacked: {error}.") from error
    if len(plain) > most:
        raise NoAnswerError(f"The answer has more than {most} bytes when it is unpacked.")
    return plain


def _reason(error: BaseException) -> str:
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(inner, ssl.SSLCertVerificationError):
        # Scripts look for the name that OpenSSL has for it.
        return (
            f"The certificate of the server is not accepted: {inner.verify_message} (SSL: CERTIFICATE_VERIFY_FAILED)."
        )
    if isinstance(inner, TimeoutError):
        return "The server did not answer in time."
    if isinstance(inner, http.client.RemoteDisconnected):
        return "The server hung up without an answer."
    return str(getattr(inner, "strerror", None) or inner or type(inner).__name__)


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, connections: list[http.client.HTTPConnection]) -> None:
        super().__init__()
        self._connections = connections

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_noted(http.client.HTTPConnection, self._connections), req)


class _Protected(urllib.request.AbstractHTTPHandler):
    def __init__(self, connections: list[http.client.HTTPConnection], tls: Callable[[], ssl.SSLContext]) -> None:
        super().__init__()
        self._connections, self._tls = connections, tls

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_noted(http.client.HTTPSConnection, self._connections), req, context=self._tls())

    https_request = urllib.request.AbstractHTTPHandler.do_request_


def _noted(kind: Any, connections: list[http.client.HTTPConnection]) -> Any:
    def make(*args: Any, **kwargs: Any) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection = kind(*args, **kwargs)
        connections.append(connection)
        return connection

    return make


class _Redirects(urllib.request.HTTPRedirectHandler):
    max_repeats = REDIRECTS_MAX
    max_redirections = REDIRECTS_MAX

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the redirected request, without headers that may be secrets if the server changes."""
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        if found is not None:
            same = _origin(req.full_url) == _origin(found.full_url)
            for name, value in req.unredirected_hdrs.items():
                if name.lower() in _FOR_ALL or (same and name.lower() not in _OF_THE_BODY):
                    found.add_unredirected_header(name, value)
        return found


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


class _NoOther(urllib.request.BaseHandler):
    def default_open(self, req: urllib.request.Request) -> None:
        if req.type not in {"http", "https"}:
            raise SaltInvocationError(f"Only http:// and https:// are asked, not {req.type}://.")

    def unknown_open(self, req: urllib.request.Request) -> None:
        self.default_open(req)
