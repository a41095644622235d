"""What a minion may say of its own accord: under which tag, how much, how often; and who else writes events."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.auth.acl import Granted, Principal, read_rules
from saltlite.errors import CommandExecutionError, RefusedError, SaltInvocationError, StoreError, UsageError
from saltlite.master.handlers.documents import answer
from saltlite.master.handlers.operator_verbs import handle_request
from saltlite.master.protocol.sessions import RequestQueue
from saltlite.minion.jobs.rpc_client import RpcEventSender, event_message
from saltlite.model.events import TAG_MAX, matches, parse_free_tag, tag_of_minion
from saltlite.model.ids import MinionId
from saltlite.model.keys import KeyState
from saltlite.wire.codec import encode
from saltlite.wire.limits import EVENT_DATA_MAX, EVENT_EVERY_S, EVENT_TAG_MAX, EVENTS_AT_ONCE
from saltlite.wire.messages import Message
from tests.support.keys import NOW
from tests.support.master import MasterRig

JID = "20260131235959123456"


def said(rig: MasterRig, minion: str = "web1", **fields: Any) -> Message:
    message = {"t": "event", "n": 3, "tag": "app/up", "data": encode({"v": 1}), "jid": ""} | fields
    said: list[Message] = []
    answer(rig.master, rig.documents, MinionId(minion), message, said.append)
    return said[0]


def written(rig: MasterRig) -> list[tuple[str, dict[str, Any]]]:
    return [(event.tag, dict(event.data)) for event in rig.store.events()]


def test_an_event_is_committed_before_it_is_acknowledged_and_names_its_job() -> None:
    rig = MasterRig("web1")
    assert said(rig, jid=f"{JID}-2")["state"] == "ok"
    assert written(rig) == [("minion/web1/app/up", {"id": "web1", "tag": "app/up", "data": {"v": 1}, "jid": JID})]


def test_the_data_of_an_event_may_be_a_text() -> None:
    rig = MasterRig("web1")
    assert said(rig, data=event_message("app/up", "version 1.2", "")["data"])["state"] == "ok"
    assert written(rig) == [("minion/web1/app/up", {"id": "web1", "tag": "app/up", "data": "version 1.2"})]


@pytest.mark.parametrize("tag", ["salt/auth", "/salt/auth", "minion/db1/x", "minion/web1"])
def test_whatever_a_minion_writes_stands_below_its_own_name(tag: str) -> None:
    assert tag_of_minion(MinionId("web1"), tag).startswith("minion/web1/")


@pytest.mark.parametrize("data", [encode([1]), b"\xc1", b"\x80\x80", encode({"a": {1: {2: 3}}})[:-1]])
def test_data_that_is_neither_map_nor_text_is_refused_and_nothing_is_written(data: bytes) -> None:
    rig = MasterRig("web1")
    assert said(rig, data=data)["state"] == "refused"
    assert written(rig) == []


def test_a_full_store_takes_no_event_of_anybody() -> None:
    rig = MasterRig("web1", store_max=1)
    assert said(rig)["state"] == "ok"
    assert said(rig)["state"] == "busy"
    with pytest.raises(StoreError, match="store_max"):
        rig.ask("event_send", tag="app/x", data={})
    with pytest.raises(StoreError, match="store_max"):
        rig.ask("hook", path="x", data={})
    assert len(written(rig)) == 1


def test_a_minion_without_an_accepted_key_writes_nothing() -> None:
    rig = MasterRig()
    rig.add_keys("web1", state=KeyState.REVOKED)
    said(rig)
    assert written(rig) == []


def test_a_full_store_has_the_minion_come_again() -> None:
    rig = MasterRig("web1", store_max=1)
    with rig.store.write() as store:
        store.put_event("app/x", {"much": "x" * 100}, NOW)
    assert said(rig)["state"] == "busy"


def test_events_above_the_rate_are_answered_busy_and_reach_no_mworker() -> None:
    lane, states = RequestQueue(), []
    for n in range(EVENTS_AT_ONCE + 1):
        lane.event(1, "web1", {**event_message("a", {}, ""), "n": n}, 5.0)
        for ask in lane.due():
            lane.answered(1, {"n": ask.message["n"], "state": "ok"})
        states += [message["state"] for _session, message in lane.to_send()]
    assert states == ["ok"] * EVENTS_AT_ONCE + ["busy"]
    for minion, now, state in (("web2", 5.0, "ok"), ("web1", 5.0 + EVENT_EVERY_S * 0.4, "busy"), ("web1", 5.2, "ok")):
        lane.event(1, minion, {**event_message("a", {}, ""), "n": 1000}, now)
        for ask in lane.due():
            lane.answered(1, {"n": ask.message["n"], "state": "ok"})
        assert [message["state"] for _session, message in lane.to_send()] == [state]


class MasterAnswers:
    """In place of the requests to the master: it gives these answers."""

    def __init__(self, *states: str | None) -> None:
        self.states = list(states)
        self.sent: list[Message] = []

    def event(self, message: Message, patience_s: float) -> Message | None:
        self.sent.append(message)
        state = self.states.pop(0)
        return None if state is None else {"state": state, "names": ["because"]}


def test_an_event_that_was_not_acknowledged_is_an_error_of_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("saltlite.minion.jobs.rpc_client.BUSY_S", 0.0)
    again = MasterAnswers("busy", "ok")
    RpcEventSender(again, JID).send("a", {"when": {1, 2}}, 5.0)
    assert [message["jid"] for message in again.sent] == [JID, JID]
    with pytest.raises(SaltInvocationError, match="because"):
        RpcEventSender(MasterAnswers("refused")).send("a", {}, 5.0)
    with pytest.raises(CommandExecutionError, match="not acknowledged"):
        RpcEventSender(MasterAnswers(None)).send("a", {}, 5.0)
    with pytest.raises(CommandExecutionError, match="no more events"):
        RpcEventSender(MasterAnswers("busy")).send("a", {}, -1.0)


@pytest.mark.parametrize(
    ("tag", "data"), [("t" * (EVENT_TAG_MAX + 1), {}), ("", {}), ("a\nb", {}), ("a", {"x": "x" * EVENT_DATA_MAX})]
)
def test_what_is_over_a_limit_never_leaves_the_minion(tag: str, data: dict[str, Any]) -> None:
    with pytest.raises(SaltInvocationError):
        event_message(tag, data, "")


# -- people


@pytest.mark.parametrize(
    "tag", ["salt/x", "/salt/x", "minion/web1/a", "Resource/x", "salt", "", "/", "x" * (TAG_MAX + 1)]
)
def test_tags_of_the_master_are_not_for_people(tag: str) -> None:
    with pytest.raises(UsageError):
        parse_free_tag(tag)


def test_who_may_send_events_is_granted_by_the_name_of_the_runner() -> None:
    grants = read_rules({"amy": [{"@runner": ["event.send"]}], "bob": ["@jobs", "test.*"]}, "publisher_acl")
    rig = MasterRig(granted=Granted(publisher=grants))
    request = {"v": 1, "verb": "event_send", "tag": "app/x", "data": {"_user": "root", "n": 1}}
    handle_request(rig.master, Principal("amy", 1001), request)
    with pytest.raises(RefusedError, match=r"@runner event\.send"):
        handle_request(rig.master, Principal("bob", 1002), request)
    assert written(rig) == [("app/x", {"_user": "amy", "n": 1})]
    assert [event.at for event in rig.store.events()] == [NOW]


# -- filters


@pytest.mark.parametrize(
    ("wanted", "does"),
    [
        ({"data.ref": "refs/heads/*"}, True),
        ({"data.ref": "refs/heads/*", "data.forced": "false"}, True),
        ({"data.ref": "main"}, False),
        ({"data.commits.1.id": "b?"}, True),
        ({"data.commits.2.id": "*"}, False),
        ({"data.commits": "*"}, False),
        ({"data.missing": "*"}, False),
        ({"data.a.b": "dotted"}, True),
        ({"n": "1"}, True),
        ({"nothing": "null"}, True),
        ({}, True),
    ],
)
def test_fields_are_found_by_dots_and_matched_by_globs(wanted: dict[str, str], does: bool) -> None:
    commits = [{"id": "a1"}, {"id": "b2"}]
    data = {"ref": "refs/heads/main", "forced": False, "commits": commits, "a.b": "dotted"}
    assert matches({"data": data, "n": 1, "nothing": None}, wanted) is does
