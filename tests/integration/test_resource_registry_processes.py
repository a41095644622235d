"""The registry under several processes, some of which die in the middle of something."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from saltlite.resources.registry import mmap_file
from saltlite.resources.registry.layout import STATES, State
from saltlite.resources.registry.mmap import ResourceRegistry
from saltlite.resources.registry.mmap_file import RegistryFile
from tests.support.store import file_of, opened, rows_of

KILLS = 25
"""Random instants at which a writer is killed."""

DEATHS = 60
"""Lines of the registry's code at which a process dies, of some hundred; which ones changes with the code."""

Say = Callable[[bytes], None]


class Child:
    """A process that runs `work(say)`; what it says is read from `said`."""

    def __init__(self, work: Callable[[Say], None]) -> None:
        self.said, mouth = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(self.said)
                work(lambda words: _write_all(mouth, words))
                code = 0
            finally:
                os._exit(code)
        os.close(mouth)

    def read(self, size: int = 65_536) -> bytes:
        return os.read(self.said, size)

    def rest(self) -> bytes:
        """All that it says until it ends."""
        parts = []
        while part := self.read():
            parts.append(part)
        return b"".join(parts)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def end(self) -> int:
        """How it ended: 0 is well, a negative number a signal."""
        if not self.pid:
            return 0
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        os.close(self.said)
        return os.waitstatus_to_exitcode(status)


def _write_all(fd: int, words: bytes) -> None:
    while words:
        words = words[os.write(fd, words) :]


@contextmanager
def children(*works: Callable[[Say], None]) -> Iterator[list[Child]]:
    """Those processes; whatever happens they are gone afterwards."""
    started = [Child(work) for work in works]
    try:
        yield started
    finally:
        for child in started:
            if child.pid:
                child.kill()
                child.end()


def registration(number: int) -> dict[str, list[str]]:
    """The `number`th registration of m1: it brings new rows, keeps some and drops some."""
    return {
        "dummy": [f"r{row}" for row in range(number * 3, number * 3 + 12)],
        "ssh": [f"s{number}"] if number % 2 else [],
    }


def as_rows(resources: dict[str, list[str]]) -> dict[str, str]:
    return {f"{kind}:{bare_id}": "m1" for kind, ids in resources.items() for bare_id in ids}


def check_whole(folder: Path, last: int) -> None:
    """Registration `last` of m1 stands, or the one after it, which was under way: all of it, and nothing else."""
    registry = opened(folder)
    rows = rows_of(registry, "m1")
    assert rows in (as_rows(registration(last)) if last else {}, as_rows(registration(last + 1)))
    assert registry.stats()["primary"]["rows"] == len(rows) + len(rows_of(registry, "m2", "m3"))
    assert registry.verify().problems == ()
    registry.register_minion("m2", {"vm": [f"after{last}"]})
    assert registry.has_resource("m2", "vm", f"after{last}")
    registry.close()


def test_a_writer_killed_at_random_points_leaves_every_acknowledged_registration_and_no_part_of_another(
    tmp_path: Path,
) -> None:
    chance = random.Random(5)
    last = 0
    for _ in range(KILLS):

        def write(say: Say, first: int = last + 1) -> None:
            registry = opened(tmp_path)
            for number in range(first, first + 1000):
                registry.register_minion("m1", registration(number))
                say(b".")
                if number % 7 == 0:
                    registry.compact()

        with children(write) as (writer,):
            heard = 0
            for _ in range(chance.randrange(1, 12)):
                heard += len(writer.read(1))
            # Somewhere in the next registration or compaction.
            for _ in range(chance.randrange(20_000)):
                pass
            writer.kill()
            heard += len(writer.rest())
            assert writer.end() == -signal.SIGKILL
        last += heard
        check_whole(tmp_path, last)
        last = max(number for number in (last, last + 1) if stands(tmp_path, number))
    assert last > KILLS


def stands(folder: Path, number: int) -> bool:
    registry = opened(folder)
    try:
        return rows_of(registry, "m1") == as_rows(registration(number))
    finally:
        registry.close()


