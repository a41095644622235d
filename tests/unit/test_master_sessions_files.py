"""Questions about files on their way through the manager: whose they are, and what they never keep waiting."""

from __future__ import annotations

from saltlite.master.protocol.effects import CloseConnection, Send
from saltlite.wire.limits import CHUNK, FILE_ASKS_MAX
from saltlite.wire.messages import response_message
from tests.support.memory_fleet import MESSAGES, Peer, SessionRig, delivery, of


def ask(peer: Peer, n: int) -> None:
    peer.say({"t": "file_request", **MESSAGES["file_request"], "n": n})


def test_a_question_goes_to_an_mworker_under_the_id_of_its_session_and_the_answer_comes_back() -> None:
    rig = SessionRig()
    peer, other = rig.join("web1"), rig.join("web2")
    rig.take()
    ask(peer, 7)
    (due,) = rig.manager.files.due()
    assert (due.id, due.message["n"]) == ("web1", 7)
    rig.manager.files.answered(due.session, response_message(7, "ok", data=b"x"))
    rig.manager.send_files()
    assert [message["data"] for message in peer.heard()] == [b"x"]
    assert other.alive


def test_who_asks_too_much_loses_the_session() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    for n in range(FILE_ASKS_MAX + 1):
        ask(peer, n)
    assert rig.refused() == {"too-many-asks": 1}
    assert len(of(CloseConnection, rig.take())) == 1
    assert list(rig.manager.files.due()) == []


def test_jobs_acknowledgements_and_beats_leave_before_answers_about_files() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    for n in range(FILE_ASKS_MAX):
        ask(peer, n)
    for due in rig.manager.files.due():
        rig.manager.files.answered(due.session, response_message(due.message["n"], "ok", data=b"d" * CHUNK))
    peer.say({"t": "heartbeat", "running": [], "spool": 0})
    rig.manager.tick()
    rig.manager.deliver("web1", [delivery(1, rig)])
    rig.manager.send_files()
    assert [message["t"] for message in peer.heard()] == ["heartbeat_ack", "job", *["response"] * FILE_ASKS_MAX]


def test_a_link_that_is_full_holds_back_files_only_and_they_leave_when_it_has_room() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    rig.take()
    ask(peer, 1)
    (due,) = rig.manager.files.due()
    rig.manager.files.answered(due.session, response_message(1, "ok", data=b"x"))
    rig.manager.send_files()
    (send,) = of(Send, rig.take())
    rig.manager.unsent(send, gone=False)
    rig.manager.send_files()
    assert of(Send, rig.take()) == []
    assert peer.alive
    rig.wait(0.05)
    rig.manager.send_files()
    assert [message["data"] for message in peer.heard()] == [b"x"]


def test_an_answer_to_a_session_that_is_gone_is_nobody_s() -> None:
    rig = SessionRig()
    peer = rig.join("web1")
    ask(peer, 1)
    (due,) = rig.manager.files.due()
    peer.say({"t": "bye", "reason": ""})
    rig.take()
    rig.manager.files.answered(due.session, response_message(1, "ok"))
    rig.manager.send_files()
    assert of(Send, rig.take()) == []
