"""Whose turn it is among the devices of one resource type: which calls may begin, and which are given up.

A device has one call at a time; calls for it wait for each other, and for nobody else's. Parts of jobs take turns, so
that a job for one device does not wait for one that is for ten thousand. A call that takes too long cannot be stopped:
it is given up, which frees its place but not its device, because what it does there may go on.

Nothing here calls anything or knows the time: both are told.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from saltlite.model.ids import PartId, TargetId

HUNG_MOST = 200
"""Calls that were given up and have not ended. With more of them nothing is begun any more: each keeps a thread."""

HANGS = "an earlier call still hangs on this device, so it was not asked"
MANY_HANG = f"{HUNG_MOST} calls of this type hang, so this device was not asked"


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A call that runs."""

    part: PartId
    device: TargetId
    began: float
    until: float = math.inf
    """When it has taken too long."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A call that gets no answer. `began` is None when it never ran; then `why` says the reason."""

    part: PartId
    device: TargetId
    began: float | None = None
    why: str = ""


class Devices:
    """`most` calls run at once. One that has run for `timeout_s` seconds is given up; 0 is never.

    `limit_of` says of a part how many seconds its calls may take, where that is less; 0 where it is not.
    """

    def __init__(self, most: int, timeout_s: float, limit_of: Callable[[PartId], float] = lambda _part: 0.0) -> None:
        self._most = most
        self._timeout_s = timeout_s or math.inf
        self._limit_of = limit_of
        self._limited: dict[Turn, None] = {}
        self._ready: OrderedDict[PartId, deque[TargetId]] = OrderedDict()
        self._behind: dict[TargetId, deque[PartId]] = {}
        self._busy: dict[TargetId, Turn] = {}
        # In the order in which they began, so that the first one is the next that takes too long.
        self._running: dict[Turn, None] = {}
        self._hung: set[Turn] = set()

    @property
    def hung(self) -> int:
        """Calls that were given up and have not ended."""
        return len(self._hung)

    @property
    def running(self) -> int:
        """Calls that run and were not given up."""
        return len(self._running)

    @property
    def places(self) -> int:
        """How many more calls may run at once."""
        return self._most - len(self._running)

    @property
    def latest(self) -> float:
        """When the youngest of the running calls began; minus infinity without one."""
        return next(reversed(self._running)).began if self._running else -math.inf

    @property
    def queued(self) -> bool:
        """Whether a call waits that may begin when there is a place."""
        return bool(self._ready)

    @property
    def idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not self._running and not self._ready and not self._behind

    def add(self, part: PartId, devices: Iterable[TargetId]) -> list[GivenUp]:
        """Queue one call for each of these devices; those that are not asked at all, because they hang."""
        given_up = []
        ready: deque[TargetId] = deque()
        for device in devices:
            turn = self._busy.get(device)
            if turn is not None and turn in self._hung:
                given_up.append(GivenUp(part, device, why=HANGS))
            else:
                ready.append(device)
        if ready:
            self._ready[part] = ready
        return [*given_up, *self._enough_hang()]

    def take(self, now: float) -> Turn | None:
        """Begin a call, if there is one and a place for it."""
        while self._ready and self.places > 0:
            part, waiting = next(iter(self._ready.items()))
            device = waiting.popleft()
            if waiting:
                self._ready.move_to_end(part)
            else:
                del self._ready[part]
            if device in self._busy:
                self._behind.setdefault(device, deque()).append(part)
                continue
            limit_s = min(self._timeout_s, self._limit_of(part) or math.inf)
            turn = Turn(part, device, now, now + limit_s)
            self._busy[device] = turn
            self._running[turn] = None
            if limit_s < self._timeout_s:
                self._limited[turn] = None
            return turn
        return None

    def ended(self, turn: Turn) -> bool:
        """That call has ended. False when it was given up before: its answer is nobody's."""
        counts = turn in self._running
        self._running.pop(turn, None)
        self._limited.pop(turn, None)
        self._hung.discard(turn)
        del self._busy[turn.device]
        behind = self._behind.pop(turn.device, None)
        if behind:
            self._first(behind.popleft(), turn.device)
        if behind:
            self._behind[turn.device] = behind
        return counts

    def cancel(self, part: PartId) -> None:
        """Begin nothing more of that part, and give up what runs of it."""
        self._ready.pop(part, None)
        for device, behind in list(self._behind.items()):
            left = deque(one for one in behind if one != part)
            if left:
                self._behind[device] = left
            else:
                del self._behind[device]
        for turn in [turn for turn in self._running if turn.part == part]:
            self._give_up(turn)

    def overdue(self, now: float) -> list[GivenUp]:
        """Give up what has run for too long, and what waits behind it."""
        given_up = []
        for turn in self._late(now):
            self._give_up(turn)
            given_up.append(GivenUp(turn.part, turn.device, turn.began))
        for turn in self._hung:
            for part in self._behind.pop(turn.device, ()):
                given_up.append(GivenUp(part, turn.device, why=HANGS))
        return [*given_up, *self._enough_hang()]

    def deadline(self) -> float:
        """When the next call has run for too long; infinite without one."""
        first = next((turn.until for turn in self._running if turn not in self._limited), math.inf)
        return min([first, *(turn.until for turn in self._limited)])

    def _late(self, now: float) -> list[Turn]:
        late = [turn for turn in self._limited if turn.until <= now]
        # All others may take as long as each other, and stand in the order in which they began.
        others = (turn for turn in self._running if turn not in self._limited)
        return [*late, *itertools.takewhile(lambda turn: turn.until <= now, others)]

    def _first(self, part: PartId, device: TargetId) -> None:
        self._ready.setdefault(part, deque()).appendleft(device)

    def _give_up(self, turn: Turn) -> None:
        del self._running[turn]
        self._limited.pop(turn, None)
        self._hung.add(turn)

    def _enough_hang(self) -> list[GivenUp]:
        """Everything that waits, when too many hang."""
        if len(self._hung) < HUNG_MOST:
            return []
        waiting = [(part, device) for part, devices in self._ready.items() for device in devices]
        waiting += [(part, device) for device, behind in self._behind.items() for part in behind]
        self._ready.clear()
        self._behind.clear()
        return [GivenUp(part, device, why=MANY_HANG) for part, device in waiting]
