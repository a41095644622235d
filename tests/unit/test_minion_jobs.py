"""The minion's jobs: what runs, what comes again, who may order what, and what is refused and why (G4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from saltlite.minion.protocol.effects import Forget, Fork, Go, JournalStep, KeepResult, Offer, ReceivedPart, Tell, Write
from saltlite.minion.protocol.jobs import QUEUE_MAX, JobMachine
from saltlite.minion.protocol.journal_format import CLOCK_SLACK_S
from saltlite.minion.protocol.resend import OFFER_AGAIN_S
from saltlite.model.job import TargetState
from saltlite.platform.daemon import ManualClock
from saltlite.wire import job_body
from saltlite.wire.messages import REASON_MAX
from tests.support.job_machine import PID, TICKS, UNTIL, Server, jid, parcel, refusal, writes
from tests.support.keys import DAY, JOB_PUBLIC, NOW, seed, signed

# -- the normal way


def test_each_step_is_written_before_the_next_is_taken() -> None:
    it = Server()
    body = job_body.decode_body(parcel().body)
    received = it.receive()
    assert [type(effect) for effect in received] == [Write, Fork]
    assert received[1] == Fork(jid(), body)
    it.jobs.forked(jid(), PID, TICKS)
    assert it.take() == [
        Write(JournalStep.STARTED, jid(), {"pid": PID, "ticks": TICKS, "wall_ms": int(NOW * 1000)}),
        Go(jid()),
        Tell(jid(), TargetState.RUNNING),
    ]
    assert it.end() == [Write(JournalStep.DONE, jid(), lazy=True), Offer(jid())]
    it.jobs.acknowledged(jid())
    assert it.take() == [Write(JournalStep.ACKED, jid(), lazy=True), Forget(jid())]


def test_what_is_written_of_a_received_job_is_enough_to_check_it_again() -> None:
    it = Server()
    (write, _) = it.receive(minions=("web1", "web2"), left_ms=5_000)
    assert isinstance(write, Write)
    job = parcel(minions=("web1", "web2"))
    assert write.fields == {
        "body": job.body,
        "sig": job.signature,
        "proof": job.proof,
        "issuer": JOB_PUBLIC,
        "deliver_ms": 5_000,
        "wall_ms": int(NOW * 1000),
    }


def test_running_names_the_jobs_whose_process_was_started() -> None:
    it = Server()
    it.start(1)
    it.start(0)
    it.receive(2)
    assert it.jobs.running == [jid(0), jid(1)]
    it.end(0)
    assert it.jobs.running == [jid(1)]


# -- a job that comes again


def test_a_job_that_comes_again_is_answered_by_what_became_of_it_and_never_run_again() -> None:
    it = Server(limit=1)
    it.receive(0)
    assert it.receive(0) == [Tell(jid(0), TargetState.RECEIVED)]
    it.jobs.forked(jid(0), PID, TICKS)
    it.take()
    assert it.receive(0) == [Tell(jid(0), TargetState.RUNNING)]
    it.end(0)
    # Its result is offered already; the answer only frees the place that the job has in the master's window.
    assert it.receive(0) == [Tell(jid(0), TargetState.RUNNING)]
    it.wait(OFFER_AGAIN_S)
    it.jobs.acknowledged(jid(0))
    it.take()
    assert refusal(it.receive(0)) == (TargetState.REFUSED, "it ran before, and its result was handed over")


def test_a_refused_job_that_comes_again_is_refused_for_the_same_reason() -> None:
    it = Server()
    first = refusal(it.receive(left_ms=0))
    again = it.receive()
    assert refusal(again) == first == (TargetState.EXPIRED, "it could not be delivered in time")
    assert writes(again) == []


# -- who may order what


def tampered(job: ReceivedPart, **changed: Any) -> ReceivedPart:
    return replace(job, **changed)


def other_master(job: ReceivedPart) -> ReceivedPart:
    return replace(job, signature=job_body.sign(seed("other"), job.body))


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (other_master(parcel()), "bad-job-signature"),
        (tampered(parcel(), body=parcel().body[:-1] + b"\x01"), "bad-job-signature"),
        (tampered(parcel(), signature=b""), "bad-job-signature"),
        (tampered(parcel(), jid=jid(7)), "wrong-jid"),
        (tampered(parcel(minions=("web2", "web3"))), "not-in-audience"),
        (tampered(parcel(minions=("web1", "web2")), proof=[]), "not-in-audience"),
        (tampered(parcel(minions=("web1", "web2")), proof=[b"x"]), "not-in-audience"),
    ],
)
def test_a_job_that_was_not_signed_for_this_minion_does_not_run_and_uses_no_jid_up(job: ReceivedPart, why: str) -> None:
    it = Server()
    it.jobs.received(job)
    effects = it.take()
    state, reason = refusal(effects)
    assert (state, writes(effects)) == (TargetState.REFUSED, [])
    assert why in reason
    assert writes(it.receive()) == [JournalStep.RECEIVED]


def test_before_a_certificate_was_verified_nothing_runs() -> None:
    jobs = JobMachine("web1", ManualClock(wall=NOW), limit=1, longest_s=0.0)
    jobs.open()
    jobs.received(parcel())
    assert "no master that this minion trusts" in refusal(jobs.take())[1]


def test_a_job_key_counts_until_its_certificate_ends() -> None:
    it = Server()
    it.clock.advance(UNTIL - NOW)
    it.jobs.received(parcel())
    assert "bad-job-signature" not in refusal(it.take())[1]
    it.clock.advance(1.0)
    it.jobs.received(parcel(1))
    assert "bad-job-signature" in refusal(it.take())[1]


def test_a_renewed_certificate_keeps_its_job_key_trusted() -> None:
    it = Server()
    it.jobs.trust(JOB_PUBLIC, UNTIL + 30 * DAY)
    it.jobs.trust(JOB_PUBLIC, UNTIL)
    it.clock.advance(UNTIL + 10 - NOW)
    it.jobs.received(parcel())
    assert "bad-job-signature" not in refusal(it.take())[1]


def test_a_job_that_was_held_back_for_long_does_not_run_whatever_the_network_says() -> None:
    it = Server()
    it.clock.advance(60 + CLOCK_SLACK_S + 1.0)
    effects = it.receive(left_ms=60_000)
    assert "too-old" in refusal(effects)[1]
    assert writes(effects) == []


@pytest.mark.parametrize("off_s", [-10 * 365 * DAY, 60 + CLOCK_SLACK_S - 1.0])
def test_a_clock_that_is_a_day_off_or_far_behind_stops_no_job(off_s: float) -> None:
    it = Server()
    it.clock.jump_wall(off_s)
    assert writes(it.receive()) == [JournalStep.RECEIVED]


def test_the_network_cannot_give_a_job_more_time_than_was_signed() -> None:
    it = Server(opened=False)
    it.receive(deliver_ms=1_000, left_ms=10**9)
    assert refusal(it.wait(1.0))[0] is TargetState.EXPIRED


def test_a_signed_job_whose_jid_is_no_time_is_refused() -> None:
    it = Server()
    number = "99999999999999999999"
    body, signature = signed(number, ["web1"])
    it.jobs.received(ReceivedPart(number, body, signature, [], 1000))
    assert "bad-job" in refusal(it.take())[1]


def test_a_signed_body_that_cannot_be_read_is_refused() -> None:
    it = Server()
    it.jobs.received(ReceivedPart(jid(), b"\xc1", job_body.sign(seed("jobs"), b"\xc1"), [], 1000))
    assert refusal(it.take())[0] is TargetState.REFUSED


# -- refusals


def test_a_full_spool_refuses_new_jobs_until_it_has_room() -> None:
    it = Server()
    it.jobs.room(in_spool=False)
    effects = it.receive(0)
    assert refusal(effects) == (TargetState.REFUSED, "the minion's spool of unsent results is full")
    assert writes(effects) == [JournalStep.REFUSED]
    it.jobs.room(in_spool=True)
    assert writes(it.receive(1)) == [JournalStep.RECEIVED]


def test_a_queue_that_is_full_refuses() -> None:
    it = Server(opened=False)
    for number in range(QUEUE_MAX):
        it.receive(number)
    assert refusal(it.receive(QUEUE_MAX)) == (
        TargetState.REFUSED,
        f"{QUEUE_MAX} jobs wait on the minion already",
    )


def test_a_job_at_or_below_the_floor_is_refused_and_not_remembered() -> None:
    it = Server()
    it.jobs.replay([], [], jid(5))
    for number in (4, 5):
        effects = it.receive(number)
        assert refusal(effects) == (TargetState.REFUSED, "the job is older than this minion's journal")
        assert writes(effects) == []
    assert writes(it.receive(6)) == [JournalStep.RECEIVED]


def test_what_the_journal_has_forgotten_is_refused_from_then_on() -> None:
    it = Server()
    it.start(0)
    it.end(0)
    it.jobs.acknowledged(jid(0))
    it.start(1)
    it.take()
    it.jobs.forgotten(jid(2))
    assert refusal(it.receive(0))[1] == "the job is older than this minion's journal"
    assert it.receive(1) == [Tell(jid(1), TargetState.RUNNING)]
    assert writes(it.receive(3)) == [JournalStep.RECEIVED]


def test_a_machine_without_room_for_a_process_says_so_and_goes_on_with_the_next() -> None:
    it = Server(limit=1)
    it.receive(0)
    it.receive(1)
    it.jobs.not_forked(jid(0), "no more processes")
    effects = it.take()
    assert effects[:2] == [
        Write(JournalStep.REFUSED, jid(0), {"reason": "refused:no more processes"}),
        Tell(jid(0), TargetState.REFUSED, "no more processes"),
    ]
    assert [effect.jid for effect in effects if isinstance(effect, Fork)] == [jid(1)]


def test_no_reason_is_longer_than_a_message_takes() -> None:
    it = Server()
    it.receive(0)
    it.jobs.not_forked(jid(0), "x" * 10_000)
    (write, tell) = it.take()
    assert isinstance(tell, Tell)
    assert isinstance(write, Write)
    assert tell.reason == "x" * REASON_MAX
    assert len(write.fields["reason"]) <= REASON_MAX + 20
    it.start(1)
    it.jobs.exited(jid(1), left_result=False, how="y" * 10_000)
    (keep,) = [effect for effect in it.take() if isinstance(effect, KeepResult)]
    assert len(keep.reason) == REASON_MAX
