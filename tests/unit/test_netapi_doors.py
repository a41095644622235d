"""Who is counted among the connections of the API, and as whom."""

from __future__ import annotations

import pytest

from saltlite.netapi.doors import Doors, neighbourhood


@pytest.mark.parametrize(
    ("address", "known_as"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::"),
        ("2001:db8::ffff:1", "2001:db8::"),
        ("2001:db8:0:0:1:2:3:4", "2001:db8::"),
        ("2001:db8:0:1::1", "2001:db8:0:1::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("::1", "::"),
        ("", ""),
    ],
)
def test_of_ipv6_a_network_is_known_however_its_addresses_are_written(address: str, known_as: str) -> None:
    assert neighbourhood(address) == known_as


def test_there_is_room_for_so_many_and_for_so_many_of_one() -> None:
    doors = Doors(3, 2)
    assert [doors.enter(number, "192.0.2.1") for number in range(3)] == [True, True, False]
    assert [doors.enter(10 + number, "192.0.2.2") for number in range(2)] == [True, False]


def test_who_leaves_twice_makes_room_once() -> None:
    doors = Doors(2, 2)
    for number in range(2):
        doors.enter(number, "192.0.2.1")
    for _ in range(2):
        doors.leave(0)
    assert (len(doors), doors.enter(2, "192.0.2.1"), doors.enter(3, "192.0.2.1")) == (1, True, False)
