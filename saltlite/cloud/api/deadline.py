"""HTTP of urllib whose answers end by a deadline, however slowly they come.

The timeout of a socket is for each piece: whoever sends one byte now and then never runs into it. Here every read of an
answer, its status line and headers included, waits no longer than what is left.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class PastDeadlineError(Exception):
    """The answer had not come to its end. It is no OSError: nothing may take it for silence, which may pass."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When an answer must have ended, in seconds of `clock`, and how long there may be silence in it."""

    at: float
    silence_s: float
    clock: Callable[[], float]

    def wait_s(self) -> float:
        """How long to wait for the next piece. Raises PastDeadlineError when the time is over."""
        left = self.at - self.clock()
        if left <= 0:
            raise PastDeadlineError
        return min(self.silence_s, left)


class TimedRequest(urllib.request.Request):
    """A request for `opener_of`; it has a deadline."""

    def __init__(self, address: str, *, data: bytes | None, method: str, deadline: Deadline) -> None:
        super().__init__(address, data=data, method=method)
        self.deadline = deadline


def opener_of(*handlers: urllib.request.BaseHandler) -> urllib.request.OpenerDirector:
    """What opens TimedRequests. Certificates are verified, by this machine's authorities or those of SSL_CERT_FILE."""
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
    """What makes a connection whose answers keep to the deadline of the request."""
    assert isinstance(request, TimedRequest)  # noqa: S101 - redirects, which would make others, are not followed
    deadline = request.deadline

    class Answer(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *rest: Any, **more: Any) -> None:
            super().__init__(sock, *rest, **more)
            self.fp = io.BufferedReader(_Pieces(self.fp.detach(), sock, deadline))

    class Connection(kind):  # type: ignore[valid-type,misc]  # which of the two is known to the caller
        response_class = Answer

    return Connection


class _Pieces(io.RawIOBase):
    """What comes from a socket, up to the deadline."""

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
            # What was left may have been less than a silence that would be one.
            self._deadline.wait_s()
            raise

    def close(self) -> None:
        self._raw.close()
        super().close()
