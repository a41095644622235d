"""A table of fixed size that networks share: none takes more than its part, and a full one keeps a place for others.

    a network with `per_network` entries    gets no further one
    the table is full                       the newcomer takes the place of the oldest entry of the network that has
                                            the most, if that one has at least two more than the newcomer's; else none

So whoever fills the table from a few networks only pushes aside his own entries, and somebody from elsewhere always
finds a place. Whoever has as many networks as the table has entries leaves no place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from saltlite.model.networks import network_of

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Place(Generic[K]):
    """Whether a newcomer has a place, and whose place that was: `instead_of`."""

    given: bool
    instead_of: K | None = None


class Places(Generic[K]):
    """`total` entries at most, `per_network` of one network. No operation takes longer when it is full."""

    def __init__(self, total: int, per_network: int) -> None:
        self._total = total
        self._per_network = per_network
        self._network: dict[K, str] = {}
        self._entries: dict[str, dict[K, None]] = {}
        """By network, oldest first."""
        self._by_size: dict[int, dict[str, None]] = {}
        """Networks by how many entries they have."""
        self._largest = 0

    def __len__(self) -> int:
        return len(self._network)

    def __contains__(self, key: K) -> bool:
        return key in self._network

    def add(self, key: K, address: str) -> Place[K]:
        """A newcomer from that address; `key` is not in the table yet."""
        network = network_of(address)
        mine = len(self._entries.get(network, ()))
        if mine >= self._per_network:
            return Place(given=False)
        displaced: K | None = None
        if len(self._network) >= self._total:
            if self._largest < mine + 2:
                return Place(given=False)
            heaviest = next(iter(self._by_size[self._largest]))
            displaced = next(iter(self._entries[heaviest]))
            self.remove(displaced)
        self._network[key] = network
        self._entries.setdefault(network, {})[key] = None
        self._resized(network, mine, mine + 1)
        return Place(given=True, instead_of=displaced)

    def remove(self, key: K) -> None:
        """It is over; a second time nothing happens."""
        network = self._network.pop(key, None)
        if network is None:
            return
        entries = self._entries[network]
        del entries[key]
        if not entries:
            del self._entries[network]
        self._resized(network, len(entries) + 1, len(entries))

    def _resized(self, network: str, before: int, after: int) -> None:
        if before:
            del self._by_size[before][network]
            if not self._by_size[before]:
                del self._by_size[before]
        if after:
            self._by_size.setdefault(after, {})[network] = None
        # A size changes by one: where nobody has the largest any more, this network has the next.
        self._largest = max(self._largest, after) if self._largest in self._by_size else after
