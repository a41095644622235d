"""Jobs for resources on the master: published in parts, pulled, ended, and returned in segments by whoever has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from saltlite.auth.acl import Principal
from saltlite.errors import NoTargetError, RefusedError, StoreError
from saltlite.master.handlers import publish, results
from saltlite.master.handlers.delivery import CANCELS_MAX, handle_pull, release_due
from saltlite.master.handlers.jobs import JobFollower
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.handlers.results import (
    Reported,
    Settled,
    TransientStates,
    report_rejected,
    store_reports,
    store_transient_states,
)
from saltlite.master.processes.context import REPORT_S, Answer, HandlerConfig, Master, MasterIdentity
from saltlite.master.store.ports import OpenJob
from saltlite.model.events import tag_job_return, tag_resource_refused
from saltlite.model.ids import Jid, MinionId, TargetId
from saltlite.model.job import PART_RESOURCES, TargetState, part_id, segment_id, split_part
from saltlite.model.keys import KeyState, fingerprint
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryStore
from saltlite.wire import merkle
from saltlite.wire.job_body import decode_body
from saltlite.wire.merkle import SignedPart
from saltlite.wire.messages import SegmentRow, encode_segment
from tests.support.inventory import inventory
from tests.support.keys import FLEET_PUBLIC, JOB_PRIVATE, NOW, certificate
from tests.support.store import WEB1, WEB2, had_sessions, key, row, state_of

ROOT = Principal("root", 0)
A, B, C = "dummy:a", "dummy:b", "ssh:c"
OTHERS = "dummy:z"


class Link:
    """Notes what goes to minions."""

    def __init__(self) -> None:
        self.sent: list[SignedPart] = []
        self.cancels: list[tuple[str, str]] = []
        self.pulled_parts: list[tuple[OpenJob, list[bytes]]] = []
        self.rest: str | None = None

    def publish(self, _job: Any, parts: Sequence[SignedPart]) -> None:
        self.sent += parts

    def cancel(self, parts: Sequence[tuple[str, str]]) -> None:
        self.cancels += parts

    def fetch(self, minion: str, what: str) -> None:
        """Functions are not what is looked at here."""

    def pulled(self, _minion: str, jobs: Any, *, starved: bool, rest: str | None) -> None:
        self.pulled_parts += [(job, proof) for job, proof, _left in jobs]
        self.rest = rest
        assert starved == bool(rest)


class MasterRig:
    """A master; web1 manages three resources and web2 one."""

    def __init__(self, resources: dict[MinionId, dict[str, list[str]]] | None = None) -> None:
        self.clock = ManualClock(wall=NOW)
        self.store = MemoryStore()
        self.link = Link()
        who = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
        config = HandlerConfig(timeout_s=5.0, deliver_s=60.0, operators=frozenset({0}))
        self.master = Master(self.store, self.clock, who, config, cast("Any", self.link), *inventory())
        self._requests = 0
        with self.store.write() as tx:
            for minion in (WEB1, WEB2):
                tx.put_key(key(minion))
        managed = resources or {WEB1: {"dummy": ["a", "b"], "ssh": ["c"]}, WEB2: {"dummy": ["z"]}}
        for minion, ids in managed.items():
            self.master.registry.register(minion, ids)

    def ask(self, verb: str, **fields: Any) -> Answer:
        return handle_request(self.master, ROOT, {"v": 1, "verb": verb, **fields})

    def publish(self, *targets: TargetId, **fields: Any) -> Answer:
        self._requests += 1
        request = {"request_id": f"{self._requests:032x}", "tgt": ",".join(targets), "tgt_type": "list", **fields}
        return self.ask("publish", **request, calls=[["test.ping", [], {}]])

    def jid(self, *targets: TargetId, **fields: Any) -> Jid:
        return Jid(self.publish(*targets, **fields).fields["jid"])

    def comes(self, *minions: MinionId) -> None:
        with self.store.write() as tx:
            had_sessions(tx, [row(minion, self.clock.wall(), up=True) for minion in minions])
        for minion in minions:
            self.master.present[minion] = self.clock.wall()

    def says(self, minion: MinionId, *messages: dict[str, Any], body: bytes = b"") -> Settled:
        reported = [Reported(minion, key(minion).fingerprint, one, body) for one in messages]
        return store_reports(self.master, reported, TransientStates())

    def segment(self, minion: MinionId, segment: str, *rows: SegmentRow) -> Settled:
        return self.says(minion, ret(segment), body=encode_segment(rows))

    def states(self, jid: Jid) -> dict[TargetId, TargetState]:
        return {one.id: one.state for one in self.store.targets(jid)}

    def returned(self, jid: Jid) -> dict[TargetId, bytes]:
        return {one.id: one.body for one in self.store.returns(jid)}

    def events(self, tag: str) -> list[Any]:
        return [event.data for event in self.store.events(0, 10_000) if event.tag == tag]


def ret(result: str, state: str = "returned", reason: str = "") -> dict[str, Any]:
    return {"t": "return", "jid": result, "state": state, "code": 0, "start_ms": 0, "dur_ms": 1, "reason": reason}


def answered(
    srn: TargetId, body: bytes = b"\xc3", state: TargetState = TargetState.RETURNED, reason: str = ""
) -> SegmentRow:
    return SegmentRow(srn, state, 0, body, int(NOW * 1000), 5, reason)


@pytest.fixture
def rig() -> MasterRig:
    return MasterRig()


RETURNED, QUEUED, RUNNING = TargetState.RETURNED, TargetState.QUEUED, TargetState.RUNNING
INTERRUPTED, REFUSED, CANCELLED = TargetState.INTERRUPTED, TargetState.REFUSED, TargetState.CANCELLED

# -- publishing


def test_each_minion_gets_its_own_part_and_a_part_for_the_resources_of_each_type(rig: MasterRig) -> None:
    fields = rig.publish("web2", "a", "b", "c", "z").fields
    jid = Jid(fields["jid"])
    assert fields["minions"] == ["web2"]
    assert fields["resources"] == {"web1": [A, B, C], "web2": [OTHERS]}
    assert [(one.minion, one.id, one.srns) for one in rig.link.sent] == [
        ("web2", jid, ()),
        ("web1", part_id(jid, 1), (A, B)),
        ("web1", part_id(jid, 2), (C,)),
        ("web2", part_id(jid, 1), (OTHERS,)),
    ]
    assert sorted(fields["away"]) == ["web1", "web2"]
    assert fields["unknown"] == {}


def test_every_part_can_be_shown_to_belong_to_what_was_signed(rig: MasterRig) -> None:
    jid = rig.jid("web1", "a", "c", "z")
    job = rig.store.job(jid)
    assert job is not None
    signed = decode_body(job.body).audience
    for part in rig.link.sent:
        member = merkle.member(part.minion, split_part(part.id)[1], part.srns)
        assert merkle.admits(signed, member, part.proof)
        assert not merkle.admits(signed, merkle.member(part.minion, 1, (*part.srns, "dummy:x")), part.proof)


def test_more_resources_than_a_part_has_are_several_parts() -> None:
    ids = [f"{number:05d}" for number in range(PART_RESOURCES + 1)]
    rig = MasterRig({WEB1: {"dummy": ids}})
    rig.publish("T@dummy", tgt_type="compound")
    assert [len(one.srns) for one in rig.link.sent] == [PART_RESOURCES, 1]


def test_a_subset_is_taken_from_minions_and_resources_and_of_those_that_are_there_first(rig: MasterRig) -> None:
    rig.comes(WEB2)
    fields = rig.publish("web1", "web2", "a", "z", subset=2).fields
    assert (fields["minions"], fields["resources"]) == (["web2"], {"web2": [OTHERS]})


def test_a_name_that_is_nothing_is_told_beside_resources_that_are(rig: MasterRig) -> None:
    assert list(rig.publish("a", "dummy:b", "nobody").fields["unknown"]) == ["nobody"]


def test_resources_of_a_minion_whose_key_is_taken_away_meanwhile_are_left_out(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = Master.resolve

    def revoked_after(master: Master, target: Any) -> Any:
        found = resolve(master, target)
        with rig.store.write() as tx:
            tx.put_key(key(WEB1, KeyState.REVOKED))
        return found

    monkeypatch.setattr(Master, "resolve", revoked_after)
    assert rig.publish("web1", "a", "z").fields["resources"] == {"web2": [OTHERS]}
    with pytest.raises(NoTargetError):
        rig.publish("a")


def test_a_minion_for_whose_resources_too_many_parts_wait_is_crowded(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "JOBS_QUEUED_PER_MINION", 2)
    rig.publish("a", "c")
    with pytest.raises(RefusedError, match="jobs wait for web1"):
        rig.publish("b")
    rig.publish("z")


# -- returns


def test_what_resources_answered_is_stored_one_by_one_and_acknowledged_by_the_segment(rig: MasterRig) -> None:
    jid = rig.jid("a", "b")
    segment = segment_id(part_id(jid, 1), 0)
    settled = rig.segment(WEB1, segment, answered(A, b"\x01"), answered(B, b"\x02"))
    assert settled.acknowledge == [(key(WEB1).fingerprint, [segment])]
    assert settled.moved == {jid}
    assert rig.returned(jid) == {A: b"\x01", B: b"\x02"}
    assert rig.events(tag_job_return(jid, A))[0]["minion"] == "web1"
    again = rig.segment(WEB1, segment, answered(A, b"\x03"))
    assert (again.acknowledge, again.moved) == (settled.acknowledge, frozenset())
    assert rig.returned(jid)[A] == b"\x01"


def test_a_resource_that_was_refused_on_its_minion_says_so_and_not_that_it_was_lost(rig: MasterRig) -> None:
    jid = rig.jid("a", "b")
    row_of_b = answered(B, b"", REFUSED, "it is not managed here any more")
    rig.segment(WEB1, segment_id(part_id(jid, 1), 0), answered(A), row_of_b)
    assert rig.states(jid) == {A: RETURNED, B: REFUSED}
    assert rig.returned(jid)[B] == b""


def test_results_of_resources_that_are_not_in_the_part_are_left_out_and_told_to_operators(rig: MasterRig) -> None:
    jid = rig.jid("a", "c", "z")
    settled = rig.segment(WEB1, segment_id(part_id(jid, 1), 0), answered(A), answered(C), answered(OTHERS))
    assert rig.states(jid) == {A: RETURNED, C: QUEUED, OTHERS: QUEUED}
    assert settled.acknowledge, "the minion may forget it"
    (event,) = rig.events(tag_resource_refused(WEB1))
    assert (event["jid"], event["count"], event["srns"]) == (jid, 2, [C, OTHERS])


@pytest.mark.parametrize("part", [1, 2, 7])
def test_a_minion_cannot_answer_for_what_another_manages(rig: MasterRig, part: int) -> None:
    jid = rig.jid("a", "z")
    rig.segment(WEB2, segment_id(part_id(jid, part), 0), answered(A))
    assert rig.states(jid)[A] is QUEUED
    assert rig.returned(jid) == {}


def test_a_segment_that_cannot_be_read_is_acknowledged_and_told(rig: MasterRig) -> None:
    jid = rig.jid("a")
    segment = segment_id(part_id(jid, 1), 0)
    settled = rig.says(WEB1, ret(segment), body=b"\xc1")
    assert settled.acknowledge == [(key(WEB1).fingerprint, [segment])]
    assert "could not be read" in rig.events(tag_resource_refused(WEB1))[0]["reason"]
    assert rig.states(jid) == {A: QUEUED}


def test_bad_results_are_told_once_a_minute_with_how_many_there_were(rig: MasterRig) -> None:
    jid, other = rig.jid("a"), rig.jid("b")
    for number in range(30):
        rig.segment(WEB1, segment_id(part_id(jid, 1), number), answered(OTHERS))
    for number in range(10):
        rig.segment(WEB1, segment_id(part_id(other, 1), number), answered(A))
    rig.segment(WEB2, segment_id(part_id(jid, 1), 0), answered(A))
    tag = tag_resource_refused(WEB1)
    assert [event["count"] for event in rig.events(tag)] == [1]
    assert len(rig.events(tag_resource_refused(WEB2))) == 1, "each minion is told of"
    rig.clock.advance(REPORT_S)
    assert report_rejected(rig.master)
    assert not report_rejected(rig.master)
    event = rig.events(tag)[1]
    assert (event["jid"], event["count"], event["srns"]) == (jid, 39, [OTHERS] * 5)


def test_bad_results_of_jobs_that_there_are_not_only_count(rig: MasterRig, caplog: pytest.LogCaptureFixture) -> None:
    jid = "20010101000000000000"
    settled = [
        rig.segment(WEB1, segment_id(part_id(Jid(jid), 1), 0), answered(A), answered(B)),
        rig.says(WEB1, ret(segment_id(part_id(Jid(jid), 1), 1)), body=b"\xc1"),
        rig.says(WEB1, ret(jid), body=b"\xc3"),
    ]
    assert [one.rejected for one in settled] == [2, 1, 1]
    assert rig.events(tag_resource_refused(WEB1)) == []
    assert caplog.records == []


def test_how_a_part_ended_is_stored_without_a_body(rig: MasterRig) -> None:
    """Or a few bytes of the minion's would be stored once for each resource of the part."""
    jid = rig.jid("a", "b")
    rig.says(WEB1, ret(part_id(jid, 1), "interrupted"), body=b"x" * 1000)
    assert rig.returned(jid) == {A: b"", B: b""}


