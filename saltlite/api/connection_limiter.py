"""How many connections there may be: altogether, and of one address. A WebSocket counts for as long as it is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from saltlite.model.networks import network_of


class ConnectionLimiter:
    """Who is inside."""

    def __init__(self, most: int, most_of_one: int) -> None:
        """How many connections there may be, and how many of one address."""
        self._most, self._most_of_one = most, most_of_one
        self._inside: dict[Hashable, str] = {}
        self._of: Counter[str] = Counter()

    def enter(self, connection: Hashable, address: str) -> bool:
        """Count a connection; False when there is no room for it."""
        host = network_of(address)
        if len(self._inside) >= self._most or self._of[host] >= self._most_of_one:
            return False
        self._inside[connection] = host
        self._of[host] += 1
        return True

    def leave(self, connection: Hashable) -> None:
        """It is over; a second time nothing happens."""
        host = self._inside.pop(connection, None)
        if host is not None:
            self._of[host] -= 1
            if not self._of[host]:
                del self._of[host]

    def __len__(self) -> int:
        return len(self._inside)
