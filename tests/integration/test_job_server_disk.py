"""The job server on a disk that is full or broken: it stays up, says so, enters nothing, and recovers (G4, G6)."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from saltlite.adapters.clock import SystemClock
from saltlite.adapters.folder import PosixFolder
from saltlite.adapters.memory_disk import JOURNAL_FOLDER, MemoryDisk, memory_journal
from saltlite.adapters.packing import pack, unpack
from saltlite.adapters.reactor import Reactor
from saltlite.adapters.spool import DiskSpool
from saltlite.core.jobs import Jobs
from saltlite.core.minion_ports import Step
from saltlite.loader.finder import build_index
from saltlite.loader.places import search_layers
from saltlite.minion import inside, jobserver
from saltlite.minion.jobprocess import Surroundings
from saltlite.minion.jobserver import Disk, JobServer
from saltlite.minion.returns import Returns
from tests.core_keys import JOB_PUBLIC, NOW
from tests.core_server import UNTIL, jid, parcel

WITHIN_S = 20.0


class Clock(SystemClock):
    """The reactor's own, in the year of the keys of the tests."""

    def wall(self) -> float:
        return NOW


class Told:
    """In the place of the network process: what it is told."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, data: bytes) -> None:
        self.messages.append(unpack(data))

    def states(self, number: int) -> list[tuple[str, str]]:
        return [(m["state"], m["reason"]) for m in self.messages if m["t"] == "state" and m["jid"] == jid(number)]

    def result(self, number: int) -> dict[str, Any] | None:
        return next((m for m in self.messages if m["t"] == "result" and m["jid"] == jid(number)), None)


class Minion:
    """A job server with a journal in memory, real processes, and a real spool."""

    def __init__(self, folder: Path, disk: MemoryDisk) -> None:
        self.disk = disk
        self.failed: list[str] = []
        self.told = Told()
        self.reactor = Reactor()
        (folder / "running").mkdir(exist_ok=True)
        clock = Clock()
        self.jobs = Jobs("web1", clock, limit=2, longest_s=0.0)
        self.jobs.trust(JOB_PUBLIC, UNTIL)
        index = build_index(search_layers({}))
        returns = Returns("web1", 1 << 20, str(folder / "kept"), 0)
        spool = str(folder / "spool")
        surroundings = Surroundings({}, {}, lambda: index, spool, returns, lambda *_: None)
        self.journal = memory_journal(disk, entropy=bytes)
        self.spool = DiskSpool(PosixFolder(spool))
        self.server = JobServer(
            self.reactor,
            self.jobs,
            Disk(self.journal, self.spool, str(folder / "running"), str(folder)),
            clock,
            surroundings,
            fleet_of=lambda _: b"",
            fail=self.failed.append,
        )
        self.server.replay()
        self.server.attach(self.told)  # type: ignore[arg-type]  # it has what is used of a channel
        self.server.open()

    def close(self) -> None:
        """Let its processes end, and wait for them: nothing in the product stops a job server but its exit."""
        for pid in self.server._children:
            os.kill(pid, signal.SIGKILL)
        self.until(lambda: not self.server._children)
        self.reactor.close()

    def job(self, number: int) -> None:
        it = parcel(number)
        message = {
            "t": "job",
            "jid": it.jid,
            "resources": [],
            "body": it.body,
            "sig": it.signature,
            "proof": list(it.proof),
        }
        self.server.on_batch([pack({**message, "deliver_ms": it.deliver_ms})])

    def until(self, look: Callable[[], object]) -> None:
        """Run the loop until `look` is true."""
        deadline = self.reactor.now() + WITHIN_S

        def check() -> None:
            if look() or self.reactor.now() > deadline:
                self.reactor.stop()
            else:
                self.reactor.call_later(0.005, check)

        check()
        self.reactor.run()
        assert look()


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
    assert entry.step is Step.DONE


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
    monkeypatch.setattr(jobserver, "HELD_RETRY_S", 0.02)
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
