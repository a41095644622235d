"""Who is connected to an MWorker and is no operator: how many of one user, and which groups they have."""

from __future__ import annotations

from collections import Counter

from saltlite.adapters.accounts import groups_of, name_of
from saltlite.core.acl import Principal

GROUPS_S = 30.0
"""How long the groups of a local user are believed: they may come from another machine."""
CLIENTS_OF_UID = 256
"""Connections to one MWorker that one user may have, who is no operator; there are CONNECTIONS_MAX for all."""


class Guests:
    """Counts connections by uid, and makes principals of uids."""

    def __init__(self) -> None:
        self._connections: Counter[int] = Counter()
        self._groups: dict[int, tuple[float, frozenset[str]]] = {}
        """Of local users, by uid: until when, and which."""

    def is_full(self, uid: int) -> bool:
        """Whether this user has as many connections as one may have: the others must not be kept out by him."""
        return self._connections[uid] >= CLIENTS_OF_UID

    def came(self, uid: int, now: float) -> Principal:
        """One more connection of that user; `now` is monotonic seconds."""
        self._connections[uid] += 1
        name = name_of(uid)
        known = self._groups.get(uid)
        if known is None or now >= known[0]:
            known = self._groups[uid] = (now + GROUPS_S, groups_of(name))
        return Principal(name, uid, groups=known[1])

    def went(self, uid: int) -> None:
        """One of them is over."""
        self._connections[uid] -= 1
