"""What minions are told apart and sorted by: states, the order and the end of sessions, the fields of lists."""

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
"""Why a minion is not connected: by its state, or by that of another key of its id, which comes first. For one that is
away the end of its session says more, where it is known (`absence`)."""


class SessionOrder(NamedTuple):
    """The place of a session among those of one minion, as the minion itself counts them."""

    boot: str
    """The start of its daemon."""
    incarnation: str
    """Its disk: with another one it begins to count anew."""
    run: int
    """How often its network process has started on that disk; 0 for a minion of the version before, which does not
    count."""
    handshake: int
    """How often it has shaken hands in that run."""

    @classmethod
    def of(cls, hello: Mapping[str, Any]) -> SessionOrder:
        """That of a session that began with these fields of AUTH (`saltlite.wire.messages`)."""
        return cls(hello["boot"], hello["incarnation"], *hello["order"])

    def precedes(self, other: SessionOrder) -> bool:
        """Whether `other` is a later session of the same start of the daemon, and takes the place of this one.

        No start has two sessions at one place, or goes back. Only a machine that was copied while it ran does.
        """
        if self.boot != other.boot:
            return False
        is_counted = self.incarnation == other.incarnation and other.run > 0
        return not is_counted or (self.run, self.handshake) < (other.run, other.handshake)


class SessionEnd(StrEnum):
    """Why the last session of a minion ended, as the store keeps it: a word, perhaps with a detail (`end_with`)."""

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
    """The session had ended already; then the same machine came with another id and was refused."""


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
    """Why a minion that was connected before is not connected now: the sentence for the end of its last session. `end`
    is as the store keeps it, "" if that is not known; a word of a newer release is not known either."""
    word, _space, detail = end.partition(" ")
    if word not in _ENDS:
        return ABSENCES["away"]
    return _ENDS[SessionEnd(word)].format(detail=detail)


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
