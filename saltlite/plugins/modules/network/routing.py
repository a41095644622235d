"""Routes and neighbours."""

from __future__ import annotations

import ipaddress
import socket
import struct

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _rtnetlink

from .calculations import address

_FLAGS = {0x1: "U", 0x2: "G", 0x4: "H", 0x8: "R", 0x10: "D", 0x20: "M", 0x40000: "A", 0x01000000: "C"}
_REJECTING = 0x200
_DEFAULTS = {"inet": "0.0.0.0", "inet6": "::/0"}  # noqa: S104 - a destination, nothing is bound to it


def routes(family: str | None = None) -> list[dict[str, str]]:
    """
    The routes: a list of ``{addr_family, destination, gateway, netmask, flags, interface}``.

    ``family`` is ``inet`` or ``inet6``. A destination of IPv6 has its length with it, and an empty netmask.

    CLI Example::

        saltlite '*' network.routes
        saltlite '*' network.routes inet
    """
    if family not in {None, "inet", "inet6"}:
        raise CommandExecutionError(f"Invalid address family {family}")
    found = _routes4() if family != "inet6" else []
    return found + (_routes6() if family != "inet" else [])


def default_route(family: str | None = None) -> list[dict[str, str]]:
    """
    The routes to everywhere else, in the form of ``routes``.

    CLI Example::

        saltlite '*' network.default_route
    """
    return [route for route in routes(family) if route["destination"] == _DEFAULTS[route["addr_family"]]]


def get_route(ip: str) -> dict[str, str | None]:
    """
    How an address is reached: ``{destination, gateway, interface, source}``; no gateway on the same link.

    CLI Example::

        saltlite '*' network.get_route 10.10.10.10
    """
    way = _rtnetlink.way_to(address(ip))
    try:
        name: str | None = socket.if_indextoname(way.number)
    except OSError:  # the interface has just gone
        name = None
    return {"destination": str(ip), "gateway": way.gateway, "interface": name, "source": way.source}


def arp() -> dict[str, str]:
    """
    The machines that answered on a link of this one: ``{hardware address: IPv4 address}``.

    CLI Example::

        saltlite '*' network.arp
    """
    found = {}
    for line in _machinefiles.read("/proc/net/arp").splitlines()[1:]:
        columns = line.split()
        if len(columns) >= 6 and int(columns[2], 16):  # 0: asked, and not answered
            found[columns[3]] = columns[0]
    return found


def ip_neighs() -> dict[str, str]:
    """
    The machines that answered on a link of this one: ``{hardware address: IPv4 address}``.

    CLI Example::

        saltlite '*' network.ip_neighs
    """
    return _rtnetlink.neighbours(4)


def ip_neighs6() -> dict[str, str]:
    """
    The machines that answered on a link of this one: ``{hardware address: IPv6 address}``.

    CLI Example::

        saltlite '*' network.ip_neighs6
    """
    return _rtnetlink.neighbours(6)


def _routes4() -> list[dict[str, str]]:
    found = []
    for line in _machinefiles.read("/proc/net/route").splitlines()[1:]:
        columns = line.split()
        flags = int(columns[3], 16) if len(columns) >= 8 else _REJECTING
        if flags & _REJECTING:
            continue
        found.append(
            {
                "addr_family": "inet",
                "destination": _address4(columns[1]),
                "gateway": _address4(columns[2]),
                "netmask": _address4(columns[7]),
                "flags": _letters(flags),
                "interface": columns[0],
            }
        )
    return found


def _routes6() -> list[dict[str, str]]:
    found = []
    for line in _machinefiles.read_if_there("/proc/net/ipv6_route").splitlines():
        columns = line.split()
        flags = int(columns[8], 16) if len(columns) >= 10 else _REJECTING
        if flags & _REJECTING:
            continue
        destination = ipaddress.IPv6Address(bytes.fromhex(columns[0]))
        found.append(
            {
                "addr_family": "inet6",
                "destination": f"{destination}/{int(columns[1], 16)}",
                "gateway": str(ipaddress.IPv6Address(bytes.fromhex(columns[4]))),
                "netmask": "",
                "flags": _letters(flags),
                "interface": columns[9],
            }
        )
    return found


def _address4(column: str) -> str:
    # The kernel prints the number in the order of bytes that this processor has.
    try:
        return str(ipaddress.IPv4Address(struct.pack("=I", int(column, 16))))
    except (ValueError, struct.error) as error:
        raise SaltInvocationError(f"{column!r} is no address of a route.") from error


def _letters(flags: int) -> str:
    return "".join(letter for bit, letter in _FLAGS.items() if flags & bit)
