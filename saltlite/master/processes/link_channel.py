"""The channel between the link process and the other processes of the master, and the messages on it.

Each message is a small map on a private Unix socket. Both ends are processes of this master, so the maps are not
checked against a schema. Their size is limited, because they contain data of minions.

    link -> MWorker    decide, reports, pull, presence, wake_up, keys_done, last_seen, stats, suspect, request,
                       elsewhere
    MWorker -> link    hello, fleet, watch, decided, committed, uncommitted, publish, pulled, cancel, keys, fetch,
                       replaced, sweep, last_seen, stats, wake_up, response
    membership -> link  masters, placement, contest, contest_over, and publish, cancel and wake_up
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from saltlite.errors import RefusedError, UnreachableError
from saltlite.master.protocol.effects import Decide, MinionReport, MinionRequest, Presence, Suspect
from saltlite.master.protocol.sessions import Delivery
from saltlite.master.store.ports import OpenJob
from saltlite.model.dataclass import dataclass
from saltlite.model.job import Job
from saltlite.platform.reactor import Reactor
from saltlite.platform.stream import Channel, connect_unix
from saltlite.wire.framing import IpcMessage, pack
from saltlite.wire.limits import RETURN_MAX
from saltlite.wire.merkle import SignedPart
from saltlite.wire.messages import Message

if TYPE_CHECKING:
    from saltlite.master.processes.contests import Newcomer

log = logging.getLogger(__name__)

MESSAGE_MAX = 64 * 1024 * 1024
"""Bytes of one message: a publish to 10,000 minions with its proofs, or a batch of returns."""
BUFFER_MAX = 512 * 1024 * 1024
"""Bytes that may wait for an MWorker. One that exceeds them is considered dead, and is disconnected."""
BATCH_BYTES = RETURN_MAX + 1024 * 1024
"""A batch of reports is closed at this size."""
LINK_RETRY_S = 0.05
REFUSED_RETRY_S = 1.0
"""Seconds between two attempts to connect when the socket is not the link process's."""
WAKE_UP_S = 0.01
"""How long each process, and then the link process, collects commits before it wakes up the MWorkers."""
QUESTION_S = 5.0
"""How long the answer to a client may wait for the link, above all until the sessions of a changed key have ended."""

MWORKER = "mworker"
MAINTENANCE = "maintenance"
MEMBERSHIP = "membership"
"""Roles: an MWorker receives work and presence; the others only send, and receive answers to their questions."""


# -- messages of the link process


def decide(item: Decide) -> IpcMessage:
    """Ask for the verdict about a key."""
    return {
        "t": "decide",
        "session": item.session,
        "public": item.public,
        "address": item.address,
        "hello": item.hello,
    }


def reports(number: int, items: Sequence[MinionReport]) -> IpcMessage:
    """Reports to store; answered by `committed` or `uncommitted` with the same number."""
    return {"t": "reports", "n": number, "items": items}


def pull(minion: str, session: Presence | None, since: str = "") -> IpcMessage:
    """Ask for this minion's jobs. With `session`: all that are not settled, from the job `since` on."""
    return {"t": "pull", "id": minion, "session": None if session is None else _row(session), "since": since}


def presence(items: Iterable[Presence], *, record: bool, whole: bool = False) -> IpcMessage:
    """Minions came and went. `record`: this MWorker stores it. `whole`: no other minion is up."""
    return {"t": "presence", "record": record, "whole": whole, "items": [_row(item) for item in items]}


def _row(item: Presence) -> list[Any]:
    return [getattr(item, name) for name in _PRESENCE_FIELDS]


_PRESENCE_FIELDS = tuple(field.name for field in fields(Presence))


def suspect(item: Suspect) -> IpcMessage:
    """Two machines seem to share this key. The message may be lost: the link detects it again."""
    return {
        "t": "suspect",
        "id": item.id,
        "fingerprint": item.fingerprint,
        "address": item.address,
        "stays": item.stays,
    }


def request(item: MinionRequest) -> IpcMessage:
    """A request of a minion for a file or a document, or a piece of one; answered by `response`."""
    return {"t": "request", "session": item.session, "id": item.id, "message": item.message}


def delivery(row: Sequence[Any], now: float) -> Delivery:
    """The delivery in a row of `publish` or `pulled`: part, body, signature, proof, milliseconds left, SRNs."""
    part, body, signature, proof, left_ms, srns = row
    return Delivery(part, body, signature, proof, now + left_ms / 1000, srns)


def wake_up(committed: Iterable[Collection[str] | None]) -> IpcMessage:
    """Something was committed, each time what `LinkChannel.wake_up` says: streams are to be read."""
    every = list(committed)
    jobs = None if None in every else sorted({jid for some in every if some for jid in some})
    return {"t": "wake_up", "jobs": jobs}