def test_a_bank_that_cannot_be_read_leaves_results_committed(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_given: Any) -> None:
        raise StoreError("the bank is away")

    monkeypatch.setattr(results, "handle_digests", broken)
    jid = rig.jid("web1")
    settled = rig.says(WEB1, {"t": "digest", "grains": "0" * 64, "resources": ""}, ret(jid), body=b"\xc3")
    assert settled.acknowledge == [(key(WEB1).fingerprint, [jid])]
    assert "the digests of web1 cannot be compared for now: the bank is away" in caplog.text


def test_how_a_part_ended_holds_for_what_has_not_returned(rig: MasterRig) -> None:
    jid = rig.jid("a", "b")
    part = part_id(jid, 1)
    rig.segment(WEB1, segment_id(part, 0), answered(A))
    settled = rig.says(WEB1, ret(part, "interrupted", "its process died"))
    assert settled.acknowledge == [(key(WEB1).fingerprint, [part])]
    assert rig.states(jid) == {A: RETURNED, B: INTERRUPTED}
    assert [one.reason for one in rig.store.targets(jid)] == ["", "its process died"]


def test_segment_and_ending_in_one_batch_leave_the_returns_what_they_are(rig: MasterRig) -> None:
    jid = rig.jid("a", "b")
    part = part_id(jid, 1)
    body = encode_segment([answered(A)])
    key_of = key(WEB1).fingerprint
    batch = [
        Reported(WEB1, key_of, ret(part, "interrupted"), b""),
        Reported(WEB1, key_of, ret(segment_id(part, 0)), body),
    ]
    store_reports(rig.master, batch, TransientStates())
    assert rig.states(jid) == {A: RETURNED, B: INTERRUPTED}


