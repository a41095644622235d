"""How many questions about files are under way, who has a turn, and in which order answers leave."""

from __future__ import annotations

from typing import Any

import pytest

from saltlite.errors import RemoteProtocolError
from saltlite.master.protocol.sessions import RESPONSES_PER_TURN, RequestQueue
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


def left(queue: RequestQueue) -> list[tuple[int, int, str]]:
    """(session, number, state) of what leaves in one turn."""
    return [(session, message["n"], message["state"]) for session, message in queue.to_send()]


def test_a_session_may_have_so_many_questions_open_and_one_more_is_refused() -> None:
    queue = RequestQueue()
    for n in range(FILE_ASKS_MAX):
        queue.put(1, "web1", read(n))
    with pytest.raises(RemoteProtocolError, match="too-many-asks"):
        queue.put(1, "web1", read(99))
    assert [ask.message["n"] for ask in queue.due()] == list(range(FILE_ASKS_MAX))
    queue.answered(1, response_message(0, "ok"))
    with pytest.raises(RemoteProtocolError, match="too-many-asks"):
        queue.put(1, "web1", read(99))
    assert left(queue) == [(1, 0, "ok")]
    queue.put(1, "web1", read(99))


@pytest.mark.parametrize("step", ["waiting", "asked", "answered"])
def test_a_number_that_is_open_cannot_be_used_again(step: str) -> None:
    queue = RequestQueue()
    queue.put(1, "web1", read(5))
    if step != "waiting":
        list(queue.due())
    if step == "answered":
        queue.answered(1, response_message(5, "ok"))
    with pytest.raises(RemoteProtocolError, match="too-many-asks"):
        queue.put(1, "web1", read(5))


def test_mworkers_are_given_so_many_at_once_and_sessions_take_turns() -> None:
    queue = RequestQueue()
    for session in range(FILE_ASKS_AT_ONCE):
        queue.put(session, "web", read(1))
        queue.put(session, "web", read(2))
    given = list(queue.due())
    assert [(ask.session, ask.message["n"]) for ask in given] == [(each, 1) for each in range(FILE_ASKS_AT_ONCE)]
    queue.answered(7, response_message(1, "ok"))
    assert [(ask.session, ask.message["n"]) for ask in queue.due()] == [(0, 2)]


def test_a_session_that_ends_makes_room_for_the_others() -> None:
    queue = RequestQueue()
    for session in range(FILE_ASKS_AT_ONCE):
        queue.put(session, "web", read(1))
    assert len(list(queue.due())) == FILE_ASKS_AT_ONCE
    queue.put(1000, "late", read(1))
    assert list(queue.due()) == []
    queue.forget(3)
    assert [ask.id for ask in queue.due()] == ["late"]
    queue.answered(3, response_message(1, "ok"))
    assert left(queue) == []


def test_answers_leave_a_few_a_turn_one_a_session() -> None:
    queue = RequestQueue()
    for session in range(RESPONSES_PER_TURN):
        for n in (1, 2):
            queue.put(session, "web", read(n))
    for ask in queue.due():
        queue.answered(ask.session, response_message(ask.message["n"], "ok"))
    assert left(queue) == [(session, 1, "ok") for session in range(RESPONSES_PER_TURN)]
    assert queue.has_responses
    assert left(queue) == [(session, 2, "ok") for session in range(RESPONSES_PER_TURN)]
    assert not queue.has_responses


def test_an_answer_that_the_link_could_not_take_stays_in_front_until_time_has_passed() -> None:
    queue = RequestQueue()
    for n in (1, 2):
        queue.put(1, "web1", read(n))
    for ask in queue.due():
        queue.answered(1, response_message(ask.message["n"], "ok"))
    ((session, message),) = list(queue.to_send())[:1]
    queue.unsent(session, message)
    assert left(queue) == []
    queue.retry()
    assert left(queue) == [(1, 1, "ok")]


def test_pieces_beyond_the_memory_for_them_are_refused_as_busy() -> None:
    queue = RequestQueue()
    sessions = FILE_PUT_MEMORY // CHUNK
    for session in range(sessions + 1):
        queue.put(session, "web", piece(1))
    assert left(queue) == [(sessions, 1, "busy")]
    queue.forget(0)
    queue.put(sessions, "web", piece(2))
    assert left(queue) == []


def test_a_late_answer_of_a_number_that_nobody_asked_is_dropped() -> None:
    queue = RequestQueue()
    queue.put(1, "web1", read(1))
    list(queue.due())
    queue.answered(1, response_message(2, "ok"))
    assert left(queue) == []


@pytest.mark.parametrize("fields", [{}, {"size": 3, "data": b"abc"}, {"names": ["a"], "more": True}])
def test_every_answer_is_a_message_of_the_table(fields: dict[str, Any]) -> None:
    check(response_message(1, "ok", **fields), Sender.MASTER, accepted=True)
