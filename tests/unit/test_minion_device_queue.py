"""Whose turn it is among devices: one call each, parts in turns, and what becomes of a device that hangs."""

from __future__ import annotations

import math

from saltlite.minion.resources.device_queue import (
    DOUBT_S,
    HANGS,
    HUNG_MOST,
    MANY_HANG,
    AbandonedCall,
    DeviceCall,
    DeviceQueue,
)


def taken(devices: DeviceQueue, now: float = 0.0) -> list[DeviceCall]:
    """All calls that may begin now."""
    found = []
    while (turn := devices.take(now)) is not None:
        found.append(turn)
    return found


def named(turns: list[DeviceCall]) -> list[tuple[str, str]]:
    return [(turn.part, turn.device) for turn in turns]


def test_as_many_calls_run_as_there_are_places() -> None:
    devices = DeviceQueue(2, 10)
    devices.add("a", ["x", "y", "z"])
    first = taken(devices)
    assert named(first) == [("a", "x"), ("a", "y")]
    assert devices.ended(first[0], 0.0)
    assert named(taken(devices)) == [("a", "z")]


def test_a_device_has_one_call_at_a_time_and_the_next_when_that_has_ended() -> None:
    devices = DeviceQueue(5, 10)
    for part in ("a", "b", "c"):
        devices.add(part, ["x"])
    (first,) = taken(devices)
    devices.ended(first, 0.0)
    (second,) = taken(devices)
    devices.ended(second, 0.0)
    assert named([first, second, *taken(devices)]) == [("a", "x"), ("b", "x"), ("c", "x")]


def test_a_part_for_one_device_does_not_wait_for_one_that_is_for_many() -> None:
    devices = DeviceQueue(1, 10)
    devices.add("many", [f"x{number}" for number in range(1000)])
    (running,) = taken(devices)
    devices.add("one", ["y"])
    order = []
    for _ in range(2):
        devices.ended(running, 0.0)
        (running,) = taken(devices)
        order.append(running.part)
    assert "one" in order


def test_calls_of_a_part_that_come_later_are_queued_behind_its_first() -> None:
    devices = DeviceQueue(1, 10)
    devices.add("a", ["x", "y"])
    devices.add("a", ["z"])
    order = []
    while turns := taken(devices):
        order += named(turns)
        devices.ended(turns[0], 0.0)
    assert order == [("a", "x"), ("a", "y"), ("a", "z")]


def test_a_call_that_takes_too_long_is_given_up_and_its_place_is_free_but_not_its_device() -> None:
    devices = DeviceQueue(1, 10)
    devices.add("a", ["x", "y"])
    (hanging,) = taken(devices, now=5)
    assert devices.overdue(14.9) == []
    assert devices.overdue(15) == [AbandonedCall("a", "x", began=5, limit_s=10)]
    assert named(taken(devices, 15)) == [("a", "y")]
    assert devices.add("b", ["x"]) == [AbandonedCall("b", "x", why=HANGS)]
    assert not devices.ended(hanging, 0.0)


def test_a_device_is_asked_again_when_the_call_that_hung_has_ended() -> None:
    devices = DeviceQueue(1, 10)
    devices.add("a", ["x"])
    (hanging,) = taken(devices)
    devices.overdue(10)
    devices.ended(hanging, 0.0)
    assert devices.add("b", ["x"]) == []
    assert named(taken(devices, 11)) == [("b", "x")]


def test_what_waits_behind_a_call_that_hangs_is_told_so_with_it() -> None:
    devices = DeviceQueue(2, 10)
    devices.add("a", ["x"])
    devices.add("b", ["x"])
    taken(devices)
    assert devices.overdue(10) == [AbandonedCall("a", "x", began=0, limit_s=10), AbandonedCall("b", "x", why=HANGS)]
    assert devices.idle


def test_without_a_time_limit_nothing_is_given_up() -> None:
    devices = DeviceQueue(1, 0)
    devices.add("a", ["x"])
    taken(devices)
    assert (devices.overdue(1e9), devices.deadline()) == ([], math.inf)


def test_the_deadline_is_that_of_the_call_that_began_first() -> None:
    devices = DeviceQueue(3, 10)
    devices.add("a", ["x", "y"])
    first = devices.take(1)
    devices.take(2)
    assert devices.deadline() == 11
    assert first is not None
    devices.ended(first, 0.0)
    assert devices.deadline() == 12


def test_a_cancelled_part_begins_nothing_more_and_the_answer_of_its_running_call_is_nobodys() -> None:
    devices = DeviceQueue(1, 10)
    devices.add("a", ["x", "y"])
    devices.add("b", ["z"])
    (running,) = taken(devices)
    devices.cancel("a")
    assert named(taken(devices)) == [("b", "z")]
    assert not devices.ended(running, 0.0)