# -- questions to the link process, for `LinkChannel.ask`


def keys(number: int, changes: Sequence[tuple[str, str, str]]) -> IpcMessage:
    """Keys changed: (fingerprint, state, id). Answered by `keys_done` when every session reflects it."""
    return {"t": "keys", "n": number, "changes": changes}


def masters(
    number: int,
    *,
    begins: bool,
    certificates: Sequence[bytes] = (),
    keys: Sequence[tuple[str, str, str]] = (),
    replaced: Sequence[tuple[str, str, int, int]] = (),
    elsewhere: Sequence[tuple[str, bool]] = (),
    lease: float | None = None,
) -> IpcMessage:
    """What the other masters that share the store have committed: their certificates, changed keys as in `keys`,
    sessions that began there as (minion, boot, run, handshake), and minions that came or went as in `elsewhere`.
    `lease`: this master may act until then (`Clock.boottime`). `begins`: the present sessions end first. Answered by
    `masters_done` when every session reflects the changes."""
    return {
        "t": "masters",
        "n": number,
        "certs": list(certificates),
        "changes": list(keys),
        "replaced": list(replaced),
        "elsewhere": list(elsewhere),
        "lease": lease,
        "begins": begins,
    }


def elsewhere(items: Sequence[tuple[str, bool]], *, anew: bool) -> IpcMessage:
    """Whether each of these minions has a session with another master that shares the store. `anew`: events may have
    been missed, so the receiver has to read the store."""
    return {"t": "elsewhere", "items": list(items), "anew": anew}


def ask_last_seen(number: int, minions: Sequence[str]) -> IpcMessage:
    """How many seconds ago was each of these seen? Answered by `last_seen`, with those that are up in `silent_s`."""
    return {"t": "last_seen", "n": number, "ids": list(minions)}


def contest(number: int, newcomer: Newcomer) -> IpcMessage:
    """Another start of a minion has connected to another master: is the session here alive? Answered by
    `contest_over`."""
    order = [newcomer.run, newcomer.handshake]
    return {
        "t": "contest",
        "n": number,
        "key": newcomer.fingerprint,
        "newcomer": [newcomer.boot, order, newcomer.address],
    }


def ask_stats(number: int) -> IpcMessage:
    """The figures of the link process; answered by `stats`."""
    return {"t": "stats", "n": number}


@dataclass(frozen=True, slots=True)
class LinkAddress:
    """The socket of the link process, and the uid that must have made it: the supervisor's.

    Another process that listens there is not trusted.
    """

    path: str
    uid: int


