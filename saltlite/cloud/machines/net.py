"""The cable between this host and a machine that is made of namespaces: a veth pair with a network of four addresses.

The host's end is named after its network, and the kernel has each name only once: whoever makes the pair has taken the
network, whatever other programs do at the same time. The pair belongs to the machine's processes and goes with them.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from saltlite.errors import MachineError

PREFIX = 30
TRIES_MAX = 4096
"""Networks that are tried before all count as taken."""
GONE_S = 5.0


@dataclass(frozen=True, slots=True)
class Cable:
    """One network of four addresses: the host's end has the first one, the machine's the second one."""

    network: ipaddress.IPv4Network

    @property
    def interface(self) -> str:
        """The host's end."""
        return f"slm{int(self.network.network_address):08x}"

    @property
    def gateway(self) -> str:
        """The host's address."""
        return str(self.network[1])

    @property
    def address(self) -> str:
        """The machine's address."""
        return str(self.network[2])


def cable_of(network: str) -> Cable:
    """The cable of `a.b.c.d/30`, as it was recorded."""
    return Cable(ipaddress.IPv4Network(network))


def room(text: str) -> ipaddress.IPv4Network:
    """The range that machines get their networks from, as in "10.231.0.0/16". Raises MachineError for none."""
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError as error:
        raise MachineError(f"{text!r} is no range of addresses, such as 10.231.0.0/16: {error}") from error
    if network.prefixlen > PREFIX:
        raise MachineError(f"{text} is too small: a machine needs a /{PREFIX}")
    return network


def connect(pid: int, label: str, cables: Iterator[Cable]) -> Cable:
    """Connect the machine whose process 1 is `pid` with the first of the cables that is free; which one.

    `label` is written on the host's end. Raises MachineError when none is free, or when the kernel refuses.
    """
    for cable in cables:
        if _exists(cable):
            continue
        said = _ip(
            f"link add {cable.interface} type veth peer name eth0 netns {pid}",
            f"link set {cable.interface} alias {label}",
        )
        if not said:
            _take_no_routes(cable)
            said = _ip(
                f"addr add {cable.gateway}/{PREFIX} dev {cable.interface}",
                f"link set {cable.interface} up",
            )
        if not said:
            return cable
        if "File exists" not in said:
            raise MachineError(f"the machine cannot be connected: {said}")
    raise MachineError("every network of the range is taken: set `network` of the provider to a larger one")


def free_cables(room: ipaddress.IPv4Network, first: str, taken: Collection[str]) -> Iterator[Cable]:
    """What to try, in order: `first` if it is not "", then all of the range but those that are taken."""
    if first:
        yield cable_of(first)
    others = (network for network in room.subnets(new_prefix=PREFIX) if str(network) not in taken)
    for _, network in zip(range(TRIES_MAX), others, strict=False):
        yield Cable(network)


def disconnect(network: str, label: str) -> None:
    """Remove the host's end, if it has this label, and with it the machine's; none is no error.

    Raises MachineError when it does not go.
    """
    cable = cable_of(network)
    if _label(cable) != label:
        return
    said = _ip(f"link del {cable.interface}")
    deadline = time.monotonic() + GONE_S
    while _exists(cable) and _label(cable) == label:
        if time.monotonic() > deadline:
            raise MachineError(f"the interface {cable.interface} cannot be removed: {said or 'it stays'}")
        time.sleep(0.005)


def _take_no_routes(cable: Cable) -> None:
    """Have this host speak no IPv6 with the machine, by whose router advertisements it would get routes and addresses.

    Must come before the interface is up. Contract: disable_ipv6 in the kernel's documentation of ip-sysctl.
    Raises MachineError.
    """
    path = f"/proc/sys/net/ipv6/conf/{cable.interface}/disable_ipv6"
    try:
        with open(path, "w", encoding="ascii") as setting:
            setting.write("1")
    except FileNotFoundError:
        pass  # This host speaks none anyway.
    except OSError as error:
        raise MachineError(f"{path} cannot be set, and a machine could give this host routes: {error}") from error


def _exists(cable: Cable) -> bool:
    return os.path.exists(f"/sys/class/net/{cable.interface}")


def _label(cable: Cable) -> str:
    try:
        with open(f"/sys/class/net/{cable.interface}/ifalias", encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""


def _ip(*lines: str) -> str:
    """Run lines of ip(8) up to the first that fails; what it said then, "" when all were taken."""
    try:
        done = subprocess.run(
            ["ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True, capture_output=True, check=False
        )
    except FileNotFoundError as error:
        raise MachineError("this host has no `ip`: install iproute2") from error
    return "" if done.returncode == 0 else " ".join(done.stderr.split())
