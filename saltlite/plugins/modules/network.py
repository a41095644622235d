"""Interfaces, addresses, routes and connections of this machine, and probes of other machines.

Interfaces and routes come from the kernel, connections from `/proc/net`. Programs run only to contact other machines
(`ping`, `traceroute`, `dig`).

:maintainer:    The saltlite authors
:maturity:      new
:depends:       ping, traceroute and dig for the functions of these names
:platform:      Linux
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins import _netlink, _wake_on_lan
from saltlite.plugins.modules import _machinefiles, _programs

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__


# --- Calculations with addresses ---

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def convert_cidr(cidr: str) -> dict[str, str]:
    """Return a network as ``{network, netmask, broadcast}``.

    CLI Example: ``saltlite '*' network.convert_cidr 172.31.0.0/16``
    """
    found = _network(cidr)
    return {
        "network": str(found.network_address),
        "netmask": str(found.netmask),
        "broadcast": str(found.broadcast_address),
    }


def calc_net(ip_addr: str, netmask: str | None = None) -> str:
    """Return the network of an address, as ADDRESS/LENGTH.

    CLI Example::

        saltlite '*' network.calc_net 172.17.0.5 255.255.255.240
        saltlite '*' network.calc_net 2a02:f6e:a000:80:84d8:8332:7866:4e07/64
    """
    return str(_network(f"{ip_addr}/{netmask}" if netmask is not None else ip_addr))


def ip_in_subnet(ip_addr: str, cidr: str) -> bool:
    """Return whether an address is in a network.

    CLI Example: ``saltlite '*' network.ip_in_subnet 172.17.0.4 172.16.0.0/12``
    """
    return _address(ip_addr) in _network(cidr)


def is_private(ip_addr: str) -> bool:
    """Return whether an address is private.

    CLI Example: ``saltlite '*' network.is_private 10.0.0.3``
    """
    return _address(ip_addr).is_private


def is_loopback(ip_addr: str) -> bool:
    """Return whether an address is a loopback address.

    CLI Example: ``saltlite '*' network.is_loopback 127.0.0.1``
    """
    return _address(ip_addr).is_loopback


def reverse_ip(ip_addr: str) -> str:
    """Return the name of an address for reverse DNS lookups.

    CLI Example: ``saltlite '*' network.reverse_ip 172.17.0.4``
    """
    return _address(ip_addr).reverse_pointer


def iphexval(ip: str) -> str:
    """Return an IPv4 address as eight hexadecimal digits.

    CLI Example: ``saltlite '*' network.iphexval 10.0.0.1``
    """
    return _address(ip).packed.hex().upper()


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parse an address. Raises SaltInvocationError."""
    try:
        return ipaddress.ip_address(str(text))
    except ValueError as error:
        raise SaltInvocationError(f"{text!r} is not an address.") from error


def _network(text: str) -> Network:
    """Parse a network, or an address with a prefix length. Raises SaltInvocationError."""
    try:
        return ipaddress.ip_network(str(text), strict=False)
    except ValueError as error:
        raise SaltInvocationError(f"{text!r} is not a network: write it as 192.0.2.0/24.") from error


_ETHTOOL, _RING_SIZES = 0x8946, 0x10
_NAME_BYTES = 15
_RING_NAMES = ("rx", "rx-mini", "rx-jumbo", "tx")


def interfaces() -> dict[str, dict[str, Any]]:
    """Return all interfaces: ``{name: {"up": bool, "hwaddr": text, "inet": [...], "inet6": [...]}}``.

    An IPv4 address is ``{address, netmask, broadcast, label}``, an IPv6 address ``{address, prefixlen, scope}``.
    Further addresses of a network are in ``secondary``. ``parent`` is the underlying interface.

    CLI Example: ``saltlite '*' network.interfaces``
    """
    links = _netlink.links()
    names = {link.number: link.name for link in links}
    found: dict[int, dict[str, Any]] = {}
    for link in links:
        row: dict[str, Any] = {"up": link.up}
        if link.parent and link.parent != link.number:
            row["parent"] = names.get(link.parent, f"if{link.parent}")
        if link.hwaddr:
            row["hwaddr"] = link.hwaddr
        found[link.number] = row
    for assigned in _netlink.addresses():
        if assigned.number not in found:
            continue
        kind, row = _address_row(assigned, names[assigned.number])
        # For IPv6 the flag marks temporary addresses, which are ordinary ones.
        if assigned.secondary and kind == "inet":
            found[assigned.number].setdefault("secondary", []).append({"type": kind, **row})
        else:
            found[assigned.number].setdefault(kind, []).append(row)
    return {names[index]: row for index, row in found.items()}


