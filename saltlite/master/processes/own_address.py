"""The address at which minions reach a master that shares its store with others."""

from __future__ import annotations

import socket

from saltlite.config.master import MasterConfig
from saltlite.master.processes.identity import name_of
from saltlite.model.masters import format_address, parse_address


def address_of(config: MasterConfig) -> str:
    """`host:port`, as it is announced to the other masters and to all minions."""
    return format_address(*_parts(config))


def address_problem(config: MasterConfig) -> str:
    """A sentence if the address does not resolve on this machine, so that minions can hardly reach it; otherwise "".
    Blocks while name servers are asked."""
    host, port = _parts(config)
    try:
        # As bytes: text would need a codec, whose file the master's user may not be allowed to read.
        socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no name of a host"
        return (
            f"minions are told to reach this master at {address_of(config)}, and {host} does not resolve on this "
            f"machine ({why}): set `master_address` to a name or an address that they reach"
        )
    return ""


def _parts(config: MasterConfig) -> tuple[str, int]:
    return parse_address(config.master_address or name_of(config), config.port)
