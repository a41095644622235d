"""How lists of minions and keys are narrowed and sorted: states, the fields to sort by, natural order."""

from __future__ import annotations

import re

STATES = ("up", "away", "never")
"""Connected now; was connected before; was never connected."""
ORDERS = ("id", "state", "last_seen", "address", "version", "resources")
"""Fields of a row by which a list can be sorted; a hyphen before the name reverses the order."""
ABSENCES = {
    "never": "never connected",
    "away": "connection ended",
    "pending": "another key is pending",
    "conflict": "another key in conflict",
}
"""Why a minion is not connected: by its state, or by that of another key of its id, which comes first."""
KEY_STATES = ("pending", "conflict", "accepted", "rejected", "revoked")
"""The states of keys, those first that wait for a decision."""
KEY_ORDERS = ("state", "id", "fingerprint", "address", "first_seen")
"""Fields of a key by which a list can be sorted; a hyphen before the name reverses the order."""

_DIGITS = re.compile(r"([0-9]+)")


def natural(value: str) -> str:
    """A key to sort ids and versions by, in which web2 comes before web10. Texts compare faster than lists."""
    parts = _DIGITS.split(value)
    for number in range(1, len(parts), 2):
        digits = parts[number].lstrip("0")
        # A text ends before it goes on, and of two numbers without leading zeros the longer one is the larger one.
        parts[number] = f"\0{chr(len(digits))}{digits}"
    return "".join(parts)
