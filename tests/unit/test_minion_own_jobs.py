"""Jobs that a minion begins by itself: kept until the master has them, under the jid that it gives them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from saltlite.errors import UsageError
from saltlite.master.handlers import peers
from saltlite.master.handlers.documents import answer
from saltlite.master.processes.context import OWN_JOB_EVERY_S, OWN_JOBS_AT_ONCE
from saltlite.minion.jobs import own_jobs
from saltlite.minion.jobs.own_jobs import OwnJobs
from saltlite.minion.protocol.effects import OWN, Fork, JournalStep, Offer, RecoveredJob, Tell, Write
from saltlite.model.ids import MinionId, jid_at
from saltlite.model.job import TargetState, part_id
from saltlite.model.keys import KeyState
from saltlite.wire.codec import decode_document, encode_document
from saltlite.wire.job_body import FunctionCall
from saltlite.wire.messages import Message, response_message
from tests.support.job_machine import Server
from tests.support.keys import NOW
from tests.support.master import MasterRig

PING = FunctionCall("test.ping")


class Reactor:
    """Runs what is to be called later when the test says so."""

    def __init__(self) -> None:
        self.later: list[Any] = []

    def call_later(self, _seconds: float, callback: Any) -> Any:
        self.later.append(callback)
        return SimpleNamespace(cancel=lambda: self.later.remove(callback))


class Minion:
    """The jobs of a minion, with a test in place of the master."""

    def __init__(self, folder: Path) -> None:
        self.server = Server()
        self.reactor = Reactor()
        self.asked: list[tuple[Message, Any]] = []
        self.ended: list[str] = []
        self.own = OwnJobs(
            cast("Any", self.reactor),
            self.server.jobs,
            lambda message, answered: self.asked.append((message, answered)),
            self.server.clock,
            str(folder),
        )
        self.own.ended = self.ended.append
        self.own.open()

    def begin(self, *, report: bool = True, call: FunctionCall = PING) -> str:
        return self.own.begin(call, origin="schedule a", metadata={"x": 1}, report=report)

    def run(self, jid: str) -> None:
        self.server.take()
        self.server.jobs.forked(jid, 99, 7)
        self.server.jobs.exited(jid, left_result=True, how="")

    def offered(self) -> list[str]:
        """The results that the master may get now."""
        return [one.jid for one in self.server.take() if isinstance(one, Offer) and self.own.may_offer(one.jid)]

    def master_says(self, state: str = "ok", **fields: Any) -> None:
        message, answered = self.asked.pop(0)
        answered(response_message(message["n"], state, data=encode_document(fields)))


@pytest.fixture
def minion(tmp_path: Path) -> Minion:
    return Minion(tmp_path)


def test_a_job_begins_without_a_master_and_is_offered_when_the_master_knows_it(minion: Minion) -> None:
    jid = minion.begin()
    effects = minion.server.take()
    (written,) = (one for one in effects if isinstance(one, Write))
    assert (written.step, written.fields["issuer"]) == (JournalStep.RECEIVED, OWN)
    assert [one.jid for one in effects if isinstance(one, Fork)] == [jid]
    minion.run(jid)
    assert minion.offered() == []
    assert minion.asked == []
    minion.own.connected()
    about = decode_document(minion.asked[0][0]["data"])
    assert about == {
        "jid": jid, "calls": [["test.ping", [], {}]], "metadata": {"x": 1}, "origin": "schedule a",
    }  # fmt: skip
    minion.master_says(jid=jid)
    assert minion.offered() == [jid]


def test_what_the_master_does_not_know_survives_a_restart_and_is_forgotten_with_its_acknowledgement(
    minion: Minion, tmp_path: Path
) -> None:
    jid = minion.begin()
    later = Minion(tmp_path)
    later.server.jobs.replay([RecoveredJob(jid, JournalStep.DONE, issuer=OWN)], [jid], "")
    later.server.jobs.connected([jid])
    assert later.offered() == []
    later.own.connected()
    later.master_says(jid=jid)
    assert later.offered() == [jid]
    later.own.acknowledged(jid)
    assert list((tmp_path / own_jobs.FOLDER).iterdir()) == []


def test_a_jid_that_another_job_has_is_translated_both_ways(minion: Minion) -> None:
    jid, theirs = minion.begin(), jid_at(1_900_000_000_000_000)
    minion.own.connected()
    minion.master_says(jid=theirs)
    assert minion.own.outgoing({"t": "result", "jid": jid}) == {"t": "result", "jid": theirs}
    assert minion.own.incoming({"t": "cancel", "jid": theirs}) == {"t": "cancel", "jid": jid}
    assert minion.own.incoming({"t": "return_ack", "jids": [theirs, "x"]}) == {"t": "return_ack", "jids": [jid, "x"]}
    minion.own.acknowledged(jid)
    assert minion.own.outgoing({"t": "result", "jid": jid})["jid"] == jid
    assert minion.own.incoming({"t": "cancel", "jid": theirs})["jid"] == theirs


def test_a_job_without_a_report_is_not_told_and_its_result_is_dropped(minion: Minion) -> None:
    minion.own.connected()
    jid = minion.begin(report=False)
    minion.run(jid)
    assert minion.offered() == []
    assert minion.asked == []
    assert [one.step for one in minion.server.take() if isinstance(one, Write)] == [JournalStep.ACKED]


def test_a_busy_master_is_told_again_and_one_that_refuses_gets_no_result(minion: Minion) -> None:
    minion.own.connected()
    jid = minion.begin()
    minion.run(jid)
    assert minion.offered() == []
    minion.master_says("busy")
    minion.reactor.later.pop()()
    minion.master_says("refused")
    assert minion.offered() == []
    assert minion.own.may_offer(jid)


def test_the_master_is_told_of_one_job_at_a_time_and_a_session_begins_anew(minion: Minion) -> None:
    jids = [minion.begin() for _ in range(3)]
    minion.own.connected()
    minion.master_says("busy")
    minion.own.connected()
    assert (len(minion.asked), minion.reactor.later) == (1, [])
    told: list[str] = []
    while minion.asked:
        assert len(minion.asked) == 1
        told.append(decode_document(minion.asked[0][0]["data"])["jid"])
        minion.master_says(jid=told[-1])
    assert told == jids


@pytest.mark.parametrize("part", [0, 1])
def test_a_job_begins_while_the_clock_is_behind_what_the_journal_has_forgotten(minion: Minion, part: int) -> None:
    floor = part_id(jid_at(int((NOW + 86_400) * 1_000_000)), part)
    minion.server.jobs.replay([], [], floor)
    assert minion.begin() > floor


def test_a_job_that_cannot_run_is_reported_once_the_master_knows_it(minion: Minion, tmp_path: Path) -> None:
    jid = minion.begin()
    minion.server.take()
    minion.server.jobs.not_forked(jid, "no process")
    assert [one.state for one in minion.server.take() if isinstance(one, Tell)] == [TargetState.REFUSED]
    minion.own.refused(jid)
    assert minion.ended == [jid]
    minion.own.connected()
    minion.master_says(jid=jid)
    assert [one.state for one in minion.server.take() if isinstance(one, Tell)] == [TargetState.REFUSED]
    minion.own.refused(jid)
    assert list((tmp_path / own_jobs.FOLDER).iterdir()) == []


def test_jids_are_unique_and_nothing_begins_on_a_full_disk_or_with_too_many_unreported(
    minion: Minion, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len({minion.begin() for _ in range(5)}) == 5
    monkeypatch.setattr(own_jobs, "UNREPORTED_MAX", 5)
    with pytest.raises(UsageError, match="5 results wait for the master"):
        minion.begin()
    minion.server.jobs.room(in_spool=True, full="No space left on device")
    with pytest.raises(UsageError, match="disk is full"):
        minion.begin(report=False)
    with pytest.raises(UsageError, match=r"module\.function"):
        minion.begin(call=FunctionCall("nonsense"), report=False)


# --- the master


class Site(MasterRig):
    def own_job(self, minion: str = "web1", **fields: Any) -> tuple[str, Any]:
        about = {"jid": JID, "calls": [["test.echo", ["x"], {}]], "metadata": {}, "origin": "schedule a", **fields}
        found: list[Message] = []
        ask = {"t": "ask", "n": 1, "what": "own_job", "data": encode_document(about), "sha256": b"", "offset": 0}
        answer(self.master, self.documents, MinionId(minion), {**ask, "nonce": b""}, found.append)
        said = found[0]
        return said["state"], decode_document(said["data"])["jid"] if said["state"] == "ok" else " ".join(said["names"])


JID = jid_at(int(NOW * 1_000_000) - 5)


def test_the_master_stores_a_job_that_a_minion_began_as_running_there_and_delivers_it_nowhere() -> None:
    site = Site("web1", "web2")
    assert site.own_job() == ("ok", JID)
    stored = site.store.job(JID)
    assert stored is not None
    assert (stored.user, stored.origin, stored.minions, stored.fun) == (
        "minion:web1", "schedule a", ("web1",), "test.echo",
    )  # fmt: skip
    assert [row.state for row in site.store.targets(JID)] == [TargetState.RUNNING]
    assert site.link.published == []
    assert site.own_job() == ("ok", JID)


@pytest.mark.parametrize("jid", [JID, jid_at(int((NOW + 3600) * 1e6)), jid_at(int((NOW - 365 * 86_400) * 1e6))])
def test_a_jid_that_is_taken_or_far_from_now_is_replaced(jid: str) -> None:
    site = Site("web1", "web2")
    site.own_job("web2")
    state, given = site.own_job(jid=jid)
    assert state == "ok"
    assert given not in (jid, JID)
    assert site.own_job(jid=jid) == ("ok", given)


def test_what_is_no_job_is_refused_and_a_minion_begins_so_many() -> None:
    site = Site("web1")
    assert site.own_job(jid="x")[0] == "refused"
    assert site.own_job(calls=[["nonsense", [], {}]])[0] == "refused"
    assert site.own_job(metadata=[])[0] == "refused"
    site.clock.advance(10 * OWN_JOB_EVERY_S)
    jids = [jid_at(int(NOW * 1e6) + number) for number in range(OWN_JOBS_AT_ONCE + 1)]
    assert [site.own_job(jid=jid)[0] for jid in jids] == ["ok"] * OWN_JOBS_AT_ONCE + ["busy"]
    site.add_keys("web1", state=KeyState.REVOKED)
    site.clock.advance(1000)
    assert site.own_job(jid=jid_at(1))[0] == "refused"


def test_a_minion_that_returns_nothing_has_so_many_open_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "JOBS_QUEUED_PER_MINION", 2)
    site = Site("web1", "web2")
    jids = [jid_at(int(NOW * 1e6) + number) for number in range(3)]
    assert [site.own_job(jid=jid)[0] for jid in jids] == ["ok", "ok", "busy"]
    assert site.own_job(jid=jids[0])[0] == "ok"
    assert site.own_job("web2", jid=jids[2])[0] == "ok"


def test_the_origin_of_such_a_job_is_that_of_no_other_kind() -> None:
    site = Site("web1")
    state, jid = site.own_job(origin=peers.ORIGIN)
    stored = site.store.job(jid)
    assert stored is not None
    assert (state, stored.origin) == ("ok", f"schedule {peers.ORIGIN}")


def test_the_request_of_one_minion_does_not_name_the_job_of_another() -> None:
    site = Site("web1", "web2")
    site.own_job("web1")
    assert site.own_job("web2")[1] != JID
