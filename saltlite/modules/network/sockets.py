"""Connections, as `/proc/net` lists them."""

from __future__ import annotations

import ipaddress
import os
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from saltlite.modules import _machinefiles, _processes

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


class _Socket(NamedTuple):
    local: tuple[str, int]
    remote: tuple[str, int]
    state: str
    receive_queue: int
    send_queue: int
    user: str
    inode: str


def netstat() -> list[dict[str, str]]:
    """
    All sockets of TCP and UDP.

    A list of ``{proto, recv-q, send-q, local-address, remote-address, state, user, inode, program}``; UDP has no state,
    ``user`` is a number, ``program`` PID/NAME or a hyphen where this minion's user may not see it.

    CLI Example::

        saltlite '*' network.netstat
    """
    owners = _owners()
    found = []
    for proto in ("tcp", "tcp6", "udp", "udp6"):
        for each in _sockets(proto):
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
    """
    The established connections of TCP: ``{number: {local_addr, local_port, remote_addr, remote_port}}``.

    CLI Example::

        saltlite '*' network.active_tcp
    """
    established = [each for proto in ("tcp", "tcp6") for each in _sockets(proto) if each.state == "ESTABLISHED"]
    return {
        number: {
            "local_addr": each.local[0],
            "local_port": each.local[1],
            "remote_addr": each.remote[0],
            "remote_port": each.remote[1],
        }
        for number, each in enumerate(established)
    }


def _sockets(proto: str) -> Iterator[_Socket]:
    for line in _machinefiles.read_if_there(f"/proc/net/{proto}").splitlines()[1:]:
        columns = line.split()
        if len(columns) < 10:
            continue
        number = int(columns[3], 16)
        sending, _, receiving = columns[4].partition(":")
        yield _Socket(
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


def _end(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1] or '*'}"


def _owners() -> dict[str, str]:
    """Inode of a socket -> PID/NAME of the first process that has it open."""
    found: dict[str, str] = {}
    for process in _processes.processes():
        folder = f"/proc/{process.pid}/fd"
        for name in _machinefiles.names_in(folder):
            try:
                link = os.readlink(_machinefiles.place(f"{folder}/{name}"))
            except OSError:
                continue
            if link.startswith("socket:["):
                found.setdefault(link[8:-1], f"{process.pid}/{process.name}")
    return found
