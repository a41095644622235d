"""Audience proofs that an MWorker remembers: right ones, and not more than it may."""

from __future__ import annotations

import pytest

from saltlite.master import context
from saltlite.master.context import PROOFS_KEPT, RecentProofs
from saltlite.model.ids import Jid, MinionId
from saltlite.wire.merkle import proofs

JIDS = [Jid(f"2026010100000000000{number}") for number in range(PROOFS_KEPT + 1)]
FLEET = (MinionId("a"), MinionId("b"), MinionId("c"))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[MinionId, ...]]:
    """The target lists whose proofs were computed."""
    lists: list[tuple[MinionId, ...]] = []

    def counted(minions: tuple[MinionId, ...]) -> dict[str, list[bytes]]:
        lists.append(minions)
        return proofs(minions)

    monkeypatch.setattr(context, "proofs", counted)
    return lists


def test_each_job_gets_the_proofs_of_its_own_targets() -> None:
    recent = RecentProofs()
    recent.of(JIDS[0], FLEET)
    assert recent.of(JIDS[1], FLEET[:2]) == proofs(FLEET[:2])
    assert recent.of(JIDS[0], FLEET) == proofs(FLEET)


def test_a_fleet_that_asks_for_one_job_has_its_proofs_made_once(made: list[tuple[MinionId, ...]]) -> None:
    recent = RecentProofs()
    for minion in FLEET:
        assert minion in recent.of(JIDS[0], FLEET)
    assert len(made) == 1


def test_past_the_limit_the_longest_unused_proofs_are_forgotten(made: list[tuple[MinionId, ...]]) -> None:
    recent = RecentProofs()
    for jid in JIDS[:PROOFS_KEPT]:
        recent.of(jid, FLEET)
    recent.of(JIDS[0], FLEET)
    recent.of(JIDS[PROOFS_KEPT], FLEET)
    before = len(made)
    recent.of(JIDS[0], FLEET)
    assert len(made) == before
    recent.of(JIDS[1], FLEET)
    assert len(made) == before + 1
