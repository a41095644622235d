"""Who is connected to an MWorker and is no operator: how many of one user, and which groups they have."""

from __future__ import annotations

from collections import Counter

from saltlite.auth.acl import Principal
from saltlite.platform.accounts import groups_of, name_of
from saltlite.platform.stream import CONNECTIONS_MAX

GROUPS_S = 30.0
"""How long the groups of a local user are believed: they may come from another machine."""
GUESTS_MAX = CONNECTIONS_MAX - 64
"""Connections to one MWorker that all users together may have who are no operators: the others are for operators."""


class LocalClients:
    """Counts connections by uid, and makes principals of uids."""

    def __init__(self) -> None:
        self._connections: Counter[int] = Counter()
        self._groups: dict[int, tuple[float, frozenset[str]]] = {}
        """Of local users, by uid: until when, and which."""

    def is_full(self, uid: int) -> bool:
        """Whether this user has as many connections as one may have: as many as are free.

        So one who takes all that he gets has a half of them, two have a third each, and there are always some left.
        """
        return self._connections[uid] >= GUESTS_MAX - self._connections.total()

    def came(self, uid: int, now: float, *, is_guest: bool) -> Principal:
        """One more connection of that user; `now` is monotonic seconds. Those of operators are not counted."""
        if is_guest:
            self._connections[uid] += 1
        name = name_of(uid)
        known = self._groups.get(uid)
        if known is None or now >= known[0]:
            known = self._groups[uid] = (now + GROUPS_S, groups_of(name))
        return Principal(name, uid, groups=known[1])

    def went(self, uid: int) -> None:
        """One of them is over."""
        self._connections[uid] -= 1
        if not self._connections[uid]:
            del self._connections[uid]
