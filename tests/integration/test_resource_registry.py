"""The file of the registry: growth, damage, full disks, and machines that lose their power."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from saltlite.errors import StoreError, UnknownRowError
from saltlite.resources.registry import layout
from saltlite.resources.registry.layout import CAPACITY_MIN, LOAD_MAX, SUPERSEDED, encoded, payload
from saltlite.resources.registry.mmap import (
    CHECKPOINT_BYTES,
    COMPACT_MIN_RECORDS,
    DAMAGED,
    ResourceRegistry,
    get_registry,
)
from tests.support.store import after_a_restart_of_the_machine, file_of, no_report, opened, rows_of


def ids(count: int, prefix: str = "r") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_an_empty_registry_takes_a_few_kib_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    opened(tmp_path).close()
    found = file_of(tmp_path).stat()
    assert found.st_size <= 12 * 1024
    assert found.st_blocks * 512 <= 12 * 1024
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert stat.S_IMODE(file_of(tmp_path).parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("capacity", [1, 64, 1000])
def test_a_table_grows_to_what_is_registered(tmp_path: Path, capacity: int) -> None:
    registry = opened(tmp_path, resource_index_primary_capacity=capacity)
    for number in range(20):
        registry.register_minion(f"m{number}", {"dummy": ids(200, f"x{number}-")})
    found = registry.stats()["primary"]
    assert found["rows"] == 4000
    assert found["load"] <= LOAD_MAX
    assert len(rows_of(registry, *(f"m{number}" for number in range(20)))) == 4000
    assert registry.verify().problems == ()


def test_the_configured_capacity_is_only_that_of_a_new_table(tmp_path: Path) -> None:
    first = opened(tmp_path, resource_index_primary_capacity=4096)
    first.register_minion("m1", {"dummy": ids(300)})
    again = opened(tmp_path, resource_index_primary_capacity=64)
    assert again.stats()["primary"]["capacity"] == 4096
    assert len(rows_of(again, "m1")) == 300


def test_a_reader_of_the_small_table_goes_on_in_the_large_one(tmp_path: Path) -> None:
    writer, reader = opened(tmp_path), opened(tmp_path)
    writer.register_minion("m1", {"dummy": ids(5)})
    assert len(reader.get_resource_ids_by_type("dummy")) == 5
    writer.register_minion("m1", {"dummy": ids(int(CAPACITY_MIN * LOAD_MAX) + 10)})
    assert reader.has_srn("dummy", f"r{int(CAPACITY_MIN * LOAD_MAX) + 9}")
    assert rows_of(reader, "m1") == rows_of(writer, "m1")


def test_keys_that_all_want_the_last_home_make_the_table_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = opened(tmp_path)

    def at_the_end(salt: bytes, key: bytes) -> int:
        return (1 << 64) - 1 - int(key.rpartition(b"r")[2]) * (1 << 53)

    monkeypatch.setattr(layout, "fingerprint", at_the_end)
    monkeypatch.setattr(layout, "fingerprints", lambda salt, keys: [at_the_end(salt, key) for key in keys])
    # 70 keys in the last five of 128 homes and the 64 places behind them: by its load the table is not full.
    for number in range(70):
        registry.register_minion(f"m{number}", {"dummy": [f"r{number}"]})
    assert registry.stats()["primary"]["rows"] == 70
    assert registry.stats()["primary"]["capacity"] > CAPACITY_MIN
    assert all(registry.has_srn("dummy", f"r{number}") for number in range(70))


# -- damage


def flipped(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x10
    path.write_bytes(content)


def place_of(path: Path, text: bytes) -> int:
    return path.read_bytes().rindex(text)


def test_a_flipped_byte_costs_that_row_and_is_said(tmp_path: Path) -> None:
    opened(tmp_path).register_minion("m1", {"dummy": ids(10)})
    path = file_of(tmp_path)
    flipped(path, place_of(path, b"dummy:r4"))
    reports: list[str] = []
    registry = ResourceRegistry({"cachedir": str(tmp_path)}, report=reports.append)
    with pytest.raises(UnknownRowError, match="whether a minion manages dummy:r4 is unknown"):
        registry.has_srn("dummy", "r4")
    with pytest.raises(UnknownRowError):
        registry.has_resource("m1", "dummy", "r4")
    assert registry.has_srn("dummy", "r5")
    assert sorted(rows_of(registry, "m1")) == sorted(f"dummy:r{number}" for number in range(10) if number != 4)
    assert len(reports) == 1
    assert "9 rows were kept" in reports[0]
    assert Path(f"{path}{DAMAGED}").exists()
    assert registry.stats()["primary"]["incomplete"]


@pytest.mark.parametrize("word", [0, 1])
def test_a_slot_that_is_damaged_makes_no_registered_resource_unknown(tmp_path: Path, word: int) -> None:
    opened(tmp_path).register_minion("m1", {"dummy": ids(10)})
    content = bytearray(file_of(tmp_path).read_bytes())
    log_start = layout.read_header(bytes(content)).log_start
    for at in range(layout.INDEX_START, log_start, layout.SLOT):
        content[at + 8 * word : at + 8 * word + 8] = bytes(8)
    file_of(tmp_path).write_bytes(content)
    registry = ResourceRegistry({"cachedir": str(tmp_path)}, report=lambda _: None)
    for bare_id in ids(10):
        with contextlib.suppress(UnknownRowError):
            assert registry.has_srn("dummy", bare_id)
    assert registry.stats()["primary"]["incomplete"] or registry.has_srn("dummy", "r0")


def test_a_damaged_registry_is_complete_again_when_everybody_has_registered(tmp_path: Path) -> None:
    opened(tmp_path).register_minion("m1", {"dummy": ids(10)})
    flipped(file_of(tmp_path), place_of(file_of(tmp_path), b"dummy:r4"))
    registry = ResourceRegistry({"cachedir": str(tmp_path)}, report=lambda _: None)
    assert registry.register_minion("m1", {"dummy": ids(10)})[0] == 1
    assert registry.stats()["primary"]["incomplete"]
    with pytest.raises(UnknownRowError):
        registry.has_srn("dummy", "never")
    registry.declare_complete()
    assert not registry.stats()["primary"]["incomplete"]
    assert not registry.has_srn("dummy", "never")
    registry.compact()
    assert not opened(tmp_path).stats()["primary"]["incomplete"]


def test_damage_that_a_listing_meets_first_is_repaired_as_well(tmp_path: Path) -> None:
    opened(tmp_path).register_minion("m1", {"dummy": ids(10)})
    flipped(file_of(tmp_path), place_of(file_of(tmp_path), b"dummy:r4"))
    reports: list[str] = []
    registry = ResourceRegistry({"cachedir": str(tmp_path)}, report=reports.append)
    assert len(registry.get_resource_ids_by_type("dummy")) == 9
    assert len(reports) == 1


def test_a_compaction_hands_no_damage_on(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.register_minion("m1", {"dummy": ids(10)})
    first.register_minion("m1", {"dummy": ids(9)})
    flipped(file_of(tmp_path), place_of(file_of(tmp_path), b"dummy:r4"))
    reports: list[str] = []
    registry = ResourceRegistry({"cachedir": str(tmp_path)}, report=reports.append)
    registry.compact()
    assert len(reports) == 1
    assert registry.verify().problems == ()
    assert len(rows_of(registry, "m1")) == 8


def test_the_row_of_a_former_owner_does_not_come_back_when_that_of_the_latest_is_damaged(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.register_minion("m1", {"dummy": ["x", "y"]})
    first.register_minion("m2", {"dummy": ["x"]})
    flipped(file_of(tmp_path), place_of(file_of(tmp_path), b'{"m":"m2"'))
    registry = ResourceRegistry({"cachedir": str(tmp_path)}, report=lambda _: None)
    with pytest.raises(UnknownRowError):
        registry.get_managing_minions_for_srn("dummy", "x")
    assert rows_of(registry, "m1", "m2") == {"dummy:y": "m1"}


def test_a_damaged_index_is_found_by_verify_and_repaired(tmp_path: Path) -> None:
    opened(tmp_path).register_minion("m1", {"dummy": ids(10)})
    path = file_of(tmp_path)
    content = path.read_bytes()
    used = next(place for place in range(layout.INDEX_START, len(content), 16) if any(content[place : place + 8]))
    flipped(path, used)
    reports: list[str] = []
    registry = ResourceRegistry({"cachedir": str(tmp_path)}, report=reports.append)
    found = registry.verify()
    assert any("the index does not lead to" in problem for problem in found.problems)
    assert (found.rows, found.aside) == (9, f"{path}{DAMAGED}")
    assert registry.verify().problems == ()


def test_a_reader_that_has_the_damaged_file_open_goes_to_the_repaired_one(tmp_path: Path) -> None:
    reports: list[str] = []
    reader = ResourceRegistry({"cachedir": str(tmp_path)}, report=reports.append)
    reader.register_minion("m1", {"dummy": ids(10)})
    assert len(reader.get_resource_ids_by_type("dummy")) == 10
    path = file_of(tmp_path)
    with path.open("r+b") as file:
        file.seek(place_of(path, b"dummy:r4"))
        file.write(b"D")
    other = ResourceRegistry({"cachedir": str(tmp_path)}, report=reports.append)
    other.verify()
    assert rows_of(reader, "m1") == rows_of(other, "m1")
    assert len(reports) == 1


@pytest.mark.parametrize("content", [b"", b"x", b"SQLite format 3\0" + bytes(20_000), bytes(8192)])
def test_a_file_of_something_else_is_put_aside_whole(tmp_path: Path, content: bytes) -> None:
    path = file_of(tmp_path)
    path.parent.mkdir()
    path.write_bytes(content)
    reports: list[str] = []
    registry = ResourceRegistry({"cachedir": str(tmp_path)}, report=reports.append)
    assert Path(f"{path}{DAMAGED}").read_bytes() == content
    assert len(reports) == 1
    registry.register_minion("m1", {"dummy": ["a"]})
    assert rows_of(opened(tmp_path), "m1") == {"dummy:a": "m1"}


def test_a_registry_that_is_removed_while_it_is_open_is_made_anew_and_called_incomplete(tmp_path: Path) -> None:
    reports: list[str] = []
    registry = ResourceRegistry({"cachedir": str(tmp_path)}, report=reports.append)
    registry.register_minion("m1", {"dummy": ["a"]})
    file_of(tmp_path).unlink()
    registry.register_minion("m2", {"dummy": ["b"]})
    assert rows_of(registry, "m1", "m2") == {"dummy:b": "m2"}
    assert "it was removed" in reports[0]
    assert opened(tmp_path).stats()["primary"]["incomplete"]


# -- disks


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """Nothing in this process can write behind that byte of any file: as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_registration_that_the_disk_has_no_room_for_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    registry = opened(tmp_path, resource_index_primary_capacity=4096)
    registry.register_minion("m1", {"dummy": ids(10)})
    before, tail = registry.content_version()[0], registry.stats()["primary"]["bytes"]
    with files_end_at(file_of(tmp_path).stat().st_size + 100), pytest.raises(StoreError, match="make room"):
        registry.register_minion("m1", {"dummy": ids(2000)})
    assert registry.content_version()[0] == before
    assert registry.stats()["primary"]["bytes"] == tail
    assert len(rows_of(registry, "m1")) == 10
    assert registry.register_minion("m1", {"dummy": ids(2000)}) == (1990, 0)
    assert len(rows_of(opened(tmp_path), "m1")) == 2000


