"""Calls of resources that are to wait first, as an executor wants it: they take no place while they do."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from saltlite.loader.executors import Chain
from saltlite.model.ids import PartId, TargetId


@dataclass(frozen=True, slots=True)
class Timing:
    """What the executors of a part want: how long each call is to wait, and how long one may take (0: no limit).

    `problem` is what they raised in place of an answer.
    """

    delays: Mapping[TargetId, float] = field(default_factory=dict)
    limit_s: float = 0.0
    problem: str = ""


AT_ONCE = Timing()


def lesser(one_s: float, other_s: float) -> float:
    """The shorter of two time limits; 0 is none."""
    return min(filter(None, [one_s, other_s]), default=0.0)


def timing_of(chain: Chain | None, srns: Sequence[TargetId]) -> Timing:
    """What the executors of the chain want for these resources; never raises."""
    if chain is None or chain.problem:
        return AT_ONCE
    try:
        delays = {srn: delay for srn in srns if (delay := chain.delay(srn)) > 0}
        return Timing(delays, chain.limit())
    except BaseException as error:  # noqa: BLE001 - supervision point: executors are anybody's code
        return Timing(problem=f"an executor cannot be used: {error}")


class Waiting:
    """Calls that wait for their moment; `begin` gets those of a part whose moment has come."""

    def __init__(self, begin: Callable[[PartId, Sequence[TargetId]], None]) -> None:
        self._begin = begin
        self._calls: list[tuple[float, int, PartId, TargetId]] = []
        self._numbers = itertools.count()

    @property
    def idle(self) -> bool:
        """Whether nothing waits."""
        return not self._calls

    def add(self, part: PartId, srns: Sequence[TargetId], timing: Timing, now: float) -> None:
        """Begin one call for each of these resources, now or when it has waited. `now`: monotonic, seconds."""
        at_once = [srn for srn in srns if srn not in timing.delays]
        for srn, delay in timing.delays.items():
            heapq.heappush(self._calls, (now + delay, next(self._numbers), part, srn))
        if at_once:
            self._begin(part, at_once)

    def cancel(self, part: PartId) -> None:
        """Begin none of that part."""
        self._calls = [call for call in self._calls if call[2] != part]
        heapq.heapify(self._calls)

    def tick(self, now: float) -> float:
        """Begin what is due; when something will be due again, infinite for never."""
        due: dict[PartId, list[TargetId]] = {}
        while self._calls and self._calls[0][0] <= now:
            _moment, _number, part, srn = heapq.heappop(self._calls)
            due.setdefault(part, []).append(srn)
        for part, srns in due.items():
            self._begin(part, srns)
        return self._calls[0][0] if self._calls else math.inf
