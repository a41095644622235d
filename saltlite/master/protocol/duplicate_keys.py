"""Two machines with one key: a copied image, most often, or a stolen key.

A daemon that starts anew has a new boot id, and its old session is over or soon will be. So when a session with
another boot id begins while one is up, the one that is up is asked for a sign of life, and the newcomer waits: who
answers is alive, and then there are two. The newcomer is sent away, for a job must not run on both (G4).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from saltlite.master.protocol.peer import Peer
from saltlite.model.keys import Fingerprint

SIGN_OF_LIFE_S = 1.0
"""How long the session that is up has time to answer."""
PROOFS = 3
"""So often both were seen alive within WINDOW_S before it is called a clone: one may be a daemon that dies slowly."""
WINDOW_S = 600.0
KEYS_MAX = 10_000
"""Keys of which it is known; the one that was seen longest ago is forgotten first."""


@dataclass(frozen=True, slots=True)
class Contest:
    """A newcomer that waits whether the session that is up, of the same key, is alive."""

    newcomer: Peer
    minion: str
    until: float


@dataclass(slots=True)
class _Seen:
    """When both machines of a key were seen alive, and when somebody was told."""

    at: list[float] = field(default_factory=list)
    told_at: float = float("-inf")


class DuplicateKeys:
    """Contests between sessions of one key, by the number of the one that is up. Times are monotonic seconds."""

    def __init__(self) -> None:
        self._contests: dict[int, Contest] = {}
        self._seen: OrderedDict[Fingerprint, _Seen] = OrderedDict()

    def begin(self, older: Peer, newcomer: Peer, minion: str, now: float) -> None:
        """`older` is being asked for a sign of life."""
        self._contests[older.session.id] = Contest(newcomer, minion, now + SIGN_OF_LIFE_S)

    def settle(self, older: Peer) -> Contest | None:
        """`older` has answered, or is gone; the contest that this ends."""
        return self._contests.pop(older.session.id, None)

    def overdue(self, now: float) -> list[Contest]:
        """Contests in which the session that was up has not answered; they are over."""
        late = [number for number, contest in self._contests.items() if now >= contest.until]
        return [self._contests.pop(number) for number in late]

    def proved(self, key: Fingerprint, now: float) -> bool:
        """Both machines are alive; whether that was seen often enough to call it a clone."""
        seen = self._seen.setdefault(key, _Seen())
        self._seen.move_to_end(key)
        if len(self._seen) > KEYS_MAX:
            self._seen.popitem(last=False)
        seen.at = [*(at for at in seen.at if now - at < WINDOW_S), now][-PROOFS:]
        return len(seen.at) >= PROOFS

    def is_news(self, key: Fingerprint, now: float) -> bool:
        """Whether nobody was told of this key's second machine within WINDOW_S; from now on somebody was."""
        seen = self._seen.setdefault(key, _Seen())
        if now - seen.told_at < WINDOW_S:
            return False
        seen.told_at = now
        return True
