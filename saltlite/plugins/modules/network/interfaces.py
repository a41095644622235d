"""Interfaces, addresses and host names of this machine, and calculations with addresses."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import re
import socket
import struct
from collections.abc import Iterable
from typing import Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins import _netlink
from saltlite.plugins.modules import _machinefiles, _programs

# --- Calculations with addresses ---

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def convert_cidr(cidr: str) -> dict[str, str]:
    """Return a network as ``{network, netmask, broadcast}``.

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
    """Return the network of an address, as ADDRESS/LENGTH.

    CLI Example::

        saltlite '*' network.calc_net 172.17.0.5 255.255.255.240
        saltlite '*' network.calc_net 2a02:f6e:a000:80:84d8:8332:7866:4e07/64
    """
    return str(network(f"{ip_addr}/{netmask}" if netmask is not None else ip_addr))


def ip_in_subnet(ip_addr: str, cidr: str) -> bool:
    """Return whether an address is in a network.

    CLI Example::

        saltlite '*' network.ip_in_subnet 172.17.0.4 172.16.0.0/12
    """
    return address(ip_addr) in network(cidr)


def is_private(ip_addr: str) -> bool:
    """Return whether an address is private.

    CLI Example::

        saltlite '*' network.is_private 10.0.0.3
    """
    return address(ip_addr).is_private


def is_loopback(ip_addr: str) -> bool:
    """Return whether an address is a loopback address.

    CLI Example::

        saltlite '*' network.is_loopback 127.0.0.1
    """
    return address(ip_addr).is_loopback


def reverse_ip(ip_addr: str) -> str:
    """Return the name of an address for reverse DNS lookups.

    CLI Example::

        saltlite '*' network.reverse_ip 172.17.0.4
    """
    return address(ip_addr).reverse_pointer


def iphexval(ip: str) -> str:
    """Return an IPv4 address as eight hexadecimal digits.

    CLI Example::

        saltlite '*' network.iphexval 10.0.0.1
    """
    return address(ip).packed.hex().upper()


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Parse an address. Raises SaltInvocationError."""
    try:
        return ipaddress.ip_address(str(text))
    except ValueError as error:
        raise SaltInvocationError(f"{text!r} is not an address.") from error


def network(text: str) -> Network:
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

    CLI Example::

        saltlite '*' network.interfaces
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

    CLI Example::

        saltlite '*' network.interface eth0
    """
    rows: list[dict[str, Any]] = _one(iface).get("inet", [])
    return rows or ""


def interface_ip(iface: str) -> str:
    """Return the first IPv4 address of an interface, or an empty text.

    CLI Example::

        saltlite '*' network.interface_ip eth0
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
    interface: str | None = None,
    include_loopback: bool = False,
    cidr: str | None = None,
    type: str | None = None,
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

    CLI Example::

        saltlite '*' network.ip_networks6
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

    CLI Example::

        saltlite '*' network.subnets6
    """
    return [str(each) for each in _own_networks(6, None)]


def in_subnet(cidr: str) -> bool:
    """Return whether this machine has an address in the network.

    CLI Example::

        saltlite '*' network.in_subnet 10.0.0.0/16
    """
    wanted = network(cidr)
    return any(assigned.address in wanted for assigned in _netlink.addresses())


def ifacestartswith(cidr: str) -> list[str]:
    """Return the interfaces with an IPv4 address that starts with this text.

    CLI Example::

        saltlite '*' network.ifacestartswith 10.0
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

    CLI Example::

        saltlite '*' network.get_bufsize eth0
    """
    import array

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
    wanted = network(cidr) if cidr else None
    found = {each.address for each in _assigned(version, [interface] if interface else None)}
    kept = [each for each in found if (include_loopback or not each.is_loopback) and (wanted is None or each in wanted)]
    return sorted(kept, key=int)


def _own_networks(
    version: int, names: Iterable[str] | None, *, include_loopback: bool = False
) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    found = {
        network(f"{each.address}/{each.prefixlen}")
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

_NAME = re.compile(r"(?=.{1,64}\Z)[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?")


def get_hostname() -> str:
    """Return the host name of this machine.

    CLI Example::

        saltlite '*' network.get_hostname
    """
    return socket.gethostname()


def get_fqdn() -> str:
    """Return the fully qualified name of this machine, as the resolver knows it.

    CLI Example::

        saltlite '*' network.get_fqdn
    """
    return socket.getfqdn()


def mod_hostname(hostname: str, test: bool = False) -> bool:
    """Change the host name of this machine: at runtime, in /etc/hostname, and in /etc/hosts.

    On Red Hat systems also in /etc/sysconfig/network if it has the name.

    CLI Example::

        saltlite '*' network.mod_hostname master.example.org
    """
    name = str(hostname)
    if not _NAME.fullmatch(name) or ".." in name:
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
