"""Grains of names, interfaces, addresses and routes.

No name is looked up on the network: a resolver that does not answer must not delay the start of a minion. The
full name comes from the host name itself or from /etc/hosts.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
from collections.abc import Iterator
from typing import Any

_RTM_NEWLINK, _RTM_GETLINK = 16, 18
_RTM_NEWADDR, _RTM_GETADDR = 20, 22
_NLMSG_DONE, _NLMSG_ERROR = 3, 2
_NLM_F_REQUEST_DUMP = 0x301
_IFLA_ADDRESS, _IFLA_IFNAME = 1, 3
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_REPLY_TIMEOUT_S = 1.0
_ETHERNET_ADDRESS_BYTES = 6


def names() -> dict[str, Any]:
    """Host name, full name and domain."""
    hostname = socket.gethostname()
    fqdn = _full_name(hostname)
    host, _, domain = fqdn.partition(".")
    return {"nodename": hostname, "localhost": hostname, "fqdn": fqdn, "host": host, "domain": domain}


def interfaces() -> dict[str, Any]:
    """Interfaces with their hardware and IP addresses, and all addresses in one list a family."""
    links, addresses = _links(), _addresses()
    by_interface = {name: [address for index, address in addresses if index == number] for number, name, _ in links}
    every = sorted({address for _, address in addresses}, key=lambda address: (address.version, int(address)))
    return {
        "hwaddr_interfaces": {name: hardware for _, name, hardware in links if hardware},
        "ip_interfaces": {name: [str(one) for one in found] for name, found in by_interface.items()},
        "ip4_interfaces": _of_version(by_interface, 4),
        "ip6_interfaces": _of_version(by_interface, 6),
        "ipv4": [str(address) for address in every if address.version == 4],
        "ipv6": [str(address) for address in every if address.version == 6],
    }


def gateways() -> dict[str, Any]:
    """The default gateways; True where a default route names none, False where there is no such route."""
    gateway4 = _gateway4()
    gateway6 = _gateway6()
    return {"ip4_gw": gateway4, "ip6_gw": gateway6, "ip_gw": bool(gateway4 or gateway6)}


def resolver() -> dict[str, Any]:
    """What /etc/resolv.conf says."""
    settings: dict[str, list[str]] = {}
    for line in _read("/etc/resolv.conf").splitlines():
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
    for line in _read("/etc/hosts").splitlines():
        _, *known = line.partition("#")[0].split() or [""]
        if hostname in known:
            dotted = [name for name in known if name.startswith(f"{hostname}.")]
            if dotted:
                return dotted[0]
    return hostname


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _of_version(by_interface: dict[str, list[_Address]], version: int) -> dict[str, list[str]]:
    return {
        name: [str(address) for address in found if address.version == version] for name, found in by_interface.items()
    }


def _links() -> list[tuple[int, str, str]]:
    """Number, name and hardware address of each interface."""
    found = []
    for body in _dump(_RTM_GETLINK, _RTM_NEWLINK):
        (number,) = struct.unpack_from("=i", body, 4)
        attributes = _attributes(body[16:])
        raw = attributes.get(_IFLA_ADDRESS, b"")
        hardware = ":".join(f"{byte:02x}" for byte in raw) if len(raw) == _ETHERNET_ADDRESS_BYTES else ""
        found.append((number, attributes[_IFLA_IFNAME].rstrip(b"\0").decode(errors="replace"), hardware))
    return found


def _addresses() -> list[tuple[int, _Address]]:
    """Interface number and address, for IPv4 and IPv6."""
    found: list[tuple[int, _Address]] = []
    for body in _dump(_RTM_GETADDR, _RTM_NEWADDR):
        family, _, _, _, number = struct.unpack_from("=BBBBi", body)
        attributes = _attributes(body[8:])
        # On a point-to-point link `address` is the peer's; `local` is this machine's where it is given.
        raw = attributes.get(_IFA_LOCAL) or attributes.get(_IFA_ADDRESS)
        if raw and family in (socket.AF_INET, socket.AF_INET6):
            found.append((number, ipaddress.ip_address(raw)))
    return found


def _dump(request: int, answer: int) -> Iterator[bytes]:
    """The bodies of all answers of the kernel's routing table to one request."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
        link.settimeout(_REPLY_TIMEOUT_S)
        # Header: length, type, flags, sequence, port; then a zeroed ifinfomsg, which both requests accept.
        link.sendto(struct.pack("=IHHII16x", 32, request, _NLM_F_REQUEST_DUMP, 1, 0), (0, 0))
        while True:
            data = link.recv(65536)
            while len(data) >= 16:
                length, kind = struct.unpack_from("=IH", data)
                if kind == _NLMSG_ERROR or length < 16:
                    raise OSError(f"the kernel refused routing table request {request}")
                if kind == _NLMSG_DONE:
                    return
                if kind == answer:
                    yield data[16:length]
                data = data[(length + 3) & ~3 :]


def _attributes(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def _gateway4() -> str | bool:
    found: str | bool = False
    for line in _read("/proc/net/route").splitlines()[1:]:
        columns = line.split()
        if len(columns) > 7 and columns[1] == columns[7] == "00000000":
            number = int(columns[2], 16)
            if number:
                return str(ipaddress.IPv4Address(struct.pack("=I", number)))
            found = True
    return found


def _gateway6() -> str | bool:
    found: str | bool = False
    for line in _read("/proc/net/ipv6_route").splitlines():
        columns = line.split()
        if len(columns) > 9 and int(columns[0] + columns[1], 16) == 0 and columns[9] != "lo":
            number = int(columns[4], 16)
            if number:
                return str(ipaddress.IPv6Address(number))
            found = True
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
