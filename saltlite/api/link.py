"""The asyncio client of the master's Unix socket: a pool of connections, and jobs that are followed.

It speaks the protocol of `saltlite.client.connection`. Every request carries its caller's token, so all callers share
the connections. The rules of waiting for a job are those of the command line (`saltlite.client.follower`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from saltlite.client.connection import (
    ANSWER_TIMEOUT_S,
    FRAME_MAX_BYTES,
    ConnectionLostError,
    FleetClock,
    decode_message,
)
from saltlite.client.follower import (
    RESUME_PAUSE_S,
    RETURNED,
    Follower,
    Open,
    Progress,
    Published,
    Read,
    Reply,
    WaitPolicy,
    value_of,
)
from saltlite.client.local import PROTOCOL_VERSION, JobCall, error_of
from saltlite.errors import LoginError, RefusedError, RemoteProtocolError, UnreachableError, UsageError
from saltlite.limits import FairSemaphore
from saltlite.wire.framing import LENGTH, framed, next_end, pack, take_frame

log = logging.getLogger(__name__)


CONNECTIONS_MAX = 128
"""Connections for requests; further requests wait for one, up to ANSWER_TIMEOUT_S."""
FOLLOWED_MAX = 96
"""Jobs followed at the same time; the other connections are for short requests."""
FOLLOWED_OF_ONE = 32
"""Of these, per token."""
IDLE_MAX = 16
"""Idle connections that are kept."""
UNREAD_MAX = 256 * 1024
"""Received bytes that nothing has asked for yet, above which a connection is not read further."""

OPEN_VERBS = frozenset({"event_views", "login", "hook", "status"})
"""Verbs without a token; `hook` and `status` run as this process's own user, if so configured. `event_views` is about
the tokens in its fields."""
NO_TOKEN = "log in first: POST /login answers a token for the header X-Auth-Token"  # noqa: S105 - a sentence

_CREDENTIALS = struct.Struct("3i")


Message = dict[str, Any]


class PooledConnection(asyncio.Protocol):
    """One connection to the master. Close it after any exception from it.

    It is an asyncio protocol because streams and a task for each read cost several turns of the loop a request.
    """

    def __init__(self, clock: FleetClock) -> None:
        self._clock = clock
        self._transport: Any = None
        self._received = bytearray()
        self._arrival: asyncio.Future[bool] | None = None
        """Of the `receive` that waits: whether something arrived, before the timeout."""
        self._ended = False
        self.clean = True
        """Whether the next frame will be the answer to the next request."""

    def connection_made(self, transport: Any) -> None:
        """Called by asyncio."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by asyncio."""
        self._received += data
        if self._arrival is not None:
            self._wake(True)
        elif len(self._received) > UNREAD_MAX:
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Called by asyncio."""
        self._ended = True
        self._wake(True)

    def _wake(self, arrived: bool) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(arrived)

    async def ask(self, token: str, verb: str, fields: Mapping[str, Any]) -> Message:
        """Send a request; the answer's fields. Raises the error that the master answers, and as `receive`."""
        request = {"v": PROTOCOL_VERSION, "verb": verb, **fields}
        if token:
            request["token"] = token
        elif verb not in OPEN_VERBS:
            # Without a token the master would treat the request as one of this process's user.
            raise LoginError(NO_TOKEN)
        self.clean = False
        try:
            payload = pack(request)
        except (TypeError, ValueError, OverflowError) as error:  # text that is not UTF-8 is a ValueError
            raise UsageError(f"an argument cannot be sent to the master: {error}") from error
        if not self._ended:
            self._transport.write(framed(payload))
        answer = await self.receive(ANSWER_TIMEOUT_S)
        if answer is None:
            raise UnreachableError(f"the master took the request and did not answer in {ANSWER_TIMEOUT_S:g}s")
        self.clean = not fields.get("follow")  # a stream follows; its reader sets this at its end
        if answer.get("ok") is True:
            self._clock.read(answer)
            return answer
        self.clean = True
        raise error_of(answer)

    async def receive(self, timeout_s: float | None) -> Message | None:
        """The next frame, or None when it is not complete after `timeout_s` seconds (None: no limit).

        Raises ConnectionLostError at the end of the stream, RemoteProtocolError for a malformed frame.
        """
        loop = asyncio.get_running_loop()
        timer = None
        try:
            while (payload := self._frame()) is None:
                if self._ended:
                    raise ConnectionLostError("the master closed the connection before it answered")
                if timer is None and timeout_s is not None:
                    timer = loop.call_later(timeout_s, self._wake, False)
                self._transport.resume_reading()
                self._arrival = loop.create_future()
                if not await self._arrival:
                    return None
        finally:
            self._arrival = None
            if timer is not None:
                timer.cancel()
        return decode_message(payload)

    def _frame(self) -> bytes | None:
        end = next_end(self._received)
        if end is not None and end - LENGTH.size > FRAME_MAX_BYTES:
            raise RemoteProtocolError("oversize", f"a frame of {end - LENGTH.size} bytes from the master")
        return take_frame(self._received)

    def usable(self) -> bool:
        """Whether another request can be sent: nothing is pending, and the master has not disconnected."""
        return self.clean and not self._received and not self._ended and not self._transport.is_closing()

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._transport.close()


