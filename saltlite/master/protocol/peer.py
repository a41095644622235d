"""One minion's session as the master's side sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

from saltlite.errors import RemoteProtocolError
from saltlite.limits import RateLimiter
from saltlite.master.protocol.effects import Presence, Pull, Send
from saltlite.master.protocol.outbox import Outbox
from saltlite.model.keys import Fingerprint, KeyState
from saltlite.model.parts import is_resource_part
from saltlite.wire import codec
from saltlite.wire.limits import HEARTBEAT_MIN_S
from saltlite.wire.messages import Message, Sender, check
from saltlite.wire.session import Session

HELD_MAX = 256
"""Messages kept for a minion whose link is full; one that takes none of so many is hung up on."""


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

    def read(self, frame: bytes, function_reports: RateLimiter, now: float) -> Message:
        """The message in a DATA frame of this session. Raises RemoteProtocolError, which ends the session."""
        plaintext = self.session.open(frame)
        if self.session.missed:
            # A minion leaves no frame out. In a new session everything that is not settled is said again.
            raise RemoteProtocolError("gap", f"{self.session.missed} frames of the minion did not arrive")
        message = codec.decode(plaintext)
        is_report = isinstance(message, dict) and message.get("t") == "functions"
        # Limited before it is checked, which takes up to 40 ms.
        if is_report and function_reports.take(self.fingerprint, now):
            raise RemoteProtocolError("too-often", "reports of functions")
        return check(message, Sender.MINION, accepted=self.state is KeyState.ACCEPTED)

    def next_pull(self) -> Pull:
        """What is asked for when there is room again: what a fresh pull has left comes first."""
        rest, self.outbox.rest = self.outbox.rest, ""
        return Pull(self.id, fresh=bool(rest), since=rest)

    def sealed(self, message: Message, jid: str = "") -> Send:
        """A message, or the parcel of that job, as a frame of this session."""
        frame = self.session.seal(codec.encode(message))
        return Send(self.route, frame, self.session.id, jid, None if jid else message)

    def hold(self, message: Message) -> bool:
        """Keep what the link has no room for; False when it takes none of HELD_MAX. The next beat says the same."""
        if message["t"] != "heartbeat_ack":
            self.held.append(message)
        return len(self.held) <= HELD_MAX

    def due(self, now: float) -> list[Send]:
        """What was held, in order, and then the parcels that it is time for."""
        held, self.held = self.held, []
        # Sealed in the order in which they leave: each frame has the next number of its session.
        said = [self.sealed(message) for message in held]
        return said + [self.sealed(parcel.message(now), parcel.jid) for parcel in self.outbox.due(now)]

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


def comes_whole(message: Message) -> bool:
    """Whether that `ret` brings its body, and does not only announce it. Raises RemoteProtocolError for neither."""
    if message["size"] and is_resource_part(message["jid"]):
        # The body would be stored once for each resource that has not answered.
        raise RemoteProtocolError("bad-message", "how a part for resources ended has no body: segments have")
    if message["body"] and message["size"] != len(message["body"]):
        raise RemoteProtocolError("bad-message", "a return comes whole, or is announced by its size alone")
    return bool(message["size"] == len(message["body"]))
