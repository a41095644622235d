"""Slots of jobs on a minion: how many run at once, and who waits for one.

Jobs of the minion itself take a process each; parts for resources run in processes that are there already, so they
have places of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from saltlite.model.job import is_resource_part
from saltlite.wire.limits import PARTS_RUNNING_PER_MINION

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


class JobSlots:
    """The lanes of a minion, of which `processes` jobs of its own run at once."""

    def __init__(self, processes: int) -> None:
        self._processes = Lane(processes)
        self._parts = Lane(PARTS_RUNNING_PER_MINION)

    def of(self, jid: str) -> Lane:
        """The lane that the job is in."""
        return self._parts if is_resource_part(jid) else self._processes

    @property
    def active(self) -> frozenset[str]:
        """All that have a place."""
        return frozenset(self._processes.active | self._parts.active)

    @property
    def waiting(self) -> list[str]:
        """All that wait for one."""
        return [*self._processes.waiting, *self._parts.waiting]

    def next(self) -> Iterator[str]:
        """Those that may start now, in order; each must be given its place before the next is asked for."""
        for lane in (self._processes, self._parts):
            while lane.waiting and not lane.is_full:
                yield lane.waiting.popleft()

    def drop(self, jid: str) -> None:
        """It waits no more, and has no place."""
        lane = self.of(jid)
        if jid in lane.waiting:
            lane.waiting.remove(jid)
        lane.active.discard(jid)