class FollowSlots:
    """Limits the jobs that are followed at the same time, in total and by token."""

    def __init__(self, total: int, per_token: int, wait_s: float) -> None:
        """`wait_s` is how long a request waits for a slot, in seconds."""
        self._slots: FairSemaphore[asyncio.Future[None]] = FairSemaphore(total, per_token)
        self._wait_s = wait_s

    @contextlib.asynccontextmanager
    async def take(self, token: str) -> AsyncIterator[None]:
        """Hold a slot. Raises UnreachableError if none became free in time."""
        granted = asyncio.get_running_loop().create_future()
        if self._slots.acquire(granted, token):
            granted.set_result(None)
        try:
            if not granted.done():
                await self._wait(granted)
            yield
        finally:
            for other in self._slots.release(granted):
                if not other.done():  # one that was cancelled gives its slot back by itself
                    other.set_result(None)

    async def _wait(self, granted: asyncio.Future[None]) -> None:
        try:
            async with asyncio.timeout(self._wait_s):
                await granted
        except TimeoutError:
            raise UnreachableError(
                f"as many jobs are waited for as there may be, and none ended in {self._wait_s:g}s: "
                "publish with local_async, and read /jobs or /events"
            ) from None


class MasterLink:
    """The connection pool to the local master."""

    def __init__(self, path: str, trusted: frozenset[int]) -> None:
        """`trusted` are the uids that may run the master: another user could read passwords here."""
        self._path = path
        self._trusted = trusted
        self._idle: list[PooledConnection] = []
        self.clock = FleetClock()
        self._permits = asyncio.Semaphore(CONNECTIONS_MAX)
        self.followed = FollowSlots(FOLLOWED_MAX, FOLLOWED_OF_ONE, ANSWER_TIMEOUT_S)

    async def call(self, token: str, verb: str, **fields: Any) -> Message:
        """Run one verb of the operator protocol for the holder of `token`; the answer's fields.

        Raises UnreachableError without a master, and the error that the master answers.
        """
        async with self.connection() as connection:
            return await connection.ask(token, verb, fields)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[PooledConnection]:
        """A connection for one request and its stream. It returns to the pool if it is clean afterwards."""
        try:
            # Only what waits needs a timer.
            async with asyncio.timeout(ANSWER_TIMEOUT_S) if self._permits.locked() else contextlib.nullcontext():
                await self._permits.acquire()
        except TimeoutError:
            raise UnreachableError(f"{CONNECTIONS_MAX} requests are with the master already; try again") from None
        try:
            connection = self._take() or await self.connect()
            try:
                yield connection
            finally:
                self._put_back(connection)
        finally:
            self._permits.release()

    async def connect(self) -> PooledConnection:
        """A new connection, which the caller closes. Raises UnreachableError, RefusedError."""
        try:
            transport, connection = await asyncio.get_running_loop().create_unix_connection(
                lambda: PooledConnection(self.clock), self._path
            )
        except PermissionError as error:
            raise RefusedError(f"the API's user may not use {self._path}") from error
        except OSError as error:
            raise UnreachableError("the master is not running, or another sock_dir is configured there") from error
        peer = transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        _pid, uid, _gid = _CREDENTIALS.unpack(peer)
        if uid not in self._trusted:
            transport.close()
            raise UnreachableError(
                f"user {uid} listens on {self._path}, who is neither root nor the owner of the API's configuration"
            )
        return connection

    def close(self) -> None:
        """Close the idle connections."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _take(self) -> PooledConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable():
                return connection
            connection.close()
        return None

    def _put_back(self, connection: PooledConnection) -> None:
        if connection.usable() and len(self._idle) < IDLE_MAX:
            self._idle.append(connection)
        else:
            connection.close()


async def publish(link: MasterLink, token: str, job: JobCall) -> Published:
    """Publish a job without waiting for returns. Raises the error that the master answers."""
    return Published(await _sent(link, token, job), fun=job.fun, target=job.tgt)


async def publish_or_ask(
    link: MasterLink, token: str, job: JobCall, consent: Sequence[str]
) -> Published | dict[str, Any]:
    """Publish a job as `publish` does; or answer the fields of `describe` if a risk of it is not in `consent`."""
    answer = await _sent(link, token, job, consent=list(consent))
    question: dict[str, Any] | None = answer.get("question")
    return Published(answer, fun=job.fun, target=job.tgt) if question is None else question


async def _sent(link: MasterLink, token: str, job: JobCall, **fields: Any) -> Message:
    request = {"request_id": os.urandom(16).hex(), **fields, **job.fields()}
    try:
        return await link.call(token, "publish", **request)
    except ConnectionLostError:  # the same request id is the same job
        return await link.call(token, "publish", **request)


class Finished:
    """A job after the wait: its replies, and the states of targets without one."""

    def __init__(self, progress: Progress, replies: list[Reply]) -> None:
        self.jid = progress.published.jid
        self.replies = replies
        self._progress = progress

    def values(self) -> dict[str, Any]:
        """`{id: return}` of the targets that returned, as in Salt's local client."""
        return {reply.name: reply.value for reply in self.replies if reply.has_value}

    def silent(self) -> dict[str, bool]:
        """`{id: False}` of the targets that did not return, as in Salt's API. `full` tells why."""
        return {self._progress.published.name(target): False for target in self._progress.missing()}

    def full(self) -> dict[str, dict[str, Any]]:
        """`{id: {ret, retcode, jid}}`; without a return `ret` is the reason, and `success` false."""
        published = self._progress.published
        found = {reply.name: full_row(reply, self.jid) for reply in self.replies if reply.has_value}
        for target in self._progress.missing():
            state, reason = self._progress.states[target], self._progress.reasons.get(target, "")
            if self._progress.is_away(target):
                why = published.absences.get(published.carrier(target), "")
                reason = reason or f"Not connected{why and f': {why}'}"
            text = f"Minion did not return. [{reason or _TEXT_OF_STATE.get(state, state)}]"
            row = {"ret": text, "retcode": 1, "jid": self.jid, "success": False, "out": "nested"}
            found.setdefault(published.name(target), row)
        return found


