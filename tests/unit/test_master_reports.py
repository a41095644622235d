"""What a batch of reports comes to: what is acknowledged, and whether anybody who follows a job is woken by it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from saltlite.errors import StoreConflictError
from saltlite.master.handlers.results import Reported, Settled, TransientStates, store_reports
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity
from saltlite.master.store.ports import TargetRow
from saltlite.model.job import TargetState
from saltlite.model.keys import fingerprint
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryStore
from tests.support.inventory import inventory
from tests.support.keys import FLEET_PUBLIC, JOB_PRIVATE, certificate
from tests.support.store import NOW, WEB1, WEB2, job, key, publish

JOB = job(1, (WEB1,))
RET = {"t": "return", "state": "returned", "code": 0, "start_ms": 0, "dur_ms": 1, "reason": ""}


class ReportsRig:
    """A store with one job of web1, and what becomes of what web1 says of jobs."""

    def __init__(self) -> None:
        who = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
        config = HandlerConfig(5.0, 60.0, frozenset({0}))
        self.store = MemoryStore()
        self.master = Master(self.store, ManualClock(wall=NOW), who, config, cast("Any", None), *inventory())
        publish(self.store, JOB)

    def says(self, **said: Any) -> Settled:
        report = Reported(WEB1, key(WEB1).fingerprint, said, b"\xc3" if said["t"] == "return" else None)
        return store_reports(self.master, [report], TransientStates())


def test_a_return_wakes_readers_once_and_is_acknowledged_as_often_as_it_comes() -> None:
    rig = ReportsRig()
    settled = [rig.says(**RET, jid=JOB.jid) for _ in range(3)]
    assert [one.moved for one in settled] == [{JOB.jid}, set(), set()]
    assert {tuple(jids) for one in settled for _key, jids in one.acknowledge} == {(JOB.jid,)}


def test_a_return_that_another_master_stored_meanwhile_is_looked_up_and_acknowledged_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rig, other, write = ReportsRig(), ReportsRig(), MemoryStore.write
    other.store = other.master.store = rig.store
    conflicts = [StoreConflictError("there is such a row already")]

    def conflicting(store: MemoryStore, **options: Any) -> Any:
        if conflicts:
            error = conflicts.pop()
            assert other.says(**RET, jid=JOB.jid).moved
            raise error
        return write(store, **options)

    monkeypatch.setattr(MemoryStore, "write", conflicting)
    settled = rig.says(**RET, jid=JOB.jid)
    assert settled.acknowledge == [(key(WEB1).fingerprint, [JOB.jid])]
    assert not settled.moved


@pytest.mark.parametrize("said", [RET, {"t": "job_state", "state": "refused", "reason": "no"}])
def test_what_is_said_of_a_job_that_was_never_given_wakes_nobody(said: dict[str, Any]) -> None:
    assert not ReportsRig().says(**said, jid=job(2, (WEB2,)).jid).moved


def test_an_end_that_is_known_wakes_nobody() -> None:
    rig = ReportsRig()
    with rig.store.write() as store:
        store.set_targets([(JOB.jid, TargetRow(WEB1, TargetState.EXPIRED, "", NOW))])
    assert not rig.says(t="job_state", jid=JOB.jid, state="refused", reason="").moved
