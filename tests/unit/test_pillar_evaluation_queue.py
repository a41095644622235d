"""Whose pillar is evaluated next."""

from __future__ import annotations

import pytest

from saltlite.pillar import evaluation
from saltlite.pillar.evaluation import (
    PAUSE_MAX_S,
    PAUSE_MIN_S,
    WAIT_S,
    WAITING_BYTES,
    WAITING_MAX,
    WAITING_PER_ASKER,
    EvaluationQueue,
    QueuedEvaluation,
)
from saltlite.wire.limits import FILE_ASKS_AT_ONCE


def place(asker: str, ticket: int = 0, *, about: str = "", size: int = 1, at: float = 0.0) -> QueuedEvaluation[int]:
    return QueuedEvaluation(asker, about or asker, size, at, ticket)


def queue(*places: QueuedEvaluation[int]) -> EvaluationQueue[int]:
    made: EvaluationQueue[int] = EvaluationQueue()
    for one in places:
        assert made.offer(one) == ""
    return made


def taken(from_queue: EvaluationQueue[int]) -> list[int]:
    found = []
    while (one := from_queue.take()) is not None:
        found.append(one.ticket)
    return found


def test_each_asker_has_one_under_way_and_its_next_comes_behind_the_others() -> None:
    first = place("a", 1)
    made = queue(first, place("a", 2), place("b", 3), place("a", 4), place("c", 5))
    assert taken(made) == [1, 3, 5]
    made.ended(first)
    assert taken(made) == [2]


def test_who_took_too_much_waits_longer_each_time_and_nobody_else_does() -> None:
    made: EvaluationQueue[int] = EvaluationQueue()
    now, pauses = 0.0, []
    for _ in range(8):
        assert made.offer(place("a", at=now)) == ""
        one = made.take()
        assert one is not None
        pauses.append(made.killed(one, now))
        assert "it is tried again in" in made.offer(place("a", at=now + pauses[-1] - 0.5))
        assert made.offer(place("a", about="other", at=now)) == ""
        other = made.take()
        assert other is not None
        made.ended(other)
        now += pauses[-1]
    assert pauses[:3] == [PAUSE_MIN_S, 2 * PAUSE_MIN_S, 4 * PAUSE_MIN_S]
    assert pauses[-1] == PAUSE_MAX_S
    assert made.offer(place("a", at=now)) == ""
    last = made.take()
    assert last is not None
    made.ended(last)
    assert made.offer(place("a", at=now)) == ""
    again = made.take()
    assert again is not None
    assert made.killed(again, now) == PAUSE_MIN_S, "one that ended in time is forgiven"


def test_the_queue_is_bounded_for_one_asker_for_all_and_in_bytes() -> None:
    made = queue(*(place("a", number) for number in range(WAITING_PER_ASKER)))
    assert "too many" in made.offer(place("a"))
    for number in range(WAITING_MAX - WAITING_PER_ASKER):
        assert made.offer(place(f"m{number}")) == ""
    assert "too many" in made.offer(place("z"))
    heavy = queue(place("a", size=WAITING_BYTES))
    assert "too many" in heavy.offer(place("b"))
    assert taken(heavy) == [0]
    assert heavy.offer(place("b")) == ""


def test_questions_that_wait_leave_places_for_files() -> None:
    assert WAITING_MAX <= FILE_ASKS_AT_ONCE - 64


def test_what_waits_too_long_waits_no_more() -> None:
    made = queue(place("a", 1, at=0.0), place("b", 2, at=1.0))
    assert made.overdue(WAIT_S - 0.1) == []
    assert [one.ticket for one in made.overdue(WAIT_S)] == [1]
    assert taken(made) == [2]


def test_so_many_pauses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "PAUSES_MAX", 2)
    made: EvaluationQueue[int] = EvaluationQueue()
    for name in ("a", "b", "c"):
        assert made.offer(place(name)) == ""
        one = made.take()
        assert one is not None
        made.killed(one, 0.0)
    assert made.offer(place("a")) == ""
    assert made.offer(place("c")) != ""


def test_those_who_took_too_much_have_one_place_together() -> None:
    made: EvaluationQueue[int] = EvaluationQueue()
    for name in ("a", "b"):
        assert made.offer(place(name)) == ""
        one = made.take()
        assert one is not None
        made.killed(one, 0.0)
    for number, name in enumerate(("a", "b", "c")):
        assert made.offer(place(name, number, at=PAUSE_MIN_S)) == ""
    assert taken(made) == [0, 2]
    made.ended(place("a", 0))
    assert taken(made) == [1]
