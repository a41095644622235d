"""Whose request an MWorker carries out next, how much of it one user gets, and how many connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from saltlite.master.processes.local_clients import (
    BURST_S,
    LARGE_PER_USER,
    SHARE,
    UNREAD_MAX,
    UNREAD_S,
    USER_CONNECTIONS_MAX,
    ClientQueue,
    LocalClients,
    RequestScheduler,
)


class Hand:
    """A reactor whose clock and turns are the test's."""

    def __init__(self) -> None:
        self.clock = 100.0
        self.cpu = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        return self.clock

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any:
        timer = (self.clock + seconds, callback)
        self.timers.append(timer)
        hand = self

        class Handle:
            when = timer[0]

            def cancel(self) -> None:
                if timer in hand.timers:
                    hand.timers.remove(timer)

        return Handle()

    def turn(self) -> bool:
        """Run the next timer if it is due; whether there was one."""
        due = [timer for timer in self.timers if timer[0] <= self.clock]
        if not due:
            return False
        self.timers.remove(due[0])
        due[0][1]()
        return True


class Channel:
    """A connection that can rest."""

    def __init__(self) -> None:
        self.reads = True
        self.buffered = 0

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class Place:
    """The turns of an MWorker, with a request that takes `cost_s` of the processor for each user."""

    def __init__(self) -> None:
        self.hand = Hand()
        self.turns = RequestScheduler(cast("Any", self.hand), lambda: self.hand.cpu)
        self.done: list[tuple[str, bytes]] = []
        self.cost_s = {"slow": 0.5, "quick": 0.001}

    def line(self, user: str) -> ClientQueue:
        def carry_out(data: bytes) -> None:
            self.done.append((user, data))
            took = self.cost_s.get(user, 0.01)
            self.hand.cpu += took
            self.hand.clock += took

        return ClientQueue(Channel(), user, carry_out)

    def run(self, turns: int) -> list[str]:
        """So many turns; who had them."""
        before = len(self.done)
        for _ in range(turns):
            if not self.hand.turn():
                break
        return [user for user, _data in self.done[before:]]


@pytest.fixture
def place() -> Place:
    return Place()


def test_requests_of_a_connection_are_carried_out_one_a_turn_in_their_order(place: Place) -> None:
    line = place.line("quick")
    place.turns.arrived(line, [b"1", b"2", b"3"])
    assert place.done == []
    assert (place.run(1), cast("Channel", line.channel).reads) == (["quick"], False)
    place.run(5)
    assert [data for _user, data in place.done] == [b"1", b"2", b"3"]
    assert cast("Channel", line.channel).reads
    assert not place.hand.timers


def test_a_request_is_due_until_it_has_run_and_not_while_its_user_has_to_wait(place: Place) -> None:
    assert not place.turns.is_due()
    place.turns.arrived(place.line("slow"), [b"x"] * 9)
    assert place.turns.is_due()
    while place.turns.is_due():
        place.run(1)
    assert place.done
    assert place.hand.timers, "the others wait"
    place.hand.clock = place.hand.timers[0][0]
    assert place.turns.is_due()


def test_who_sends_thousands_keeps_nobody_waiting_for_more_than_one(place: Place) -> None:
    place.turns.arrived(place.line("flood"), [b"x"] * 1000)
    place.run(5)
    place.turns.arrived(place.line("quick"), [b"q"] * 3)
    assert place.run(3) == ["quick"] * 3


def test_many_connections_of_one_user_are_one_user(place: Place) -> None:
    for _ in range(50):
        place.turns.arrived(place.line("flood"), [b"x"] * 10)
    place.turns.arrived(place.line("other"), [b"o"] * 10)
    turns = place.run(20)
    assert 9 <= turns.count("other") <= 10


def test_who_is_over_the_share_waits_and_the_others_do_not(place: Place) -> None:
    place.turns.arrived(place.line("slow"), [b"x"] * 100)
    began = place.hand.clock
    while place.hand.turn():
        pass
    spent = place.cost_s["slow"] * len(place.done)
    assert BURST_S <= spent <= BURST_S * 2
    quick = place.line("quick")
    place.turns.arrived(quick, [b"q"])
    assert place.run(1) == ["quick"]
    # From then on the share of the time that has gone by.
    while place.hand.clock < began + 100:
        if not place.hand.turn():
            place.hand.clock = min(at for at, _callback in place.hand.timers)
    used = sum(place.cost_s[user] for user, _data in place.done if user == "slow")
    assert used == pytest.approx(100 * SHARE + BURST_S, abs=1.0)


