"""How many strangers the master listens to: handshakes a second, in total and from one network (R12).

Nothing is kept for a network beyond one row of a table of fixed size; when it is full, the row that was used
longest ago goes, which at worst gives a stranger a fresh allowance.
"""

from __future__ import annotations

from collections import OrderedDict

from saltlite.model.networks import network_of

NETWORKS_MAX = 4096
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
    """Admits or refuses the next handshake of a network."""

    def __init__(self, per_second: float, per_network: float, now: float) -> None:
        self._all = Bucket(per_second, now)
        self._rate = per_network
        self._networks: OrderedDict[str, Bucket] = OrderedDict()

    def begin(self, address: str, now: float) -> bool:
        """Whether a handshake from that address may begin."""
        network = network_of(address)
        bucket = self._networks.pop(network, None) or Bucket(self._rate, now)
        self._networks[network] = bucket
        if len(self._networks) > NETWORKS_MAX:
            self._networks.popitem(last=False)
        return bucket.take(now) and self._all.take(now)
