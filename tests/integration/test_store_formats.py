"""Stores that an older saltlite wrote."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from saltlite.adapters.sqlite_store import SqliteStore, connection
from saltlite.errors import StoreError
from saltlite.model.history import JobFilter, Outcome
from saltlite.model.ids import MinionId, jid_at

FORMAT_1 = Path(__file__).parent / "store_format_1.sql"


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


def test_a_store_of_format_1_is_brought_to_this_one_with_all_that_it_holds(path: str) -> None:
    raw = sqlite3.connect(path)
    raw.executescript(FORMAT_1.read_text())
    raw.close()
    for _ in range(2):
        store = SqliteStore(path)
        found = store.job(jid_at(1_800_000_000_000_000))
        assert found is not None
        assert (found.fun, found.minions[0], found.body, found.origin) == ("test.ping", "web1", b"body", "")
        outcomes = [str(detail.outcome) for detail in store.target_details(found.jid)]
        assert outcomes == ["ok", "failed", "ok", "failed", "open"]
        assert [job.jid for job in store.jobs(JobFilter(outcome=Outcome.FAILED), 5)] == [found.jid]
        assert len(store.returns(found.jid)) == 3
        assert store.functions("d1") is None, "its minion is asked for the signatures"
        assert store.minion(MinionId("web1")) is not None
        assert not store.cancelled([found.jid])
        store.close()


def test_a_store_of_format_1_on_a_full_disk_stays_what_it_was(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = sqlite3.connect(path)
    raw.executescript(FORMAT_1.read_text())
    before = list(raw.iterdump())
    real = connection.Connection.run

    def full(self: connection.Connection, sql: str, values: connection.Values = ()) -> int:
        if sql.startswith("DROP TABLE functions"):
            raise StoreError("no space left")
        return real(self, sql, values)

    monkeypatch.setattr(connection.Connection, "run", full)
    with pytest.raises(StoreError, match="no space left"):
        SqliteStore(path)
    assert list(raw.iterdump()) == before
    assert raw.execute("PRAGMA user_version").fetchone() == (1,)
    raw.close()
