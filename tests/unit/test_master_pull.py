"""What a minion that comes back is given of the jobs that the store still holds for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from saltlite.errors import StoreError
from saltlite.master.handlers.delivery import CANCELS_MAX, PAGE, handle_pull
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity
from saltlite.master.protocol.sessions import DELIVERIES_MAX, HELD_MAX
from saltlite.master.store.ports import OpenJob, TargetRow
from saltlite.model.job import Job, TargetState
from saltlite.model.keys import fingerprint
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryStore
from saltlite.wire.limits import SEND_WINDOW
from saltlite.wire.merkle import SignedPart
from tests.support.inventory import inventory
from tests.support.keys import certificate
from tests.support.store import NOW, WEB1, job, publish, row

UP = [WEB1, fingerprint(bytes(32)), True, "10.0.0.1", "1.0", "boot", "incarnation", "", 1, 1]
"""Its session, as the link process says it."""


class Link:
    """Remembers what it had to deliver: jid -> milliseconds in which the job may begin."""

    def __init__(self) -> None:
        self.left_ms: dict[str, int] = {}
        self.cancels: list[str] = []
        self.pages: list[list[str]] = []
        self.rest: str | None = None
        self.ended: list[tuple[str, int, int]] = []

    def pulled(
        self, minion: str, jobs: Sequence[tuple[OpenJob, list[bytes], int]], *, starved: bool, rest: str | None
    ) -> None:
        self.left_ms |= {one.part: left_ms for one, _proof, left_ms in jobs}
        self.pages.append([one.part for one, _proof, _left_ms in jobs])
        self.rest = rest
        assert starved == bool(rest)

    def decided(self, session: int, state: str, minion: str, gone: Sequence[str] = ()) -> None: ...

    def publish(self, job: Job, parts: Sequence[SignedPart]) -> None: ...

    def cancel(self, parts: Sequence[tuple[str, str]]) -> None:
        self.cancels += [part for _minion, part in parts]

    def fetch(self, minion: str, what: str) -> None: ...

    def replaced(self, minion: str, run: int, handshake: int) -> None:
        self.ended.append((minion, run, handshake))


@pytest.fixture
def link() -> Link:
    return Link()


@pytest.fixture
def master(link: Link) -> Master:
    """A master with nothing but a store; ten seconds have passed since the jobs were made."""
    signed = certificate(NOW)
    who = MasterIdentity(fingerprint(signed.fleet_public), signed, bytes(32))
    clock = ManualClock(wall=NOW + 10)
    return Master(MemoryStore(), clock, who, HandlerConfig(5.0, 60.0, frozenset({0})), link, *inventory())


def test_a_job_that_was_never_acknowledged_may_begin_in_the_time_that_is_left(master: Master, link: Link) -> None:
    publish(master.store, one := job())

    handle_pull(master, {"id": WEB1, "session": UP, "since": ""})

    assert link.left_ms == {one.jid: 50_000}


@pytest.mark.parametrize("state", [TargetState.RECEIVED, TargetState.RUNNING])
def test_a_job_that_was_acknowledged_is_asked_about_and_may_not_begin(
    master: Master, link: Link, state: TargetState
) -> None:
    publish(master.store, one := job())
    with master.store.write() as tx:
        tx.set_targets([(one.jid, TargetRow(WEB1, state, "", NOW))])

    handle_pull(master, {"id": WEB1, "session": UP, "since": ""})

    assert link.left_ms == {one.jid: 0}


def test_a_session_that_the_store_missed_is_written_down_before_a_job_is_handed_over(
    master: Master, link: Link
) -> None:
    publish(master.store, one := job())

    handle_pull(master, {"id": WEB1, "session": UP, "since": ""})

    row = master.store.minion(WEB1)
    assert row is not None
    assert row.up
    with master.store.write() as tx:
        gone = tx.expire(NOW + 1e6)
    assert (one.jid, WEB1) not in gone, "what was handed over is never called undelivered by the clock alone"
    assert one.jid in link.left_ms


def test_a_session_that_is_older_than_one_of_another_master_gets_no_job_and_is_ended(
    master: Master, link: Link
) -> None:
    publish(master.store, job())
    newer = row(WEB1, boot_id="boot", incarnation="incarnation", master="other", run=1, handshake=2)
    with master.store.write() as tx:
        tx.claim([newer])

    handle_pull(master, {"id": WEB1, "session": UP, "since": ""})

    assert (link.left_ms, link.ended) == ({}, [(WEB1, 1, 1)])
    assert master.store.minion(WEB1) == replace(newer, up=True)
    assert master.store.events(1) == [], "the minion neither came nor went"


def test_many_ended_jobs_are_told_a_few_at_a_time_and_first_those_that_may_run(master: Master, link: Link) -> None:
    """All at once they would not fit into a full link, and the session would end, again and again."""
    handle_pull(master, {"id": WEB1, "session": UP, "since": ""})
    jobs = [job(number) for number in range(HELD_MAX + DELIVERIES_MAX)]
    publish(master.store, *jobs)
    with master.store.write() as tx:
        tx.set_targets([(jobs[-1].jid, TargetRow(WEB1, TargetState.RUNNING, "", NOW))])
        for one in jobs:
            tx.cancel_job(one.jid, "root", NOW + 2)

    handle_pull(master, {"id": WEB1, "session": UP, "since": ""})

    assert link.cancels[0] == jobs[-1].jid
    assert len(set(link.cancels)) == CANCELS_MAX < HELD_MAX
    assert link.left_ms == {}


def test_a_minion_with_many_jobs_is_asked_about_all_page_by_page(master: Master, link: Link) -> None:
    jobs = [job(number) for number in range(2 * PAGE + 1)]
    publish(master.store, *jobs)
    with master.store.write() as tx:
        tx.set_targets([(one.jid, TargetRow(WEB1, TargetState.RUNNING, "", NOW)) for one in jobs])

    since: str | None = ""
    for _page in range(3):
        handle_pull(master, {"id": WEB1, "session": UP, "since": since})
        since = link.rest

    assert [len(page) for page in link.pages] == [PAGE, PAGE, 1]
    assert [jid for page in link.pages for jid in page] == [one.jid for one in jobs]
    assert since == ""


def test_large_jobs_are_read_as_far_as_they_fit_into_the_window(master: Master, link: Link) -> None:
    jobs = [job(number, body=bytes(SEND_WINDOW // 2)) for number in range(4)]
    publish(master.store, *jobs)

    handle_pull(master, {"id": WEB1, "session": UP, "since": ""})

    assert (link.pages, link.rest) == ([[jobs[0].jid, jobs[1].jid]], jobs[2].jid)


def test_no_job_is_handed_over_while_the_store_cannot_note_the_session(
    master: Master, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(master.store, job())

    def full() -> None:
        raise StoreError("no space")

    monkeypatch.setattr(master.store, "write", full)
    with pytest.raises(StoreError):
        handle_pull(master, {"id": WEB1, "session": UP, "since": ""})
    assert link.left_ms == {}
