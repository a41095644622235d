"""The cache banks on a real disk: other processes, damage, a full disk, a killed writer."""

from __future__ import annotations

import os
import resource
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from saltlite.errors import StoreError
from saltlite.master.store.banks import FEED_FILE, BankFeed, LocalBank, LocalBanks
from saltlite.targeting.banks import GRAINS_MAX, ValueLimits


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[LocalBank]:
    opened = opened_at(tmp_path)
    yield opened
    opened.close()


def opened_at(folder: Path, *, feed_max: int = 1 << 20) -> LocalBank:
    return LocalBank(f"{folder}/bank", ValueLimits(GRAINS_MAX), feed_max=feed_max)


def file_of(folder: Path, name: str) -> Path:
    return folder / "bank" / name


def in_a_child(work: Callable[[], None]) -> int:
    """Start a process that runs `work` and ends: its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - the exit code says it
            os._exit(1)
        os._exit(0)
    return pid


def test_nobody_else_can_read_what_is_cached(tmp_path: Path) -> None:
    banks = LocalBanks(str(tmp_path))
    banks.bank("pillar").put("m", {"password": "secret"})
    banks.close()
    for found in (tmp_path / "banks").rglob("*"):
        assert stat.S_IMODE(found.stat().st_mode) in ({0o700, 0o600}), found
        assert found.is_dir() or stat.S_IMODE(found.stat().st_mode) == 0o600


@pytest.mark.parametrize("keep", [0, 3, 79, 80, 90, -1])
def test_a_value_that_was_cut_off_is_none_is_kept_aside_and_can_be_put_again(
    tmp_path: Path, bank: LocalBank, keep: int, caplog: pytest.LogCaptureFixture
) -> None:
    bank.put("m", {"text": "x" * 100}, "digest")
    content = file_of(tmp_path, "m").read_bytes()[:keep]
    file_of(tmp_path, "m").write_bytes(content)
    assert bank.get("m") is None
    assert bank.digest("m") == ""
    assert bank.keys() == []
    assert file_of(tmp_path, ".damaged-m").read_bytes() == content
    assert "damaged" in caplog.text
    bank.put("m", {"new": 1})
    assert bank.get("m") == {"new": 1}


def test_no_flipped_bit_makes_another_value_or_another_digest(tmp_path: Path, bank: LocalBank) -> None:
    for at in range(80 + len(b"\x81\xa1a\x01")):
        bank.put("m", {"a": 1}, "digest")
        content = bytearray(file_of(tmp_path, "m").read_bytes())
        content[at] ^= 0x10
        file_of(tmp_path, "m").write_bytes(content)
        assert bank.digest("m") in {"", "digest"}
        assert bank.get("m") is None


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.symlink_to("/etc/passwd")])
def test_what_is_no_file_is_no_value_and_is_moved_aside(
    tmp_path: Path, bank: LocalBank, make: Callable[[Path], None]
) -> None:
    bank.put("other", {})
    make(file_of(tmp_path, "m"))
    assert bank.get("m") is None
    bank.put("m", {"a": 1})
    assert bank.get("m") == {"a": 1}


def test_files_of_another_origin_are_no_keys(tmp_path: Path, bank: LocalBank) -> None:
    bank.put("m", {})
    for name in ("a b", "%zz", "%2e", "%41"):
        file_of(tmp_path, name).write_bytes(b"?")
    assert bank.keys() == ["m"]


# -- a full disk


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_value_that_the_disk_does_not_take_leaves_the_old_one_and_no_change(tmp_path: Path, bank: LocalBank) -> None:
    bank.put("m", {"old": 1}, "old")
    cursor = bank.changes("").cursor
    with no_file_longer_than(10_000), pytest.raises(StoreError, match="cannot be written"):
        bank.put("m", {"new": "x" * 20_000}, "new")
    assert (bank.get("m"), bank.digest("m"), bank.changes(cursor).keys) == ({"old": 1}, "old", frozenset())
    assert not file_of(tmp_path, ".new").exists()


def test_a_change_that_cannot_be_noted_is_not_made(bank: LocalBank) -> None:
    bank.put("m", {"old": 1})
    cursor = bank.changes("").cursor
    # The value would fit, the line in the feed does not.
    with no_file_longer_than(85), pytest.raises(StoreError):
        bank.put("m", {})
    assert (bank.get("m"), bank.changes(cursor).keys) == ({"old": 1}, frozenset())
    bank.put("n", {})
    assert bank.changes(cursor).keys == {"n"}


def test_a_full_disk_keeps_no_value_from_being_deleted_and_everybody_learns_it(tmp_path: Path, bank: LocalBank) -> None:
    reader = opened_at(tmp_path)
    bank.put("gone", {"a": 1})
    bank.put("kept", {"a": 1})
    cursor = reader.changes("").cursor
    with no_file_longer_than(85):
        assert bank.delete("gone")
        assert reader.changes(cursor).keys == {"kept"}
    changes = reader.changes(cursor)
    assert (set(changes.keys), changes.whole) == ({"kept"}, True)
    reader.close()


def test_on_a_disk_without_room_for_a_feed_readers_see_the_whole_bank(tmp_path: Path, bank: LocalBank) -> None:
    bank.put("a", {})
    file_of(tmp_path, FEED_FILE).unlink()
    with no_file_longer_than(10):
        first = bank.changes("")
        again = bank.changes(first.cursor)
    assert [(set(changes.keys), changes.whole) for changes in (first, again)] == [({"a"}, True)] * 2


# -- the feed


def test_readers_follow_past_cuts_of_the_feed_and_only_who_stayed_behind_looks_at_all(tmp_path: Path) -> None:
    writer, near, far = (opened_at(tmp_path, feed_max=2000) for _ in range(3))
    writer.put("m-start", {})
    cursor = old = far.changes("").cursor
    for number in range(300):
        writer.put(f"m-{number}", {})
        changes = near.changes(cursor)
        assert (set(changes.keys), changes.whole) == ({f"m-{number}"}, False)
        cursor = changes.cursor
    assert file_of(tmp_path, FEED_FILE).stat().st_size < 2200
    changes = far.changes(old)
    assert (len(changes.keys), changes.whole) == (301, True)
    assert far.changes(changes.cursor).keys == frozenset()
    for bank in (writer, near, far):
        bank.close()


def test_a_feed_that_was_lost_is_the_whole_bank_once(tmp_path: Path, bank: LocalBank) -> None:
    bank.put("a", {})
    cursor = bank.changes("").cursor
    file_of(tmp_path, FEED_FILE).unlink()
    changes = bank.changes(cursor)
    assert (set(changes.keys), changes.whole) == ({"a"}, True)
    bank.put("b", {})
    later = bank.changes(changes.cursor)
    assert (set(later.keys), later.whole) == ({"b"}, False)


@pytest.mark.parametrize("content", [b"", b"?", b"x" * 500, b"saltlite feed 2 " + b"0" * 54 + b"\n"])
def test_a_feed_whose_head_is_damaged_is_the_whole_bank_once(tmp_path: Path, content: bytes) -> None:
    first = opened_at(tmp_path)
    first.put("a", {})
    cursor = first.changes("").cursor
    first.close()
    file_of(tmp_path, FEED_FILE).write_bytes(content)
    second = opened_at(tmp_path)
    changes = second.changes(cursor)
    assert (set(changes.keys), changes.whole) == ({"a"}, True)
    assert second.changes(changes.cursor).keys == frozenset()
    second.close()


def test_a_damaged_line_of_the_feed_is_the_whole_bank_once(tmp_path: Path, bank: LocalBank) -> None:
    bank.put("a", {})
    cursor = bank.changes("").cursor
    for key in ("b", "c", "d"):
        bank.put(key, {})
    content = bytearray(file_of(tmp_path, FEED_FILE).read_bytes())
    content[-14] ^= 1
    file_of(tmp_path, FEED_FILE).write_bytes(content)
    changes = bank.changes(cursor)
    assert (set(changes.keys), changes.whole) == ({"a", "b", "c", "d"}, True)
    assert bank.changes(changes.cursor).keys == frozenset()


def test_half_a_line_of_a_killed_writer_is_cut_off_by_the_next(tmp_path: Path, bank: LocalBank) -> None:
    bank.put("a", {})
    cursor = bank.changes("").cursor
    with file_of(tmp_path, FEED_FILE).open("ab") as file:
        file.write(b"0123")
    assert bank.changes(cursor).keys == frozenset()
    bank.put("b", {})
    changes = bank.changes(cursor)
    assert (set(changes.keys), changes.whole) == ({"b"}, False)


def test_a_writer_that_is_killed_between_line_and_value_misleads_nobody(tmp_path: Path, bank: LocalBank) -> None:
    bank.put("a", {"old": 1})
    cursor = bank.changes("").cursor
    folder = os.open(tmp_path / "bank", os.O_RDONLY)
    dying = BankFeed(folder)
    dying.begin("a")
    first = bank.changes(cursor)
    # It lived long enough for the value, and not for more.
    content = file_of(tmp_path, "a").read_bytes()
    file_of(tmp_path, "a").write_bytes(content)
    second = bank.changes(first.cursor)
    bank.put("b", {})
    third = bank.changes(second.cursor)
    assert [set(changes.keys) for changes in (first, second, third)] == [{"a"}, {"a"}, {"a", "b"}]
    assert not bank.changes(third.cursor).keys
    dying.close()
    os.close(folder)


def test_a_cache_that_is_cleared_under_a_running_master_goes_on(tmp_path: Path, bank: LocalBank) -> None:
    reader = opened_at(tmp_path)
    bank.put("a", {})
    cursor = reader.changes("").cursor
    for file in (tmp_path / "bank").iterdir():
        file.unlink()
    (tmp_path / "bank").rmdir()
    assert bank.get("a") is None
    bank.put("b", {"new": 1})
    changes = reader.changes(cursor)
    assert (set(changes.keys), changes.whole) == ({"b"}, True)
    assert reader.get("b") == {"new": 1}
    reader.close()


def test_a_folder_that_cannot_be_used_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "bank").write_text("no folder")
    with pytest.raises(StoreError, match=r"cannot be read: .*see to the disk"):
        opened_at(tmp_path).get("a")


# -- other processes


def test_a_reader_never_has_half_a_value_and_misses_none_of_three_writers(tmp_path: Path) -> None:
    rounds, writers = 150, 3

    def write(who: int) -> None:
        mine = opened_at(tmp_path, feed_max=3000)
        for number in range(rounds):
            mine.put("shared", {"n": number, "who": who, "text": str(number) * (number * 20)})
            mine.put(f"own-{who}", {"n": number})
        mine.close()

    reader = opened_at(tmp_path)
    reader.put("shared", {"n": 0, "who": 0, "text": ""})
    pids = [in_a_child(lambda who=who: write(who)) for who in range(writers)]  # type: ignore[misc]
    seen: dict[str, object] = {}
    cursor, running = "", True
    while running:
        running = any_runs(pids)
        changes = reader.changes(cursor)
        cursor = changes.cursor
        for key in changes.keys:
            value = seen[key] = reader.get(key)
            assert value is not None
            if key == "shared":
                assert value["text"] == str(value["n"]) * (value["n"] * 20)
    assert {key: seen[key] for key in seen if key != "shared"} == {f"own-{who}": {"n": rounds - 1} for who in range(3)}
    assert seen["shared"] == reader.get("shared")
    reader.close()


def any_runs(pids: list[int]) -> bool:
    """Whether any of these children still runs; those that ended have to have ended well."""
    for pid in list(pids):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            assert status == 0
            pids.remove(pid)
    return bool(pids)


def test_a_writer_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    reader = opened_at(tmp_path)
    seen: dict[str, object] = {}

    def follow(cursor: str) -> str:
        changes = reader.changes(cursor)
        if changes.whole:  # the writer was faster than this reader by more than the feed holds
            seen.clear()
        seen.update({key: reader.get(key) for key in changes.keys})
        return changes.cursor

    cursor = ""
    for number in range(25):

        def write() -> None:
            mine = opened_at(tmp_path, feed_max=3000)
            while True:
                mine.put("m", {"text": os.urandom(8).hex() * 500})
                mine.delete("m")

        pid = in_a_child(write)
        news = 0
        while news <= number % 5:
            before, cursor = cursor, follow(cursor)
            news += cursor != before
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        cursor = follow(cursor)
        assert seen.get("m") == reader.get("m")
    reader.put("after", {"all": True})
    assert reader.get("after") == {"all": True}
    reader.close()
