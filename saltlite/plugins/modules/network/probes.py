"""Asking other machines: whether they answer, over which way, and under which name."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _programs

if TYPE_CHECKING:
    from saltlite.loader.hints import __context__

TRACEROUTE_TIMEOUT_S = 120
PROBE_BYTES_MAX = 255
CONNECT_TIMEOUT_S = 5.0
PORTS = 65536

_HOP = re.compile(r"\s*(\d+)\s+(\S.*)")
_DELAY = re.compile(r"([\d.]+) ms")
_MAC = re.compile(r"[0-9a-f]{12}|[0-9a-f]{2}([:.-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4}", re.IGNORECASE)


class _Connecting(TypedDict, total=False):
    proto: str
    timeout: float
    family: str


def ping(host: str, timeout: int | bool = False, return_boolean: bool = False) -> str | bool:
    """
    Ping a machine four times: what the program says, or with ``return_boolean`` whether it answered.

    ``timeout`` is how many seconds an answer may take.

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
    """
    The machines on the way to another: a list of ``{count, hostname, ip, ms1, ms2, ms3}``.

    One that does not answer has the name ``*`` and nothing else. After two minutes the list is empty.

    CLI Example::

        saltlite '*' network.traceroute archlinux.org
    """
    try:
        text = _programs.output(["traceroute", "--", _programs.word(host, "host")], timeout_s=TRACEROUTE_TIMEOUT_S)
    except CommandExecutionError as error:
        if "did not end within" in str(error):
            return []
        raise
    return hops(text)


def hops(text: str) -> list[dict[str, Any]]:
    """What traceroute printed, a dict a line."""
    found: list[dict[str, Any]] = []
    for line in text.splitlines():
        match = None if line.startswith("traceroute") else _HOP.fullmatch(line)
        if match is None:
            continue
        who = re.search(r"(\S+) \(([0-9A-Fa-f.:]+)\)", match[2])
        row: dict[str, Any] = {"count": int(match[1]), "hostname": who[1] if who else "*"}
        if who:
            row["ip"] = who[2]
            row |= {f"ms{place}": float(delay) for place, delay in enumerate(_DELAY.findall(match[2])[:3], 1)}
        found.append(row)
    return found


def dig(host: str) -> str:
    """
    What the DNS knows of a name, as dig prints it.

    CLI Example::

        saltlite '*' network.dig archlinux.org
    """
    name = _programs.word(host, "name in the DNS")
    if name.startswith(("@", "+")):
        raise SaltInvocationError(f"{host!r} cannot be a name in the DNS.")
    return _programs.output(["dig", name]).strip()


def connect(host: str, port: int | None = None, **kwargs: Unpack[_Connecting]) -> dict[str, Any]:
    """
    Whether a port of a machine takes a connection: ``{"result": bool, "comment": sentence}``.

    Keyword arguments: ``proto`` (``tcp``, or ``udp``, where something has to come back), ``timeout`` in seconds (5),
    ``family`` (``ipv4`` or ``ipv6``).

    CLI Example::

        saltlite '*' network.connect archlinux.org 80
        saltlite '*' network.connect archlinux.org 80 timeout=3
        saltlite '*' network.connect google-public-dns-a.google.com port=53 proto=udp timeout=3
    """
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
    """
    Wake the machine with this hardware address up: a magic packet for it goes to ``bcast``, the broadcast address of
    its network. True when it was sent; nobody answers one.

    CLI Example::

        saltlite '*' network.wol 08-00-27-13-69-77
        saltlite '*' network.wol 080027136977 255.255.255.255 7
        saltlite '*' network.wol 08:00:27:13:69:77 192.0.2.255 7
    """
    if not _MAC.fullmatch(str(mac)):
        raise SaltInvocationError(f"{mac!r} is no hardware address: write it as 08:00:27:13:69:77.")
    if not 0 < destport < PORTS:
        raise SaltInvocationError(f"{destport} is no port.")
    address = bytes.fromhex(re.sub(r"[:.-]", "", str(mac)))
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sock.sendto(b"\xff" * 6 + address * 16, (str(ipaddress.IPv4Address(bcast)), destport))
    except ipaddress.AddressValueError:
        raise SaltInvocationError(f"{bcast!r} is no IPv4 address.") from None
    except OSError as error:
        raise CommandExecutionError(f"The packet was not sent to {bcast}: {error.strerror}.") from error
    return True


def _seconds(value: Any) -> str:
    if not re.fullmatch(r"[0-9]{1,6}", str(value)):
        raise SaltInvocationError(f"{value!r} is no number of seconds.")
    return str(value)
