"""The channel between the link process and the other processes of the master, and the messages on it.

Each message is one small map over a private Unix socket. Both ends are processes of this master, so the maps are not
checked against a schema; sizes are limited all the same, because data of minions travels in them.

    link -> MWorker    decide, reports, pull, presence, bell, keys_done, heard, stats, suspect, request
    MWorker -> link    hello, decided, committed, uncommitted, publish, pulled, cancel, keys, fetch, sweep, heard,
                       stats, bell, response
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from saltlite.errors import RefusedError, UnreachableError
from saltlite.master.protocol.effects import MinionRequest
from saltlite.master.protocol.outbox import Delivery
from saltlite.master.protocol.session_manager import Decide, Presence, Report, Suspect
from saltlite.master.store.ports import OpenJob
from saltlite.model.job import Job
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Channel, connect_unix
from saltlite.wire.framing import IpcMessage, pack
from saltlite.wire.limits import RETURN_MAX
from saltlite.wire.merkle import SignedPart
from saltlite.wire.messages import Message

MESSAGE_MAX = 64 * 1024 * 1024
"""Bytes of one message: a publish to 10,000 minions with its proofs, or a batch of returns."""
BUFFER_MAX = 512 * 1024 * 1024
"""Bytes that may wait for an MWorker; past it the MWorker is as good as dead, and is cut off."""
BATCH_BYTES = RETURN_MAX + 1024 * 1024
"""A batch of reports is closed when it holds so much."""

MWORKER = "mworker"
MAINTENANCE = "maintenance"
"""Roles: an MWorker is given work and told who is up; maintenance only asks."""


# -- from the link


def decide(ask: Decide) -> IpcMessage:
    """What may this key do?"""
    return {
        "t": "decide",
        "session": ask.session,
        "public": ask.public,
        "address": ask.address,
        "hello": ask.said,
    }


def reports(number: int, items: Sequence[Report]) -> IpcMessage:
    """Store these; answered by `committed` with the same number."""
    rows = [[item.id, item.fingerprint, item.message, item.body] for item in items]
    return {"t": "reports", "n": number, "items": rows}


def pull(minion: str, session: Presence | None, since: str = "") -> IpcMessage:
    """Which jobs does the store hold for this minion? With its session, all that are not settled are meant, from the
    job `since` on."""
    return {"t": "pull", "id": minion, "session": None if session is None else _row(session), "since": since}


def presence(items: Iterable[Presence], *, record: bool, whole: bool = False) -> IpcMessage:
    """These came and went. `record`: this MWorker is the one that writes it down. `whole`: nobody else is up."""
    return {"t": "presence", "record": record, "whole": whole, "items": [_row(item) for item in items]}


def _row(item: Presence) -> list[Any]:
    return [
        item.id,
        item.fingerprint,
        item.up,
        item.address,
        item.version,
        item.boot,
        item.incarnation,
        item.functions,
    ]


def suspect(item: Suspect) -> IpcMessage:
    """Two machines seem to share that key. It may be lost: they will show it again."""
    return {
        "t": "suspect",
        "id": item.id,
        "fingerprint": item.fingerprint,
        "address": item.address,
        "stays": item.stays,
    }


def request(ask: MinionRequest) -> IpcMessage:
    """A request of a minion for a file or a document, or a piece of one; answered by `response`."""
    return {"t": "request", "session": ask.session, "id": ask.id, "message": ask.message}


def keys_done(number: int) -> IpcMessage:
    """The key changes of that number have taken effect on every session."""
    return {"t": "keys_done", "n": number}


def heard(number: int, silent_s: dict[str, float]) -> IpcMessage:
    """Seconds since each minion that is up was last heard."""
    return {"t": "heard", "n": number, "silent_s": silent_s}


def stats(number: int, figures: dict[str, Any]) -> IpcMessage:
    """How the link process stands."""
    return {"t": "stats", "n": number, "figures": figures}


# -- from an MWorker


def hello(role: str) -> IpcMessage:
    """The first message on a connection to the link."""
    return {"t": "hello", "role": role}


def decided(session: int, state: str, minion: str, gone: Sequence[str] = ()) -> IpcMessage:
    """The verdict about a key; `gone` are keys that made room for it, and lose their sessions."""
    return {"t": "decided", "session": session, "state": state, "id": minion, "gone": list(gone)}


def committed(number: int, items: Sequence[tuple[str, list[str]]], left_out: int = 0) -> IpcMessage:
    """The batch is stored (or refused for good): (fingerprint, jids to acknowledge), and how many results of it were
    left out, for they were none of their minion's."""
    return {"t": "committed", "n": number, "items": items, "left_out": left_out}


def uncommitted(number: int) -> IpcMessage:
    """The batch could not be stored: the link keeps it and offers it again."""
    return {"t": "uncommitted", "n": number}


def publish(job: Job, parts: Sequence[SignedPart]) -> IpcMessage:
    """A new job, or some parts of it, for those of its minions that are up."""
    return {
        "t": "publish",
        "job": [job.jid, job.body, job.signature, job.deliver_ms],
        "items": [[part.minion, part.id, part.srns, part.proof] for part in parts],
    }


def pulled(
    minion: str, jobs: Sequence[tuple[OpenJob, list[bytes], int]], *, starved: bool, rest: str | None
) -> IpcMessage:
    """Parts of jobs for one minion, each with its audience proof and the milliseconds it may still wait.

    `starved`: there are more. `rest`: the first of those, "" for none, when all that are not settled were meant;
    otherwise None.
    """
    rows = [[job.part, job.body, job.signature, proof, left_ms, job.resources_here] for job, proof, left_ms in jobs]
    return {"t": "pulled", "id": minion, "jobs": rows, "starved": starved, "rest": rest}