def dying_after(lines: int) -> Callable[[FrameType, str, Any], Any]:
    """A trace function that kills its process when that many lines of the registry's code were run."""
    left = lines

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal left
        name = frame.f_code.co_filename
        if "resource_registry" not in name and "core/resources" not in name:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def lines_of(work: Callable[[Say], None]) -> int:
    """How many lines of the registry's code that work runs."""

    def counted(say: Say) -> None:
        count = 0

        def trace(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal count
            name = frame.f_code.co_filename
            count += event == "line" and ("resource_registry" in name or "core/resources" in name)
            return trace

        sys.settrace(trace)
        work(lambda _: None)
        sys.settrace(None)
        say(str(count).encode())

    with children(counted) as (child,):
        said = child.rest()
        assert child.end() == 0
    return int(said)


def prepared(folder: Path) -> None:
    registry = opened(folder)
    registry.register_minion("m1", registration(1))
    registry.close()


def writes_small(folder: Path, say: Say) -> None:
    registry = opened(folder)
    registry.register_minion("m1", registration(2))
    say(b".")


def grows(folder: Path, say: Say) -> None:
    registry = opened(folder)
    registry.register_minion("m3", {"vm": [f"v{number}" for number in range(100)]})
    registry.register_minion("m1", registration(2))
    say(b".")


def compacts(folder: Path, say: Say) -> None:
    registry = opened(folder)
    registry.register_minion("m1", registration(2))
    say(b".")
    registry.compact()


def recovers(folder: Path, say: Say) -> None:
    """The writer before this one had written registration 2, and entered half of it."""
    registry = opened(folder)
    say(b"." if registry.has_srn("ssh", "s1") else b"")
    registry.register_minion("m3", {"vm": ["v"]})


def with_a_transaction_in_its_log(folder: Path) -> None:
    prepared(folder)
    registry = opened(folder)
    registry.register_minion("m1", registration(2))
    tail = registry.stats()["primary"]["bytes"]
    registry.close()
    # The state of before: the newer one of its two copies is torn.
    content = bytearray(file_of(folder).read_bytes())
    newest = max(STATES, key=lambda start: int.from_bytes(content[start : start + 8], "little"))
    content[newest + 20] ^= 0xFF
    assert content[tail - 8 : tail] != bytes(8)
    file_of(folder).write_bytes(content)


@pytest.mark.parametrize(
    ("prepare", "work"),
    [
        (prepared, writes_small),
        (prepared, grows),
        (prepared, compacts),
        (with_a_transaction_in_its_log, recovers),
    ],
)
def test_a_writer_that_dies_at_any_line_leaves_a_whole_registry(
    tmp_path_factory: pytest.TempPathFactory, prepare: Callable[[Path], None], work: Callable[[Path, Say], None]
) -> None:
    first = tmp_path_factory.mktemp("lines")
    prepare(first)
    total = lines_of(lambda say: work(first, say))
    chance = random.Random(total)
    died = 0
    places = sorted(chance.sample(range(1, total), min(DEATHS, total - 1)))
    for lines in places:
        folder = tmp_path_factory.mktemp("dies")
        prepare(folder)

        def dies(say: Say, folder: Path = folder, lines: int = lines) -> None:
            sys.settrace(dying_after(lines))
            work(folder, say)

        with children(dies) as (writer,):
            acknowledged = len(writer.rest())
            died += writer.end() == -signal.SIGKILL
        check_whole(folder, 1 + acknowledged)
        names = {path.name.removeprefix(file_of(folder).name) for path in file_of(folder).parent.iterdir()}
        assert names <= {"", ".lock", ".compact.lock"}, "a file that was never finished stays behind"
    # Where keys collide, which is chance, a run is some lines shorter or longer.
    assert died >= 0.9 * len(places)


def test_a_repair_that_dies_at_any_line_is_done_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    def damaged(folder: Path) -> None:
        prepared(folder)
        content = bytearray(file_of(folder).read_bytes())
        content[content.rindex(b"dummy:r5")] ^= 1
        file_of(folder).write_bytes(content)

    def repairs(folder: Path) -> None:
        ResourceRegistry({"cachedir": str(folder)}, report=lambda _: None).get_resources_for_minion("m1")

    first = tmp_path_factory.mktemp("lines")
    damaged(first)
    total = lines_of(lambda _: repairs(first))
    left = as_rows(registration(1)).keys() - {"dummy:r5"}
    for lines in sorted(random.Random(total).sample(range(1, total), min(DEATHS, total - 1))):
        folder = tmp_path_factory.mktemp("dies")
        damaged(folder)

        def dies(say: Say, folder: Path = folder, lines: int = lines) -> None:
            sys.settrace(dying_after(lines))
            repairs(folder)

        with children(dies) as (child,):
            child.end()
        registry = ResourceRegistry({"cachedir": str(folder)}, report=lambda _: None)
        assert rows_of(registry, "m1").keys() == left
        assert registry.stats()["primary"]["incomplete"]
        assert registry.verify().problems == ()
        registry.close()


def registers(folder: Path, minion: str, ids: list[str]) -> None:
    opened(folder).register_minion(minion, {"vm": ids})


def packs(folder: Path) -> None:
    opened(folder).compact()


def test_three_writers_and_a_compactor_lose_nothing(tmp_path: Path) -> None:
    def writer(name: str) -> Callable[[Say], None]:
        def write(say: Say) -> None:
            registry = opened(tmp_path)
            for number in range(150):
                registry.register_minion(f"{name}{number}", {"dummy": [f"{name}-{number}-{row}" for row in range(3)]})
            say(b"150")

        return write

    def compactor(say: Say) -> None:
        registry = opened(tmp_path)
        while True:
            registry.compact()
            say(b".")

    with children(writer("a"), writer("b"), writer("c"), compactor) as (*writers, packer):
        assert [child.rest() for child in writers] == [b"150"] * 3
        assert [child.end() for child in writers] == [0, 0, 0]
        packer.kill()
        assert len(packer.rest()) > 5
    registry = opened(tmp_path)
    rows = rows_of(registry, *(f"{name}{number}" for name in "abc" for number in range(150)))
    assert len(rows) == 1350
    assert registry.verify().problems == ()


def test_a_row_that_changes_its_owner_is_never_absent_and_has_one_of_the_two(tmp_path: Path) -> None:
    registry = opened(tmp_path, registry_fsync="never")
    registry.register_minion("m1", {"dummy": ["x"]})

    def flips(say: Say) -> None:
        mine = opened(tmp_path, registry_fsync="never")
        for number in range(2000):
            mine.transfer("dummy", "x", f"m{number % 2 + 1}")
            if number % 500 == 0:
                mine.compact()
            say(b".")

    with children(flips) as (child,):
        seen: dict[str, int] = {}
        heard = 0
        os.set_blocking(child.said, False)
        while heard < 2000:
            for _ in range(200):
                (owner,) = registry.get_managing_minions_for_srn("dummy", "x")
                seen[owner] = seen.get(owner, 0) + 1
            assert registry.get_resource_ids_by_type("dummy") == ["x"]
            try:
                heard += len(child.read())
            except BlockingIOError:
                continue
        assert child.end() == 0
    assert seen.keys() == {"m1", "m2"}


def test_a_registry_that_came_through_a_fork_still_writes_alone(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m0", {"dummy": ["before"]})

    def write(name: str) -> None:
        for number in range(60):
            registry.register_minion(f"{name}{number}", {"dummy": [f"{name}-{number}"]})

    with children(lambda _: write("child")) as (child,):
        write("parent")
        assert child.end() == 0
    again = opened(tmp_path)
    assert len(again.get_resource_ids_by_type("dummy")) == 121
    assert again.verify().problems == ()


def test_a_commit_of_another_process_during_a_compaction_is_carried_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each point where the compaction asks the world for something, another process commits."""
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": [f"r{number}" for number in range(500)]})
    registry.register_minion("m1", {"dummy": [f"r{number}" for number in range(400)]})
    commits = 0

    def commit(name: str) -> None:
        nonlocal commits
        commits += 1
        with children(lambda _: registers(tmp_path, name, [name])) as (child,):
            assert child.end() == 0

    real_allocate, real_fsync = os.posix_fallocate, os.fsync
    locked = False

    def allocate(fd: int, start: int, size: int) -> None:
        commit("early")
        real_allocate(fd, start, size)

    def fsync(fd: int) -> None:
        nonlocal locked
        if not locked:
            locked = True  # the syncs after this one happen with the lock held
            commit("late")
        real_fsync(fd)

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    monkeypatch.setattr(os, "fsync", fsync)
    assert registry.compact() == (600, 402)
    assert commits == 2
    assert registry.has_resource("early", "vm", "early")
    assert registry.has_resource("late", "vm", "late")
    assert len(rows_of(opened(tmp_path), "m1", "early", "late")) == 402


@pytest.mark.parametrize("before", ["untouched", "moved", "deleted"])
def test_rows_that_change_while_a_compaction_looks_at_the_index_are_as_they_became(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": [f"r{number}" for number in range(40)]})
    if before == "moved":
        registry.register_minion("m3", {"dummy": ["r7"]})
    elif before == "deleted":
        registry.register_minion("m1", {"dummy": [f"r{number}" for number in range(30)]})
    real = mmap_file._snapshot

    def change() -> None:
        other = opened(tmp_path)
        other.transfer("dummy", "r0", "m2")
        other.register_minion("m1", {"dummy": [f"r{number}" for number in range(2, 45)]})

    def snapshot(file: RegistryFile, state: State) -> list[tuple[int, int]]:
        with children(lambda _: change()) as (child,):
            assert child.end() == 0
        return real(file, state)

    monkeypatch.setattr(mmap_file, "_snapshot", snapshot)
    registry.compact()
    expected = {f"dummy:r{number}": "m1" for number in range(2, 45)} | {"dummy:r0": "m2"}
    assert rows_of(registry, "m1", "m2") == expected
    fresh = opened(tmp_path)
    assert rows_of(fresh, "m1", "m2") == expected
    assert fresh.stats()["primary"]["rows"] == len(expected)
    assert fresh.verify().problems == ()


def test_a_table_that_grew_meanwhile_makes_the_compaction_give_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": ["a"]})
    registry.register_minion("m1", {"dummy": ["b"]})
    many = [f"v{number}" for number in range(2000)]
    real = os.posix_fallocate

    def allocate(fd: int, start: int, size: int) -> None:
        monkeypatch.setattr(os, "posix_fallocate", real)
        with children(lambda _: registers(tmp_path, "m2", many)) as (child,):
            assert child.end() == 0
        real(fd, start, size)

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    registry.compact()
    assert rows_of(registry, "m1") == {"dummy:b": "m1"}
    assert len(registry.get_resource_ids_by_type("vm")) == 2000
    assert opened(tmp_path).verify().problems == ()
    assert not any(path.name.endswith(".packed") for path in file_of(tmp_path).parent.iterdir())


def test_two_compactions_at_once_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = opened(tmp_path)
    registry.register_minion("m1", {"dummy": ["a"]})
    inode = file_of(tmp_path).stat().st_ino
    real = os.posix_fallocate

    def allocate(fd: int, start: int, size: int) -> None:
        monkeypatch.setattr(os, "posix_fallocate", real)
        with children(lambda _: packs(tmp_path)) as (child,):
            assert child.end() == 0
        assert file_of(tmp_path).stat().st_ino == inode
        real(fd, start, size)

    monkeypatch.setattr(os, "posix_fallocate", allocate)
    registry.compact()
    assert file_of(tmp_path).stat().st_ino != inode
    assert rows_of(registry, "m1") == {"dummy:a": "m1"}
