"""The way of a process of the master to the link process: a channel that comes back, and what is said over it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from saltlite.errors import RefusedError, UnreachableError
from saltlite.master.processes import ipc_messages as inside
from saltlite.master.store.ports import OpenJob
from saltlite.model.job import Job
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Channel, connect_unix
from saltlite.wire.ipc import Inside, pack
from saltlite.wire.messages import Message
from saltlite.wire.signed_parts import SignedPart

log = logging.getLogger(__name__)

LINK_RETRY_S = 0.05
REFUSED_RETRY_S = 1.0
"""Between two tries where something else than the link process listens."""
QUESTION_S = 5.0
"""How long the answer to a client may wait for the link: for the sessions of a changed key to end, above all."""


@dataclass(frozen=True, slots=True)
class LinkPlace:
    """Where the link process listens, and the uid of whoever made that socket: of the supervisor, which is root's where
    the master was started as root. What says that it is the link process is not believed without it."""

    path: str
    uid: int


class LinkChannel:
    """The way to the link process; it comes back by itself when the link was restarted."""

    def __init__(
        self, reactor: Reactor, place: LinkPlace, role: str, on_message: Callable[[list[bytes]], None]
    ) -> None:
        self._reactor = reactor
        self._place = place
        self._role = role
        self._on_message = on_message
        self._channel: Channel | None = None
        self._asked: dict[int, Callable[[Inside | None], None]] = {}
        self._numbers = 0
        self._connect()

    def decided(self, session: int, state: str, minion: str, gone: Sequence[str] = ()) -> None:
        """The verdict about a key; `gone` are keys that made room for it, and lose their sessions."""
        self._send(inside.decided(session, state, minion, gone))

    def publish(self, job: Job, parts: Sequence[SignedPart]) -> None:
        """Send parts of a committed job to those of its minions that are up."""
        self._send(inside.publish(job, parts))
        self._flush()  # the job is on its way while its client is answered

    def pulled(
        self, minion: str, jobs: Sequence[tuple[OpenJob, list[bytes], int]], *, starved: bool, rest: str | None
    ) -> None:
        """Jobs that the store holds for a minion."""
        self._send(inside.pulled(minion, jobs, starved=starved, rest=rest))

    def cancel(self, parts: Sequence[tuple[str, str]]) -> None:
        """End these parts of jobs: (minion, part)."""
        self._send(inside.cancel(parts))

    def fetch(self, minion: str, what: str) -> None:
        """Ask a minion for its functions, its grains or the resources that it manages."""
        self._send(inside.fetch(minion, what))

    def committed(self, number: int, items: Sequence[tuple[str, list[str]]], left_out: int = 0) -> None:
        """A batch of reports is stored, but for so many results."""
        self._send(inside.committed(number, items, left_out))

    def uncommitted(self, number: int) -> None:
        """A batch of reports could not be stored."""
        self._send(inside.uncommitted(number))

    def sweep(self, minions: Sequence[str]) -> None:
        """The store holds jobs for these minions that nobody acknowledged."""
        self._send(inside.sweep(minions))

    def respond(self, session: int, message: Message) -> None:
        """What a minion is told about a file."""
        self._send(inside.response(session, message))

    def bell(self) -> None:
        """Ring for the other MWorkers."""
        self._send(inside.bell())

    def ask(self, message: Callable[[int], Inside], done: Callable[[Inside | None], None]) -> None:
        """Ask the link something; `done` gets what it answers, None when it has not in QUESTION_S."""
        self._numbers += 1
        number = self._numbers
        self._asked[number] = done
        self._put(number, message)
        self._reactor.call_later(QUESTION_S, lambda: self.answered(number, None))

    def answered(self, number: int, said: Inside | None) -> None:
        """The link answered the question of that number."""
        done = self._asked.pop(number, None)
        if done is not None:
            done(said)

    def _put(self, number: int, message: Callable[[int], Inside]) -> None:
        if number not in self._asked:
            return
        if self._channel is None:
            self._reactor.call_later(LINK_RETRY_S, lambda: self._put(number, message))
        else:
            self._send(message(number))

    def _connect(self) -> None:
        try:
            sock = connect_unix(self._place.path, made_by=self._place.uid)
        except UnreachableError:
            self._reactor.call_later(LINK_RETRY_S, self._connect)
            return
        except RefusedError as error:
            log.error("no minion can be reached: %s", error)  # noqa: TRY400 - the sentence says it all
            self._reactor.call_later(REFUSED_RETRY_S, self._connect)
            return
        self._channel = Channel(
            self._reactor,
            sock,
            self._on_message,
            self._closed,
            message_max=inside.MESSAGE_MAX,
            send_buffer_max=inside.BUFFER_MAX,
        )
        self._send(inside.hello(self._role))

    def _closed(self, _reason: str) -> None:
        self._channel = None
        self._connect()

    def _flush(self) -> None:
        if self._channel is not None:
            self._channel.flush()

    def _send(self, message: Inside) -> None:
        # Without a link there are no sessions: what matters is in the store, and is pulled by the next one.
        if self._channel is not None:
            self._channel.send(pack(message))
