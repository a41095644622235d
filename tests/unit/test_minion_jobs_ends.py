"""How the minion's jobs end: in the queue, by themselves, by a limit, by an operator, over a restart (G4, G6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from saltlite.minion.protocol.effects import (
    CANCELLED_CODE,
    NEVER,
    SIGKILL,
    SIGTERM,
    TIMED_OUT_CODE,
    Forget,
    Fork,
    Go,
    JournalStep,
    KeepResult,
    Kill,
    Offer,
    RecoveredJob,
    Tell,
    Write,
)
from saltlite.minion.protocol.jobs import CANCELS_AHEAD_MAX, KILL_GRACE_S
from saltlite.minion.protocol.journal_format import CLOCK_SLACK_S
from saltlite.minion.protocol.resend import OFFER_AGAIN_S
from saltlite.model.job import TargetState
from saltlite.wire import job_body
from tests.support.job_machine import PID, TICKS, Server, jid, parcel, refusal, writes
from tests.support.keys import DAY, NOW

# -- the queue


def test_as_many_run_at_once_as_the_limit_says_and_the_rest_wait_in_order() -> None:
    it = Server(limit=2)
    for number in range(4):
        effects = it.receive(number)
        assert isinstance(effects[1], Fork if number < 2 else Tell)
    for number in range(2):
        it.jobs.forked(jid(number), PID, TICKS)
    it.take()
    assert [effect.jid for effect in it.end(0) if isinstance(effect, Fork)] == [jid(2)]


def test_nothing_starts_before_the_server_is_open() -> None:
    it = Server(opened=False)
    assert [type(effect) for effect in it.receive()] == [Write, Tell]
    it.jobs.open()
    assert [effect.jid for effect in it.take() if isinstance(effect, Fork)] == [jid()]


def test_a_job_that_waits_too_long_expires_and_never_runs() -> None:
    it = Server(limit=1)
    it.start(0)
    it.receive(1, deliver_ms=5_000)
    assert it.jobs.deadline() == it.clock.monotonic() + 5.0
    effects = it.wait(5.0)
    assert refusal(effects)[0] is TargetState.EXPIRED
    assert writes(effects) == [JournalStep.REFUSED]
    assert [effect for effect in it.end(0) if isinstance(effect, Fork)] == []


def test_what_waits_is_looked_at_in_time_even_while_others_run_without_a_limit() -> None:
    it = Server(limit=1)
    it.start(0)
    assert it.jobs.deadline() == NEVER
    it.receive(1, deliver_ms=5_000)
    assert it.jobs.deadline() < NEVER


# -- ends


def test_a_process_that_leaves_nothing_gives_an_interrupted_result() -> None:
    it = Server()
    it.start()
    it.clock.advance(3.0)
    (keep, *_) = it.end(left_result=False)
    assert keep == KeepResult(
        jid(),
        TargetState.INTERRUPTED,
        1,
        "its process ended without a result (exit status 1)",
        int(NOW * 1000),
        3000,
    )


@pytest.mark.parametrize(("run_ms", "longest_s"), [(5_000, 0.0), (0, 5.0), (5_000, 60.0), (60_000, 5.0)])
def test_the_shorter_of_the_two_run_time_limits_ends_a_job(run_ms: int, longest_s: float) -> None:
    it = Server(longest_s=longest_s)
    it.start(run_ms=run_ms)
    assert it.wait(4.9) == []
    assert it.wait(0.1) == [Kill(jid(), PID, SIGTERM)]
    assert it.wait(KILL_GRACE_S) == [Kill(jid(), PID, SIGKILL)]
    assert it.wait(100.0) == []
    (keep, kill, *_) = it.end(left_result=False)
    assert isinstance(keep, KeepResult)
    assert (keep.state, keep.code) == (TargetState.TIMED_OUT, TIMED_OUT_CODE)
    assert kill == Kill(jid(), PID, SIGKILL)


def test_without_a_limit_a_job_may_run_for_ever() -> None:
    it = Server()
    it.start()
    assert it.wait(10.0 * 365 * DAY) == []


def test_a_result_that_was_left_before_the_kill_stands() -> None:
    it = Server()
    it.start(run_ms=1_000)
    it.wait(1.0)
    assert [effect for effect in it.end(left_result=True) if isinstance(effect, KeepResult)] == []


def test_an_exit_that_nobody_waits_for_changes_nothing() -> None:
    it = Server()
    assert it.end(5) == []
    it.start(0)
    it.end(0)
    assert it.end(0) == []


# -- cancel, in every step


def test_cancelled_before_it_arrived_it_never_runs() -> None:
    it = Server()
    it.jobs.cancel(jid())
    effects = it.take()
    assert refusal(effects) == (TargetState.CANCELLED, "cancelled before it arrived")
    assert writes(effects) == [JournalStep.REFUSED]
    assert refusal(it.receive())[0] is TargetState.CANCELLED


@pytest.mark.parametrize("off_s", [CLOCK_SLACK_S + 1.0, 10 * 365 * DAY])
def test_a_cancel_of_a_job_of_the_future_holds_and_is_not_written(off_s: float) -> None:
    """Anybody who took the network process over could say it; written down, it could raise the journal's floor."""
    it = Server()
    number = int(off_s * 1_000_000)
    it.jobs.cancel(jid(number))
    effects = it.take()
    assert (refusal(effects)[0], writes(effects)) == (TargetState.CANCELLED, [])
    assert refusal(it.receive(number)) == (TargetState.CANCELLED, "cancelled before it arrived")


