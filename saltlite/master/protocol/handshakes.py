"""Peers that have not proved a key yet: their connections and their handshakes, limited in number and rate (R12).

A connection without a session is a stranger. It is closed after UNAUTHENTICATED_S, or when its network has too many:

    connected -> stranger -> HELLO, admitted -> open handshake -> AUTH within 10 s -> Arrival: a session begins
                    ^              |                  |
                    |              BUSY               overdue, second HELLO, bad proof: connection closed
                    +---- session over

A minion names the fleet key that it pins. If that key is a predecessor of this master's, the master answers under it
and adds the successions that lead from it to the present key.

At most so many handshakes are open as this master can finish before their minions time out (`Admission`). Work on any
further ones would be wasted and repeated, so those peers are told when to try again. Peers that begin handshakes and
prove nothing do not displace others for long: the limit rises by their number, up to OPEN_HANDSHAKES.

Invariants: at most OPEN_HANDSHAKES are open, one per route; a stranger occupies nothing else than rows of tables of
fixed size; nothing that a stranger sends costs more than one handshake.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from itertools import takewhile

from saltlite.errors import RemoteProtocolError
from saltlite.limits import ConnectionLimiter, RateLimiter, network_of
from saltlite.master.protocol.effects import CloseConnection
from saltlite.model.clock import Clock
from saltlite.model.dataclass import dataclass
from saltlite.model.keys import fingerprint_bytes
from saltlite.wire import codec, frames
from saltlite.wire.certificates import decode_chain, encode_chain
from saltlite.wire.frames import SecureSession
from saltlite.wire.limits import (
    FLEET_CHAIN_RECORDS,
    HANDSHAKE_TIMEOUT_S,
    HANDSHAKES_PER_S,
    OPEN_HANDSHAKES,
    OPEN_HANDSHAKES_PER_ADDRESS,
    UNAUTHENTICATED_MAX,
    UNAUTHENTICATED_PER_NETWORK,
    UNAUTHENTICATED_S,
)
from saltlite.wire.messages import AUTH_DEFAULTS, AUTH_FIELDS, Message, check_payload
from saltlite.wire.noise import Handshake, Role, private_key


class Balancers:
    """The addresses of load balancers, as networks such as `192.0.2.0/28`. Many minions share such an address, so the
    limits of an address do not apply to it. Raises ValueError."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = [ip_network(text) for text in networks]

    def __contains__(self, address: str) -> bool:
        if not self._networks:
            return False
        try:
            found = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in network for network in self._networks)

    def network(self, address: str, connection: int) -> str:
        """The network that a connection counts for. Each connection of a balancer is a network of its own."""
        return f"{address}#{connection}" if address in self else address


NETWORKS_MAX = 4096
"""Networks whose handshake rate is remembered; a forgotten one has its full burst again."""
BUSY_S = 2.0
"""How long a refused peer waits at least; it adds jitter."""


FINISH_S = 4.0
"""Admitted peers should have their verdict within this many seconds. A minion gives up after HANDSHAKE_TIMEOUT_S, and
its frames spend part of that time in queues of the network."""
OPEN_AT_FIRST = 512
OPEN_LEAST = 256
"""The lowest limit. Slow peers finish few handshakes in a second, and with this many open the limit can grow again."""
FINISHED_AT_FIRST = 500.0
"""Handshakes in a second that this master finishes, before it has counted any."""
COUNT_S = 1.0
BOOKED = 1.5
"""The factor by which more peers are told to come in a second than this master finishes. A peer that comes too early
costs little, but a master that waits for minions loses time."""
LATEST_S = 30.0
"""The longest time to wait."""
SILENT_KEPT = 0.9
"""The share of silent peers that is still expected after each HANDSHAKE_TIMEOUT_S without them. With a lower share, a
peer that comes and goes would find a small limit each time."""


