"""A job from its publish to its last return, for asyncio: the rules of waiting are those of the command line."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Any

from saltlite.api.link import Line, MasterLink
from saltlite.client.connection import ConnectionLostError
from saltlite.client.local import ANSWER_TIMEOUT_S, RESUME_FOR_S, JobCall, error_of
from saltlite.client.waiting import Progress, Published, Reply, WaitPolicy
from saltlite.errors import UnreachableError

_RESUME_PAUSE_S = 0.2


async def publish(link: MasterLink, token: str, job: JobCall) -> Published:
    """Publish a job and wait for nothing. Raises what the master answers."""
    request = {"request_id": os.urandom(16).hex(), **job.fields()}
    try:
        answer = await link.call(token, "publish", **request)
    except ConnectionLostError:  # the same request id is the same job
        answer = await link.call(token, "publish", **request)
    return Published(answer, fun=job.fun, target=job.tgt)


class Finished:
    """A job that nobody waits for any more: its replies, and what is known of the targets without one."""

    def __init__(self, progress: Progress, replies: list[Reply]) -> None:
        self.jid = progress.published.jid
        self.replies = replies
        self._progress = progress

    def values(self) -> dict[str, Any]:
        """`{id: return}` of those that returned, as Salt's local client answers."""
        return {reply.name: reply.value for reply in self.replies if reply.has_value}

    def silent(self) -> dict[str, bool]:
        """`{id: False}` of those that did not return: what Salt's API has for them. `full` says why."""
        return {self._progress.published.name(target): False for target in self._progress.missing()}

    def full(self) -> dict[str, dict[str, Any]]:
        """`{id: {ret, retcode, jid}}`; of a target that did not return `ret` is the reason, and `success` false."""
        published = self._progress.published
        found = {reply.name: full_row(reply, self.jid) for reply in self.replies if reply.has_value}
        for target in self._progress.missing():
            state, reason = self._progress.states[target], self._progress.reasons.get(target, "")
            text = f"Minion did not return. [{reason or _SAID.get(state, state)}]"
            row = {"ret": text, "retcode": 1, "jid": self.jid, "success": False, "out": "nested"}
            found.setdefault(published.name(target), row)
        return found


_SAID = {"queued": "No response", "planned": "Its turn did not come", "received": "Not done", "running": "Not done"}


def full_row(reply: Reply, jid: str) -> dict[str, Any]:
    """What `full_return` has of one reply."""
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
    async with link.line() as line:
        try:
            answer = await line.ask(token, "publish", {**request, "follow": True})
        except ConnectionLostError as error:
            raise _NoAnswerError(str(error)) from error
        published = Published(answer, fun=job.fun, target=job.tgt)
        patience = (
            WaitPolicy(published.timeout_s) if timeout_s is None else WaitPolicy(timeout_s, away_quiet_s=timeout_s)
        )
        watched = _Watched(link, token, Progress(published, now=time.monotonic()), patience)
        whole = await watched.listen(line)
    while not whole:
        whole = await watched.resume()
    if not watched.progress.ended:
        await watched.last_look()
    return Finished(watched.progress, watched.replies)


class _Watched:
    """One job that is followed until it is over, or waiting for it is."""

    def __init__(self, link: MasterLink, token: str, progress: Progress, patience: WaitPolicy) -> None:
        self.progress = progress
        self.replies: list[Reply] = []
        self._link = link
        self._token = token
        self._patience = patience

    async def listen(self, line: Line) -> bool:
        """Read the stream to its end, or until waiting is over; False when the connection ended before."""
        while not self.progress.ended:
            left_s = self.progress.patience_s(self._patience, now=time.monotonic())
            if left_s == 0.0:
                return True
            try:
                message = await line.receive(left_s)
            except ConnectionLostError:
                return False
            if message is not None:
                self._take(message)
        line.clean = True
        return True

    async def resume(self) -> bool:
        """Take the stream up where it broke; as `listen`. Raises UnreachableError when the master stays away."""
        give_up_at = time.monotonic() + RESUME_FOR_S
        while True:
            try:
                async with self._link.line() as line:
                    await self._ask(line, once=False)
                    return await self.listen(line)
            except UnreachableError as error:
                if time.monotonic() >= give_up_at:
                    jid = self.progress.published.jid
                    raise UnreachableError(f"the master went away while job {jid} was followed; it goes on") from error
                await asyncio.sleep(_RESUME_PAUSE_S)

    async def last_look(self) -> None:
        """What the store has now and the stream did not say yet: before anybody is called missing (G9)."""
        async with self._link.line() as line:
            await self._ask(line, once=True)
            await self.read_stored(line)

    async def read_stored(self, line: Line) -> None:
        """The messages of a `follow` with `once`."""
        line.clean = False
        while True:
            message = await line.receive(ANSWER_TIMEOUT_S)
            if message is None:
                raise UnreachableError(f"the master did not say in {ANSWER_TIMEOUT_S:g}s what it has stored")
            self._take(message)
            if message.get("so_far") or message.get("end"):
                line.clean = True
                return

    async def _ask(self, line: Line, *, once: bool) -> None:
        fields = {"jid": self.progress.published.jid, "after": self.progress.seq, "once": once}
        await line.ask(self._token, "follow", fields)
        line.clean = False

    def _take(self, message: Mapping[str, Any]) -> None:
        if message.get("ok") is False:
            raise error_of(message)
        self.replies += self.progress.apply(message, now=time.monotonic()).replies


async def returned(link: MasterLink, token: str, jid: str) -> dict[str, dict[str, Any]]:
    """`{id: full_row}` of what a job has returned until now."""
    async with link.line() as line:
        published = Published(await line.ask(token, "follow", {"jid": jid, "after": 0, "once": True}))
        watched = _Watched(link, token, Progress(published, now=time.monotonic()), WaitPolicy(0.0))
        await watched.read_stored(line)
    return {reply.name: full_row(reply, jid) for reply in watched.replies if reply.has_value}