def interface(iface: str) -> list[dict[str, Any]] | str:
    """Return the IPv4 addresses of an interface: a list of ``{address, netmask, broadcast, label}``, or an empty text.

    CLI Example: ``saltlite '*' network.interface eth0``
    """
    rows: list[dict[str, Any]] = _one(iface).get("inet", [])
    return rows or ""


def interface_ip(iface: str) -> str:
    """Return the first IPv4 address of an interface, or an empty text.

    CLI Example: ``saltlite '*' network.interface_ip eth0``
    """
    rows = _one(iface).get("inet", [])
    return str(rows[0]["address"]) if rows else ""


def hw_addr(iface: str) -> str:
    """Return the hardware address of an interface.

    CLI Example::

        saltlite '*' network.hw_addr eth0
        saltlite '*' network.hwaddr eth0
    """
    return str(_one(iface).get("hwaddr", ""))


hwaddr = hw_addr


def ip_addrs(
    interface: str | None = None, include_loopback: bool = False, cidr: str | None = None, type: str | None = None
) -> list[str]:
    """Return the IPv4 addresses of this machine, or of interfaces by name or glob, sorted.

    ``cidr`` selects those in a network, ``type`` those that are ``public`` or ``private``.

    CLI Example::

        saltlite '*' network.ip_addrs
        saltlite '*' network.ip_addrs cidr=10.0.0.0/8
        saltlite '*' network.ip_addrs type=private
        saltlite '*' network.ipaddrs
    """
    found = _addresses(4, interface, include_loopback=include_loopback, cidr=cidr)
    if type in {"public", "private"}:
        found = [each for each in found if each.is_private == (type == "private")]
    return [str(each) for each in found]


ipaddrs = ip_addrs


def ip_addrs6(interface: str | None = None, include_loopback: bool = False, cidr: str | None = None) -> list[str]:
    """Return the IPv6 addresses of this machine, or of interfaces by name or glob, sorted.

    CLI Example::

        saltlite '*' network.ip_addrs6
        saltlite '*' network.ip_addrs6 cidr=2000::/3
        saltlite '*' network.ipaddrs6
    """
    return [str(each) for each in _addresses(6, interface, include_loopback=include_loopback, cidr=cidr)]


ipaddrs6 = ip_addrs6


def ip_networks(
    interface: str | None = None, include_loopback: bool = False, verbose: bool = False
) -> list[str] | dict[str, dict[str, Any]]:
    """Return the IPv4 networks of this machine; with ``verbose`` ``{network: {address, netmask, num_addresses, …}}``.

    CLI Example::

        saltlite '*' network.ip_networks
        saltlite '*' network.ip_networks interface=docker0 verbose=True
    """
    return _networks(4, interface, include_loopback=include_loopback, verbose=verbose)


def ip_networks6(
    interface: str | None = None, include_loopback: bool = False, verbose: bool = False
) -> list[str] | dict[str, dict[str, Any]]:
    """Return the IPv6 networks of this machine, like ``ip_networks``.

    CLI Example: ``saltlite '*' network.ip_networks6``
    """
    return _networks(6, interface, include_loopback=include_loopback, verbose=verbose)


def subnets(interfaces: str | list[str] | None = None) -> list[str]:
    """Return the IPv4 networks of this machine, or of the named interfaces.

    CLI Example::

        saltlite '*' network.subnets
        saltlite '*' network.subnets interfaces=eth1
    """
    names = [interfaces] if isinstance(interfaces, str) else interfaces
    return [str(each) for each in _own_networks(4, names)]


def subnets6() -> list[str]:
    """Return the IPv6 networks of this machine.

    CLI Example: ``saltlite '*' network.subnets6``
    """
    return [str(each) for each in _own_networks(6, None)]


def in_subnet(cidr: str) -> bool:
    """Return whether this machine has an address in the network. Addresses of the loopback do not count.

    CLI Example: ``saltlite '*' network.in_subnet 10.0.0.0/16``
    """
    wanted = _network(cidr)
    return any(assigned.address in wanted and not assigned.address.is_loopback for assigned in _netlink.addresses())


def ifacestartswith(cidr: str) -> list[str]:
    """Return the interfaces with an IPv4 address that starts with this text.

    CLI Example: ``saltlite '*' network.ifacestartswith 10.0``
    """
    return [
        row["label"]
        for each in interfaces().values()
        for row in each.get("inet", [])
        if row["address"].startswith(str(cidr))
    ]


