"""What a handler is handed: the store, the clock, this master's identity, and the way to the link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from saltlite.core.ports import Clock, OpenJob, Store
from saltlite.model.ids import Jid, MinionId
from saltlite.model.job import Job
from saltlite.model.keys import Fingerprint
from saltlite.wire.certificate import MasterCertificate
from saltlite.wire.merkle import proofs


class ToLink(Protocol):
    """What handlers may ask of the link process. Nothing is lost with a link that is down: the store has it."""

    def decided(self, session: int, state: str, minion: str) -> None: ...

    def publish(self, job: Job, proofs: dict[str, list[bytes]]) -> None: ...

    def pulled(self, minion: str, jobs: Sequence[tuple[OpenJob, list[bytes], int]], *, starved: bool) -> None: ...

    def cancel(self, jid: str, minions: Sequence[str]) -> None: ...

    def want_functions(self, minion: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this master is: its certificate, and the Ed25519 seed that signs jobs (32 bytes)."""

    fleet: Fingerprint
    certificate: MasterCertificate
    job_private: bytes


@dataclass(frozen=True, slots=True)
class Terms:
    """What the configuration says to handlers. Times in seconds."""

    timeout_s: float
    deliver_s: float
    operators: frozenset[int]
    """The uids that may do anything: root's, and that of whoever started the master."""


PROOFS_KEPT = 4
"""Jobs whose audience proofs an MWorker remembers: those of 10,000 targets take 60 ms to make, and 3 MB."""


class RecentProofs:
    """Audience proofs by job, the longest unused ones forgotten first.

    A fleet that comes back asks for the same few jobs once a minion: made anew each time, they would cost the
    square of its size.
    """

    def __init__(self) -> None:
        self._kept: dict[Jid, dict[str, list[bytes]]] = {}

    def of(self, jid: Jid, minions: Sequence[MinionId]) -> dict[str, list[bytes]]:
        """The proofs of all targets of that job, by minion id."""
        found = self._kept.pop(jid, None)
        if found is None:
            found = proofs(minions)
            if len(self._kept) >= PROOFS_KEPT:
                del self._kept[next(iter(self._kept))]
        self._kept[jid] = found
        return found


@dataclass(slots=True)
class Master:
    """One MWorker's world."""

    store: Store
    clock: Clock
    identity: Identity
    terms: Terms
    link: ToLink
    proofs: RecentProofs = field(default_factory=RecentProofs)
    present: dict[MinionId, float] = field(default_factory=dict)
    """Minions that have a session now, and since when; kept up to date by the link."""


@dataclass(frozen=True, slots=True)
class Follow:
    """The client wants what comes back for a job, from this sequence number on."""

    jid: Jid
    after: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a handler answers.

    `key_changes` are (fingerprint, state, id): the answer is held back until the link has acted on them.
    `follow` keeps the connection open and streams.
    """

    fields: dict[str, Any]
    follow: Follow | None = None
    key_changes: Sequence[tuple[str, str, str]] = ()
