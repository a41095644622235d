"""The client against a scripted master on a real Unix socket."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from saltlite.client import connection, follower, local
from saltlite.client.follower import Progress, WaitPolicy
from saltlite.client.local import JobCall, LocalClient
from saltlite.errors import NoTargetError, RefusedError, RemoteProtocolError, UnreachableError, UsageError
from tests.integration.fakemaster import (
    DROP,
    JID,
    FakeMaster,
    Step,
    end,
    fixed,
    good_job,
    published,
    returned,
    state,
)

NOBODY = 65534


def test_cmd_gives_returns_by_minion_id(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, good_job) as master, LocalClient(master.socket_path) as client:
        assert client.cmd("*", "test.arg", [1, "a"], {"k": None}) == {"web2": {"a": 1}, "web1": True}
    request = master.requests[0]
    assert bytes.fromhex(request.pop("request_id")) != bytes(16)
    assert request == {
        "v": 1,
        "verb": "publish",
        "tgt": "*",
        "tgt_type": "glob",
        "calls": [["test.arg", [1, "a"], {"k": None}]],
        "follow": True,
    }


@pytest.mark.parametrize(
    ("signature", "arg", "call"),
    [
        ("f.f(*args,**kwargs)", ["a", "b=off", "c={d: 1}"], (["a"], {"b": "off", "c": {"d": 1}, "k": 2})),
        ("f.f(a,v:str,n:bool=False,k=1)", ["v=1.10", "n=off", 3], ([3], {"v": "1.10", "n": False, "k": 2})),
        ("f.f(a,k=1)", ["A=1 env", "k=9"], (["A=1 env"], {"k": 2})),
        (
            "f.f(a,**kwargs)",
            ["x=1\ny=2", "a==b", "=c", "1=2", "a b=c"],
            (["x=1\ny=2", "a==b", "=c", "1=2", "a b=c"], {"k": 2}),
        ),
        ("", ["b=1", {"__kwarg__": True, "c": "d=1"}, {"e": 1}], ([{"e": 1}], {"b": 1, "c": "d=1", "k": 2})),
    ],
)
def test_text_that_names_a_keyword_is_one(
    tmp_path: Path, signature: str, arg: list[Any], call: tuple[list[Any], dict[str, Any]]
) -> None:
    with FakeMaster(tmp_path, good_job) as master, LocalClient(master.socket_path) as client:
        master.functions = {"f.f": {"signatures": [signature] if signature else []}}
        client.cmd("*", "f.f", arg, {"k": 2})
        client.cmd_async("*", "f.f", arg, {"k": 2})
    assert [request["calls"] for request in master.requests] == [[["f.f", *call]]] * 2


def test_cmd_takes_a_list_of_ids(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, good_job) as master, LocalClient(master.socket_path) as client:
        client.cmd(["web1", "web2"], "test.ping", tgt_type="list")
    assert (master.requests[0]["tgt"], master.requests[0]["tgt_type"]) == ("web1,web2", "list")


def test_cmd_leaves_out_a_minion_that_stays_silent(tmp_path: Path) -> None:
    script = fixed(published("web1", "web2"), returned(1, "web1", 1), threading.Event())
    with FakeMaster(tmp_path, script) as master, LocalClient(master.socket_path) as client:
        assert client.cmd("*", "test.ping", timeout=1.0) == {"web1": 1}


def test_after_a_stream_was_given_up_the_next_answer_is_the_right_one(tmp_path: Path) -> None:
    script = fixed(published("web1"), returned(1, "web9", "late"))
    with FakeMaster(tmp_path, script) as master, LocalClient(master.socket_path) as client:
        assert client.cmd("*", "test.ping", timeout=0) == {}
        assert client.cmd_async("*", "test.ping") == JID


def test_one_connection_serves_several_requests(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, good_job) as master, LocalClient(master.socket_path) as client:
        jids = {client.cmd_async("*", "test.ping") for _ in range(3)}
    assert jids == {JID}
    assert len({request["request_id"] for request in master.requests}) == 3


def test_a_publish_whose_connection_ends_is_sent_once_more_under_the_same_request_id(tmp_path: Path) -> None:
    steps: list[list[Step]] = [[DROP], list(good_job({"follow": True}))]
    with (
        FakeMaster(tmp_path, lambda request: steps.pop(0)) as master,
        LocalClient(master.socket_path) as client,
    ):
        assert client.cmd("*", "test.ping") == {"web2": {"a": 1}, "web1": True}
    assert len(master.requests) == 2
    assert master.requests[0]["request_id"] == master.requests[1]["request_id"]


def test_a_publish_that_fails_twice_says_that_it_may_have_happened(tmp_path: Path) -> None:
    with (
        FakeMaster(tmp_path, fixed(DROP)) as master,
        LocalClient(master.socket_path) as client,
        pytest.raises(UnreachableError, match="published or not"),
    ):
        client.publish(JobCall("*", "test.ping"))
    assert len(master.requests) == 2


def test_other_verbs_are_not_sent_twice(tmp_path: Path) -> None:
    with (
        FakeMaster(tmp_path, fixed(DROP)) as master,
        LocalClient(master.socket_path) as client,
        pytest.raises(UnreachableError, match="before it answered"),
    ):
        client.call("job_kill", jid=JID)
    assert len(master.requests) == 1


def test_a_stream_that_breaks_is_taken_up_where_it_stood(tmp_path: Path) -> None:
    steps: list[list[Step]] = [
        [published("web1", "web2"), returned(7, "web1", 1), DROP],
        [DROP],
        [published("web1", "web2"), returned(8, "web2", 2), end(8)],
    ]
    with (
        FakeMaster(tmp_path, lambda request: steps.pop(0)) as master,
        LocalClient(master.socket_path) as client,
    ):
        assert client.cmd("*", "test.ping") == {"web1": 1, "web2": 2}
    assert [(request["verb"], request.get("after")) for request in master.requests] == [
        ("publish", None),
        ("follow", 7),
        ("follow", 7),
    ]


def test_a_master_that_does_not_come_back_is_told_with_the_jid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "RESUME_FOR_S", 0.3)
    steps: list[list[Step]] = [[published("web1"), state(1, "web1", "running"), DROP]]
    steps += [[DROP] for _ in range(20)]
    with (
        FakeMaster(tmp_path, lambda request: steps.pop(0)) as master,
        LocalClient(master.socket_path) as client,
        pytest.raises(UnreachableError, match=f"job {JID} was followed; the job goes on"),
    ):
        client.cmd("*", "test.ping")


@pytest.mark.parametrize(
    ("code", "kind"), [(2, UsageError), (3, NoTargetError), (6, RefusedError), (7, UnreachableError)]
)
def test_an_error_of_the_master_keeps_its_kind(tmp_path: Path, code: int, kind: type[Exception]) -> None:
    with (
        FakeMaster(tmp_path, fixed({"ok": False, "exit": code, "error": "because"})) as master,
        LocalClient(master.socket_path) as client,
        pytest.raises(kind, match=r"^because$"),
    ):
        client.call("key_list")


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([{"hello": 1}], "bad-answer"),
        ([{"ok": False, "exit": "x", "error": 1}], "bad-answer"),
        ([struct.pack(">I", 1) + b"\xc1"], "not-msgpack"),
        ([struct.pack(">I", 1) + b"\x01"], "not-a-map"),
        ([struct.pack(">I", connection.FRAME_MAX_BYTES + 1)], "oversize"),
    ],
)
def test_a_master_that_breaks_the_protocol_is_an_error(tmp_path: Path, steps: list[Step], reason: str) -> None:
    with (
        FakeMaster(tmp_path, fixed(*steps)) as master,
        LocalClient(master.socket_path) as client,
        pytest.raises(RemoteProtocolError) as caught,
    ):
        client.call("key_list")
    assert caught.value.reason == reason


def test_a_master_that_does_not_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "ANSWER_TIMEOUT_S", 0.1)
    with (
        FakeMaster(tmp_path, fixed(threading.Event())) as master,
        LocalClient(master.socket_path) as client,
        pytest.raises(UnreachableError, match=r"did not answer in 0\.1s"),
    ):
        client.call("key_list")


def test_a_master_that_accepts_no_connection_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "SEND_TIMEOUT_S", 1)
    path = str(tmp_path / "master.ipc")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(path)
        listener.listen(0)
        with LocalClient(path) as first, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as filler:
            filler.connect(path)
            with pytest.raises(UnreachableError, match="overloaded or stopped"):
                first.call("key_list")


def test_a_socket_that_nobody_serves_is_told_with_its_path(tmp_path: Path) -> None:
    path = str(tmp_path / "master.ipc")
    with (
        LocalClient(path) as client,
        pytest.raises(UnreachableError, match=f"{path}: is saltlite-master running"),
    ):
        client.call("key_list")


def test_a_socket_path_that_is_too_long_is_told(tmp_path: Path) -> None:
    with LocalClient("/" + "x" * 200) as client, pytest.raises(UnreachableError, match="too long"):
        client.call("key_list")


def test_a_socket_without_rights_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "master.ipc")
    was = os.geteuid()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, LocalClient(path) as client:
        listener.bind(path)
        listener.listen()
        os.chmod(path, 0)
        if was == 0:
            os.seteuid(NOBODY)  # root may use any socket
        try:
            with pytest.raises(RefusedError, match=f"you may not use {path}: run this as root"):
                client.call("key_list")
        finally:
            os.seteuid(was)


def test_an_argument_that_cannot_travel_is_a_usage_error(tmp_path: Path) -> None:
    with FakeMaster(tmp_path, good_job) as master, LocalClient(master.socket_path) as client:
        for value in (object(), 2**70, "\udcff"):
            with pytest.raises(UsageError, match="cannot be sent"):
                client.cmd("*", "test.arg", [value])
    assert master.requests == []


def test_a_large_return_in_small_pieces_arrives_whole(tmp_path: Path) -> None:
    value = "x" * 3_000_000
    with (
        FakeMaster(tmp_path, fixed(published("web1"), returned(1, "web1", value), end(1))) as master,
        LocalClient(master.socket_path) as client,
    ):
        assert client.cmd("*", "cmd.run") == {"web1": value}


def test_a_stream_that_another_request_cut_off_is_taken_up_where_it_stood(tmp_path: Path) -> None:
    steps: dict[str, list[Step]] = {
        "publish": [published("web1", "web2"), returned(1, "web1", 1)],
        "job_kill": [{"ok": True, "ids": [], "away": []}],
        "follow": [published("web1", "web2"), returned(2, "web2", 2), end(2)],
    }
    with (
        FakeMaster(tmp_path, lambda request: steps[request["verb"]]) as master,
        LocalClient(master.socket_path) as client,
    ):
        progress = Progress(client.publish(JobCall("*", "test.ping"), follow=True), now=time.monotonic())
        got = [next(client.watch(progress, WaitPolicy(5.0))).value]
        client.call("job_kill", jid=JID)
        got += [reply.value for reply in client.watch(progress, WaitPolicy(5.0))]
    assert got == [1, 2]
    assert master.requests[-1]["after"] == 1


def test_a_stream_is_silent_in_ticks(tmp_path: Path) -> None:
    with (
        FakeMaster(tmp_path, fixed(published("web1"), threading.Event())) as master,
        LocalClient(master.socket_path) as client,
    ):
        progress = Progress(client.publish(JobCall("*", "test.ping"), follow=True), now=time.monotonic())
        messages = list(client.messages(progress, WaitPolicy(0.3), tick_s=0.05))
    assert messages.count(None) > 1


def test_news_that_only_a_last_look_found_makes_it_worth_following_on(tmp_path: Path) -> None:
    steps: dict[str, list[Step]] = {
        "publish": [published("web1"), threading.Event()],
        "follow": [published("web1"), returned(2, "web1", "late"), end(2)],
    }
    with (
        FakeMaster(tmp_path, lambda request: steps[request["verb"]]) as master,
        LocalClient(master.socket_path) as client,
    ):
        master.unsaid = [state(1, "web1", "running")]
        assert client.cmd("*", "test.ping", timeout=0) == {"web1": "late"}