def get_bufsize(iface: str) -> dict[str, Any]:
    """Return the sizes of an interface's ring buffers: ``rx``, ``rx-mini``, ``rx-jumbo``, ``tx``, and the ``-max`` of
    each.

    For an interface without any, ``result`` is False with a ``comment``.

    CLI Example: ``saltlite '*' network.get_bufsize eth0``
    """
    import array
    import fcntl
    import socket

    name = str(iface).encode()
    if not 0 < len(name) <= _NAME_BYTES or b"\0" in name:
        raise SaltInvocationError(f"{iface!r} cannot be the name of an interface.")
    rings = array.array("I", [_RING_SIZES, *[0] * 8])
    request = struct.pack("16sP16x", name, rings.buffer_info()[0])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            fcntl.ioctl(asked.fileno(), _ETHTOOL, request)
    except OSError as error:
        return {"result": False, "comment": f"{iface} does not tell its buffers: {error.strerror}."}
    largest = {f"{ring}-max": size for ring, size in zip(_RING_NAMES, rings[1:5], strict=True)}
    return {"result": True, **largest, **dict(zip(_RING_NAMES, rings[5:9], strict=True))}


def _one(iface: str) -> dict[str, Any]:
    every = interfaces()
    if iface not in every:
        names = ", ".join(sorted(every))
        raise CommandExecutionError(f'Interface "{iface}" not in available interfaces: {names}')
    return every[iface]


def _address_row(assigned: _netlink.Assigned, name: str) -> tuple[str, dict[str, Any]]:
    if assigned.address.version == 6:
        return "inet6", {
            "address": str(assigned.address),
            "prefixlen": str(assigned.prefixlen),
            "scope": assigned.scope,
        }
    return "inet", {
        "address": str(assigned.address),
        "netmask": str(ipaddress.ip_network((0, assigned.prefixlen)).netmask),
        "broadcast": assigned.broadcast,
        "label": assigned.label or name,
    }


def _assigned(version: int, wanted: Iterable[str] | None) -> list[_netlink.Assigned]:
    """Return the addresses of interfaces that match one of the globs, or of all."""
    import fnmatch

    globs = None if wanted is None else list(wanted)
    names = {link.number: link.name for link in _netlink.links()}
    return [
        each
        for each in _netlink.addresses()
        if each.address.version == version
        and (globs is None or any(fnmatch.fnmatchcase(names.get(each.number, ""), glob) for glob in globs))
    ]


def _addresses(
    version: int, interface: str | None, *, include_loopback: bool, cidr: str | None
) -> list[_netlink.Address]:
    wanted = _network(cidr) if cidr else None
    found = {each.address for each in _assigned(version, [interface] if interface else None)}
    kept = [each for each in found if (include_loopback or not each.is_loopback) and (wanted is None or each in wanted)]
    return sorted(kept, key=int)


def _own_networks(
    version: int, names: Iterable[str] | None, *, include_loopback: bool = False
) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    found = {
        _network(f"{each.address}/{each.prefixlen}")
        for each in _assigned(version, names)
        if include_loopback or not each.address.is_loopback
    }
    return sorted(found, key=lambda each: (int(each.network_address), each.prefixlen))


def _networks(
    version: int, interface: str | None, *, include_loopback: bool, verbose: bool
) -> list[str] | dict[str, dict[str, Any]]:
    found = _own_networks(version, [interface] if interface else None, include_loopback=include_loopback)
    if not verbose:
        return [str(each) for each in found]
    return {
        str(each): {
            "address": str(each.network_address),
            "netmask": str(each.netmask),
            "num_addresses": each.num_addresses,
            "prefixlen": each.prefixlen,
        }
        for each in found
    }


# --- Host name ---

_NAME = r"(?=.{1,64}\Z)[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"


def get_hostname() -> str:
    """Return the host name of this machine.

    CLI Example: ``saltlite '*' network.get_hostname``
    """
    import socket

    return socket.gethostname()


def get_fqdn() -> str:
    """Return the fully qualified name of this machine, as the resolver knows it.

    CLI Example: ``saltlite '*' network.get_fqdn``
    """
    import socket

    return socket.getfqdn()


def fqdns() -> dict[str, list[str]]:
    """Return ``fqdns``: the full names that the resolver has for the addresses of this machine, without the loopback.

    CLI Example: ``saltlite '*' network.fqdns``
    """
    import socket

    found = set()
    for address in (*ip_addrs(), *ip_addrs6()):
        with contextlib.suppress(OSError):
            found.add(socket.getfqdn(socket.gethostbyaddr(address)[0]))
    return {"fqdns": sorted(found)}


