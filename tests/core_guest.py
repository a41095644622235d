"""A hub, and minions that may say anything to it: for the tests of the master's side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from saltlite.master.protocol.outbox import Delivery
from saltlite.master.protocol.session_manager import Effect, Send, SessionManager
from saltlite.model.keys import fingerprint
from saltlite.platform.clock import ManualClock
from saltlite.wire import codec, frames
from saltlite.wire.noise import Handshake, Role, public_of
from saltlite.wire.session import Session
from tests.core_keys import FLEET, FUNCTIONS, NOW, make_hub, seed

JID = "20270115080000000000"
JID2 = "20270115080000000001"


def jid(number: int) -> str:
    return f"{int(JID) + number:020d}"


class Table:
    """A hub, and what it wanted."""

    def __init__(self, *, per_address: float = 100_000.0) -> None:
        self.clock = ManualClock(seed=5, wall=NOW)
        self.hub: SessionManager = make_hub(self.clock, per_address=per_address)
        self.done: list[Effect] = []
        self.guests = 0

    def take(self) -> list[Effect]:
        effects = self.hub.take()
        self.done += effects
        return effects

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.hub.tick()

    def refused(self) -> Mapping[str, int]:
        return self.hub.refused_frames

    def join(self, name: str, state: str = "accepted", *, boot: str = "b") -> Guest:
        """A guest whose key was decided about."""
        guest = Guest(self, name)
        guest.prove(boot=boot)
        guest.decided(state)
        return guest


class Guest:
    """A minion's end of one connection, that may say anything."""

    def __init__(self, table: Table, name: str, *, address: str = "10.0.0.9") -> None:
        self.table = table
        self.name = name
        table.guests += 1
        self.number = table.guests
        self.route = b"\0" + self.number.to_bytes(4, "big")
        self.address = address
        self.private = seed(f"key of {name}")
        self.key = fingerprint(public_of(self.private))
        self.session: Session | None = None

    def raw(self, frame: bytes) -> None:
        is_data = frame.startswith(b"\x01\x04")
        number, address = (-1, "") if is_data else (self.number, self.address)
        self.table.hub.frame(self.route, number, address, frame)

    def hello(self) -> bytes:
        """Send HELLO; the frame that comes back, b"" for none."""
        entropy = self.table.clock.entropy(32)
        self.handshake = Handshake(Role.INITIATOR, self.private, frames.prologue(FLEET), entropy)
        self.raw(frames.hello(self.handshake.write(b""), FLEET))
        return next((effect.frame for effect in self.mine()), b"")

    def auth(self, **changed: Any) -> bytes:
        """The AUTH frame, after a HELLO that was answered."""
        said = {
            "id": self.name,
            "boot": "b",
            "incarnation": "i",
            "version": "1",
            "functions": "",
            "token": b"",
            **changed,
        }
        return frames.auth(self.handshake.write(codec.encode(said)))

    def prove(self, **said: Any) -> None:
        answer = frames.parse(self.hello())
        assert isinstance(answer, frames.Reply)
        self.handshake.read(answer.message)
        self.raw(self.auth(**said))
        self.session = Session(self.handshake)

    def decided(self, state: str) -> None:
        assert self.session is not None
        self.table.hub.decided(self.session.id, state, self.name)

    def seal(self, message: Mapping[str, Any]) -> bytes:
        assert self.session is not None
        return self.session.seal(codec.encode(message))

    def say(self, message: Mapping[str, Any]) -> None:
        self.raw(self.seal(message))

    def mine(self) -> list[Send]:
        return [e for e in self.table.take() if isinstance(e, Send) and e.route == self.route]

    def heard(self) -> list[Any]:
        """What the hub said to this guest since anything was taken last."""
        assert self.session is not None
        return [codec.decode(self.session.open(send.frame)) for send in self.mine()]

    @property
    def alive(self) -> bool:
        """Whether the hub still answers in this session."""
        self.table.take()
        self.say({"t": "hb", "running": [], "spool": 0})
        return self.heard() == [{"t": "beat"}]


def of(kind: type[Any], effects: Sequence[object]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, kind)]


def parcel(number: int, table: Table, size: int = 10) -> Delivery:
    return Delivery(jid(number), b"b" * size, b"s" * 64, [], table.clock.monotonic() + 60.0)


MESSAGES: dict[str, dict[str, Any]] = {
    "hb": {"running": [JID], "spool": 3},
    "job_state": {"jid": JID, "state": "received", "reason": ""},
    "ret": {
        "jid": JID,
        "state": "returned",
        "code": 0,
        "body": b"\xc0",
        "size": 1,
        "start_ms": 0,
        "dur_ms": 0,
        "reason": "",
    },
    "functions": {name: value for name, value in FUNCTIONS.items() if name != "t"},
    "part": {"jid": JID, "offset": 0, "data": b"x"},
    "holds": {"grains": "", "resources": ""},
    "doc_put": {"n": 1, "kind": "grains", "size": 1, "sha256": b"h" * 32, "offset": 0, "data": b"x"},
    "doc_get": {"n": 1, "kind": "pillar", "sha256": b"", "offset": 0, "nonce": b""},
    "file_ask": {"n": 1, "act": "read", "env": "base", "path": "a/b", "after": "", "offset": 0, "nonce": b""},
    "file_put": {"n": 1, "path": "a/b", "size": 1, "sha256": b"h" * 32, "offset": 0, "data": b"x"},
    "event": {"n": 1, "tag": "app/deployed", "data": b"\x80", "jid": JID},
    "bye": {"reason": ""},
    "welcome": {"state": "accepted", "hb_ms": 15_000},
    "state": {"state": "accepted"},
    "beat": {},
    "probe": {},
    "job": {"jid": JID, "resources": [], "body": b"b", "sig": b"s" * 64, "proof": [], "deliver_ms": 1},
    "cancel": {"jid": JID},
    "ret_ack": {"jids": [JID]},
    "grant": {"jid": JID},
    "want": {"what": "grains"},
    "file_said": {
        "n": 1,
        "state": "ok",
        "size": 1,
        "sha256": b"",
        "mode": 0,
        "mtime": 0,
        "data": b"x",
        "names": [],
        "more": False,
        "sig": b"",
    },
    "lame": {"spread_ms": 1},
}
