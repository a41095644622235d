"""A minion with several masters: each result belongs to the one that asked for it (G6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from saltlite.errors import JournalError
from saltlite.minion.protocol.effects import (
    JournalEntry,
    JournalStep,
    Offer,
    ReceivedPart,
    Record,
    RecoveredJob,
    Tell,
    Write,
)
from saltlite.minion.protocol.journal_format import advance
from saltlite.minion.protocol.resend import FOREIGN_S
from saltlite.model.ids import parse_jid
from saltlite.model.job import TargetState
from tests.support.job_machine import PID, UNTIL, Server, jid, parcel, refusal
from tests.support.keys import JOB_PUBLIC

OTHER = bytes(range(32))
RECEIVED = {"body": b"b", "sig": b"s", "proof": [], "wall_ms": 1, "deliver_ms": 1}


def offers(server: Server) -> list[str]:
    return [effect.jid for effect in server.take() if isinstance(effect, Offer)]


def test_a_result_is_not_offered_to_a_master_that_did_not_ask_for_it() -> None:
    it = Server()
    it.start()
    it.jobs.trust(OTHER, UNTIL)
    it.end()
    it.jobs.connected([jid()])
    assert offers(it) == []

    it.jobs.trust(JOB_PUBLIC, UNTIL)
    it.jobs.connected([jid()])

    assert offers(it) == [jid()]


def test_a_job_of_another_master_of_the_same_store_is_trusted_and_its_result_offered() -> None:
    it = Server()
    it.start()
    it.jobs.trust(OTHER, UNTIL)
    it.end()
    it.jobs.connected([jid()])
    assert offers(it) == []
    it.jobs.share(JOB_PUBLIC, UNTIL)
    assert offers(it) == [jid()], "the issuer may have stored it, so that nobody asks for it any more"
    it.jobs.share(JOB_PUBLIC, UNTIL)
    it.jobs.received(parcel())
    assert offers(it) == [], "it is in flight"
    it.jobs.trust(OTHER, UNTIL)
    it.jobs.connected([jid()])
    assert offers(it) == [], "the next session may be one with a master that has another store"


@pytest.mark.parametrize("other", [replace(parcel(), signature=bytes(64)), replace(parcel(1), jid=jid())])
def test_a_jid_that_another_master_used_first_is_refused_and_not_taken_for_that_job(other: ReceivedPart) -> None:
    it = Server()
    it.start()
    it.take()
    it.jobs.trust(OTHER, UNTIL)
    it.jobs.received(other)
    state, reason = refusal(it.take())
    assert state is TargetState.REFUSED
    assert "another master" in reason


@pytest.mark.parametrize("recovered", [False, True])
def test_a_running_job_comes_again_from_a_master_that_shares_the_store_of_its_issuer(recovered: bool) -> None:
    it = Server()
    if recovered:
        job = RecoveredJob(jid(), JournalStep.STARTED, issuer=JOB_PUBLIC, pid=PID, alive=True)
        it.jobs.replay([job], [], "")
    else:
        it.start()
    it.jobs.trust(OTHER, UNTIL)
    it.take()
    it.jobs.received(parcel())
    assert it.take() == [Tell(jid(), TargetState.RUNNING, "")], "the certificate of the issuer may be an old one"
    assert jid() in [effect.jid for effect in it.end() if isinstance(effect, Offer)]


def test_after_a_week_any_master_of_the_fleet_may_have_a_result() -> None:
    it = Server()
    it.start()
    it.jobs.trust(OTHER, UNTIL)
    it.end()
    it.clock.advance(FOREIGN_S + 1)

    it.jobs.connected([jid()])

    assert offers(it) == [jid()]


@pytest.mark.parametrize(("issuer", "offered"), [(OTHER, []), (JOB_PUBLIC, [jid()]), (b"", [jid()])])
def test_whose_a_result_is_survives_a_restart(issuer: bytes, offered: list[str]) -> None:
    it = Server()
    it.jobs.replay([RecoveredJob(jid(), JournalStep.DONE, issuer=issuer)], [jid()], "")

    it.jobs.connected([jid()])

    assert offers(it) == offered


def test_the_journal_keeps_whose_a_job_is_until_it_has_ended() -> None:
    it = Server()
    (write, *_) = it.receive()
    assert isinstance(write, Write)
    entry = advance(None, Record(JournalStep.RECEIVED, jid(), write.fields), "")
    entry = advance(entry, Record(JournalStep.STARTED, jid(), {"pid": 1, "ticks": 1, "wall_ms": 1}), "")

    assert advance(entry, Record(JournalStep.DONE, jid()), "").issuer == JOB_PUBLIC


def test_a_record_without_an_issuer_is_read() -> None:
    known = JournalEntry(parse_jid(jid()), JournalStep.RECEIVED, 1, 1, b"b", b"s", ())
    assert advance(None, Record(JournalStep.RECEIVED, jid(), RECEIVED), "") == known
    assert advance(None, Record(JournalStep.RECEIVED, jid(), RECEIVED | {"issuer": OTHER}), "") == replace(
        known, issuer=OTHER
    )


@pytest.mark.parametrize("fields", [RECEIVED | {"issuer": "text"}, RECEIVED | {"other": b""}, {"issuer": OTHER}])
def test_a_record_with_another_field_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(JournalError, match="has the fields"):
        advance(None, Record(JournalStep.RECEIVED, jid(), fields), "")
