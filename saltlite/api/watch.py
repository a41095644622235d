"""The endpoints that events come out of: /events (server-sent events) and /ws (a WebSocket)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from tornado.iostream import StreamBufferFullError, StreamClosedError
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from saltlite.api.endpoint import Endpoint
from saltlite.api.feed import FeedEvent
from saltlite.errors import LoginError, SaltliteError, UsageError

log = logging.getLogger(__name__)

RETRY_MS = 400
"""Salt's figure: after so long a watcher whose connection broke comes back."""
QUIET_S = 20.0
"""After so long without an event there is a comment, so that proxies and firewalls keep the connection."""
UNSENT_MAX = 8 * 1024 * 1024
"""Bytes that may wait for a watcher; one that does not read is cut off, and comes back with its cursor."""
READY = "websocket client ready"
"""What a client of /ws says first, as with Salt."""
READY_MAX_S = 30.0
_CURSOR_DIGITS = 18


class Events(Endpoint):
    """/events: what happens, from now on or behind Last-Event-ID, until the token ends."""

    ENDLESS = True

    def streams(self) -> bool:
        """The format is text/event-stream."""
        return True

    async def get(self) -> None:
        """Send events for as long as the caller reads them."""
        after = self._cursor()
        async with self.office.feeds.watch(self.token(), after) as events:
            self.set_header("Content-Type", "text/event-stream; charset=utf-8")
            self.set_header("X-Accel-Buffering", "no")
            connection: Any = self.request.connection
            connection.stream.max_write_buffer_size = UNSENT_MAX
            with contextlib.suppress(StreamClosedError, StreamBufferFullError):
                self.write(f"retry: {RETRY_MS}\n\n")
                await self.flush()
                await self._send_all(events)
        if not self._finished:
            self.finish()

    async def _send_all(self, events: Any) -> None:
        coming: asyncio.Future[FeedEvent] | None = None
        self._closed = asyncio.get_running_loop().create_future()
        try:
            while True:
                if coming is None:
                    coming = asyncio.ensure_future(anext(events))
                await asyncio.wait({coming, self._closed}, timeout=QUIET_S, return_when=asyncio.FIRST_COMPLETED)
                if self._closed.done():
                    return
                if coming.done():
                    event, coming = coming.result(), None
                    self.write(b"id: %d\ntag: %s\ndata: %s\n\n" % (event.seq, _line(event.tag), event.data))
                else:
                    self.write(b": quiet\n\n")
                await self.flush()
        except SaltliteError as error:
            # The status was sent long ago; the caller comes back and is told then.
            log.info("a stream of events ends: %s", error)
        finally:
            if coming is not None:
                coming.cancel()

    def on_connection_close(self) -> None:
        """Called by tornado when the caller has gone."""
        super().on_connection_close()
        closed = getattr(self, "_closed", None)
        if closed is not None and not closed.done():
            closed.set_result(None)

    def _cursor(self) -> int | None:
        text = self.request.headers.get("Last-Event-ID", "").strip()
        if not text:
            return None
        if not (text.isascii() and text.isdigit()) or len(text) > _CURSOR_DIGITS:
            raise UsageError("Last-Event-ID is the number of an event, as the lines `id:` have them")
        return int(text)


def _line(tag: str) -> bytes:
    return "".join(letter if letter.isprintable() else "?" for letter in tag).encode("utf-8", "replace")


class Ws(WebSocketHandler, Endpoint):
    """/ws: the same as messages of a WebSocket, once the client has said that it is ready."""

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
        """A page of somebody else's could use the cookie of its visitor: only our own origin, and configured ones."""
        return origin in self.office.config.cors_origins or super().check_origin(origin)

    async def get(self, *path: str) -> None:
        """Shake hands, with a token that is good."""
        if any(path):
            raise UsageError("a token in the URL ends in logs: send it in the header X-Auth-Token")
        self._given = self.token()
        connection: Any = self.request.connection
        self._stream = connection.stream
        await self.office.link.call(self._given, "whoami")
        await super().get()

    def open(self, *_path: str) -> None:
        """Called by tornado after the handshake."""
        self._late = asyncio.get_running_loop().call_later(READY_MAX_S, self._refuse_silent)

    def _refuse_silent(self) -> None:
        if self._sending is None:
            self.close(1008, "say: websocket client ready")

    def on_message(self, message: str | bytes) -> None:
        """Only one message means something, and only once."""
        if message == READY and self._sending is None:
            self._sending = asyncio.ensure_future(self._send())
        elif message != READY:
            self.close(1003, "say: websocket client ready")

    def on_close(self) -> None:
        """Called by tornado at the end, which may come before the handshake is over."""
        self.office.connections.remove(self._stream)
        if self._late is not None:
            self._late.cancel()
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self) -> None:
        try:
            async with self.office.feeds.watch(self._given, None) as events:
                async for event in events:
                    await self.write_message(b"data: %s\n\n" % event.data)
        except LoginError as error:
            self.close(1008, str(error)[:100])
        except SaltliteError as error:
            self.close(1013, str(error)[:100])
        except (WebSocketClosedError, StreamClosedError, StreamBufferFullError):
            pass
