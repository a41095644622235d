"""Interfaces, addresses, routes and connections of this machine, and probes of other machines.

Interfaces and routes come from the kernel, connections from `/proc/net`. Programs run only to contact other machines
(`ping`, `traceroute`, `dig`).

:maintainer:    The saltlite authors
:maturity:      new
:depends:       ping, traceroute and dig for the functions of these names
:platform:      Linux
"""

from __future__ import annotations

from .connections import (
    active_tcp,
    arp,
    connect,
    default_route,
    dig,
    get_route,
    ip_neighs,
    ip_neighs6,
    netstat,
    ping,
    routes,
    traceroute,
    wol,
)
from .interfaces import (
    calc_net,
    convert_cidr,
    get_bufsize,
    get_fqdn,
    get_hostname,
    hw_addr,
    hwaddr,
    ifacestartswith,
    in_subnet,
    interface,
    interface_ip,
    interfaces,
    ip_addrs,
    ip_addrs6,
    ip_in_subnet,
    ip_networks,
    ip_networks6,
    ipaddrs,
    ipaddrs6,
    iphexval,
    is_loopback,
    is_private,
    mod_hostname,
    reverse_ip,
    subnets,
    subnets6,
)

__all__ = [
    "active_tcp", "arp", "calc_net", "connect", "convert_cidr", "default_route", "dig", "get_bufsize", "get_fqdn",
    "get_hostname", "get_route", "hw_addr", "hwaddr", "ifacestartswith", "in_subnet", "interface", "interface_ip",
    "interfaces", "ip_addrs", "ip_addrs6", "ip_in_subnet", "ip_neighs", "ip_neighs6", "ip_networks", "ip_networks6",
    "ipaddrs", "ipaddrs6", "iphexval", "is_loopback", "is_private", "mod_hostname", "netstat", "ping", "reverse_ip",
    "routes", "subnets", "subnets6", "traceroute", "wol",
]  # fmt: skip
