"""One minion's session as the master's side sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

from saltlite.core.hub_effects import Presence
from saltlite.core.outbox import Outbox
from saltlite.model.keys import Fingerprint, KeyState
from saltlite.wire.limits import HEARTBEAT_MIN_S
from saltlite.wire.messages import Message
from saltlite.wire.session import Session


@dataclass(slots=True)
class Peer:
    """One authenticated session. `state` is None while an MWorker decides. Times are monotonic seconds."""

    session: Session
    route: bytes
    connection: int
    address: str
    fingerprint: Fingerprint
    said: Message
    since: float
    last_heard: float
    state: KeyState | None = None
    id: str = ""
    beat_s: float = HEARTBEAT_MIN_S
    """The pace that this minion was told."""
    outbox: Outbox = field(default_factory=Outbox)
    pull_at: float = 0.0
    """When its unsettled jobs are asked about anew."""
    known: bool = False
    """An MWorker has answered its first pull, so the store knows of this session."""
    held: list[Message] = field(default_factory=list)
    """What the link had no room for, in order."""

    def presence(self, *, up: bool) -> Presence:
        """That this minion came or went, with what it says of itself."""
        said = self.said
        return Presence(
            id=self.id,
            fingerprint=self.fingerprint,
            up=up,
            address=self.address,
            version=said["version"],
            boot=said["boot"],
            incarnation=said["incarnation"],
            functions=said["functions"],
        )