def cancel(parts: Sequence[tuple[str, str]]) -> IpcMessage:
    """End these parts of jobs: (minion, part)."""
    return {"t": "cancel", "parts": list(parts)}


def keys(number: int, changes: Sequence[tuple[str, str, str]]) -> IpcMessage:
    """Keys changed: (fingerprint, state, id). Answered by `keys_done`."""
    return {"t": "keys", "n": number, "changes": changes}


def ask_heard(number: int, minions: Sequence[str]) -> IpcMessage:
    """When were these last heard? Answered by `heard`."""
    return {"t": "heard", "n": number, "ids": list(minions)}


def ask_stats(number: int) -> IpcMessage:
    """How does the link process stand? Answered by `stats`."""
    return {"t": "stats", "n": number}


def fetch(minion: str, what: str) -> IpcMessage:
    """The master does not know the functions, the grains or the resources of this minion."""
    return {"t": "fetch", "id": minion, "what": what}


def sweep(minions: Sequence[str]) -> IpcMessage:
    """The store holds jobs for these minions that nobody acknowledged."""
    return {"t": "sweep", "ids": list(minions)}


def response(session: int, message: Message) -> IpcMessage:
    """The response to a request of a minion."""
    return {"t": "response", "session": session, "message": message}


def wake_up() -> IpcMessage:
    """Something was committed. It may be lost; nothing depends on it but speed."""
    return {"t": "wake_up"}


def delivery(row: Sequence[Any], now: float) -> Delivery:
    """The delivery in a row of `publish` or `pulled`: part, body, signature, proof, milliseconds left, SRNs."""
    part, body, signature, proof, left_ms, srns = row
    return Delivery(part, body, signature, proof, now + left_ms / 1000, srns)


log = logging.getLogger(__name__)

LINK_RETRY_S = 0.05
REFUSED_RETRY_S = 1.0
"""Between two tries where something else than the link process listens."""
QUESTION_S = 5.0
"""How long the answer to a client may wait for the link: for the sessions of a changed key to end, above all."""


@dataclass(frozen=True, slots=True)
class LinkAddress:
    """Where the link process listens, and the uid of whoever made that socket: of the supervisor, which is root's where
    the master was started as root. What says that it is the link process is not believed without it."""

    path: str
    uid: int


class LinkChannel:
    """The way to the link process; it comes back by itself when the link was restarted."""

    def __init__(
        self, reactor: Reactor, place: LinkAddress, role: str, on_message: Callable[[list[bytes]], None]
    ) -> None:
        self._reactor = reactor
        self._place = place
        self._role = role
        self._on_message = on_message
        self._channel: Channel | None = None
        self._asked: dict[int, Callable[[IpcMessage | None], None]] = {}
        self._numbers = 0
        self._connect()

    def decided(self, session: int, state: str, minion: str, gone: Sequence[str] = ()) -> None:
        """The verdict about a key; `gone` are keys that made room for it, and lose their sessions."""
        self._send(decided(session, state, minion, gone))

    def publish(self, job: Job, parts: Sequence[SignedPart]) -> None:
        """Send parts of a committed job to those of its minions that are up."""
        self._send(publish(job, parts))
        self._flush()  # the job is on its way while its client is answered

    def pulled(
        self, minion: str, jobs: Sequence[tuple[OpenJob, list[bytes], int]], *, starved: bool, rest: str | None
    ) -> None:
        """Jobs that the store holds for a minion."""
        self._send(pulled(minion, jobs, starved=starved, rest=rest))

    def cancel(self, parts: Sequence[tuple[str, str]]) -> None:
        """End these parts of jobs: (minion, part)."""
        self._send(cancel(parts))

    def fetch(self, minion: str, what: str) -> None:
        """MinionRequest a minion for its functions, its grains or the resources that it manages."""
        self._send(fetch(minion, what))

    def committed(self, number: int, items: Sequence[tuple[str, list[str]]], left_out: int = 0) -> None:
        """A batch of reports is stored, but for so many results."""
        self._send(committed(number, items, left_out))

    def uncommitted(self, number: int) -> None:
        """A batch of reports could not be stored."""
        self._send(uncommitted(number))

    def sweep(self, minions: Sequence[str]) -> None:
        """The store holds jobs for these minions that nobody acknowledged."""
        self._send(sweep(minions))

    def respond(self, session: int, message: Message) -> None:
        """What a minion is told about a file."""
        self._send(response(session, message))

    def wake_up(self) -> None:
        """Ring for the other MWorkers."""
        self._send(wake_up())

    def ask(self, message: Callable[[int], IpcMessage], done: Callable[[IpcMessage | None], None]) -> None:
        """MinionRequest the link something; `done` gets what it answers, None when it has not in QUESTION_S."""
        self._numbers += 1
        number = self._numbers
        self._asked[number] = done
        self._put(number, message)
        self._reactor.call_later(QUESTION_S, lambda: self.answered(number, None))

    def answered(self, number: int, said: IpcMessage | None) -> None:
        """The link answered the question of that number."""
        done = self._asked.pop(number, None)
        if done is not None:
            done(said)

    def _put(self, number: int, message: Callable[[int], IpcMessage]) -> None:
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
            message_max=MESSAGE_MAX,
            send_buffer_max=BUFFER_MAX,
        )
        self._send(hello(self._role))

    def _closed(self, _reason: str) -> None:
        self._channel = None
        self._connect()

    def _flush(self) -> None:
        if self._channel is not None:
            self._channel.flush()

    def _send(self, message: IpcMessage) -> None:
        # Without a link there are no sessions: what matters is in the store, and is pulled by the next one.
        if self._channel is not None:
            self._channel.send(pack(message))
