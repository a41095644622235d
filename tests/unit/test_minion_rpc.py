"""Questions of processes and of the minion itself share what a session may have open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from saltlite.minion.jobs.rpc_server import RpcServer
from saltlite.minion.processes.ipc_messages import FORGED
from saltlite.wire.framing import IpcMessage, pack, unpack
from saltlite.wire.limits import FILE_ASKS_MAX
from saltlite.wire.messages import NONCE_BYTES, Message, response_message
from tests.support.keys import answer_check, signed_answer

READ = {
    "t": "file_request",
    "n": 7,
    "operation": "read",
    "env": "base",
    "path": "f",
    "after": "",
    "offset": 0,
    "nonce": b"",
}
GET: Message = {"t": "doc_get", "n": 0, "kind": "pillar", "sha256": b"", "offset": 0, "nonce": b""}


class Process:
    """Plays a job's process that hears everything at once."""

    def __init__(self) -> None:
        self.heard: list[IpcMessage] = []

    def framed(self, message: bytes) -> bytes:
        return message

    def put(self, data: bytes) -> bytes:
        self.heard.append(unpack(data))
        return b""


class Asker:
    def __init__(self) -> None:
        self.told: list[Message] = []
        self.alarms: list[int] = []
        self.refreshes: list[tuple[str, Callable[[IpcMessage], None]]] = []
        nobody: Any = None  # every write is taken at once, so the reactor is not asked for anything
        self.asks = RpcServer(
            nobody,
            lambda message: self.told.append(message["message"]),
            self._refresh,
            answer_check(alarm=self.alarms.append),
        )

    def _refresh(self, what: str, done: Callable[[IpcMessage], None]) -> None:
        self.refreshes.append((what, done))

    def said(self, question: Message, state: str, **fields: Any) -> None:
        """The master answers, and signs what is to be signed."""
        self.asks.on_response(signed_answer(question, response_message(question["n"], state, **fields)))

    def heard(self, process: Any, message: Message) -> None:
        self.asks.on_request(process, pack(dict(message)))


def test_the_minion_itself_and_its_jobs_have_one_limit() -> None:
    one, process, answers = Asker(), Process(), list[Message]()
    for _ in range(FILE_ASKS_MAX - 1):
        one.heard(process, READ)
    one.asks.ask(GET, answers.append)
    one.asks.ask(GET, answers.append)
    assert [message["t"] for message in one.told] == ["file_request"] * (FILE_ASKS_MAX - 1) + ["doc_get"]
    assert len({message["n"] for message in one.told}) == FILE_ASKS_MAX
    one.said(one.told[-1], "ok")
    assert [message["state"] for message in answers] == ["ok"]
    assert one.told[-1]["t"] == "doc_get"
    assert process.heard == []


def test_a_new_session_is_asked_what_processes_asked_and_not_what_the_minion_did() -> None:
    one, process, answers = Asker(), Process(), list[Message]()
    one.heard(process, READ)
    one.asks.ask(GET, answers.append)
    old = one.told.copy()
    one.told.clear()
    one.asks.connected()
    assert [message["t"] for message in one.told] == ["file_request"]
    one.said(old[1], "ok")
    assert answers == []


def test_whoever_waits_for_a_refresh_is_told_when_it_is_done() -> None:
    one, process = Asker(), Process()
    one.heard(process, {"t": "refresh", "n": 3, "what": "pillar"})
    assert (one.refreshes[0][0], process.heard) == ("pillar", [])
    one.refreshes[0][1]({"types": {}})
    assert process.heard == [{"t": "refreshed", "n": 3, "answer": {"types": {}}}]


def test_a_process_that_has_ended_is_told_nothing() -> None:
    one, process = Asker(), Process()
    gone: Any = process
    one.heard(process, {"t": "refresh", "n": 3, "what": "pillar"})
    one.asks.ended(gone)
    one.refreshes[0][1]({})
    assert process.heard == []


def test_an_event_of_a_process_beside_the_daemon_is_asked_again_in_the_next_session() -> None:
    one, answers = Asker(), list[Message]()
    event: Message = {"t": "event", "n": 0, "tag": "a", "data": b"\x80", "jid": ""}
    one.asks.ask(event, answers.append, again=True)
    one.asks.connected()
    assert [message["t"] for message in one.told] == ["event", "event"]
    one.said(one.told[-1], "ok")
    assert [message["state"] for message in answers] == ["ok"]


@pytest.mark.parametrize("act", ["envs", "files", "folders", "find"])
@pytest.mark.parametrize("state", ["ok", "absent", "refused"])
def test_an_answer_that_no_master_signed_reaches_no_process(
    act: str, state: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, process = Asker(), Process()
    one.heard(process, {**READ, "operation": act})
    (question,) = one.told
    assert len(question["nonce"]) == NONCE_BYTES
    one.asks.on_response(response_message(question["n"], state, size=3, sha256=b"h" * 32, names=["evil"]))
    assert process.heard == [response_message(7, FORGED)]
    assert one.alarms == [1]
    (line,) = caplog.messages
    assert "an answer about f was not signed by a master that this minion trusts" in line


def test_an_old_answer_is_not_believed_when_it_is_said_again() -> None:
    one, process = Asker(), Process()
    for _ in range(2):
        one.heard(process, {**READ, "operation": "find"})
    old = signed_answer(one.told[0], response_message(one.told[0]["n"], "ok", size=1))
    one.asks.on_response(old)
    one.asks.on_response({**old, "n": one.told[1]["n"]})
    assert [answer["state"] for answer in process.heard] == ["ok", FORGED]


def test_a_question_that_is_asked_again_in_another_session_has_another_nonce() -> None:
    one, process = Asker(), Process()
    one.heard(process, {**READ, "operation": "find"})
    one.asks.connected()
    first, second = one.told
    assert first["nonce"] != second["nonce"]
    one.asks.on_response({**signed_answer(first, response_message(0, "ok")), "n": second["n"]})
    assert [answer["state"] for answer in process.heard] == [FORGED]


def test_a_piece_needs_no_signature_for_it_is_compared_with_what_has_one() -> None:
    one, process = Asker(), Process()
    one.heard(process, READ)
    assert one.told[0]["nonce"] == b""
    one.asks.on_response(response_message(one.told[0]["n"], "ok", data=b"x"))
    assert [answer["state"] for answer in process.heard] == ["ok"]


def test_a_pillar_that_no_master_signed_does_not_reach_the_minion() -> None:
    one, answers = Asker(), list[Message]()
    one.asks.ask(GET, answers.append)
    one.asks.on_response(response_message(one.told[0]["n"], "ok", size=1, data=b"\x80"))
    assert [answer["state"] for answer in answers] == [FORGED]
