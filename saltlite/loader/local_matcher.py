"""Whether a target is true of this minion alone: what execution modules know as `__matches__`.

The evaluator is the one that resolves targets on the master, over a fleet of one. It is imported when it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.errors import UsageError
from saltlite.model.ids import MinionId
from saltlite.model.target import Target, TargetKind


class LocalMatcher:
    """Over the configuration, grains and pillar that it is given, as they are at the moment of a question."""

    def __init__(self, opts: Mapping[str, Any], grains: Mapping[str, Any], pillar: Mapping[str, Any]) -> None:
        self._opts = opts
        self._grains = grains
        self._pillar = pillar

    def __call__(self, expression: str, kind: str, *, minion_id: str | None = None, delimiter: str = ":") -> bool:
        """Whether it is true, with `minion_id` as if the minion had that id. Raises UsageError for what is no target.

        The delimiter is of questions to grains and pillar. Nodegroups are the master's: a minion knows of none.
        """
        from saltlite.targeting import selects_alone  # noqa: PLC0415 - few jobs ask: the others do not pay for it
        from saltlite.targeting.memory_fleet import Member, MemoryFleet  # noqa: PLC0415 - as above

        if kind not in TargetKind.__members__.values():
            raise UsageError(f"there is no kind of target {kind!r}: there are {', '.join(TargetKind)}")
        me = MinionId(minion_id or str(self._opts.get("id") or self._grains.get("id") or ""))
        fleet = MemoryFleet({me: Member(self._grains, self._pillar)})
        return selects_alone(Target(expression, TargetKind(kind)), fleet, me, delimiter)
