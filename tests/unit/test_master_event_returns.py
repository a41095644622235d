"""Events of jobs with what Salt's have: arguments, targets and returns, for those who may see the job."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.auth.acl import Granted, Principal, read_rules
from saltlite.errors import RefusedError
from saltlite.loader.encode import encode_return
from saltlite.master.handlers import events
from saltlite.master.handlers.events import EventStream
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.processes.context import Watch
from saltlite.model.ids import Jid, MinionId
from saltlite.model.job import TargetState
from tests.support.master import ROOT, MasterRig
from tests.support.store import NOW, commit, ret

WEB1 = MinionId("web1")
FRED = Principal("fred", 1000)
GINA = Principal("gina", 1001)
"""May see the jobs of others."""
HANS = Principal("hans", 1002)
"""May see all events, and no job of others."""
PUBLISHER = {"fred": ["test.*"], "gina": ["@jobs"], "hans": [{"@runner": ["event.listen"]}, {"@wheel": ["key.list"]}]}


class EventRig(MasterRig):
    """A master with web1 and web2, and with rules."""

    def __init__(self) -> None:
        granted = Granted(publisher=read_rules(PUBLISHER, "publisher_acl", patterns=True))
        super().__init__("web1", "web2", granted=granted, shown={"timeout": 5.0})
        self._requests = 0

    def publish(self, who: Principal, *call: Any) -> Jid:
        """A job of that user on all minions."""
        self._requests += 1
        fields = {"request_id": f"{self._requests:032x}", "tgt": "*", "tgt_type": "glob"}
        answer = handle_request(self.master, who, {"v": 1, "verb": "publish", **fields, "calls": [list(call)]})
        jid: Jid = answer.fields["jid"]
        return jid

    def answer(self, jid: Jid, **changes: Any) -> None:
        """web1 returns."""
        job = self.store.job(jid)
        assert job is not None
        commit(self.store, ret(job, WEB1, **changes))

    def stream(self, who: Principal, **fields: Any) -> EventStream:
        watch = handle_request(
            self.master, who, {"v": 1, "verb": "events", "pattern": "*", "after": 0, **fields}
        ).follow
        assert isinstance(watch, Watch)
        return EventStream(self.master, watch)

    def rows(self, who: Principal, **fields: Any) -> list[dict[str, Any]]:
        """All events that there are, in their order."""
        stream = self.stream(who, **fields)
        rows: list[dict[str, Any]] = []
        while news := stream.news():
            rows += news["events"]
        return rows


@pytest.fixture
def rig() -> EventRig:
    return EventRig()


def test_an_event_has_what_salts_has(rig: EventRig) -> None:
    jid = rig.publish(FRED, "test.arg", [1, "two"], {"three": 3})
    rig.answer(jid, body=b"\xa5hello")
    new, returned = rig.rows(FRED, returns=True)
    args = [1, "two", {"__kwarg__": True, "three": 3}]
    assert (new["data"]["arg"], new["data"]["minions"]) == (args, ["web1", "web2"])
    about = {"cmd": "_return", "fun": "test.arg", "fun_args": args, "success": True, "id": "web1", "jid": jid}
    assert about.items() <= returned["data"].items()
    assert returned["body"] == b"\xa5hello"


def test_without_the_wish_an_event_is_as_it_is_stored(rig: EventRig) -> None:
    rig.answer(rig.publish(FRED, "test.ping", [], {}))
    for row in rig.rows(FRED):
        assert not row["data"].keys() & {"arg", "minions", "fun_args", "success", "return"}
        assert "body" not in row


def test_returns_are_for_those_who_may_see_the_job(rig: EventRig) -> None:
    rig.answer(rig.publish(ROOT, "test.ping", [], {}))
    assert rig.rows(FRED, returns=True) == []
    [_new, seen] = rig.rows(GINA, returns=True)
    assert seen["body"] == b"\xc3"
    [new, event] = rig.rows(HANS, returns=True)
    assert "arg" not in new["data"]
    assert ("body" in event, "fun" in event["data"]) == (False, False), "an event is no right to the job"


def test_secret_arguments_are_hidden(rig: EventRig) -> None:
    rig.answer(rig.publish(FRED, "test.arg", [], {"password": "a-secret"}))
    assert "a-secret" not in str(rig.rows(FRED, returns=True))


def test_a_failure_and_what_never_returned_are_no_success(rig: EventRig) -> None:
    failed, killed = rig.publish(FRED, "test.ping", [], {}), rig.publish(FRED, "test.ping", [], {})
    rig.answer(failed, retcode=1)
    rig.answer(killed, state=TargetState.LOST, body=b"", reason="its disk is gone")
    rows = [row["data"] for row in rig.rows(FRED, returns=True, pattern="*/ret/*")]
    assert [row["success"] for row in rows] == [False, False]
    assert rows[1]["return"] == "its disk is gone"


def test_a_large_return_is_named_and_not_sent(rig: EventRig) -> None:
    rig.answer(rig.publish(FRED, "test.ping", [], {}), body=encode_return("x" * events.RETURN_MAX))
    [event] = rig.rows(FRED, returns=True, pattern="*/ret/*")
    assert "body" not in event
    assert "the return has 655" in event["data"]["return"]


def test_large_arguments_and_many_targets_are_cut(rig: EventRig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MINIONS_MAX", 1)
    rig.publish(FRED, "test.arg", ["x" * (events.ARGUMENTS_MAX + 1)], {})
    [new] = rig.rows(FRED, returns=True)
    assert (new["data"]["minions"], new["data"]["targets"]) == (["web1"], 2)
    assert "characters of arguments" in new["data"]["arg"][0]


def test_a_message_is_closed_when_its_returns_are_large_and_nothing_is_lost(
    rig: EventRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SIZE", 1000)
    jids = [rig.publish(FRED, "test.ping", [], {}) for _ in range(3)]
    for jid in jids:
        rig.answer(jid, body=encode_return("x" * 900))
    stream = rig.stream(FRED, returns=True, pattern="*/ret/*")
    sizes, tags = [], []
    while news := stream.news():
        sizes.append(len(news["events"]))
        tags += [row["tag"] for row in news["events"]]
        assert news["seq"] == news["events"][-1]["seq"]
    assert tags == [f"salt/job/{jid}/ret/web1" for jid in jids]
    assert max(sizes) < 3


def test_tags_of_users_are_no_events_of_jobs(rig: EventRig) -> None:
    jid = rig.publish(FRED, "test.ping", [], {})
    with rig.store.write() as tx:
        for tag in (f"job/{jid}/new", "job/x/new", f"other/job/{jid}/ret/web1", "salt/job", "salt/job/x/new"):
            tx.put_event(tag, {"user": "fred"}, NOW)
    rows = rig.rows(ROOT, returns=True)
    assert [row["data"] for row in rows[1:]] == [{"user": "fred"}] * 5
    assert [row["tag"] for row in rig.rows(GINA, returns=True)][1:] == ["salt/job", "salt/job/x/new"]


def test_a_wheel_function_is_announced_by_those_who_may_run_it(rig: EventRig) -> None:
    run = "20260131235959123456"
    about = {"v": 1, "verb": "wheel_event", "jid": run, "fun": "key.list"}
    handle_request(rig.master, HANS, about)
    handle_request(rig.master, HANS, {**about, "success": True, "data": {"return": {"minions": []}}})
    new, ended = rig.rows(ROOT)
    assert (new["tag"], ended["tag"]) == (f"salt/wheel/{run}/new", f"salt/wheel/{run}/ret")
    assert ended["data"] == {
        "fun": "wheel.key.list", "jid": run, "user": "hans", "tag": f"salt/wheel/{run}", "success": True,
        "return": {"minions": []},
    }  # fmt: skip
    for who in (FRED, GINA):
        with pytest.raises(RefusedError, match="that takes @wheel"):
            handle_request(rig.master, who, about)


def test_the_configuration_and_connected_minions_need_their_own_right(rig: EventRig) -> None:
    assert rig.ask("config_values").fields["values"] == {"timeout": 5.0}
    assert rig.ask("minions_connected").fields["minions"] == []
    for verb in ("config_values", "minions_connected"):
        with pytest.raises(RefusedError):
            handle_request(rig.master, HANS, {"v": 1, "verb": verb})
