"""Routes, neighbours, sockets, and probes of other machines."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import struct
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins import _netlink
from saltlite.plugins.modules import _machinefiles, _proc, _programs

from .interfaces import address

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__


_FLAGS = {0x1: "U", 0x2: "G", 0x4: "H", 0x8: "R", 0x10: "D", 0x20: "M", 0x40000: "A", 0x01000000: "C"}
_REJECTING = 0x200
_DEFAULTS = {"inet": "0.0.0.0", "inet6": "::/0"}  # noqa: S104 - a destination, nothing is bound to it


def routes(family: str | None = None) -> list[dict[str, str]]:
    """Return the routes: a list of ``{addr_family, destination, gateway, netmask, flags, interface}``.

    ``family`` is ``inet`` or ``inet6``. An IPv6 destination includes its prefix length, and its netmask is empty.

    CLI Example::

        saltlite '*' network.routes
        saltlite '*' network.routes inet
    """
    if family not in {None, "inet", "inet6"}:
        raise CommandExecutionError(f"Invalid address family {family}")
    found = _routes4() if family != "inet6" else []
    return found + (_routes6() if family != "inet" else [])


def default_route(family: str | None = None) -> list[dict[str, str]]:
    """Return the default routes, in the form of ``routes``.

    CLI Example::

        saltlite '*' network.default_route
    """
    return [route for route in routes(family) if route["destination"] == _DEFAULTS[route["addr_family"]]]


def get_route(ip: str) -> dict[str, str | None]:
    """Return the route to an address: ``{destination, gateway, interface, source}``; no gateway on a local link.

    CLI Example::

        saltlite '*' network.get_route 10.10.10.10
    """
    route = _netlink.route_to(address(ip))
    try:
        name: str | None = socket.if_indextoname(route.number)
    except OSError:  # the interface was removed meanwhile
        name = None
    return {"destination": str(ip), "gateway": route.gateway, "interface": name, "source": route.source}


def arp() -> dict[str, str]:
    """Return the IPv4 neighbours that answered: ``{hardware address: IPv4 address}``.

    CLI Example::

        saltlite '*' network.arp
    """
    found = {}
    for line in _machinefiles.read("/proc/net/arp").splitlines()[1:]:
        columns = line.split()
        if len(columns) >= 6 and int(columns[2], 16):  # 0: no answer
            found[columns[3]] = columns[0]
    return found


def ip_neighs() -> dict[str, str]:
    """Return the IPv4 neighbours that answered: ``{hardware address: IPv4 address}``.

    CLI Example::

        saltlite '*' network.ip_neighs
    """
    return _netlink.neighbours(4)


def ip_neighs6() -> dict[str, str]:
    """Return the IPv6 neighbours that answered: ``{hardware address: IPv6 address}``.

    CLI Example::

        saltlite '*' network.ip_neighs6
    """
    return _netlink.neighbours(6)


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
    # The kernel prints the number in native byte order.
    try:
        return str(ipaddress.IPv4Address(struct.pack("=I", int(column, 16))))
    except (ValueError, struct.error) as error:
        raise SaltInvocationError(f"{column!r} is not an address of a route.") from error


def _letters(flags: int) -> str:
    return "".join(letter for bit, letter in _FLAGS.items() if flags & bit)


# --- Probes of other machines ---

TRACEROUTE_TIMEOUT_S = 120
PROBE_BYTES_MAX = 255
CONNECT_TIMEOUT_S = 5.0
PORTS = 65536

_HOP = re.compile(r"\s*(\d+)\s+(\S.*)")
_DELAY = re.compile(r"([\d.]+) ms")
_MAC = re.compile(r"[0-9a-f]{12}|[0-9a-f]{2}([:.-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4}", re.IGNORECASE)


class _Connecting(TypedDict, total=False):
    proto: str
    timeout: float
    family: str


def ping(host: str, timeout: int | bool = False, return_boolean: bool = False) -> str | bool:
    """Ping a machine four times. Return the program's output, or with ``return_boolean`` whether it answered.

    ``timeout`` is the seconds to wait for an answer.

    CLI Example::

        saltlite '*' network.ping archlinux.org
        saltlite '*' network.ping archlinux.org return_boolean=True timeout=3
    """
    wait = ["-W", _seconds(timeout)] if timeout else []
    done = _programs.run(["ping", *wait, "-c", "4", _programs.word(host, "host")])
    if return_boolean:
        return done.retcode == 0
    if done.retcode:
        __context__["retcode"] = done.retcode
    return (done.stdout + done.stderr).strip()


def traceroute(host: str) -> list[dict[str, Any]]:
    """Return the hops to a machine: a list of ``{count, hostname, ip, ms1, ms2, ms3}``.

    A silent hop has only the name ``*``. After two minutes the list is empty.

    CLI Example::

        saltlite '*' network.traceroute archlinux.org
    """
    try:
        text = _programs.output(["traceroute", "--", _programs.word(host, "host")], timeout_s=TRACEROUTE_TIMEOUT_S)
    except CommandExecutionError as error:
        if "did not end within" in str(error):
            return []
        raise
    return hops(text)


def hops(text: str) -> list[dict[str, Any]]:
    """Parse the output of traceroute, one dict per line."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        match = None if line.startswith("traceroute") else _HOP.fullmatch(line)
        if match is None:
            continue
        who = re.search(r"(\S+) \(([0-9A-Fa-f.:]+)\)", match[2])
        row: dict[str, Any] = {"count": int(match[1]), "hostname": who[1] if who else "*"}
        if who:
            row["ip"] = who[2]
            row |= {f"ms{place}": float(delay) for place, delay in enumerate(_DELAY.findall(match[2])[:3], 1)}
        found.append(row)
    return found


