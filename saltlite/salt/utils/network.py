"""`salt.utils.network`: names, addresses and networks. Interfaces are those that the module `network` shows."""

from __future__ import annotations

import fnmatch
import ipaddress
import logging
import re
import secrets
import socket
import string
from collections.abc import Iterable, Mapping
from typing import Any

from saltlite.salt.modules import function_of
from saltlite.salt.utils.args import split_input
from saltlite.salt.utils.decorators.jinja import jinja_filter
from saltlite.salt.utils.stringutils import to_bytes

log = logging.getLogger(__name__)

_NAME_CHARACTERS = frozenset(f"{string.ascii_letters}{string.digits}.-_")
_NAME_MOST = 255
_PORTS = range(1, 65536)


def _address(text: Any) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def sanitize_host(host: str) -> str:
    """The name of a host without characters that names do not have; an address as it is."""
    if _address(host) is not None:
        return host
    return "".join(one for one in host[:_NAME_MOST] if one in _NAME_CHARACTERS)


def isportopen(host: str, port: Any) -> Any:
    """0 if something listens on a TCP port, the number of the error if not, False for no port."""
    if int(port) not in _PORTS:
        return False
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as link:
        return link.connect_ex((sanitize_host(host), int(port)))


def host_to_ips(host: str) -> list[str] | None:
    """The addresses of a host, or None."""
    try:
        found = socket.getaddrinfo(host, 0, socket.AF_UNSPEC, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return [str(one[4][0]) for one in found] or None


def get_fqhostname() -> str | None:
    """The full name of this host."""
    name = socket.getfqdn()
    try:
        found = socket.getaddrinfo(
            socket.gethostname(), 0, socket.AF_UNSPEC, socket.SOCK_STREAM, socket.SOL_TCP, socket.AI_CANONNAME
        )
    except socket.gaierror:
        found = []
    return next((one[3] for one in reversed(found) if one[3]), name) or None


def generate_minion_id() -> str:
    """A name for this host: its full name, or else its short one."""
    name = get_fqhostname() or ""
    return name if name and not name.startswith("localhost") else socket.gethostname() or "localhost"


def ip_to_host(ip: str) -> str | None:
    """The name of an address, or None."""
    try:
        return socket.gethostbyaddr(ip)[0]
    except (OSError, UnicodeError):
        return None


def is_reachable_host(entity_name: str) -> bool:
    """Whether the name of a host has an address."""
    try:
        return bool(socket.getaddrinfo(entity_name, 0))
    except (socket.gaierror, UnicodeError):
        return False


def is_ip(ip_addr: Any) -> bool:
    return _address(ip_addr) is not None


def is_ipv4(ip_addr: Any) -> bool:
    return isinstance(_address(ip_addr), ipaddress.IPv4Address)


def is_ipv6(ip_addr: Any) -> bool:
    return isinstance(_address(ip_addr), ipaddress.IPv6Address)


def is_loopback(ip_addr: Any) -> bool:
    found = _address(ip_addr)
    return found is not None and found.is_loopback


def is_subnet(cidr: Any) -> bool:
    return is_ipv4_subnet(cidr) or is_ipv6_subnet(cidr)


def is_ipv4_subnet(cidr: Any) -> bool:
    """Whether it is a network of IPv4 with its prefix or mask, such as 10.0.0.0/8."""
    return _is_network(cidr, ipaddress.IPv4Network)


def is_ipv6_subnet(cidr: Any) -> bool:
    """Whether it is a network of IPv6 with its prefix."""
    return _is_network(cidr, ipaddress.IPv6Network)


def _is_network(cidr: Any, kind: Any) -> bool:
    try:
        return "/" in cidr and bool(kind(cidr))
    except (ValueError, TypeError):
        return False


def natural_ipv4_netmask(ip_addr: str, fmt: str = "prefixlen") -> str:
    """The prefix, or with `fmt="netmask"` the mask, of the class of an address."""
    first = int(ip_addr.split(".", maxsplit=1)[0])
    bits = 24 if first >= 0b11000000 else 16 if first >= 0b10000000 else 8
    return cidr_to_ipv4_netmask(bits) if fmt == "netmask" else f"/{bits}"


def rpad_ipv4_network(ip_addr: str) -> str:
    """The start of an address with zeros for what is missing: `127.0` -> `127.0.0.0`."""
    return ".".join([*ip_addr.split("."), *"0000"][:4])


def cidr_to_ipv4_netmask(cidr_bits: Any) -> str:
    """The mask of 1 to 32 bits; "" for anything else."""
    try:
        bits = int(cidr_bits)
    except ValueError:
        return ""
    return str(ipaddress.IPv4Network((0, bits)).netmask) if bits in range(1, 33) else ""


def get_net_start(ipaddr: str, netmask: Any) -> str:
    """The address of the network."""
    return str(ipaddress.ip_network(f"{ipaddr}/{netmask}", strict=False).network_address)


def get_net_size(mask: str) -> int:
    """The number of bits of a mask."""
    return len("".join(f"{int(octet):08b}" for octet in mask.split(".")).rstrip("0"))


def calc_net(ipaddr: str, netmask: Any = None) -> str:
    """The network of an address, which has its prefix or the mask given."""
    return str(ipaddress.ip_network(ipaddr if netmask is None else f"{ipaddr}/{netmask}", strict=False))


def _shown(name: str, *arguments: Any) -> Any:
    function = function_of("network", name)
    assert function is not None  # noqa: S101 - it ships
    return function(*arguments)


def interfaces() -> dict[str, Any]:
    """Name -> addresses, hardware address and state of each interface."""
    found: dict[str, Any] = _shown("interfaces")
    return found


linux_interfaces = interfaces


def hw_addr(iface: str) -> Any:
    """The hardware address of an interface, or a sentence."""
    return _shown("hw_addr", iface)


def interface(iface: str) -> Any:
    """The addresses of an interface, or a sentence."""
    return _shown("interface", iface)


def interface_ip(iface: str) -> Any:
    """The first address of an interface, or a sentence."""
    return _shown("interface_ip", iface)


def subnets(interfaces: Any = None) -> list[str]:
    """The networks of IPv4 that this host is in."""
    found: list[str] = _shown("subnets", interfaces)
    return found


def subnets6() -> list[str]:
    """The networks of IPv6 that this host is in."""
    found: list[str] = _shown("subnets6")
    return found


def in_subnet(cidr: str, addr: Any = None) -> bool:
    """Whether one of the addresses, by default this host's, is in the network; False for no network."""
    try:
        network = ipaddress.ip_network(cidr)
    except ValueError:
        log.error("Invalid CIDR '%s'", cidr)
        return False
    if addr is None:
        addr = ip_addrs() + ip_addrs6()
    return any(ipaddress.ip_address(one) in network for one in (addr if isinstance(addr, list | tuple) else (addr,)))


def ip_addrs(interface: Any = None, include_loopback: bool = False, interface_data: Any = None) -> list[str]:
    """The addresses of IPv4 of this host or of interfaces by globs, sorted."""
    return _addresses("inet", interface, include_loopback, interface_data)


def ip_addrs6(interface: Any = None, include_loopback: bool = False, interface_data: Any = None) -> list[str]:
    """The addresses of IPv6 of this host or of interfaces by globs, sorted."""
    return _addresses("inet6", interface, include_loopback, interface_data)


def _addresses(kind: str, wanted: Any, include_loopback: bool, data: Any) -> list[str]:
    known = data if isinstance(data, dict) else interfaces()
    patterns = ["*"] if wanted is None else split_input(wanted)
    rows = [row for name, row in known.items() if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    found = {ipaddress.ip_address(one["address"]) for row in rows for one in _of_kind(row, kind)}
    return [str(one) for one in sorted(found, key=int) if include_loopback or not one.is_loopback]


def _of_kind(row: Mapping[str, Any], kind: str) -> list[Any]:
    return [*row.get(kind, []), *(one for one in row.get("secondary", []) if one.get("type") == kind)]


def ip_networks(
    interface: Any = None, include_loopback: bool = False, verbose: bool = False, interface_data: Any = None
) -> Any:
    """The networks of IPv4 of this host or of interfaces by globs; with `verbose` a dict with their facts."""
    return _networks("inet", (interface, include_loopback, interface_data), verbose)


def ip_networks6(
    interface: Any = None, include_loopback: bool = False, verbose: bool = False, interface_data: Any = None
) -> Any:
    """The networks of IPv6 of this host or of interfaces by globs; with `verbose` a dict with their facts."""
    return _networks("inet6", (interface, include_loopback, interface_data), verbose)


def _networks(kind: str, wanted: tuple[Any, bool, Any], verbose: bool) -> Any:
    interface, include_loopback, data = wanted
    known = data if isinstance(data, dict) else interfaces()
    allowed = set(_addresses(kind, interface, include_loopback, known))
    rows = [one for row in known.values() for one in _of_kind(row, kind) if one["address"] in allowed]
    found = {
        ipaddress.ip_network(f"{row['address']}/{row.get('netmask') or row.get('prefixlen')}", strict=False)
        for row in rows
    }
    ordered = sorted(found, key=lambda one: (int(one.network_address), one.prefixlen))
    if not verbose:
        return [str(one) for one in ordered]
    return {
        str(one): {
            "prefixlen": one.prefixlen,
            "netmask": str(one.netmask),
            "num_addresses": one.num_addresses,
            "address": str(one.network_address),
        }
        for one in ordered
    }


def hex2ip(hex_ip: str, invert: bool = False) -> str:
    """The address that /proc/net writes in hexadecimal digits; with `invert` in the order of the processor."""
    try:
        raw = bytes.fromhex(hex_ip)
    except ValueError:
        return hex_ip
    if invert:
        raw = b"".join(raw[place : place + 4][::-1] for place in range(0, len(raw), 4))
    if len(raw) == 16:
        address = ipaddress.IPv6Address(raw)
        return str(address.ipv4_mapped or address)
    return ".".join(map(str, raw))


def mac2eui64(mac: str, prefix: str | None = None) -> str | None:
    """The identifier of EUI-64 of a hardware address, or its address in a network; None for no network."""
    digits = re.sub("[.:-]", "", mac).lower()
    number = int(f"{digits[:6]}fffe{digits[6:]}", 16) | 0x02 << 56
    if prefix is None:
        return ":".join(re.findall(".{4}", f"{number:016x}"))
    try:
        network = ipaddress.ip_network(prefix, strict=False)
        return f"{network[number]}/{network.prefixlen}"
    except (ValueError, IndexError):
        return None


def active_tcp() -> dict[int, Any]:
    """The established TCP connections of this host."""
    found: dict[int, Any] = _shown("active_tcp")
    return found


def local_port_tcp(port: Any) -> set[str]:
    """The addresses that are connected to a TCP port of this host."""
    return _remotes(port, "local_port")


def remote_port_tcp(port: Any) -> set[str]:
    """The addresses whose TCP port this host is connected to."""
    return _remotes(port, "remote_port")


def _remotes(port: Any, end: str) -> set[str]:
    return {row["remote_addr"] for row in active_tcp().values() if int(row[end]) == int(port)}


@jinja_filter("gen_mac")
def gen_mac(prefix: str = "AC:DE:48") -> str:
    """A random hardware address with this beginning of three bytes."""
    return ":".join([prefix, *(f"{secrets.randbelow(256):02X}" for _ in range(3))])


@jinja_filter("mac_str_to_bytes")
def mac_str_to_bytes(mac_str: str) -> bytes:
    """The six bytes of a hardware address. Raises ValueError."""
    if len(mac_str) not in (12, 17):
        raise ValueError("Invalid MAC address")
    digits = mac_str if len(mac_str) == 12 else mac_str.replace(mac_str[2], "")
    return bytes.fromhex(digits)


def refresh_dns() -> None:
    """Nothing is to be done: the C library reads /etc/resolv.conf anew when it changes."""


def parse_host_port(host_port: str) -> tuple[str, int | None]:
    """(host, port) of `host:port` or `[address]:port`; None for no port. Raises ValueError."""
    text = host_port.strip()
    found = re.fullmatch(r"\[(?P<inside>[^]]+)\](?::(?P<port>\d+))?", text)
    if found:
        if not is_ipv6(found["inside"]):
            raise ValueError(f"bad hostname: {text!r}")
        return found["inside"], int(found["port"]) if found["port"] else None
    if is_ipv6(text):
        return text, None
    host, _, port = text.partition(":")
    if port and not port.isdigit():
        raise ValueError(f"host_port {host_port!r} port {port!r} is not a number")
    if _address(host) is None and sanitize_host(host) != host:
        raise ValueError(f"bad hostname: {host!r}")
    return host, int(port) if port else None


def filter_by_networks(values: Any, networks: Any) -> Any:
    """The addresses, in a list or a dict of lists, that are in one of the networks; all of them for None."""
    if networks is None:
        return values
    if isinstance(values, Mapping):
        return {name: filter_by_networks(inner, networks) for name, inner in values.items()}
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise ValueError(f"Do not know how to filter a {type(values)}")
    known = [ipaddress.ip_network(one) for one in ([networks] if isinstance(networks, str) else networks)]
    return [one for one in values if any(ipaddress.ip_address(one) in network for network in known)]


@jinja_filter("ipwrap")
def ipwrap(data: Any) -> Any:
    """The data, a text or a list of texts, with addresses of IPv6 in brackets."""
    return list(map(ip_bracket, data)) if isinstance(data, list | tuple | set) else ip_bracket(data)


def ip_bracket(addr: Any, strip: bool = False) -> str:
    """An address of IPv6 in brackets; with `strip` without."""
    text = to_bytes(addr).decode() if isinstance(addr, str | bytes) else str(addr)
    bare = text.removeprefix("[").removesuffix("]")
    return f"[{bare}]" if is_ipv6(bare) and not strip else bare
