"""Places of jobs on a minion: how many run at once, and who waits for one.

Jobs of the minion itself take a process each; parts for resources run in processes that are there already, so they
have places of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

QUEUE_MAX = 1000
"""Jobs that wait on the minion for a free place. A further one is refused. Parts for resources count by themselves."""


@dataclass(slots=True)
class Lane:
    """The jobs of one kind; `limit` of them run at once."""

    limit: int
    waiting: deque[str] = field(default_factory=deque)
    active: set[str] = field(default_factory=set)
    """Those that have a place: from the order to make a process until it has ended."""

    @property
    def is_full(self) -> bool:
        """Whether all places are taken."""
        return len(self.active) >= self.limit

    @property
    def is_crowded(self) -> bool:
        """Whether no further job may wait."""
        return len(self.waiting) >= QUEUE_MAX

    def next(self) -> Iterator[str]:
        """Those that may start now, in order; each must be given its place before the next is asked for."""
        while self.waiting and not self.is_full:
            yield self.waiting.popleft()

    def drop(self, jid: str) -> None:
        """It waits no more, and has no place."""
        if jid in self.waiting:
            self.waiting.remove(jid)
        self.active.discard(jid)
