"""The minion's jobs while its disk takes no records or results: refused or reported, not entered, not lost (G4, G6)."""

from __future__ import annotations

from saltlite.minion.protocol import jobs
from saltlite.minion.protocol.effects import (
    SIGKILL,
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
from saltlite.minion.protocol.jobs import JobMachine
from saltlite.model.job import TargetState
from tests.support.job_machine import PID, UNTIL, Server, jid, parcel, refusal, writes
from tests.support.keys import JOB_PUBLIC, NOW

FULL = "No space left on device"
REFUSED = (TargetState.REFUSED, f"the minion's disk is full ({FULL})")


def test_a_full_disk_refuses_new_jobs_and_writes_nothing_of_them() -> None:
    it = Server()
    it.jobs.room(in_spool=True, full=FULL)
    effects = it.receive(0)
    assert (refusal(effects), writes(effects)) == (REFUSED, [])


def test_a_job_that_was_refused_by_a_full_disk_is_refused_again_when_there_is_room() -> None:
    it = Server()
    it.jobs.room(in_spool=True, full=FULL)
    it.receive(0)
    it.jobs.room(in_spool=True)
    assert refusal(it.receive(0)) == REFUSED
    assert writes(it.receive(1)) == [JournalStep.RECEIVED]


def test_what_is_wrong_with_a_job_itself_is_said_rather_than_that_the_disk_is_full() -> None:
    it = Server()
    it.jobs.room(in_spool=True, full=FULL)
    assert refusal(it.receive(0, left_ms=0))[0] is TargetState.EXPIRED


def test_of_refusals_in_memory_the_oldest_is_forgotten_first() -> None:
    it = Server()
    it.jobs.room(in_spool=True, full=FULL)
    for number in range(jobs.UNWRITTEN_MAX + 1):
        it.receive(number)
    assert (it.jobs.refused(jid(0)), it.jobs.refused(jid(1))) == (False, True)


def test_a_job_whose_arrival_cannot_be_written_is_refused_and_its_process_ended() -> None:
    it = Server()
    assert any(isinstance(effect, Fork) for effect in it.receive(0))
    it.jobs.forked(jid(0), PID, 99)
    assert any(isinstance(effect, Go) for effect in it.take())
    it.jobs.unwritten(JournalStep.RECEIVED, jid(0), FULL)
    it.jobs.unwritten(JournalStep.STARTED, jid(0), FULL)
    assert it.take() == [Kill(jid(0), PID, SIGKILL), Tell(jid(0), *REFUSED)]
    assert it.jobs.refused(jid(0))
    assert it.end(0, left_result=False) == []
    assert refusal(it.receive(0)) == REFUSED


def test_a_queued_job_that_cannot_be_written_as_started_is_refused_and_makes_place() -> None:
    it = Server(limit=1)
    it.start(0)
    it.receive(1)
    it.receive(2)
    it.end(0)
    it.jobs.forked(jid(1), PID + 1, 99)
    it.take()
    it.jobs.unwritten(JournalStep.STARTED, jid(1), FULL)
    effects = it.take()
    assert Write(JournalStep.REFUSED, jid(1), {"reason": f"refused:{REFUSED[1]}"}) in effects
    assert [effect.jid for effect in effects if isinstance(effect, Fork)] == [jid(2)]


def test_an_arrival_that_cannot_be_written_takes_a_waiting_job_out_of_the_queue() -> None:
    it = Server(limit=1)
    it.start(0)
    it.receive(1)
    it.jobs.unwritten(JournalStep.RECEIVED, jid(1), FULL)
    assert refusal(it.take()) == REFUSED
    assert not [effect for effect in it.end(0) if isinstance(effect, Fork)]


def test_a_record_of_something_else_that_is_missing_changes_no_job() -> None:
    it = Server()
    it.start(0)
    it.end(0)
    it.jobs.unwritten(JournalStep.DONE, jid(0), FULL)
    assert (it.take(), it.jobs.refused(jid(0))) == ([], False)


def test_a_result_that_could_not_be_written_is_reported_as_interrupted_with_the_reason() -> None:
    it = Server()
    it.start(0)
    it.jobs.exited(jid(0), left_result=False, how="exit status 0", unwritten=FULL)
    keep, write, offer = it.take()
    assert isinstance(keep, KeepResult)
    why = f"its result could not be written: {FULL}"
    assert (keep.state, keep.reason) == (TargetState.INTERRUPTED, why)
    assert (write, offer) == (
        Write(JournalStep.DONE, jid(0), {"reason": f"interrupted:{why}"}, lazy=True),
        Offer(jid(0)),
    )


def test_a_result_that_is_held_in_memory_is_offered_and_the_journal_knows_that_it_is_not_on_disk() -> None:
    it = Server()
    it.start(0)
    it.jobs.exited(jid(0), left_result=True, how="exit status 0", unwritten=FULL)
    reason = f"interrupted:its result could not be written: {FULL}"
    assert it.take() == [Write(JournalStep.DONE, jid(0), {"reason": reason}, lazy=True), Offer(jid(0))]


def test_a_result_that_is_not_synced_yet_is_offered_and_reported_as_interrupted_when_the_power_took_it() -> None:
    it = Server()
    it.start(0)
    it.jobs.exited(jid(0), left_result=True, how="exit status 0", is_synced=False)
    reason = "interrupted:the machine stopped before its result was on disk"
    assert it.take() == [Write(JournalStep.DONE, jid(0), {"reason": reason}, lazy=True), Offer(jid(0))]
    (keep,) = restarted(reason).take()
    assert isinstance(keep, KeepResult)
    assert (keep.state, keep.reason) == tuple(reason.split(":"))
    assert restarted(reason, spooled=(jid(0),)).take() == []


def restarted(reason: str, *, spooled: tuple[str, ...] = ()) -> Server:
    it = Server(opened=False)
    it.jobs = JobMachine("web1", it.clock, limit=2, longest_s=0.0)
    it.jobs.trust(JOB_PUBLIC, UNTIL)
    remembered = RecoveredJob(jid(0), JournalStep.DONE, received_wall_ms=int(NOW * 1000), reason=reason)
    it.jobs.replay([remembered], spooled, "")
    return it


def test_a_held_result_that_died_with_the_job_server_is_reported_and_never_run_again() -> None:
    it = restarted(f"interrupted:its result could not be written: {FULL}")
    (keep,) = it.take()
    assert isinstance(keep, KeepResult)
    assert (keep.state, keep.reason) == (
        TargetState.INTERRUPTED,
        f"its result could not be written: {FULL}",
    )
    it.jobs.open()
    it.jobs.received(parcel(0))
    assert it.take() == [Offer(jid(0))]


def test_a_killed_job_whose_ending_was_lost_keeps_its_state_and_code() -> None:
    (keep,) = restarted("cancelled:killed by an operator").take()
    assert isinstance(keep, KeepResult)
    assert (keep.state, keep.code, keep.reason) == (TargetState.CANCELLED, 143, "killed by an operator")


def test_a_held_result_that_reached_the_disk_later_is_what_counts() -> None:
    assert restarted("interrupted:x", spooled=(jid(0),)).take() == []
