"""Addresses: `S@10.0.0.0/8`, `S@192.168.1.7`, `S@2001:db8::/32`. Resources have none of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from saltlite.errors import UsageError

Network: TypeAlias = IPv4Network | IPv6Network
Address: TypeAlias = IPv4Address | IPv6Address

ADDRESS_GRAINS = ("ipv4", "ipv6")
"""The grains that list every address of a minion; Salt's matcher reads the same."""

ADDRESS_MAX = 64
"""Characters of an address: 39 for one of IPv6, and an interface's name behind it."""

_ADDRESSES_KEPT = 200_000
"""Texts that are remembered as addresses: to read one takes as long as to compare ten."""


def parse_network(text: str) -> Network:
    """The network in `text`; an address is a network of one. Bits behind the mask are ignored, as in Salt.

    Raises UsageError when it is neither.
    """
    try:
        return ip_network(text, strict=False)
    except ValueError:
        raise UsageError(
            f"{text[:80]!r} is neither an address nor a network: write 192.168.1.7, 10.0.0.0/8 or 2001:db8::/32"
        ) from None


def has_address(grains: Mapping[str, object], network: Network) -> bool:
    """Whether a minion with these grains has an address in that network."""
    return any(lies_in(text, network) for text in _texts(grains))


def lies_in(text: str, network: Network) -> bool:
    """Whether a text in one of ADDRESS_GRAINS is an address in that network; it may be anything."""
    address = _address(text) if len(text) <= ADDRESS_MAX else None
    return address is not None and address in network


def _texts(grains: Mapping[str, object]) -> Iterator[str]:
    for name in ADDRESS_GRAINS:
        value = grains.get(name)
        yield from (text for text in (value if isinstance(value, list | tuple) else [value]) if isinstance(text, str))


@lru_cache(_ADDRESSES_KEPT)
def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
