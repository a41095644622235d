"""What every spool must do, on files and on the disk in memory."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from saltlite.errors import JournalError, UnwrittenError, UsageError
from saltlite.minion.jobs.spool import RESERVE, DiskSpool
from saltlite.minion.protocol.effects import SPOOL_RESERVE, Spool, SpoolEntry
from saltlite.model.job import TERMINAL, TargetState
from saltlite.platform.files import Folder, PosixFolder
from saltlite.testing.disk import SPOOL_FOLDER, MemoryDisk, memory_spool
from saltlite.wire.limits import RETURN_MAX, SPOOL_BYTES, SPOOL_RESULTS

JID = "20260131235959123456"
LATER = "20260131235959123457"


def result(body: bytes = b"\xc3", *, state: TargetState = TargetState.RETURNED) -> SpoolEntry:
    return SpoolEntry(state, 3, body, 1_800_000_000_000, 250, "why")


@pytest.fixture(params=["files", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    if request.param == "files":
        return PosixFolder(str(tmp_path / "data" / "spool"))
    return MemoryDisk().folder(SPOOL_FOLDER)


@pytest.fixture
def spool(folder: Folder) -> Spool:
    opened = DiskSpool(folder)
    opened.open()
    return opened


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_a_result_comes_back_as_it_was_written(spool: Spool, state: TargetState) -> None:
    entry = result(bytes(range(256)), state=state)
    assert spool.write(JID, entry)
    assert spool.read(JID) == entry


def test_the_largest_return_fits(spool: Spool) -> None:
    assert spool.write(JID, result(bytes(RETURN_MAX)))
    assert len(spool.read(JID).body) == RETURN_MAX


def test_the_first_result_of_a_job_stands(spool: Spool) -> None:
    spool.write(JID, result(b"first"))
    assert not spool.write(JID, result(b"second", state=TargetState.TIMED_OUT))
    assert (spool.read(JID).body, spool.usage()[0]) == (b"first", 1)


@pytest.mark.parametrize("state", sorted(set(TargetState) - TERMINAL))
def test_a_job_that_has_not_ended_has_no_result(spool: Spool, state: TargetState) -> None:
    with pytest.raises(JournalError, match="only what has ended"):
        spool.write(JID, result(state=state))
    assert spool.jids() == []


@pytest.mark.parametrize("name", ["", "../journal", "2026", JID + "\n", JID + "/x", "x" * 20])
def test_no_name_is_made_from_what_is_not_a_jid(spool: Spool, name: str) -> None:
    for call in (spool.read, spool.remove, spool.noticed, lambda name: spool.write(name, result())):
        with pytest.raises(UsageError):
            call(name)


def test_results_are_listed_in_jid_order_until_they_are_removed(spool: Spool) -> None:
    spool.write(LATER, result())
    spool.write(JID, result())
    assert spool.jids() == [JID, LATER]
    spool.remove(JID)
    assert spool.jids() == [LATER]


def test_removing_twice_is_no_error_and_counts_once(spool: Spool) -> None:
    spool.write(JID, result())
    spool.remove(JID)
    spool.remove(JID)
    assert spool.usage() == (0, 0)


def test_reading_a_result_that_is_not_there_says_so(spool: Spool) -> None:
    with pytest.raises(JournalError, match=f"{JID}.ret cannot be read: No such file"):
        spool.read(JID)


def test_usage_is_the_number_and_the_bytes_of_the_files(spool: Spool, folder: Folder) -> None:
    spool.write(JID, result(b"x" * 1000))
    spool.write(LATER, result(b""))
    assert spool.usage() == (2, folder.size(f"{JID}.ret") + folder.size(f"{LATER}.ret"))


def test_what_was_there_before_the_start_is_counted(spool: Spool, folder: Folder) -> None:
    spool.write(JID, result())
    again = DiskSpool(folder)
    again.open()
    assert (again.usage(), again.jids()) == (spool.usage(), [JID])


def test_the_result_of_another_process_counts_once_when_it_is_noticed(spool: Spool, folder: Folder) -> None:
    DiskSpool(folder).write(JID, result())
    assert spool.usage() == (0, 0)
    assert spool.noticed(JID)
    assert spool.noticed(JID)
    assert spool.usage() == (1, folder.size(f"{JID}.ret"))


@pytest.mark.parametrize(("said", "syncs"), [(True, 0), (False, 1)])
def test_a_result_that_its_writer_has_told_of_is_not_synced_again(said: bool, syncs: int) -> None:
    disk = MemoryDisk()
    memory_spool(disk).write(JID, result())
    done: list[str] = []
    disk.before = done.append
    assert memory_spool(disk).noticed(JID, reported=said)
    assert done.count("sync folder") == syncs


def test_noticing_a_job_that_left_nothing_says_so(spool: Spool) -> None:
    assert (spool.noticed(JID), spool.usage()) == (False, (0, 0))


def test_listing_finds_results_that_nobody_noticed(spool: Spool, folder: Folder) -> None:
    DiskSpool(folder).write(JID, result())
    assert (spool.jids(), spool.usage()[0]) == ([JID], 1)


def test_the_start_removes_what_dead_writers_left_and_nothing_else(folder: Folder) -> None:
    for name in (f"{JID}.tmp", "notes.txt", f"{LATER}.bad"):
        folder.create(name).close()
    spool = DiskSpool(folder)
    spool.open()
    assert (sorted(folder.names()), spool.usage()) == ([f"{LATER}.bad", "notes.txt", RESERVE], (0, 0))


def test_a_killed_writer_does_not_stop_the_next_one(spool: Spool, folder: Folder) -> None:
    folder.create(f"{JID}.tmp").write(b"half")
    assert spool.write(JID, result(state=TargetState.INTERRUPTED))
    assert spool.read(JID).state is TargetState.INTERRUPTED


def test_every_flipped_byte_is_noticed_and_the_file_put_aside(spool: Spool, folder: Folder) -> None:
    spool.write(JID, result())
    whole = folder.read(f"{JID}.ret")
    version = range(4, 8)
    for at in range(len(whole)):
        if at in version:
            continue
        put(folder, whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(JournalError, match=f"{JID}.ret is damaged.*renamed to {JID}.bad"):
            spool.read(JID)
        assert (spool.jids(), folder.names()) == ([], [f"{JID}.bad"])


def test_a_result_cut_at_any_byte_is_noticed(spool: Spool, folder: Folder) -> None:
    spool.write(JID, result())
    whole = folder.read(f"{JID}.ret")
    for length in range(len(whole)):
        put(folder, whole[:length])
        with pytest.raises(JournalError, match="damaged"):
            spool.read(JID)


def test_a_result_under_the_name_of_another_job_is_damaged(spool: Spool, folder: Folder) -> None:
    spool.write(JID, result())
    folder.rename(f"{JID}.ret", f"{LATER}.ret")
    with pytest.raises(JournalError, match="checksum"):
        spool.read(LATER)


def test_a_result_of_another_format_is_left_where_it_is(spool: Spool, folder: Folder) -> None:
    spool.write(JID, result())
    whole = folder.read(f"{JID}.ret")
    put(folder, whole[:7] + b"\x02" + whole[8:])
    with pytest.raises(JournalError, match="has format 2, and this saltlite reads format 1"):
        spool.read(JID)
    assert spool.jids() == [JID]


class Crowded:
    """A folder that holds `count` results of `size` bytes."""

    def __init__(self, folder: Folder, count: int, size: int) -> None:
        self._folder, self._count, self._size = folder, count, size

    def __getattr__(self, name: str) -> object:
        return getattr(self._folder, name)

    def names(self) -> list[str]:
        return [f"{number:020d}.ret" for number in range(self._count)]

    def size(self, name: str) -> int:
        return self._size


@pytest.mark.parametrize(
    ("count", "size", "room"),
    [
        (SPOOL_RESULTS - 1, 1, True),
        (SPOOL_RESULTS, 1, False),
        (2, SPOOL_BYTES // 2 - 1, True),
        (2, SPOOL_BYTES // 2, False),
    ],
)
def test_there_is_room_below_both_limits_only(count: int, size: int, *, room: bool) -> None:
    spool = DiskSpool(Crowded(MemoryDisk().folder(SPOOL_FOLDER), count, size))  # type: ignore[arg-type]  # __getattr__ has the rest
    spool.open()
    assert (spool.usage(), spool.has_room()) == ((count, count * size), room)


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync folder"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_write_that_fails_says_so_and_can_be_done_again(operation: str, number: int) -> None:
    disk = MemoryDisk()
    spool = memory_spool(disk)
    spool.open()
    disk.before = failing(operation, number, times=2)  # a full disk is tried once more, without the reserve
    with pytest.raises(UnwrittenError, match=f"result of job {JID} cannot be kept in {SPOOL_FOLDER}"):
        spool.write(JID, result())
    disk.before = lambda _: None
    assert (spool.jids(), spool.usage(), set(disk.folder(SPOOL_FOLDER).names()) - {RESERVE}) == ([], (0, 0), set())
    assert spool.write(JID, result(b"again"))
    disk.crash()
    assert memory_spool(disk).read(JID).body == b"again"


def test_a_full_disk_keeps_the_results_that_it_has() -> None:
    disk = MemoryDisk()
    spool = memory_spool(disk)
    spool.write(JID, result(b"kept"))
    disk.capacity = disk.folder(SPOOL_FOLDER).used() + 20
    with pytest.raises(JournalError, match="make room"):
        spool.write(LATER, result())
    disk.crash()
    assert (memory_spool(disk).jids(), spool.read(JID).body) == ([JID], b"kept")


class PowerCutError(Exception):
    """Raised in the middle of an operation: nothing of the program runs after it."""


@pytest.mark.parametrize("names_landed", [False, True])
def test_a_result_is_whole_or_absent_wherever_the_power_fails(*, names_landed: bool) -> None:
    for step in range(20):
        disk = MemoryDisk()
        left = step

        def before(_: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PowerCutError

        disk.before = before
        written = False
        with suppress(PowerCutError):
            written = memory_spool(disk).write(JID, result(b"x" * 100))
        disk.before = lambda _: None
        disk.crash(tear=lambda tail: tail[: len(tail) // 2], names_landed=names_landed)
        spool = memory_spool(disk)
        spool.open()
        found = [spool.read(jid).body for jid in spool.jids()]
        assert found in ([[b"x" * 100]] if written else [[], [b"x" * 100]])
        if written:
            assert step > 4
            return
    pytest.fail("the write never came to its end")


@pytest.mark.parametrize("ask", ["noticed", "write", "open"])
def test_the_result_of_a_writer_killed_after_its_rename_is_on_disk_once_it_was_seen(ask: str) -> None:
    disk = MemoryDisk()
    disk.before = cut_before("sync folder")
    with pytest.raises(PowerCutError):
        memory_spool(disk).write(JID, result(b"mine"))
    disk.before = lambda _: None
    spool = memory_spool(disk)
    calls: dict[str, Callable[[], object]] = {
        "noticed": lambda: spool.noticed(JID),
        "write": lambda: spool.write(JID, result(b"other")),
        "open": spool.open,
    }
    calls[ask]()
    disk.crash()
    assert memory_spool(disk).read(JID).body == b"mine"


def cut_before(operation: str) -> Callable[[str], None]:
    def before(name: str) -> None:
        if name == operation:
            raise PowerCutError

    return before


def test_a_full_disk_takes_a_result_in_the_reserve_and_the_spool_is_full_until_it_is_there_again() -> None:
    disk = MemoryDisk()
    spool = memory_spool(disk)
    spool.open()
    disk.capacity = SPOOL_RESERVE
    assert spool.full() == ""
    assert memory_spool(disk).write(JID, result(b"x" * 1000))
    assert spool.full() == "No space left on device"
    disk.capacity = 2 * SPOOL_RESERVE
    assert (spool.full(), spool.read(JID).body) == ("", b"x" * 1000)


def test_a_result_that_the_reserve_does_not_hold_is_not_kept_and_says_why() -> None:
    disk = MemoryDisk(capacity=SPOOL_RESERVE)
    spool = memory_spool(disk)
    spool.open()
    with pytest.raises(UnwrittenError) as refused:
        spool.write(JID, result(bytes(SPOOL_RESERVE)))
    assert (refused.value.why, spool.jids()) == ("No space left on device", [])


def test_where_nothing_can_be_set_aside_the_spool_is_not_full() -> None:
    disk = MemoryDisk(before=failing("reserve", errno.EOPNOTSUPP))
    spool = memory_spool(disk)
    spool.open()
    assert spool.full() == ""


def failing(operation: str, number: int, times: int = 1) -> Callable[[str], None]:
    """Fails that operation so many times."""
    left = times

    def before(name: str) -> None:
        nonlocal left
        if name == operation and left:
            left -= 1
            raise OSError(number, "injected")

    return before


def put(folder: Folder, data: bytes) -> None:
    for name in folder.names():
        folder.remove(name)
    handle = folder.create(f"{JID}.ret")
    handle.write(data)
    handle.close()


# -- results that are written without a sync


def test_a_result_without_a_sync_is_read_listed_counted_and_removed_like_any_other(folder: Folder) -> None:
    assert DiskSpool(folder).write(JID, result(b"mine"), sync=False)
    spool = DiskSpool(folder)
    assert spool.noticed(JID, reported=True)
    assert (spool.read(JID).body, spool.jids(), spool.usage()[0]) == (b"mine", [JID], 1)
    assert not spool.write(JID, result(b"other"))
    spool.remove(JID)
    assert (spool.jids(), spool.usage(), folder.names()) == ([], (0, 0), [])


def test_a_result_without_a_sync_costs_none_from_its_writing_to_its_removal() -> None:
    disk = MemoryDisk()
    done: list[str] = []
    disk.before = done.append
    memory_spool(disk).write(JID, result(), sync=False)
    spool = memory_spool(disk)
    assert spool.noticed(JID, reported=True)
    assert not spool.is_synced(JID)
    spool.read(JID)
    spool.remove(JID)
    assert spool.sync([JID]) == {}
    assert not {"sync", "sync folder"} & set(done)


def test_results_that_are_synced_later_share_the_sync_of_the_folder() -> None:
    disk = MemoryDisk()
    spool = memory_spool(disk)
    for jid in (JID, LATER):
        spool.write(jid, result(jid.encode()), sync=False)
    done: list[str] = []
    disk.before = done.append
    assert spool.sync([JID, LATER]) == {}
    assert (done.count("sync"), done.count("sync folder")) == (2, 1)
    assert spool.is_synced(JID)
    disk.crash()
    assert [memory_spool(disk).read(jid).body for jid in (JID, LATER)] == [JID.encode(), LATER.encode()]


@pytest.mark.parametrize("landed", ["nothing", "half", "all"])
def test_what_a_power_failure_left_of_a_result_without_a_sync_is_whole_or_gone(landed: str) -> None:
    disk = MemoryDisk()
    memory_spool(disk).write(JID, result(b"x" * 100), sync=False)
    kept = {"nothing": 0, "half": 60, "all": 1000}[landed]
    disk.crash(tear=lambda tail: tail[:kept], names_landed=True)
    spool = memory_spool(disk)
    spool.open()
    assert spool.jids() == ([JID] if landed == "all" else [])
    assert not [name for name in disk.folder(SPOOL_FOLDER).names() if name.endswith((".bad", ".new"))]
    disk.crash()
    assert memory_spool(disk).jids() == spool.jids()


@pytest.mark.parametrize("operation", ["reopen", "sync", "rename", "sync folder"])
def test_a_sync_that_fails_says_why_and_the_result_can_still_be_read(operation: str) -> None:
    disk = MemoryDisk()
    spool = memory_spool(disk)
    spool.write(JID, result(b"mine"), sync=False)
    disk.before = failing(operation, errno.EIO)
    assert spool.sync([JID]) == {JID: "injected"}
    assert spool.read(JID).body == b"mine"


def test_a_result_is_synced_in_place_without_the_job_server_and_nothing_happens_when_it_is_gone() -> None:
    disk = MemoryDisk()
    writer, reader = memory_spool(disk), memory_spool(disk)
    writer.write(JID, result(b"mine"), sync=False)
    assert reader.noticed(JID, reported=True)
    writer.sync_in_place(JID)
    writer.sync_in_place(LATER)
    assert reader.read(JID).body == b"mine"
    disk.crash()
    again = memory_spool(disk)
    again.open()
    assert (again.jids(), again.is_synced(JID)) == ([JID], True)
