"""Wake-on-LAN packets, for the module `network` and the runner of this name."""

from __future__ import annotations

import ipaddress
import re
import socket

from saltlite.errors import CommandExecutionError, SaltInvocationError

_PORTS = 65536
_MAC = r"[0-9a-f]{12}|[0-9a-f]{2}([:.-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4}"


def send(mac: str, bcast: str, destport: int) -> None:
    """Send a packet to the broadcast address of a network. Raises SaltInvocationError, CommandExecutionError."""
    if not re.fullmatch(_MAC, str(mac), re.IGNORECASE):
        raise SaltInvocationError(f"{mac!r} is not a hardware address: write it as 08:00:27:13:69:77.")
    if not 0 < destport < _PORTS:
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