class Admission:
    """Decides how many handshakes may be open at once, and when refused peers should try again.

    The handshakes that the master finishes in a second are counted only while the limit is reached, because only then
    it works at full capacity.

    A handshake that waits for a silent peer causes no work. Which open handshakes will prove nothing is known only
    later, so the average number in the last HANDSHAKE_TIMEOUT_S is expected. These do not count towards the limit, so
    an attacker with fewer networks than OPEN_HANDSHAKES cannot keep others out for long.
    """

    def __init__(self, now: float) -> None:
        self.limit = OPEN_AT_FIRST
        """The limit of open handshakes of peers that finish theirs, including those whose verdict is not known yet."""
        self._silent = 0.0
        """How many peers are expected to prove nothing."""
        self._wasted_s = 0.0
        """For how long in all handshakes were open that proved nothing."""
        self._wasted_since = now
        self._finished_per_s = FINISHED_AT_FIRST
        self._finished = 0
        self._since = now
        self._was_full = False
        self._has_counted = False
        self._booked_until = 0.0

    def finished(self) -> None:
        """A peer got its verdict."""
        self._finished += 1

    def unproved(self, open_s: float) -> None:
        """A handshake ended because its peer was too late or sent a wrong frame. It was open for this long."""
        self._wasted_s += open_s
        self._silent = max(self._silent, self._wasted_s / HANDSHAKE_TIMEOUT_S)

    def room(self, undecided: int) -> int:
        """How many handshakes may wait for their peers, while so many others wait for their verdict."""
        return max(1, min(OPEN_HANDSHAKES, self.limit + int(self._silent)) - undecided)

    def count(self, now: float) -> None:
        """Update the limit from the counts of the last COUNT_S and the last HANDSHAKE_TIMEOUT_S, once these have
        passed."""
        passed = (now - self._wasted_since) / HANDSHAKE_TIMEOUT_S
        if passed >= 1:
            self._silent = max(self._wasted_s / HANDSHAKE_TIMEOUT_S / passed, self._silent * SILENT_KEPT**passed)
            self._wasted_s, self._wasted_since = 0.0, now
        if now - self._since < COUNT_S:
            return
        if self._was_full:
            found = self._finished / (now - self._since)
            # The first count takes the place of a guess.
            self._finished_per_s = (self._finished_per_s + found) / 2 if self._has_counted else found
            self._has_counted = True
            self.limit = min(OPEN_HANDSHAKES, max(OPEN_LEAST, int(self._finished_per_s * FINISH_S)))
        self._finished, self._since, self._was_full = 0, now, False

    def later(self, now: float) -> float:
        """The limit is reached: the seconds after which the peer should try again."""
        self._was_full = True
        each_s = 1 / (BOOKED * max(self._finished_per_s, 1.0))
        self._booked_until = min(max(now + BUSY_S, self._booked_until + each_s), now + LATEST_S)
        return self._booked_until - now


@dataclass(frozen=True, slots=True)
class AuthenticatedPeer:
    """A peer that has proved the key `session.peer`, and its hello."""

    session: SecureSession
    hello: Message
    connection: int
    address: str


@dataclass(frozen=True, slots=True)
class _Opening:
    """A handshake that waits for its AUTH."""

    handshake: Handshake
    connection: int
    address: str
    since: float


