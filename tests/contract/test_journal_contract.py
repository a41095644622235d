"""What every journal must do, on files and on the disk in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from saltlite.errors import JournalError
from saltlite.minion.jobs.journal import DiskJournal, RunCounter
from saltlite.minion.protocol.effects import (
    JOURNAL_COMPACT_BYTES,
    JOURNAL_KEEP_ENTRIES,
    JOURNAL_KEEP_S,
    JOURNAL_MOST_ENTRIES,
    JOURNAL_RECORD_MAX,
    Journal,
    JournalEntry,
    JournalStep,
    Record,
)
from saltlite.minion.protocol.journal_format import HEADER
from saltlite.model.ids import Jid
from saltlite.platform.files import Folder, PosixFolder
from saltlite.testing.disk import JOURNAL_FOLDER, MemoryDisk

NOW = 1_800_000_000_000
OLD = NOW - JOURNAL_KEEP_S * 1000 - 1


def jid(number: int) -> str:
    return f"{20260101000000000000 + number:020d}"


def received(number: int, *, wall_ms: int = NOW, body: bytes = b"body") -> Record:
    fields = {"body": body, "sig": b"s" * 64, "proof": [b"p" * 32], "wall_ms": wall_ms, "deliver_ms": 60_000}
    return Record(JournalStep.RECEIVED, jid(number), fields)


def started(number: int) -> Record:
    return Record(JournalStep.STARTED, jid(number), {"pid": 4711, "ticks": 99, "wall_ms": NOW + 5})


def done(number: int) -> Record:
    return Record(JournalStep.DONE, jid(number))


def acked(number: int) -> Record:
    return Record(JournalStep.ACKED, jid(number))


def refused(number: int) -> Record:
    return Record(JournalStep.REFUSED, jid(number), {"reason": "refused:no"})


def whole_life(number: int, *, wall_ms: int = NOW) -> list[Record]:
    return [received(number, wall_ms=wall_ms, body=b""), started(number), done(number), acked(number)]


@pytest.fixture(params=["files", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    if request.param == "files":
        return PosixFolder(str(tmp_path / "data"))
    return MemoryDisk().folder(JOURNAL_FOLDER)


Opened = Callable[[], tuple[Journal, list[JournalEntry]]]


@pytest.fixture
def reopen(folder: Folder) -> Iterator[Opened]:
    """Opens the journal as the next life of the minion does; incarnations count up."""
    lives: list[DiskJournal] = []

    def again() -> tuple[Journal, list[JournalEntry]]:
        journal = DiskJournal(folder, entropy=lambda n: len(lives).to_bytes(n, "big"))
        lives.append(journal)
        entries = journal.open()
        return journal, entries

    yield again
    for journal in lives:
        journal.close()


def test_runs_are_counted_across_the_lives_of_the_minion(folder: Folder) -> None:
    counter = RunCounter(folder)
    assert [counter.next(), counter.next()] == [1, 2]
    assert RunCounter(folder).next() == 3


@pytest.mark.parametrize("content", [b"", b"many", b"\xff", b"-5"])
def test_a_damaged_number_of_runs_begins_anew(folder: Folder, content: bytes) -> None:
    for name in ("runs", "runs.tmp"):
        folder.create(name).write(content)
    counter = RunCounter(folder)
    assert [counter.next(), RunCounter(folder).next()] == [1, 2]


def test_a_disk_that_takes_no_number_of_runs_costs_only_the_order_of_the_next_life() -> None:
    disk = MemoryDisk()
    folder = disk.folder(JOURNAL_FOLDER)
    assert RunCounter(folder).next() == 1
    disk.capacity = 0
    counter = RunCounter(folder)
    assert [counter.next(), counter.next()] == [2, 3]
    disk.capacity = None
    assert counter.next() == 4
    assert RunCounter(folder).next() == 5


def test_a_new_journal_is_empty_and_has_an_incarnation(reopen: Opened) -> None:
    journal, entries = reopen()
    assert (entries, journal.incarnation, journal.floor, journal.repaired) == ([], f"{1:032x}", "", "")


def test_the_incarnation_stays_as_long_as_the_file(reopen: Opened, folder: Folder) -> None:
    first, _ = reopen()
    second, _ = reopen()
    assert second.incarnation == first.incarnation
    folder.remove("journal")
    third, _ = reopen()
    assert third.incarnation != first.incarnation


def test_a_received_job_comes_back_with_all_that_is_needed_to_start_it(reopen: Opened) -> None:
    journal, _ = reopen()
    journal.append([received(1)])
    journal.sync()
    _, entries = reopen()
    assert entries == [
        JournalEntry(
            jid=Jid(jid(1)),
            step=JournalStep.RECEIVED,
            received_wall_ms=NOW,
            deliver_ms=60_000,
            body=b"body",
            signature=b"s" * 64,
            proof=(b"p" * 32,),
        )
    ]


def test_a_started_job_comes_back_with_its_process_and_its_body(reopen: Opened) -> None:
    journal, _ = reopen()
    journal.append([received(1), started(1)])
    _, [entry] = reopen()
    assert (entry.step, entry.pid, entry.ticks, entry.started_wall_ms, entry.body) == (
        JournalStep.STARTED,
        4711,
        99,
        NOW + 5,
        b"body",
    )


def test_a_finished_job_keeps_no_body_and_no_process(reopen: Opened) -> None:
    journal, _ = reopen()
    journal.append([received(1), started(1), done(1)])
    for entry in (journal.entry(jid(1)), reopen()[1][0]):
        assert entry is not None
        assert (entry.step, entry.body, entry.pid, entry.received_wall_ms) == (JournalStep.DONE, b"", 0, NOW)


def test_a_refusal_keeps_its_reason(reopen: Opened) -> None:
    journal, _ = reopen()
    journal.append([refused(1), received(2), refused(2)])
    _, entries = reopen()
    assert [(entry.jid, entry.step, entry.reason) for entry in entries] == [
        (jid(1), JournalStep.REFUSED, "refused:no"),
        (jid(2), JournalStep.REFUSED, "refused:no"),
    ]


def test_entries_come_back_in_jid_order(reopen: Opened) -> None:
    journal, _ = reopen()
    journal.append([received(3), received(1), received(2)])
    assert [entry.jid for entry in reopen()[1]] == [jid(1), jid(2), jid(3)]


@pytest.mark.parametrize(
    ("before", "bad"),
    [
        ([received(1)], received(1)),
        ([received(1), started(1)], started(1)),
        ([received(1), started(1)], received(1)),
        ([received(1), started(1)], refused(1)),
        ([received(1), started(1), done(1)], started(1)),
        ([received(1), started(1), done(1), acked(1)], started(1)),
        ([refused(1)], received(1)),
        ([], started(1)),
        ([], done(1)),
        ([received(1)], acked(1)),
    ],
)
def test_a_step_never_goes_back_and_never_comes_twice(reopen: Opened, before: list[Record], bad: Record) -> None:
    journal, _ = reopen()
    journal.append(before)
    known = journal.entry(jid(1))
    with pytest.raises(JournalError, match="cannot become"):
        journal.append([bad])
    assert journal.entry(jid(1)) == known
    assert reopen()[1] == ([known] if known else [])


def test_an_ack_ends_a_job_whose_done_record_was_never_written(reopen: Opened) -> None:
    journal, _ = reopen()
    journal.append([received(1), started(1), acked(1)])
    assert reopen()[1][0].step is JournalStep.ACKED


def test_of_several_records_all_are_written_or_none(reopen: Opened) -> None:
    journal, _ = reopen()
    with pytest.raises(JournalError):
        journal.append([received(1), started(2)])
    assert (journal.entry(jid(1)), reopen()[1]) == (None, [])


@pytest.mark.parametrize(
    "fields", [{}, {"pid": "1", "ticks": 1, "wall_ms": 1}, {"pid": 1, "ticks": 1, "wall_ms": 1, "x": 1}]
)
def test_a_record_with_other_fields_than_its_own_is_refused(reopen: Opened, fields: dict[str, object]) -> None:
    journal, _ = reopen()
    journal.append([received(1)])
    with pytest.raises(JournalError, match="has the fields pid, ticks, wall_ms"):
        journal.append([Record(JournalStep.STARTED, jid(1), fields)])


def test_a_record_longer_than_the_limit_is_refused_and_one_at_the_limit_is_not(reopen: Opened) -> None:
    journal, _ = reopen()
    with pytest.raises(JournalError, match=f"at most {JOURNAL_RECORD_MAX} bytes"):
        journal.append([received(1, body=b"x" * JOURNAL_RECORD_MAX)])
    fits = JOURNAL_RECORD_MAX - 190
    journal.append([received(1, body=b"x" * fits)])
    assert len(reopen()[1][0].body) == fits


def test_an_unfinished_record_at_the_end_is_cut_off_and_said(reopen: Opened, folder: Folder) -> None:
    journal, _ = reopen()
    journal.append([received(1)])
    journal.sync()
    size = folder.size("journal")
    journal.append([started(1)])
    shorten(folder, by=7)
    again, entries = reopen()
    assert [entry.step for entry in entries] == [JournalStep.RECEIVED]
    assert f"cut off at byte {size}" in again.repaired
    again.append([started(1)])
    third, entries = reopen()
    assert ([entry.step for entry in entries], third.repaired) == ([JournalStep.STARTED], "")


def test_damage_before_records_that_were_synced_later_stops_the_minion(reopen: Opened, folder: Folder) -> None:
    journal, _ = reopen()
    journal.append([received(1)])
    journal.sync()
    at = folder.size("journal")
    journal.append([started(1)])
    journal.sync()
    journal.append([received(2)])
    journal.sync()
    flip(folder, at + 20)
    with pytest.raises(JournalError, match=f"journal is damaged at byte {at}.*mv .*journal.damaged"):
        reopen()


def test_a_hole_in_what_was_never_synced_is_an_unfinished_write(reopen: Opened, folder: Folder) -> None:
    journal, _ = reopen()
    at = folder.size("journal")
    journal.append([received(1)])
    journal.append([received(2)])
    flip(folder, at + 20)
    again, entries = reopen()
    assert (entries, f"cut off at byte {at}" in again.repaired) == ([], True)


@pytest.mark.parametrize("length", [0, 1, HEADER.size - 1])
def test_a_file_too_short_for_a_journal_is_never_taken_for_a_new_one(
    reopen: Opened, folder: Folder, length: int
) -> None:
    journal, _ = reopen()
    journal.close()
    shorten(folder, by=folder.size("journal") - length)
    with pytest.raises(JournalError, match="damaged at byte 0"):
        reopen()


def test_another_format_is_not_read(reopen: Opened, folder: Folder) -> None:
    reopen()
    flip(folder, 11)
    with pytest.raises(JournalError, match="has format 254, and this saltlite reads format 1"):
        reopen()


def test_the_first_start_leaves_nothing_to_compact_and_the_next_one_does(reopen: Opened) -> None:
    first, _ = reopen()
    assert not first.should_compact()
    first.append([received(1)])
    assert not first.should_compact()
    second, _ = reopen()
    assert second.should_compact()
    second.compact(NOW)
    assert not second.should_compact()


def test_compaction_is_due_above_its_size(reopen: Opened, folder: Folder) -> None:
    journal, _ = reopen()
    number = 0
    while folder.size("journal") <= JOURNAL_COMPACT_BYTES:
        assert not journal.should_compact()
        batch = [received(n, body=bytes(100_000)) for n in range(number, number + 8)]
        journal.append([*batch, *(refused(n) for n in range(number, number + 8))])
        number += 8
    assert journal.should_compact()
    journal.compact(NOW)
    assert folder.size("journal") < JOURNAL_COMPACT_BYTES // 100


def test_compaction_changes_no_job_that_stays(reopen: Opened) -> None:
    journal, _ = reopen()
    journal.append([received(1), received(2), started(2), *whole_life(3), refused(4)])
    journal.append([received(5), started(5), done(5)])
    before = [journal.entry(jid(number)) for number in range(1, 6)]
    journal.compact(NOW)
    assert [journal.entry(jid(number)) for number in range(1, 6)] == before
    journal.append([received(6), started(1)])
    again, entries = reopen()
    assert entries == [journal.entry(jid(number)) for number in range(1, 7)]
    assert (again.incarnation, again.floor) == (journal.incarnation, "")


def test_old_ended_jobs_above_the_number_to_keep_are_forgotten_and_stay_refused(reopen: Opened) -> None:
    journal, _ = reopen()
    spare = 5
    last = JOURNAL_KEEP_ENTRIES + spare
    journal.append([received(0, wall_ms=OLD), started(0)])
    journal.append([r for number in range(1, last) for r in whole_life(number, wall_ms=OLD)])
    journal.compact(NOW)
    again, entries = reopen()
    assert [entry.jid for entry in entries] == [jid(0), *map(jid, range(spare, last))]
    assert again.floor == jid(spare - 1)
    with pytest.raises(JournalError, match="has forgotten"):
        again.append([received(spare - 1)])
    again.append([refused(spare - 1), done(0), received(last)])


def test_what_is_not_old_stays_above_the_number_to_keep(reopen: Opened) -> None:
    journal, _ = reopen()
    last = JOURNAL_KEEP_ENTRIES + 5
    journal.append([r for number in range(last) for r in whole_life(number, wall_ms=OLD + 1)])
    journal.compact(NOW)
    assert (len(reopen()[1]), journal.floor) == (last, "")


def test_a_time_far_in_the_future_was_a_wrong_clock_and_counts_as_old(reopen: Opened) -> None:
    journal, _ = reopen()
    future = NOW + 10 * 365 * 86_400_000
    records = [r for number in range(JOURNAL_KEEP_ENTRIES + 1) for r in whole_life(number, wall_ms=future)]
    journal.append(records)
    journal.compact(NOW)
    assert (len(reopen()[1]), journal.floor) == (JOURNAL_KEEP_ENTRIES, jid(0))


def test_damage_inside_a_rewritten_journal_stops_the_minion(reopen: Opened, folder: Folder) -> None:
    journal, _ = reopen()
    journal.append([*whole_life(1), *whole_life(2)])
    journal.compact(NOW)
    flip(folder, HEADER.size + 20)
    with pytest.raises(JournalError, match=f"damaged at byte {HEADER.size}"):
        reopen()


def test_more_jobs_than_memory_is_for_are_forgotten_however_young(reopen: Opened) -> None:
    journal, _ = reopen()
    young = [record for n in range(JOURNAL_MOST_ENTRIES - 1) for record in (received(n, body=b""), refused(n))]
    journal.append(young)
    journal.append(whole_life(JOURNAL_MOST_ENTRIES))
    journal.append([received(JOURNAL_MOST_ENTRIES + 1)])
    journal.compact(NOW)
    assert (journal.entry(jid(0)), journal.floor) == (None, jid(0))
    assert len(reopen()[1]) == JOURNAL_MOST_ENTRIES


def test_a_rewrite_that_was_interrupted_is_forgotten(reopen: Opened, folder: Folder) -> None:
    journal, _ = reopen()
    journal.append([received(1)])
    folder.create("journal.tmp").write(b"half")
    _, entries = reopen()
    assert ([entry.jid for entry in entries], folder.names()) == ([jid(1)], ["journal"])


def test_a_closed_journal_takes_no_records(reopen: Opened) -> None:
    journal, _ = reopen()
    journal.close()
    with pytest.raises(JournalError, match="closed"):
        journal.append([received(1)])


def shorten(folder: Folder, *, by: int) -> None:
    rewrite(folder, folder.read("journal")[: folder.size("journal") - by])


def flip(folder: Folder, at: int) -> None:
    data = bytearray(folder.read("journal"))
    data[at] ^= 0xFF
    rewrite(folder, bytes(data))


def rewrite(folder: Folder, data: bytes) -> None:
    folder.remove("journal")
    handle = folder.create("journal")
    handle.write(data)
    handle.sync()
    handle.close()
    folder.sync()
