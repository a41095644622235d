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


class ManualReactor:
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
        reactor = self

        class Handle:
            when = timer[0]

            def cancel(self) -> None:
                if timer in reactor.timers:
                    reactor.timers.remove(timer)

        return Handle()

    def turn(self) -> bool:
        """Run the next timer if it is due; whether there was one."""
        due = [timer for timer in self.timers if timer[0] <= self.clock]
        if not due:
            return False
        self.timers.remove(due[0])
        due[0][1]()
        return True


class PausedChannel:
    """A connection that can rest."""

    def __init__(self) -> None:
        self.reads = True
        self.buffered = 0

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True


class SchedulerRig:
    """The turns of an MWorker, with a request that takes `cost_s` of the processor for each user."""

    def __init__(self) -> None:
        self.reactor = ManualReactor()
        self.turns = RequestScheduler(cast("Any", self.reactor), lambda: self.reactor.cpu)
        self.done: list[tuple[str, bytes]] = []
        self.cost_s = {"slow": 0.5, "quick": 0.001}

    def line(self, user: str) -> ClientQueue:
        def carry_out(data: bytes) -> None:
            self.done.append((user, data))
            took = self.cost_s.get(user, 0.01)
            self.reactor.cpu += took
            self.reactor.clock += took

        return ClientQueue(PausedChannel(), user, carry_out)

    def run(self, turns: int) -> list[str]:
        """So many turns; who had them."""
        before = len(self.done)
        for _ in range(turns):
            if not self.reactor.turn():
                break
        return [user for user, _data in self.done[before:]]


@pytest.fixture
def rig() -> SchedulerRig:
    return SchedulerRig()


def test_requests_of_a_connection_are_carried_out_one_a_turn_in_their_order(rig: SchedulerRig) -> None:
    line = rig.line("quick")
    rig.turns.arrived(line, [b"1", b"2", b"3"])
    assert rig.done == []
    assert (rig.run(1), cast("PausedChannel", line.channel).reads) == (["quick"], False)
    rig.run(5)
    assert [data for _user, data in rig.done] == [b"1", b"2", b"3"]
    assert cast("PausedChannel", line.channel).reads
    assert not rig.reactor.timers


def test_a_request_is_due_until_it_has_run_and_not_while_its_user_has_to_wait(rig: SchedulerRig) -> None:
    assert not rig.turns.is_due()
    rig.turns.arrived(rig.line("slow"), [b"x"] * 9)
    assert rig.turns.is_due()
    while rig.turns.is_due():
        rig.run(1)
    assert rig.done
    assert rig.reactor.timers, "the others wait"
    rig.reactor.clock = rig.reactor.timers[0][0]
    assert rig.turns.is_due()


def test_who_sends_thousands_keeps_nobody_waiting_for_more_than_one(rig: SchedulerRig) -> None:
    rig.turns.arrived(rig.line("flood"), [b"x"] * 1000)
    rig.run(5)
    rig.turns.arrived(rig.line("quick"), [b"q"] * 3)
    assert rig.run(3) == ["quick"] * 3


def test_many_connections_of_one_user_are_one_user(rig: SchedulerRig) -> None:
    for _ in range(50):
        rig.turns.arrived(rig.line("flood"), [b"x"] * 10)
    rig.turns.arrived(rig.line("other"), [b"o"] * 10)
    turns = rig.run(20)
    assert 9 <= turns.count("other") <= 10


def test_who_is_over_the_share_waits_and_the_others_do_not(rig: SchedulerRig) -> None:
    rig.turns.arrived(rig.line("slow"), [b"x"] * 100)
    began = rig.reactor.clock
    while rig.reactor.turn():
        pass
    spent = rig.cost_s["slow"] * len(rig.done)
    assert BURST_S <= spent <= BURST_S * 2
    quick = rig.line("quick")
    rig.turns.arrived(quick, [b"q"])
    assert rig.run(1) == ["quick"]
    # From then on the share of the time that has gone by.
    while rig.reactor.clock < began + 100:
        if not rig.reactor.turn():
            rig.reactor.clock = min(at for at, _callback in rig.reactor.timers)
    used = sum(rig.cost_s[user] for user, _data in rig.done if user == "slow")
    assert used == pytest.approx(100 * SHARE + BURST_S, abs=1.0)


def test_streams_take_of_the_same_share(rig: SchedulerRig) -> None:
    assert rig.turns.wait_s("slow") == 0.0
    with rig.turns.spending("slow"):
        rig.reactor.cpu += 2 * BURST_S
    assert rig.turns.wait_s("slow") == pytest.approx(BURST_S / SHARE)
    assert rig.turns.wait_s("quick") == 0.0