def test_of_cancels_that_came_before_their_jobs_so_many_are_written_and_all_hold() -> None:
    it = Server()
    for number in range(CANCELS_AHEAD_MAX + 1):
        it.jobs.cancel(jid(number))
    assert len(writes(it.take())) == CANCELS_AHEAD_MAX
    assert refusal(it.receive(CANCELS_AHEAD_MAX))[0] is TargetState.CANCELLED
    it.jobs.forgotten(jid(0))
    it.jobs.cancel(jid(CANCELS_AHEAD_MAX + 1))
    assert writes(it.take()) == [JournalStep.REFUSED]


def test_cancels_ahead_that_were_written_in_an_earlier_life_count() -> None:
    it = Server(opened=False)
    reason = "cancelled:cancelled before it arrived"
    it.jobs.replay(
        [RecoveredJob(jid(n), JournalStep.REFUSED, reason=reason) for n in range(CANCELS_AHEAD_MAX)], set(), ""
    )
    it.jobs.cancel(jid(CANCELS_AHEAD_MAX))
    assert writes(it.take()) == []


def test_cancelled_while_it_waits_it_never_runs() -> None:
    it = Server(limit=1)
    it.start(0)
    it.receive(1)
    it.jobs.cancel(jid(1))
    assert refusal(it.take()) == (TargetState.CANCELLED, "cancelled before it started")
    assert [effect for effect in it.end(0) if isinstance(effect, Fork)] == []


def test_cancelled_while_its_process_is_made_it_is_not_let_into_the_function() -> None:
    it = Server(limit=1)
    it.receive(0)
    it.receive(1)
    it.jobs.cancel(jid(0))
    assert it.take() == []
    it.jobs.forked(jid(0), PID, TICKS)
    effects = it.take()
    assert effects[0] == Kill(jid(0), PID, SIGKILL)
    assert not [effect for effect in effects if isinstance(effect, Go)]
    assert Tell(jid(0), TargetState.CANCELLED, "cancelled before it started") in effects
    assert [effect.jid for effect in effects if isinstance(effect, Fork)] == [jid(1)]
    assert it.end(0) == []


def test_cancelled_while_it_runs_it_is_killed_and_returns_cancelled() -> None:
    it = Server()
    it.start()
    it.jobs.cancel(jid())
    it.jobs.cancel(jid())
    assert it.take() == [Kill(jid(), PID, SIGTERM)]
    (keep, *_) = it.end(left_result=False)
    assert isinstance(keep, KeepResult)
    assert (keep.state, keep.code) == (TargetState.CANCELLED, CANCELLED_CODE)


