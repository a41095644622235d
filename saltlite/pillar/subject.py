"""The pillar of one minion, of which the id and the grains are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from saltlite.model.ids import MinionId
from saltlite.model.job import Target
from saltlite.pillar.compiler import Subject, compile_pillar, top_of
from saltlite.pillar.ports import Matches, Nodegroups, PillarFiles
from saltlite.targeting import resolve
from saltlite.targeting.memory_fleet import Member, MemoryFleet


def pillar_of(
    files: PillarFiles, minion: MinionId, grains: Mapping[str, Any], nodegroups: Nodegroups
) -> dict[Any, Any]:
    """What the files have for that minion. The grain `id` is its id, whatever the grains say."""
    return compile_pillar(files, *_subject(minion, grains, nodegroups))


def names_of(
    files: PillarFiles, minion: MinionId, grains: Mapping[str, Any], nodegroups: Nodegroups
) -> tuple[dict[str, list[str]], list[str]]:
    """Environment -> the files that its pillar is made of, without those that they include; and mistakes."""
    return top_of(files, *_subject(minion, grains, nodegroups))


def _subject(minion: MinionId, grains: Mapping[str, Any], nodegroups: Nodegroups) -> tuple[Subject, Matches]:
    mine = {**grains, "id": minion}
    fleet = MemoryFleet({minion: Member(mine)}, nodegroups)

    def matches(target: Target) -> bool:
        return minion in resolve(target, fleet).minions

    return Subject(minion, mine), matches
