"""How many questions about files are under way, who has a turn, and in which order answers leave."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.errors import RemoteProtocolError
from saltlite.master.protocol.request_queue import ANSWERS_A_TURN, RequestQueue
from saltlite.wire.limits import CHUNK, FILE_ASKS_AT_ONCE, FILE_ASKS_MAX, FILE_PUT_MEMORY
from saltlite.wire.messages import Message, Sender, check, response_message


def read(n: int) -> Message:
    return {
        "t": "file_request",
        "n": n,
        "operation": "read",
        "env": "base",
        "path": "a",
        "after": "",
        "offset": 0,
        "nonce": b"",
    }


def piece(n: int) -> Message:
    data = b"d" * CHUNK
    return {"t": "file_put", "n": n, "path": "a", "size": CHUNK, "sha256": b"h" * 32, "offset": 0, "data": data}


def left(lane: RequestQueue) -> list[tuple[int, int, str]]:
    """(session, number, state) of what leaves in one turn."""
    return [(session, message["n"], message["state"]) for session, message in lane.leaving()]


def test_a_session_may_have_so_many_questions_open_and_one_more_is_refused() -> None:
    lane = RequestQueue()
    for n in range(FILE_ASKS_MAX):
        lane.ask(1, "web1", read(n))
    with pytest.raises(RemoteProtocolError, match="too-many-asks"):
        lane.ask(1, "web1", read(99))
    assert [ask.message["n"] for ask in lane.due()] == list(range(FILE_ASKS_MAX))
    lane.answered(1, response_message(0, "ok"))
    with pytest.raises(RemoteProtocolError, match="too-many-asks"):
        lane.ask(1, "web1", read(99))
    assert left(lane) == [(1, 0, "ok")]
    lane.ask(1, "web1", read(99))


@pytest.mark.parametrize("step", ["waiting", "asked", "answered"])
def test_a_number_that_is_open_cannot_be_used_again(step: str) -> None:
    lane = RequestQueue()
    lane.ask(1, "web1", read(5))
    if step != "waiting":
        list(lane.due())
    if step == "answered":
        lane.answered(1, response_message(5, "ok"))
    with pytest.raises(RemoteProtocolError, match="too-many-asks"):
        lane.ask(1, "web1", read(5))


def test_mworkers_are_given_so_many_at_once_and_sessions_take_turns() -> None:
    lane = RequestQueue()
    for session in range(FILE_ASKS_AT_ONCE):
        lane.ask(session, "web", read(1))
        lane.ask(session, "web", read(2))
    given = list(lane.due())
    assert [(ask.session, ask.message["n"]) for ask in given] == [(each, 1) for each in range(FILE_ASKS_AT_ONCE)]
    lane.answered(7, response_message(1, "ok"))
    assert [(ask.session, ask.message["n"]) for ask in lane.due()] == [(0, 2)]


def test_a_session_that_ends_makes_room_for_the_others() -> None:
    lane = RequestQueue()
    for session in range(FILE_ASKS_AT_ONCE):
        lane.ask(session, "web", read(1))
    assert len(list(lane.due())) == FILE_ASKS_AT_ONCE
    lane.ask(1000, "late", read(1))
    assert list(lane.due()) == []
    lane.forget(3)
    assert [ask.id for ask in lane.due()] == ["late"]
    lane.answered(3, response_message(1, "ok"))
    assert left(lane) == []


def test_answers_leave_a_few_a_turn_one_a_session() -> None:
    lane = RequestQueue()
    for session in range(ANSWERS_A_TURN):
        for n in (1, 2):
            lane.ask(session, "web", read(n))
    for ask in lane.due():
        lane.answered(ask.session, response_message(ask.message["n"], "ok"))
    assert left(lane) == [(session, 1, "ok") for session in range(ANSWERS_A_TURN)]
    assert lane.laden
    assert left(lane) == [(session, 2, "ok") for session in range(ANSWERS_A_TURN)]
    assert not lane.laden


def test_an_answer_that_the_link_could_not_take_stays_in_front_until_time_has_passed() -> None:
    lane = RequestQueue()
    for n in (1, 2):
        lane.ask(1, "web1", read(n))
    for ask in lane.due():
        lane.answered(1, response_message(ask.message["n"], "ok"))
    ((session, message),) = list(lane.leaving())[:1]
    lane.unsent(session, message)
    assert left(lane) == []
    lane.retry()
    assert left(lane) == [(1, 1, "ok")]


def test_pieces_beyond_the_memory_for_them_are_refused_as_busy() -> None:
    lane = RequestQueue()
    sessions = FILE_PUT_MEMORY // CHUNK
    for session in range(sessions + 1):
        lane.ask(session, "web", piece(1))
    assert left(lane) == [(sessions, 1, "busy")]
    lane.forget(0)
    lane.ask(sessions, "web", piece(2))
    assert left(lane) == []


def test_a_late_answer_of_a_number_that_nobody_asked_is_dropped() -> None:
    lane = RequestQueue()
    lane.ask(1, "web1", read(1))
    list(lane.due())
    lane.answered(1, response_message(2, "ok"))
    assert left(lane) == []


@pytest.mark.parametrize("fields", [{}, {"size": 3, "data": b"abc"}, {"names": ["a"], "more": True}])
def test_every_answer_is_a_message_of_the_table(fields: dict[str, Any]) -> None:
    check(response_message(1, "ok", **fields), Sender.MASTER, accepted=True)
