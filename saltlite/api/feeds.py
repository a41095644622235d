"""Streams of events for the watchers of /events and /ws: each event is read from the master once, and encoded once.

The master decides which events the holder of a token may see, and has a name for them, the view. Watchers with the same
view share one stream, whatever their tokens are. A watcher ends when its token ends or gets another view: the master is
asked every CHECK_S, and after each reconnect before the next event is sent.

Events that arrive within a short pause form a batch, which is encoded and compressed once; all watchers send the same
bytes. A watcher has a cursor: recent batches come from the feed's memory, older events from the master. It holds one
batch at a time, so one that does not read costs no more memory than others, and is disconnected when the feed's memory
does not reach back to its cursor.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import struct
import zlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from saltlite.api.formats import JSON, rendered
from saltlite.api.link import MasterLink, PooledConnection
from saltlite.client.connection import ConnectionLostError, decode_value
from saltlite.client.follower import RESUME_FOR_S
from saltlite.client.local import error_of
from saltlite.errors import LoginError, RemoteProtocolError, SaltliteError, UnreachableError
from saltlite.model.dataclass import dataclass

log = logging.getLogger(__name__)

FEEDS_MAX = 256
"""Views that are followed at the same time."""
KEPT_BYTES = 8 * 1024 * 1024
"""A feed's memory for watchers that are a little behind."""
KEPT_OF_ALL = 32 * 1024 * 1024
"""That of all feeds together."""
BATCH_BYTES = 256 * 1024
"""Data that is not held back until the pause is over."""
PAUSE_A_WATCHER_S = 0.001
"""How long events are held back after a batch, for each watcher: sending a batch to one takes about a tenth of it."""
PAUSE_MAX_S = 1.0
CHECK_S = 5.0
"""How often the views of tokens are asked for."""
TOKENS_ASKED = 1000
"""Tokens of one such request."""
QUIET_S = 20.0
"""The pause after which watchers are woken without an event."""
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
    """Convert an event of the master. Raises RemoteProtocolError for a malformed one.

    The field `body` of a row has the return of its target.
    """
    try:
        stamp = datetime.fromtimestamp(row["at"], UTC).replace(tzinfo=None).isoformat()
        data = row["data"] if isinstance(row["data"], dict) else {"value": row["data"]}
        returned = {"return": _return_of(row["body"])} if "body" in row else {}
        text = rendered({"tag": row["tag"], "data": {**data, **returned, "_stamp": stamp}}, JSON)
        return FeedEvent(int(row["seq"]), str(row["tag"]), text)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise RemoteProtocolError("bad-event", repr(error)) from error


def _return_of(body: bytes) -> Any:
    try:
        return decode_value(body)
    except RemoteProtocolError as error:
        return f"the return cannot be read: {error}"


def events_in(message: Mapping[str, Any]) -> list[FeedEvent]:
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


# -- what is sent: server-sent events, as they are or in gzip

GZIP_HEAD = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
"""What comes before the blocks of `packed`. They have no end, as the stream has none."""
PACKED_ABOVE = 4096
"""Bytes of text above which it is compressed. Single events are not: their length would tell more about them."""
_STORED_MAX = 0xFFFF
_STORED = struct.Struct("<BHH")


def packed(text: bytes) -> bytes:
    """Blocks of a gzip stream that refer to no other blocks, so that all watchers can be sent the same ones."""
    if len(text) > PACKED_ABOVE:
        # The fastest level makes a tenth of what events of one job take.
        packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
        return packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH)
    return _STORED.pack(0, len(text), len(text) ^ _STORED_MAX) + text


class EventBatch:
    """Events that are sent together: those with a cursor above `after`, up to `seq`."""

    def __init__(self, after: int, seq: int, events: Sequence[FeedEvent]) -> None:
        self.after = after
        self.seq = seq
        self.events = events

    @cached_property
    def text(self) -> bytes:
        """As server-sent events. Without any only the cursor, so that a client that reconnects is not behind."""
        if not self.events:
            return b"id: %d\n\n" % self.seq
        return b"".join(b"id: %d\ntag: %s\ndata: %s\n\n" % (one.seq, _line(one.tag), one.data) for one in self.events)

    @cached_property
    def packed(self) -> bytes:
        """The same as blocks of gzip."""
        return packed(self.text)

    @property
    def size(self) -> int:
        """The bytes that it has in memory, about: the data, and its text."""
        return 2 * sum(len(one.data) for one in self.events)

    def behind(self, seq: int) -> EventBatch:
        """The part above a cursor."""
        return self if seq <= self.after else EventBatch(seq, self.seq, [one for one in self.events if one.seq > seq])

    def tagged(self, tag: str) -> EventBatch:
        """The events with this part in their tag, perhaps none."""
        if not tag:
            return self
        return EventBatch(self.after, self.seq, [one for one in self.events if tag in one.tag])


