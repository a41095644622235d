"""How many handshakes begin a second: in total, and from one network."""

from __future__ import annotations

from collections import deque

import pytest

from saltlite.master.protocol import handshakes
from saltlite.master.protocol.handshakes import LATEST_S, OPEN_AT_FIRST, OPEN_LEAST, Admission, Handshakes
from saltlite.platform.daemon import ManualClock
from saltlite.wire import frames
from saltlite.wire.limits import HANDSHAKE_TIMEOUT_S, OPEN_HANDSHAKES
from saltlite.wire.noise import Handshake, Role, private_key
from tests.support.keys import FLEET, FLEET_PUBLIC, seed


class HandshakeRig:
    """The handshakes of a master with these rates."""

    def __init__(self, *, per_network: float = 10.0) -> None:
        self.clock = ManualClock()
        self._handshakes = Handshakes(
            fleet_public=FLEET_PUBLIC,
            certificate=b"",
            private=seed("master"),
            handshakes_per_address=per_network,
            clock=self.clock,
        )

    def admitted(self, address: str, tries: int) -> int:
        """How many of so many are."""
        return [self._handshakes.query(address) for _ in range(tries)].count(frames.fleet(FLEET_PUBLIC))


def test_an_address_gets_its_rate_and_no_more() -> None:
    rig = HandshakeRig()
    found = []
    for passes_s in (0.0, 0.5, 1000.0):
        rig.clock.advance(passes_s)
        found.append(rig.admitted("10.0.0.1", 50))
    assert found == [10, 5, 10]


def test_one_address_does_not_use_up_the_rate_of_another() -> None:
    rig = HandshakeRig()
    rig.admitted("10.0.0.1", 50)
    assert rig.admitted("10.0.0.2", 50) == 10


def test_all_addresses_together_have_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKES_PER_S", 100)
    rig = HandshakeRig()
    assert sum(rig.admitted(f"10.0.{n}.1", 10) for n in range(200)) == 100


@pytest.mark.parametrize("other", ["2001:db8:1:2:ffff::7", "2001:db8:1:2::1%eth0"])
def test_addresses_of_one_ipv6_network_share_one_allowance(other: str) -> None:
    rig = HandshakeRig()
    rig.admitted("2001:db8:1:2::1", 10)
    assert rig.admitted(other, 10) == 0
    assert rig.admitted("2001:db8:1:3::1", 10) == 10


def test_an_address_that_cannot_be_read_is_an_address_like_another() -> None:
    assert HandshakeRig().admitted("not:an:address", 50) == 10


def test_networks_that_tried_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "NETWORKS_MAX", 3)
    rig = HandshakeRig(per_network=1.0)
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        rig.admitted(address, 1)
    assert rig.admitted("10.0.0.1", 1) == 0
    rig.admitted("10.0.0.4", 1)
    assert (rig.admitted("10.0.0.1", 1), rig.admitted("10.0.0.2", 1)) == (0, 1)


# -- how many are open at once


