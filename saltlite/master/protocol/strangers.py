"""Connections of the link that have no session: how many there may be, and for how long (R12).

    connected -> stranger -> session pending or accepted -> at home -> session over -> stranger
                    |                                                                     |
                    no place, or STRANGER_S: hung up on                                   |
    a connection that is over is forgotten, whatever it was <-----------------------------+

Connections with a session are limited elsewhere: those of pending keys with the keys; those of accepted keys are
minions.
"""

from __future__ import annotations

from collections import OrderedDict

from saltlite.limits import ConnectionLimiter
from saltlite.master.protocol.effects import HangUp
from saltlite.wire.limits import STRANGER_S, STRANGERS, STRANGERS_PER_NETWORK

CONNECTS_S = 10.0
"""A network that may begin so many handshakes a second may have those of so many seconds connected."""


class Strangers:
    """Which connections have no session. `handshakes_per_network` is what one network may begin each second."""

    def __init__(self, handshakes_per_network: float) -> None:
        per_network = max(STRANGERS_PER_NETWORK, int(handshakes_per_network * CONNECTS_S))
        self._slots: ConnectionLimiter[int] = ConnectionLimiter(STRANGERS, per_network)
        self._connected: dict[int, str] = {}
        """Every connection that is open, with its address."""
        self._deadlines: OrderedDict[int, float] = OrderedDict()
        """Of strangers, in the order in which they became that."""

    def __len__(self) -> int:
        return len(self._deadlines)

    def connected(self, connection: int, address: str, now: float) -> list[HangUp]:
        """A connection was made; those to hang up on for it, itself perhaps."""
        self.over(connection)
        self._connected[connection] = address
        return self._enter(connection, now)

    def at_home(self, connection: int) -> None:
        """It has a session now."""
        self._slots.remove(connection)
        self._deadlines.pop(connection, None)

    def without_session(self, connection: int, now: float) -> list[HangUp]:
        """Its session is over; those to hang up on for it, itself perhaps."""
        if connection not in self._connected or connection in self._deadlines:
            return []
        return self._enter(connection, now)

    def over(self, connection: int) -> None:
        """The connection is no more."""
        self._connected.pop(connection, None)
        self.at_home(connection)

    def overdue(self, now: float) -> list[HangUp]:
        """Forget strangers that stayed too long; whom to hang up on."""
        late: list[HangUp] = []
        while self._deadlines:
            connection, deadline = next(iter(self._deadlines.items()))
            if now < deadline:
                break
            late.append(self._forget(connection))
        return late

    def _enter(self, connection: int, now: float) -> list[HangUp]:
        slot = self._slots.add(connection, self._connected[connection])
        if not slot.admitted:
            return [self._forget(connection)]
        self._deadlines[connection] = now + STRANGER_S
        return [] if slot.displaced is None else [self._forget(slot.displaced)]

    def _forget(self, connection: int) -> HangUp:
        address = self._connected[connection]
        self.over(connection)
        return HangUp(connection, address)
