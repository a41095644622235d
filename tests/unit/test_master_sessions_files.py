"""Questions about files on their way through the manager: whose they are, and what they never keep waiting."""

from __future__ import annotations

from saltlite.master.protocol.effects import CloseConnection, Send
from saltlite.wire.limits import CHUNK, FILE_ASKS_MAX
from saltlite.wire.messages import response_message
from tests.support.memory_fleet import MESSAGES, Guest, Table, delivery, of


def ask(guest: Guest, n: int) -> None:
    guest.say({"t": "file_request", **MESSAGES["file_request"], "n": n})


def test_a_question_goes_to_an_mworker_under_the_id_of_its_session_and_the_answer_comes_back() -> None:
    table = Table()
    guest, other = table.join("web1"), table.join("web2")
    table.take()
    ask(guest, 7)
    (due,) = table.manager.files.due()
    assert (due.id, due.message["n"]) == ("web1", 7)
    table.manager.files.answered(due.session, response_message(7, "ok", data=b"x"))
    table.manager.send_files()
    assert [message["data"] for message in guest.heard()] == [b"x"]
    assert other.alive


def test_who_asks_too_much_loses_the_session() -> None:
    table = Table()
    guest = table.join("web1")
    for n in range(FILE_ASKS_MAX + 1):
        ask(guest, n)
    assert table.refused() == {"too-many-asks": 1}
    assert len(of(CloseConnection, table.take())) == 1
    assert list(table.manager.files.due()) == []


def test_jobs_acknowledgements_and_beats_leave_before_answers_about_files() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    for n in range(FILE_ASKS_MAX):
        ask(guest, n)
    for due in table.manager.files.due():
        table.manager.files.answered(due.session, response_message(due.message["n"], "ok", data=b"d" * CHUNK))
    guest.say({"t": "heartbeat", "running": [], "spool": 0})
    table.manager.tick()
    table.manager.deliver("web1", [delivery(1, table)])
    table.manager.send_files()
    assert [message["t"] for message in guest.heard()] == ["heartbeat_ack", "job", *["response"] * FILE_ASKS_MAX]


def test_a_link_that_is_full_holds_back_files_only_and_they_leave_when_it_has_room() -> None:
    table = Table()
    guest = table.join("web1")
    table.take()
    ask(guest, 1)
    (due,) = table.manager.files.due()
    table.manager.files.answered(due.session, response_message(1, "ok", data=b"x"))
    table.manager.send_files()
    (send,) = of(Send, table.take())
    table.manager.unsent(send, gone=False)
    table.manager.send_files()
    assert of(Send, table.take()) == []
    assert guest.alive
    table.wait(0.05)
    table.manager.send_files()
    assert [message["data"] for message in guest.heard()] == [b"x"]


def test_an_answer_to_a_session_that_is_gone_is_nobody_s() -> None:
    table = Table()
    guest = table.join("web1")
    ask(guest, 1)
    (due,) = table.manager.files.due()
    guest.say({"t": "bye", "reason": ""})
    table.take()
    table.manager.files.answered(due.session, response_message(1, "ok"))
    table.manager.send_files()
    assert of(Send, table.take()) == []
