"""Grains of host names, interfaces, addresses and routes.

No name is looked up on the network, because a slow resolver would delay the start of the minion. The full name comes
from the host name or from /etc/hosts, and `fqdns` are the full names that /etc/hosts has for the machine's addresses.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
from typing import Any

from saltlite.plugins.grains.core import read_text

_ETHERNET_ADDRESS_CHARS = 17


def names() -> dict[str, Any]:
    """Host name, full name and domain."""
    hostname = socket.gethostname()
    fqdn = _full_name(hostname)
    host, _, domain = fqdn.partition(".")
    return {"nodename": hostname, "localhost": hostname, "fqdn": fqdn, "host": host, "domain": domain}


def interfaces() -> dict[str, Any]:
    """Interfaces with their hardware and IP addresses, all addresses by family, and their names."""
    from saltlite.plugins import _netlink  # noqa: PLC0415 - `names` is needed where nothing else is

    links, assigned = _netlink.links(), _netlink.addresses()
    by_interface = {link.name: [one.address for one in assigned if one.number == link.number] for link in links}
    every = sorted({one.address for one in assigned}, key=lambda address: (address.version, int(address)))
    return {
        "hwaddr_interfaces": {link.name: link.hwaddr for link in links if len(link.hwaddr) == _ETHERNET_ADDRESS_CHARS},
        "ip_interfaces": {name: [str(one) for one in found] for name, found in by_interface.items()},
        "ip4_interfaces": _of_version(by_interface, 4),
        "ip6_interfaces": _of_version(by_interface, 6),
        "ipv4": [str(address) for address in every if address.version == 4],
        "ipv6": [str(address) for address in every if address.version == 6],
        "fqdns": _names_of({str(address) for address in every if not address.is_loopback}),
    }


def gateways() -> dict[str, Any]:
    """The default gateways: True for a default route without a gateway, False without a default route."""
    gateway4 = _gateway4()
    gateway6 = _gateway6()
    return {"ip4_gw": gateway4, "ip6_gw": gateway6, "ip_gw": bool(gateway4 or gateway6)}


def resolver() -> dict[str, Any]:
    """The settings of /etc/resolv.conf."""
    settings: dict[str, list[str]] = {}
    for line in read_text("/etc/resolv.conf").splitlines():
        word, *values = re.split(r"[#;]", line)[0].split() or [""]
        if word == "nameserver":
            settings.setdefault(word, []).extend(values[:1])
        elif word in {"domain", "search", "options", "sortlist"}:
            settings[word] = values
    servers = settings.get("nameserver", [])
    return {
        "dns": {
            "nameservers": servers,
            "ip4_nameservers": [server for server in servers if ":" not in server],
            "ip6_nameservers": [server for server in servers if ":" in server],
            "domain": " ".join(settings.get("domain", [])),
            "search": settings.get("search", []),
            "options": settings.get("options", []),
            "sortlist": settings.get("sortlist", []),
        }
    }


def _full_name(hostname: str) -> str:
    if "." in hostname:
        return hostname
    for line in read_text("/etc/hosts").splitlines():
        _, *known = line.partition("#")[0].split() or [""]
        if hostname in known:
            dotted = [name for name in known if name.startswith(f"{hostname}.")]
            if dotted:
                return dotted[0]
    return hostname


def _names_of(addresses: set[str]) -> list[str]:
    """The full names of addresses in /etc/hosts, sorted."""
    found: set[str] = set()
    for line in read_text("/etc/hosts").splitlines():
        address, *known = line.partition("#")[0].split() or [""]
        if address in addresses:
            found.update(name for name in known if "." in name)
    return sorted(found)


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _of_version(by_interface: dict[str, list[_Address]], version: int) -> dict[str, list[str]]:
    return {
        name: [str(address) for address in found if address.version == version] for name, found in by_interface.items()
    }


def _gateway4() -> str | bool:
    found: str | bool = False
    for line in read_text("/proc/net/route").splitlines()[1:]:
        columns = line.split()
        if len(columns) > 7 and columns[1] == columns[7] == "00000000":
            number = int(columns[2], 16)
            if number:
                return str(ipaddress.IPv4Address(struct.pack("=I", number)))
            found = True
    return found


def _gateway6() -> str | bool:
    found: str | bool = False
    for line in read_text("/proc/net/ipv6_route").splitlines():
        columns = line.split()
        if len(columns) > 9 and int(columns[0] + columns[1], 16) == 0 and columns[9] != "lo":
            number = int(columns[4], 16)
            if number:
                return str(ipaddress.IPv6Address(number))
            found = True
    return found