class LinkChannel:
    """A channel to the link process. It reconnects by itself when the link process was restarted."""

    def __init__(
        self,
        reactor: Reactor,
        address: LinkAddress,
        role: str,
        on_message: Callable[[list[bytes]], None],
        on_loss: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_loss` is called when the link process has ended, or closed the channel."""
        self._reactor = reactor
        self._on_loss = on_loss
        self._address = address
        self._role = role
        self._on_message = on_message
        self._channel: Channel | None = None
        self._asked: dict[int, Callable[[IpcMessage | None], None]] = {}
        self._numbers = 0
        self._committed: list[Collection[str] | None] = []
        self._watches = False
        self._connect()

    def fleet(self, accepted_keys: int) -> None:
        """How many keys are accepted: a new link process sets the pace of heartbeats by it."""
        self._send({"t": "fleet", "accepted_keys": accepted_keys})

    def watch(self, *, wanted: bool) -> None:
        """Whether this MWorker wants to know of all commits, because it has other streams than those of jobs that it
        published. Without them it is woken up for its jobs only."""
        if wanted != self._watches:
            self._watches = wanted
            self._send({"t": "watch", "wanted": wanted})

    def decided(self, session: int, state: str, minion: str, gone: Sequence[str] = ()) -> None:
        """The verdict about a key; `gone` are keys that were deleted for it, and lose their sessions."""
        self._send({"t": "decided", "session": session, "state": state, "id": minion, "gone": list(gone)})

    def publish(self, job: Job, parts: Sequence[SignedPart]) -> None:
        """Deliver parts of a committed job to those of its minions that are up."""
        rows = [[part.minion, part.id, part.srns, part.proof] for part in parts]
        self._send({"t": "publish", "job": [job.jid, job.body, job.signature, job.deliver_ms], "items": rows})
        if self._channel is not None:
            self._channel.flush()  # the job is on its way while its client is answered

    def pulled(
        self, minion: str, jobs: Sequence[tuple[OpenJob, list[bytes], int]], *, starved: bool, rest: str | None
    ) -> None:
        """Parts of jobs for one minion, each with its audience proof and the milliseconds until it expires.

        `starved`: there are more. `rest`: the first of those ("" for none) in the answer to a fresh pull, else None.
        """
        rows = [[job.part, job.body, job.signature, proof, left_ms, job.resources_here] for job, proof, left_ms in jobs]
        self._send({"t": "pulled", "id": minion, "jobs": rows, "starved": starved, "rest": rest})

    def cancel(self, parts: Sequence[tuple[str, str]]) -> None:
        """End these parts of jobs: (minion, part)."""
        self._send({"t": "cancel", "parts": list(parts)})

    def fetch(self, minion: str, what: str) -> None:
        """Ask a minion for its `functions`, `grains` or `resources`, which the master does not have."""
        self._send({"t": "fetch", "id": minion, "what": what})

    def replaced(self, minion: str, run: int, handshake: int) -> None:
        """Another master has a newer session of this minion: end this one."""
        self._send({"t": "replaced", "id": minion, "run": run, "handshake": handshake})

    def contest_over(self, newcomer: Newcomer, state: str) -> None:
        """The verdict about a session that waited for the answer of another master."""
        order = [newcomer.run, newcomer.handshake]
        about = {"key": newcomer.fingerprint, "boot": newcomer.boot, "order": order}
        self._send({"t": "contest_over", **about, "state": state})

    def placement(self, directory: tuple[bytes, bytes], *, draining: bool) -> None:
        """The signed directory of the masters, and whether this one drains. It is sent after each renewal, so that a
        new link process has it."""
        self._send({"t": "placement", "directory": list(directory), "draining": draining})

    def committed(self, number: int, items: Sequence[tuple[str, list[str]]], skipped: int = 0) -> None:
        """A batch of reports is stored: (fingerprint, jids to acknowledge), and the number of rejected results."""
        self._send({"t": "committed", "n": number, "items": items, "skipped": skipped})

    def uncommitted(self, number: int) -> None:
        """A batch of reports could not be stored: the link keeps it and sends it again."""
        self._send({"t": "uncommitted", "n": number})

    def sweep(self, minions: Sequence[str]) -> None:
        """The store holds unacknowledged jobs for these minions."""
        self._send({"t": "sweep", "ids": list(minions)})

    def respond(self, session: int, message: Message) -> None:
        """The response to a request of a minion."""
        self._send({"t": "response", "session": session, "message": message})

    def wake_up(self, jobs: Collection[str] | None = None) -> None:
        """Tell the other MWorkers that something was committed, if they want to know it. `jobs` are those in which a
        target changed its state or returned, None for any.

        What is committed within WAKE_UP_S goes into one message. If it is lost, they notice a little later.
        """
        if not self._committed:
            self._reactor.call_later(WAKE_UP_S, self._wake_up)
        self._committed.append(jobs)

    def _wake_up(self) -> None:
        committed, self._committed = self._committed, []
        self._send(wake_up(committed))

    def ask(self, message: Callable[[int], IpcMessage], done: Callable[[IpcMessage | None], None]) -> None:
        """Ask the link process; `done` gets its answer, or None after QUESTION_S. For MEMBERSHIP it also gets None when
        the link process ends."""
        self._numbers += 1
        number = self._numbers
        self._asked[number] = done
        self._put(number, message)
        self._reactor.call_later(QUESTION_S, lambda: self.answered(number, None))

    def answered(self, number: int, reply: IpcMessage | None) -> None:
        """The link process answered question `number`."""
        done = self._asked.pop(number, None)
        if done is not None:
            done(reply)

    def _put(self, number: int, message: Callable[[int], IpcMessage]) -> None:
        if number not in self._asked:
            return
        if self._channel is None:
            self._reactor.call_later(LINK_RETRY_S, lambda: self._put(number, message))
        else:
            self._send(message(number))

    def _connect(self) -> None:
        try:
            sock = connect_unix(self._address.path, made_by=self._address.uid)
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
        self._send({"t": "hello", "role": self._role, "watch": self._watches})

    def _closed(self, _reason: str) -> None:
        self._channel = None
        if self._role == MEMBERSHIP:
            # The membership process needs an answer to renew its lease, and the next link process needs the lease soon.
            for number in list(self._asked):
                self.answered(number, None)
        self._on_loss()
        self._connect()

    def _send(self, message: IpcMessage) -> None:
        # Without a link process there are no sessions: the store has all that matters, and the next one pulls it.
        if self._channel is not None:
            self._channel.send(pack(message))
