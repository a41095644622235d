"""Zone files of name servers (RFC 1035, section 5), read into a map by Salt's words.

What belongs here: reading text. Which names there are in the DNS is another matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from saltlite.errors import CommandExecutionError

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|;[^\n]*|[()\n]|[ \t\r]+|[^\s;()"]+')
_CLASSES = {"IN", "CH", "HS", "CS"}
_WHOLE_WEEK_S = 604_800
"""What a time in an SOA record is at most here, as in Salt."""
_SECONDS = {"S": 1, "M": 60, "H": 3600, "D": 86_400, "W": _WHOLE_WEEK_S}
_SOA_FIELDS = 7
_NAMES = {"NS", "CNAME", "PTR", "DNAME"}
"""Types whose value is a name."""


def parse(text: str) -> dict[str, Any]:
    """The map of `dnsutil.parse_zone`. Raises CommandExecutionError for a line that is no record."""
    found: dict[str, Any] = {}
    owner = ""
    for number, words in _records(text):
        if words[0].startswith("$"):
            found[words[0][1:].upper()] = words[1] if len(words) > 1 else ""
            continue
        origin = str(found.get("ORIGIN", ""))
        owner = _full(words[0], origin) if words[0] else owner
        rest, ttl, network = words[1:], "", "IN"
        # The time to live and the class stand in any order, if at all.
        while rest and (rest[0].upper() in _CLASSES or re.fullmatch(r"(?i:\d[\dsmhdw]*)", rest[0])):
            if rest[0].upper() in _CLASSES:
                network = rest.pop(0).upper()
            else:
                ttl = rest.pop(0)
        least = {"SOA": _SOA_FIELDS, "MX": 2}.get(rest[0].upper(), 1) if rest else 1
        if not owner or len(rest) <= least:
            raise CommandExecutionError(
                f"Line {number} of the zone file is no record: {' '.join(words).strip()[:80]!r}."
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
    """The words of each record with the number of its first line; the first is empty where the owner is that before."""
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
        raise CommandExecutionError(f"{text[:40]!r} is no time in a zone file.")
    return min(_WHOLE_WEEK_S, sum(int(figure) * _SECONDS[unit.upper() or "S"] for figure, unit in parts))
