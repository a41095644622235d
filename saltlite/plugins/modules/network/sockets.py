"""Connections, as `/proc/net` lists them."""

from __future__ import annotations

import os
from typing import Any

from saltlite.plugins.modules import _machinefiles, _processes, _sockets


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
        for each in _sockets.listed(proto):
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
    established = [each for proto in ("tcp", "tcp6") for each in _sockets.listed(proto) if each.state == "ESTABLISHED"]
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
