"""Interfaces, addresses, routes and connections of this machine, and asking others.

Interfaces and routes come from the kernel itself, connections from `/proc/net`; programs run only to ask other
machines (`ping`, `traceroute`, `dig`).

What belongs here: the functions of Salt's module, a file a subject. What does not: the messages of the kernel.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       ping, traceroute and dig for the functions of these names
:platform:      Linux
"""

from __future__ import annotations

__parts__ = {
    "calculations": ["calc_net", "convert_cidr", "ip_in_subnet", "iphexval", "is_loopback", "is_private", "reverse_ip"],
    "interfaces": [
        "get_bufsize",
        "hw_addr",
        "hwaddr",
        "ifacestartswith",
        "in_subnet",
        "interface",
        "interface_ip",
        "interfaces",
        "ip_addrs",
        "ip_addrs6",
        "ip_networks",
        "ip_networks6",
        "ipaddrs",
        "ipaddrs6",
        "subnets",
        "subnets6",
    ],
    "naming": ["get_fqdn", "get_hostname", "mod_hostname"],
    "probes": ["connect", "dig", "ping", "traceroute", "wol"],
    "routing": ["arp", "default_route", "get_route", "ip_neighs", "ip_neighs6", "routes"],
    "sockets": ["active_tcp", "netstat"],
}
