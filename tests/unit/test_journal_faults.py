"""The journal on a disk that is full, that fails, or that loses its power: what was promised stays true."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from saltlite.errors import JournalError, UnwrittenError
from saltlite.minion.protocol.effects import JOURNAL_KEEP_ENTRIES, JOURNAL_KEEP_S, JOURNAL_RESERVE, JournalStep, Record
from saltlite.testing.disk import JOURNAL_FOLDER, MemoryDisk, MemoryHandle, memory_journal

NOW = 1_800_000_000_000
OLD = NOW - JOURNAL_KEEP_S * 1000 - 1


def jid(number: int) -> str:
    return f"{20260101000000000000 + number:020d}"


def received(number: int) -> Record:
    fields = {"body": b"body", "sig": b"s", "proof": [], "wall_ms": OLD, "deliver_ms": 60_000}
    return Record(JournalStep.RECEIVED, jid(number), fields)


def started(number: int) -> Record:
    return Record(JournalStep.STARTED, jid(number), {"pid": 4711, "ticks": 99, "wall_ms": OLD})


def whole_life(number: int) -> list[Record]:
    return [
        received(number),
        started(number),
        Record(JournalStep.DONE, jid(number)),
        Record(JournalStep.ACKED, jid(number)),
    ]


def failing(operation: str, number: int) -> Callable[[str], None]:
    def before(name: str) -> None:
        if name == operation:
            raise OSError(number, "injected")

    return before


def test_after_a_failed_sync_nothing_is_believed() -> None:
    disk = MemoryDisk()
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    journal.append([received(1)])
    disk.before = failing("sync", errno.EIO)
    with pytest.raises(JournalError, match="sync failed"):
        journal.sync()
    disk.before = lambda _: None
    for call in (journal.sync, lambda: journal.append([received(2)]), lambda: journal.compact(NOW)):
        with pytest.raises(JournalError, match="because a sync failed"):
            call()


def without_reserve() -> MemoryDisk:
    """A disk whose file system sets nothing aside, with 10 bytes left beside an empty journal."""
    disk = MemoryDisk(before=failing("reserve", errno.EOPNOTSUPP))
    memory_journal(disk, entropy=bytes).open()
    disk.capacity = disk.folder(JOURNAL_FOLDER).used() + 10
    return disk


def test_a_full_disk_refuses_the_record_and_spoils_nothing() -> None:
    disk = without_reserve()
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    disk.capacity = None
    journal.append([received(1)])
    disk.capacity = disk.folder(JOURNAL_FOLDER).used() + 10
    with pytest.raises(UnwrittenError, match="No space left") as refused:
        journal.append([started(1)])
    assert refused.value.why == "No space left on device"
    disk.capacity = None
    journal.append([received(2)])
    entries = memory_journal(disk, entropy=bytes).open()
    assert [(entry.jid, entry.step) for entry in entries] == [
        (jid(1), JournalStep.RECEIVED),
        (jid(2), JournalStep.RECEIVED),
    ]


def test_what_becomes_of_taken_jobs_is_written_on_a_full_disk_and_no_new_job_is_taken() -> None:
    disk = MemoryDisk()
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    disk.capacity = 0
    written = 0
    while not journal.full():
        written += 1
        journal.append([received(written)])
    journal.append([record for number in range(1, 101) for record in whole_life(number)[1:]])
    journal.sync()
    disk.crash()
    entries = memory_journal(disk, entropy=bytes).open()
    assert [entry.step for entry in entries[:100]] == [JournalStep.ACKED] * 100
    assert len(entries) == written > 100


def test_a_disk_that_has_room_again_is_noticed_by_asking() -> None:
    disk = MemoryDisk(capacity=JOURNAL_RESERVE // 2)
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    assert journal.full() == "No space left on device"
    disk.capacity = 10 * JOURNAL_RESERVE
    assert journal.full() == ""


def test_where_nothing_can_be_set_aside_jobs_are_taken_all_the_same() -> None:
    disk = MemoryDisk(before=failing("reserve", errno.EOPNOTSUPP))
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    journal.append(whole_life(1))
    assert journal.full() == ""


def test_a_disk_that_fails_in_another_way_ends_the_journal_at_once() -> None:
    disk = MemoryDisk()
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    disk.before = failing("write", errno.EIO)
    with pytest.raises(JournalError, match="a write failed"):
        journal.append([received(1)])
    disk.before = lambda _: None
    with pytest.raises(JournalError, match="because a write failed: injected; check the disk"):
        journal.append([received(1)])


def test_a_cut_that_did_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = without_reserve()
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    monkeypatch.setattr(MemoryHandle, "truncate", lambda *_: None)
    with pytest.raises(JournalError, match="10 bytes of an unfinished record"):
        journal.append([received(1)])


def test_a_journal_that_cannot_remove_half_a_record_takes_no_more() -> None:
    disk = without_reserve()
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    disk.before = failing("truncate", errno.EIO)
    with pytest.raises(JournalError, match="unfinished record"):
        journal.append([received(1)])
    disk.capacity, disk.before = None, lambda _: None
    with pytest.raises(JournalError, match="takes no records"):
        journal.append([received(1)])


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename"])
def test_a_rewrite_that_fails_leaves_the_journal_as_it_was(operation: str) -> None:
    disk = MemoryDisk()
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    journal.append([received(1)])
    disk.before = failing(operation, errno.ENOSPC)
    with pytest.raises(JournalError, match="used as it was"):
        journal.compact(NOW)
    disk.before = lambda _: None
    journal.append([started(1)])
    journal.sync()
    disk.crash()
    [entry] = memory_journal(disk, entropy=bytes).open()
    assert (entry.step, disk.folder(JOURNAL_FOLDER).names()) == (JournalStep.STARTED, ["journal"])


def test_a_rewrite_that_fails_forgets_no_job() -> None:
    disk = MemoryDisk()
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    journal.append([r for number in range(JOURNAL_KEEP_ENTRIES + 1) for r in whole_life(number)])
    disk.before = failing("rename", errno.EIO)
    with pytest.raises(JournalError):
        journal.compact(NOW)
    known = journal.entry(jid(0))
    assert (journal.floor, known and known.step) == ("", JournalStep.ACKED)


def test_a_rewrite_that_failed_is_not_tried_again_at_once() -> None:
    disk = MemoryDisk()
    memory_journal(disk, entropy=bytes).open()
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    journal.append([received(1)])
    assert journal.should_compact()
    disk.before = failing("write", errno.ENOSPC)
    with pytest.raises(JournalError):
        journal.compact(NOW)
    assert not journal.should_compact()


def test_a_journal_whose_new_name_may_be_lost_takes_no_more_records() -> None:
    disk = MemoryDisk()
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    disk.before = failing("sync folder", errno.EIO)
    with pytest.raises(JournalError, match="folder could not be synced"):
        journal.compact(NOW)
    disk.before = lambda _: None
    with pytest.raises(JournalError, match="takes no records"):
        journal.append([received(1)])


def test_what_a_killed_process_wrote_is_on_disk_once_it_was_read() -> None:
    disk = MemoryDisk()
    journal = memory_journal(disk, entropy=bytes)
    journal.open()
    journal.append([received(1), started(1)])  # and killed before the sync
    memory_journal(disk, entropy=bytes).open()
    disk.crash()
    [entry] = memory_journal(disk, entropy=bytes).open()
    assert entry.step is JournalStep.STARTED


class PowerCutError(Exception):
    """Raised in the middle of an operation: nothing of the program runs after it."""


@pytest.mark.parametrize("names_landed", [False, True])
@pytest.mark.parametrize("landed", [0.0, 0.4, 1.0])
def test_no_synced_record_is_lost_wherever_the_power_fails(landed: float, *, names_landed: bool) -> None:
    for step in range(1, 1000):
        disk, synced, appended = MemoryDisk(), 0, 0
        left = step

        def before(_: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerCutError

        disk.before = before
        journal = memory_journal(disk, entropy=bytes)
        finished = False
        try:
            journal.open()
            for number in range(3):
                for record in whole_life(number):
                    appended += 1
                    journal.append([record])
                    journal.sync()
                    synced = appended
                journal.compact(NOW)
            finished = True
        except PowerCutError:
            pass
        disk.before = lambda _: None
        disk.crash(tear=lambda tail: tail[: int(len(tail) * landed)], names_landed=names_landed)
        entries = memory_journal(disk, entropy=bytes).open()
        steps = [JournalStep.RECEIVED, JournalStep.STARTED, JournalStep.DONE, JournalStep.ACKED]
        count = sum(steps.index(entry.step) + 1 for entry in entries)
        assert synced <= count <= appended
        if finished:
            assert step > 30
            return
    pytest.fail("the scenario never came to its end")