def test_a_part_for_resources_cannot_return_as_a_whole(rig: MasterRig) -> None:
    jid = rig.jid("a", "b")
    rig.says(WEB1, ret(part_id(jid, 1)), body=b"\xc3")
    assert rig.states(jid) == {A: QUEUED, B: QUEUED}
    assert rig.events(tag_resource_refused(WEB1))


def test_a_minion_that_only_manages_resources_of_a_job_has_no_return_of_its_own(rig: MasterRig) -> None:
    jid = rig.jid("a")
    assert not rig.says(WEB1, ret(jid), body=b"\xc3").moved
    assert rig.returned(jid) == {}


def test_a_state_of_a_part_holds_for_all_in_it_and_for_no_others(rig: MasterRig) -> None:
    jid = rig.jid("web1", "a", "b", "c")
    refused = {"t": "job_state", "jid": part_id(jid, 1), "state": "refused", "reason": "no"}
    assert rig.says(WEB1, refused).moved == {jid}
    assert not rig.says(WEB2, {**refused, "jid": part_id(jid, 2)}).moved
    assert rig.states(jid) == {"web1": QUEUED, A: REFUSED, B: REFUSED, C: QUEUED}


def test_what_some_of_a_part_answered_says_that_the_others_run(rig: MasterRig) -> None:
    """A minion that comes back with another disk must not be given them once more."""
    jid = rig.jid("a", "b", "c")
    rig.segment(WEB1, segment_id(part_id(jid, 1), 0), answered(A))
    assert rig.states(jid) == {A: RETURNED, B: RUNNING, C: QUEUED}
    rig.segment(WEB1, segment_id(part_id(jid, 1), 1), answered(B))
    assert rig.states(jid)[B] is RETURNED