class Handshakes:
    """Answers strangers until they have proved a key.

    `certificate` is the encoded master certificate, `private` the X25519 key that it names; `chain` is
    encoded as in `saltlite.wire.certificates`, and ends in `fleet_public`.
    """

    def __init__(
        self,
        *,
        fleet_public: bytes,
        certificate: bytes,
        private: bytes,
        handshakes_per_address: float,
        clock: Clock,
        chain: bytes = b"",
        balancers: Balancers | None = None,
    ) -> None:
        self._fleet_public = fleet_public
        self._chains = {fingerprint_bytes(fleet_public): b"", **_chains(chain)}
        """The successions for a minion that pins the fleet with that fingerprint; the present fleet comes first."""
        self.certificate = certificate
        self.balancers = balancers or Balancers()
        self.is_closed = False
        """Whether strangers are refused for now."""
        self._private = private_key(private)
        self._clock = clock
        self.handshakes_per_network = handshakes_per_address
        self._rate = RateLimiter(HANDSHAKES_PER_S, HANDSHAKES_PER_S)
        self._rate_by_network = RateLimiter(handshakes_per_address, handshakes_per_address, keys_max=NETWORKS_MAX)
        self._slots: ConnectionLimiter[bytes] = ConnectionLimiter(
            OPEN_HANDSHAKES, max(OPEN_HANDSHAKES_PER_ADDRESS, int(handshakes_per_address))
        )
        # All have the same timeout, so the first is the next to be overdue.
        self._openings: dict[bytes, _Opening] = {}
        self._by_connection: dict[int, bytes] = {}
        """The route of the handshake on each connection that is open. Numbers of connections are used again."""
        self.admission = Admission(clock.monotonic())
        self.begun = 0
        """Handshakes whose HELLO was answered."""
        self.postponed = 0
        """Peers that were told to come later."""

    def query(self, address: str) -> bytes:
        """The frame that answers QUERY."""
        return self._later(address, self._clock.monotonic()) or frames.fleet(self._fleet_public)

    def hello(self, route: bytes, connection: int, address: str, frame: frames.HelloFrame, undecided: int = 0) -> bytes:
        """The frame that answers HELLO. `undecided`: how many peers have proved their key and wait for the verdict.
        Raises RemoteProtocolError."""
        now = self._clock.monotonic()
        fleet = next((fleet for fleet in self._chains if frames.hello_is_for(frame, fleet)), None)
        if fleet is None:
            raise RemoteProtocolError("bad-mac")
        if route in self._openings:
            raise RemoteProtocolError("second-hello")
        later = self._later(address, now)
        if later is not None:
            return later
        self.admission.count(now)
        self._slots.resize(self.admission.room(undecided))
        slot = self._slots.add(route, self.balancers.network(address, connection))
        if not slot.admitted:
            return self._busy(self.admission.later(now))
        self.begun += 1
        if slot.displaced is not None:
            # Its AUTH is unexpected then, which ends its connection.
            self._drop(slot.displaced)
        entropy = self._clock.entropy(32)
        handshake = Handshake(Role.RESPONDER, self._private, frames.prologue(fleet), entropy)
        self._openings[route] = _Opening(handshake, connection, address, now)
        self._by_connection[connection] = route
        handshake.read(frame.message)
        now_s = int(self._clock.wall())
        proof = codec.encode({"cert": self.certificate, "chain": self._chains[fleet], "now": now_s})
        return frames.reply(handshake.write(proof))

    def auth(self, route: bytes, frame: frames.AuthFrame) -> AuthenticatedPeer:
        """The peer that finished its handshake. Raises RemoteProtocolError; then the caller says that it `failed`."""
        opening = self._openings.get(route)
        if opening is None:
            raise RemoteProtocolError("unexpected-frame", "AUTH")
        payload = codec.decode(opening.handshake.read(frame.message))
        if isinstance(payload, dict):
            # A minion of the previous version does not send all fields, and one of the next version may send more.
            known = {name: payload[name] for name in AUTH_FIELDS if name in payload}
            payload = {**AUTH_DEFAULTS, **known}
        hello = check_payload(payload, AUTH_FIELDS)
        self._forget(route)
        return AuthenticatedPeer(SecureSession(opening.handshake), hello, opening.connection, opening.address)

    def give_up(self, route: bytes) -> None:
        """Drop the handshake of that route, if there is one, for a reason of this master's."""
        self._forget(route)

    def failed(self, route: bytes) -> None:
        """The peer sent a wrong frame: drop its handshake, if there is one."""
        opening = self._forget(route)
        if opening is not None:
            self.admission.unproved(self._clock.monotonic() - opening.since)

    def hung_up(self, connection: int) -> None:
        """That connection is over; the next one with its number is another peer's."""
        self._by_connection.pop(connection, None)

    def overdue(self) -> list[tuple[int, str]]:
        """Drop the handshakes that took too long; the (connection, address) of those whose connection is still open."""
        now = self._clock.monotonic()
        late: list[tuple[int, str]] = []
        while self._openings:
            route, opening = next(iter(self._openings.items()))
            if now < opening.since + HANDSHAKE_TIMEOUT_S:
                break
            is_open = self._by_connection.get(opening.connection) == route
            self.failed(route)
            if is_open:
                late.append((opening.connection, opening.address))
        return late

    def _later(self, address: str, now: float) -> bytes | None:
        """The frame that says when to try again, if no handshake from that address may begin now."""
        is_balancer = address in self.balancers
        if self.is_closed or (not is_balancer and self._rate_by_network.take(network_of(address), now)):
            return self._busy(BUSY_S)
        return self._busy(self.admission.later(now)) if self._rate.take(None, now) else None

    def _busy(self, wait_s: float) -> bytes:
        self.postponed += 1
        return frames.busy(int(wait_s * 1000))

    def _forget(self, route: bytes) -> _Opening | None:
        self._slots.remove(route)
        return self._drop(route)

    def _drop(self, route: bytes) -> _Opening | None:
        opening = self._openings.pop(route, None)
        if opening is not None and self._by_connection.get(opening.connection) == route:
            del self._by_connection[opening.connection]
        return opening


