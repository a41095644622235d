"""How many connections there may be: altogether, and of one address. A WebSocket counts for as long as it is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from ipaddress import IPv6Address, ip_address

_NETWORK = 0xFFFFFFFFFFFFFFFF << 64
"""The first half of an IPv6 address: in the other half everybody has as many as he likes."""


def neighbourhood(address: str) -> str:
    """What limits for one address are kept by: itself, or of IPv6 its network of 64 bits."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    return str(found.ipv4_mapped or IPv6Address(int(found) & _NETWORK))


class Doors:
    """Who is inside."""

    def __init__(self, most: int, most_of_one: int) -> None:
        """How many connections there may be, and how many of one address."""
        self._most, self._most_of_one = most, most_of_one
        self._inside: dict[Hashable, str] = {}
        self._of: Counter[str] = Counter()

    def enter(self, connection: Hashable, address: str) -> bool:
        """Count a connection; False when there is no room for it."""
        host = neighbourhood(address)
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