def test_that_a_part_runs_is_stored_for_all_in_it(rig: MasterRig) -> None:
    jid = rig.jid("a", "b", "c")
    transient = TransientStates()
    running = {"t": "job_state", "jid": part_id(jid, 1), "state": "running", "reason": ""}
    store_reports(rig.master, [Reported(WEB1, key(WEB1).fingerprint, running, None)], transient)
    assert store_transient_states(rig.master, transient)
    assert rig.states(jid) == {A: RUNNING, B: RUNNING, C: QUEUED}


# -- what a reader is told


def test_a_follower_is_told_which_minion_a_resource_belongs_to(rig: MasterRig) -> None:
    answer = rig.publish("web1", "a", follow=True)
    jid = Jid(answer.fields["jid"])
    rig.segment(WEB1, segment_id(part_id(jid, 1), 0), answered(A))
    rig.says(WEB1, ret(jid), body=b"\xc3")
    assert answer.follow is not None
    follower = JobFollower(rig.master, cast("Any", answer.follow))
    assert follower.news() is None, "nothing has become of a job that was committed a moment ago"
    news = follower.news()
    assert news is not None
    assert news["end"]
    assert {one["id"]: one.get("minion") for one in news["returns"]} == {A: "web1", "web1": None}


def test_a_job_is_followed_and_shown_with_its_resources(rig: MasterRig) -> None:
    jid = rig.jid("web2", "a")
    assert rig.ask("follow", jid=jid, after=0).fields["resources"] == {"web1": [A]}
    shown = rig.ask("job_show", jid=jid).fields["job"]["targets"]
    assert [(one["id"], one.get("minion")) for one in shown] == [(A, "web1"), ("web2", None)]
    for asked in (A, "web1", "web2"):
        assert [one["jid"] for one in rig.ask("job_list", minion=asked).fields["jobs"]] == [jid]
    assert rig.ask("job_list", minion=B).fields["jobs"] == []