def mod_hostname(hostname: str, test: bool = False) -> bool:
    """Change the host name of this machine: at runtime, in /etc/hostname, and in /etc/hosts.

    On Red Hat systems also in /etc/sysconfig/network if it has the name.

    CLI Example: ``saltlite '*' network.mod_hostname master.example.org``
    """
    import socket

    name = str(hostname)
    if not re.fullmatch(_NAME, name) or ".." in name:
        raise SaltInvocationError(f"{hostname!r} cannot be the name of a machine.")
    if test:
        return True
    old = socket.gethostname()
    if _programs.find("hostnamectl") and os.path.isdir(_machinefiles.place("/run/systemd/system")):
        _programs.output(["hostnamectl", "set-hostname", "--", name])
    else:
        try:
            socket.sethostname(name)
        except OSError as error:
            raise CommandExecutionError(f"This machine cannot be given a name: {error.strerror}.") from error
        _machinefiles.replace("/etc/hostname", f"{name}\n")
    _exchange("/etc/hosts", rf"(?<![^\s]){re.escape(old)}(?![^\s#])", name)
    _exchange("/etc/sysconfig/network", r"(?m)(?<=^HOSTNAME=)[^\n]*", name)
    return True


def _exchange(path: str, expression: str, name: str) -> None:
    text = _machinefiles.read_if_there(path)
    # Comments in /etc/hosts stay.
    lines = []
    for line in text.splitlines(keepends=True):
        entry, mark, comment = line.partition("#")
        lines.append(re.sub(expression, name, entry) + mark + comment)
    changed = "".join(lines)
    if changed != text:
        _machinefiles.replace(path, changed)


# --- Routes and neighbours ---

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

    CLI Example: ``saltlite '*' network.default_route``
    """
    return [route for route in routes(family) if route["destination"] == _DEFAULTS[route["addr_family"]]]


def get_route(ip: str) -> dict[str, str | None]:
    """Return the route to an address: ``{destination, gateway, interface, source}``; no gateway on a local link.

    CLI Example: ``saltlite '*' network.get_route 10.10.10.10``
    """
    import socket

    route = _netlink.route_to(_address(ip))
    try:
        name: str | None = socket.if_indextoname(route.number)
    except OSError:  # the interface was removed meanwhile
        name = None
    return {"destination": str(ip), "gateway": route.gateway, "interface": name, "source": route.source}


def arp() -> dict[str, str]:
    """Return the IPv4 neighbours that answered: ``{hardware address: IPv4 address}``.

    CLI Example: ``saltlite '*' network.arp``
    """
    found = {}
    for line in _machinefiles.read("/proc/net/arp").splitlines()[1:]:
        columns = line.split()
        if len(columns) >= 6 and int(columns[2], 16):  # 0: no answer
            found[columns[3]] = columns[0]
    return found


def ip_neighs() -> dict[str, str]:
    """Return the IPv4 neighbours that answered: ``{hardware address: IPv4 address}``.

    CLI Example: ``saltlite '*' network.ip_neighs``, or ``saltlite '*' network.ipneighs``
    """
    return _netlink.neighbours(4)


def ip_neighs6() -> dict[str, str]:
    """Return the IPv6 neighbours that answered: ``{hardware address: IPv6 address}``.

    CLI Example: ``saltlite '*' network.ip_neighs6``, or ``saltlite '*' network.ipneighs6``
    """
    return _netlink.neighbours(6)


ipneighs = ip_neighs
ipneighs6 = ip_neighs6


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

    CLI Example: ``saltlite '*' network.traceroute archlinux.org``
    """
    try:
        text = _programs.output(["traceroute", "--", _programs.word(host, "host")], timeout_s=TRACEROUTE_TIMEOUT_S)
    except CommandExecutionError as error:
        if "did not end within" in str(error):
            return []
        raise
    return _hops(text)


def _hops(text: str) -> list[dict[str, Any]]:
    """Parse the output of traceroute, one dict per line."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        match = None if line.startswith("traceroute") else re.fullmatch(r"\s*(\d+)\s+(\S.*)", line)
        if match is None:
            continue
        who = re.search(r"(\S+) \(([0-9A-Fa-f.:]+)\)", match[2])
        row: dict[str, Any] = {"count": int(match[1]), "hostname": who[1] if who else "*"}
        if who:
            row["ip"] = who[2]
            delays = re.findall(r"([\d.]+) ms", match[2])
            row |= {f"ms{place}": float(delay) for place, delay in enumerate(delays[:3], 1)}
        found.append(row)
    return found


def dig(host: str) -> str:
    """Return the addresses of a name as dig prints them.

    CLI Example: ``saltlite '*' network.dig archlinux.org``
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
    import socket

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
    _wake_on_lan.send(mac, bcast, destport)
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

    CLI Example: ``saltlite '*' network.netstat``
    """
    from saltlite.plugins.modules import _proc

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

    CLI Example: ``saltlite '*' network.active_tcp``
    """
    from saltlite.plugins.modules import _proc

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
    from saltlite.plugins.modules import _proc

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
