"""States of minions, the order and the end of their sessions, and the fields by which lists are sorted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

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
"""Why a minion is not connected: by the state of another key of its id if there is one, or by its own state. If the
minion is away and the end of its last session is known, `absence` says more."""


class SessionOrder(NamedTuple):
    """The position of a session among those of one minion, as the minion itself counts them."""

    boot: str
    """The start of its daemon."""
    incarnation: str
    """Identifies its disk: the counts begin again on another disk."""
    run: int
    """How often its network process has started on that disk; 0 for a minion of the previous version, which does not
    count."""
    handshake: int
    """How many handshakes it has made in that run."""

    @classmethod
    def of(cls, hello: Mapping[str, Any]) -> SessionOrder:
        """The order of the session with these fields of AUTH (`saltlite.wire.messages`)."""
        return cls(hello["boot"], hello["incarnation"], *hello["order"])

    def precedes(self, other: SessionOrder) -> bool:
        """Whether `other` is a later session of the same start of the daemon, so that it replaces this one.

        The positions of one start never repeat or decrease, except on a machine that was copied while it ran.
        """
        if self.boot != other.boot:
            return False
        is_counted = self.incarnation == other.incarnation and other.run > 0
        return not is_counted or (self.run, self.handshake) < (other.run, other.handshake)


class SessionEnd(StrEnum):
    """Why the last session of a minion ended. The store has the word, with a detail for some (`end_with`)."""

    STOPPED = "stopped"
    SILENT = "silent"
    LOST = "lost"
    BROKEN = "broken"
    CONGESTED = "congested"
    REPLACED = "replaced"
    REJECTED = "rejected"
    REVOKED = "revoked"
    DELETED = "deleted"
    RESTARTED = "restarted"
    FENCED = "fenced"
    RENAMED = "renamed"
    """The session had already ended; then the same machine connected with another id and was refused."""


_ENDS = {
    SessionEnd.STOPPED: "the minion was stopped",
    SessionEnd.SILENT: "no heartbeat for {detail} s",
    SessionEnd.LOST: "its connection was lost",
    SessionEnd.BROKEN: "it sent a frame that was refused",
    SessionEnd.CONGESTED: "it took no more messages",
    SessionEnd.REPLACED: "a newer session of it began",
    SessionEnd.REJECTED: "its key was rejected",
    SessionEnd.REVOKED: "its key was revoked",
    SessionEnd.DELETED: "its key was deleted or got another id",
    SessionEnd.RESTARTED: "the master was stopped or restarted",
    SessionEnd.FENCED: "its master lost the lease of the store",
    SessionEnd.RENAMED: "its machine has the id {detail} now and was refused",
}


def end_with(word: SessionEnd, detail: str | int) -> str:
    """The end of a session with its detail: of `silent` the seconds, of `renamed` the other id."""
    return f"{word} {detail}"


def absence(end: str) -> str:
    """Why a minion that was connected before is not connected now, by the end of its last session. `end` is the stored
    value, "" if it is unknown. A word of a newer release is unknown, too."""
    word, _space, detail = end.partition(" ")
    if word not in _ENDS:
        return ABSENCES["away"]
    return _ENDS[SessionEnd(word)].format(detail=detail)


KEY_STATES = ("pending", "conflict", "accepted", "rejected", "revoked")
"""The states of keys. Those that wait for a decision come first."""
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
