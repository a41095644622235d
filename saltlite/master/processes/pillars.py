"""What an MWorker has to make pillars, and those that are being fetched."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from saltlite.model.ids import MinionId
from saltlite.pillar.compiler import has_top
from saltlite.pillar.evaluation import Evaluator
from saltlite.pillar.memory import MemoryPillarFiles
from saltlite.pillar.memory_evaluator import MemoryEvaluator
from saltlite.pillar.ports import PillarFiles
from saltlite.wire.limits import DOC_MAX

PILLARS_MEMORY = DOC_MAX
"""Bytes of pillars in one MWorker that are being fetched piece by piece. The ones that waited longest make room, and
are asked for again from their beginning."""

PILLARS_A_MINUTE = 60
"""Pillars that are made for one minion in a minute. It comes again later for more: one minion must not keep an MWorker
busy."""


@dataclass(slots=True)
class Pillars:
    """`evaluator` makes them of `files`, of which is only looked here whether there are any. `cached`: whether they are
    put into their bank."""

    files: PillarFiles = field(default_factory=lambda: MemoryPillarFiles({}))
    evaluator: Evaluator = field(default_factory=lambda: MemoryEvaluator(MemoryPillarFiles({})))
    cached: bool = True
    _made: dict[MinionId, tuple[float, int]] = field(default_factory=dict)
    _under_way: OrderedDict[MinionId, tuple[bytes, bytes]] = field(default_factory=OrderedDict)

    def any_to_make(self) -> bool:
        """Whether there is a top file."""
        return has_top(self.files)

    def may_make(self, minion: MinionId, now: float) -> bool:
        """Count one more for that minion, unless it has had as many as there may be; `now` in seconds."""
        since, count = self._made.get(minion, (now, 0))
        if now - since >= 60.0:
            since, count = now, 0
        if count >= PILLARS_A_MINUTE:
            return False
        self._made[minion] = since, count + 1
        return True

    def remember(self, minion: MinionId, sha256: bytes, data: bytes) -> None:
        """That minion fetches this pillar in several pieces."""
        self._under_way[minion] = sha256, data
        self._under_way.move_to_end(minion)
        held = sum(len(data) for _sha256, data in self._under_way.values())
        while held > PILLARS_MEMORY and len(self._under_way) > 1:
            _minion, (_sha256, forgotten) = self._under_way.popitem(last=False)
            held -= len(forgotten)

    def remembered(self, minion: MinionId, sha256: bytes) -> bytes | None:
        """The pillar with that digest which that minion fetches."""
        known, data = self._under_way.get(minion, (b"", b""))
        return data if known == sha256 else None

    def forget(self, minion: MinionId) -> None:
        """That minion has all of it."""
        self._under_way.pop(minion, None)
