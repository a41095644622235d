"""Addresses: `S@10.0.0.0/8`, `S@192.168.1.7`, `S@2001:db8::/32`. Resources have none of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

from saltlite.errors import UsageError

Network: TypeAlias = IPv4Network | IPv6Network
Address: TypeAlias = IPv4Address | IPv6Address

_GRAINS = ("ipv4", "ipv6")


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


def addresses_of(grains: Mapping[str, object]) -> set[Address]:
    """The addresses in the grains ipv4 and ipv6, which Salt's matcher reads as well; what is none is left out."""
    return {address for text in _texts(grains) if (address := _address(text)) is not None}


def has_address(grains: Mapping[str, object], network: Network) -> bool:
    """Whether a minion with these grains has an address in that network."""
    return any(address in network for address in addresses_of(grains))


def _texts(grains: Mapping[str, object]) -> Iterator[object]:
    for name in _GRAINS:
        yield from _members(grains.get(name))


def _members(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _address(text: object) -> Address | None:
    try:
        return ip_address(text) if isinstance(text, str) else None
    except ValueError:
        return None