class ConnectingMinions:
    """Minions that all want a handshake from a master that finishes so many in a second. They come when they are told
    to, and give up after HANDSHAKE_TIMEOUT_S."""

    def __init__(self, minions: int, per_s: int) -> None:
        self.admission = Admission(0.0)
        self.late = 0
        self.most_open = 0
        self._per_s = per_s
        self._due = [0.0] * minions
        self._open: deque[float] = deque()

    def run(self) -> float:
        """The seconds until all have their verdict."""
        now = 0.0
        while self._due or self._open:
            now += 0.1
            assert now < 1000.0, f"{len(self._due)} are still to come"
            for _ in range(min(len(self._open), self._per_s // 10)):
                self.admission.finished()
                self.late += now - self._open.popleft() > HANDSHAKE_TIMEOUT_S
            self.admission.count(now)
            came, self._due = [at for at in self._due if at <= now], [at for at in self._due if at > now]
            for _ in came:
                if len(self._open) < self.admission.limit:
                    self._open.append(now)
                else:
                    self._due.append(now + self.admission.later(now))
            self.most_open = max(self.most_open, len(self._open))
        return now


@pytest.mark.parametrize("per_s", [60, 200, 900])
def test_many_minions_at_once_have_their_verdicts_in_the_time_that_the_work_takes_and_none_is_lost(per_s: int) -> None:
    minions = ConnectingMinions(3_000, per_s)
    took_s = minions.run()
    assert minions.late == 0
    assert took_s < 1.5 * 3_000 / per_s + LATEST_S / 2


def test_a_master_that_admits_many_minions_at_once_does_most_of_the_work_in_vain() -> None:
    minions = ConnectingMinions(3_000, 60)
    minions.admission.limit = 3_000
    minions.admission.count = lambda now: None  # type: ignore[method-assign]  # it never learns
    minions.run()
    assert minions.late > 2_000


class Strangers:
    """Peers of a master of which each has a network of its own, and that send HELLO and then nothing."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.handshakes = Handshakes(
            fleet_public=FLEET_PUBLIC,
            certificate=b"",
            private=seed("link"),
            handshakes_per_address=10.0,
            clock=self.clock,
        )
        handshake = Handshake(Role.INITIATOR, private_key(seed("stranger")), frames.prologue(FLEET), b"e" * 32)
        hello = frames.parse(frames.hello(handshake.write(b""), FLEET))
        assert isinstance(hello, frames.HelloFrame)
        self._hello = hello
        self._begun: dict[int, float] = {}

    def begin(self, number: int) -> bool:
        """Whether that one has a handshake now. It asks if it has none."""
        now = self.clock.monotonic()
        if now - self._begun.get(number, -1e9) > HANDSHAKE_TIMEOUT_S:
            address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
            answer = self.handshakes.hello(number.to_bytes(4, "big"), number, address, self._hello)
            if not isinstance(frames.parse(answer), frames.ReplyFrame):
                return False
            self._begun[number] = now
        return True


def test_silent_strangers_of_a_few_hundred_networks_keep_newcomers_out_for_a_few_handshakes_only() -> None:
    """Each begins a handshake again as soon as its last one is over, before anybody else asks."""
    strangers = Strangers()
    answered = []
    for second in range(6 * HANDSHAKE_TIMEOUT_S):
        strangers.clock.advance(1.0)
        strangers.handshakes.overdue()
        for number in range(OPEN_AT_FIRST + 50):
            strangers.begin(number)
        newcomer = 60_000 + second
        answered.append(strangers.begin(newcomer))
        strangers.handshakes.give_up(newcomer.to_bytes(4, "big"))
    assert not answered[1], "there was room for all, so this test shows nothing"
    assert all(answered[3 * HANDSHAKE_TIMEOUT_S :])


def test_peers_that_are_refused_at_once_are_not_taken_for_silent_ones() -> None:
    admission = Admission(0.0)
    for _ in range(10_000):
        admission.unproved(0.001)
    assert admission.room(0) <= admission.limit + 1


def test_silent_peers_are_expected_for_a_while_and_the_room_for_all_has_an_end() -> None:
    admission = Admission(0.0)
    admission.unproved(1e6)
    assert admission.room(0) == OPEN_HANDSHAKES
    assert admission.room(96) == OPEN_HANDSHAKES - 96
    admission.unproved(0.0)
    admission.count(HANDSHAKE_TIMEOUT_S)
    admission.count(100.0 * HANDSHAKE_TIMEOUT_S)
    assert admission.room(0) < admission.limit + 10
    assert admission.room(10_000) == 1


def test_a_master_that_finishes_nothing_has_the_least_limit_and_grows_again() -> None:
    admission = Admission(0.0)
    for now in range(1, 60):
        admission.later(float(now))
        admission.count(float(now) + 0.5)
    assert admission.limit == OPEN_LEAST
    assert admission.later(60.0) <= LATEST_S
    # Quick ones of others make it grow again.
    for now in range(60, 80):
        for _ in range(1000):
            admission.finished()
        admission.later(float(now))
        admission.count(now + 1.0)
    assert 3_500 < admission.limit <= OPEN_HANDSHAKES
