"""What the hub wants done: its effects, carried out by the link process in order."""

from __future__ import annotations

from dataclasses import dataclass

from saltlite.model.keys import Fingerprint
from saltlite.wire.messages import Message


@dataclass(frozen=True, slots=True)
class Send:
    """Put this frame on the link.

    `session` is 0 for a peer that has none; `jid` names the job it carries, `message` what it says otherwise:
    by these the hub knows what to do when the link could not take it.
    """

    route: bytes
    frame: bytes
    session: int = 0
    jid: str = ""
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """End this connection, if it still belongs to that address: its peer broke the protocol or is silent."""

    connection: int
    address: str


@dataclass(frozen=True, slots=True)
class Decide:
    """MinionRequest an MWorker what this key may do; the answer comes back through `decided()`."""

    session: int
    public: bytes
    address: str
    said: Message


@dataclass(frozen=True, slots=True)
class Report:
    """What a minion said and an MWorker must store: `job_state`, `functions`, `digest`, or `ret` with its body."""

    id: str
    fingerprint: Fingerprint
    message: Message
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Presence:
    """A minion with an accepted key came (`up`) or went."""

    id: str
    fingerprint: Fingerprint
    up: bool
    address: str
    version: str
    boot: str
    incarnation: str
    functions: str


@dataclass(frozen=True, slots=True)
class Pull:
    """MinionRequest an MWorker for the jobs of this minion that the store still holds.

    `fresh`: whatever is not settled is asked about anew, because the session has just begun or is old; from the job
    `since` on, where an earlier answer left off.
    """

    id: str
    fresh: bool
    since: str = ""


@dataclass(frozen=True, slots=True)
class Suspect:
    """Two machines seem to share this key: the one at `address` was sent away, the one at `stays` stays.

    Which of them has the key by right is not known: a thief can be the one that stays.
    """

    id: str
    fingerprint: Fingerprint
    address: str
    stays: str


Effect = Send | CloseConnection | Decide | Report | Presence | Pull | Suspect


@dataclass(frozen=True, slots=True)
class MinionRequest:
    """A minion asks for a file or a document, or sends a piece: for an MWorker, whose answer goes to the session."""

    session: int
    id: str
    message: Message
