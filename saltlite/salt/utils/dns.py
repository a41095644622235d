"""`salt.utils.dns`: the resolver's configuration, and the addresses of names."""

from __future__ import annotations

import ipaddress
import logging
import socket
from itertools import takewhile
from typing import Any

from saltlite.salt.utils.files import fopen
from saltlite.salt.utils.network import natural_ipv4_netmask

log = logging.getLogger(__name__)


def parse_resolv(src: str = "/etc/resolv.conf") -> dict[str, Any]:
    """The name servers, domains and options of a resolv.conf; empty if it cannot be read."""
    try:
        with fopen(src) as file:
            lines = [line.split() for line in file]
    except OSError:
        return {}
    servers: list[str] = []
    sortlist: list[str] = []
    options: list[str] = []
    domain, search = "", []
    for words in lines:
        values = list(takewhile(lambda word: word[0] not in "#;", words[1:]))
        match words[0].lower() if values else "":
            case "nameserver":
                servers += [one for one in _valid(src, values[:1]) if one not in servers]
            case "domain":
                domain = values[0]
            case "search":
                search = values
            case "sortlist":
                sortlist += [one for one in _networks(src, values) if one not in sortlist]
            case "options":
                options += [values[0]] if values[0] not in options else []
    return {
        "nameservers": servers,
        "ip4_nameservers": [one for one in servers if "." in one and ":" not in one],
        "ip6_nameservers": [one for one in servers if ":" in one],
        "sortlist": sortlist,
        "domain": domain,
        "search": search,
        "options": options,
    }


def _valid(src: str, words: list[str]) -> list[str]:
    found = []
    for word in words:
        try:
            found.append(str(ipaddress.ip_address(word)))
        except ValueError as error:
            log.error("%s: %s", src, error)
    return found


def _networks(src: str, words: list[str]) -> list[str]:
    found = []
    for word in words:
        try:
            network = ipaddress.ip_network(word)
            if "/" not in word and network.version == 4:
                network = ipaddress.ip_network(f"{word}{natural_ipv4_netmask(word)}", strict=False)
            found.append(network.with_netmask)
        except ValueError as error:
            log.error("%s: %s", src, error)
    return found


def host(name: str, ip4: bool = True, ip6: bool = True, **kwargs: Any) -> dict[str, list[str]]:
    """The addresses of a name, as `ip4` and `ip6`; a kind without any is omitted."""
    kinds = {"ip6": socket.AF_INET6} if ip6 else {}
    kinds |= {"ip4": socket.AF_INET} if ip4 else {}
    found = {kind: _addresses(name, family) for kind, family in kinds.items()}
    return {kind: addresses for kind, addresses in found.items() if addresses}


def _addresses(name: str, family: socket.AddressFamily) -> list[str]:
    try:
        found = socket.getaddrinfo(name, None, family, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(one[4][0]) for one in found))
