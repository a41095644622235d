"""`salt.utils.validate.net`: addresses."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Any


def mac(addr: str) -> bool:
    """Whether it is a hardware address: six numbers with one kind of `-`, `:` or `.` between them."""
    return re.match(r"[0-9A-F]{1,2}([-:.])(?:[0-9A-F]{1,2}\1){4}[0-9A-F]{1,2}$", addr, re.IGNORECASE) is not None


def ipv4_addr(addr: Any) -> bool:
    """Whether it is an address of IPv4, which the length of its prefix may follow."""
    return _is_address(addr, socket.AF_INET, 32)


def ipv6_addr(addr: Any) -> bool:
    """Whether it is an address of IPv6, which the length of its prefix may follow."""
    return _is_address(addr, socket.AF_INET6, 128)


def ip_addr(addr: Any) -> bool:
    return ipv4_addr(addr) or ipv6_addr(addr)


def _is_address(addr: Any, family: socket.AddressFamily, bits: int) -> bool:
    if not isinstance(addr, str):
        return False
    address, slash, prefix = addr.rpartition("/") if "/" in addr else (addr, "", "")
    try:
        socket.inet_pton(family, address)
        return not slash or 1 <= int(prefix) <= bits
    except (OSError, ValueError):
        return False


def netmask(mask: Any) -> bool:
    """Whether it is a mask of IPv4, such as 255.255.255.0."""
    if not isinstance(mask, str):
        return False
    try:
        ipaddress.IPv4Network(f"0.0.0.0/{mask}")
    except ValueError:
        return False
    return True
