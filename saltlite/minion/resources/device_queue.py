"""Whose turn it is among the devices of one resource type: which calls may begin, and which are given up.

A device has one call at a time; calls for it wait for each other, and for nobody else's. Parts of jobs take turns, so
that a job for one device does not wait for one that is for ten thousand. A call that takes too long cannot be stopped:
it is given up, which frees its place but not its device, because what it does there may go on.

Dead devices hold a place for as long as it takes to find out. So those whose last call was given up, or failed after
a while, have half of the places at most, and devices that answer never wait for all of them.

Nothing here calls anything or knows the time: both are told.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from saltlite.model.ids import PartId, TargetId

HUNG_MOST = 200
"""Calls that were given up and have not ended. With more of them nothing is begun any more: each keeps a thread."""

DOUBT_S = 1.0
"""A device whose call failed after so long may be dead; one that fails at once holds no place."""

HANGS = "an earlier call still hangs on this device, so it was not asked"
MANY_HANG = f"{HUNG_MOST} calls of this type hang, so this device was not asked"


_Ready = OrderedDict[PartId, deque[TargetId]]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceCall:
    """A call that runs."""

    part: PartId
    device: TargetId
    began: float


@dataclass(frozen=True, slots=True)
class AbandonedCall:
    """A call that gets no answer. `began` is None when it never ran; then `why` says the reason. `limit_s` is what it
    had."""

    part: PartId
    device: TargetId
    began: float | None = None
    why: str = ""
    limit_s: float = 0.0


class DeviceQueue:
    """`most` calls run at once. What runs longer than `timeout_s`, or its own `limit`, is given up; 0 is never."""

    def __init__(self, most: int, timeout_s: float) -> None:
        self._most = most
        self._timeout_s = timeout_s
        self._ready: _Ready = OrderedDict()
        self._set_back: _Ready = OrderedDict()
        """Those of them that are for doubtful devices, as far as that is known."""
        self._behind: dict[TargetId, deque[PartId]] = {}
        self._busy: dict[TargetId, DeviceCall] = {}
        # In the order in which they began; with their limits.
        self._running: dict[DeviceCall, float] = {}
        self._hung: set[DeviceCall] = set()
        self._doubtful: set[TargetId] = set()
        self._tried: set[DeviceCall] = set()
        """Those that run, and began when their device was doubtful."""
        self._tried_last = False

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
        return bool(self._ready or (self._set_back and self._may_try))

    @property
    def idle(self) -> bool:
        """Whether nothing runs or waits."""
        return not (self._running or self._ready or self._set_back or self._behind)

    def add(self, part: PartId, devices: Iterable[TargetId]) -> list[AbandonedCall]:
        """Queue one call for each of these devices; those that are not asked at all, because they hang."""
        given_up = []
        ready: deque[TargetId] = deque()
        for device in devices:
            turn = self._busy.get(device)
            if turn is not None and turn in self._hung:
                given_up.append(AbandonedCall(part, device, why=HANGS))
            else:
                ready.append(device)
        if ready:
            # Of one part there may be calls already: those that are to wait first come a few at a time.
            self._ready.setdefault(part, deque()).extend(ready)
        return [*given_up, *self._enough_hang()]

    def take(self, now: float) -> DeviceCall | None:
        """Begin a call, if there is one and a place for it."""
        while self.places > 0:
            # In turns, so that neither waits for the other for good.
            tries = bool(self._set_back) and self._may_try and not (self._ready and self._tried_last)
            if not tries and not self._ready:
                return None
            part, device = _pop(self._set_back if tries else self._ready)
            if device in self._busy:
                self._behind.setdefault(device, deque()).append(part)
            elif device in self._doubtful and not tries:
                self._set_back.setdefault(part, deque()).append(device)
            else:
                self._tried_last = tries
                return self._begin(DeviceCall(part, device, now))
        return None

    def limit(self, turn: DeviceCall, limit_s: float) -> None:
        """That call has a limit of its own, seconds from its beginning; 0 is none."""
        if turn in self._running:
            self._running[turn] = limit_s

    def ended(self, turn: DeviceCall, now: float, *, failed: bool = False) -> bool:
        """That call has ended. False when it was given up before: its answer is nobody's."""
        counts = turn in self._running
        self._running.pop(turn, None)
        self._tried.discard(turn)
        self._hung.discard(turn)
        if counts and not failed:
            self._doubtful.discard(turn.device)
        elif counts and now - turn.began >= DOUBT_S:
            self._doubtful.add(turn.device)
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
        self._set_back.pop(part, None)
        for device, behind in list(self._behind.items()):
            left = deque(one for one in behind if one != part)
            if left:
                self._behind[device] = left
            else:
                del self._behind[device]
        for turn in [turn for turn in self._running if turn.part == part]:
            self._give_up(turn)

    def overdue(self, now: float) -> list[AbandonedCall]:
        """Give up what has run for too long, and what waits behind it."""
        given_up = []
        for turn, limit_s in list(self._running.items()):
            if _deadline(turn, limit_s) <= now:
                self._give_up(turn)
                self._doubtful.add(turn.device)
                given_up.append(AbandonedCall(turn.part, turn.device, turn.began, limit_s=limit_s))
        for turn in self._hung:
            for part in self._behind.pop(turn.device, ()):
                given_up.append(AbandonedCall(part, turn.device, why=HANGS))
        return [*given_up, *self._enough_hang()]

    def deadline(self) -> float:
        """When the next call has run for too long; infinite without one."""
        return min((_deadline(turn, limit_s) for turn, limit_s in self._running.items()), default=math.inf)

    @property
    def _may_try(self) -> bool:
        """Whether doubtful devices have a place."""
        return len(self._tried) < max(1, self._most // 2)

    def _begin(self, turn: DeviceCall) -> DeviceCall:
        self._busy[turn.device] = turn
        self._running[turn] = self._timeout_s
        if turn.device in self._doubtful:
            self._tried.add(turn)
        return turn

    def _first(self, part: PartId, device: TargetId) -> None:
        self._ready.setdefault(part, deque()).appendleft(device)

    def _give_up(self, turn: DeviceCall) -> None:
        del self._running[turn]
        self._tried.discard(turn)
        self._hung.add(turn)

    def _enough_hang(self) -> list[AbandonedCall]:
        """Everything that waits, when too many hang."""
        if len(self._hung) < HUNG_MOST:
            return []
        queues = (*self._ready.items(), *self._set_back.items())
        waiting = [(part, device) for part, devices in queues for device in devices]
        waiting += [(part, device) for device, behind in self._behind.items() for part in behind]
        self._ready.clear()
        self._set_back.clear()
        self._behind.clear()
        return [AbandonedCall(part, device, why=MANY_HANG) for part, device in waiting]


def _pop(ready: _Ready) -> tuple[PartId, TargetId]:
    """The next of the first part, whose turn is last then."""
    part, waiting = next(iter(ready.items()))
    device = waiting.popleft()
    if waiting:
        ready.move_to_end(part)
    else:
        del ready[part]
    return part, device


def _deadline(turn: DeviceCall, limit_s: float) -> float:
    return turn.began + limit_s if limit_s else math.inf
