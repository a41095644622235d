"""A commit is on the disk before `write()` ends. Others do not wait for that, and do not tell of it too early."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saltlite.errors import StoreError
from saltlite.master.store.sqlite import SqliteStore
from saltlite.model.job import Job, JobFilter, part_id
from tests.support.store import NOW, WEB1, commit, job, publish, ret

LOG = "store.db-wal"


class Disk:
    """Stands in for the disk: notes what is synced, and does something else before the sync is over."""

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.meanwhile: Callable[[], object] | None = None

    def fdatasync(self, fd: int) -> None:
        self.synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(os, "fdatasync", disk.fdatasync)
    return disk


@pytest.fixture
def pair(tmp_path: Path, disk: Disk) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    """Two stores of the same file, as two MWorkers have them."""
    path = str(tmp_path / "store.db")
    one, other = SqliteStore(path), SqliteStore(path)
    disk.synced.clear()
    yield one, other
    one.close()
    other.close()


def test_a_commit_is_synced_before_write_ends_and_after_the_lock_is_free(
    pair: tuple[SqliteStore, SqliteStore], disk: Disk, tmp_path: Path
) -> None:
    def lock() -> None:
        with (tmp_path / "store.db.lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        publish(pair[1], job(2))

    disk.meanwhile = lock
    publish(pair[0], job(1))
    assert disk.synced == [LOG, LOG]
    assert [event.seq for event in pair[0].events()] == [1, 2]
    with pair[0].write() as tx:
        assert tx.jid_taken(job(1).jid)
    assert disk.synced == [LOG, LOG]  # it changed nothing


def test_an_event_is_not_read_before_it_is_on_the_disk(pair: tuple[SqliteStore, SqliteStore], disk: Disk) -> None:
    """After a power failure another event would get its number, and be missed by whoever has read that far."""
    one, other = pair
    seen: list[object] = []
    disk.meanwhile = lambda: seen.extend((other.events(), other.last_seq(), other.seq_before(0.0)))
    with one.write() as tx:
        tx.put_event("salt/x", {}, NOW)
    assert seen == [[], 0, 0]
    assert [event.tag for event in other.events()] == ["salt/x"]
    assert (other.last_seq(), other.seq_before(0.0)) == (1, 0)


def write_nothing(store: SqliteStore, wanted: Job) -> None:
    with store.write() as tx:
        assert tx.job_of_request(wanted.request_id, wanted.uid) == wanted.jid


READS: dict[str, Callable[[SqliteStore, Job], object]] = {
    "a job": lambda store, of: store.job(of.jid),
    "the job of a request": lambda store, of: store.job_of_request(of.request_id, of.uid),
    "the job of a request, in a transaction": write_nothing,
    "a summary": lambda store, of: store.job_summary(of.jid),
    "the list": lambda store, _of: store.jobs(JobFilter(), 5),
    "what a minion has to do": lambda store, of: store.open_jobs(WEB1, [part_id(of.jid, 0)]),
}


@pytest.mark.parametrize("what", READS)
def test_who_reads_a_job_before_it_is_on_the_disk_syncs_it(
    pair: tuple[SqliteStore, SqliteStore], disk: Disk, what: str
) -> None:
    """A job id that was printed, or a job that was delivered, survives a power failure (G1, G2)."""
    one, other = pair
    publish(one, job(1))
    disk.synced.clear()
    READS[what](other, job(1))
    assert disk.synced == []
    disk.meanwhile = lambda: READS[what](other, job(2))
    publish(one, job(2))
    assert disk.synced == [LOG, LOG]


@pytest.mark.parametrize(
    "read",
    [
        lambda store: store.returns(job(1).jid),
        lambda store: store.news(job(1).jid, 0, 5),
        lambda store: store.one_return(job(1).jid, WEB1),
        lambda store: store.equal_returns(job(1).jid, 1000),
    ],
)
def test_who_reads_a_result_before_it_is_on_the_disk_syncs_it(
    pair: tuple[SqliteStore, SqliteStore], disk: Disk, read: Callable[[SqliteStore], object]
) -> None:
    one, other = pair
    publish(one, job(1))
    disk.synced.clear()
    disk.meanwhile = lambda: read(other)
    commit(one, ret(job(1), WEB1))
    assert disk.synced == [LOG, LOG]
    read(other)
    assert disk.synced == [LOG, LOG]


def test_what_a_process_committed_before_it_was_killed_is_synced_by_the_next_one(
    pair: tuple[SqliteStore, SqliteStore], disk: Disk, tmp_path: Path
) -> None:
    one, other = pair

    def killed() -> None:
        raise SystemExit

    disk.meanwhile = killed
    with pytest.raises(SystemExit):
        publish(one, job(1))
    assert other.events() == []
    SqliteStore(str(tmp_path / "store.db")).close()
    assert len(other.events()) == 1
    assert disk.synced == [LOG, LOG]


def test_events_of_a_process_that_was_killed_are_not_hidden_twice(
    pair: tuple[SqliteStore, SqliteStore], disk: Disk
) -> None:
    one, other = pair

    def killed() -> None:
        raise SystemExit

    disk.meanwhile = killed
    with pytest.raises(SystemExit):
        publish(one, job(1))
    assert (other.events(), len(other.events())) == ([], 1)
    assert disk.synced == [LOG, LOG]


def test_after_a_sync_that_failed_the_log_is_written_into_the_file(
    pair: tuple[SqliteStore, SqliteStore], disk: Disk, tmp_path: Path
) -> None:
    """The kernel reports a failure once, so a sync of the log that succeeds later proves nothing."""
    one, other = pair

    def fail() -> None:
        raise OSError(errno.EIO, "Input/output error")

    disk.meanwhile = fail
    with pytest.raises(StoreError, match=r"could not read or write .*Input/output error.*check the disk"):
        publish(one, job(1))
    assert other.events() == []
    with pytest.raises(StoreError, match="an earlier sync failed"):
        other.job(job(1).jid)
    log = tmp_path / LOG
    before = log.stat().st_size
    publish(other, job(2))
    assert [event.seq for event in one.events()] == [1, 2]
    assert one.job(job(1).jid) is not None
    assert log.stat().st_size < before