_TEXT_OF_STATE = {
    "queued": "No response",
    "planned": "Its turn did not come",
    "received": "Not done",
    "running": "Not done",
}


def full_row(reply: Reply, jid: str) -> dict[str, Any]:
    """One reply with `full_return`."""
    return {"ret": reply.value, "retcode": reply.retcode, "jid": jid, "success": not reply.failed()}


async def run(link: MasterLink, token: str, job: JobCall, timeout_s: float | None) -> Finished:
    """Publish a job and wait for its returns.

    `timeout_s` is how long to wait for minions of which there is no news; None takes the master's setting and does not
    wait for those that are away. Raises what the master answers, and UnreachableError when it went away.
    """
    request = {"request_id": os.urandom(16).hex(), **job.fields()}
    async with link.followed.take(token):
        try:
            return await _published(link, token, job, request, timeout_s)
        except _NoAnswerError:  # the same request id is the same job
            return await _published(link, token, job, request, timeout_s)


class _NoAnswerError(ConnectionLostError):
    """The connection ended before the master said whether it published the job."""


async def _published(
    link: MasterLink, token: str, job: JobCall, request: dict[str, Any], timeout_s: float | None
) -> Finished:
    async with link.connection() as connection:
        try:
            answer = await connection.ask(token, "publish", {**request, "follow": True})
        except ConnectionLostError as error:
            raise _NoAnswerError(str(error)) from error
        published = Published(answer, fun=job.fun, target=job.tgt)
        policy = WaitPolicy(published.timeout_s) if timeout_s is None else WaitPolicy(timeout_s, away_quiet_s=timeout_s)
        progress = Progress(published, now=time.monotonic())
        stream = _JobStream(link, token, progress, Follower(progress, policy, live=True))
        await stream.read(connection)
    await stream.resume()
    return Finished(progress, stream.replies)


