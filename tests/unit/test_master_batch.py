"""Whose turn it is in a batch: never more than its size at once, nobody forgotten, and a way to an end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from saltlite.errors import UsageError
from saltlite.master.handlers.delivery import LASTS_MAX_MS, WAIT_MAX_MS, batch_of, release_due
from saltlite.master.processes.context import RecentProofs
from saltlite.master.store.ports import TargetRow
from saltlite.model.ids import Jid, MinionId, TargetId
from saltlite.model.job import Batch, Job, TargetState
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryStore
from saltlite.wire.merkle import SignedPart
from tests.support.store import NOW, commit, had_sessions, job, key, move, ret, row

IDS = tuple(MinionId(f"web{number}") for number in range(1, 7))
QUEUED, PLANNED, EXPIRED = TargetState.QUEUED, TargetState.PLANNED, TargetState.EXPIRED


class Link:
    """Notes who is sent the job."""

    def __init__(self) -> None:
        self.sent: list[TargetId] = []

    def publish(self, _job: Job, parts: Sequence[SignedPart]) -> None:
        self.sent += [target for part in parts for target in part.targets]


class BatchRig:
    """A store with one batch job on six minions, and a clock."""

    def __init__(self, batch: Batch, *, away: tuple[MinionId, ...] = ()) -> None:
        self.clock = ManualClock(wall=NOW)
        self.store = MemoryStore()
        self.link = Link()
        self.proofs = RecentProofs()
        self.job = job(1, IDS, batch=batch)
        with self.store.write() as writer:
            for minion in IDS:
                writer.put_key(key(minion))
            writer.put_job(self.job)
        self.up(*(minion for minion in IDS if minion not in away))

    def up(self, *minions: MinionId, up: bool = True) -> None:
        with self.store.write() as writer:
            had_sessions(writer, [row(minion, self.clock.wall(), up=up) for minion in minions])

    def go_on(self, after_s: float = 0.0, among: Sequence[Jid] | None = None) -> list[TargetId]:
        """Let time pass and look, at all jobs or `among` these; who is sent the job by that."""
        self.clock.advance(after_s)
        before = len(self.link.sent)
        link = cast("Any", self.link)  # of a LinkPort it needs one method
        release_due(self.store, self.clock, link, self.proofs, among=among)
        return self.link.sent[before:]

    def returns(self, minion: MinionId, retcode: int = 0) -> None:
        commit(self.store, ret(self.job, minion, retcode=retcode), now=self.clock.wall())

    def state(self, minion: MinionId, state: TargetState) -> None:
        move(self.store, self.job, minion, state, at=self.clock.wall())

    def states(self) -> list[TargetState]:
        return [target.state for target in self.store.targets(self.job.jid)]

    def reasons(self) -> set[str]:
        rows: list[TargetRow] = self.store.targets(self.job.jid)
        return {target.reason for target in rows if target.reason}


def test_so_many_at_once_and_the_next_when_one_has_ended() -> None:
    rig = BatchRig(Batch(2))
    assert rig.go_on() == [IDS[0], IDS[1]]
    assert rig.go_on() == []
    rig.returns(IDS[1])
    assert rig.go_on() == [IDS[2]]
    rig.state(IDS[0], TargetState.RUNNING)
    rig.state(IDS[2], TargetState.RECEIVED)
    assert rig.go_on(10_000.0) == []


def test_only_the_jobs_that_something_happened_to_are_looked_at() -> None:
    rig = BatchRig(Batch(2))
    assert rig.go_on(among=[job(2).jid]) == []
    assert rig.go_on(among=[job(2).jid, rig.job.jid]) == [IDS[0], IDS[1]]


def test_a_look_when_it_is_nobodys_turn_reads_no_job_and_takes_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = BatchRig(Batch(2))
    rig.go_on()
    for expensive in ("job", "targets", "write"):
        monkeypatch.setattr(rig.store, expensive, lambda *_: pytest.fail("that is expensive"))
    assert rig.go_on() == rig.go_on(among=[rig.job.jid]) == []


def test_a_place_stays_empty_for_the_wait() -> None:
    rig = BatchRig(Batch(1, wait_ms=5_000))
    rig.go_on()
    rig.returns(IDS[0])
    assert rig.go_on() == []
    assert rig.go_on(4.0) == []
    assert rig.go_on(1.0) == [IDS[1]]


def test_who_is_away_is_passed_over_and_has_its_turn_when_it_comes() -> None:
    rig = BatchRig(Batch(2), away=(IDS[0], IDS[2]))
    assert rig.go_on() == [IDS[1], IDS[3]]
    rig.returns(IDS[1])
    rig.up(IDS[0])
    assert rig.go_on() == [IDS[0]]


def test_who_goes_away_with_the_job_keeps_its_place() -> None:
    rig = BatchRig(Batch(1))
    rig.go_on()
    rig.state(IDS[0], TargetState.RUNNING)
    rig.up(IDS[0], up=False)
    assert rig.go_on(100_000.0) == []


def test_who_never_took_the_job_gives_up_its_place_when_the_delivery_time_is_over() -> None:
    rig = BatchRig(Batch(1))
    rig.go_on()
    assert rig.go_on(59.0) == []
    assert rig.go_on(1.0) == [IDS[1]]


def test_failhard_ends_the_batch_at_the_first_failure_and_says_whose_it_was() -> None:
    rig = BatchRig(Batch(2, failhard=True))
    rig.go_on()
    rig.returns(IDS[1], retcode=3)
    assert rig.go_on() == []
    assert rig.states() == [QUEUED, TargetState.RETURNED, *[TargetState.CANCELLED] * 4]
    assert rig.reasons() == {"the batch ended when web2 failed (--failhard)"}


def test_without_failhard_a_failure_changes_nothing() -> None:
    rig = BatchRig(Batch(1))
    rig.go_on()
    rig.returns(IDS[0], retcode=3)
    assert rig.go_on() == [IDS[1]]


def test_when_only_those_are_left_that_do_not_come_the_batch_ends() -> None:
    rig = BatchRig(Batch(6), away=IDS[4:])
    rig.go_on()
    for minion in IDS[:4]:
        rig.returns(minion)
    rig.go_on(60.0)
    assert rig.states()[4:] == [PLANNED, PLANNED]
    rig.go_on(1.0)
    assert rig.states()[4:] == [EXPIRED, EXPIRED]
    assert [reason.rpartition(": ")[2] for reason in rig.reasons()] == ["never connected"]
    assert rig.store.open_targets(rig.job.jid) == 0


def test_a_batch_that_lasts_too_long_ends() -> None:
    rig = BatchRig(Batch(1))
    rig.go_on()
    rig.state(IDS[0], TargetState.RUNNING)
    rig.go_on(LASTS_MAX_MS / 1000 + 1)
    assert rig.states()[1:] == [EXPIRED] * 5


@pytest.mark.parametrize(
    ("size", "percent", "targets", "is_size"),
    [(3, False, 10, 3), (30, True, 10, 3), (35, True, 10, 3), (1, True, 10, 1), (100, True, 7, 7)],
)
def test_a_share_is_rounded_down_and_never_nothing(size: int, percent: bool, targets: int, is_size: int) -> None:
    batch = batch_of({"size": size, "percent": percent, "wait_ms": 0, "failhard": False}, targets)
    assert batch is not None
    assert batch.size == is_size


@pytest.mark.parametrize(
    "wanted",
    [
        {"size": 0, "percent": False, "wait_ms": 0, "failhard": False},
        {"size": 101, "percent": True, "wait_ms": 0, "failhard": False},
        {"size": 1, "percent": False, "wait_ms": -1, "failhard": False},
        {"size": 1, "percent": False, "wait_ms": WAIT_MAX_MS + 1, "failhard": False},
        {"size": "1", "percent": False, "wait_ms": 0, "failhard": False},
        {},
    ],
)
def test_a_batch_that_is_none_is_refused(wanted: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        batch_of(wanted, 10)


def test_a_master_that_was_down_for_long_gives_the_batch_time_to_come_back() -> None:
    rig = BatchRig(Batch(1))
    rig.go_on()
    rig.returns(IDS[0])
    rig.clock.advance(3600.0)
    rig.up(*IDS, up=False)  # what the master finds when it starts: nobody has a session, nobody saw them go
    assert rig.go_on(0.5) == []
    rig.up(*IDS)
    assert rig.go_on(30.0) == [IDS[1]]


def test_a_batch_whose_minions_all_stay_away_ends_when_the_delivery_time_is_over() -> None:
    rig = BatchRig(Batch(1))
    rig.go_on()
    rig.returns(IDS[0])
    rig.up(*IDS, up=False)
    rig.go_on(rig.job.deliver_ms / 1000)
    assert rig.states().count(PLANNED) == len(IDS) - 1
    rig.go_on(1.0)
    assert rig.states().count(EXPIRED) == len(IDS) - 1