# -- pulling, batches, kills


def pull(rig: MasterRig, minion: MinionId, since: str = "") -> None:
    session = [minion, key(minion).fingerprint, True, "10.0.0.1", "0.1", "boot", "disk", "", 1, 1]
    handle_pull(rig.master, {"id": minion, "session": session, "since": since})


def test_a_minion_that_comes_back_gets_its_open_parts_with_proofs(rig: MasterRig) -> None:
    jid = rig.jid("web1", "a", "c")
    rig.segment(WEB1, segment_id(part_id(jid, 2), 0), answered(C))
    pull(rig, WEB1)
    assert [(one.part, one.resources_here) for one, _proof in rig.link.pulled_parts] == [
        (jid, ()),
        (part_id(jid, 1), (A,)),
    ]
    sent = {one.id: one.proof for one in rig.link.sent if one.minion == WEB1}
    assert all(proof == sent[one.part] for one, proof in rig.link.pulled_parts)


def test_a_part_of_which_some_have_answered_is_asked_about_with_all_its_resources(rig: MasterRig) -> None:
    jid = rig.jid("a", "b")
    rig.segment(WEB1, segment_id(part_id(jid, 1), 0), answered(A))
    pull(rig, WEB1)
    assert [one.resources_here for one, _proof in rig.link.pulled_parts] == [(A, B)]


