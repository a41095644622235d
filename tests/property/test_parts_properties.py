"""Parts of jobs for resources, whatever happens and whoever lies: nothing is lost, taken twice or said for others."""

from __future__ import annotations

from typing import Any, cast

import msgpack  # type: ignore[import-untyped]  # the package ships no type information
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from saltlite.errors import RemoteProtocolError
from saltlite.master.handlers.results import Reported, TransientStates, store_reports
from saltlite.master.processes.context import HandlerConfig, Master, MasterIdentity
from saltlite.minion.protocol.effects import (
    Effect,
    Forget,
    Fork,
    Go,
    JournalStep,
    KeepResult,
    Offer,
    ReceivedPart,
    RecoveredJob,
    Write,
)
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.model.ids import Jid, MinionId
from saltlite.model.job import TERMINAL, part_id, resource_parts, segment_id
from saltlite.model.keys import fingerprint
from saltlite.platform.daemon import ManualClock
from saltlite.testing.memory_store import MemoryStore
from saltlite.wire import merkle
from saltlite.wire.limits import PARTS_RUNNING_PER_MINION
from saltlite.wire.messages import STATES, WALL_MAX_MS, SegmentRow, decode_segment, encode_segment
from tests.support.inventory import inventory
from tests.support.job_machine import UNTIL, jid
from tests.support.keys import FLEET_PUBLIC, JOB_PRIVATE, JOB_PUBLIC, NOW, certificate, signed
from tests.support.store import WEB1, WEB2, job, key, publish

srns = st.sampled_from([f"{kind}:{name}" for kind in ("dummy", "ssh") for name in "abcz"])
rows = st.builds(
    SegmentRow,
    srn=srns,
    state=st.sampled_from(sorted(STATES)),
    retcode=st.integers(-(2**31), 2**31),
    body=st.binary(max_size=30),
    start_ms=st.integers(0, WALL_MAX_MS),
    dur_ms=st.integers(0, 2**53),
    reason=st.text(max_size=20),
)
segments = st.lists(rows, max_size=8, unique_by=lambda row: row.srn)
nonsense = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.text(max_size=9), st.binary(max_size=9), srns
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=8), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=20,
)


@given(segments)
def test_a_segment_comes_back_as_it_was(made: list[SegmentRow]) -> None:
    assert decode_segment(encode_segment(made)) == made


@settings(max_examples=300)
@given(st.one_of(st.binary(max_size=60), nonsense.map(msgpack.packb), segments.map(encode_segment)), st.data())
def test_bytes_of_a_stranger_are_rows_or_a_protocol_error(data: bytes, draw: st.DataObject) -> None:
    at = draw.draw(st.integers(0, len(data)))
    changed = data[:at] + draw.draw(st.binary(max_size=2)) + data[at + draw.draw(st.integers(0, 2)) :]
    try:
        found = decode_segment(changed)
    except RemoteProtocolError:
        return
    assert decode_segment(encode_segment(found)) == found


# -- the master and a minion that says what it likes

JOB = job(1, (WEB1,), resources={WEB1: ("dummy:a", "dummy:b", "ssh:c"), WEB2: ("dummy:z",)})
MINE = {WEB1: {"web1", "dummy:a", "dummy:b", "ssh:c"}, WEB2: {"dummy:z"}}
result_ids = st.builds(
    lambda of, part, segment: (
        part_id(of, part) if segment is None or not part else segment_id(part_id(of, part), segment)
    ),
    st.sampled_from([JOB.jid, Jid("20260101000000000000")]),
    st.integers(0, 4),
    st.one_of(st.none(), st.integers(0, 3)),
)


@st.composite
def said(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    """A `ret` as the table of messages lets it through, with its body."""
    state = draw(st.sampled_from(["returned", "timed_out", "interrupted", "cancelled"]))
    body = draw(st.one_of(segments.map(encode_segment), st.binary(max_size=20)))
    message = {
        "t": "return",
        "jid": draw(result_ids),
        "state": state,
        "code": 0,
        "start_ms": 0,
        "dur_ms": 0,
        "reason": "",
    }
    return message, body


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.sampled_from([WEB1, WEB2]), said()), max_size=6))
def test_whatever_a_minion_returns_is_stored_for_itself_or_what_it_manages_and_once(
    everything: list[tuple[MinionId, tuple[dict[str, Any], bytes]]],
) -> None:
    store = MemoryStore()
    who = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
    config = HandlerConfig(5.0, 60.0, frozenset({0}))
    master = Master(store, ManualClock(wall=NOW), who, config, cast("Any", None), *inventory())
    publish(store, JOB)
    stored: dict[str, bytes] = {}
    for minion, (message, body) in everything:
        settled = store_reports(master, [Reported(minion, key(minion).fingerprint, message, body)], TransientStates())
        assert settled.acknowledge == [(key(minion).fingerprint, [message["jid"]])]
        now = {ret.id: ret.body for ret in store.returns(JOB.jid)}
        assert now.keys() - stored.keys() <= MINE[minion], "it spoke for others"
        assert {target: now[target] for target in stored} == stored, "the first one stands"
        stored = now
    assert {row.id for row in store.targets(JOB.jid) if row.state in TERMINAL} == stored.keys()


