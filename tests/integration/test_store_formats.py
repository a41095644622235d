"""Stores that an older saltlite wrote."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from saltlite.errors import StoreError
from saltlite.master.store.ports import Standing, TargetRow
from saltlite.master.store.reader import Values
from saltlite.master.store.sqlite import SqliteStore, connection
from saltlite.model.ids import MinionId, jid_at
from saltlite.model.job import JobFilter, TargetOutcome, TargetState

FOLDER = Path(__file__).parent
OLDER = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)


@pytest.fixture(params=OLDER)
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def path(tmp_path: Path, version: int) -> str:
    """A store that a saltlite of that time wrote."""
    found = str(tmp_path / "store.db")
    raw = sqlite3.connect(found)
    raw.executescript((FOLDER / f"store_format_{version}.sql").read_text())
    raw.close()
    return found


def test_a_store_of_an_older_format_is_brought_to_this_one_with_all_that_it_holds(path: str, version: int) -> None:
    before = Path(path).read_bytes()
    for _ in range(2):
        store = SqliteStore(path)
        found = store.job(jid_at(1_800_000_000_000_000))
        assert found is not None
        assert (found.fun, found.minions[0], found.body, found.origin) == ("test.ping", "web1", b"body", "")
        assert found.resources == {}
        outcomes = [str(detail.outcome) for detail in store.target_details(found.jid)]
        assert outcomes == ["ok", "failed", "ok", "failed", "open"]
        failed = JobFilter(outcome=TargetOutcome.FAILED, before=jid_at(1_800_000_000_000_002))
        assert [job.jid for job in store.jobs(failed, 5)] == [found.jid]
        assert [job.jid for job in store.jobs(JobFilter(outcome=TargetOutcome.OPEN, minion="web5"), 5)] == [found.jid]
        assert [one.id for one in store.returns(found.jid)] == ["web1", "web2", "web3"]
        assert (store.functions("d1") is None) is (version == 1), "names alone: their minion is asked for signatures"
        web1 = store.minion(MinionId("web1"))
        assert (web1 is not None, web1 and web1.end_reason) == (True, "")
        assert not store.cancelled([found.jid])
        store.close()
    copy = Path(f"{path}.format-{version}")
    assert copy.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(copy)) as kept, closing(sqlite3.connect(":memory:")) as wrote:
        wrote.deserialize(before)
        assert list(kept.iterdump()) == list(wrote.iterdump()), "whoever goes back finds what it left"


@pytest.mark.parametrize("version", [10])
def test_without_room_for_a_copy_a_store_is_brought_to_this_format_and_the_log_says_so(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("os.statvfs", lambda _path: os.statvfs_result((4096, 4096, 100, 9, 9, 100, 100, 100, 0, 255)))
    SqliteStore(path).close()
    assert not Path(f"{path}.format-10").exists()
    assert "to format 11 without a copy of it" in caplog.text


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6, 7, 8, 9, 10])
def test_jobs_that_are_open_in_an_older_store_are_handed_over_from_it(path: str) -> None:
    store = SqliteStore(path)
    batch = jid_at(1_800_000_000_000_001)
    web1, web5 = MinionId("web1"), MinionId("web5")
    assert store.unsettled(web1) == [(batch, TargetState.QUEUED)]
    (one,) = store.open_jobs(web1, [batch])
    assert (one.part, one.minions, one.resources_here, one.created_at) == (batch, ("web1", "web2"), (), 1_800_000_005.0)
    assert store.open_parts(jid_at(1_800_000_000_000_000)) == [(jid_at(1_800_000_000_000_000), web5)]
    assert store.cancelled([batch]) == {batch}
    store.close()


@pytest.mark.parametrize("version", [4])
def test_join_tokens_of_an_older_store_are_void_and_the_log_says_so(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(path)
    assert store.token("k3f9aaaa") is None
    store.close()
    SqliteStore(path).close()
    said = [record.getMessage() for record in caplog.records if "is a copy of it" not in record.getMessage()]
    assert said == ["1 join tokens of an older saltlite are revoked: make new ones with `saltlite key token create`"]


def test_arguments_of_jobs_of_an_older_store_are_looked_at_when_these_have_ended(path: str) -> None:
    store = SqliteStore(path)
    made = [jid_at(1_800_000_000_000_000), jid_at(1_800_000_000_000_001)]
    jids = [jid for jid in made if store.job(jid) is not None]
    assert jids
    assert store.reducible(10) == []
    with store.write() as tx:
        for jid in jids:
            ended = [TargetRow(row.id, TargetState.LOST, "", 1.0) for row in store.targets(jid)]
            tx.set_targets([(jid, row) for row in ended])
    assert [jid for jid, _body in store.reducible(10)] == jids
    store.close()


@pytest.mark.parametrize("version", [8])
def test_large_jobs_of_an_older_store_are_counted_and_their_changes_are_told(path: str) -> None:
    store = SqliteStore(path)
    jid = jid_at(1_800_000_000_000_002)
    assert store.open_targets(jid) == 67
    assert store.standing(jid, 0.0, 1e11, 1e11) == Standing(3, 64, 1_800_000_003.0, "app003")
    news = store.news(jid, 0, 10)
    told = [(row.id, str(row.state)) for row in news.moved]
    running, refused, timed_out = ("app002", "running"), ("app003", "refused"), ("app004", "timed_out")
    assert told == [("app000", "queued"), ("app001", "queued"), running, refused, timed_out]
    with store.write() as tx:
        tx.set_targets([(jid, TargetRow("app002", TargetState.RETURNED, "", 1_800_000_009.0))])
        tx.set_targets([(jid, TargetRow("app005", TargetState.QUEUED, "", 1_800_000_009.0))])
        tx.set_targets([(jid, TargetRow("app006", TargetState.QUEUED, "", 1_800_000_009.0))])
    assert store.open_targets(jid) == 66
    assert [row.id for row in store.news(jid, 0, 10, moves=news.moves).moved] == ["app006"]
    store.close()


def test_an_older_store_has_the_tables_of_a_new_one_afterwards(path: str, tmp_path: Path) -> None:
    SqliteStore(path).close()
    SqliteStore(str(tmp_path / "new.db")).close()
    assert tables_of(path) == tables_of(str(tmp_path / "new.db"))


def tables_of(path: str) -> dict[str, list[str]]:
    """Words of the statements that made what is in the file; SQLite quotes names that it changed."""
    raw = sqlite3.connect(path)
    rows = raw.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    raw.close()
    return {name: sorted(re.findall(r"\w+", sql)) for name, sql in rows}


@pytest.mark.parametrize(
    ("version", "last"),
    [
        (1, "ALTER TABLE returns"),
        (1, "INSERT INTO job_targets"),
        (2, "ALTER TABLE returns"),
        (2, "INSERT INTO job_targets"),
        (2, "CREATE INDEX auth_tokens"),
        (3, "CREATE INDEX auth_tokens"),
        (4, "CREATE TABLE tokens"),
        (5, "INSERT INTO job_arguments"),
        (6, "CREATE INDEX job_targets_moved"),
        (7, "CREATE UNIQUE INDEX keys_holder_any_case"),
        (8, "INSERT INTO job_counts"),
        (9, "ALTER TABLE minions ADD COLUMN handshake"),
    ],
)
def test_an_older_store_on_a_full_disk_stays_what_it_was(
    path: str, version: int, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = sqlite3.connect(path)
    before = list(raw.iterdump())
    real = connection.SqliteConnection.run

    def full(self: connection.SqliteConnection, sql: str, values: Values = ()) -> int:
        if sql.startswith(last):
            raise StoreError("no space left")
        return real(self, sql, values)

    monkeypatch.setattr(connection.SqliteConnection, "run", full)
    with pytest.raises(StoreError, match="no space left"):
        SqliteStore(path)
    assert list(raw.iterdump()) == before
    assert raw.execute("PRAGMA user_version").fetchone() == (version,)
    raw.close()