def test_a_cancelled_part_leaves_its_place_behind_a_busy_device() -> None:
    devices = DeviceQueue(2, 10)
    for part in ("a", "b", "c"):
        devices.add(part, ["x"])
    (running,) = taken(devices)
    devices.cancel("b")
    devices.ended(running, 0.0)
    assert named(taken(devices)) == [("c", "x")]


def test_when_too_many_hang_nothing_waits_and_nothing_more_is_begun() -> None:
    devices = DeviceQueue(HUNG_MOST, 10)
    devices.add("a", [f"x{number}" for number in range(HUNG_MOST + 1)])
    hanging = taken(devices)
    given_up = devices.overdue(10)
    assert given_up[-1] == AbandonedCall("a", f"x{HUNG_MOST}", why=MANY_HANG)
    assert devices.add("b", ["y"]) == [AbandonedCall("b", "y", why=MANY_HANG)]
    devices.ended(hanging[0], 0.0)
    assert devices.add("c", ["z"]) == []


def test_it_is_idle_when_nothing_runs_or_waits_also_while_a_call_hangs() -> None:
    devices = DeviceQueue(1, 10)
    seen = [devices.idle]
    devices.add("a", ["x"])
    seen.append(devices.idle)
    taken(devices)
    seen.append(devices.idle)
    devices.overdue(10)
    assert [*seen, devices.idle] == [True, False, False, True]


class Site:
    """Calls on a clock of its own: those of dead devices fail after `CALL_S`, the others answer at once."""

    CALL_S = 30.0

    def __init__(self, places: int) -> None:
        self.devices = DeviceQueue(places, 60)
        self.now = 0.0
        self.running: list[DeviceCall] = []
        self.answered: dict[str, float] = {}

    def until_idle(self, step_s: float = 1.0) -> None:
        while not self.devices.idle:
            self.step()
            self.now += step_s

    def step(self) -> None:
        for over in [turn for turn in self.running if self.now - turn.began >= self.CALL_S]:
            self.running.remove(over)
            self.devices.ended(over, self.now, failed=True)
        while (turn := self.devices.take(self.now)) is not None:
            if turn.device.startswith("dead"):
                self.running.append(turn)
            else:
                self.devices.ended(turn, self.now)
                self.answered[turn.device] = self.now


DEAD = [f"dead{number}" for number in range(100)]


def test_a_device_that_answers_does_not_wait_for_a_hundred_that_are_known_to_be_dead() -> None:
    site = Site(32)
    site.devices.add("first", DEAD)
    site.until_idle()
    site.devices.add("second", DEAD)
    site.step()
    site.devices.add("third", ["healthy"])
    asked_at = site.now
    site.until_idle()
    assert site.answered["healthy"] == asked_at
    assert len(site.running) == 0


def test_devices_that_are_known_to_be_dead_hold_half_of_the_places() -> None:
    site = Site(32)
    site.devices.add("first", DEAD)
    site.until_idle()
    site.devices.add("second", DEAD)
    site.step()
    assert (site.devices.running, site.devices.queued) == (16, False)


def test_with_one_place_a_doubtful_device_is_still_asked() -> None:
    site = Site(1)
    site.devices.add("first", DEAD[:1])
    site.until_idle()
    site.devices.add("second", DEAD[:1])
    site.step()
    assert site.devices.running == 1


def test_a_doubtful_device_does_not_wait_for_all_that_answer() -> None:
    devices = DeviceQueue(1, 10)
    devices.add("a", ["x"])
    (turn,) = taken(devices)
    devices.ended(turn, DOUBT_S, failed=True)
    devices.add("b", ["x", *(f"y{number}" for number in range(100))])
    order = []
    while (turn_now := devices.take(2)) is not None:
        order.append(turn_now.device)
        devices.ended(turn_now, 2)
    assert order.index("x") < 3


def test_a_device_that_answers_again_or_fails_at_once_is_not_doubtful() -> None:
    devices = DeviceQueue(4, 10)
    for part, took_s, failed in (("a", DOUBT_S, True), ("b", DOUBT_S, False), ("c", 0.0, True)):
        devices.add(part, ["w", "x", "y", "z"])
        for turn in [*taken(devices, 0.0), *taken(devices, 0.0)]:
            devices.ended(turn, took_s, failed=failed)
        for turn in taken(devices, 0.0):
            devices.ended(turn, took_s, failed=failed)
    devices.add("d", ["w", "x", "y", "z"])
    assert len(taken(devices)) == 4


def test_a_call_may_have_a_limit_of_its_own() -> None:
    devices = DeviceQueue(3, 10)
    devices.add("a", ["long", "short", "endless"])
    turns = {turn.device: turn for turn in taken(devices)}
    devices.limit(turns["long"], 600)
    devices.limit(turns["short"], 1)
    devices.limit(turns["endless"], 0)
    assert devices.overdue(20) == [AbandonedCall("a", "short", began=0, limit_s=1)]
    assert devices.deadline() == 600
    assert devices.overdue(1e9) == [AbandonedCall("a", "long", began=0, limit_s=600)]