def test_cancelled_after_it_ended_it_answers_by_what_became_of_it() -> None:
    it = Server()
    it.start(0)
    it.end(0)
    it.jobs.cancel(jid(0))
    assert it.take() == []  # the result, which is offered already, is the answer
    it.jobs.acknowledged(jid(0))
    it.take()
    it.jobs.cancel(jid(0))
    assert refusal(it.take())[0] is TargetState.REFUSED


# -- handing over


def test_every_result_in_the_spool_is_offered_on_a_new_session_but_not_that_of_a_running_job() -> None:
    it = Server()
    it.start(0)
    it.jobs.connected([jid(0), jid(1), jid(2)])
    assert it.take() == [Offer(jid(1)), Offer(jid(2))]


def test_a_result_is_offered_once_a_session_however_often_the_job_comes() -> None:
    it = Server()
    it.start()
    it.end()
    it.jobs.connected([jid()])
    assert it.take() == [Offer(jid())]
    assert Offer(jid()) not in it.receive()
    it.jobs.connected([jid()])
    assert it.take() == [Offer(jid())]


def test_a_result_that_nobody_acknowledges_is_offered_again() -> None:
    it = Server()
    it.start()
    it.end()
    assert it.jobs.deadline() == it.clock.monotonic() + OFFER_AGAIN_S
    assert it.wait(OFFER_AGAIN_S - 1.0) == []
    assert it.wait(1.0) == [Offer(jid())]
    assert it.wait(OFFER_AGAIN_S) == [Offer(jid())]
    it.jobs.acknowledged(jid())
    it.take()
    assert it.wait(OFFER_AGAIN_S) == []
    assert it.jobs.deadline() == NEVER


def test_a_result_of_a_job_that_the_journal_does_not_know_is_handed_over_and_forgotten() -> None:
    it = Server()
    it.jobs.connected([jid(9)])
    it.take()
    it.jobs.acknowledged(jid(9))
    assert it.take() == [Forget(jid(9))]


def test_an_acknowledgement_of_what_still_runs_is_not_believed() -> None:
    it = Server(limit=1)
    it.start(0)
    it.receive(1)
    it.jobs.acknowledged(jid(0))
    it.jobs.acknowledged(jid(1))
    assert it.take() == []


# -- after a restart: the journal in every step


def restarted(*remembered: RecoveredJob, spooled: tuple[str, ...] = (), floor: str = "") -> Server:
    it = Server(opened=False)
    it.jobs.replay(remembered, spooled, floor)
    return it


def received(number: int = 0, *, ago_ms: int = 0, run_ms: int = 0, body: bytes | None = None) -> RecoveredJob:
    return RecoveredJob(
        jid(number),
        JournalStep.RECEIVED,
        body=parcel(number, run_ms=run_ms).body if body is None else body,
        received_wall_ms=int(NOW * 1000) - ago_ms,
        deliver_ms=60_000,
    )


def started(*, alive: bool, ago_s: float = 10.0, run_ms: int = 0) -> RecoveredJob:
    return replace(
        received(run_ms=run_ms),
        step=JournalStep.STARTED,
        pid=PID,
        started_wall_ms=int((NOW - ago_s) * 1000),
        alive=alive,
    )


def test_a_received_job_starts_after_a_restart() -> None:
    it = restarted(received(0, ago_ms=59_000))
    assert it.take() == []
    it.jobs.open()
    assert it.take() == [Fork(jid(), job_body.decode_body(parcel().body))]


@pytest.mark.parametrize("ago_ms", [60_001, -1])
def test_a_received_job_is_not_started_after_its_time_or_when_the_clock_was_set_back(ago_ms: int) -> None:
    effects = restarted(received(ago_ms=ago_ms)).take()
    assert refusal(effects)[0] is TargetState.EXPIRED
    assert writes(effects) == [JournalStep.REFUSED]


def test_a_received_job_below_the_floor_that_expires_is_still_written_down() -> None:
    effects = restarted(received(ago_ms=60_001), floor=jid(9)).take()
    assert writes(effects) == [JournalStep.REFUSED]


def test_a_received_job_waits_after_a_restart_for_what_is_left_of_its_time() -> None:
    it = restarted(received(ago_ms=50_000))
    assert it.wait(9.0) == []
    assert refusal(it.wait(1.1))[0] is TargetState.EXPIRED