def test_what_somebody_has_sent_who_left_is_not_carried_out(rig: SchedulerRig) -> None:
    gone, stays = rig.line("gone"), rig.line("stays")
    rig.turns.arrived(gone, [b"1", b"2"])
    rig.turns.arrived(stays, [b"3"])
    rig.turns.left(gone)
    rig.run(5)
    assert [data for _user, data in rig.done] == [b"3"]


def test_time_is_charged_to_the_token_that_a_request_had(rig: SchedulerRig) -> None:
    line = rig.line("uid")

    def carry_out(_data: bytes) -> None:
        line.user = "token"
        rig.reactor.cpu += 2 * BURST_S

    line.carry_out = carry_out
    rig.turns.arrived(line, [b"1"])
    rig.run(1)
    assert rig.turns.wait_s("token") > 0
    assert rig.turns.wait_s("uid") == 0.0


def test_greedy_users_leave_connections_to_others_and_operators_are_not_counted() -> None:
    clients = LocalClients()
    for _ in range(1000):
        clients.came(0, 0.0, is_user=False)
    counts = dict.fromkeys((1001, 1002, 1003, 1004), 0)
    for _ in range(1000):
        for uid in counts:
            if not clients.is_full(uid):
                clients.came(uid, 0.0, is_user=True)
                counts[uid] += 1
    assert max(counts.values()) - min(counts.values()) <= 1
    assert not clients.is_full(1005)
    assert USER_CONNECTIONS_MAX / 6 < USER_CONNECTIONS_MAX - sum(counts.values()) < USER_CONNECTIONS_MAX / 4
    for _ in range(counts[1001]):
        clients.went(1001)
    assert not clients.is_full(1002)


def test_a_user_alone_has_half_of_the_connections() -> None:
    clients = LocalClients()
    count = 0
    while not clients.is_full(1001):
        clients.came(1001, 0.0, is_user=True)
        count += 1
    assert count == USER_CONNECTIONS_MAX // 2


def test_requests_wait_while_the_answers_of_their_connection_are_not_read(rig: SchedulerRig) -> None:
    stalled, other = rig.line("quick"), rig.line("quick")
    channel = cast("PausedChannel", stalled.channel)
    channel.buffered = UNREAD_MAX + 1
    rig.turns.arrived(stalled, [b"1"])
    rig.turns.arrived(other, [b"2"])
    rig.run(5)
    assert [data for _user, data in rig.done] == [b"2"]
    channel.buffered = UNREAD_MAX
    rig.reactor.clock += UNREAD_S
    rig.run(5)
    assert [data for _user, data in rig.done] == [b"2", b"1"]
    assert channel.reads


def test_few_large_messages_of_one_user_are_held_at_once(rig: SchedulerRig) -> None:
    lines = [rig.line("quick") for _ in range(LARGE_PER_USER + 2)]
    channels = [cast("PausedChannel", line.channel) for line in lines]
    for line in lines:
        rig.turns.large_began(line)
    assert [channel.reads for channel in channels] == [True] * LARGE_PER_USER + [False, False]
    other = rig.line("other")
    rig.turns.large_began(other)
    assert cast("PausedChannel", other.channel).reads  # another user has slots too
    rig.turns.left(lines[0])  # a connection that ends frees its slot, and so does a request that was carried out
    assert channels[-2].reads
    rig.turns.arrived(lines[1], [b"x"])
    rig.turns.large_began(lines[1])  # the next one came in the same turn, and takes over the slot
    rig.run(5)
    assert [channel.reads for channel in channels[1:]] == [True] * LARGE_PER_USER + [False]
    rig.turns.arrived(lines[1], [b"x"])
    rig.run(5)
    assert all(channel.reads for channel in channels[1:])


def test_a_large_message_that_waits_is_not_read_because_an_earlier_request_ended(rig: SchedulerRig) -> None:
    lines = [rig.line("quick") for _ in range(LARGE_PER_USER + 1)]
    last = cast("PausedChannel", lines[-1].channel)
    for line in lines[:-1]:
        rig.turns.large_began(line)
    rig.turns.arrived(lines[-1], [b"small"])
    rig.turns.large_began(lines[-1])  # it came in the same turn
    rig.run(5)
    assert not last.reads
    rig.turns.left(lines[0])
    assert last.reads
