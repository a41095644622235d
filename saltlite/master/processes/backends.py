"""The way from an MWorker to the process that checks passwords, which has rights that MWorkers gave up."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from saltlite.errors import RefusedError, UnreachableError
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Channel, connect_unix
from saltlite.wire.ipc import pack, unpack

log = logging.getLogger(__name__)

MESSAGE_MAX = 256 * 1024
RETRY_S = 0.2
WAIT_S = 30.0
"""How long a check may take, its turn included."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a backend said of a name and a password; `reason` is a sentence that the caller may read, or ""."""

    ok: bool
    groups: tuple[str, ...] = ()
    reason: str = ""


Done = Callable[[Verdict], None]

_GONE = Verdict(ok=False, reason="the process that checks passwords does not answer: try again, or look at the log")


class Backends:
    """Asks the process at `path`, which must be one of the user `uid`: others could say yes to everything."""

    def __init__(self, reactor: Reactor, path: str, uid: int) -> None:
        self._reactor = reactor
        self._path = path
        self._uid = uid
        self._channel: Channel | None = None
        self._asked: dict[int, Done] = {}
        self._numbers = 0

    def check(self, backend: str, user: str, password: str, done: Done) -> None:
        """`done` gets the verdict, once."""
        self._numbers += 1
        number = self._numbers
        self._asked[number] = done
        self._reactor.call_later(WAIT_S, lambda: self._answered(number, _GONE))
        if self._channel is None:
            self._connect()
        if self._channel is None:
            self._answered(number, _GONE)
            return
        self._channel.send(pack({"n": number, "backend": backend, "user": user, "password": password}))

    def _answered(self, number: int, verdict: Verdict) -> None:
        done = self._asked.pop(number, None)
        if done is not None:
            done(verdict)

    def _connect(self) -> None:
        try:
            # The folder of the socket is the master's user's, so a process that was broken into could replace it.
            sock = connect_unix(self._path, made_by=self._uid)
        except (UnreachableError, RefusedError) as error:
            log.error("nobody can log in: %s", error)  # noqa: TRY400 - the sentence says it all
            return
        self._channel = Channel(
            self._reactor, sock, self._on_batch, self._closed, message_max=MESSAGE_MAX, send_buffer_max=16 * MESSAGE_MAX
        )

    def _on_batch(self, batch: list[bytes]) -> None:
        for data in batch:
            said = unpack(data)
            self._answered(said["n"], Verdict(said["ok"], tuple(said["groups"]), said["reason"]))

    def _closed(self, _reason: str) -> None:
        self._channel = None
        for number in list(self._asked):
            self._answered(number, _GONE)