def test_streams_take_of_the_same_share(place: Place) -> None:
    assert place.turns.wait_s("slow") == 0.0
    with place.turns.spending("slow"):
        place.hand.cpu += 2 * BURST_S
    assert place.turns.wait_s("slow") == pytest.approx(BURST_S / SHARE)
    assert place.turns.wait_s("quick") == 0.0


def test_what_somebody_has_sent_who_left_is_not_carried_out(place: Place) -> None:
    gone, stays = place.line("gone"), place.line("stays")
    place.turns.arrived(gone, [b"1", b"2"])
    place.turns.arrived(stays, [b"3"])
    place.turns.left(gone)
    place.run(5)
    assert [data for _user, data in place.done] == [b"3"]


def test_time_is_charged_to_the_token_that_a_request_had(place: Place) -> None:
    line = place.line("uid")

    def carry_out(_data: bytes) -> None:
        line.user = "token"
        place.hand.cpu += 2 * BURST_S

    line.carry_out = carry_out
    place.turns.arrived(line, [b"1"])
    place.run(1)
    assert place.turns.wait_s("token") > 0
    assert place.turns.wait_s("uid") == 0.0


def test_greedy_users_leave_connections_to_others_and_operators_are_not_counted() -> None:
    guests = LocalClients()
    for _ in range(1000):
        guests.came(0, 0.0, is_user=False)
    counts = dict.fromkeys((1001, 1002, 1003, 1004), 0)
    for _ in range(1000):
        for uid in counts:
            if not guests.is_full(uid):
                guests.came(uid, 0.0, is_user=True)
                counts[uid] += 1
    assert max(counts.values()) - min(counts.values()) <= 1
    assert not guests.is_full(1005)
    assert USER_CONNECTIONS_MAX / 6 < USER_CONNECTIONS_MAX - sum(counts.values()) < USER_CONNECTIONS_MAX / 4
    for _ in range(counts[1001]):
        guests.went(1001)
    assert not guests.is_full(1002)


def test_a_user_alone_has_half_of_the_connections() -> None:
    guests = LocalClients()
    count = 0
    while not guests.is_full(1001):
        guests.came(1001, 0.0, is_user=True)
        count += 1
    assert count == USER_CONNECTIONS_MAX // 2


def test_requests_wait_while_the_answers_of_their_connection_are_not_read(place: Place) -> None:
    stalled, other = place.line("quick"), place.line("quick")
    channel = cast("Channel", stalled.channel)
    channel.buffered = UNREAD_MAX + 1
    place.turns.arrived(stalled, [b"1"])
    place.turns.arrived(other, [b"2"])
    place.run(5)
    assert [data for _user, data in place.done] == [b"2"]
    channel.buffered = UNREAD_MAX
    place.hand.clock += UNREAD_S
    place.run(5)
    assert [data for _user, data in place.done] == [b"2", b"1"]
    assert channel.reads


def test_few_large_messages_of_one_user_are_held_at_once(place: Place) -> None:
    lines = [place.line("quick") for _ in range(LARGE_PER_USER + 2)]
    channels = [cast("Channel", line.channel) for line in lines]
    for line in lines:
        place.turns.large_began(line)
    assert [channel.reads for channel in channels] == [True] * LARGE_PER_USER + [False, False]
    other = place.line("other")
    place.turns.large_began(other)
    assert cast("Channel", other.channel).reads  # another user has slots too
    place.turns.left(lines[0])  # a connection that ends frees its slot, and so does a request that was carried out
    assert channels[-2].reads
    place.turns.arrived(lines[1], [b"x"])
    place.turns.large_began(lines[1])  # the next one came in the same turn, and takes over the slot
    place.run(5)
    assert [channel.reads for channel in channels[1:]] == [True] * LARGE_PER_USER + [False]
    place.turns.arrived(lines[1], [b"x"])
    place.run(5)
    assert all(channel.reads for channel in channels[1:])


def test_a_large_message_that_waits_is_not_read_because_an_earlier_request_ended(place: Place) -> None:
    lines = [place.line("quick") for _ in range(LARGE_PER_USER + 1)]
    last = cast("Channel", lines[-1].channel)
    for line in lines[:-1]:
        place.turns.large_began(line)
    place.turns.arrived(lines[-1], [b"small"])
    place.turns.large_began(lines[-1])  # it came in the same turn
    place.run(5)
    assert not last.reads
    place.turns.left(lines[0])
    assert last.reads
