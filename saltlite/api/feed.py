"""The master's events for many watchers: one stream per token, shared by all its connections.

The master decides what the holder of a token may see, so tokens do not share a stream. A watcher has a cursor: recent
events come from the feed's memory, older ones from the master.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from saltlite.api.formats import JSON, rendered
from saltlite.api.link import MasterLink, PooledConnection
from saltlite.client.connection import ConnectionLostError
from saltlite.client.follower import RESUME_FOR_S
from saltlite.client.local import error_of
from saltlite.errors import RemoteProtocolError, SaltliteError, UnreachableError

log = logging.getLogger(__name__)

FEEDS_MAX = 256
"""Tokens whose events are followed at the same time."""
KEPT_EVENTS = 1000
KEPT_BYTES = 4 * 1024 * 1024
"""A feed's memory for watchers that are a little behind; those further behind are disconnected."""
CHECK_S = 30.0
"""How often the token is checked; the master also ends its streams itself."""
_PATTERN = "*"
_RETRY_S = 0.2


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One event, with its `data:` as it is sent."""

    seq: int
    tag: str
    data: bytes


class BehindError(SaltliteError):
    """A watcher is behind the memory of its feed; it reconnects with its cursor and loses nothing."""


def feed_event(row: Mapping[str, Any]) -> FeedEvent:
    """Convert an event of the master. Raises RemoteProtocolError for a malformed one."""
    try:
        stamp = datetime.fromtimestamp(row["at"], UTC).replace(tzinfo=None).isoformat()
        data = row["data"] if isinstance(row["data"], dict) else {"value": row["data"]}
        text = rendered({"tag": row["tag"], "data": {**data, "_stamp": stamp}}, JSON)
        return FeedEvent(int(row["seq"]), str(row["tag"]), text)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RemoteProtocolError("bad-event", repr(error)) from error


def _events_in(message: Mapping[str, Any]) -> list[FeedEvent]:
    """The events of one message of the master; unreadable ones are logged and skipped."""
    for one in message.get("skipped", ()):
        log.warning("event %s (%s) cannot be read and is skipped: %s", one["seq"], one["tag"], one["reason"])
    found = []
    for row in message.get("events", ()):
        try:
            found.append(feed_event(row))
        except RemoteProtocolError as error:
            log.warning("event %s cannot be shown and is skipped: %s", row.get("seq"), error)
    return found


class Feed:
    """The events that the holder of one token may see, from now on."""

    def __init__(self, link: MasterLink, token: str) -> None:
        self._link = link
        self._token = token
        self._events: deque[FeedEvent] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None
        self._began = asyncio.Event()
        self._ended: SaltliteError | None = None
        self.floor = 0
        """All visible events after this cursor are in memory."""
        self.seq = 0
        """The cursor after the last event."""
        self.watchers = 0

    async def begin(self) -> None:
        """Open the stream, for the first watcher. Raises the error that the master answers."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read())
        await self._began.wait()
        if self._ended is not None:
            raise self._ended

    def end(self) -> None:
        """The last watcher has left."""
        if self._reading is not None:
            self._reading.cancel()

    async def events(self, after: int) -> AsyncIterator[FeedEvent]:
        """Events after a cursor that is not before `floor`. Raises the error that ended the stream, or BehindError."""
        while True:
            news = self._news
            if after < self.floor:
                raise BehindError("the connection is too slow for the events that there are")
            # A copy, because events may be dropped meanwhile.
            for event in [one for one in self._events if one.seq > after]:
                yield event
                after = event.seq
            if self._ended is not None:
                raise self._ended
            await news.wait()

    async def _read(self) -> None:
        try:
            await self._stream()
        except SaltliteError as error:
            self._ended = error
        except asyncio.CancelledError:
            self._ended = UnreachableError("the stream of events has ended")
            raise
        finally:
            self._began.set()
            self._tell()

    async def _stream(self) -> None:
        connection = await self._link.connect()
        try:
            answer = await connection.ask(self._token, "events", {"pattern": _PATTERN})
            self.floor = self.seq = answer["seq"]
            self._began.set()
            while True:
                try:
                    await self._listen(connection)
                except ConnectionLostError:
                    connection.close()
                    connection = await self._again()
        finally:
            connection.close()

    async def _listen(self, connection: PooledConnection) -> None:
        check_at = time.monotonic() + CHECK_S
        while True:
            message = await connection.receive(max(0.0, check_at - time.monotonic()))
            if message is not None:
                self._take(message)
            if time.monotonic() >= check_at:
                with contextlib.suppress(UnreachableError):
                    await self._link.call(self._token, "whoami")
                check_at = time.monotonic() + CHECK_S

    async def _again(self) -> PooledConnection:
        give_up_at = time.monotonic() + RESUME_FOR_S
        while True:
            await asyncio.sleep(_RETRY_S)
            try:
                connection = await self._link.connect()
                await connection.ask(self._token, "events", {"pattern": _PATTERN, "after": self.seq})
            except UnreachableError:
                if time.monotonic() >= give_up_at:
                    raise
            else:
                return connection

    def _take(self, message: Mapping[str, Any]) -> None:
        if message.get("ok") is False:
            raise error_of(message)
        for event in _events_in(message):
            self._events.append(event)
            self._bytes += len(event.data)
            while len(self._events) > KEPT_EVENTS or self._bytes > KEPT_BYTES:
                gone = self._events.popleft()
                self._bytes -= len(gone.data)
                self.floor = gone.seq
        self.seq = max(self.seq, int(message.get("seq") or 0), self._events[-1].seq if self._events else 0)
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Feeds:
    """The feeds with watchers, by token."""

    def __init__(self, link: MasterLink) -> None:
        self._link = link
        self._feeds: dict[str, Feed] = {}

    @property
    def watchers(self) -> int:
        """How many connections watch."""
        return sum(feed.watchers for feed in self._feeds.values())

    @contextlib.asynccontextmanager
    async def watch(self, token: str, after: int | None) -> AsyncIterator[AsyncIterator[FeedEvent]]:
        """Events from now on, or after a cursor. Once entered, no event is missed.

        Raises the error that the master answers: LoginError for a bad token, UsageError for a cursor that is ahead.
        """
        feed = self._feeds.get(token)
        if feed is None:
            if len(self._feeds) >= FEEDS_MAX:
                raise UnreachableError(f"the events of {FEEDS_MAX} tokens are followed already; try again later")
            feed = self._feeds[token] = Feed(self._link, token)
        feed.watchers += 1
        connection = None
        try:
            await feed.begin()
            if after is None or feed.floor <= after <= feed.seq:
                yield feed.events(feed.seq if after is None else after)
            else:
                connection = await self._opened(token, after)
                yield self._from_far(feed, after, connection)
        finally:
            if connection is not None:
                connection.close()
            feed.watchers -= 1
            if not feed.watchers:
                feed.end()
                if self._feeds.get(token) is feed:
                    del self._feeds[token]

    async def _opened(self, token: str, after: int) -> PooledConnection:
        connection = await self._link.connect()
        try:
            await connection.ask(token, "events", {"pattern": _PATTERN, "after": after})
        except BaseException:
            connection.close()
            raise
        return connection

    async def _from_far(self, feed: Feed, after: int, connection: PooledConnection) -> AsyncIterator[FeedEvent]:
        """Older events from the master, until the feed's memory can continue."""
        while after < feed.floor:
            message = await connection.receive(None)
            if message is None or message.get("ok") is False:
                raise error_of(message or {})
            for event in _events_in(message):
                yield event
            after = max(after, int(message.get("seq") or 0))
        connection.close()
        async for event in feed.events(after):
            yield event
