"""What the master answers about jobs, events and itself, and what an ended job means for minions that come back."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest

from saltlite.auth.acl import Principal
from saltlite.errors import StoreError, UsageError
from saltlite.master.handlers import events, jobs
from saltlite.master.handlers.delivery import handle_pull
from saltlite.master.handlers.events import EventStream
from saltlite.master.handlers.jobs import LIMIT_MAX, TARGET_MAX, JobFollower
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.handlers.results import TransientStates, store_transient_states
from saltlite.master.processes import link_channel as ipc
from saltlite.master.processes.context import Answer, Follow, HandlerConfig, Master, MasterIdentity, Watch
from saltlite.master.store.ports import MinionRow, PartRow, TargetRow
from saltlite.model.ids import Jid, MinionId
from saltlite.model.job import Batch, TargetState
from saltlite.model.keys import fingerprint
from saltlite.platform.daemon import ManualClock
from saltlite.targeting.fleet import Selection
from saltlite.testing.memory_store import MemoryStore
from saltlite.wire.job_body import decode_body, sign
from saltlite.wire.merkle import audience
from tests.support.inventory import inventory
from tests.support.keys import FLEET_PUBLIC, JOB_PRIVATE, certificate
from tests.support.store import NOW, WEB1, WEB2, commit, had_sessions, job, key, move, publish, ret

ROOT = Principal("alice", 0)


class Link:
    """A link process that notes what it is told."""

    def __init__(self) -> None:
        self.cancels: list[tuple[str, str]] = []
        self.pulled_jobs: list[str] = []

    def publish(self, job: Any, parts: Any) -> None:
        """Jobs are read from the store here."""

    def cancel(self, parts: list[tuple[str, str]]) -> None:
        self.cancels += parts

    def pulled(self, _minion: str, jobs: Any, *, starved: bool, rest: str | None) -> None:
        assert not starved
        assert rest == ""
        self.pulled_jobs += [job.jid for job, _proof, _left in jobs]


class MasterRig:
    """A master with web1 and web2, of which it knows nothing but their keys."""

    def __init__(self, **config: Any) -> None:
        self.clock = ManualClock(wall=NOW)
        self.store = MemoryStore()
        self.link = Link()
        who = MasterIdentity(fingerprint(FLEET_PUBLIC), certificate(NOW), JOB_PRIVATE)
        limits = HandlerConfig(timeout_s=5.0, deliver_s=60.0, operators=frozenset({0}), **config)
        self.master = Master(self.store, self.clock, who, limits, cast("Any", self.link), *inventory())
        self._requests = itertools.count()
        with self.store.write() as tx:
            for minion in (WEB1, WEB2):
                tx.put_key(key(minion))

    def ask(self, verb: str, **fields: Any) -> Answer:
        return handle_request(self.master, ROOT, {"v": 1, "verb": verb, **fields})

    def publish(self, target: str = "*", fun: str = "test.ping", *args: Any) -> Jid:
        answer = self.ask(
            "publish",
            request_id=f"{next(self._requests):032x}",
            tgt=target,
            tgt_type="glob",
            calls=[[fun, list(args), {}]],
        )
        return Jid(answer.fields["jid"])

    def comes(self, minion: MinionId) -> None:
        """It has a session from now on."""
        name = self.master.identity.certificate.name
        row = MinionRow(minion, key(minion).fingerprint, "10.0.0.1", "0.1", "boot", "disk", "", True, NOW, name, 1, 1)
        with self.store.write() as tx:
            had_sessions(tx, [row])
        self.master.present[minion] = NOW

    def state(self, jid: Jid, minion: MinionId) -> TargetState:
        return next(row.state for row in self.store.targets(jid) if row.id == minion)

    def tags(self) -> list[str]:
        return [event.tag for event in self.store.events()]


@pytest.fixture
def rig() -> MasterRig:
    return MasterRig()


# --- publish --------------------------------------------------------------------------------------


def test_a_job_is_signed_before_the_transaction_and_anew_when_its_targets_changed(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that is open while a job with thousands of targets is signed would hold up all writers."""
    signed_in_transaction = []

    def signs(*asked: Any) -> bytes:
        signed_in_transaction.append(rig.store._writing)
        return sign(*asked)

    monkeypatch.setattr("saltlite.master.handlers.publish.sign", signs)
    rig.publish()
    assert signed_in_transaction == [False]
    monkeypatch.setattr("saltlite.master.handlers.publish.still_accepted", lambda *_: Selection(frozenset({WEB1}), {}))
    second = rig.publish()
    assert signed_in_transaction == [False, False, True]
    published = rig.store.job(second)
    assert published is not None
    assert published.minions == (WEB1,)
    assert decode_body(published.body).audience == audience(published)


