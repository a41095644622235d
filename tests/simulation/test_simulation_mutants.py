"""The simulation finds bugs: each test puts one into the product, and some seed of the first few sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from saltlite.master.handlers.jobs import JobFollower
from saltlite.master.processes.link import LinkProcess, MWorkerChannel
from saltlite.master.processes.mworker import MWorker
from saltlite.master.protocol.session_manager import SessionManager
from saltlite.master.protocol.sharing import Issuers
from saltlite.master.store.ports import ReturnCommit, Stored
from saltlite.minion.jobs.journal import DiskJournal
from saltlite.minion.jobs.results import ResultQueue
from saltlite.minion.protocol.effects import JobEntry
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.minion.protocol.resend import PartSegments
from saltlite.model.job import part_of_segment
from saltlite.testing import memory_store
from tests.simulation.story import play

SEEDS = 40


def found(*guarantees: str, first: int = 0, shared: bool = False) -> bool:
    """Whether one of the first seeds sees one of these guarantees broken. `first` is tried before the others: the one
    that is known to see it, where that takes many. `shared`: on masters that share a database."""
    seeds = [first, *(seed for seed in range(SEEDS) if seed != first)]
    return any(one.guarantee in guarantees for seed in seeds for one in play(seed, shared=shared).violations)


def test_a_journal_that_is_not_synced_lets_a_function_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DiskJournal, "sync", lambda self: None)
    assert found("G4")


def test_a_minion_that_starts_again_what_was_started_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = DiskJournal.open

    def forgets(self: DiskJournal) -> list[Any]:
        opened(self)
        self._entries.clear()
        return []

    monkeypatch.setattr(DiskJournal, "open", forgets)
    assert found("G4", first=18)


def test_a_return_that_is_acknowledged_before_its_commit_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    send: Callable[[LinkProcess, MWorkerChannel, list[Any]], None] = LinkProcess._send_batch

    def hasty(self: LinkProcess, mworker: MWorkerChannel, batch: list[Any]) -> None:
        send(self, mworker, batch)
        for report in batch:
            if report.message["t"] == "return":
                self._manager.committed(report.fingerprint, [report.message["jid"]])
        self._schedule()

    monkeypatch.setattr(LinkProcess, "_send_batch", hasty)
    assert found("G6", first=12)


def test_a_result_that_is_forgotten_when_it_is_offered_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    read = ResultQueue._read

    def reads_once(self: ResultQueue, result: str) -> Any:
        entry = read(self, result)
        self._results.remove(result)
        return entry

    monkeypatch.setattr(ResultQueue, "_read", reads_once)
    assert found("G6")


def test_a_store_that_takes_returns_from_anybody_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    put = memory_store._MemoryWriter._put_return

    def gullible(self: Any, commit: ReturnCommit, now: float) -> Stored:
        ret, tables = commit.ret, self._tables
        if ret.jid not in tables.jobs or ret.id in tables.targets[ret.jid]:
            return put(self, commit, now)
        seq = self.put_event("salt/job", {}, now)
        self._own("returns", ret.jid)[ret.id] = ret._replace(seq=seq)
        return Stored.NEW

    monkeypatch.setattr(memory_store._MemoryWriter, "_put_return", gullible)
    assert found("G8")


def test_a_cursor_that_skips_hides_a_return(monkeypatch: pytest.MonkeyPatch) -> None:
    news = JobFollower.news

    def skips(self: JobFollower) -> Any:
        message = news(self)
        if message is not None and message["returns"]:
            self._after += 1
        return message

    monkeypatch.setattr(JobFollower, "news", skips)
    assert found("G7", "G9")


def test_a_publish_that_is_not_idempotent_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_store._MemoryReader, "job_of_request", lambda self, request_id, uid: None)
    assert found("G2")


def test_a_job_that_is_sent_to_somebody_else_too_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = SessionManager.deliver

    def wrong_door(self: SessionManager, minion: str, deliveries: Any, **how: Any) -> None:
        deliveries = list(deliveries)
        deliver(self, minion, deliveries, **how)
        deliver(self, min(self.sessions.by_id, default=minion), deliveries)

    monkeypatch.setattr(SessionManager, "deliver", wrong_door)
    assert found("G3")


def test_a_minion_that_does_not_offer_its_results_again_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(JobMachine, "connected", lambda self, spooled: None)
    assert found("G5", "G6")


def test_a_job_that_is_called_expired_by_the_clock_alone_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_store._MemoryReader, "_had_no_session_since", lambda self, minion, then: True)
    assert found("G5")


def test_a_store_that_drops_a_job_when_it_is_over_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    expire = memory_store._MemoryWriter.expire

    def drops(self: Any, now: float) -> Any:
        gone = expire(self, now)
        for jid, _minion in gone:
            if jid in self._tables.jobs and not self.open_targets(jid):
                for table in (self._tables.jobs, self._tables.targets, self._tables.parts):
                    del table[jid]
        return gone

    monkeypatch.setattr(memory_store._MemoryWriter, "expire", drops)
    assert found("G1")


def test_a_terminal_state_that_changes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_store, "advance", lambda current, heard: heard if heard is not current else current)
    assert found("G5")


def test_news_that_nobody_looks_for_leave_a_client_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MWorker, "_tick", lambda self: None)
    monkeypatch.setattr(LinkProcess, "_wake_others", lambda self: self._committed.clear())
    assert found("G7")


def test_a_stream_that_takes_its_own_job_for_another_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MWorker, "_tick", lambda self: None)
    monkeypatch.setattr(JobFollower, "may_have_news", lambda self, _jobs: False)
    assert found("G7")


def test_a_segment_that_is_acknowledged_as_the_whole_part_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledged = JobMachine.acknowledged

    def hasty(self: JobMachine, jid: str) -> None:
        for segment in self._segments.of(part_of_segment(jid)):
            acknowledged(self, segment)
        acknowledged(self, jid)

    monkeypatch.setattr(JobMachine, "acknowledged", hasty)
    assert found("G5", "G6", "G7", first=21)


def test_an_ending_that_is_offered_before_the_segments_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    settle = PartSegments.settle

    def impatient(self: PartSegments, entry: JobEntry) -> None:
        segments, self._of = self._of, {}
        settle(self, entry)
        self._of = segments

    monkeypatch.setattr(PartSegments, "settle", impatient)
    assert found("G5", first=12)


# -- masters that share a database


def test_a_lease_before_the_changes_of_keys_are_applied_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionManager, "key_changed", lambda self, key, state, minion: None)
    assert found("S5", shared=True)


def test_a_job_without_the_certificate_of_its_master_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Issuers, "named", lambda self, deliveries: list(deliveries))
    # A minion that has met that master trusts its jobs by the directory of the next one, too.
    monkeypatch.setattr(JobMachine, "share", lambda self, job_key, until_s: None)
    assert found("G5", "G6", shared=True, first=31)