def test_a_registration_whose_sync_failed_does_not_come_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": ["a"]})
    real = os.pwritev

    def written_but_not_synced(fd: int, parts: list[bytes], at: int, flags: int = 0) -> int:
        real(fd, parts, at)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", written_but_not_synced)
        with pytest.raises(StoreError, match="Input/output error"):
            registry.register_minion("m1", {"dummy": ["b"]})
    assert rows_of(registry, "m1") == {"dummy:a": "m1"}
    registry.register_minion("m2", {"dummy": ["c"]})
    assert rows_of(opened(tmp_path), "m1", "m2") == {"dummy:a": "m1", "dummy:c": "m2"}


def test_a_registration_is_on_disk_before_it_is_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags_seen: list[int] = []
    real = os.pwritev

    def seen(fd: int, parts: list[bytes], at: int, flags: int = 0) -> int:
        flags_seen.append(flags)
        return real(fd, parts, at, flags)

    safe, quick = opened(tmp_path / "safe"), opened(tmp_path / "quick", registry_fsync="never")
    monkeypatch.setattr(os, "pwritev", seen)
    safe.register_minion("m1", {"dummy": ids(10)})
    quick.register_minion("m1", {"dummy": ids(10)})
    assert flags_seen == [os.RWF_DSYNC, 0]