class _JobStream:
    """Performs the actions of a `Follower` on connections of the pool, and collects the replies."""

    def __init__(self, link: MasterLink, token: str, progress: Progress, follower: Follower) -> None:
        self.replies: list[Reply] = []
        self._link = link
        self._token = token
        self._progress = progress
        self._follower = follower

    async def read(self, connection: PooledConnection) -> None:
        """Read the stream on this connection until it ends or breaks, or the waiting is over."""
        connection.clean = False
        while isinstance(action := self._follower.next(time.monotonic()), Read):
            try:
                message = await connection.receive(action.timeout_s)
            except ConnectionLostError:
                self._follower.lost()
                return
            self._follower.received(message)
            if message is not None:
                if message.get("ok") is False:
                    raise error_of(message)
                self.replies += self._progress.apply(message, now=time.monotonic()).replies
        connection.clean = self._follower.idle

    async def resume(self) -> None:
        """Open the streams that the follower still wants. Raises UnreachableError when the master stays away."""
        while isinstance(action := self._follower.next(time.monotonic()), Open):
            try:
                async with self._link.connection() as connection:
                    await connection.ask(self._token, "follow", action.fields)
                    self._follower.opened(action)
                    await self.read(connection)
            except UnreachableError as error:
                self._follower.failed(error, time.monotonic())
                await asyncio.sleep(RESUME_PAUSE_S)


async def returned(link: MasterLink, token: str, jid: str) -> dict[str, dict[str, Any]]:
    """`{id: full_row}` of what a job has returned until now."""
    async with link.connection() as connection:
        published = Published(await connection.ask(token, "follow", {"jid": jid, "after": 0, "once": True}))
        progress = Progress(published, now=time.monotonic())
        stream = _JobStream(link, token, progress, Follower(progress, WaitPolicy(0.0), live=False, stored=True))
        await stream.read(connection)
    return {reply.name: full_row(reply, jid) for reply in stream.replies if reply.has_value}


def value_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """`ret`, `retcode` and `success` of a return as the verbs `job_show` and `job_return` answer it."""
    value, retcode = value_of(row["body"], row["retcode"])
    return {"ret": value, "retcode": retcode, "success": row["state"] == RETURNED and retcode == 0}
