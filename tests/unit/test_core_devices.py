"""Whose turn it is among devices: one call each, parts in turns, and what becomes of a device that hangs."""

from __future__ import annotations

import math

from saltlite.core.devices import HANGS, HUNG_MOST, MANY_HANG, Devices, GivenUp, Turn


def taken(devices: Devices, now: float = 0.0) -> list[Turn]:
    """All calls that may begin now."""
    found = []
    while (turn := devices.take(now)) is not None:
        found.append(turn)
    return found


def named(turns: list[Turn]) -> list[tuple[str, str]]:
    return [(turn.part, turn.device) for turn in turns]


def test_as_many_calls_run_as_there_are_places() -> None:
    devices = Devices(2, 10)
    devices.add("a", ["x", "y", "z"])
    first = taken(devices)
    assert named(first) == [("a", "x"), ("a", "y")]
    assert devices.ended(first[0])
    assert named(taken(devices)) == [("a", "z")]


def test_a_device_has_one_call_at_a_time_and_the_next_when_that_has_ended() -> None:
    devices = Devices(5, 10)
    for part in ("a", "b", "c"):
        devices.add(part, ["x"])
    (first,) = taken(devices)
    devices.ended(first)
    (second,) = taken(devices)
    devices.ended(second)
    assert named([first, second, *taken(devices)]) == [("a", "x"), ("b", "x"), ("c", "x")]


def test_a_part_for_one_device_does_not_wait_for_one_that_is_for_many() -> None:
    devices = Devices(1, 10)
    devices.add("many", [f"x{number}" for number in range(1000)])
    (running,) = taken(devices)
    devices.add("one", ["y"])
    order = []
    for _ in range(2):
        devices.ended(running)
        (running,) = taken(devices)
        order.append(running.part)
    assert "one" in order


def test_a_call_that_takes_too_long_is_given_up_and_its_place_is_free_but_not_its_device() -> None:
    devices = Devices(1, 10)
    devices.add("a", ["x", "y"])
    (hanging,) = taken(devices, now=5)
    assert devices.overdue(14.9) == []
    assert devices.overdue(15) == [GivenUp("a", "x", began=5)]
    assert named(taken(devices, 15)) == [("a", "y")]
    assert devices.add("b", ["x"]) == [GivenUp("b", "x", why=HANGS)]
    assert not devices.ended(hanging)


def test_a_device_is_asked_again_when_the_call_that_hung_has_ended() -> None:
    devices = Devices(1, 10)
    devices.add("a", ["x"])
    (hanging,) = taken(devices)
    devices.overdue(10)
    devices.ended(hanging)
    assert devices.add("b", ["x"]) == []
    assert named(taken(devices, 11)) == [("b", "x")]


def test_what_waits_behind_a_call_that_hangs_is_told_so_with_it() -> None:
    devices = Devices(2, 10)
    devices.add("a", ["x"])
    devices.add("b", ["x"])
    taken(devices)
    assert devices.overdue(10) == [GivenUp("a", "x", began=0), GivenUp("b", "x", why=HANGS)]
    assert devices.idle


def test_without_a_time_limit_nothing_is_given_up() -> None:
    devices = Devices(1, 0)
    devices.add("a", ["x"])
    taken(devices)
    assert (devices.overdue(1e9), devices.deadline()) == ([], math.inf)


def test_the_deadline_is_that_of_the_call_that_began_first() -> None:
    devices = Devices(3, 10)
    devices.add("a", ["x", "y"])
    first = devices.take(1)
    devices.take(2)
    assert devices.deadline() == 11
    assert first is not None
    devices.ended(first)
    assert devices.deadline() == 12


def test_a_cancelled_part_begins_nothing_more_and_the_answer_of_its_running_call_is_nobodys() -> None:
    devices = Devices(1, 10)
    devices.add("a", ["x", "y"])
    devices.add("b", ["z"])
    (running,) = taken(devices)
    devices.cancel("a")
    assert named(taken(devices)) == [("b", "z")]
    assert not devices.ended(running)


def test_a_cancelled_part_leaves_its_place_behind_a_busy_device() -> None:
    devices = Devices(2, 10)
    for part in ("a", "b", "c"):
        devices.add(part, ["x"])
    (running,) = taken(devices)
    devices.cancel("b")
    devices.ended(running)
    assert named(taken(devices)) == [("c", "x")]


def test_when_too_many_hang_nothing_waits_and_nothing_more_is_begun() -> None:
    devices = Devices(HUNG_MOST, 10)
    devices.add("a", [f"x{number}" for number in range(HUNG_MOST + 1)])
    hanging = taken(devices)
    given_up = devices.overdue(10)
    assert given_up[-1] == GivenUp("a", f"x{HUNG_MOST}", why=MANY_HANG)
    assert devices.add("b", ["y"]) == [GivenUp("b", "y", why=MANY_HANG)]
    devices.ended(hanging[0])
    assert devices.add("c", ["z"]) == []


def test_it_is_idle_when_nothing_runs_or_waits_also_while_a_call_hangs() -> None:
    devices = Devices(1, 10)
    seen = [devices.idle]
    devices.add("a", ["x"])
    seen.append(devices.idle)
    taken(devices)
    seen.append(devices.idle)
    devices.overdue(10)
    assert [*seen, devices.idle] == [True, False, False, True]


def test_a_part_with_a_limit_of_its_own_is_given_up_before_the_others() -> None:
    devices = Devices(4, 10, lambda part: {"short": 2.0, "long": 60.0}.get(part, 0.0))
    for part in ("plain", "short", "long"):
        devices.add(part, [f"of {part}"])
    turns = taken(devices, now=1.0)
    assert devices.deadline() == 3.0
    assert devices.overdue(2.9) == []
    assert [one.part for one in devices.overdue(3.0)] == ["short"]
    assert devices.deadline() == 11.0
    assert {one.part for one in devices.overdue(11.0)} == {"plain", "long"}
    assert [devices.ended(turn) for turn in turns] == [False, False, False]


def test_a_limit_of_a_part_holds_where_there_is_no_other() -> None:
    devices = Devices(4, 0, lambda part: 2.0 if part == "short" else 0.0)
    devices.add("plain", ["x"])
    devices.add("short", ["y"])
    taken(devices, now=1.0)
    assert [one.part for one in devices.overdue(1e9)] == ["short"]
    assert devices.deadline() == math.inf
