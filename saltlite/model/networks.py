"""The networks by which connections, handshakes and keys are limited.

An IPv6 host has its whole /64, so that is one network; an IPv4 address is one network. An IPv4-mapped IPv6 address
(::ffff:192.0.2.1) counts as the IPv4 address.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

NETWORK_BITS = 64
"""Of an IPv6 address: what a provider gives to one machine, which chooses the rest."""

SITE_BITS_4, SITE_BITS_6 = 24, 48
"""What belongs to one owner as a rule: the smallest routed IPv4 network, and what a provider gives to one customer."""

_CACHED = 4096


@lru_cache(maxsize=_CACHED)
def network_of(address: str) -> str:
    """The network of an address without a port: `192.0.2.1`, or `2001:db8::` for the /64; of no address, the text."""
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
