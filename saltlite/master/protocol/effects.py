"""Effects of the session manager: values that the link process carries out in order."""

from __future__ import annotations

from typing import NamedTuple

from saltlite.model.dataclass import dataclass
from saltlite.model.keys import Fingerprint
from saltlite.wire.messages import Message


class Send(NamedTuple):
    """Send this frame.

    `session` is 0 for a peer without one. A frame of a session carries the delivery `jid` or `message`, by which
    `SessionManager.unsent` knows what to do when the link could not take it.
    """

    route: bytes
    frame: bytes
    session: int = 0
    jid: str = ""
    message: Message | None = None


@dataclass(frozen=True, slots=True)
class CloseConnection:
    """Close this connection if it still belongs to that address: its peer broke the protocol or is silent."""

    connection: int
    address: str


@dataclass(frozen=True, slots=True)
class Decide:
    """Ask an MWorker for the verdict about a key; the answer arrives through `decided()`."""

    session: int
    public: bytes
    address: str
    hello: Message


class MinionReport(NamedTuple):
    """A message that an MWorker must store: `job_state`, `functions`, `digest`, or `return` with its body."""

    id: str
    fingerprint: Fingerprint
    message: Message
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class Presence:
    """A minion with an accepted key came up or went away."""

    id: str
    fingerprint: Fingerprint
    up: bool
    address: str
    version: str
    boot: str
    incarnation: str
    functions: str
    run: int
    handshake: int
    end: str = ""
    """Why the session ended (`saltlite.model.minion.SessionEnd`); "" while it is up."""


@dataclass(frozen=True, slots=True)
class Pull:
    """Ask an MWorker for the jobs of this minion in the store.

    `fresh`: for all that are not settled, because the session is new or old; `since` is the job where an earlier answer
    ended.
    """

    id: str
    fresh: bool
    since: str = ""


@dataclass(frozen=True, slots=True)
class Suspect:
    """Two machines seem to share this key: the one at `address` was refused, the one at `stays` keeps its session.

    Which of them owns the key is unknown: the one that stays can be a thief.
    """

    id: str
    fingerprint: Fingerprint
    address: str
    stays: str


@dataclass(frozen=True, slots=True)
class ContestOver:
    """The answer to another master's question of that number: the `state` of the WELCOME for the newcomer there."""

    question: int
    state: str


Effect = ContestOver | Send | CloseConnection | Decide | MinionReport | Presence | Pull | Suspect


@dataclass(frozen=True, slots=True)
class MinionRequest:
    """A request of a minion for a file or a document, or a piece of one. An MWorker answers it to the session."""

    session: int
    id: str
    message: Message
