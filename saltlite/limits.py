"""The limits of the daemons and the API: how often, and how many at once. Pure: times come in as values.

    RateLimiter         a token bucket a key: handshakes, requests, events, wrong guesses, seconds of a processor
    ConnectionLimiter   a table of fixed size that networks share
    FairSemaphore       slots that callers share, and a queue for callers who find none

`now` is seconds of a monotonic clock. Every table has a maximum size, so no peer can make one grow.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Generic, Protocol, TypeVar

from saltlite.model.dataclass import dataclass

# -- The networks by which connections, handshakes and keys are limited. An IPv6 host has its whole /64, so that is one
# network; an IPv4 address is one network. An IPv4-mapped IPv6 address (::ffff:192.0.2.1) counts as the IPv4 address


NETWORK_BITS = 64
"""Of an IPv6 address: what a provider gives to one machine, which chooses the rest."""

SITE_BITS_4, SITE_BITS_6 = 24, 48
"""What belongs to one owner as a rule: the smallest routed IPv4 network, and what a provider gives to one customer."""

_CACHED = 4096


def network_of(address: str) -> str:
    """The network of an address without a port: `192.0.2.1`, or `2001:db8::` for the /64; of no address, the text."""
    # An IPv4 address is its own network: no second string and no row of a cache for each stranger.
    return _network_of_ipv6(address) if ":" in address else address


@lru_cache(maxsize=_CACHED)
def _network_of_ipv6(address: str) -> str:
    found = _parsed(address)
    if not isinstance(found, IPv6Address):
        return str(found) if found is not None else address
    return str(ip_network((found, NETWORK_BITS), strict=False).network_address)


@lru_cache(maxsize=_CACHED)
def site_of(address: str) -> str:
    """The network around the network of that address, as `192.0.2.0/24`; of no address, the text."""
    found = _parsed(address)
    if found is None:
        return address
    bits = SITE_BITS_6 if isinstance(found, IPv6Address) else SITE_BITS_4
    return str(ip_network((found, bits), strict=False))


def _parsed(address: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found


K = TypeVar("K", bound=Hashable)

KEYS_MAX = 10_000
"""Keys that a rate limiter remembers, by default."""
ROUNDING_S = 0.001
"""A shorter wait counts as none: sums of floats are not exact."""


class FillTimes(Protocol):
    """When the bucket of each key is full again."""

    def get(self, key: Hashable) -> float:
        """0.0 for an unknown key, whose bucket is full."""
        ...

    def put(self, key: Hashable, full_at: float) -> None: ...


class _RecentFillTimes:
    """Those of the keys used last. A key that is forgotten starts with a full bucket."""

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._full_at: OrderedDict[Hashable, float] = OrderedDict()

    def get(self, key: Hashable) -> float:
        return self._full_at.get(key, 0.0)

    def put(self, key: Hashable, full_at: float) -> None:
        self._full_at[key] = full_at
        self._full_at.move_to_end(key)
        if len(self._full_at) > self._keys_max:
            self._full_at.popitem(last=False)


class RateLimiter:
    """A token bucket for each key: it holds `burst` tokens, at least one, and gains `per_s` a second."""

    def __init__(
        self, per_s: float, burst: float, *, keys_max: int = KEYS_MAX, fill_times: FillTimes | None = None
    ) -> None:
        """`fill_times` is a table that several processes share; without it the limiter remembers `keys_max` keys."""
        self._per_s = per_s
        self._burst = max(1.0, burst)
        self._fill_times = _RecentFillTimes(keys_max) if fill_times is None else fill_times

    def take(self, key: Hashable, now: float, tokens: float = 1.0) -> float:
        """Take tokens if the bucket has them: 0.0 if it had, otherwise the seconds until it will."""
        wait_s = self.wait_s(key, now, tokens)
        self.spend(key, now, 0.0 if wait_s else tokens)
        return wait_s

    def wait_s(self, key: Hashable, now: float, tokens: float = 1.0) -> float:
        """The seconds until the bucket has so many tokens; 0.0 if it has them now."""
        wait_s = self.debt_s(key, now) - (self._burst - tokens) / self._per_s
        return wait_s if wait_s > ROUNDING_S else 0.0

    def spend(self, key: Hashable, now: float, tokens: float = 1.0) -> None:
        """Take tokens even if the bucket does not have them."""
        self._fill_times.put(key, max(now, self._fill_times.get(key)) + tokens / self._per_s)

    def give_back(self, key: Hashable, tokens: float = 1.0) -> None:
        """Return tokens that were taken for something that was refused later."""
        self._fill_times.put(key, self._fill_times.get(key) - tokens / self._per_s)

    def debt_s(self, key: Hashable, now: float) -> float:
        """The seconds until the bucket is full."""
        return max(0.0, self._fill_times.get(key) - now)


class HeldContents:
    """Holds contents that their owners fetch in pieces: at most `memory` bytes, or one content if it is larger;
    `per_owner` contents of one owner; only those that were used in the last `idle_s` seconds. The least recently used
    one is dropped first, and its owner has to start again."""

    def __init__(self, memory: int, per_owner: int = 1, idle_s: float = float("inf")) -> None:
        self._memory = memory
        self._per_owner = per_owner
        self._idle_s = idle_s
        self._contents: OrderedDict[tuple[Hashable, bytes], tuple[bytes, float]] = OrderedDict()
        """(owner, digest) -> (the content, when it was last used)"""
        self._held = 0

    def put(self, owner: Hashable, digest: bytes, content: bytes, now: float = 0.0) -> None:
        """Hold another content of this owner."""
        self.drop(owner, digest)
        own = [key for key in self._contents if key[0] == owner]
        for key in own[: len(own) + 1 - self._per_owner]:
            self.drop(*key)
        self._contents[owner, digest] = content, now
        self._held += len(content)
        while self._held > self._memory and len(self._contents) > 1:
            self.drop(*next(iter(self._contents)))

    def get(self, owner: Hashable, digest: bytes, now: float = 0.0) -> bytes | None:
        """The content of this owner with that digest; None if it was dropped."""
        if (owner, digest) not in self._contents:
            return None
        content, _at = self._contents[owner, digest]
        self._contents[owner, digest] = content, now
        self._contents.move_to_end((owner, digest))
        return content

    def drop(self, owner: Hashable, digest: bytes) -> None:
        """Remove the content, if it is there."""
        content, _at = self._contents.pop((owner, digest), (b"", 0.0))
        self._held -= len(content)

    def drop_idle(self, now: float) -> None:
        """Remove the contents that were not used for `idle_s`."""
        while self._contents:
            key, (_content, at) = next(iter(self._contents.items()))
            if now - at < self._idle_s:
                return
            self.drop(*key)


@dataclass(frozen=True, slots=True)
class Slot(Generic[K]):
    """Whether a new connection was admitted, and which other one lost its slot for it."""

    admitted: bool
    displaced: K | None = None


class ConnectionLimiter(Generic[K]):
    """At most `total` connections, `per_network` of one network (an IPv4 address, or a /64 of IPv6).

    With `displaces`, a full table admits a newcomer in place of the oldest connection of the network that has the most,
    if that network has at least two more than the newcomer's. So a peer that fills the table from a few networks
    displaces only its own connections, and any other network is still admitted; a peer with as many networks as the
    table has slots can keep others out. Without `displaces` a full table admits none.

    Every operation takes constant time.
    """

    def __init__(self, total: int, per_network: int, *, displaces: bool = True) -> None:
        self._total = total
        self._per_network = per_network
        self._displaces = displaces
        self._network: dict[K, str] = {}
        self._alone: dict[str, K] = {}
        """The connection of each network that has one: a dict for each would be half of a stranger's memory."""
        self._several: dict[str, dict[K, None]] = {}
        """The connections of the other networks, oldest first."""
        self._by_size: dict[int, dict[str, None]] = {}
        """Those other networks by their number of connections."""
        self._largest = 0

    def __len__(self) -> int:
        return len(self._network)

    def __contains__(self, key: K) -> bool:
        return key in self._network

    def resize(self, total: int) -> None:
        """Admit so many from now on; those that are there stay."""
        self._total = total

    def add(self, key: K, address: str) -> Slot[K]:
        """Admit a new connection from that address, or refuse it."""
        network = network_of(address)
        size = 1 if network in self._alone else len(self._several.get(network, ()))
        if size >= self._per_network:
            return Slot(admitted=False)
        displaced: K | None = None
        if len(self._network) >= self._total:
            if not self._displaces or self._largest < size + 2:
                return Slot(admitted=False)
            heaviest = next(iter(self._by_size[self._largest]))
            displaced = next(iter(self._several[heaviest]))
            self.remove(displaced)
        self._network[key] = network
        if size == 0:
            self._alone[network] = key
            return Slot(admitted=True, displaced=displaced)
        if size == 1:
            self._several[network] = {self._alone.pop(network): None}
        self._several[network][key] = None
        self._resized(network, size, size + 1)
        return Slot(admitted=True, displaced=displaced)

    def remove(self, key: K) -> None:
        """The connection has ended; an unknown one is ignored."""
        network = self._network.pop(key, None)
        if network is None:
            return
        connections = self._several.get(network)
        if connections is None:
            del self._alone[network]
            return
        del connections[key]
        size = len(connections)
        if size == 1:
            (self._alone[network],) = self._several.pop(network)
        self._resized(network, size + 1, size)

    def _resized(self, network: str, before: int, after: int) -> None:
        if before > 1:
            del self._by_size[before][network]
            if not self._by_size[before]:
                del self._by_size[before]
        if after > 1:
            self._by_size.setdefault(after, {})[network] = None
        # A size changes by one: if no network has the largest size any more, this one has the next.
        self._largest = max(self._largest, after) if self._largest in self._by_size else after