@given(st.lists(srns, unique=True, max_size=8), st.integers(1, 3))
def test_each_resource_is_in_one_part_and_each_part_is_of_one_type(some: list[str], most: int) -> None:
    parts = list(resource_parts(sorted(some), most))
    assert sorted(srn for _number, one in parts for srn in one) == sorted(some)
    assert [number for number, _one in parts] == list(range(1, len(parts) + 1))
    assert all(len(one) <= most and len({srn.partition(":")[0] for srn in one}) == 1 for _number, one in parts)


# -- the minion's machine, with a driver that forgets everything but journal and spool

PARTS = {number: f"dummy:{number}" for number in range(1, 5)}
MEMBERS = {number: merkle.member("web1", number, (srn,)) for number, srn in PARTS.items()}
BODY, SIGNATURE = signed(jid(), MEMBERS.values())
PROOFS = merkle.proofs(MEMBERS.values())


def parcel_of(number: int) -> ReceivedPart:
    proof = PROOFS[MEMBERS[number]]
    return ReceivedPart(part_id(Jid(jid()), number), BODY, SIGNATURE, proof, 60_000, (PARTS[number],))


class PartsMachine(RuleBasedStateMachine):
    """Parts arrive, answer, end, are cancelled and acknowledged in any order; now and then the job server is killed."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock(seed=1, wall=NOW)
        self.spool: set[str] = set()
        self.journal: dict[str, RecoveredJob] = {}
        self.running: set[str] = set()
        self.entered: list[str] = []
        self.made: dict[str, int] = {}
        self.committed: set[str] = set()
        self.start()

    def start(self) -> None:
        self.running.clear()
        self.jobs = JobMachine("web1", self.clock, limit=1, longest_s=0.0)
        self.jobs.trust(JOB_PUBLIC, UNTIL)
        self.jobs.replay(list(self.journal.values()), sorted(self.spool), "")
        self.jobs.open()
        self.carry_out()
        self.jobs.connected(sorted(self.spool))
        self.carry_out()

    def carry_out(self) -> None:
        while effects := self.jobs.take():
            for effect in effects:
                self.one(effect)

    def one(self, effect: Effect) -> None:
        match effect:
            case Write(step, part, fields):
                known = self.journal.get(part) or RecoveredJob(part, step, issuer=JOB_PUBLIC)
                fresh = {"srns": tuple(fields["srns"]), "body": fields["body"]} if step is JournalStep.RECEIVED else {}
                made = {name: getattr(known, name) for name in ("srns", "body")} | fresh
                self.journal[part] = RecoveredJob(
                    part,
                    step,
                    issuer=JOB_PUBLIC,
                    received_wall_ms=int(NOW * 1000),
                    deliver_ms=10**9,
                    reason=fields.get("reason", ""),
                    **made,
                )
            case Fork(part, _body, found):
                assert found == (PARTS[int(part.partition("-")[2])],)
                self.jobs.forked(part, 4321, 1)
            case Go(part):
                assert part not in self.entered, "G4"
                self.entered.append(part)
                self.running.add(part)
                assert len(self.running) <= PARTS_RUNNING_PER_MINION
            case KeepResult(part):
                # The ending holds for all that has not returned, so all that has must be the master's by now.
                assert not [one for one in self.spool if one.startswith(f"{part}.")]
                self.spool.add(part)
            case Offer(result):
                assert result in self.spool
            case Forget(result):
                assert result in self.committed, "G6"
                self.spool.discard(result)

    @rule(number=st.sampled_from(sorted(PARTS)))
    def arrive(self, number: int) -> None:
        self.jobs.received(parcel_of(number))
        self.carry_out()

    @rule(data=st.data())
    @precondition(lambda self: self.running)
    def answer(self, data: st.DataObject) -> None:
        part = data.draw(st.sampled_from(sorted(self.running)))
        self.made[part] = self.made.get(part, -1) + 1
        segment = segment_id(part, self.made[part])
        self.spool.add(segment)
        self.jobs.produced(segment)
        self.carry_out()

    @rule(data=st.data(), how=st.sampled_from(["", "killed"]))
    @precondition(lambda self: self.running)
    def end(self, data: st.DataObject, how: str) -> None:
        part = data.draw(st.sampled_from(sorted(self.running)))
        self.running.discard(part)
        self.jobs.part_ended(part, how)
        self.carry_out()

    @rule(data=st.data())
    @precondition(lambda self: self.spool)
    def commit(self, data: st.DataObject) -> None:
        result = data.draw(st.sampled_from(sorted(self.spool)))
        self.committed.add(result)
        self.jobs.acknowledged(result)
        self.carry_out()

    @rule(number=st.sampled_from(sorted(PARTS)))
    def cancel(self, number: int) -> None:
        self.jobs.cancel(part_id(Jid(jid()), number))
        self.carry_out()

    @rule(seconds=st.sampled_from([1.0, 20.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.jobs.tick()
        self.carry_out()

    @rule()
    def restart(self) -> None:
        self.start()

    def teardown(self) -> None:
        """Whatever happened: with a master that commits all, every part that ran comes to its end, and the spool is
        empty."""
        for part in sorted(self.running):
            self.jobs.part_ended(part, "")
        self.carry_out()
        for _ in range(4):
            for result in sorted(self.spool):
                self.committed.add(result)
                self.jobs.acknowledged(result)
                self.carry_out()
        assert self.spool == set()
        assert all(self.journal[part].step is JournalStep.ACKED for part in self.entered)


TestPartsMachine = PartsMachine.TestCase
TestPartsMachine.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)
