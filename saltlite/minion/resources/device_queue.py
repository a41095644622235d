"""The queue of calls for the devices of one resource type: which calls may start, and which are given up.

A device has one call at a time. Parts of jobs take turns, so that a job for one device does not wait for a job for ten
thousand. A call that takes too long cannot be stopped: it is given up, which frees its slot but not its device, because
the call may still act on it.

Dead devices occupy a slot until their calls time out. So devices whose last call was given up, or failed after a while,
get at most half of the slots, and the others never wait for all of them.

Nothing here makes calls or reads a clock.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterable

from saltlite.model.dataclass import dataclass
from saltlite.model.ids import PartId, TargetId

HUNG_MOST = 200
"""Abandoned calls that have not ended. Above it no call is started, because each occupies a thread."""

DOUBT_S = 1.0
"""A device whose call failed after this time may be dead; one that fails at once occupies no slot."""

HANGS = "an earlier call still hangs on this device, so it was not asked"
MANY_HANG = f"{HUNG_MOST} calls of this type hang, so this device was not asked"


_Ready = OrderedDict[PartId, deque[TargetId]]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceCall:
    """A running call."""

    part: PartId
    device: TargetId
    began: float


@dataclass(frozen=True, slots=True)
class AbandonedCall:
    """A call without an answer. `began` is None if it never started because of `why`. `limit_s` is its time limit."""

    part: PartId
    device: TargetId
    began: float | None = None
    why: str = ""
    limit_s: float = 0.0


class DeviceQueue:
    """The queue; `most` calls run at once. A call over `timeout_s`, or its own `limit`, is given up; 0 is no limit."""

    def __init__(self, most: int, timeout_s: float) -> None:
        self._most = most
        self._timeout_s = timeout_s
        self._ready: _Ready = OrderedDict()
        self._set_back: _Ready = OrderedDict()
        """Those of them for doubtful devices, as far as known."""
        self._behind: dict[TargetId, deque[PartId]] = {}
        self._busy: dict[TargetId, DeviceCall] = {}
        # In the order of their start, with their limits.
        self._running: dict[DeviceCall, float] = {}
        self._hung: set[DeviceCall] = set()
        self._doubtful: set[TargetId] = set()
        self._tried: set[DeviceCall] = set()
        """Running calls whose device was doubtful at their start."""
        self._tried_last = False

    @property
    def hung(self) -> int:
        """The number of abandoned calls that have not ended."""
        return len(self._hung)

    @property
    def running(self) -> int:
        """The number of running calls that were not given up."""
        return len(self._running)

    @property
    def places(self) -> int:
        """The number of free slots."""
        return self._most - len(self._running)

    @property
    def latest(self) -> float:
        """When the youngest running call started; minus infinity without one."""
        return next(reversed(self._running)).began if self._running else -math.inf

    @property
    def queued(self) -> bool:
        """Whether a call is ready to start when a slot is free."""
        return bool(self._ready or (self._set_back and self._may_try))

    @property
    def idle(self) -> bool:
        return not (self._running or self._ready or self._set_back or self._behind)

    def add(self, part: PartId, devices: Iterable[TargetId]) -> list[AbandonedCall]:
        """Queue one call for each of these devices; returns calls that are refused because their device hangs."""
        given_up = []
        ready: deque[TargetId] = deque()
        for device in devices:
            turn = self._busy.get(device)
            if turn is not None and turn in self._hung:
                given_up.append(AbandonedCall(part, device, why=HANGS))
            else:
                ready.append(device)
        if ready:
            # The part may have calls already: delayed ones arrive a few at a time.
            self._ready.setdefault(part, deque()).extend(ready)
        return [*given_up, *self._enough_hang()]

    def take(self, now: float) -> DeviceCall | None:
        """Start a call, if one is ready and a slot is free."""
        while self.places > 0:
            # Alternately, so that neither kind starves.
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
        """Set the limit of that call, in seconds from its start; 0 is none."""
        if turn in self._running:
            self._running[turn] = limit_s

    def ended(self, turn: DeviceCall, now: float, *, failed: bool = False) -> bool:
        """Note the end of that call. False if it was given up before: its answer is dropped."""
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
        """Drop the queued calls of that part, and give up the running ones."""
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
        """Give up overdue calls, and the queued calls for their devices."""
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
        """When the next call is overdue; infinity without one."""
        return min((_deadline(turn, limit_s) for turn, limit_s in self._running.items()), default=math.inf)

    @property
    def _may_try(self) -> bool:
        """Whether a slot is free for doubtful devices."""
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
        """Give up all queued calls when too many hang."""
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
    """The next call of the first part, which moves to the end."""
    part, waiting = next(iter(ready.items()))
    device = waiting.popleft()
    if waiting:
        ready.move_to_end(part)
    else:
        del ready[part]
    return part, device


def _deadline(turn: DeviceCall, limit_s: float) -> float:
    return turn.began + limit_s if limit_s else math.inf
