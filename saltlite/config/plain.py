"""Reads files of plain lines without a YAML parser: `option: word`, with or without quotes, and comments.

Importing the parser takes longer than everything else that reads such a file. An answer is always the one that
`saltlite.config.yamlfile` gives, with the same positions.
"""

from __future__ import annotations

import re

from saltlite.config.written import Map, PlacedError, Scalar, Where, Written

_LINE = re.compile(
    r"([A-Za-z_][A-Za-z0-9_.-]{0,99}): +"
    r"([A-Za-z0-9_/](?:[A-Za-z0-9_./-]|:(?=[A-Za-z0-9_./-]))*|'[A-Za-z0-9_./: -]*'|\"[A-Za-z0-9_./: -]*\")"
)
"""No value in it spans lines or refers to another one, and no YAML parser reads a part of it as anything but text."""


def parse_plain(content: bytes) -> tuple[Written | None, list[PlacedError]] | None:
    """What `saltlite.config.yamlfile.parse` returns; None where only that can tell."""
    if not content.isascii():
        return None
    pairs: dict[str, tuple[Scalar, Written]] = {}
    for number, line in enumerate(content.decode().split("\n"), 1):
        if not line:
            continue
        if not line.isprintable():
            return None
        if line[0] == "#":
            continue
        found = _LINE.fullmatch(line)
        if found is None or found[1] in pairs:
            return None
        name, value = found.groups()
        quoted = value[0] in "'\""
        scalar = Scalar(Where(number, found.start(2) + 1), value[1:-1] if quoted else value, quoted=quoted)
        pairs[name] = Scalar(Where(number, 1), name), scalar
    written = tuple(pairs.values())
    return (Map(written[0][0].where, written) if written else None), []