def test_a_compaction_is_on_disk_before_it_gets_the_name_and_the_name_before_it_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": ids(10)})
    registry.register_minion("m1", {"dummy": ids(5)})
    steps: list[str] = []
    real_pwritev, real_fsync, real_replace = os.pwritev, os.fsync, os.replace

    def pwritev(fd: int, parts: list[bytes], at: int, flags: int = 0) -> int:
        steps.append("write")
        return real_pwritev(fd, parts, at, flags)

    def fsync(fd: int) -> None:
        steps.append("sync folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "sync")
        real_fsync(fd)

    def replace(old: str, new: str) -> None:
        steps.append("name")
        real_replace(old, new)

    monkeypatch.setattr(os, "pwritev", pwritev)
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    registry.compact()
    # The second sync has the last state: after it nothing is written, and only then comes the name.
    assert steps == ["write", "write", "sync", "sync", "name", "sync folder"]


def test_a_table_that_the_disk_has_no_room_for_leaves_the_old_one_and_no_rest(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": ids(10)})
    with files_end_at(64 * 1024), pytest.raises(StoreError, match="make room"):
        registry.register_minion("m1", {"dummy": ids(5000)})
    names = sorted(path.name for path in file_of(tmp_path).parent.iterdir())
    assert [name for name in names if not name.endswith(".lock")] == [file_of(tmp_path).name]
    assert len(rows_of(registry, "m1")) == 10
    assert registry.register_minion("m1", {"dummy": ids(5000)}) == (4990, 0)


def test_a_compaction_that_the_disk_has_no_room_for_changes_nothing(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": ids(5000)})
    registry.register_minion("m1", {"dummy": ids(4000)})
    with files_end_at(64 * 1024), pytest.raises(StoreError, match="make room"):
        registry.compact()
    assert len(rows_of(registry, "m1")) == 4000
    registry.compact()
    assert len(rows_of(registry, "m1")) == 4000


def test_a_folder_that_cannot_be_written_to_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "resources").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be used"):
        opened(tmp_path)


def test_a_link_in_place_of_the_registry_is_not_followed(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    path.parent.mkdir()
    (tmp_path / "elsewhere").write_text("precious")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        opened(tmp_path)
    assert (tmp_path / "elsewhere").read_text() == "precious"


# -- what a dead writer and a dead machine leave


def test_a_transaction_that_was_written_whole_is_finished_by_the_next_writer(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": ["a"]})
    tail = registry.stats()["primary"]["bytes"]
    lines = encoded([(b"dummy:b", payload("m2", "dummy")), (b"dummy:a", None)])
    with file_of(tmp_path).open("r+b") as file:
        file.seek(tail)
        file.write(b"".join(lines))
    registry.register_minion("m3", {"dummy": ["c"]})
    assert rows_of(registry, "m1", "m2", "m3") == {"dummy:b": "m2", "dummy:c": "m3"}
    assert registry.stats()["primary"]["rows"] == 2
    assert registry.verify().problems == ()


def test_a_transaction_that_was_not_written_whole_never_was(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": ["a"]})
    tail = registry.stats()["primary"]["bytes"]
    block = b"".join(encoded([(f"dummy:b{number}".encode(), payload("m2", "dummy")) for number in range(5)]))
    for end in range(1, len(block) - 1):
        with file_of(tmp_path).open("r+b") as file:
            file.seek(tail)
            file.write(block[:end])
        again = opened(tmp_path)
        assert rows_of(again, "m1", "m2") == {"dummy:a": "m1"}
        again.close()
    assert not any(file_of(tmp_path).read_bytes()[tail:])


def test_what_the_machine_had_not_written_of_the_index_is_entered_again(tmp_path: Path) -> None:
    registry = opened(tmp_path, resource_index_primary_capacity=4096)
    registry.register_minion("m1", {"dummy": ids(50)})
    index = slice(layout.INDEX_START, layout.Header(4096, b"", b"").log_start)
    before = file_of(tmp_path).read_bytes()
    registry.register_minion("m1", {"dummy": ids(100)})
    registry.register_minion("m2", {"dummy": ids(30)})
    registry.close()
    content = bytearray(file_of(tmp_path).read_bytes())
    content[index] = before[index]
    file_of(tmp_path).write_bytes(content)
    again = after_a_restart_of_the_machine(tmp_path)
    rows = rows_of(again, "m1", "m2")
    assert (len(rows), sum(owner == "m2" for owner in rows.values())) == (100, 30)
    assert again.stats()["primary"]["rows"] == 100
    assert again.verify().problems == ()


def test_a_commit_that_is_in_the_log_only_survives_the_machine(tmp_path: Path) -> None:
    registry = opened(tmp_path, resource_index_primary_capacity=4096)
    registry.register_minion("m1", {"dummy": ids(50)})
    start = layout.Header(4096, b"", b"").log_start
    before = file_of(tmp_path).read_bytes()[:start]
    registry.register_minion("m1", {"dummy": ids(20), "ssh": ["new"]})
    registry.close()
    after = file_of(tmp_path).read_bytes()
    file_of(tmp_path).write_bytes(before + after[start:])
    again = after_a_restart_of_the_machine(tmp_path)
    assert again.get_resources_for_minion("m1") == {"dummy": sorted(ids(20)), "ssh": ["new"]}
    assert again.verify().problems == ()


def test_a_log_that_never_reached_the_disk_is_a_loss_that_is_said(tmp_path: Path) -> None:
    registry = opened(tmp_path, registry_fsync="never", resource_index_primary_capacity=4096)
    registry.register_minion("m1", {"dummy": ids(50)})
    tail = registry.stats()["primary"]["bytes"]
    registry.register_minion("m2", {"dummy": ids(20, "late")})
    registry.close()
    content = file_of(tmp_path).read_bytes()
    file_of(tmp_path).write_bytes(content[:tail] + bytes(len(content) - tail))
    reports: list[str] = []
    again = after_a_restart_of_the_machine(tmp_path, reports)
    assert set(rows_of(again, "m1", "m2")) == {f"dummy:{bare_id}" for bare_id in ids(50)}
    assert "50 rows were kept" in reports[0]
    assert again.stats()["primary"]["incomplete"]


def test_a_long_log_is_not_read_again_from_its_beginning_after_a_restart(tmp_path: Path) -> None:
    registry = opened(tmp_path, resource_index_primary_capacity=16_384)
    count = 0
    while registry.stats()["primary"]["bytes"] < 3 * CHECKPOINT_BYTES:
        count += 1
        registry.register_minion("m1", {"dummy": ids(200, f"{count}-" + "x" * 100)})
    state = layout.read_state(file_of(tmp_path).read_bytes(), layout.read_header(file_of(tmp_path).read_bytes()))
    assert state.tail - state.checkpoint <= CHECKPOINT_BYTES + 200 * 2 * 150
    registry.close()
    again = after_a_restart_of_the_machine(tmp_path)
    assert len(rows_of(again, "m1")) == 200


def test_readers_go_on_when_a_compaction_died_just_before_its_file_got_the_name(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": ["a"]})
    with file_of(tmp_path).open("r+b") as file:
        file.seek(SUPERSEDED * 8)
        file.write(b"\1")
    assert registry.has_srn("dummy", "a")
    assert rows_of(registry, "m1") == {"dummy:a": "m1"}
    registry.register_minion("m1", {"dummy": ["a", "b"]})
    assert rows_of(opened(tmp_path), "m1") == {"dummy:a": "m1", "dummy:b": "m1"}
    assert not any(file_of(tmp_path).read_bytes()[SUPERSEDED * 8 :][:8])


def test_readers_find_the_new_file_when_a_compaction_died_just_after_it_got_the_name(tmp_path: Path) -> None:
    writer, reader = opened(tmp_path), opened(tmp_path)
    writer.register_minion("m1", {"dummy": ["a"]})
    assert reader.has_srn("dummy", "a")
    writer.compact()
    # Of what came after the new name, nothing was done: the reader knows by the word that was set before.
    writer.register_minion("m1", {"dummy": ["a", "b"]})
    assert reader.has_srn("dummy", "b")
    assert rows_of(reader, "m1") == rows_of(writer, "m1")


# -- upkeep


def test_what_is_worth_it_is_compacted_and_what_is_not_is_not(tmp_path: Path) -> None:
    registry = opened(tmp_path, resource_registry_compact_tombstone_ratio=0.5)
    registry.register_minion("m1", {"dummy": ids(COMPACT_MIN_RECORDS)})
    assert not registry.maybe_compact(force_check=True)[0]
    registry.unregister_minion("m1")
    done, stats = registry.maybe_compact(force_check=True)
    assert done
    assert (stats["primary"]["rows"], stats["primary"]["records"]) == (0, 0)


def test_a_registry_that_was_looked_at_just_now_is_not_looked_at_again(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    registry.maybe_compact()
    registry.register_minion("m1", {"dummy": ids(3 * COMPACT_MIN_RECORDS)})
    registry.unregister_minion("m1")
    assert not registry.maybe_compact()[0]
    assert registry.maybe_compact(force_check=True)[0]


def test_a_small_registry_is_left_alone(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": ids(COMPACT_MIN_RECORDS // 4)})
    registry.unregister_minion("m1")
    assert not registry.maybe_compact(force_check=True)[0]


def test_a_compaction_makes_a_table_smaller_that_became_too_large(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": ids(20_000)})
    large = file_of(tmp_path).stat().st_size
    registry.register_minion("m1", {"dummy": ids(10)})
    registry.compact()
    assert file_of(tmp_path).stat().st_size < large / 50
    assert registry.stats()["primary"]["capacity"] == CAPACITY_MIN
    assert len(rows_of(registry, "m1")) == 10


def test_a_process_has_one_registry_for_a_cachedir(tmp_path: Path) -> None:
    first = get_registry({"cachedir": str(tmp_path)})
    assert get_registry({"cachedir": f"{tmp_path}/."}) is first
    assert get_registry({"cachedir": str(tmp_path / "other")}) is not first
    first.close()
    again = get_registry({"cachedir": str(tmp_path)})
    assert again.register_minion("m1", {"dummy": ["a"]}) == (1, 0)
    again.close()
    get_registry({"cachedir": str(tmp_path / "other")}).close()


@pytest.mark.parametrize("opts", [{}, {"cachedir": ""}])
def test_without_a_cachedir_there_is_a_registry_of_nothing(opts: dict[str, str]) -> None:
    registry = get_registry(opts)
    assert registry.register_minion("m1", {"dummy": ["a"]}) == (0, 0)
    assert registry.get_resources_for_minion("m1") == {}
    assert registry.unregister_minion("m1") == 0
    assert registry.maybe_compact(force_check=True)[0] is False
    with pytest.raises(ValueError, match="cachedir"):
        ResourceRegistry(opts)


@pytest.mark.parametrize(
    "opts", [{"registry_fsync": "sometimes"}, {"resource_index_primary_capacity": 0}, {"cachedir": 5}]
)
def test_options_that_cannot_be_are_refused(tmp_path: Path, opts: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"has to be|needs the option"):
        ResourceRegistry({"cachedir": str(tmp_path), **opts}, report=no_report)


def test_open_files_are_given_back(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        registry = opened(tmp_path)
        registry.register_minion("m1", {"dummy": ids(300)})
        registry.unregister_minion("m1")
        registry.compact()
        registry.verify()
        registry.close()
    assert len(os.listdir("/proc/self/fd")) == before
