"""The master's table of sessions: one a key, one key an id, any number a connection."""

from __future__ import annotations

from collections.abc import Iterable

from saltlite.master.protocol.effects import Presence
from saltlite.master.protocol.peer import Peer
from saltlite.model.keys import Fingerprint
from saltlite.wire.limits import HEARTBEAT_MIN_S, HEARTBEATS_PER_S, PENDING_KEYS

PENDING_SESSIONS = PENDING_KEYS
"""Sessions of keys that wait for an operator. A further one is told to come again."""


class Sessions:
    """Finds a session by its number, its key, its minion's id, or the connection that it came on."""

    def __init__(self) -> None:
        self.by_number: dict[int, Peer] = {}
        self.by_key: dict[Fingerprint, Peer] = {}
        """Of pending and accepted keys."""
        self.by_id: dict[str, Peer] = {}
        """Of accepted keys: the minions that are up."""
        self.deciding: dict[Fingerprint, Peer] = {}
        """Of keys that are being decided about."""
        self._by_connection: dict[int, set[int]] = {}

    def __len__(self) -> int:
        return len(self.by_number)

    def __contains__(self, peer: Peer) -> bool:
        return peer.session.id in self.by_number

    def add(self, peer: Peer) -> None:
        """A session that has just proved its key."""
        self.by_number[peer.session.id] = peer
        self._by_connection.setdefault(peer.connection, set()).add(peer.session.id)

    def remove(self, peer: Peer) -> None:
        """A session that is over. Whoever took its key or its id meanwhile keeps them."""
        del self.by_number[peer.session.id]
        on_connection = self._by_connection[peer.connection]
        on_connection.discard(peer.session.id)
        if not on_connection:
            del self._by_connection[peer.connection]
        for table in (self.deciding, self.by_key):
            if table.get(peer.fingerprint) is peer:
                del table[peer.fingerprint]
        if self.by_id.get(peer.id) is peer:
            del self.by_id[peer.id]

    def on(self, connection: int) -> list[Peer]:
        """The sessions on one connection of the link."""
        return [self.by_number[number] for number in self._by_connection.get(connection, ())]

    def is_up(self, peer: Peer) -> bool:
        """Whether this is the session by which its minion is up."""
        return self.by_id.get(peer.id) is peer

    def has_room_for_pending(self, peer: Peer) -> bool:
        """Whether one more session may wait for its key to be accepted."""
        return peer.fingerprint in self.by_key or len(self.by_key) - len(self.by_id) < PENDING_SESSIONS

    def figures(self) -> dict[str, int]:
        """How many there are, of these of minions that are up, and of keys that wait for an operator."""
        ready = len(self.by_id)
        return {"sessions": len(self), "ready": ready, "pending": len(self.by_key) - ready}

    def present(self) -> list[Presence]:
        """Every minion that is up, for an MWorker that has just come."""
        return [peer.presence(up=True) for peer in self.by_id.values()]

    def presence(self, minion: str) -> Presence | None:
        """The session of that minion, if it is up."""
        return self.by_id[minion].presence(up=True) if minion in self.by_id else None

    def heard(self, minions: Iterable[str], now: float) -> dict[str, float]:
        """Seconds since each of these that is up was last heard."""
        return {minion: now - self.by_id[minion].last_heard for minion in minions if minion in self.by_id}

    @property
    def heartbeat_s(self) -> float:
        """How often each minion must be heard: the more minions, the more seldom."""
        return max(HEARTBEAT_MIN_S, len(self) / HEARTBEATS_PER_S)
