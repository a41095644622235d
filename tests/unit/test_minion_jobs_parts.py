"""The minion's jobs machine with parts for resources: signed for exactly these, returned in segments, ended once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from saltlite.minion.protocol.effects import (
    SEGMENT_UNREADABLE,
    Effect,
    EndPart,
    Forget,
    Fork,
    Go,
    JournalStep,
    KeepResult,
    Offer,
    ReceivedPart,
    RecoveredJob,
    Tell,
    Write,
)
from saltlite.minion.protocol.jobs import QUEUE_MAX
from saltlite.minion.protocol.resend import AWAITED_AGAIN_S, OFFER_AGAIN_S
from saltlite.model.ids import Jid
from saltlite.model.job import TargetState, part_id, segment_id
from saltlite.wire import merkle
from saltlite.wire.limits import PARTS_RUNNING_PER_MINION
from tests.support.job_machine import PID, TICKS, Server, jid, parcel, refusal, writes
from tests.support.keys import JOB_PUBLIC, NOW, signed

SRNS = ("dummy:a", "dummy:b")


def part_of(job: int, number: int) -> str:
    return part_id(Jid(jid(job)), number)


PART = part_of(0, 1)
SEGMENTS = [segment_id(PART, number) for number in range(3)]
RESTARTED = "its process ended without a result (the minion was restarted while it ran)"


def part(number: int = 1, srns: tuple[str, ...] = SRNS, *, of: int = 0, run_ms: int = 0) -> ReceivedPart:
    """Part `number` of job `of`, which is for the minion itself as well."""
    members = ["web1", merkle.member("web1", number, srns)]
    body, signature = signed(jid(of), members, deliver_ms=60_000, run_ms=run_ms)
    proof = merkle.proofs(members)[members[1]]
    return ReceivedPart(part_of(of, number), body, signature, proof, 60_000, srns)


class Parts(Server):
    """A server that is handed parts."""

    def take_part(self, one: ReceivedPart | None = None) -> list[Effect]:
        self.jobs.received(one or part())
        return self.take()

    def run(self, one: ReceivedPart | None = None) -> list[Effect]:
        one = one or part()
        self.take_part(one)
        self.jobs.forked(one.jid, PID, TICKS)
        return self.take()

    def produce(self, *segments: str) -> list[Effect]:
        for segment in segments:
            self.jobs.produced(segment)
        return self.take()

    def part_over(self, how: str = "") -> list[Effect]:
        self.jobs.part_ended(PART, how)
        return self.take()

    def acknowledge(self, *results: str) -> list[Effect]:
        for result in results:
            self.jobs.acknowledged(result)
        return self.take()


def kept(effects: list[Effect]) -> list[tuple[str, TargetState, str]]:
    return [(one.jid, one.state, one.reason) for one in effects if isinstance(one, KeepResult)]


def offered(effects: list[Effect]) -> list[str]:
    return [one.jid for one in effects if isinstance(one, Offer)]


# -- the way of a part


def test_a_part_is_journaled_with_its_resources_before_it_waits_where_they_run() -> None:
    it = Parts()
    received, fork = it.take_part()
    assert isinstance(received, Write)
    assert received.fields["srns"] == list(SRNS)
    assert isinstance(fork, Fork)
    assert (fork.jid, fork.srns) == (PART, SRNS)
    it.jobs.forked(PART, PID, TICKS)
    started, go, tell = it.take()
    assert (writes([started]), go, tell) == ([JournalStep.STARTED], Go(PART), Tell(PART, TargetState.RUNNING))


def test_a_segment_is_offered_as_soon_as_it_is_made_and_once() -> None:
    it = Parts()
    it.run()
    assert it.produce(SEGMENTS[0], SEGMENTS[0]) == [Offer(SEGMENTS[0])]
    assert it.jobs.running == [PART]


def test_a_part_is_forgotten_when_all_have_answered_and_the_master_has_every_segment() -> None:
    it = Parts()
    it.run()
    it.produce(*SEGMENTS[:2])
    assert it.acknowledge(SEGMENTS[0]) == [Forget(SEGMENTS[0])]
    assert it.part_over() == [Write(JournalStep.DONE, PART, {}, lazy=True)]
    assert it.acknowledge(SEGMENTS[1]) == [Forget(SEGMENTS[1]), Write(JournalStep.ACKED, PART, lazy=True)]


def test_a_part_without_a_segment_left_is_over_at_once() -> None:
    it = Parts()
    it.run()
    it.produce(SEGMENTS[0])
    it.acknowledge(SEGMENTS[0])
    assert writes(it.part_over()) == [JournalStep.DONE, JournalStep.ACKED]
    assert it.jobs.running == []


def test_the_ending_of_a_part_is_offered_when_the_master_has_every_segment_and_not_before() -> None:
    it = Parts()
    it.run()
    it.produce(*SEGMENTS[:2])
    (done,) = it.part_over("killed by SIGKILL")
    reason = "its process ended without a result (killed by SIGKILL)"
    assert isinstance(done, Write)
    assert done.fields == {"reason": f"interrupted:{reason}"}
    assert offered(it.acknowledge(SEGMENTS[1])) == []
    effects = it.acknowledge(SEGMENTS[0])
    assert kept(effects) == [(PART, TargetState.INTERRUPTED, reason)]
    assert offered(effects) == [PART]
    assert it.acknowledge(PART) == [Write(JournalStep.ACKED, PART, lazy=True), Forget(PART)]


def test_an_acknowledgement_of_a_segment_that_is_not_there_changes_nothing() -> None:
    it = Parts()
    it.run()
    it.produce(SEGMENTS[0])
    it.part_over("killed by SIGKILL")
    assert it.acknowledge(SEGMENTS[1], segment_id(part_of(9, 1), 0)) == []


def test_what_a_lost_segment_said_is_reported_as_unknown() -> None:
    it = Parts()
    it.run()
    it.produce(*SEGMENTS[:2])
    it.part_over()
    it.jobs.unreadable(SEGMENTS[0])
    assert it.take() == []
    assert kept(it.acknowledge(SEGMENTS[1])) == [(PART, TargetState.INTERRUPTED, SEGMENT_UNREADABLE)]


def test_a_new_session_is_offered_what_is_in_the_spool_of_parts_that_run_too() -> None:
    it = Parts()
    it.run()
    it.produce(*SEGMENTS[:2])
    it.jobs.connected(SEGMENTS[:2])
    assert offered(it.take()) == SEGMENTS[:2]


# -- asked about again


def test_a_part_that_comes_again_is_answered_by_what_became_of_it() -> None:
    it = Parts()
    it.run()
    assert it.take_part() == [Tell(PART, TargetState.RUNNING)]
    it.produce(SEGMENTS[0])
    it.part_over("killed by SIGKILL")
    assert it.take_part() == [Tell(PART, TargetState.RUNNING)], "what it answered is on its way"
    it.jobs.connected([])
    it.take()
    assert it.take_part() == [Offer(SEGMENTS[0])]
    it.acknowledge(SEGMENTS[0], PART)
    assert refusal(it.take_part()) == (TargetState.REFUSED, "it ran before, and its result was handed over")


# -- who may order what


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (replace(part(), srns=("dummy:a",)), "not-in-audience"),
        (replace(part(), srns=("dummy:b", "dummy:a")), "not-in-audience"),
        (replace(part(), jid=part_of(0, 2)), "not-in-audience"),
        (replace(part(), srns=()), "bad-part"),
        (replace(part(), jid=jid()), "bad-part"),
        (replace(part(), jid=part_of(7, 1)), "wrong-jid"),
        (replace(parcel(), srns=SRNS), "bad-part"),
    ],
)
def test_a_part_runs_only_on_the_resources_that_the_master_signed(one: ReceivedPart, why: str) -> None:
    it = Parts()
    state, reason = refusal(it.take_part(one))
    assert (state, why in reason) == (TargetState.REFUSED, True)
    assert writes(it.take_part()) == [JournalStep.RECEIVED], "and its id is not used up"


def test_parts_of_one_job_are_told_apart() -> None:
    it = Parts()
    it.run(part(1))
    assert writes(it.run(part(2, ("dummy:c",)))) == [JournalStep.STARTED]
    assert it.jobs.running == [PART, part_of(0, 2)]


# -- places


def test_parts_take_no_place_of_a_job_and_have_a_limit_of_their_own() -> None:
    it = Parts(limit=1)
    it.start(0)
    for number in range(1, PARTS_RUNNING_PER_MINION + 1):
        it.run(part(number))
    waits = part(PARTS_RUNNING_PER_MINION + 1)
    assert it.take_part(waits)[1:] == [Tell(waits.jid, TargetState.RECEIVED)]
    it.end(0)
    assert [one.jid for one in it.part_over() if isinstance(one, Fork)] == [waits.jid]


def test_more_parts_than_may_wait_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.minion.protocol.jobs.QUEUE_MAX", 2)
    assert QUEUE_MAX > 2
    it = Parts(opened=False)
    for number in (1, 2):
        it.take_part(part(number))
    assert refusal(it.take_part(part(3)))[0] is TargetState.REFUSED
    assert writes(it.receive(1)) == [JournalStep.RECEIVED], "jobs of the minion itself wait in another line"


# -- ended early


def test_a_kill_ends_the_part_where_it_runs_and_holds_for_what_has_not_answered() -> None:
    it = Parts()
    it.run()
    it.jobs.cancel(PART)
    assert it.take() == [EndPart(PART, late=False)]
    assert it.wait(60.0) == []
    effects = it.part_over("an operator ended it")
    assert kept(effects) == [(PART, TargetState.CANCELLED, "killed by an operator")]


def test_a_part_that_answers_all_the_same_when_it_is_killed_says_so() -> None:
    it = Parts()
    it.run()
    it.jobs.cancel(PART)
    it.produce(SEGMENTS[0])
    assert kept(it.part_over()) == []


def test_a_part_past_its_run_time_is_ended_as_late() -> None:
    it = Parts()
    it.run(part(run_ms=5_000))
    assert it.jobs.deadline() == it.clock.monotonic() + 5.0
    it.take()
    assert it.wait(5.0) == [EndPart(PART, late=True)]
    assert kept(it.part_over("its run time limit"))[0][1] is TargetState.TIMED_OUT


def test_a_part_that_is_cancelled_while_it_is_begun_is_ended_and_never_let_go() -> None:
    it = Parts()
    it.take_part()
    it.jobs.cancel(PART)
    it.jobs.forked(PART, PID, TICKS)
    effects = it.take()
    assert EndPart(PART, late=False) in effects
    assert not [one for one in effects if isinstance(one, Go)]
    assert it.part_over("cancelled") == []


def test_a_part_that_nothing_can_run_is_refused_with_the_reason() -> None:
    it = Parts()
    it.take_part()
    it.jobs.not_forked(PART, "this minion manages no resources")
    assert refusal(it.take()) == (TargetState.REFUSED, "this minion manages no resources")


# -- over a restart


def remembered(step: JournalStep, **fields: object) -> RecoveredJob:
    one = part()
    made = RecoveredJob(PART, step, one.body, JOB_PUBLIC, int(NOW * 1000), 60_000, srns=SRNS)
    return replace(made, **fields)  # type: ignore[arg-type]  # by name


def replayed(job: RecoveredJob, spooled: list[str]) -> tuple[Parts, list[Effect]]:
    it = Parts()
    it.jobs.replay([job], spooled, "")
    return it, it.take()


def test_a_part_that_had_not_started_starts_with_its_resources() -> None:
    it, _none = replayed(remembered(JournalStep.RECEIVED), [])
    it.jobs.open()
    assert [(one.jid, one.srns) for one in it.take() if isinstance(one, Fork)] == [(PART, SRNS)]


def test_a_part_that_had_started_hands_over_what_was_answered_and_then_says_that_it_was_interrupted() -> None:
    it, effects = replayed(remembered(JournalStep.STARTED), [SEGMENTS[0]])
    assert kept(effects) == []
    assert effects == [Write(JournalStep.DONE, PART, {"reason": f"interrupted:{RESTARTED}"}, lazy=True)]
    it.jobs.connected([SEGMENTS[0]])
    assert offered(it.take()) == [SEGMENTS[0]]
    effects = it.acknowledge(SEGMENTS[0])
    assert kept(effects) == [(PART, TargetState.INTERRUPTED, RESTARTED)]
    assert offered(effects) == [PART]


def test_a_part_whose_process_still_lives_is_over_when_that_has_ended() -> None:
    it, effects = replayed(remembered(JournalStep.STARTED, alive=True), [])
    assert effects == []
    assert it.jobs.running == [PART]
    it.produce(SEGMENTS[0])
    it.part_over("the minion was restarted while it ran")
    assert kept(it.acknowledge(SEGMENTS[0])) == [(PART, TargetState.INTERRUPTED, RESTARTED)]


def test_an_ending_that_waited_for_segments_still_waits_for_them() -> None:
    ended = remembered(JournalStep.DONE, reason="cancelled:killed by an operator")
    it, effects = replayed(ended, SEGMENTS[:2])
    assert kept(effects) == []
    assert kept(it.acknowledge(*SEGMENTS[:2])) == [(PART, TargetState.CANCELLED, "killed by an operator")]


def test_an_ending_that_was_not_kept_yet_is_kept() -> None:
    _it, effects = replayed(remembered(JournalStep.DONE, reason="interrupted:x"), [])
    assert kept(effects) == [(PART, TargetState.INTERRUPTED, "x")]


def test_a_part_that_all_had_answered_says_nothing_more() -> None:
    it, effects = replayed(remembered(JournalStep.DONE), [SEGMENTS[0]])
    assert effects == []
    assert it.acknowledge(SEGMENTS[0]) == [Forget(SEGMENTS[0]), Write(JournalStep.ACKED, PART, lazy=True)]
    _it, effects = replayed(remembered(JournalStep.DONE), [])
    assert effects == []


def test_an_ending_in_the_spool_is_offered_as_it_is() -> None:
    it, effects = replayed(remembered(JournalStep.STARTED), [PART])
    assert kept(effects) == []
    it.jobs.connected([PART])
    assert offered(it.take()) == [PART]


def test_a_segment_that_an_ending_waits_for_is_offered_again_soon() -> None:
    """Its acknowledgement may have been lost, and until it comes nobody is told the ending."""
    it = Parts()
    it.run()
    it.produce(*SEGMENTS[:2])
    it.part_over("killed by SIGKILL")
    assert it.jobs.deadline() == it.clock.monotonic() + AWAITED_AGAIN_S
    assert offered(it.wait(AWAITED_AGAIN_S)) == SEGMENTS[:2]
    it.acknowledge(SEGMENTS[0])
    assert offered(it.wait(AWAITED_AGAIN_S)) == [SEGMENTS[1]]


def test_a_segment_of_a_part_that_all_have_answered_is_offered_again_as_any_result() -> None:
    it = Parts()
    it.run()
    it.produce(SEGMENTS[0])
    it.part_over()
    assert it.wait(OFFER_AGAIN_S - 1.0) == []
    assert offered(it.wait(1.0)) == [SEGMENTS[0]]