def dig(host: str) -> str:
    """Return the addresses of a name as dig prints them.

    CLI Example::

        saltlite '*' network.dig archlinux.org
    """
    name = _programs.word(host, "name in the DNS")
    if name.startswith(("@", "+")):
        raise SaltInvocationError(f"{host!r} cannot be a name in the DNS.")
    return _programs.output(["dig", name]).strip()


def connect(host: str, port: int | None = None, **kwargs: Unpack[_Connecting]) -> dict[str, Any]:
    """Test a connection to a port of a machine: ``{"result": bool, "comment": sentence}``.

    Keyword arguments: ``proto`` (``tcp``, or ``udp``, which needs an answer), ``timeout`` in seconds (5), ``family``
    (``ipv4`` or ``ipv6``).

    CLI Example::

        saltlite '*' network.connect archlinux.org 80
        saltlite '*' network.connect archlinux.org 80 timeout=3
        saltlite '*' network.connect google-public-dns-a.google.com port=53 proto=udp timeout=3
    """
    for name, value in (("host", host), ("port", port)):
        if not value:
            return {"result": False, "comment": f"Required argument, {name}, is missing."}
    proto = "udp" if kwargs.get("proto") == "udp" else "tcp"
    kind = socket.SOCK_DGRAM if proto == "udp" else socket.SOCK_STREAM
    families = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}
    family = families.get(str(kwargs.get("family")), socket.AF_UNSPEC)
    try:
        found = socket.getaddrinfo(_programs.word(host, "host"), str(port), family, kind)[0]
    except (OSError, UnicodeError):
        return {"result": False, "comment": f"Unable to resolve host {host} on {proto} port {port}"}
    where = f"{host} ({found[4][0]}) on {proto} port {port}"
    try:
        with socket.socket(*found[:3]) as sock:
            sock.settimeout(float(kwargs.get("timeout") or CONNECT_TIMEOUT_S))
            sock.connect(found[4])
            if proto == "udp":
                sock.send(b"saltlite")
                sock.recv(PROBE_BYTES_MAX)
    except OSError as error:
        return {"result": False, "comment": f"Unable to connect to {where}: {error.strerror or error}"}
    return {"result": True, "comment": f"Successfully connected to {where}"}


def wol(mac: str, bcast: str = "255.255.255.255", destport: int = 9) -> bool:
    """Send a wake-on-LAN packet for this hardware address to ``bcast``, the broadcast address of its network; True when
    it was sent.

    CLI Example::

        saltlite '*' network.wol 08-00-27-13-69-77
        saltlite '*' network.wol 080027136977 255.255.255.255 7
        saltlite '*' network.wol 08:00:27:13:69:77 192.0.2.255 7
    """
    if not _MAC.fullmatch(str(mac)):
        raise SaltInvocationError(f"{mac!r} is not a hardware address: write it as 08:00:27:13:69:77.")
    if not 0 < destport < PORTS:
        raise SaltInvocationError(f"{destport} is not a port.")
    address = bytes.fromhex(re.sub(r"[:.-]", "", str(mac)))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sock.sendto(b"\xff" * 6 + address * 16, (str(ipaddress.IPv4Address(bcast)), destport))
    except ipaddress.AddressValueError:
        raise SaltInvocationError(f"{bcast!r} is not an IPv4 address.") from None
    except OSError as error:
        raise CommandExecutionError(f"The packet was not sent to {bcast}: {error.strerror}.") from error
    return True


def _seconds(value: Any) -> str:
    if not re.fullmatch(r"[0-9]{1,6}", str(value)):
        raise SaltInvocationError(f"{value!r} is not a number of seconds.")
    return str(value)


# --- Sockets ---


def netstat() -> list[dict[str, str]]:
    """Return all sockets of TCP and UDP.

    A list of ``{proto, recv-q, send-q, local-address, remote-address, state, user, inode, program}``. UDP has no state.
    ``user`` is a number. ``program`` is PID/NAME, or a hyphen without access.

    CLI Example::

        saltlite '*' network.netstat
    """
    owners = _owners()
    found = []
    for proto in ("tcp", "tcp6", "udp", "udp6"):
        for each in _proc.sockets(proto):
            row = {
                "proto": proto,
                "recv-q": str(each.receive_queue),
                "send-q": str(each.send_queue),
                "local-address": _end(each.local),
                "remote-address": _end(each.remote),
            }
            if proto.startswith("tcp"):
                row["state"] = each.state
            program = owners.get(each.inode, "-")
            found.append({**row, "user": each.user, "inode": each.inode, "program": program})
    return found


def active_tcp() -> dict[int, dict[str, Any]]:
    """Return the established TCP connections: ``{number: {local_addr, local_port, remote_addr, remote_port}}``.

    CLI Example::

        saltlite '*' network.active_tcp
    """
    established = [each for proto in ("tcp", "tcp6") for each in _proc.sockets(proto) if each.state == "ESTABLISHED"]
    return {
        number: {
            "local_addr": each.local[0],
            "local_port": each.local[1],
            "remote_addr": each.remote[0],
            "remote_port": each.remote[1],
        }
        for number, each in enumerate(established)
    }


def _end(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1] or '*'}"


def _owners() -> dict[str, str]:
    """Inode of a socket -> PID/NAME of the first process that has it open."""
    found: dict[str, str] = {}
    for process in _proc.processes():
        folder = f"/proc/{process.pid}/fd"
        for name in _machinefiles.names_in(folder):
            try:
                link = os.readlink(_machinefiles.place(f"{folder}/{name}"))
            except OSError:
                continue
            if link.startswith("socket:["):
                found.setdefault(link[8:-1], f"{process.pid}/{process.name}")
    return found
