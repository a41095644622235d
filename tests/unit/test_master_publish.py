"""What a publish refuses before its commit, and what it does without making other writers wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pytest

from saltlite.auth.acl import Principal
from saltlite.errors import NoTargetError, RefusedError
from saltlite.master.handlers import functions, publish
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.processes.context import Answer, HandlerConfig, Master, MasterIdentity
from saltlite.master.store.ports import StoreWriter, TargetRow
from saltlite.model.ids import MinionId, TargetId
from saltlite.model.job import TargetState
from saltlite.model.keys import KeyState, fingerprint
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryStore
from saltlite.wire.limits import JOBS_QUEUED_PER_MINION
from saltlite.wire.merkle import SignedPart
from tests.support.inventory import inventory
from tests.support.keys import FLEET_PUBLIC, JOB_PRIVATE, NOW, certificate
from tests.support.store import WEB1, WEB2, WEB3, job, key

ROOT = Principal("root", 0)
ONE_AT_A_TIME = {"size": 1, "percent": False, "wait_ms": 0, "failhard": False}


class Link:
    """A link process that takes every job."""

    def __init__(self) -> None:
        self.sent: list[set[TargetId]] = []
        """The targets of each delivery."""

    def publish(self, _job: Any, parts: Sequence[SignedPart]) -> None:
        self.sent.append({target for part in parts for target in part.targets})


class MasterRig:
    """A master with three minions that never came."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        who = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
        config = HandlerConfig(timeout_s=5.0, deliver_s=60.0, operators=frozenset({0}))
        self.link = Link()
        self.master = Master(self.store, ManualClock(wall=NOW), who, config, cast("Any", self.link), *inventory())
        self._requests = 0
        with self.store.write() as tx:
            for minion in (WEB1, WEB2, WEB3):
                tx.put_key(key(minion))

    def publish(self, *minions: MinionId, **fields: Any) -> Answer:
        self._requests += 1
        request = {"v": 1, "verb": "publish", "request_id": f"{self._requests:032x}", **fields}
        names = {"tgt": ",".join(minions), "tgt_type": "list"}
        return handle_request(self.master, ROOT, request | names | {"calls": [["test.ping", [], {}]]})

    def publish_again(self, *minions: MinionId) -> Answer:
        """The last request once more, as from a client that got no answer."""
        self._requests -= 1
        return self.publish(*minions)

    def queued(self, minion: MinionId) -> int:
        return sum(state is TargetState.QUEUED for _jid, state in self.store.unsettled(minion))


@pytest.fixture
def rig() -> MasterRig:
    return MasterRig()


def test_when_so_many_jobs_wait_for_a_minion_a_further_one_is_refused_for_all(rig: MasterRig) -> None:
    with rig.store.write() as tx:
        for number in range(JOBS_QUEUED_PER_MINION - 1):
            tx.put_job(job(10_000 + number, (WEB2,)))
    rig.publish(WEB2)
    with pytest.raises(RefusedError) as caught:
        rig.publish(WEB1, WEB2)
    assert str(caught.value).startswith(f"{JOBS_QUEUED_PER_MINION} jobs wait for web2, and no more may: ")
    assert (rig.queued(WEB1), rig.queued(WEB2)) == (0, JOBS_QUEUED_PER_MINION)
    rig.publish(WEB1)
    assert rig.queued(WEB1) == 1


def test_of_several_crowded_minions_one_is_named_and_the_others_are_counted(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "JOBS_QUEUED_PER_MINION", 1)
    rig.publish(WEB1, WEB3)
    with pytest.raises(RefusedError, match=r"1 jobs wait for web1 \(and for 1 more of the targets\)"):
        rig.publish(WEB1, WEB2, WEB3)


def test_a_target_of_a_batch_waits_from_its_turn_on(rig: MasterRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "JOBS_QUEUED_PER_MINION", 1)
    for _ in range(3):
        rig.publish(WEB1, WEB2, batch=ONE_AT_A_TIME)
    assert rig.queued(WEB1) == 0, "nobody is there, so nobody's turn has come"
    rig.publish(WEB1)
    with pytest.raises(RefusedError):
        rig.publish(WEB1)


def test_what_takes_long_is_done_before_other_writers_have_to_wait(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing: list[str] = []
    write, bind = rig.store.write, functions.publishable_calls

    @contextmanager
    def noted(*, appends_only: bool = False) -> Iterator[StoreWriter]:
        with write(appends_only=appends_only) as tx:
            writing.append("locked")
            yield tx

    def not_locked(*args: Any, **how: Any) -> Any:
        assert writing == []
        return bind(*args, **how)

    monkeypatch.setattr(rig.store, "write", noted)
    monkeypatch.setattr(publish, "publishable_calls", not_locked)
    rig.publish(WEB1)
    assert writing == ["locked"]


def test_a_key_that_is_revoked_before_the_commit_is_no_target(rig: MasterRig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked up without the lock may be old when the lock is there (S5)."""

    def revoke(calls: Any, *_args: Any, **_how: Any) -> Any:
        with rig.store.write() as tx:
            tx.put_key(key(WEB1, KeyState.REVOKED))
        return calls

    monkeypatch.setattr(publish, "publishable_calls", revoke)
    assert rig.publish(WEB1, WEB2).fields["minions"] == [WEB2]
    with pytest.raises(NoTargetError):
        rig.publish(WEB1)


def test_a_repeated_request_sends_its_job_to_those_that_do_not_have_it(rig: MasterRig) -> None:
    jid = rig.publish(WEB1, WEB2).fields["jid"]
    with rig.store.write() as tx:
        tx.set_targets([(jid, TargetRow(WEB1, TargetState.RECEIVED, "", NOW))])
    rig.link.sent.clear()
    assert rig.publish_again(WEB1, WEB2).fields["jid"] == jid
    assert rig.link.sent == [{WEB2}]
    with rig.store.write() as tx:
        tx.set_targets([(jid, TargetRow(WEB2, TargetState.RECEIVED, "", NOW))])
    rig.link.sent.clear()
    assert rig.publish_again(WEB1, WEB2).fields["jid"] == jid
    assert rig.link.sent == []