def _chains(chain: bytes) -> dict[bytes, bytes]:
    """The part of the chain that a minion needs, by the fingerprint that it pins; newest first."""
    records = decode_chain(chain)[-FLEET_CHAIN_RECORDS:]
    rests = [(record.old_public, encode_chain(records[index:])) for index, record in enumerate(records)]
    return {fingerprint_bytes(public): rest for public, rest in reversed(rests)}


CONNECTS_S = 10.0
"""One network may have as many connections as it may begin handshakes in this time."""


class UnauthenticatedConnections:
    """The connections without a session. `handshakes_per_network` is the rate of one network, per second."""

    def __init__(self, handshakes_per_network: float, balancers: Balancers) -> None:
        self._balancers = balancers
        per_network = max(UNAUTHENTICATED_PER_NETWORK, int(handshakes_per_network * CONNECTS_S))
        self._slots: ConnectionLimiter[int] = ConnectionLimiter(UNAUTHENTICATED_MAX, per_network)
        self._connected: dict[int, str] = {}
        """Every connection that is open, with its address."""
        self._deadlines: dict[int, float] = {}
        """Of strangers, oldest first."""

    def __len__(self) -> int:
        return len(self._deadlines)

    def connected(self, connection: int, address: str, now: float) -> list[CloseConnection]:
        """A connection opened; those to close for it, perhaps itself."""
        self.closed(connection)
        self._connected[connection] = address
        return self._enter(connection, now)

    def session_began(self, connection: int) -> None:
        """The connection has a session now."""
        self._slots.remove(connection)
        self._deadlines.pop(connection, None)

    def session_ended(self, connection: int, now: float) -> list[CloseConnection]:
        """The last session of the connection ended; the connections to close for it, perhaps itself."""
        if connection not in self._connected or connection in self._deadlines:
            return []
        return self._enter(connection, now)

    def closed(self, connection: int) -> None:
        """The connection closed."""
        self._connected.pop(connection, None)
        self.session_began(connection)

    def overdue(self, now: float) -> list[CloseConnection]:
        """Drop strangers that stayed too long; the connections to close."""
        late = list(takewhile(lambda connection: self._deadlines[connection] <= now, self._deadlines))
        return [self._forget(connection) for connection in late]

    def _enter(self, connection: int, now: float) -> list[CloseConnection]:
        slot = self._slots.add(connection, self._balancers.network(self._connected[connection], connection))
        if not slot.admitted:
            return [self._forget(connection)]
        self._deadlines[connection] = now + UNAUTHENTICATED_S
        return [] if slot.displaced is None else [self._forget(slot.displaced)]

    def _forget(self, connection: int) -> CloseConnection:
        address = self._connected[connection]
        self.closed(connection)
        return CloseConnection(connection, address)
