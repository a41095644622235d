"""Who is counted among the connections of the API, and as whom."""

from __future__ import annotations

from saltlite.api.connection_limiter import ConnectionLimiter


def test_there_is_room_for_so_many_and_for_so_many_of_one() -> None:
    doors = ConnectionLimiter(3, 2)
    assert [doors.enter(number, "192.0.2.1") for number in range(3)] == [True, True, False]
    assert [doors.enter(10 + number, "192.0.2.2") for number in range(2)] == [True, False]


def test_who_leaves_twice_makes_room_once() -> None:
    doors = ConnectionLimiter(2, 2)
    for number in range(2):
        doors.enter(number, "192.0.2.1")
    for _ in range(2):
        doors.leave(0)
    assert (len(doors), doors.enter(2, "192.0.2.1"), doors.enter(3, "192.0.2.1")) == (1, True, False)
