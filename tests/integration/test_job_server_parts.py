"""The job server with parts for resources: what it orders, what it hands over, and what a killed one leaves behind."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from saltlite.minion.jobs.spool import DiskSpool
from saltlite.minion.protocol.effects import ReceivedPart
from saltlite.minion.protocol.jobs import MasterTrust
from saltlite.model.ids import Jid
from saltlite.model.job import part_id
from saltlite.platform.files import PosixFolder
from saltlite.testing.disk import MemoryDisk
from saltlite.wire import directory, merkle
from saltlite.wire.directory import MasterEntry
from saltlite.wire.limits import CHUNK
from saltlite.wire.messages import SegmentRow, decode_segment, encode_segment
from tests.support.job_machine import jid
from tests.support.jobs import MemoryRuns, Minion, answered
from tests.support.keys import JOB_PRIVATE, JOB_PUBLIC, NOW, certificate, signed

SRNS = ("dummy:a", "dummy:b")
PART = part_id(Jid(jid()), 1)
RESTARTED = "its process ended without a result (the minion was restarted while it ran)"


def part() -> ReceivedPart:
    member = merkle.member("web1", 1, SRNS)
    body, signature = signed(jid(), [member])
    return ReceivedPart(PART, body, signature, [], 60_000, SRNS)


class Managing:
    """A minion that manages resources."""

    def __init__(self, folder: Path, disk: MemoryDisk, pid: int = 0) -> None:
        made: list[MemoryRuns] = []
        spool = DiskSpool(PosixFolder(str(folder / "spool")))

        def make(runs: Any) -> MemoryRuns:
            made.append(MemoryRuns(runs, spool, pid))
            return made[0]

        self.minion = Minion(folder, disk, make)
        self.runs = made[0]
        self.minion.connects()

    def told(self, kind: str, result: str = PART) -> list[dict[str, Any]]:
        return [m for m in self.minion.told.messages if m["t"] == kind and m["jid"] == result]

    def rows(self, segment: str) -> list[SegmentRow]:
        return decode_segment(self.told("result", segment)[0]["body"])

    def acknowledged(self, *results: str) -> None:
        self.minion.says({"t": "return_ack", "jids": list(results)})

    def takes(self) -> None:
        self.minion.parcel(part())
        self.minion.until(lambda: self.runs.running == [PART])


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    """Starts minions on a disk, each in the place of the one before; they are let go at the end."""
    with ExitStack() as stack:

        def begin(disk: MemoryDisk, pid: int = 0) -> Managing:
            managing = Managing(tmp_path, disk, pid)
            stack.callback(managing.minion.close)
            return managing

        yield begin


def test_a_part_runs_on_its_resources_and_what_they_answer_is_handed_over_as_it_comes(started: Any) -> None:
    it: Managing = started(MemoryDisk())
    it.takes()
    call, srns = it.runs.begun[PART]
    assert (call.fun, srns) == ("test.ping", list(SRNS))
    first = it.runs.answer(PART, answered("dummy:a"))
    it.minion.until(lambda: it.told("result", first))
    assert it.rows(first) == [answered("dummy:a")]
    second = it.runs.answer(PART, answered("dummy:b"))
    it.runs.over(PART)
    it.minion.until(lambda: it.told("result", second))
    it.acknowledged(first, second)
    assert it.minion.spool.jids() == []
    it.minion.parcel(part())
    assert it.told("state")[-1]["reason"] == "it ran before, and its result was handed over"


def test_a_large_segment_is_announced_and_sent_when_the_master_has_room(started: Any) -> None:
    it: Managing = started(MemoryDisk())
    it.takes()
    row = answered("dummy:a", b"x" * 2 * CHUNK)
    segment = it.runs.answer(PART, row)
    it.minion.until(lambda: it.told("result", segment))
    announced = it.told("result", segment)[0]
    assert (announced["body"], announced["size"]) == (b"", len(encode_segment([row])))
    it.minion.says({"t": "grant", "jid": segment})
    assert decode_segment(it.told("body", segment)[0]["body"]) == [row]


def test_a_part_whose_process_dies_says_so_when_the_master_has_all_that_was_answered(started: Any) -> None:
    it: Managing = started(MemoryDisk())
    it.takes()
    # Written, and not told before it died.
    segment = it.runs.keep(PART, answered("dummy:a"))
    it.runs.over(PART, "killed by SIGKILL")
    it.minion.until(lambda: it.told("result", segment))
    assert it.told("result") == []
    it.acknowledged(segment)
    it.minion.until(lambda: it.told("result"))
    assert it.told("result")[0]["state"] == "interrupted"
    assert it.told("result")[0]["reason"] == "its process ended without a result (killed by SIGKILL)"
    it.acknowledged(PART)
    assert it.minion.spool.jids() == []


def test_a_kill_reaches_what_runs_the_part(started: Any) -> None:
    it: Managing = started(MemoryDisk())
    it.takes()
    it.minion.says({"t": "cancel", "jid": PART})
    assert it.runs.cancelled == [(PART, False)]
    it.runs.over(PART, "an operator ended it")
    it.minion.until(lambda: it.told("result"))
    assert it.told("result")[0]["state"] == "cancelled"


def test_a_part_for_which_there_is_no_room_is_refused(started: Any) -> None:
    it: Managing = started(MemoryDisk())
    it.runs.no_room = True
    it.minion.parcel(part())
    it.minion.until(lambda: it.told("state"))
    (told,) = it.told("state")
    reason = "the minion cannot start another process: Resource temporarily unavailable"
    assert (told["state"], told["reason"]) == ("refused", reason)


def test_a_minion_that_manages_nothing_refuses_parts(tmp_path: Path) -> None:
    minion = Minion(tmp_path, MemoryDisk())
    minion.parcel(part())
    assert [m["reason"] for m in minion.told.messages if m["t"] == "state"] == ["this minion manages no resources"]
    minion.close()


def test_a_segment_that_the_disk_lost_is_told_as_unknown(started: Any, tmp_path: Path) -> None:
    it: Managing = started(MemoryDisk())
    it.takes()
    segment = it.runs.answer(PART, answered("dummy:a"))
    it.runs.over(PART)
    it.minion.until(lambda: it.told("result", segment))
    (tmp_path / "spool" / f"{segment}.ret").write_bytes(b"damaged")
    it.minion.connects()
    it.minion.until(lambda: it.told("result"))
    assert it.told("result")[0]["reason"] == "its result could not be read again from the minion's disk"


def test_what_a_killed_job_server_left_running_is_ended_before_its_parts_are_said_to_be(started: Any) -> None:
    disk = MemoryDisk()
    with subprocess.Popen(["sleep", "600"]) as leftover:
        killed: Managing = started(disk, leftover.pid)
        killed.takes()
        segment = killed.runs.keep(PART, answered("dummy:a"))
        it: Managing = started(disk)
        it.minion.until(lambda: it.told("result", segment))
        assert leftover.wait(timeout=60) == -9
        it.acknowledged(segment)
        it.minion.until(lambda: it.told("result"))
        assert (it.told("result")[0]["state"], it.told("result")[0]["reason"]) == ("interrupted", RESTARTED)


def test_a_part_whose_process_ended_with_its_job_server_is_interrupted_and_never_run_again(started: Any) -> None:
    disk = MemoryDisk()
    with subprocess.Popen(["true"]) as over:
        over.wait()
    killed: Managing = started(disk, over.pid)
    killed.takes()
    it: Managing = started(disk)
    it.minion.until(lambda: it.told("result"))
    assert it.told("result")[0]["reason"] == RESTARTED
    it.minion.parcel(part())
    assert it.runs.begun == {}


def test_an_earlier_list_of_masters_makes_no_key_of_a_removed_master_trusted_here(
    started: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = started(MemoryDisk()).minion
    shared: list[bytes] = []
    monkeypatch.setattr(it.jobs, "share", lambda job_key, _until: shared.append(job_key))
    listed = (MasterEntry("m1", "m1:4515", 100, True),)
    content, signature = directory.signed(JOB_PRIVATE, listed, 1)
    message = {"t": "directory", "content": content, "sig": signature}
    monkeypatch.setattr(it.server, "_masters", MasterTrust(lambda *_: None, lambda _known: False))
    it.says({"t": "trust", "cert": certificate(NOW).encode(), "chain": b""}, message)
    assert shared == []
    monkeypatch.setattr(it.server, "_masters", MasterTrust(lambda *_: None))
    it.says(message)
    assert shared == [JOB_PUBLIC]