def _line(tag: str) -> bytes:
    return "".join(letter if letter.isprintable() else "?" for letter in tag).encode("utf-8", "replace")


# -- a feed and its watchers


def _wanted(returns: bool) -> dict[str, Any]:
    return {"pattern": _PATTERN, **({"returns": True} if returns else {})}


class Watcher:
    """The place of one connection in the events."""

    def __init__(self, feed: Feed, token: str, after: int, far: PooledConnection | None) -> None:
        """`far`: the connection with the events that the feed's memory has no more."""
        self._feed = feed
        self._token = token
        self._after = after
        self._far = far
        self._waiter: asyncio.Future[bool] | None = None
        self.closed = False
        """Whether the caller has gone."""

    async def next(self) -> EventBatch | None:
        """The next events; None after QUIET_S without one, and once it is closed.

        Raises BehindError, and the error that ended the token or the stream.
        """
        batch = await self._next()
        if batch is not None:
            self._after = batch.seq
        return batch

    async def _next(self) -> EventBatch | None:
        while self._far is not None:
            if self._after >= self._feed.floor:
                self.leave_far()
            else:
                message = await self._far.receive(None)
                if message is None or message.get("ok") is False:
                    raise error_of(message or {})
                seq = max(self._after, int(message.get("seq") or 0))
                return EventBatch(self._after, seq, events_in(message))
        while True:
            batch = self._feed.batch_behind(self._after, self._token)
            if batch is not None:
                return batch
            if self.closed:
                return None
            self._waiter = self._feed.waiter()
            if not await self._waiter:
                return None

    def leave_far(self) -> None:
        """Close the connection with older events."""
        if self._far is not None:
            self._far.close()
            self._far = None

    def close(self) -> None:
        """The caller has gone: `next` comes back."""
        self.closed = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(False)


