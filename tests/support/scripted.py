"""A minion's connection, and a master that says what a test tells it to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.master.protocol.handshakes import Handshakes
from saltlite.minion.protocol.connection import Changed, ConnectionMachine, Effect, Phase, SendFrame
from saltlite.platform.daemon import ManualClock
from saltlite.wire import codec, frames
from saltlite.wire.certificates import decode_chain
from saltlite.wire.directory import NOWHERE, Directory
from saltlite.wire.frames import SecureSession
from tests.support.keys import FLEET, FLEET_PUBLIC, MASTER_PRIVATE, NOW, certificate, good_token, identity

JID = "20270115080000000000"
HB_S = 15.0
MASTERS = ("a:1", "b:2", "c:3")


class Scripted:
    """A connection, and a master that says what the test tells it to."""

    def __init__(
        self,
        *,
        fleet: bytes | None = FLEET,
        cert: bytes | None = None,
        private: bytes = MASTER_PRIVATE,
        chain: bytes = b"",
        known: Directory = NOWHERE,
    ) -> None:
        self.clock = ManualClock(seed=3, wall=NOW)
        self.connection = ConnectionMachine(identity("web1", good_token("web1")), MASTERS, fleet, self.clock, known)
        self.handshakes = Handshakes(
            fleet_public=decode_chain(chain)[-1].new_public if chain else FLEET_PUBLIC,
            certificate=certificate(NOW).encode() if cert is None else cert,
            private=private,
            handshakes_per_address=100.0,
            clock=self.clock,
            chain=chain,
        )
        self.session: SecureSession | None = None
        self.seen: list[Effect] = []

    def take(self) -> list[Effect]:
        effects = self.connection.take()
        self.seen += effects
        return effects

    def sent(self) -> list[bytes]:
        return [effect.frame for effect in self.take() if isinstance(effect, SendFrame)]

    def connect(self) -> None:
        if self.connection.phase is not Phase.CONNECT:
            self.connection.start()
        self.connection.link_up()

    def prove(self) -> None:
        """HELLO, REPLY, AUTH: until the master waits to say WELCOME."""
        self.take()
        self.connect()
        (raw,) = self.sent()
        hello = frames.parse(raw)
        assert isinstance(hello, frames.HelloFrame)
        self.connection.frame(self.handshakes.hello(b"r", 1, "10.0.0.1", hello))
        (raw,) = self.sent()
        auth = frames.parse(raw)
        assert isinstance(auth, frames.AuthFrame)
        self.session = self.handshakes.auth(b"r", auth).session

    def say(self, message: Mapping[str, Any]) -> None:
        assert self.session is not None
        self.connection.frame(self.session.seal(codec.encode(message)))

    def heard(self) -> list[Any]:
        """The messages that the connection has sent since."""
        assert self.session is not None
        return [codec.decode(self.session.open(raw)) for raw in self.sent()]

    def welcomed(self, state: str = "accepted") -> Scripted:
        self.prove()
        self.say({"t": "welcome", "state": state, "heartbeat_ms": int(HB_S * 1000)})
        return self

    def phase(self) -> Phase:
        return self.connection.phase

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.connection.tick()

    def rest_s(self) -> float:
        """How long it will wait from now."""
        return self.connection.deadline() - self.clock.monotonic()

    def why(self) -> str:
        """The reason that was given last."""
        self.take()
        return [effect.reason for effect in self.seen if isinstance(effect, Changed)][-1]
