"""Addresses and networks as numbers: nothing of this machine is asked."""

from __future__ import annotations

import ipaddress

from saltlite.errors import SaltInvocationError

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def convert_cidr(cidr: str) -> dict[str, str]:
    """
    A network as ``{network, netmask, broadcast}``.

    CLI Example::

        saltlite '*' network.convert_cidr 172.31.0.0/16
    """
    found = network(cidr)
    return {
        "network": str(found.network_address),
        "netmask": str(found.netmask),
        "broadcast": str(found.broadcast_address),
    }


def calc_net(ip_addr: str, netmask: str | None = None) -> str:
    """
    The network of an address, as ADDRESS/LENGTH.

    CLI Example::

        saltlite '*' network.calc_net 172.17.0.5 255.255.255.240
        saltlite '*' network.calc_net 2a02:f6e:a000:80:84d8:8332:7866:4e07/64
    """
    return str(network(f"{ip_addr}/{netmask}" if netmask is not None else ip_addr))


def ip_in_subnet(ip_addr: str, cidr: str) -> bool:
    """
    Whether an address is in a network.

    CLI Example::

        saltlite '*' network.ip_in_subnet 172.17.0.4 172.16.0.0/12
    """
    return address(ip_addr) in network(cidr)


def is_private(ip_addr: str) -> bool:
    """
    Whether an address is for private networks.

    CLI Example::

        saltlite '*' network.is_private 10.0.0.3
    """
    return address(ip_addr).is_private


def is_loopback(ip_addr: str) -> bool:
    """
    Whether an address is one of a machine to itself.

    CLI Example::

        saltlite '*' network.is_loopback 127.0.0.1
    """
    return address(ip_addr).is_loopback


def reverse_ip(ip_addr: str) -> str:
    """
    The name under which the DNS knows the name of an address.

    CLI Example::

        saltlite '*' network.reverse_ip 172.17.0.4
    """
    return address(ip_addr).reverse_pointer


def iphexval(ip: str) -> str:
    """
    An IPv4 address as eight hexadecimal digits.

    CLI Example::

        saltlite '*' network.iphexval 10.0.0.1
    """
    return address(ip).packed.hex().upper()


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The text as an address. Raises SaltInvocationError."""
    try:
        return ipaddress.ip_address(str(text))
    except ValueError as error:
        raise SaltInvocationError(f"{text!r} is no address.") from error


def network(text: str) -> Network:
    """The text as a network, also that of an address with a length. Raises SaltInvocationError."""
    try:
        return ipaddress.ip_network(str(text), strict=False)
    except ValueError as error:
        raise SaltInvocationError(f"{text!r} is no network: write it as 192.0.2.0/24.") from error
