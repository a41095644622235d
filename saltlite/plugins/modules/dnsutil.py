"""Hosts files, zone files and DNS lookups.

:maintainer:    The saltlite authors
:maturity:      new
:depends:       dig, for the functions that name a server or ask for other than addresses
:platform:      Linux
"""

from __future__ import annotations

import ipaddress
import re
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from saltlite.errors import CommandExecutionError, SaltInvocationError
from saltlite.plugins.modules import _machinefiles, _programs

if TYPE_CHECKING:
    from saltlite.loader.hints import __salt__


# --- Zone files (RFC 1035) ---

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|;[^\n]*|[()\n]|[ \t\r]+|[^\s;()"]+')
_CLASSES = {"IN", "CH", "HS", "CS"}
_WHOLE_WEEK_S = 604_800
"""Maximum value of a time in an SOA record, as in Salt."""
_SECONDS = {"S": 1, "M": 60, "H": 3600, "D": 86_400, "W": _WHOLE_WEEK_S}
_SOA_FIELDS = 7
_NAMES = {"NS", "CNAME", "PTR", "DNAME"}
"""Types whose value is a name."""


def _parse(text: str) -> dict[str, Any]:
    """Return the map of `dnsutil.parse_zone`. Raises CommandExecutionError for an invalid line."""
    found: dict[str, Any] = {}
    owner = ""
    for number, words in _records(text):
        if words[0].startswith("$"):
            found[words[0][1:].upper()] = words[1] if len(words) > 1 else ""
            continue
        origin = str(found.get("ORIGIN", ""))
        owner = _full(words[0], origin) if words[0] else owner
        rest, ttl, network = words[1:], "", "IN"
        # The optional time to live and class can be in either order.
        while rest and (rest[0].upper() in _CLASSES or re.fullmatch(r"(?i:\d[\dsmhdw]*)", rest[0])):
            if rest[0].upper() in _CLASSES:
                network = rest.pop(0).upper()
            else:
                ttl = rest.pop(0)
        least = {"SOA": _SOA_FIELDS, "MX": 2}.get(rest[0].upper(), 1) if rest else 1
        if not owner or len(rest) <= least:
            raise CommandExecutionError(
                f"Line {number} of the zone file is not a record: {' '.join(words).strip()[:80]!r}."
            )
        _add(found, owner, (rest[0].upper(), ttl, network), rest[1:])
    return found


def _add(found: dict[str, Any], owner: str, kind: tuple[str, str, str], data: list[str]) -> None:
    name, ttl, network = kind
    origin = str(found.get("ORIGIN", owner))
    if name == "SOA":
        times = dict(zip(("REFRESH", "RETRY", "EXPIRE", "MINTTL"), map(_seconds, data[3:7]), strict=True))
        contact = _full(data[1], origin).replace(".", "@", 1)
        found.update(ORIGIN=owner, NETWORK=network, SOURCE=_full(data[0], origin), CONTACT=contact, SERIAL=data[2])
        found.update(times)
    elif name == "NS":
        found.setdefault(name, []).append(_full(data[0], origin))
    elif name == "MX":
        found.setdefault(name, []).append({"priority": data[0], "host": _full(data[1], origin)})
    elif name in {"A", "AAAA"} and ttl:
        found.setdefault(name, {})[owner] = {"TARGET": data[0], "TTL": ttl}
    else:
        found.setdefault(name, {})[owner] = _full(data[0], origin) if name in _NAMES else " ".join(data)


def _records(text: str) -> Iterator[tuple[int, list[str]]]:
    """Iterate over the records: line number and words; the first word is empty if the owner is repeated."""
    words: list[str] = []
    depth, number, begin, place = 0, 1, 1, 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise CommandExecutionError(f"Line {number} of the zone file has a quotation mark without its other one.")
        piece, place = match[0], match.end()
        number += piece.count("\n")
        if piece == "\n" and not depth:
            if any(words):
                yield begin, words
            words, begin = [], number
        elif piece in {"(", ")"}:
            depth = max(0, depth + (1 if piece == "(" else -1))
        elif not piece.startswith(";") and piece.strip():
            words.append(piece)
        elif not words and not piece.strip(" \t\r"):
            words.append("")
    if depth:
        raise CommandExecutionError(f"The parenthesis of line {begin} of the zone file is not closed.")
    if any(words):
        yield begin, words


def _full(name: str, origin: str) -> str:
    if name == "@":
        return origin
    return name if name.endswith(".") or not origin else f"{name}.{origin.lstrip('.')}"


def _seconds(text: str) -> int:
    parts = re.findall(r"(\d+)([smhdw]?)", text, re.IGNORECASE)
    if not parts or "".join(map("".join, parts)) != text:
        raise CommandExecutionError(f"{text[:40]!r} is not a time in a zone file.")
    return min(_WHOLE_WEEK_S, sum(int(figure) * _SECONDS[unit.upper() or "S"] for figure, unit in parts))


DIG_TIMEOUT_S = 30
SPF_NAMES_MAX = 32
"""Maximum domains of one SPF policy, as in mail servers."""
_DIG = ["dig", "+short", "+time=3", "+tries=2"]


def parse_hosts(hostsfile: str = "/etc/hosts", hosts: str | None = None) -> dict[str, list[str]]:
    """Return the names of each address, from a hosts file or its text.

    CLI Example: ``saltlite '*' dnsutil.parse_hosts``
    """
    text = hosts if hosts is not None else _machinefiles.read(hostsfile)
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        if address:
            found.setdefault(address, []).extend(names)
    return found


def hosts_append(
    hostsfile: str = "/etc/hosts", ip_addr: str | None = None, entries: str | None = None, test: bool = False
) -> str:
    """Add names, separated by commas, to an address in a hosts file; existing names are skipped.

    CLI Example: ``saltlite '*' dnsutil.hosts_append /etc/hosts 127.0.0.1 ad1.yuk.co,ad2.yuk.co``
    """
    address, names = str(ip_addr), _names(entries)
    if not check_ip(address):
        raise SaltInvocationError(f"{ip_addr!r} is not an address.")
    text = _machinefiles.read_if_there(hostsfile)
    known = parse_hosts(hosts=text).get(address, [])
    missing = [name for name in names if name not in known]
    if not missing:
        return f"No additional hosts were added to {hostsfile}"
    line = f"{address} {' '.join(missing)}\n"
    if not test:
        _machinefiles.replace(hostsfile, text + ("\n" if text and not text.endswith("\n") else "") + line)
    return f"The following line was added to {hostsfile}:\n{line.strip()}"


def hosts_remove(hostsfile: str = "/etc/hosts", entries: str | None = None, test: bool = False) -> None:
    """Remove names, separated by commas, from a hosts file; lines without names are removed.

    CLI Example: ``saltlite '*' dnsutil.hosts_remove /etc/hosts ad1.yuk.co,ad2.yuk.co``
    """
    gone = set(_names(entries))
    lines = []
    text = _machinefiles.read(hostsfile)
    for line in text.splitlines(keepends=True):
        entry, mark, comment = line.partition("#")
        address, *names = entry.split() or [""]
        if not gone & set(names):
            lines.append(line)
            continue
        kept = [name for name in names if name not in gone]
        if kept:
            behind = f" {mark}{comment}" if mark else "\n"
            lines.append(f"{address} {' '.join(kept)}{behind}")
    if lines != text.splitlines(keepends=True) and not test:
        _machinefiles.replace(hostsfile, "".join(lines))


def check_ip(ip_addr: str) -> bool:
    """Return whether a text is an address, or a network as ADDRESS/LENGTH.

    CLI Example: ``saltlite '*' dnsutil.check_ip 127.0.0.1``
    """
    try:
        ipaddress.ip_interface(str(ip_addr))
    except ValueError:
        return False
    return True


def A(host: str, nameserver: str | None = None) -> list[str] | str:  # noqa: N802 - the type of record
    """Return the IPv4 addresses of a name, or a message if it has none.

    CLI Example: ``saltlite '*' dnsutil.A www.google.com``
    """
    return _addresses(host, nameserver, "A", socket.AF_INET)


def AAAA(host: str, nameserver: str | None = None) -> list[str] | str:  # noqa: N802 - the type of record
    """Return the IPv6 addresses of a name, or a message if it has none.

    CLI Example: ``saltlite '*' dnsutil.AAAA www.google.com``
    """
    return _addresses(host, nameserver, "AAAA", socket.AF_INET6)


def NS(domain: str, resolve: bool = True, nameserver: str | None = None) -> list[str]:  # noqa: N802 - as above
    """Return the name servers of a domain; ``resolve`` returns their addresses.

    CLI Example: ``saltlite '*' dnsutil.NS google.com``
    """
    names = _ask(domain, nameserver, "NS")
    if not resolve:
        return names
    return [address for name in names for address in _ask(name, nameserver, "A")]


def MX(domain: str, resolve: bool = False, nameserver: str | None = None) -> list[list[str]]:  # noqa: N802 - as above
    """Return the mail servers of a domain: a list of ``[preference, name]``; ``resolve`` replaces names by addresses.

    CLI Example: ``saltlite '*' dnsutil.MX google.com``
    """
    rows = [line.split() for line in _ask(domain, nameserver, "MX")]
    if not resolve:
        return rows
    return [[row[0], (_ask(row[1], nameserver, "A") or [row[1]])[0]] for row in rows]


def SPF(domain: str, record: str = "SPF", nameserver: str | None = None) -> list[str]:  # noqa: N802 - as above
    """Return the addresses and networks in the SPF policy of a domain, including referenced domains.

    The type SPF is queried first, then TXT; ``record=TXT`` saves a query.

    CLI Example::

        saltlite '*' dnsutil.SPF google.com
        saltlite '*' dnsutil.SPF google.com record=TXT
    """
    if record not in {"SPF", "TXT"}:
        raise SaltInvocationError(f"{record!r} is neither SPF nor TXT.")
    return _senders(domain, record, nameserver, [])


def serial(zone: str = "", update: bool = False) -> str:
    """Return the serial number of a zone from this minion's grain ``dnsserial_<zone>``, or today's first.

    ``update`` stores the next one: today's first, or the stored one plus one if that is greater.

    CLI Example::

        saltlite ns1 dnsutil.serial example.com
        saltlite ns1 dnsutil.serial example.com update=True
    """
    if not str(zone).isprintable():
        raise SaltInvocationError(f"{zone!r} is not the name of a zone.")
    key = f"dnsserial_{zone}" if zone else "dnsserial"
    first = time.strftime("%Y%m%d01")
    # A colon in the name would address another grain.
    kept = str(__salt__["grains.get"](key, "", delimiter="\n") or "")
    if kept and not re.fullmatch(r"[0-9]{1,10}", kept):
        raise CommandExecutionError(f"The grain {key} is {kept[:40]!r}, and no serial number.")
    if not update:
        return kept or first
    current = str(int(kept) + 1) if kept and int(kept) >= int(first) else first
    __salt__["grains.setval"](key, current)
    return current


def parse_zone(zonefile: str | None = None, zone: str | None = None) -> dict[str, Any]:
    """Parse a zone file, given as path or text.

    ``ORIGIN``, ``TTL``, the fields of the SOA record, ``NS`` as a list, ``MX`` as a list of ``{priority, host}``, and
    for each other type a map from names to values; an address with its own TTL is ``{TARGET, TTL}``. Of several records
    of one type and name the last is returned. Included files are not read.

    CLI Example: ``saltlite ns1 dnsutil.parse_zone /var/lib/named/example.com.zone``
    """
    if zone is None and zonefile is None:
        raise SaltInvocationError("Say which zone file to read, or give its text as `zone`.")
    return _parse(str(zone) if zone is not None else _machinefiles.read(str(zonefile)))


def _senders(domain: str, record: str, nameserver: str | None, asked: list[str]) -> list[str]:
    if domain in asked:
        return []
    asked.append(domain)
    if len(asked) > SPF_NAMES_MAX:
        raise CommandExecutionError(f"The SPF policy of {asked[0]} leads to more than {SPF_NAMES_MAX} names.")
    lines = _ask(domain, nameserver, record)
    if not lines and record == "SPF":
        lines = _ask(domain, nameserver, "TXT")
    # Long texts are split into several pieces.
    texts = ["".join(re.findall(r'"((?:[^"\\]|\\.)*)"', line)).split() for line in lines]
    found: list[str] = []
    for term in next((words[1:] for words in texts if words[:1] == ["v=spf1"]), []):
        match = re.fullmatch(r"[+~]?(ip4:|ip6:|include:|redirect=)(.+)", term)
        if match is None:
            continue
        if match[1] in {"include:", "redirect="}:
            found += _senders(match[2], record, nameserver, asked)
        elif check_ip(match[2]):
            found.append(match[2])
    return found


def _addresses(host: str, nameserver: str | None, kind: str, family: int) -> list[str] | str:
    if nameserver is not None:
        return [line for line in _ask(host, nameserver, kind) if check_ip(line)]
    try:
        found = socket.getaddrinfo(_name(host), None, family, socket.SOCK_RAW)
    except (OSError, UnicodeError):
        return f"Unable to resolve {host}"
    return list(dict.fromkeys(str(row[4][0]) for row in found))


def _ask(name: str, nameserver: str | None, kind: str) -> list[str]:
    server = [f"@{_name(nameserver)}"] if nameserver is not None else []
    text = _programs.output([*_DIG, *server, _name(name), kind], timeout_s=DIG_TIMEOUT_S)
    lines = text.splitlines()
    if any(line.startswith(";;") for line in lines):
        raise CommandExecutionError(f"dig got no answer about {name}: {lines[0].strip('; ')}.")
    return lines


def _name(value: Any) -> str:
    text = str(value)
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,254}", text):
        raise SaltInvocationError(f"{text!r} cannot be a name in the DNS.")
    return text


def _names(entries: Any) -> list[str]:
    text = ",".join(map(str, entries)) if isinstance(entries, list) else str(entries or "")
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or any(bad in name for name in names for bad in " \t\n\r\0#"):
        raise SaltInvocationError(f"{entries!r} cannot be a list of host names, separated by commas.")
    return names
