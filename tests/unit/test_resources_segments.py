"""When answers of resources are written: soon, together, and however long the disk is full."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from saltlite.errors import UnwrittenError
from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.minion.resources import process as module
from saltlite.minion.resources.process import FLUSH_S, SEGMENT_BYTES, SegmentCallbacks, SegmentWriter
from saltlite.model.job import TargetState
from saltlite.wire.messages import SegmentRow, decode_segment

PART = "20260131235959123456-1"
BOUND_S = 60.0


class Disk:
    """Keeps what is written, and is full for as long as it is told."""

    def __init__(self) -> None:
        self.full = False
        self.crowded = False
        self.kept: dict[str, list[str]] = {}
        self.said: list[object] = []

    def write(self, jid: str, result: SpoolEntry) -> bool:
        if self.full:
            raise UnwrittenError("no room", "No space left on device")
        self.kept[jid] = [row.srn for row in decode_segment(result.body)]
        return True

    def jids(self) -> list[str]:
        return list(self.kept)

    def has_room(self) -> bool:
        return not self.crowded

    def until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + BOUND_S
        while not condition():
            assert time.monotonic() < end
            time.sleep(0.001)


@contextmanager
def writing(disk: Disk) -> Iterator[SegmentWriter]:
    told = SegmentCallbacks(
        lambda _part, name: disk.said.append(name),
        lambda part, how: disk.said.append((part, how)),
        disk.said.append,
    )
    one = SegmentWriter(disk, told, time.monotonic)
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        yield one
    finally:
        one.close()
        thread.join(BOUND_S)
        assert not thread.is_alive()


def row(number: int, size: int = 1) -> SegmentRow:
    return SegmentRow(f"dummy:d{number}", TargetState.RETURNED, 0, b"x" * size, 1, 0)


def test_the_last_answer_of_a_part_is_written_at_once_and_the_part_is_done_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FLUSH_S", 2 * BOUND_S)
    disk = Disk()
    with writing(disk) as segments:
        segments.begin(PART, 1, 1)
        segments.put(PART, row(1))
        disk.until(lambda: len(disk.said) == 2)
    assert disk.said == [f"{PART}.1", (PART, "")]


def test_an_answer_waits_for_others_but_not_for_long() -> None:
    disk = Disk()
    with writing(disk) as segments:
        segments.begin(PART, 1, 100)
        began = time.monotonic()
        for number in range(10):
            segments.put(PART, row(number))
        disk.until(lambda: disk.kept)
        assert time.monotonic() - began >= FLUSH_S
    assert len(disk.kept[f"{PART}.1"]) == 10


def test_a_segment_has_a_limit_and_a_larger_answer_is_alone() -> None:
    disk = Disk()
    sizes = [SEGMENT_BYTES // 3, SEGMENT_BYTES // 3, SEGMENT_BYTES, SEGMENT_BYTES // 3]
    with writing(disk) as segments:
        segments.begin(PART, 5, len(sizes) + 1)
        for number, size in enumerate(sizes):
            segments.put(PART, row(number, size))
        segments.end(PART, "enough")
        disk.until(lambda: (PART, "enough") in disk.said)
    together = [sum(sizes[int(srn[7:])] for srn in srns) for srns in disk.kept.values()]
    assert sorted(srn for srns in disk.kept.values() for srn in srns) == [f"dummy:d{number}" for number in range(4)]
    assert max(together) == SEGMENT_BYTES
    assert sorted(disk.kept) == [f"{PART}.{number}" for number in range(5, 5 + len(disk.kept))]


def test_what_comes_after_the_end_of_a_part_is_nobodys() -> None:
    disk = Disk()
    with writing(disk) as segments:
        segments.begin(PART, 1, 2)
        segments.put(PART, row(1))
        segments.end(PART, "enough")
        segments.put(PART, row(2))
        disk.until(lambda: (PART, "enough") in disk.said)
    assert list(disk.kept.values()) == [["dummy:d1"]]


def test_answers_wait_for_a_full_disk_and_nothing_is_begun_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    disk = Disk()
    disk.full = True
    with writing(disk) as segments:
        segments.begin(PART, 1, 1)
        segments.put(PART, row(1))
        disk.until(lambda: disk.said == [True])
        disk.full = False
        disk.until(lambda: (PART, "") in disk.said)
    assert disk.said == [True, False, f"{PART}.1", (PART, "")]


def test_a_process_that_ends_while_the_disk_is_full_says_of_no_answer_that_it_is_there() -> None:
    disk = Disk()
    disk.full = True
    with writing(disk) as segments:
        segments.begin(PART, 1, 1)
        segments.put(PART, row(1))
        disk.until(lambda: disk.said == [True])
    assert disk.said == [True]


def test_while_the_spool_has_as_much_as_it_may_nothing_is_begun_and_what_was_answered_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CROWDED_S", 0.01)
    monkeypatch.setattr(module, "LOOK_SEGMENTS", 1)
    disk = Disk()
    disk.crowded = True
    with writing(disk) as segments:
        segments.begin(PART, 1, 2)
        segments.put(PART, row(1))
        disk.until(lambda: disk.said == [f"{PART}.1", True])
        segments.put(PART, row(2))
        disk.until(lambda: (PART, "") in disk.said)
        disk.crowded = False
        disk.until(lambda: disk.said[-1] is False)
    assert disk.said == [f"{PART}.1", True, f"{PART}.2", (PART, ""), False]