def test_a_received_job_that_this_version_cannot_read_is_refused_and_stops_nothing() -> None:
    it = restarted(received(0, body=b"\xc1"), received(1))
    assert refusal(it.take()) == (TargetState.REFUSED, "this version of the minion cannot read the job")
    it.jobs.open()
    assert [effect.jid for effect in it.take() if isinstance(effect, Fork)] == [jid(1)]


def test_a_started_job_that_died_with_the_machine_is_interrupted_and_never_run_again() -> None:
    it = restarted(started(alive=False))
    (keep, write) = it.take()
    assert isinstance(keep, KeepResult)
    assert (keep.state, keep.reason) == (
        TargetState.INTERRUPTED,
        "its process ended without a result (while the minion was down)",
    )
    assert write == Write(JournalStep.DONE, jid(), {"reason": f"interrupted:{keep.reason}"})
    it.jobs.open()
    assert it.receive() == [Offer(jid())]


def test_a_started_job_that_left_its_result_is_done() -> None:
    it = restarted(started(alive=False), spooled=(jid(),))
    assert it.take() == [Write(JournalStep.DONE, jid())]


def test_a_started_job_whose_process_lives_is_adopted_and_takes_its_place() -> None:
    it = restarted(started(alive=True), received(1), received(2))
    it.jobs.open()
    assert [effect.jid for effect in it.take() if isinstance(effect, Fork)] == [jid(1)]
    assert it.jobs.running == [jid(0)]
    it.jobs.cancel(jid(0))
    assert it.take() == [Kill(jid(0), PID, SIGTERM)]
    assert [effect.jid for effect in it.end(0, left_result=False) if isinstance(effect, Offer)] == [jid(0)]


def test_an_adopted_job_keeps_its_own_run_time_limit() -> None:
    it = restarted(started(alive=True, ago_s=10.0, run_ms=15_000))
    assert it.wait(4.9) == []
    assert it.wait(0.1) == [Kill(jid(), PID, SIGTERM)]


def test_an_adopted_job_without_a_body_keeps_the_limit_of_the_minion() -> None:
    it = Server(longest_s=15.0)
    it.jobs.replay([replace(started(alive=True, ago_s=10.0), body=b"")], [], "")
    assert it.wait(4.9) == []
    assert it.wait(0.1) == [Kill(jid(), PID, SIGTERM)]


def test_a_clock_that_was_set_back_gives_an_adopted_job_its_limit_anew_and_no_more() -> None:
    it = restarted(started(alive=True, ago_s=-1000.0, run_ms=15_000))
    assert it.wait(14.9) == []
    assert it.wait(0.1) == [Kill(jid(), PID, SIGTERM)]


def test_a_done_job_is_offered_from_the_spool() -> None:
    it = restarted(replace(received(), step=JournalStep.DONE), spooled=(jid(),))
    assert it.receive() == [Offer(jid())]


def test_a_done_job_without_a_result_was_handed_over_before() -> None:
    it = restarted(replace(received(), step=JournalStep.DONE))
    assert refusal(it.receive())[1] == "it ran before, and its result was handed over"


def test_an_acked_job_does_not_run_again_and_a_leftover_result_is_removed() -> None:
    it = restarted(replace(received(), step=JournalStep.ACKED), spooled=(jid(),))
    it.jobs.connected([jid()])
    it.take()
    it.jobs.acknowledged(jid())
    assert it.take() == [Forget(jid())]
    assert refusal(it.receive())[0] is TargetState.REFUSED


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cancelled:cancelled before it arrived", (TargetState.CANCELLED, "cancelled before it arrived")),
        ("expired:a: b", (TargetState.EXPIRED, "a: b")),
        ("of an older version", (TargetState.REFUSED, "of an older version")),
    ],
)
def test_a_refused_job_keeps_its_state_and_reason(text: str, told: tuple[TargetState, str]) -> None:
    it = restarted(RecoveredJob(jid(), JournalStep.REFUSED, reason=text))
    assert refusal(it.receive()) == told
