"""Which reports are stored together, which alone, and which are left out after one of them held an MWorker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from saltlite.errors import StoreError
from saltlite.master.handlers.results import Reported, Settled, TransientStates
from saltlite.master.processes import mworker
from saltlite.master.processes.mworker import settle
from saltlite.master.processes.turns import turn_of_report
from saltlite.model.ids import MinionId
from saltlite.model.keys import Fingerprint
from saltlite.platform.shared_memory import REFUSED_S, Marks, TurnBoard, TurnLabel


def ret(minion: str, jid: str = "1") -> Reported:
    return Reported(MinionId(minion), Fingerprint(minion), {"t": "return", "jid": jid}, b"body")


BATCH = [ret("a"), ret("poison"), ret("b")]


class Site:
    """The store of the test: what is stored together, under which name on the board, and at what time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 1000.0
        self.board = TurnBoard(["MWorker-0"], (), lambda: self.at)
        self.marks: Marks = self.board.marks("MWorker-0")
        self.stored: list[list[str]] = []
        self.names: list[str] = []
        self.error: Exception | None = None
        monkeypatch.setattr(mworker, "store_reports", self._store)

    def _store(self, _master: object, reported: Sequence[Reported], _transient: object) -> Settled:
        self.stored.append([item.id for item in reported])
        seen = self.board.seen("MWorker-0")
        assert seen is not None
        assert seen.turn.is_reports
        self.names.append(seen.turn.text)
        if self.error is not None and any(item.id == "poison" for item in reported):
            raise self.error
        return Settled([(item.fingerprint, [item.message["jid"]]) for item in reported], moved=frozenset())

    def settle(self, reported: Sequence[Reported] = BATCH) -> Settled:
        master: Any = None
        return settle(master, reported, TransientStates(), self.marks)

    def end(self, turn: TurnLabel) -> None:
        self.board.end("MWorker-0", turn, 30.0)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(monkeypatch)


def acknowledged(settled: Settled) -> list[str]:
    return [minion for minion, _jids in settled.acknowledge]


def test_reports_are_stored_together(site: Site) -> None:
    assert acknowledged(site.settle()) == ["a", "poison", "b"]
    assert site.stored == [["a", "poison", "b"]]
    assert site.names == ["3 reports, the first of a"]


def test_after_a_batch_held_an_mworker_each_report_is_judged_alone_under_its_name(site: Site) -> None:
    site.end(TurnLabel("3 reports, the first of a", is_reports=True))
    assert acknowledged(site.settle()) == ["a", "poison", "b"]
    assert site.stored == [["a"], ["poison"], ["b"]]
    assert site.names[1] == "the report return of poison for job 1"


def test_the_report_that_held_it_is_left_out_named_and_counted_as_long_as_it_is_offered(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.end(TurnLabel("3 reports, the first of a", is_reports=True))
    site.end(turn_of_report(site.board, ret("poison")))
    settled = site.settle()
    assert acknowledged(settled) == ["a", "b"], "it stays with its minion"
    assert settled.rejected == 1
    assert site.stored == [["a"], ["b"]]
    assert "the report return of poison for job 1 is skipped, because it held MWorker-0 for 30 s" in caplog.text
    for _ in range(5):
        site.at += REFUSED_S - 1
        site.stored.clear()
        settled = site.settle()
        assert site.stored == [["a", "b"]], "the others go together again"
        assert (acknowledged(settled), settled.rejected) == (["a", "b"], 1)
    assert site.settle([ret("poison")]) == Settled([], moved=frozenset(), rejected=1)
    assert acknowledged(site.settle([ret("poison", "2")])) == ["poison"], "another job of the same minion"


def test_a_report_that_raises_costs_no_other(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    site.error = KeyError("x")
    assert acknowledged(site.settle()) == ["a", "b"]
    assert site.stored == [["a", "poison", "b"], ["a"], ["poison"], ["b"]]
    assert "a report of poison cannot be stored and is skipped" in caplog.text


def test_a_store_that_fails_has_none_acknowledged(site: Site) -> None:
    site.error = StoreError("full")
    with pytest.raises(StoreError):
        site.settle()
    site.end(TurnLabel("3 reports", is_reports=True))
    with pytest.raises(StoreError):
        site.settle()
