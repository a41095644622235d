"""The job server on a disk that is full or broken: it stays up, says so, enters nothing, and recovers (G4, G6)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from saltlite.minion.jobs import results as room
from saltlite.minion.processes import ipc_messages as inside
from saltlite.minion.protocol.effects import JournalStep
from saltlite.testing.disk import JOURNAL_FOLDER, MemoryDisk
from saltlite.wire.framing import pack
from saltlite.wire.job_body import FunctionCall
from tests.support.job_machine import jid, parcel
from tests.support.jobs import Minion

Start = Callable[[MemoryDisk], Minion]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts job servers on a disk; they are let go at the end."""
    with ExitStack() as stack:

        def begin(disk: MemoryDisk) -> Minion:
            minion = Minion(tmp_path, disk)
            stack.callback(minion.close)
            return minion

        yield begin


def failing(operation: str, number: int) -> Callable[[str], None]:
    def before(name: str) -> None:
        if name == operation:
            raise OSError(number, "No space left on device" if number == errno.ENOSPC else "Input/output error")

    return before


def test_jobs_that_arrive_together_share_one_sync_and_start_after_it(start: Start) -> None:
    minion = start(MemoryDisk())
    done: list[str] = []
    minion.disk.before = done.append
    minion.parcel(parcel(0), parcel(1))
    assert done.count("sync") == 1
    minion.until(lambda: minion.told.result(0) and minion.told.result(1))
    assert done.count("sync") == 1


def test_the_result_of_a_job_is_offered_before_it_is_synced_and_synced_when_no_confirmation_comes(
    start: Start,
) -> None:
    minion = start(MemoryDisk())
    minion.job(0)
    minion.until(lambda: minion.told.result(0))
    assert not minion.spool.is_synced(jid(0))
    minion.until(lambda: minion.spool.is_synced(jid(0)))
    assert minion.spool.jids() == [jid(0)]


REFUSED = ("refused", "the minion's disk is full (No space left on device)")


def test_a_record_that_does_not_fit_refuses_its_job_and_nothing_else(start: Start) -> None:
    minion = start(MemoryDisk(before=failing("reserve", errno.EOPNOTSUPP)))
    minion.disk.capacity = minion.disk.folder(JOURNAL_FOLDER).used() + 100
    minion.job(0)
    minion.job(0)
    assert (minion.told.states(0), minion.failed) == ([REFUSED, REFUSED], [])
    minion.disk.capacity = None
    minion.job(0)
    minion.job(1)
    minion.until(lambda: minion.told.result(1))
    assert minion.told.states(0) == [REFUSED] * 3
    assert (minion.told.result(0), minion.journal.entry(jid(0))) == (None, None)


def test_a_job_of_the_minion_is_refused_after_its_beginner_has_the_jid(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    minion = start(MemoryDisk())
    ended: list[str] = []
    minion.server.own_jobs.ended = ended.append

    def no_process(**_: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(minion.server._pool, "take", no_process)
    begun = minion.server.begin(FunctionCall("test.ping"), origin="schedule a", metadata={}, report=True)
    assert ended == []
    minion.until(lambda: ended == [begun])


def test_without_a_reserve_new_jobs_are_refused_before_anything_is_written_and_taken_again_later(
    start: Start,
) -> None:
    minion = start(MemoryDisk(capacity=1000))
    minion.job(0)
    assert (minion.told.states(0), minion.journal.entry(jid(0))) == ([REFUSED], None)
    minion.disk.capacity = None
    minion.job(1)
    minion.until(lambda: minion.told.result(1))
    entry = minion.journal.entry(jid(1))
    assert entry is not None
    assert entry.step is JournalStep.DONE


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_a_disk_that_fails_stops_the_minion_with_a_sentence_and_enters_nothing(start: Start, operation: str) -> None:
    minion = start(MemoryDisk())
    minion.disk.before = failing(operation, errno.EIO)
    minion.job(0)
    assert f"a {operation} failed: Input/output error; check the disk" in minion.failed[0]
    assert minion.told.result(0) is None
    assert minion.spool.jids() == []


def test_a_result_that_the_disk_does_not_take_is_offered_and_written_later(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "HELD_RETRY_S", 0.02)
    minion = start(MemoryDisk())
    unusable = tmp_path / "spool" / f"{jid(0)}.tmp"
    unusable.mkdir()  # no file can be made under that name, and it cannot be removed as a file
    minion.job(0)
    minion.until(lambda: minion.told.result(0))
    result = minion.told.result(0)
    assert result is not None
    assert (result["state"], result["body"]) == ("returned", b"\xc3")
    minion.job(1)
    assert minion.told.states(1)[0][0] == "refused"
    unusable.rmdir()
    minion.until(lambda: minion.spool.jids() == [jid(0)])
    minion.job(2)
    minion.until(lambda: minion.told.result(2))
    assert minion.failed == []


def test_a_held_result_that_died_with_its_job_server_is_reported_by_the_next(tmp_path: Path, start: Start) -> None:
    disk = MemoryDisk()
    minion = start(disk)
    unusable = tmp_path / "spool" / f"{jid(0)}.tmp"
    unusable.mkdir()
    minion.job(0)
    minion.until(lambda: minion.told.result(0))
    unusable.rmdir()
    again = start(disk)
    again.server.on_batch([pack(inside.ready(1))])
    result = again.told.result(0)
    assert result is not None
    assert (result["state"], result["reason"]) == (
        "interrupted",
        "its result could not be written: Is a directory",
    )
