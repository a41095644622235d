"""How many strangers the master listens to: handshakes a second, in total and from one address (R12).

Nothing is kept for an address beyond one row of a table of fixed size; when it is full, the row that was used
longest ago goes, which at worst gives a stranger a fresh allowance.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address

ADDRESSES_MAX = 4096
BUSY_S = 2.0
"""What a refused peer is told to wait; it adds its own jitter."""


class Bucket:
    """A token bucket: `rate` a second, and at most one second's worth (but one at least) at once."""

    __slots__ = ("_at", "_left", "_most", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._most = max(1.0, rate)
        self._left = self._most
        self._at = now

    def take(self, now: float) -> bool:
        """Take one; False when there is none."""
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class Admission:
    """Admits or refuses the next handshake of an address."""

    def __init__(self, per_second: float, per_address: float, open_per_address: int, now: float) -> None:
        self._all = Bucket(per_second, now)
        self._rate = per_address
        self._open_limit = open_per_address
        self._addresses: OrderedDict[str, tuple[Bucket, int]] = OrderedDict()

    def begin(self, address: str, now: float) -> bool:
        """A handshake wants to begin; every True is followed by one `end()`."""
        place = _network(address)
        row = self._addresses.pop(place, None)
        bucket, busy = row if row is not None else (Bucket(self._rate, now), 0)
        admitted = busy < self._open_limit and bucket.take(now) and self._all.take(now)
        self._addresses[place] = (bucket, busy + admitted)
        if len(self._addresses) > ADDRESSES_MAX:
            self._addresses.popitem(last=False)
        return admitted

    def end(self, address: str) -> None:
        """A handshake of that address was finished or given up."""
        place = _network(address)
        row = self._addresses.get(place)
        if row is not None:
            self._addresses[place] = (row[0], max(0, row[1] - 1))


def _network(address: str) -> str:
    """What counts as one address: for IPv6 the /64, because whoever has one address there has them all."""
    if ":" not in address:
        return address
    try:
        return IPv6Address(address.partition("%")[0]).packed[:8].hex()
    except ValueError:
        return address