# --- job_list and job_show ------------------------------------------------------------------------


def test_a_list_says_whether_there_are_more(rig: MasterRig) -> None:
    made = [rig.publish() for _ in range(3)]
    first = rig.ask("job_list", limit=2).fields
    assert [row["jid"] for row in first["jobs"]] == made[:0:-1]
    assert first["more"]
    rest = rig.ask("job_list", limit=2, before=made[1]).fields
    assert ([row["jid"] for row in rest["jobs"]], rest["more"]) == ([made[0]], False)


def test_a_list_cuts_targets_short_and_the_job_itself_has_them_whole(rig: MasterRig) -> None:
    target = "web1" + "*" * TARGET_MAX
    jid = rig.publish(target)
    assert rig.ask("job_list").fields["jobs"][0]["tgt"] == target[: TARGET_MAX - 3] + "..."
    assert rig.ask("job_show", jid=jid).fields["job"]["tgt"] == target


@pytest.mark.parametrize(
    "fields",
    [
        {"limit": 0},
        {"limit": LIMIT_MAX + 1},
        {"minion": "WEB/1"},
        {"before": "1"},
        {"state": "bad"},
        {"fun": "x" * 257},
        {"user": "x" * 257},
        {"since": "2h"},
    ],
)
def test_a_list_that_cannot_be_meant_is_refused(rig: MasterRig, fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        rig.ask("job_list", **fields)


def test_a_job_is_shown_with_its_arguments_and_the_retcode_of_each_minion(rig: MasterRig) -> None:
    jid = rig.publish("*", "cmd.run", "ls /x")
    commit(rig.store, ret(cast("Any", rig.store.job(jid)), WEB1, retcode=2))
    job = rig.ask("job_show", jid=jid).fields["job"]
    assert job["calls"] == [["cmd.run", ["ls /x"], {}]]
    assert (job["user"], job["tgt"], job["outcomes"]) == ("alice", "*", {"failed": 1, "open": 1})
    assert [(row["id"], row["state"], row["retcode"]) for row in job["targets"]] == [
        ("web1", "returned", 2),
        ("web2", "queued", None),
    ]


def test_a_list_has_what_its_jobs_were_called_with_where_that_is_asked_for(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in ("one", "two", "three"):
        rig.publish("*", "test.echo", words)
    assert "calls" not in rig.ask("job_list").fields["jobs"][0]
    whole = rig.ask("job_list", whole=True).fields
    assert [row["calls"] for row in whole["jobs"]] == [
        [["test.echo", [words], {}]] for words in ("three", "two", "one")
    ]
    assert whole["more"] is False
    # The one that fills the answer is its last, and the rest is not forgotten.
    monkeypatch.setattr(jobs, "BODIES_MAX", 1)
    cut = rig.ask("job_list", whole=True).fields
    assert (len(cut["jobs"]), cut["more"]) == (1, True)


def test_a_grouped_job_has_equal_returns_together_and_the_first_targets_without_one(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    jid = rig.publish()
    commit(rig.store, ret(cast("Any", rig.store.job(jid)), WEB2))
    whole = rig.ask("job_show", jid=jid).fields["job"]
    found = rig.ask("job_show", jid=jid, grouped=True).fields
    targets = whole.pop("targets")
    first = [{**targets[0], "absence": "never connected"}]
    assert (found["job"], found["without"], found["without_count"]) == (whole, first, 1)
    row = {"state": "returned", "retcode": 0, "reason": "", "body": b"\xc3"}
    assert found["returns"] == [{"names": ["web2"], **row}]
    assert rig.ask("job_return", jid=jid, target="web2").fields["return"] == row
    assert rig.ask("job_return", jid=jid, target="web1").fields["return"] is None
    monkeypatch.setattr(jobs, "GROUPED_BYTES", 0)
    assert "returns" not in rig.ask("job_show", jid=jid, grouped=True).fields


@pytest.mark.parametrize("verb", ["job_show", "job_kill", "job_return"])
def test_an_unknown_job_is_told_in_a_sentence(rig: MasterRig, verb: str) -> None:
    more = {"target": "web1"} if verb == "job_return" else {}
    with pytest.raises(UsageError, match="there is no job 20200101000000000000: it was never published here"):
        rig.ask(verb, jid="20200101000000000000", **more)


# --- job_kill -------------------------------------------------------------------------------------


def test_a_kill_tells_apart_who_is_asked_who_will_be_and_who_never_got_it(rig: MasterRig) -> None:
    rig.comes(WEB1)
    jid = rig.publish()
    answer = rig.ask("job_kill", jid=jid)
    assert answer.fields == {"ids": ["web1"], "away": [], "cancelled": ["web2"]}
    assert answer.committed
    assert rig.state(jid, WEB1) is TargetState.QUEUED, "it says itself that it ended it"
    assert rig.state(jid, WEB2) is TargetState.CANCELLED
    assert f"salt/job/{jid}/kill" in rig.tags()


def test_every_minion_that_may_have_the_job_is_sent_the_cancel(rig: MasterRig) -> None:
    jid = rig.publish()
    rig.ask("job_kill", jid=jid)
    assert rig.link.cancels == [("web1", jid), ("web2", jid)], "one may have come a moment ago"


def test_a_minion_that_comes_back_gets_the_cancel_instead_of_the_job(rig: MasterRig) -> None:
    rig.comes(WEB1)
    jid, kept = rig.publish("web1"), rig.publish("web1")
    del rig.master.present[WEB1]
    assert rig.ask("job_kill", jid=jid).fields == {"ids": [], "away": ["web1"], "cancelled": []}
    rig.link.cancels.clear()
    session = [WEB1, key(WEB1).fingerprint, True, "10.0.0.1", "0.1", "boot", "disk", "", 1, 1]
    handle_pull(rig.master, {"id": "web1", "session": session, "since": ""})
    assert rig.link.cancels == [("web1", jid)]
    assert rig.link.pulled_jobs == [kept]


@pytest.mark.parametrize("state", [TargetState.RECEIVED, TargetState.RUNNING])
def test_a_minion_that_takes_up_a_cancelled_job_is_told_again(rig: MasterRig, state: TargetState) -> None:
    rig.comes(WEB1)
    jid, other = rig.publish("web1"), rig.publish("web1")
    rig.ask("job_kill", jid=jid)
    rig.link.cancels.clear()
    rows: dict[tuple[str, MinionId], PartRow] = {
        (one, WEB1): PartRow(one, WEB1, state, "", NOW) for one in (jid, other)
    }
    assert store_transient_states(rig.master, TransientStates(rows))
    assert rig.link.cancels == [("web1", jid)]


def test_a_kill_of_a_job_that_has_ended_changes_nothing(rig: MasterRig) -> None:
    jid = rig.publish("web1")
    commit(rig.store, ret(cast("Any", rig.store.job(jid)), WEB1))
    before = rig.tags()
    assert rig.ask("job_kill", jid=jid).fields == {"ids": [], "away": [], "cancelled": []}
    assert rig.tags() == before
    assert rig.store.cancelled([jid]) == set()


# --- events ---------------------------------------------------------------------------------------


def watch(rig: MasterRig, **fields: Any) -> EventStream:
    wanted = rig.ask("events", **{"pattern": "*", **fields}).follow
    assert isinstance(wanted, Watch)
    return EventStream(rig.master, wanted)


def seen(stream: EventStream) -> list[str]:
    """Tags of all that is new, with one message after the other."""
    tags: list[str] = []
    while news := stream.news():
        tags += [event["tag"] for event in news["events"]]
        assert news["seq"] == news["events"][-1]["seq"]
    return tags


def test_events_without_a_beginning_are_those_to_come(rig: MasterRig) -> None:
    rig.publish()
    stream = watch(rig)
    assert stream.news() is None
    jid = rig.publish()
    assert seen(stream) == [f"salt/job/{jid}/new"]
    assert stream.news() is None


def test_events_are_filtered_by_a_glob_on_the_whole_tag(rig: MasterRig) -> None:
    jid = rig.publish("web1")
    commit(rig.store, ret(cast("Any", rig.store.job(jid)), WEB1))
    assert seen(watch(rig, pattern="salt/job/*/ret/web[12]", after=0)) == [f"salt/job/{jid}/ret/web1"]
    assert seen(watch(rig, pattern="salt/job", after=0)) == []


def test_a_reader_goes_on_behind_its_cursor(rig: MasterRig) -> None:
    jids = [rig.publish() for _ in range(3)]
    assert seen(watch(rig, after=1)) == [f"salt/job/{jid}/new" for jid in jids[1:]]


def test_a_reader_can_begin_at_a_time(rig: MasterRig) -> None:
    rig.publish()
    rig.clock.advance(10)
    jid = rig.publish()
    assert seen(watch(rig, since=NOW + 5)) == [f"salt/job/{jid}/new"]


def test_events_that_match_are_found_behind_many_that_do_not(rig: MasterRig) -> None:
    with rig.store.write() as tx:
        for _ in range(2 * events.PAGE + 1):
            tx.put_event("noise", {}, NOW)
        tx.put_event("signal", {"n": 1}, NOW)
    assert seen(watch(rig, pattern="signal", after=0)) == ["signal"]


def test_a_reader_who_wants_none_of_them_does_not_keep_the_others_waiting(rig: MasterRig) -> None:
    with rig.store.write() as tx:
        for _ in range(events.PAGES * events.PAGE + 1):
            tx.put_event("noise", {}, NOW)
    stream = watch(rig, pattern="signal", after=0)
    assert stream.news() == {"seq": events.PAGES * events.PAGE, "events": []}
    assert stream.news() is None


def test_a_message_of_events_is_closed_when_it_is_large(rig: MasterRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "SIZE", 100)
    with rig.store.write() as tx:
        for _ in range(4):
            tx.put_event("large", {"text": "x" * 60}, NOW)
    stream = watch(rig, after=0)
    sizes = []
    while news := stream.news():
        sizes.append(len(news["events"]))
    assert sizes == [2, 2]


@pytest.mark.parametrize("fields", [{"after": 1}, {"after": -1}, {"pattern": ""}, {"pattern": "x" * 257}])
def test_a_cursor_that_was_never_given_out_and_a_pattern_without_sense_are_refused(
    rig: MasterRig, fields: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        rig.ask("events", **{"pattern": "*", **fields})


def test_a_reader_learns_which_event_is_the_first_that_is_left(rig: MasterRig) -> None:
    with rig.store.write() as tx:
        tx.put_event("old", {}, NOW - 100)
        tx.put_event("new", {}, NOW)
        tx.prune(NOW - 50)
    assert rig.ask("events", pattern="*", after=0).fields == {"seq": 0, "first": 2, "view": "all"}


# --- follow ---------------------------------------------------------------------------------------


def test_large_returns_come_in_several_messages_and_the_last_one_ends_the_stream(
    rig: MasterRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    jid = rig.publish()
    job = cast("Any", rig.store.job(jid))
    body = b"x" * (8 * 1024 * 1024)
    commit(rig.store, ret(job, WEB1, body=body), ret(job, WEB2, body=body))
    follower = JobFollower(rig.master, Follow(jid, 0))
    messages = []
    while news := follower.news():
        messages.append(([row["id"] for row in news["returns"]], news.get("end", False)))
        if news.get("end"):
            break
    assert messages == [(["web1"], False), (["web2"], False), ([], True)]


def test_whose_turn_has_not_come_is_told_once_and_read_once(rig: MasterRig, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(rig.store, one := job(1, (WEB1, WEB2), batch=Batch(1)))
    follower = JobFollower(rig.master, Follow(one.jid, 0))
    read: list[TargetState] = []
    targets_in = rig.store.targets_in

    def noted(jid: Jid, state: TargetState) -> list[TargetRow]:
        read.append(state)
        return targets_in(jid, state)

    monkeypatch.setattr(rig.store, "targets_in", noted)
    told = [_states(follower.news()), _states(follower.news())]
    move(rig.store, one, WEB1, TargetState.QUEUED)
    told += [_states(follower.news()), _states(follower.news())]
    move(rig.store, one, WEB1, TargetState.RUNNING)
    move(rig.store, one, WEB2, TargetState.CANCELLED)
    told.append(_states(follower.news()))
    assert told == [
        [("web1", "planned"), ("web2", "planned")],
        [],
        [("web1", "queued")],
        [],
        [("web1", "running"), ("web2", "cancelled")],
    ]
    assert read.count(TargetState.PLANNED) == 1


def _states(news: dict[str, Any] | None) -> list[tuple[str, str]]:
    return [(row["id"], row["state"]) for row in news["states"]] if news is not None else []


# --- room -----------------------------------------------------------------------------------------


def test_a_full_store_refuses_new_jobs_and_says_how_to_make_room() -> None:
    rig = MasterRig(store_max=10_000)
    jid = rig.publish("web1")
    commit(rig.store, ret(cast("Any", rig.store.job(jid)), WEB1, body=b"x" * 10_000))
    with pytest.raises(StoreError, match=r"the store is full.*saltlite job kill JID.*raise store_max.*Nothing was"):
        rig.publish()
    assert len(rig.ask("job_list").fields["jobs"]) == 1


def test_a_full_store_still_answers_a_publish_that_was_made_already() -> None:
    rig = MasterRig(store_max=10_000)
    fields = {"request_id": "0" * 32, "tgt": "web1", "tgt_type": "glob", "calls": [["test.ping", [], {}]]}
    jid = Jid(rig.ask("publish", **fields).fields["jid"])
    commit(rig.store, ret(cast("Any", rig.store.job(jid)), WEB1, body=b"x" * 10_000))
    assert rig.ask("publish", **fields).fields["jid"] == jid


# --- status ---------------------------------------------------------------------------------------


def test_the_status_has_what_the_link_says_and_none_where_it_is_silent(rig: MasterRig) -> None:
    rig.comes(WEB1)
    rig.publish()
    question = rig.ask("status").question
    assert question is not None
    assert question.message(7) == ipc.ask_stats(7)
    figures = {"sessions": 1}
    assert question.fields({"t": "stats", "n": 7, "figures": figures})["link"] == figures
    silent = question.fields(None)
    assert silent["link"] is None
    assert silent["counts"] == {"up": 1, "away": 0, "never": 1, "pending": 0}
    assert silent["conflicts"] == 0
    assert silent["queues"] == {"targets": {"queued": 2}, "minions_away_with_jobs": 1}
