"""Results that the disk does not take: held, offered, written later; and bounded."""

from __future__ import annotations

import errno
from importlib.resources import files

import pytest

from saltlite.errors import JournalError
from saltlite.minion.jobs.job_process import HELD_RESULT_MAX, UNHEARD_S
from saltlite.minion.jobs.results import HELD_BYTES, SYNC_S, DelayedSync, ResultStore
from saltlite.minion.protocol.effects import SpoolEntry
from saltlite.model.job import TargetState
from saltlite.platform.reactor import Reactor
from saltlite.testing.disk import MemoryDisk, memory_spool

JID = "20260131235959123456"
LATER = "20260131235959123457"
WHY = "No space left on device"


def result(body: bytes = b"\xc3") -> SpoolEntry:
    return SpoolEntry(TargetState.RETURNED, 0, body, 1_800_000_000_000, 250)


class Broken:
    """A disk that can be made to fail, with a spool on it."""

    def __init__(self) -> None:
        self.error = 0
        self.disk = MemoryDisk(before=self._before)
        spool = memory_spool(self.disk)
        spool.open()
        self.results = ResultStore(spool)

    def _before(self, operation: str) -> None:
        if self.error and operation in ("create", "write", "sync"):
            raise OSError(self.error, "No space left on device")


def test_a_held_result_is_offered_read_and_counted_like_any_other() -> None:
    it = Broken()
    it.results.keep(LATER, result())
    assert it.results.hold(JID, result(b"held"), WHY)
    assert (it.results.jids(), it.results.count()) == ([JID, LATER], 2)
    assert it.results.read(JID).body == b"held"
    assert it.results.noticed(JID)


def test_while_something_is_held_the_disk_counts_as_full() -> None:
    it = Broken()
    it.results.hold(JID, result(), WHY)
    assert it.results.full() == WHY
    it.results.remove(JID)
    assert (it.results.full(), it.results.jids()) == ("", [])


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_an_ending_that_cannot_be_written_is_held_and_written_when_the_disk_takes_it(number: int) -> None:
    it = Broken()
    it.error = number
    it.results.keep(JID, result(b""))
    assert it.results.holding
    it.results.retry()
    assert it.results.full() == WHY
    it.error = 0
    it.results.retry()
    assert it.results.full() == ""
    it.disk.crash()
    assert memory_spool(it.disk).read(JID) == result(b"")


def test_a_result_that_is_too_large_is_not_held() -> None:
    it = Broken()
    assert it.results.hold(JID, result(bytes(HELD_RESULT_MAX)), WHY)
    assert not it.results.hold(LATER, result(bytes(HELD_RESULT_MAX + 1)), WHY)
    assert not it.results.noticed(LATER)


def test_no_more_is_held_than_the_limit() -> None:
    it = Broken()
    whole = HELD_BYTES // HELD_RESULT_MAX
    for number in range(whole):
        assert it.results.hold(f"{number:020d}", result(bytes(HELD_RESULT_MAX)), WHY)
    assert not it.results.hold(JID, result(b"x"), WHY)


def test_a_held_result_that_the_master_has_is_forgotten_and_another_is_read_from_the_disk() -> None:
    it = Broken()
    it.results.hold(JID, result(), WHY)
    it.results.remove(JID)
    with pytest.raises(JournalError, match="cannot be read"):
        it.results.read(JID)


def test_a_result_that_cannot_be_synced_is_held_and_written_anew_when_the_disk_takes_it() -> None:
    it = Broken()
    memory_spool(it.disk).write(JID, result(b"mine"), sync=False)
    assert it.results.noticed(JID, reported=True)
    it.error = errno.EIO
    it.results.sync([JID])
    assert (it.results.holding, it.results.read(JID).body) == (True, b"mine")
    it.error = 0
    it.results.retry()
    it.disk.crash()
    assert memory_spool(it.disk).read(JID).body == b"mine"


@pytest.mark.parametrize(("confirmed", "syncs"), [(True, 0), (False, 1)])
def test_a_result_is_synced_in_time_unless_the_master_has_confirmed_it_before(*, confirmed: bool, syncs: int) -> None:
    it = Broken()
    memory_spool(it.disk).write(JID, result(), sync=False)
    it.results.noticed(JID, reported=True)
    done: list[str] = []
    it.disk.before = done.append
    reactor = Reactor()
    delayed = DelayedSync(reactor, it.results, synced=reactor.stop, fail=pytest.fail)
    delayed.later(JID)
    if confirmed:
        it.results.remove(JID)
    reactor.run()
    assert done.count("sync") == syncs
    assert it.results.is_synced(JID)
    reactor.close()


def test_what_a_power_failure_may_take_is_what_is_promised() -> None:
    promised = (files("saltlite") / "docs/guarantees.md").read_text(encoding="utf-8")
    assert f"no power failure from {SYNC_S:g} s after the function has returned" in promised
    assert f"({UNHEARD_S:g} s while the job server is stopped;" in promised
