"""How lists of minions are narrowed and sorted: the states of a minion, the fields to sort by, natural order."""

from __future__ import annotations

import re

STATES = ("up", "away", "never")
"""Connected now; was connected before; was never connected."""
ORDERS = ("id", "state", "last_seen", "address", "version", "resources")
"""Fields of a row by which a list can be sorted; a hyphen before the name reverses the order."""

_DIGITS = re.compile(r"([0-9]+)")


def natural(value: str) -> list[tuple[int, str]]:
    """A key to sort ids and versions by, in which web2 comes before web10."""
    parts = _DIGITS.split(value)
    # Of two numbers without leading zeros the longer one is the larger one.
    return [(len(part.lstrip("0")), part.lstrip("0")) if part.isdecimal() else (-1, part) for part in parts]