def test_parts_are_gone_through_by_their_number_and_not_by_their_text() -> None:
    kinds = {f"t{number}": ["a"] for number in range(70)}
    rig = MasterRig({WEB1: kinds})
    jid = rig.jid("a")
    pull(rig, WEB1)
    assert rig.link.rest == part_id(jid, 65)
    pull(rig, WEB1, rig.link.rest)
    assert [split_part(one.part)[1] for one, _proof in rig.link.pulled_parts] == list(range(1, 71))


def test_a_batch_takes_resources_one_by_one(rig: MasterRig) -> None:
    rig.comes(WEB1)
    batch = {"size": 2, "percent": False, "wait_ms": 0, "failhard": False}
    jid = rig.jid("a", "b", "c", "z", batch=batch)
    assert [one.srns for one in rig.link.sent] == [(A,), (B,)]
    rig.segment(WEB1, segment_id(part_id(jid, 1), 0), answered(A))
    release_due(rig.store, rig.clock, cast("Any", rig.link), rig.master.proofs)
    assert [one.srns for one in rig.link.sent[2:]] == [(C,)], "who manages z is away"
    rig.comes(WEB2)
    rig.segment(WEB1, segment_id(part_id(jid, 2), 0), answered(B))
    release_due(rig.store, rig.clock, cast("Any", rig.link), rig.master.proofs)
    assert [one.srns for one in rig.link.sent[3:]] == [(OTHERS,)]


def test_a_kill_goes_to_every_open_part_and_answers_by_targets(rig: MasterRig) -> None:
    rig.comes(WEB1)
    jid = rig.jid("web1", "a", "c", "z")
    rig.segment(WEB1, segment_id(part_id(jid, 2), 0), answered(C))
    answer = rig.ask("job_kill", jid=jid).fields
    assert answer == {"ids": [A, "web1"], "away": [], "cancelled": [OTHERS]}
    assert rig.link.cancels == [("web1", jid), ("web1", part_id(jid, 1)), ("web2", part_id(jid, 1))]
    assert rig.states(jid)[OTHERS] is CANCELLED


def test_a_kill_tells_a_minion_of_so_many_parts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {f"t{number}": ["a"] for number in range(CANCELS_MAX + 5)}
    rig = MasterRig({WEB1: kinds})
    rig.comes(WEB1)
    jid = rig.jid("a")
    rig.ask("job_kill", jid=jid)
    assert len(rig.link.cancels) == CANCELS_MAX


def test_a_part_of_a_killed_job_that_is_taken_up_is_ended_again(rig: MasterRig) -> None:
    rig.comes(WEB1)
    jid = rig.jid("a")
    rig.ask("job_kill", jid=jid)
    rig.link.cancels.clear()
    transient = TransientStates()
    part = part_id(jid, 1)
    taken = {"t": "job_state", "jid": part, "state": "received", "reason": ""}
    store_reports(rig.master, [Reported(WEB1, key(WEB1).fingerprint, taken, None)], transient)
    store_transient_states(rig.master, transient)
    assert rig.link.cancels == [("web1", part)]
    assert state_of(rig.store, jid, A) is TargetState.RECEIVED