class FairSemaphore(Generic[K]):
    """`total` slots, at most `per_caller` for one caller. Who finds none waits, and gets one in order of arrival.

    A caller who waits for a slot of his own does not delay the others.
    """

    def __init__(self, total: int, per_caller: int) -> None:
        self._total = total
        self._per_caller = per_caller
        self._held: dict[K, str] = {}
        self._by_caller: Counter[str] = Counter()
        self._waiting: OrderedDict[K, str] = OrderedDict()

    def acquire(self, key: K, caller: str) -> bool:
        """Whether `key` has a slot now; otherwise it waits until `release` names it."""
        self._waiting[key] = caller
        return key in self._granted()

    def release(self, key: K) -> list[K]:
        """`key` needs no slot any more, held or waited for; which ones have theirs now."""
        self._waiting.pop(key, None)
        caller = self._held.pop(key, None)
        if caller is not None:
            self._by_caller[caller] -= 1
            if not self._by_caller[caller]:
                del self._by_caller[caller]
        return self._granted()

    def _granted(self) -> list[K]:
        granted = list(self._next())
        for key in granted:
            self._held[key] = self._waiting.pop(key)
        return granted

    def _next(self) -> Iterator[K]:
        free = self._total - len(self._held)
        for key, caller in self._waiting.items():
            if free == 0:
                return
            if self._by_caller[caller] < self._per_caller:
                self._by_caller[caller] += 1
                free -= 1
                yield key
