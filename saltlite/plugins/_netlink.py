"""Reads links, addresses, neighbours and routes from the kernel by rtnetlink(7); used by grains and `network`."""

from __future__ import annotations

import ipaddress
import os
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from saltlite.errors import CommandExecutionError

if TYPE_CHECKING:
    import socket

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_GET_LINK, _GET_ADDRESS, _GET_ROUTE, _GET_NEIGHBOUR = 18, 22, 26, 30
_ANSWER = -2
"""Offset of an answer's type from its request's."""
_DONE, _ERROR = 3, 2
_REQUEST, _DUMP = 0x1, 0x300
_FAMILIES = {4: 2, 6: 10}
"""Version of IP -> address family of Linux, as in `socket`, which only a request imports."""
_REPLY_TIMEOUT_S = 2.0
_HEADER = struct.Struct("=IHHII")
_UP, _SECONDARY = 0x1, 0x1
_SCOPES = {0: "global", 200: "site", 253: "link", 254: "host", 255: "nowhere"}
_NEIGHBOUR_KNOWN = 0x9E
"""States of neighbours that answered or were configured, unlike incomplete and failed."""


class Link(NamedTuple):
    """A network interface; `parent` is the number of the underlying one, 0 for none."""

    number: int
    name: str
    up: bool
    hwaddr: str
    parent: int


class Assigned(NamedTuple):
    """An address of an interface."""

    number: int
    address: Address
    prefixlen: int
    scope: str
    broadcast: str | None
    label: str
    secondary: bool


class Route(NamedTuple):
    """The next step to a destination."""

    gateway: str | None
    number: int
    source: str | None


def links() -> list[Link]:
    """Return all interfaces. Raises CommandExecutionError."""
    found = []
    for body in _ask(_GET_LINK, b"\0" * 16):
        _, _, index, flags = struct.unpack_from("=BxHiI", body)
        data = _attributes(body[16:])
        (parent,) = struct.unpack("=i", data[5]) if len(data.get(5, b"")) == 4 else (0,)
        hwaddr = ":".join(f"{byte:02x}" for byte in data.get(1, b""))
        found.append(Link(index, _text(data.get(3, b"")), bool(flags & _UP), hwaddr, parent))
    return found


def addresses() -> list[Assigned]:
    """Return all addresses of all interfaces. Raises CommandExecutionError."""
    found = []
    for body in _ask(_GET_ADDRESS, b"\0" * 8):
        family, prefixlen, flags, scope, index = struct.unpack_from("=BBBBi", body)
        data = _attributes(body[8:])
        # On a point-to-point link attribute 1 is the peer's address and attribute 2 the local one.
        raw = data.get(2) or data.get(1)
        if family not in _FAMILIES.values() or not raw:
            continue
        broadcast = str(ipaddress.ip_address(data[4])) if len(data.get(4, b"")) == 4 else None
        word = _SCOPES.get(scope, str(scope))
        label = _text(data.get(3, b""))
        found.append(
            Assigned(index, ipaddress.ip_address(raw), prefixlen, word, broadcast, label, bool(flags & _SECONDARY))
        )
    return found


def neighbours(version: int) -> dict[str, str]:
    """Hardware address -> address of the neighbours that answered. Raises CommandExecutionError."""
    family = _FAMILIES[version]
    found = {}
    for body in _ask(_GET_NEIGHBOUR, struct.pack("=B11x", family)):
        theirs, _, state = struct.unpack_from("=B3xiH", body)
        data = _attributes(body[12:])
        if theirs == family and state & _NEIGHBOUR_KNOWN and len(data.get(2, b"")) == 6 and 1 in data:
            found[":".join(f"{byte:02x}" for byte in data[2])] = str(ipaddress.ip_address(data[1]))
    return found


def route_to(address: Address) -> Route:
    """Return the route to an address. Raises CommandExecutionError when there is none."""
    raw = address.packed
    family = _FAMILIES[address.version]
    request = struct.pack("=BBBBBBBBI", family, len(raw) * 8, 0, 0, 0, 0, 0, 0, 0)
    request += struct.pack("=HH", 4 + len(raw), 1) + raw
    for body in _ask(_GET_ROUTE, request, dump=False):
        data = _attributes(body[12:])
        (index,) = struct.unpack("=i", data.get(4, b"\0" * 4))
        return Route(_address(data.get(5)), index, _address(data.get(7)))
    raise CommandExecutionError(f"The kernel did not answer how to reach {address}.")


def _ask(kind: int, body: bytes, *, dump: bool = True) -> Iterator[bytes]:
    """Send a request and iterate over the bodies of all answers."""
    import socket  # noqa: PLC0415 - it costs more than all else here, and most jobs of `network` ask nothing

    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as link:
            link.settimeout(_REPLY_TIMEOUT_S)
            flags = _REQUEST | (_DUMP if dump else 0)
            link.sendto(_HEADER.pack(_HEADER.size + len(body), kind, flags, 1, 0) + body, (0, 0))
            yield from _answers(link, kind + _ANSWER, dump=dump)
    except OSError as error:
        raise CommandExecutionError(
            f"The kernel's network tables cannot be read: {error.strerror or error}."
        ) from error


def _answers(link: socket.socket, kind: int, *, dump: bool) -> Iterator[bytes]:
    while True:
        data = link.recv(1 << 17)
        while len(data) >= _HEADER.size:
            length, answer, _, _, _ = _HEADER.unpack_from(data)
            if answer == _ERROR or length < _HEADER.size:
                (number,) = struct.unpack_from("=i", data, _HEADER.size)
                raise OSError(-number, os.strerror(-number))
            if answer == _DONE:
                return
            if answer == kind:
                yield data[_HEADER.size : length]
                if not dump:
                    return
            data = data[(length + 3) & ~3 :]


def _attributes(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return found


def _text(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode(errors="replace")


def _address(raw: bytes | None) -> str | None:
    return str(ipaddress.ip_address(raw)) if raw else None
