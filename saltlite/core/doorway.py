"""Strangers at the master's door: handshakes that have not proved a key yet (R12).

    (route) -> HELLO, admitted -> open -> AUTH in 10 s -> an Arrival
                   |                |
                   BUSY             overdue, second HELLO, bad proof: forgotten

Rules of this file: at most OPEN_HANDSHAKES are open, one a route; nothing else is kept of a stranger;
nothing a stranger sends costs more than one handshake.
"""

from __future__ import annotations

from dataclasses import dataclass

from saltlite.core.admission import BUSY_S, Admission
from saltlite.core.ports import Clock
from saltlite.errors import RemoteProtocolError
from saltlite.model.keys import fingerprint_bytes
from saltlite.wire import codec, frames
from saltlite.wire.limits import (
    HANDSHAKE_TIMEOUT_S,
    HANDSHAKES_PER_S,
    OPEN_HANDSHAKES,
    OPEN_HANDSHAKES_PER_ADDRESS,
)
from saltlite.wire.messages import AUTH_FIELDS, Message, check_payload
from saltlite.wire.noise import Handshake, Role
from saltlite.wire.session import Session


@dataclass(frozen=True, slots=True)
class Arrival:
    """A peer that has proved the key `session.peer`, and what it says of itself."""

    session: Session
    said: Message
    connection: int
    address: str


@dataclass(frozen=True, slots=True)
class _Opening:
    """A handshake that waits for its AUTH."""

    handshake: Handshake
    connection: int
    address: str
    deadline: float


class Doorway:
    """Answers strangers until they have proved a key.

    `certificate` is the encoded master certificate, `private` the X25519 key that it names.
    """

    def __init__(
        self,
        *,
        fleet_public: bytes,
        certificate: bytes,
        private: bytes,
        handshakes_per_address: float,
        clock: Clock,
    ) -> None:
        self._fleet_public = fleet_public
        self._fleet = fingerprint_bytes(fleet_public)
        self._certificate = certificate
        self._private = private
        self._clock = clock
        open_per_address = max(OPEN_HANDSHAKES_PER_ADDRESS, int(handshakes_per_address))
        self._admission = Admission(HANDSHAKES_PER_S, handshakes_per_address, open_per_address, clock.monotonic())
        # All wait equally long, so the first is always the next to be overdue.
        self._openings: dict[bytes, _Opening] = {}

    def query(self, address: str) -> bytes:
        """The frame that answers QUERY."""
        if not self._admission.begin(address, self._clock.monotonic()):
            return _busy()
        self._admission.end(address)
        return frames.fleet(self._fleet_public)

    def hello(self, route: bytes, connection: int, address: str, frame: frames.Hello) -> bytes:
        """The frame that answers HELLO. Raises RemoteProtocolError."""
        now = self._clock.monotonic()
        if not frames.hello_is_for(frame, self._fleet):
            raise RemoteProtocolError("bad-mac")
        if route in self._openings:
            raise RemoteProtocolError("second-hello")
        if len(self._openings) >= OPEN_HANDSHAKES or not self._admission.begin(address, now):
            return _busy()
        entropy = self._clock.entropy(32)
        handshake = Handshake(Role.RESPONDER, self._private, frames.prologue(self._fleet), entropy)
        self._openings[route] = _Opening(handshake, connection, address, now + HANDSHAKE_TIMEOUT_S)
        handshake.read(frame.message)
        proof = codec.encode({"cert": self._certificate, "now": int(self._clock.wall())})
        return frames.reply(handshake.write(proof))

    def auth(self, route: bytes, frame: frames.Auth) -> Arrival:
        """Who it was. Raises RemoteProtocolError."""
        opening = self._forget(route)
        if opening is None:
            raise RemoteProtocolError("unexpected-frame", "AUTH")
        said = check_payload(codec.decode(opening.handshake.read(frame.message)), AUTH_FIELDS)
        return Arrival(Session(opening.handshake), said, opening.connection, opening.address)

    def give_up(self, route: bytes) -> None:
        """Forget the handshake of that route, if there is one."""
        self._forget(route)

    def overdue(self) -> list[tuple[int, str]]:
        """Forget the handshakes that took too long; their (connection, address)."""
        now = self._clock.monotonic()
        late: list[tuple[int, str]] = []
        while self._openings:
            route, opening = next(iter(self._openings.items()))
            if now < opening.deadline:
                break
            self._forget(route)
            late.append((opening.connection, opening.address))
        return late

    def _forget(self, route: bytes) -> _Opening | None:
        opening = self._openings.pop(route, None)
        if opening is not None:
            self._admission.end(opening.address)
        return opening


def _busy() -> bytes:
    return frames.busy(int(BUSY_S * 1000))
