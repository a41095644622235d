"""How many handshakes begin a second: in total, and from one network."""

from __future__ import annotations

import pytest

from saltlite.master.protocol import handshakes
from saltlite.master.protocol.handshakes import Handshakes
from saltlite.platform.daemon import ManualClock
from saltlite.wire import frames
from tests.support.keys import FLEET_PUBLIC


class Door:
    """The handshakes of a master with these rates."""

    def __init__(self, *, per_network: float = 10.0) -> None:
        self.clock = ManualClock()
        self._handshakes = Handshakes(
            fleet_public=FLEET_PUBLIC,
            certificate=b"",
            private=b"",
            handshakes_per_address=per_network,
            clock=self.clock,
        )

    def admitted(self, address: str, tries: int) -> int:
        """How many of so many are."""
        return [self._handshakes.query(address) for _ in range(tries)].count(frames.fleet(FLEET_PUBLIC))


def test_an_address_gets_its_rate_and_no_more() -> None:
    door = Door()
    found = []
    for passes_s in (0.0, 0.5, 1000.0):
        door.clock.advance(passes_s)
        found.append(door.admitted("10.0.0.1", 50))
    assert found == [10, 5, 10]


def test_one_address_does_not_use_up_the_rate_of_another() -> None:
    door = Door()
    door.admitted("10.0.0.1", 50)
    assert door.admitted("10.0.0.2", 50) == 10


def test_all_addresses_together_have_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKES_PER_S", 100)
    door = Door()
    assert sum(door.admitted(f"10.0.{n}.1", 10) for n in range(200)) == 100


@pytest.mark.parametrize("other", ["2001:db8:1:2:ffff::7", "2001:db8:1:2::1%eth0"])
def test_addresses_of_one_ipv6_network_share_one_allowance(other: str) -> None:
    door = Door()
    door.admitted("2001:db8:1:2::1", 10)
    assert door.admitted(other, 10) == 0
    assert door.admitted("2001:db8:1:3::1", 10) == 10


def test_an_address_that_cannot_be_read_is_an_address_like_another() -> None:
    assert Door().admitted("not:an:address", 50) == 10


def test_networks_that_tried_long_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "NETWORKS_MAX", 3)
    door = Door(per_network=1.0)
    for address in ("10.0.0.1", "10.0.0.2", "10.0.0.3"):
        door.admitted(address, 1)
    assert door.admitted("10.0.0.1", 1) == 0
    door.admitted("10.0.0.4", 1)
    assert (door.admitted("10.0.0.1", 1), door.admitted("10.0.0.2", 1)) == (0, 1)
