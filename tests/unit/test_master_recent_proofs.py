"""Audience proofs that an MWorker remembers: right ones, and not more than it may."""

from __future__ import annotations

import pytest

from saltlite.master.processes.context import PROOFS_KEPT, RecentProofs
from saltlite.model.ids import Jid, MinionId
from saltlite.model.job import Job
from saltlite.wire.merkle import signed_parts
from tests.support.store import job

FLEET = (MinionId("a"), MinionId("b"), MinionId("c"))
JOBS = [job(number, FLEET) for number in range(PROOFS_KEPT + 1)]


class Counted:
    """Reads jobs, and counts how often."""

    def __init__(self) -> None:
        self.read: list[Jid] = []
        self.recent = RecentProofs()

    def of(self, wanted: Job) -> object:
        def read() -> Job:
            self.read.append(wanted.jid)
            return wanted

        return self.recent.of(wanted.jid, read)


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_each_job_gets_the_proofs_of_its_own_parts(counted: Counted) -> None:
    smaller = job(90, FLEET[:2])
    counted.of(JOBS[0])
    assert counted.of(smaller) == signed_parts(smaller)
    assert counted.of(JOBS[0]) == signed_parts(JOBS[0])


def test_a_fleet_that_asks_for_one_job_has_its_proofs_made_once(counted: Counted) -> None:
    for _minion in FLEET:
        counted.of(JOBS[0])
    assert counted.read == [JOBS[0].jid]


def test_past_the_limit_the_longest_unused_proofs_are_forgotten(counted: Counted) -> None:
    for one in JOBS[:PROOFS_KEPT]:
        counted.of(one)
    counted.of(JOBS[0])
    counted.of(JOBS[PROOFS_KEPT])
    before = len(counted.read)
    counted.of(JOBS[0])
    assert len(counted.read) == before
    counted.of(JOBS[1])
    assert len(counted.read) == before + 1


def test_a_job_that_was_pruned_has_no_parts() -> None:
    assert RecentProofs().of(JOBS[0].jid, lambda: None) == {}
