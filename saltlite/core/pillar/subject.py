"""The pillar of one minion, of which the id and the grains are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.core.matching import resolve
from saltlite.core.matching.memory_fleet import Member, MemoryFleet
from saltlite.core.pillar.compiler import Subject, compile_pillar
from saltlite.core.pillar.ports import Nodegroups, PillarFiles
from saltlite.model.ids import MinionId
from saltlite.model.target import Target


def pillar_of(
    files: PillarFiles, minion: MinionId, grains: Mapping[str, Any], nodegroups: Nodegroups
) -> dict[Any, Any]:
    """What the files have for that minion. The grain `id` is its id, whatever the grains say."""
    mine = {**grains, "id": minion}
    fleet = MemoryFleet({minion: Member(mine)}, nodegroups)

    def matches(target: Target) -> bool:
        return minion in resolve(target, fleet).minions

    return compile_pillar(files, Subject(minion, mine), matches)
