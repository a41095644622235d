"""The addresses of masters, as configurations write them and as Salt's options name them. Importing this is cheap."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from saltlite.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PORT_MAX = 65535
DEFAULT_PORT = 4515

_ADDRESS = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?))"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)


def parse_address(text: str, default_port: int) -> tuple[str, int]:
    """The host and port in `host`, `host:port`, `[ipv6]` or `[ipv6]:port`. Raises UsageError."""
    match = _ADDRESS.fullmatch(text)
    if match and 0 < (port := int(match["port"] or default_port)) <= PORT_MAX:
        return match["six"] or match["host"], port
    raise UsageError(
        f"{text[:80]!r} is not the address of a master: write host, host:port or [ipv6]:port, "
        f"with a port from 1 to {PORT_MAX}"
    )


def format_address(host: str, port: int) -> str:
    """`host:port`, or `[ipv6]:port`, as `parse_address` reads it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def salts_masters(opts: Mapping[str, Any]) -> dict[str, Any]:
    """Salt's options for the masters of a minion: `master`, the host of the first one as text, `master_list`,
    `master_port` and `master_uri`; empty without a master."""
    given = opts.get("master") or ()
    port = int(opts.get("port") or DEFAULT_PORT)
    found = [parse_address(str(one), port) for one in ([given] if isinstance(given, str) else given)]
    if not found:
        return {}
    host, own_port = found[0]
    return {
        "master": host,
        "master_list": [host for host, _port in found],
        "master_port": own_port,
        "master_uri": f"tcp://{format_address(host, own_port)}",
    }