class Feed:
    """The events of one view, from now on."""

    def __init__(
        self, link: MasterLink, view: str, check: Callable[[Iterable[str]], Awaitable[None]], *, returns: bool
    ) -> None:
        """`check` asks for the views of tokens, and ends those that have another one."""
        self._link = link
        self.view = view
        self.returns = returns
        self._check = check
        self.tokens: Counter[str] = Counter()
        """Token -> its watchers."""
        self._refused: dict[str, SaltliteError] = {}
        """Tokens that have ended, or have another view."""
        self._pending: list[FeedEvent] = []
        self._pending_bytes = 0
        self._batches: deque[EventBatch] = deque()
        self._bytes = 0
        self._waiting: set[asyncio.Future[bool]] = set()
        self._reading: asyncio.Task[None] | None = None
        self._began = asyncio.Event()
        self._ended: SaltliteError | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._quiet: asyncio.TimerHandle | None = None
        self._sent_at = 0.0
        self.kept_bytes = KEPT_BYTES
        self.floor = 0
        """All visible events after this cursor are in memory."""
        self._sent = 0
        """The cursor after the last batch."""
        self.seq = 0
        """The cursor after the last event."""

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
        for timer in (self._timer, self._quiet):
            if timer is not None:
                timer.cancel()

    def enter(self, token: str) -> None:
        """A watcher with this token has come."""
        self.tokens[token] += 1

    def leave(self, token: str) -> bool:
        """One has left; whether it was the last one with this token."""
        self.tokens[token] -= 1
        if self.tokens[token]:
            return False
        del self.tokens[token]
        self._refused.pop(token, None)
        return True

    def refuses(self, token: str) -> bool:
        """Whether the watchers of a token are ended."""
        return token in self._refused

    def refuse(self, token: str, error: SaltliteError) -> None:
        """End the watchers of a token."""
        self._refused[token] = error
        self._tell()

    def batch_behind(self, seq: int, token: str) -> EventBatch | None:
        """The first batch behind a cursor; None if there is none yet. Raises as `Watcher.next`."""
        if token in self._refused:
            raise self._refused[token]
        if seq < self.floor:
            raise BehindError("the connection is too slow for the events that there are")
        if self._batches and self._batches[-1].seq > seq:
            return next(batch for batch in self._batches if batch.seq > seq).behind(seq)
        if self._ended is not None:
            raise self._ended
        return None

    def waiter(self) -> asyncio.Future[bool]:
        """Becomes True at the next batch or at the end of a token, False after QUIET_S without either."""
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        return waiter

    def _tell(self, *, news: bool = True) -> None:
        waiting, self._waiting = self._waiting, set()
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(news)

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
        connection, answer = await self._open()
        try:
            self.floor = self._sent = self.seq = answer["seq"]
            self._began.set()
            self._stay_quiet()
            while True:
                try:
                    while True:
                        self._take(await connection.receive(None) or {})
                except (ConnectionLostError, LoginError):
                    # Of a login that has ended: another one may have the same view.
                    connection.close()
                    connection = await self._open_again()
        finally:
            connection.close()

    async def _open(self, **after: int) -> tuple[PooledConnection, Mapping[str, Any]]:
        """A connection that streams the view for one of the tokens, and the answer. Raises if none can open it."""
        problem: SaltliteError = UnreachableError("the stream of events has ended")
        for token in [one for one in self.tokens if one not in self._refused]:
            connection = await self._link.connect()
            try:
                answer = await connection.ask(token, "events", {**_wanted(self.returns), **after})
                if answer["view"] == self.view:
                    return connection, answer
                problem = LoginError("the rights of this login have changed: connect again")
            except UnreachableError:
                connection.close()
                raise
            except SaltliteError as error:
                problem = error
            except BaseException:  # a cancelled request too: no one else would close it
                connection.close()
                raise
            connection.close()
            self.refuse(token, problem)
        raise problem

    async def _open_again(self) -> PooledConnection:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + RESUME_FOR_S
        while True:
            await asyncio.sleep(_RETRY_S)
            try:
                connection, _ = await self._open(after=self.seq)
            except UnreachableError:
                if loop.time() >= give_up_at:
                    raise
                continue
            try:
                # Perhaps another master, with other rules.
                await self._check(list(self.tokens))
            except UnreachableError:
                connection.close()
            except BaseException:  # as above
                connection.close()
                raise
            else:
                return connection

    def _take(self, message: Mapping[str, Any]) -> None:
        if message.get("ok") is False:
            raise error_of(message)
        events = events_in(message)
        self.seq = max(self.seq, int(message.get("seq") or 0), events[-1].seq if events else 0)
        self._pending += events
        self._pending_bytes += sum(len(one.data) for one in events)
        if not self._pending:
            # The cursor has passed events of others.
            self._sent = self.seq
            return
        loop = asyncio.get_running_loop()
        due = self._sent_at + min(PAUSE_MAX_S, self.tokens.total() * PAUSE_A_WATCHER_S)
        if self._pending_bytes >= BATCH_BYTES or due <= loop.time():
            self._send()
        elif self._timer is None:
            self._timer = loop.call_at(due, self._send)

    def _send(self) -> None:
        """Make a batch of the events that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = EventBatch(self._sent, self.seq, self._pending)
        self._sent, self._pending, self._pending_bytes = self.seq, [], 0
        self._sent_at = asyncio.get_running_loop().time()
        self._batches.append(batch)
        self._bytes += batch.size
        while self._bytes > self.kept_bytes and len(self._batches) > 1:
            gone = self._batches.popleft()
            self._bytes -= gone.size
            self.floor = gone.seq
        self._stay_quiet()
        self._tell()

    def _stay_quiet(self) -> None:
        if self._quiet is not None:
            self._quiet.cancel()
        self._quiet = asyncio.get_running_loop().call_later(QUIET_S, self._was_quiet)

    def _was_quiet(self) -> None:
        self._tell(news=False)
        self._stay_quiet()


class Feeds:
    """The feeds with watchers, by view, and whether they have returns."""

    def __init__(self, link: MasterLink) -> None:
        self._link = link
        self._feeds: dict[tuple[str, bool], Feed] = {}
        self._of_token: dict[tuple[str, bool], Feed] = {}
        self._checking: asyncio.Task[None] | None = None

    @property
    def watchers(self) -> int:
        """How many connections watch."""
        return sum(feed.tokens.total() for feed in self._feeds.values())

    def view(self, token: str) -> str:
        """The view of a token with watchers; "" for any other token."""
        feed = self._of_token.get((token, False)) or self._of_token.get((token, True))
        return feed.view if feed is not None and not feed.refuses(token) else ""

    @contextlib.asynccontextmanager
    async def watch(self, token: str, after: int | None, *, returns: bool = True) -> AsyncIterator[Watcher]:
        """Events from now on, or after a cursor, with `returns` those of jobs as in Salt. Once entered, no event is
        missed.

        Raises the error that the master answers: LoginError for a bad token, UsageError for a cursor that is ahead.
        """
        feed = self._of_token.get((token, returns))
        if feed is None or feed.refuses(token):
            feed = await self._feed_of(token, returns)
        self._enter(feed, token)
        watcher = None
        try:
            await feed.begin()
            if after is None or feed.floor <= after <= feed.seq:
                watcher = Watcher(feed, token, feed.seq if after is None else after, None)
            else:
                watcher = Watcher(feed, token, after, await self._opened(token, after, returns))
            yield watcher
        finally:
            if watcher is not None:
                watcher.leave_far()
            self._leave(feed, token)

    async def _feed_of(self, token: str, returns: bool) -> Feed:
        [view] = await self._views([token])
        if not view:
            # The verb that needs the right says why it refuses.
            (await self._opened(token, None, returns)).close()
            raise LoginError("the rights of this login have changed: connect again")
        feed = self._feeds.get((view, returns))
        if feed is None:
            if len(self._feeds) >= FEEDS_MAX:
                raise UnreachableError(f"the events of {FEEDS_MAX} users are followed already; try again later")
            feed = self._feeds[view, returns] = Feed(self._link, view, self._check, returns=returns)
        return feed

    def _enter(self, feed: Feed, token: str) -> None:
        feed.enter(token)
        self._of_token[token, feed.returns] = feed
        self._share()
        if self._checking is None:
            self._checking = asyncio.ensure_future(self._check_all())

    def _leave(self, feed: Feed, token: str) -> None:
        if feed.leave(token) and self._of_token.get((token, feed.returns)) is feed:
            del self._of_token[token, feed.returns]
        if not feed.tokens:
            feed.end()
            if self._feeds.get((feed.view, feed.returns)) is feed:
                del self._feeds[feed.view, feed.returns]
            self._share()
        if not self._feeds and self._checking is not None:
            self._checking.cancel()
            self._checking = None

    def _share(self) -> None:
        for feed in self._feeds.values():
            feed.kept_bytes = min(KEPT_BYTES, KEPT_OF_ALL // len(self._feeds))

    async def _check_all(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                await self._check(dict.fromkeys(token for token, _ in self._of_token))
            except SaltliteError as error:
                log.info("the views of %d tokens are not known: %s", len(self._of_token), error)

    async def _check(self, tokens: Iterable[str]) -> None:
        """End the watchers of tokens that have ended or have another view. Raises UnreachableError."""
        asked = list(tokens)
        for first in range(0, len(asked), TOKENS_ASKED):
            some = asked[first : first + TOKENS_ASKED]
            for token, view in zip(some, await self._views(some), strict=True):
                for feed in [self._of_token.get((token, returns)) for returns in (True, False)]:
                    if feed is None or feed.view == view:
                        continue
                    feed.refuse(token, LoginError("the login has ended, or its rights have changed: connect again"))

    async def _views(self, tokens: Sequence[str]) -> list[str]:
        views: list[str] = (await self._link.call("", "event_views", tokens=list(tokens)))["views"]
        return views

    async def _opened(self, token: str, after: int | None, returns: bool) -> PooledConnection:
        connection = await self._link.connect()
        try:
            cursor = {} if after is None else {"after": after}
            await connection.ask(token, "events", {**_wanted(returns), **cursor})
        except BaseException:  # as above
            connection.close()
            raise
        return connection


# -- events that were


async def earlier_events(link: MasterLink, token: str, before: int | None, count: int) -> tuple[list[FeedEvent], int]:
    """The events that the caller may see among the `count` before the cursor `before`, or before now; and the cursor
    before these, 0 if the master keeps no older ones.
    """
    answer = await link.call(token, "events", pattern=_PATTERN, once=True)
    end = min(answer["last"], answer["last"] if before is None else before - 1)
    start = after = max(end - count, answer["first"] - 1, 0)
    found: list[FeedEvent] = []
    while after < end:
        answer = await link.call(token, "events", pattern=_PATTERN, once=True, after=after)
        found += [event for event in events_in(answer) if event.seq <= end]
        after = int(answer["seq"])
    return found, start if start >= answer["first"] else 0
