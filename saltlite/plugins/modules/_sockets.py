"""The kernel's tables of sockets, as `/proc/net` and `/proc/PID/net` have them.

What belongs here: reading a table, each row as plain data. Whose a socket is is told by its inode.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from typing import NamedTuple

from saltlite.plugins.modules import _machinefiles

_STATES = (
    "ESTABLISHED",
    "SYN_SENT",
    "SYN_RECV",
    "FIN_WAIT1",
    "FIN_WAIT2",
    "TIME_WAIT",
    "CLOSE",
    "CLOSE_WAIT",
    "LAST_ACK",
    "LISTEN",
    "CLOSING",
    "NEW_SYN_RECV",
)
"""The kernel's number for the state of a connection, from 1 -> its word."""


class Socket(NamedTuple):
    """One line of a table; addresses are an address and a port."""

    local: tuple[str, int]
    remote: tuple[str, int]
    state: str
    receive_queue: int
    send_queue: int
    user: str
    inode: str


def listed(proto: str, folder: str = "/proc/net") -> Iterator[Socket]:
    """The sockets of `tcp`, `tcp6`, `udp` or `udp6`; `folder` is another for those of a process' own network."""
    for line in _machinefiles.read_if_there(f"{folder}/{proto}").splitlines()[1:]:
        columns = line.split()
        if len(columns) < 10:
            continue
        number = int(columns[3], 16)
        sending, _, receiving = columns[4].partition(":")
        yield Socket(
            local=_decoded(columns[1]),
            remote=_decoded(columns[2]),
            state=_STATES[number - 1] if 0 < number <= len(_STATES) else str(number),
            receive_queue=int(receiving, 16),
            send_queue=int(sending, 16),
            user=columns[7],
            inode=columns[9],
        )


def _decoded(column: str) -> tuple[str, int]:
    """`0100007F:1F90` is 127.0.0.1 and 8080: words of 32 bits in the order of bytes that this processor has."""
    digits, _, port = column.partition(":")
    words = [int(digits[place : place + 8], 16) for place in range(0, len(digits), 8)]
    address = ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))
    # An IPv4 connection of a socket that takes both.
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address), int(port, 16)
